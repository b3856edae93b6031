//! Measurements of a simulation.

use pumice_pacer::{LogCounts, Nanos};

/// Counts of times, with percentiles that are right to 1 in 64.
pub type TimeCounts = LogCounts<64>;

/// Slowdowns of the foreground, and what was scrubbed.
#[derive(Debug, Clone)]
pub struct Slowdowns {
    requests: u64,
    collisions: u64,
    own_sum: f64,
    queued_sum: f64,
    max: Nanos,
    own: TimeCounts,
    queued: TimeCounts,
    bytes: u64,
    background: u64,
    /// Nanoseconds measured.
    pub(crate) span: Nanos,
}

impl Slowdowns {
    pub(crate) fn new() -> Self {
        Self {
            requests: 0,
            collisions: 0,
            own_sum: 0.0,
            queued_sum: 0.0,
            max: 0,
            own: TimeCounts::default(),
            queued: TimeCounts::default(),
            bytes: 0,
            background: 0,
            span: 0,
        }
    }

    pub(crate) fn request(&mut self, own: Nanos, queued: Nanos) {
        self.requests += 1;
        self.collisions += u64::from(own > 0);
        self.own_sum += own as f64;
        self.queued_sum += queued as f64;
        self.max = self.max.max(queued);
        self.own.add(own);
        self.queued.add(queued);
    }

    pub(crate) fn background(&mut self, bytes: u64) {
        self.bytes += bytes;
        self.background += 1;
    }

    /// Foreground requests.
    #[must_use]
    pub fn requests(&self) -> u64 {
        self.requests
    }

    /// Requests that met a background request.
    #[must_use]
    pub fn collisions(&self) -> u64 {
        self.collisions
    }

    /// Mean slowdown over all requests in milliseconds: of those that met a background request, or
    /// of those that queued behind them too.
    #[must_use]
    pub fn mean_ms(&self, queued: bool) -> f64 {
        let sum = if queued { self.queued_sum } else { self.own_sum };
        if self.requests == 0 { 0.0 } else { sum / self.requests as f64 / 1e6 }
    }

    /// The slowdown that a share of all requests does not exceed, in milliseconds.
    #[must_use]
    pub fn quantile_ms(&self, share: f64, queued: bool) -> f64 {
        let counts = if queued { &self.queued } else { &self.own };
        counts.quantile(share) as f64 / 1e6
    }

    /// The largest slowdown in milliseconds.
    #[must_use]
    pub fn max_ms(&self) -> f64 {
        self.max as f64 / 1e6
    }

    /// Bytes of background requests.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Mean bytes of a background request.
    #[must_use]
    pub fn mean_background(&self) -> u64 {
        self.bytes.checked_div(self.background).unwrap_or(0)
    }

    /// Background throughput in MiB a second.
    #[must_use]
    pub fn mib_per_s(&self) -> f64 {
        if self.span == 0 { 0.0 } else { self.bytes as f64 / f64::from(1 << 20) / (self.span as f64 / 1e9) }
    }
}
