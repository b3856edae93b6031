//! The operator's goal: a bound on the slowdown of the foreground.

use crate::Nanos;

/// A share of foreground requests that must not be slowed by more than a limit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Percentile {
    /// The share that stays within the limit: above 0, below 1 (0.99 for the 99th percentile).
    pub share: f64,
    /// Slowdown of a request of that share, at most, in nanoseconds.
    pub limit: Nanos,
}

/// Bound on the slowdown of the foreground. A slowdown is the response time of a request minus what
/// it would have been without background work.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Goal {
    /// Mean slowdown over all foreground requests, at most, in nanoseconds. 0 forbids every
    /// expected collision.
    pub mean: Nanos,
    /// Optionally, a share of requests with its own limit.
    pub percentile: Option<Percentile>,
    /// Optionally, the largest slowdown of any one request, in nanoseconds: no background request
    /// that takes longer is started.
    pub maximum: Option<Nanos>,
}

impl Goal {
    /// A goal for the mean alone, in nanoseconds.
    #[must_use]
    pub const fn mean(mean: Nanos) -> Self {
        Self { mean, percentile: None, maximum: None }
    }

    /// Returns whether a background request that takes `service` nanoseconds may be started at all.
    #[must_use]
    pub fn allows(&self, service: Nanos) -> bool {
        self.maximum.is_none_or(|maximum| service <= maximum)
    }
}
