//! The 128-bit names that md gives to arrays and devices.

use std::fmt;
use std::str::FromStr;

/// The UUID of an array or a device.
///
/// The bytes are in the order in which mdadm prints them: for version 1.x the order on disk, for
/// 0.90 each of the four words turned round (that format keeps them as little-endian numbers and
/// mdadm prints the numbers).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Uuid(pub [u8; 16]);

impl Uuid {
    /// Turns each 32-bit word round: from the order of printing to that of a 0.90 superblock, and
    /// back.
    #[must_use]
    pub fn swap_words(self) -> Self {
        let mut out = self.0;
        for word in out.chunks_exact_mut(4) {
            word.reverse();
        }
        Self(out)
    }
}

/// mdadm's form: four groups of eight hexadecimal digits with colons between them.
impl fmt::Display for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, byte) in self.0.iter().enumerate() {
            if i != 0 && i % 4 == 0 {
                f.write_str(":")?;
            }
            write!(f, "{byte:02x}")?;
        }
        Ok(())
    }
}

/// Text that is no UUID in mdadm's form.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is not a UUID: write it as mdadm prints it, 00112233:44556677:8899aabb:ccddeeff")]
pub struct NoUuid(String);

impl FromStr for Uuid {
    type Err = NoUuid;

    fn from_str(text: &str) -> Result<Self, NoUuid> {
        let wrong = || NoUuid(text.to_owned());
        let groups: Vec<&str> = text.split(':').collect();
        if groups.len() != 4 || groups.iter().any(|group| group.len() != 8) {
            return Err(wrong());
        }
        let mut out = [0; 16];
        for (word, group) in out.chunks_exact_mut(4).zip(groups) {
            // `from_str_radix` takes a sign as well.
            let digits = group.bytes().all(|byte| byte.is_ascii_hexdigit());
            let value = u32::from_str_radix(group, 16).ok().filter(|_| digits).ok_or_else(wrong)?;
            word.copy_from_slice(&value.to_be_bytes());
        }
        Ok(Self(out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prints_as_mdadm_does() {
        let uuid = Uuid(std::array::from_fn(|i| i as u8 * 0x11));
        assert_eq!(uuid.to_string(), "00112233:44556677:8899aabb:ccddeeff");
        assert_eq!(uuid.to_string().parse(), Ok(uuid));
        for wrong in
            ["", "0:0:0:0", "00112233:44556677:8899aabb:ccddeef", "+0112233:44556677:8899aabb:ccddeeff"]
        {
            assert!(wrong.parse::<Uuid>().is_err(), "{wrong}");
        }
        assert_eq!(uuid.swap_words().to_string(), "33221100:77665544:bbaa9988:ffeeddcc");
        assert_eq!(uuid.swap_words().swap_words(), uuid);
    }
}
