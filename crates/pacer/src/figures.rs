//! Measurements of a pacer.

use crate::Nanos;
use crate::work::KINDS;

/// A running mean and maximum of times in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Times {
    /// Number of values.
    pub count: u64,
    /// Their sum.
    pub sum: f64,
    /// The largest.
    pub max: Nanos,
}

impl Times {
    pub(crate) fn add(&mut self, time: Nanos) {
        self.count += 1;
        self.sum += time as f64;
        self.max = self.max.max(time);
    }

    /// The mean in nanoseconds; 0 for none.
    #[must_use]
    pub fn mean(&self) -> f64 {
        if self.count == 0 { 0.0 } else { self.sum / self.count as f64 }
    }
}

/// Measured since the account was opened.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Figures {
    /// Time of its start.
    pub since: Nanos,
    /// Foreground requests that arrived.
    pub foreground: u64,
    /// Response times of foreground requests that met no background request.
    pub clear: Times,
    /// Response times of those that arrived while one was in progress.
    pub met: Times,
    /// Slowdowns charged to the account: one for each collision, or for each request behind one.
    pub slowdown: Times,
    /// Foreground requests that found a background request in progress on an otherwise idle drive.
    pub collisions: u64,
    /// Background requests done.
    pub background: u64,
    /// Bytes of background requests done, by kind.
    pub bytes: [u64; KINDS],
    /// Time that background requests took, in nanoseconds.
    pub busy: Nanos,
}

impl Figures {
    /// Bytes of background requests of all kinds.
    #[must_use]
    pub fn total_bytes(&self) -> u64 {
        self.bytes.iter().sum()
    }

    /// Background bytes a second until `now`; 0 at the very start.
    #[must_use]
    pub fn throughput(&self, now: Nanos) -> f64 {
        let passed = now.saturating_sub(self.since) as f64;
        if passed > 0.0 { self.total_bytes() as f64 * 1e9 / passed } else { 0.0 }
    }

    /// Mean slowdown over all foreground requests, slowed or not, in nanoseconds.
    #[must_use]
    pub fn mean_slowdown(&self) -> f64 {
        if self.foreground == 0 { 0.0 } else { self.slowdown.sum / self.foreground as f64 }
    }
}
