//! The judge of a year: the clock on the wall, and the stripes that were truly read.

use jiff::Timestamp;
use jiff::tz::TimeZone;
use pumice_monitor::{DAY, MINUTE};

/// A window as it was meant: days (bit 0 is Monday), and minutes of the day.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Hours {
    pub(crate) days: u8,
    pub(crate) from: i64,
    pub(crate) to: i64,
}

impl Hours {
    pub(crate) const fn daily(from: i64, to: i64) -> Self {
        Self { days: 0x7f, from, to }
    }

    /// Days of the week on which it is open.
    pub(crate) fn nights(&self) -> i64 {
        i64::from(self.days.count_ones())
    }

    /// Seconds of one night at most.
    pub(crate) fn nightly(&self, budget: i64) -> i64 {
        let length = if self.from < self.to { self.to - self.from } else { self.to + 1440 - self.from };
        (length * MINUTE).min(budget).min(DAY)
    }

    /// Returns whether a clock on the wall shows a time in the window.
    pub(crate) fn shows(&self, zone: &TimeZone, wall: i64) -> bool {
        let local = zone.to_datetime(Timestamp::from_second(wall).expect("a time"));
        let second =
            i64::from(local.hour()) * 3600 + i64::from(local.minute()) * 60 + i64::from(local.second());
        let day = local.weekday().to_monday_zero_offset() as u32;
        let on = |day: u32| self.days & (1 << (day % 7)) != 0;
        let (from, to) = (self.from * MINUTE, self.to * MINUTE);
        if from < to {
            on(day) && (from..to).contains(&second)
        } else {
            on(day) && second >= from || on(day + 6) && second < to
        }
    }
}
