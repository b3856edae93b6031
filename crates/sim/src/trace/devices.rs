//! The devices of a trace.

use super::error::Wrong;
use std::collections::HashMap;

/// Devices of one trace, at most.
const DEVICES: usize = 65_536;
/// Bytes of a name, at most.
const NAME: usize = 255;

/// The devices of a trace, numbered as they appear.
#[derive(Debug, Clone, Default)]
pub struct Devices {
    /// Names, with another name each or an empty one.
    names: Vec<(Vec<u8>, Vec<u8>)>,
    numbers: HashMap<Vec<u8>, u32>,
    last: u32,
}

impl Devices {
    pub(super) fn number(
        &mut self,
        field: &'static str,
        name: &[u8],
        alias: Option<&[u8]>,
    ) -> Result<u32, Wrong> {
        if self.names.get(self.last as usize).is_none_or(|(n, _)| n != name) {
            self.last = match self.numbers.get(name) {
                Some(&found) => found,
                None => self.add(field, name, alias)?,
            };
        }
        Ok(self.last)
    }

    fn add(&mut self, field: &'static str, name: &[u8], alias: Option<&[u8]>) -> Result<u32, Wrong> {
        if self.names.len() == DEVICES {
            return Err(Wrong::new(field, "more than 65536 devices: this is no trace of drives"));
        }
        if name.len() > NAME {
            return Err(Wrong::new(field, format!("a name of more than {NAME} bytes")));
        }
        // Names are printed, and stand in figures.
        if name.iter().any(u8::is_ascii_control) {
            return Err(Wrong::new(field, "a name with control characters"));
        }
        let number = self.names.len() as u32;
        self.names.push((name.to_vec(), alias.unwrap_or_default().to_vec()));
        self.numbers.insert(name.to_vec(), number);
        Ok(number)
    }

    /// Their names in the trace, by number.
    pub(super) fn names(&self) -> impl Iterator<Item = &[u8]> {
        self.names.iter().map(|(name, _)| &name[..])
    }

    /// Number of devices that have appeared.
    #[must_use]
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// Returns whether none has.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// A device's name.
    #[must_use]
    pub fn name(&self, device: u32) -> String {
        let name = self.names.get(device as usize).map_or(&[][..], |(n, _)| n);
        String::from_utf8_lossy(name).into_owned()
    }

    /// The device with a name (or, in MSR traces, with a disk number).
    #[must_use]
    pub fn find(&self, name: &str) -> Option<u32> {
        let name = name.as_bytes();
        let alias = || self.names.iter().position(|(_, a)| a == name).map(|i| i as u32);
        self.numbers.get(name).copied().or_else(alias)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_numbered_as_they_appear_and_bounded() {
        let mut devices = Devices::default();
        let mut number = |name: &[u8]| devices.number("dev", name, Some(b"1"));
        assert_eq!([number(b"a").ok(), number(b"b").ok(), number(b"a").ok()], [Some(0), Some(1), Some(0)]);
        assert!(number(&[b'x'; NAME]).is_ok());
        assert!(number(&[b'x'; NAME + 1]).is_err_and(|wrong| wrong.what.contains("255 bytes")));
        assert!(number(b"\x1b[31m").is_err_and(|wrong| wrong.what.contains("control")));
        assert_eq!((devices.find("b"), devices.find("1"), devices.find("2")), (Some(1), Some(0), None));
        for i in devices.len()..DEVICES {
            assert!(devices.number("dev", i.to_string().as_bytes(), None).is_ok());
        }
        assert!(devices.number("dev", b"one more", None).is_err());
    }
}
