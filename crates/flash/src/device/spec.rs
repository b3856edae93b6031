//! The name of a drive: `PATH[,capacity=SIZE][,op=PERCENT][,dedup=SCHEME]`.

use crate::device::error::FlashError;
use crate::ftl::Scheme;
use pumice_base::units::parse_size;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// Overprovisioning of a new drive unless it is given, in hundredths of a percent.
pub(crate) const USUAL_OP: u32 = 700;
/// The most that may be asked for.
const MOST_OP: u32 = 100_000;

/// A drive as it is named, and what is asked of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FlashSpec {
    /// The file or device.
    pub path: PathBuf,
    /// Bytes that hosts see.
    pub capacity: Option<u64>,
    /// Overprovisioning, in hundredths of a percent.
    pub op: Option<u32>,
    /// The treatment of duplicates.
    pub dedup: Option<Scheme>,
}

impl FlashSpec {
    /// The drive at a path, as it is.
    #[must_use]
    pub fn at(path: PathBuf) -> Self {
        Self { path, capacity: None, op: None, dedup: None }
    }

    /// Refuses the name of a new drive if a part of its path looks like an option.
    pub(crate) fn check_name(&self) -> Result<(), FlashError> {
        let name = self.path.to_string_lossy();
        let option = |part: &&str| {
            let name = part.split_once('=').map_or("", |(name, _)| name);
            !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_lowercase())
        };
        name.split(',').skip(1).find(option).map_or(Ok(()), |option| Err(unknown(option)))
    }
}

fn unknown(option: &str) -> FlashError {
    let why = format!("'{option}' is none of capacity=SIZE, op=PERCENT%, dedup=SCHEME");
    FlashError::Field { field: "flash", why }
}

/// A percentage such as `7%` or `12.5%`, in hundredths of a percent.
fn percent(text: &str) -> Option<u32> {
    let number = text.strip_suffix('%').unwrap_or(text);
    let (whole, part) = number.split_once('.').unwrap_or((number, ""));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || part.len() > 2 || !digits(whole) || !digits(part) {
        return None;
    }
    let whole: u32 = whole.parse().ok()?;
    let part: u32 = format!("{part:0<2}").parse().ok()?;
    whole.checked_mul(100)?.checked_add(part).filter(|op| *op <= MOST_OP)
}

/// Overprovisioning as people write it.
#[must_use]
pub fn format_op(op: u32) -> String {
    match op % 100 {
        0 => format!("{}%", op / 100),
        part => format!("{}.{part:02}%", op / 100),
    }
}

/// A drive without the `flash:` of a node's configuration. A file of that name is `./flash:NAME`.
#[must_use]
pub fn bare(text: &str) -> &str {
    text.strip_prefix("flash:").unwrap_or(text)
}

impl FromStr for FlashSpec {
    type Err = FlashError;

    /// A comma belongs to the path unless one of the options follows it. `flash:` before the path,
    /// as a node's configuration has it, may be there.
    fn from_str(text: &str) -> Result<Self, FlashError> {
        let text = bare(text);
        let starts = [",capacity=", ",op=", ",dedup="].into_iter().filter_map(|option| text.find(option));
        let (path, options) = text.split_at(starts.min().unwrap_or(text.len()));
        let field = |field, why: String| FlashError::Field { field, why };
        if path.is_empty() {
            return Err(field("flash", "the path is missing".to_owned()));
        }
        let mut spec = Self::at(path.into());
        let twice = |name| field(name, "it is given twice".to_owned());
        for option in options.split(',').skip(1) {
            match option.split_once('=') {
                Some(("capacity", size)) => {
                    let size = parse_size(size).map_err(|error| field("capacity", error.to_string()))?;
                    if spec.capacity.replace(size).is_some() {
                        return Err(twice("capacity"));
                    }
                }
                Some(("op", text)) => {
                    let why = || field("op", format!("'{text}' is no percentage from 0% to 1000%"));
                    if spec.op.replace(percent(text).ok_or_else(why)?).is_some() {
                        return Err(twice("op"));
                    }
                }
                Some(("dedup", name)) => {
                    let scheme = name.parse().map_err(|why| field("dedup", why))?;
                    if spec.dedup.replace(scheme).is_some() {
                        return Err(twice("dedup"));
                    }
                }
                _ => return Err(unknown(option)),
            }
        }
        Ok(spec)
    }
}

impl fmt::Display for FlashSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.path.display().fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_drive_is_read_and_wrong_options_are_named() {
        let parse = |text: &str| text.parse::<FlashSpec>();
        assert_eq!(parse("/a,b").unwrap(), FlashSpec::at("/a,b".into()));
        let whole = parse("/f,capacity=8MiB,op=7.5%,dedup=separated").unwrap();
        let expected = FlashSpec {
            path: "/f".into(),
            capacity: Some(8 << 20),
            op: Some(750),
            dedup: Some(Scheme::Separated),
        };
        assert_eq!(whole, expected);
        assert_eq!(parse("flash:/a,b").unwrap(), FlashSpec::at("/a,b".into()));
        assert_eq!(parse("./flash:a").unwrap(), FlashSpec::at("./flash:a".into()));
        assert_eq!(parse("/f,op=28").unwrap().op, Some(2800));
        for (text, word) in [
            ("", "path"),
            (",op=7%", "path"),
            ("flash:", "path"),
            ("/f,capacity=x", "capacity: "),
            ("/f,op=x", "op: "),
            ("/f,op=7.123%", "op: "),
            ("/f,op=1001%", "op: "),
            ("/f,op=%", "op: "),
            ("/f,dedup=all", "dedup: "),
            ("/f,op=7%,op=8%", "op: it is given twice"),
            ("/f,op=7%,size=3", "'size=3'"),
        ] {
            let why = parse(text).unwrap_err().to_string();
            assert!(why.contains(word), "{text}: {why}");
        }
        // Of a drive that is to be made.
        let new = |text: &str| parse(text).unwrap().check_name().map_err(|error| error.to_string());
        assert_eq!(new("/a,b/c=d,e,capacity=1MiB"), Ok(()));
        let why = new("/f,opp=20%,capacity=1MiB").unwrap_err();
        assert!(why.contains("'opp=20%'"), "{why}");
        assert_eq!([700, 750, 2805].map(format_op), ["7%", "7.50%", "28.05%"]);
    }
}
