//! Points in time and durations, in whole seconds.

use serde::{Deserialize, Serialize};

/// Seconds since 1970, UTC, as the system's clock shows them. It may step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct Wall(pub i64);

/// Seconds of running time since the boot. It never steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Running(pub u64);

/// Both clocks at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Now {
    /// The time that the system's clock shows.
    pub wall: Wall,
    /// Running time since the boot.
    pub running: Running,
    /// True if the time is known to be synchronised.
    pub synchronised: bool,
}

/// Seconds in a minute.
pub const MINUTE: i64 = 60;
/// Seconds in an hour.
pub const HOUR: i64 = 3600;
/// Seconds in a day.
pub const DAY: i64 = 86_400;

/// The last second that is used: the end of the year 9000.
const LAST: i64 = 221_876_000_000;

impl Wall {
    /// The time some seconds later (or earlier), within the years 1970 to 9000.
    #[must_use]
    pub fn plus(self, seconds: i64) -> Self {
        Self(self.0.saturating_add(seconds).clamp(0, LAST))
    }

    /// Seconds from `earlier` to this time; negative if that is later.
    #[must_use]
    pub fn since(self, earlier: Self) -> i64 {
        self.0.saturating_sub(earlier.0)
    }

    /// The time within the years 1970 to 9000.
    #[must_use]
    pub fn bounded(self) -> Self {
        self.plus(0)
    }
}

impl Running {
    /// Seconds from `earlier` to this time; 0 if that is later.
    #[must_use]
    pub fn since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}
