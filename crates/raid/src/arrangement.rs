//! The arrangement of an array of any level on its members.

use std::fmt;
use std::ops::Range;

use pumice_base::units::SECTOR;
use pumice_parity::array_layout::ArrayLayout;

use crate::geometry::Geometry;
use crate::layout::{Layout, Level};
use crate::mirrors::Mirrors;

/// Rotating parity, or copies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Arrangement {
    /// RAID-4, 5, 6.
    Parity(Geometry),
    /// RAID-1, 10.
    Mirrors(Mirrors),
}

impl Arrangement {
    /// The geometry, of levels with parity.
    #[must_use]
    pub const fn parity(&self) -> Option<&Geometry> {
        match self {
            Self::Parity(geometry) => Some(geometry),
            Self::Mirrors(_) => None,
        }
    }

    /// The level.
    #[must_use]
    pub const fn level(&self) -> Level {
        match self {
            Self::Parity(geometry) => geometry.level(),
            Self::Mirrors(mirrors) => mirrors.level(),
        }
    }

    /// The layout; `None` for RAID-1 and RAID-4.
    #[must_use]
    pub fn layout(&self) -> Option<Layout> {
        match self {
            Self::Parity(geometry) => geometry.layout(),
            Self::Mirrors(mirrors) => mirrors.copies().map(Layout::Copies),
        }
    }

    /// Members.
    #[must_use]
    pub const fn raid_disks(&self) -> u16 {
        match self {
            Self::Parity(geometry) => geometry.raid_disks(),
            Self::Mirrors(mirrors) => mirrors.raid_disks(),
        }
    }

    /// Bytes of a chunk; for RAID-1, which has none, bytes of a stripe on a member.
    #[must_use]
    pub fn chunk_bytes(&self) -> u64 {
        match self {
            Self::Parity(geometry) => geometry.chunk_bytes(),
            Self::Mirrors(mirrors) => u64::from(mirrors.layout().chunk_bytes()),
        }
    }

    /// Stripes of the array.
    #[must_use]
    pub fn stripes(&self) -> u64 {
        match self {
            Self::Parity(geometry) => geometry.stripes(),
            Self::Mirrors(mirrors) => mirrors.layout().stripes(),
        }
    }

    /// Bytes of the array.
    #[must_use]
    pub const fn array_bytes(&self) -> u64 {
        match self {
            Self::Parity(geometry) => geometry.array_bytes(),
            Self::Mirrors(mirrors) => mirrors.array_bytes(),
        }
    }

    /// The same layout, without parts that are specific to md.
    #[must_use]
    pub fn array_layout(&self) -> ArrayLayout {
        match self {
            Self::Parity(geometry) => geometry.array_layout(),
            Self::Mirrors(mirrors) => mirrors.layout().clone(),
        }
    }

    /// Number of stripes, from the first, for which a member is valid if `valid` of its `size`
    /// sectors are. On mirrors, a member that is being rebuilt is not used at all, because its
    /// stripes are not in the order of its sectors.
    pub(crate) fn valid_stripes(&self, valid: u64, size: u64) -> u64 {
        match self {
            _ if valid >= size => self.stripes(),
            Self::Parity(geometry) => (valid / (geometry.chunk_bytes() / SECTOR)).min(geometry.stripes()),
            Self::Mirrors(_) => 0,
        }
    }

    /// The stripes that touch these sectors of a member's data area.
    pub(crate) fn stripes_of_member(&self, role: usize, sectors: Range<u64>) -> Vec<Range<u64>> {
        match self {
            Self::Parity(geometry) => vec![geometry.stripes_of_sectors(sectors.start, sectors.end)],
            Self::Mirrors(mirrors) => mirrors.stripes_of_member(role, sectors),
        }
    }

    /// The stripes that touch these sectors, in the units of a resync: sectors of the array for
    /// RAID-10, of each member for the other levels.
    pub(crate) fn stripes_of_resync(&self, sectors: Range<u64>) -> Vec<Range<u64>> {
        match self {
            Self::Parity(geometry) => vec![geometry.stripes_of_sectors(sectors.start, sectors.end)],
            Self::Mirrors(mirrors) => mirrors.stripes_of_array(sectors),
        }
    }

    /// Returns whether some stripe can be checked without these roles.
    pub(crate) fn is_checkable_without(&self, missing: &[usize]) -> bool {
        match self {
            Self::Parity(geometry) => missing.len() < usize::from(geometry.level().parities()),
            Self::Mirrors(mirrors) => {
                let lone = mirrors.stripes_without_a_second_copy(missing);
                lone.iter().map(|range| range.end - range.start).sum::<u64>() < mirrors.layout().stripes()
            }
        }
    }
}

impl fmt::Display for Arrangement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Parity(geometry) => geometry.fmt(f),
            Self::Mirrors(mirrors) => {
                write!(f, "{}", mirrors.level())?;
                mirrors.copies().map_or(Ok(()), |copies| write!(f, " {copies}"))?;
                write!(f, ", {} members", mirrors.raid_disks())
            }
        }
    }
}
