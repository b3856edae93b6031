//! The four formats of md's superblock, and the place of each.

use std::fmt;

use pumice_base::units::SECTOR;

/// A format of the superblock, which is also its place on the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Metadata {
    /// The old format: 4096 bytes at the start of the last whole, aligned 64 KiB of the device, in
    /// the byte order of the host.
    V0_90,
    /// Version 1 near the end of the device.
    V1_0,
    /// Version 1 at the start of the device.
    V1_1,
    /// Version 1, 4096 bytes from the start of the device: mdadm's default.
    V1_2,
}

/// Sectors of 64 KiB, the alignment of the 0.90 superblock.
const RESERVED_0_90: u64 = 128;

impl Metadata {
    /// All of them, in the order in which a device is searched.
    pub const ALL: [Self; 4] = [Self::V1_1, Self::V1_2, Self::V1_0, Self::V0_90];

    /// The sector at which a device of `device_sectors` sectors has this superblock, or `None`
    /// where the device is too small to have one.
    #[must_use]
    pub const fn super_sector(self, device_sectors: u64) -> Option<u64> {
        match self {
            Self::V0_90 => (device_sectors & !(RESERVED_0_90 - 1)).checked_sub(RESERVED_0_90),
            Self::V1_0 => match device_sectors.checked_sub(16) {
                Some(sector) => Some(sector & !7),
                None => None,
            },
            Self::V1_1 => at(0, device_sectors),
            Self::V1_2 => at(8, device_sectors),
        }
    }

    /// The same as [`Metadata::super_sector`], in bytes.
    #[must_use]
    pub const fn super_offset(self, device_bytes: u64) -> Option<u64> {
        match self.super_sector(device_bytes / SECTOR) {
            // A sector within a device whose size fits 64 bits in bytes.
            Some(sector) => Some(sector * SECTOR),
            None => None,
        }
    }

    /// The name of the structure in messages.
    #[must_use]
    pub(crate) const fn structure(self) -> &'static str {
        match self {
            Self::V0_90 => "superblock 0.90",
            Self::V1_0 => "superblock 1.0",
            Self::V1_1 => "superblock 1.1",
            Self::V1_2 => "superblock 1.2",
        }
    }
}

/// `sector`, where a superblock of up to 4096 bytes fits there.
const fn at(sector: u64, device_sectors: u64) -> Option<u64> {
    if sector + 8 <= device_sectors { Some(sector) } else { None }
}

impl fmt::Display for Metadata {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::V0_90 => "0.90",
            Self::V1_0 => "1.0",
            Self::V1_1 => "1.1",
            Self::V1_2 => "1.2",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_those_of_the_format() {
        let sectors = 24 * 2048;
        assert_eq!(Metadata::V0_90.super_sector(sectors), Some(49024));
        assert_eq!(Metadata::V1_0.super_sector(sectors), Some(49136));
        assert_eq!(Metadata::V1_1.super_sector(sectors), Some(0));
        assert_eq!(Metadata::V1_2.super_offset(sectors * 512 + 511), Some(4096));
        // A size that is no multiple of anything.
        assert_eq!(Metadata::V0_90.super_sector(49279), Some(49024));
        assert_eq!(Metadata::V1_0.super_sector(49151), Some(49128));
    }

    #[test]
    fn a_device_too_small_has_no_place() {
        for metadata in Metadata::ALL {
            assert_eq!(metadata.super_sector(0), None, "{metadata}");
            assert_eq!(metadata.super_sector(7), None, "{metadata}");
        }
        assert_eq!(Metadata::V0_90.super_sector(127), None);
        assert_eq!(Metadata::V0_90.super_sector(128), Some(0));
        assert_eq!(Metadata::V1_2.super_sector(15), None);
        assert_eq!(Metadata::V1_2.super_sector(16), Some(8));
        assert_eq!(Metadata::V1_0.super_sector(u64::MAX), Some((u64::MAX - 16) & !7));
    }
}
