//! The 128-bit names that md gives to arrays and devices.

use std::fmt;

/// The UUID of an array or a device.
///
/// The bytes are in the order in which mdadm prints them: for version 1.x the order on disk, for 0.90 each of the four
/// words turned round (that format keeps them as little-endian numbers and mdadm prints the numbers).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Uuid(pub [u8; 16]);

impl Uuid {
    /// Turns each 32-bit word round: from the order of printing to that of a 0.90 superblock, and back.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prints_as_mdadm_does() {
        let uuid = Uuid(std::array::from_fn(|i| i as u8 * 0x11));
        assert_eq!(uuid.to_string(), "00112233:44556677:8899aabb:ccddeeff");
        assert_eq!(uuid.swap_words().to_string(), "33221100:77665544:bbaa9988:ffeeddcc");
        assert_eq!(uuid.swap_words().swap_words(), uuid);
    }
}
