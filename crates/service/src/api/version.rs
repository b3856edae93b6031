//! Versions of the format.

use std::fmt;

/// A version that this program speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Version {
    /// Lines do not name their version, and errors have no codes.
    V1,
    /// Lines name their version, and errors have codes.
    V2,
    /// As version 2, with events.
    V3,
}

impl Version {
    /// The lowest one.
    pub const FIRST: Self = Self::V1;
    /// The highest one.
    pub const LAST: Self = Self::V3;

    /// Its number on the wire.
    #[must_use]
    pub const fn number(self) -> u64 {
        match self {
            Self::V1 => 1,
            Self::V2 => 2,
            Self::V3 => 3,
        }
    }

    /// The version of a number; `None` if this program does not speak it.
    #[must_use]
    pub const fn of(number: u64) -> Option<Self> {
        match number {
            1 => Some(Self::V1),
            2 => Some(Self::V2),
            3 => Some(Self::V3),
            _ => None,
        }
    }

    /// The number that a line of this version names; `None` if such lines name none.
    #[must_use]
    pub const fn named(self) -> Option<u64> {
        match self {
            Self::V1 => None,
            Self::V2 | Self::V3 => Some(self.number()),
        }
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.number().fmt(f)
    }
}
