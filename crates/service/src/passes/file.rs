//! The pass file of a run.

use crate::failure::Failure;
use pumice_base::durable::{Folder, Store, replace};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// The version of the file.
const FORMAT: u64 = 1;
/// The folder of pass files in a state folder.
const FOLDER: &str = "passes";

/// The folder of pass files of a state folder.
#[must_use]
pub fn passes_of(state: &Path) -> PathBuf {
    state.join(FOLDER)
}

/// Microseconds since 1970.
#[must_use]
pub(crate) fn now_us() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX).min(1 << 53)
}

/// The place of the pass file of a run, and the run's identity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PassPlace {
    path: PathBuf,
    pass: String,
    by: String,
    begun_us: u64,
}

/// The file.
#[derive(Serialize)]
struct Whole<'w> {
    format: u64,
    pass: &'w str,
    by: &'w str,
    begun_us: u64,
    ended_us: u64,
    checked: Vec<Part>,
    report: &'w RawValue,
}

#[derive(Serialize)]
struct Part {
    start: u64,
    end: u64,
    at_us: u64,
}

/// Fields of a report that the file repeats.
#[derive(Deserialize)]
struct Judged {
    begun: u64,
    checked: Vec<Stripes>,
}

#[derive(Deserialize)]
struct Stripes {
    start: u64,
    end: u64,
}

/// 32 hexadecimal digits that nobody could have known before.
pub(crate) fn identity() -> Result<String, Failure> {
    let mut bytes = [0; 16];
    File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut bytes))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

fn is_identity(text: &str) -> bool {
    text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b'a'..=b'f'))
}

impl PassPlace {
    /// The place of a run that begins now: the named file, else a new name in the folder of pass
    /// files of `state`, if there is one. `None` if there is none.
    ///
    /// # Errors
    /// If the system gives no random bytes.
    pub fn of(named: Option<&Path>, state: Option<&Path>, by: &str) -> Result<Option<Self>, Failure> {
        let (path, pass) = match (named, state.map(passes_of).filter(|folder| folder.is_dir())) {
            (Some(path), _) => {
                let stem = path.file_stem().and_then(|stem| stem.to_str()).filter(|stem| is_identity(stem));
                (path.to_owned(), stem.map_or_else(identity, |stem| Ok(stem.to_owned()))?)
            }
            (None, Some(folder)) => {
                let pass = identity()?;
                (folder.join(format!("{pass}.json")), pass)
            }
            (None, None) => return Ok(None),
        };
        Ok(Some(Self { path, pass, by: by.to_owned(), begun_us: now_us() }))
    }

    /// Writes the file of a run that has ended, from the JSON document of its report. It is durable
    /// afterwards.
    ///
    /// # Errors
    /// If it cannot be written, or the document is none.
    pub fn write(&self, document: &str) -> Result<(), Failure> {
        let wrong = |what: &dyn std::fmt::Display| {
            Failure::new(format!("{}: the pass file cannot be written: {what}", self.path.display()))
        };
        let report: &RawValue = serde_json::from_str(document.trim()).map_err(|error| wrong(&error))?;
        let judged: Judged = serde_json::from_str(report.get()).map_err(|error| wrong(&error))?;
        // No stripe was judged before the pass began, and no clock is trusted more than that.
        let ended_us = now_us().max(self.begun_us);
        let at_us = judged.begun.saturating_mul(1_000_000).min(ended_us);
        let part = |part: Stripes| Part { start: part.start, end: part.end, at_us };
        let whole = Whole {
            format: FORMAT,
            pass: &self.pass,
            by: &self.by,
            begun_us: self.begun_us,
            ended_us,
            checked: judged.checked.into_iter().map(part).collect(),
            report,
        };
        let bytes = serde_json::to_vec(&whole).map_err(|error| wrong(&error))?;
        let (folder, name) = Folder::of(&self.path).map_err(|error| wrong(&error))?;
        replace(&folder, &name, &bytes).and_then(|()| folder.sync_folder()).map_err(|error| wrong(&error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pumice_monitor::history::PassFile;

    #[test]
    fn a_file_is_one_that_the_history_reads() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(PassPlace::of(None, Some(folder.path()), "a test").unwrap(), None, "no folder, no file");
        std::fs::create_dir(passes_of(folder.path())).unwrap();
        let place = PassPlace::of(None, Some(folder.path()), "a test").unwrap().unwrap();
        let report = serde_json::json!({
            "array": {"uuid": "01234567:89abcdef:01234567:89abcdef", "name": "md0", "level": 6, "layout": null,
                "metadata": "1.2", "chunk_bytes": 65536, "raid_disks": 5, "stripes": 40},
            "method": "stripe", "result": "incomplete", "incomplete": ["stopped"], "stopped": "interrupted",
            "range": {"start": 0, "end": 40}, "parts": [{"start": 20, "end": 40}, {"start": 0, "end": 7}],
            "checked": [{"start": 0, "end": 3}, {"start": 20, "end": 40}], "begun": 1_700_000_000,
            "read": [{"role": 0, "device": "/dev/sda", "device_uuid": "u"}], "degraded": false,
            "stripes_checked": 23, "stripes_skipped": 0, "stripes_rechecked": 0, "bytes_checked": 1,
            "findings": [], "seconds": 0.5,
        });
        place.write(&format!("{report}\n")).unwrap();
        let bytes = std::fs::read(&place.path).unwrap();
        let file = PassFile::parse("the file", &bytes).unwrap();
        assert_eq!((file.pass.as_str(), file.by.as_str()), (place.pass.as_str(), "a test"));
        assert_eq!(place.path, passes_of(folder.path()).join(format!("{}.json", file.pass)));
        assert_eq!(file.document.get(), report.to_string());
        let parts: Vec<(u64, u64, i64)> =
            file.checked.iter().map(|part| (part.start.get(), part.end.get(), part.at_us.micros())).collect();
        assert_eq!(parts, [(0, 3, 1_700_000_000_000_000), (20, 40, 1_700_000_000_000_000)]);
        assert!(!file.report.is_complete());
        assert!(place.write("text").unwrap_err().to_string().contains("cannot be written"));
    }

    #[test]
    fn a_name_of_32_digits_is_the_identity() {
        let id = "0123456789abcdef0123456789abcdef";
        let named = |name: &str| PassPlace::of(Some(Path::new(name)), None, "").unwrap().unwrap().pass;
        assert_eq!(named(&format!("/tmp/{id}.json")), id);
        assert_ne!(named("/tmp/file.json"), named("/tmp/file.json"));
        assert!(is_identity(&named("/tmp/0123.json")));
    }
}
