//! The feature bits of a version 1 superblock.

use std::fmt;

/// The feature map of a version 1 superblock. Version 0.90 has none; its bitmap and reshape flags
/// are translated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Features(pub u32);

impl Features {
    /// There is an internal bitmap.
    pub const BITMAP: u32 = 1;
    /// The member is being rebuilt; `recovery_offset` says how far.
    pub const RECOVERY_OFFSET: u32 = 1 << 1;
    /// The array is being reshaped.
    pub const RESHAPE: u32 = 1 << 2;
    /// The bad-block log has entries.
    pub const BAD_BLOCKS: u32 = 1 << 3;
    /// The member is to replace the one in the same role.
    pub const REPLACEMENT: u32 = 1 << 4;
    /// The reshape goes from the end to the start.
    pub const RESHAPE_BACKWARDS: u32 = 1 << 5;
    /// The reshape moves the data area.
    pub const NEW_OFFSET: u32 = 1 << 6;
    /// The member is being brought up to date from the bitmap.
    pub const RECOVERY_BITMAP: u32 = 1 << 7;
    /// The bitmap is shared by a cluster.
    pub const CLUSTERED: u32 = 1 << 8;
    /// Writes go through a journal device.
    pub const JOURNAL: u32 = 1 << 9;
    /// There is a partial parity log.
    pub const PPL: u32 = 1 << 10;
    /// There are several partial parity logs, one after another.
    pub const MULTIPLE_PPLS: u32 = 1 << 11;
    /// The layout of a RAID-0 with members of different sizes.
    pub const RAID0_LAYOUT: u32 = 1 << 12;

    const NAMES: [&str; 13] = [
        "bitmap",
        "recovery-offset",
        "reshape",
        "bad-blocks",
        "replacement",
        "reshape-backwards",
        "new-offset",
        "recovery-bitmap",
        "clustered",
        "journal",
        "ppl",
        "multiple-ppls",
        "raid0-layout",
    ];

    /// Returns whether any of `bits` is set.
    #[must_use]
    pub const fn has(self, bits: u32) -> bool {
        self.0 & bits != 0
    }

    /// The bits that have no meaning here.
    #[must_use]
    pub const fn unknown(self) -> u32 {
        self.0 & !((1 << Self::NAMES.len()) - 1)
    }
}

/// The names of the bits that are set, with commas between them; an unknown one by its number.
impl fmt::Display for Features {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut first = true;
        for bit in (0..32).filter(|bit| self.has(1 << bit)) {
            if !std::mem::take(&mut first) {
                f.write_str(",")?;
            }
            match Self::NAMES.get(bit as usize) {
                Some(name) => f.write_str(name)?,
                None => write!(f, "unknown bit {bit}")?,
            }
        }
        if first { f.write_str("none") } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_have_names() {
        assert_eq!(Features(0).to_string(), "none");
        assert_eq!(Features(Features::BITMAP | Features::RAID0_LAYOUT).to_string(), "bitmap,raid0-layout");
        assert_eq!(Features(1 << 13 | 1 << 31).to_string(), "unknown bit 13,unknown bit 31");
        assert_eq!(Features(u32::MAX).unknown(), u32::MAX << 13);
    }
}
