//! RAID levels, and the layouts by which they rotate parity over the members.

use std::fmt;
use std::str::FromStr;

use pumice_parity::array_layout::MAX_COPIES;

use crate::copies::{Copies, MAX_RAID10_DISKS};

/// A level with redundancy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    /// Copies on every member.
    Raid1,
    /// One parity, always on the last member.
    Raid4,
    /// One parity, its place given by the layout.
    Raid5,
    /// Two parities.
    Raid6,
    /// Copies, spread over the members.
    Raid10,
}

impl Level {
    /// The number in the superblock.
    #[must_use]
    pub const fn number(self) -> i32 {
        match self {
            Self::Raid1 => 1,
            Self::Raid4 => 4,
            Self::Raid5 => 5,
            Self::Raid6 => 6,
            Self::Raid10 => 10,
        }
    }

    /// The level with this number, if it has redundancy and is supported.
    #[must_use]
    pub const fn from_number(number: i32) -> Option<Self> {
        match number {
            1 => Some(Self::Raid1),
            4 => Some(Self::Raid4),
            5 => Some(Self::Raid5),
            6 => Some(Self::Raid6),
            10 => Some(Self::Raid10),
            _ => None,
        }
    }

    /// Returns whether its redundancy is copies rather than parity.
    #[must_use]
    pub const fn is_mirror(self) -> bool {
        matches!(self, Self::Raid1 | Self::Raid10)
    }

    /// Parity chunks in a stripe, which is also the number of members that can be missing; none for
    /// copies.
    #[must_use]
    pub const fn parities(self) -> u16 {
        match self {
            Self::Raid1 | Self::Raid10 => 0,
            Self::Raid4 | Self::Raid5 => 1,
            Self::Raid6 => 2,
        }
    }

    /// The fewest members that md makes such an array of: one data member for RAID-4 and RAID-5,
    /// two for RAID-6.
    #[must_use]
    pub const fn min_disks(self) -> u16 {
        match self {
            Self::Raid1 | Self::Raid4 | Self::Raid5 | Self::Raid10 => 2,
            Self::Raid6 => 4,
        }
    }

    /// The most members: the role table of a superblock has 1920 entries; the 255 powers of the
    /// generator of GF(2^8) bound RAID-6, where the DDF layouts use the member's number as the
    /// exponent. Of RAID-1, as many copies as can be compared.
    #[must_use]
    pub const fn max_disks(self) -> u16 {
        match self {
            Self::Raid1 => MAX_COPIES as u16,
            Self::Raid4 | Self::Raid5 => 1920,
            Self::Raid6 => 255,
            Self::Raid10 => MAX_RAID10_DISKS,
        }
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "raid{}", self.number())
    }
}

impl FromStr for Level {
    type Err = UnknownName;

    fn from_str(text: &str) -> Result<Self, UnknownName> {
        let number = text.strip_prefix("raid").unwrap_or(text).parse().ok();
        number.and_then(Self::from_number).ok_or_else(|| UnknownName { kind: "level", name: text.to_owned() })
    }
}

/// A text that is not a level or layout.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownName {
    kind: &'static str,
    name: String,
}

impl fmt::Display for UnknownName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "'{}' is not a known {}", self.name, self.kind)
    }
}

impl std::error::Error for UnknownName {}

/// Place of parity and data in each stripe of RAID-5 and RAID-6, by mdadm's names. RAID-4 has no
/// layout.
///
/// *left* moves parity down by one member a stripe, *right* moves it up; *asymmetric* numbers the
/// data members from the first member on, *symmetric* from the one after parity. See
/// [`crate::geometry`] for the formulas.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(missing_docs, reason = "the names are mdadm's, and the type says what they are made of")]
pub enum Layout {
    LeftAsymmetric,
    RightAsymmetric,
    LeftSymmetric,
    RightSymmetric,
    ParityFirst,
    ParityLast,
    DdfZeroRestart,
    DdfNRestart,
    DdfNContinue,
    LeftAsymmetric6,
    RightAsymmetric6,
    LeftSymmetric6,
    RightSymmetric6,
    ParityFirst6,
    /// Near, far and offset copies, of RAID-10.
    Copies(Copies),
}

