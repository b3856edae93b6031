//! The place of a structure on a device.

use std::fmt;

/// A run of 512-byte sectors of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Area {
    /// First sector, from the start of the device.
    pub start: u64,
    /// Sectors.
    pub sectors: u64,
}

impl Area {
    /// `sectors` sectors from `base + offset` on, or `None` if that is not within
    /// `device_sectors`.
    #[must_use]
    pub fn relative(base: u64, offset: i64, sectors: u64, device_sectors: u64) -> Option<Self> {
        let start = base.checked_add_signed(offset)?;
        (start.checked_add(sectors)? <= device_sectors).then_some(Self { start, sectors })
    }

    /// The sector after the last.
    #[must_use]
    pub const fn end(self) -> u64 {
        self.start.saturating_add(self.sectors)
    }

    /// Returns whether the two share a sector.
    #[must_use]
    pub const fn overlaps(self, other: Self) -> bool {
        self.start < other.end() && other.start < self.end()
    }

    /// The first byte of the device.
    #[must_use]
    pub const fn start_bytes(self) -> u64 {
        self.start.saturating_mul(pumice_base::units::SECTOR)
    }
}

impl fmt::Display for Area {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sectors {}..{}", self.start, self.end())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn areas_stay_on_the_device() {
        assert_eq!(Area::relative(8, 8, 8, 100), Some(Area { start: 16, sectors: 8 }));
        assert_eq!(Area::relative(100, -8, 8, 100), Some(Area { start: 92, sectors: 8 }));
        assert_eq!(Area::relative(8, -9, 8, 100), None);
        assert_eq!(Area::relative(8, 85, 8, 100), None);
        assert_eq!(Area::relative(u64::MAX, 1, 8, u64::MAX), None);
    }

    #[test]
    fn neighbours_do_not_overlap() {
        let area = |start, sectors| Area { start, sectors };
        assert!(!area(0, 8).overlaps(area(8, 8)));
        assert!(area(0, 9).overlaps(area(8, 8)));
        assert!(!area(5, 0).overlaps(area(5, 0)));
    }
}
