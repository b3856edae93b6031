//! The ids of groups, physical volumes and logical volumes.

use std::fmt;

/// Places of the dashes in the written form, in characters without dashes.
const ENDS: [usize; 8] = [0, 6, 10, 14, 18, 22, 26, 32];

/// An id: 32 letters and digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Id([u8; 32]);

impl Id {
    /// An id as headers hold it, without dashes; `None` if another character is in it.
    #[must_use]
    pub fn from_bytes(bytes: [u8; 32]) -> Option<Self> {
        bytes.iter().all(u8::is_ascii_alphanumeric).then_some(Self(bytes))
    }

    /// An id as the text writes it, in groups of 6, 4, 4, 4, 4, 4 and 6 characters; `None` for any
    /// other form.
    #[must_use]
    pub fn from_text(text: &str) -> Option<Self> {
        let mut parts = text.split('-');
        let mut bytes = [0; 32];
        for ends in ENDS.windows(2) {
            let part = parts.next()?;
            bytes
                .get_mut(ends[0]..ends[1])
                .filter(|to| to.len() == part.len())?
                .copy_from_slice(part.as_bytes());
        }
        if parts.next().is_some() { None } else { Self::from_bytes(bytes) }
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, byte) in self.0.iter().enumerate() {
            if i > 0 && ENDS.contains(&i) {
                f.write_str("-")?;
            }
            write!(f, "{}", char::from(*byte))?;
        }
        Ok(())
    }
}

impl fmt::Debug for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_name_the_same() {
        let text = "WKaglh-mrFO-wH26-3BcF-RLVW-Bu2R-IZxSWp";
        let id = Id::from_text(text).unwrap();
        assert_eq!(id.to_string(), text);
        let bytes: Vec<u8> = text.bytes().filter(|b| *b != b'-').collect();
        assert_eq!(Id::from_bytes(bytes.try_into().unwrap()), Some(id));
    }

    #[test]
    fn other_forms_are_refused() {
        for text in [
            "",
            "WKaglh",
            "WKaglhmrFOwH263BcFRLVWBu2RIZxSWp",
            "WKaglh-mrFO-wH26-3BcF-RLVW-Bu2R-IZxSWp-",
            "WKaglh-mrFO-wH26-3BcF-RLVW-Bu2R-IZxSW",
            "WKagl-hmrFO-wH26-3BcF-RLVW-Bu2R-IZxSWp",
            "WKaglh-mrFO-wH26-3BcF-RLVW-Bu2R-IZxSW+",
            "WKaglh-mrFO-wH26-3BcF-RLVW-Bu2R-IZxSä",
        ] {
            assert_eq!(Id::from_text(text), None, "{text}");
        }
    }
}