impl Layout {
    /// All that turn parity round, in the order of their numbers.
    pub const ALL: [Self; 14] = [
        Self::LeftAsymmetric,
        Self::RightAsymmetric,
        Self::LeftSymmetric,
        Self::RightSymmetric,
        Self::ParityFirst,
        Self::ParityLast,
        Self::DdfZeroRestart,
        Self::DdfNRestart,
        Self::DdfNContinue,
        Self::LeftAsymmetric6,
        Self::RightAsymmetric6,
        Self::LeftSymmetric6,
        Self::RightSymmetric6,
        Self::ParityFirst6,
    ];

    /// The number in the superblock.
    #[must_use]
    pub const fn number(self) -> u32 {
        match self {
            Self::LeftAsymmetric => 0,
            Self::RightAsymmetric => 1,
            Self::LeftSymmetric => 2,
            Self::RightSymmetric => 3,
            Self::ParityFirst => 4,
            Self::ParityLast => 5,
            Self::DdfZeroRestart => 8,
            Self::DdfNRestart => 9,
            Self::DdfNContinue => 10,
            Self::LeftAsymmetric6 => 16,
            Self::RightAsymmetric6 => 17,
            Self::LeftSymmetric6 => 18,
            Self::RightSymmetric6 => 19,
            Self::ParityFirst6 => 20,
            Self::Copies(copies) => copies.word(),
        }
    }

    /// The layout with this number, where `level` can have it: RAID-5 has 0 to 5, RAID-6 all that
    /// turn parity round, RAID-10 those of copies, the others none.
    #[must_use]
    pub fn from_number(level: Level, number: u32) -> Option<Self> {
        match level {
            Level::Raid10 => Copies::from_word(number).map(Self::Copies),
            _ => Self::ALL.into_iter().find(|layout| layout.number() == number && layout.is_of(level)),
        }
    }

    /// Returns whether md knows this layout at `level`.
    #[must_use]
    pub const fn is_of(self, level: Level) -> bool {
        match (level, self) {
            (Level::Raid10, Self::Copies(_)) => true,
            (Level::Raid5, layout) => layout.number() <= 5,
            (Level::Raid6, Self::Copies(_)) => false,
            (Level::Raid6, _) => true,
            (Level::Raid1 | Level::Raid4 | Level::Raid10, _) => false,
        }
    }
}

impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Copies(copies) => return copies.fmt(f),
            Self::LeftAsymmetric => "left-asymmetric",
            Self::RightAsymmetric => "right-asymmetric",
            Self::LeftSymmetric => "left-symmetric",
            Self::RightSymmetric => "right-symmetric",
            Self::ParityFirst => "parity-first",
            Self::ParityLast => "parity-last",
            Self::DdfZeroRestart => "ddf-zero-restart",
            Self::DdfNRestart => "ddf-N-restart",
            Self::DdfNContinue => "ddf-N-continue",
            Self::LeftAsymmetric6 => "left-asymmetric-6",
            Self::RightAsymmetric6 => "right-asymmetric-6",
            Self::LeftSymmetric6 => "left-symmetric-6",
            Self::RightSymmetric6 => "right-symmetric-6",
            Self::ParityFirst6 => "parity-first-6",
        })
    }
}

impl FromStr for Layout {
    type Err = UnknownName;

    fn from_str(text: &str) -> Result<Self, UnknownName> {
        Self::ALL
            .into_iter()
            .find(|layout| layout.to_string().eq_ignore_ascii_case(text))
            .ok_or_else(|| UnknownName { kind: "layout", name: text.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers_go_both_ways() {
        for layout in Layout::ALL {
            assert_eq!(layout.to_string().parse(), Ok(layout));
            assert_eq!(Layout::from_number(Level::Raid6, layout.number()), Some(layout));
        }
        for level in [Level::Raid1, Level::Raid4, Level::Raid5, Level::Raid6, Level::Raid10] {
            assert_eq!(level.to_string().parse(), Ok(level));
            assert_eq!(Level::from_number(level.number()), Some(level));
        }
        assert!("left-sideways".parse::<Layout>().is_err());
        assert!("raid0".parse::<Level>().is_err());
    }

    #[test]
    fn each_level_has_its_own_layouts() {
        assert_eq!(Layout::from_number(Level::Raid5, 5), Some(Layout::ParityLast));
        for number in [6, 7, 8, 11, 15, 16, 20, 21, u32::MAX] {
            assert_eq!(Layout::from_number(Level::Raid5, number), None, "{number}");
        }
        for number in [6, 7, 11, 15, 21, u32::MAX] {
            assert_eq!(Layout::from_number(Level::Raid6, number), None, "{number}");
        }
        assert_eq!(Layout::from_number(Level::Raid4, 0), None);
    }
}
