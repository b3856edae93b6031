//! What a simulation measures.

use pumice_pacer::Nanos;

/// Parts of a doubling in the histogram: percentiles are right to 1 in 64.
const PARTS: u32 = 64;
const BUCKETS: usize = 64 * PARTS as usize;

/// Counts by logarithm; 0 has a class of its own.
#[derive(Debug, Clone)]
pub struct LogCounts {
    counts: Vec<u64>,
    total: u64,
}

impl Default for LogCounts {
    fn default() -> Self {
        Self { counts: vec![0; BUCKETS], total: 0 }
    }
}

impl LogCounts {
    fn class(value: u64) -> usize {
        if value < u64::from(PARTS) {
            return value as usize;
        }
        let exponent = 63 - value.leading_zeros();
        let shift = exponent - PARTS.trailing_zeros();
        let part = (value >> shift) as u32 - PARTS;
        ((shift + 1) * PARTS + part) as usize
    }

    /// The least value of a class.
    pub(crate) fn floor(class: usize) -> u64 {
        let (row, part) = ((class as u32) / PARTS, u64::from(class as u32 % PARTS));
        if row == 0 { part } else { (u64::from(PARTS) + part) << (row - 1) }
    }

    /// Counts a value.
    pub fn add(&mut self, value: u64) {
        self.counts[Self::class(value)] += 1;
        self.total += 1;
    }

    /// The value that a share of all values does not exceed; 0 for none.
    #[must_use]
    pub fn quantile(&self, share: f64) -> u64 {
        let rank = ((share * self.total as f64).ceil() as u64).clamp(1, self.total.max(1));
        let mut seen = 0;
        for (class, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= rank {
                return Self::floor(class);
            }
        }
        0
    }

    /// How many values.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.total
    }

    /// Calls `see` with (least value of a class, count) of every class that has values.
    pub fn each(&self, mut see: impl FnMut(u64, u64)) {
        for (class, &count) in self.counts.iter().enumerate().filter(|(_, c)| **c > 0) {
            see(Self::floor(class), count);
        }
    }
}

/// Slowdowns of the foreground, and what was scrubbed.
#[derive(Debug, Clone)]
pub struct Slowdowns {
    requests: u64,
    collisions: u64,
    own_sum: f64,
    queued_sum: f64,
    max: Nanos,
    own: LogCounts,
    queued: LogCounts,
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
            own: LogCounts::default(),
            queued: LogCounts::default(),
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

    /// Mean slowdown over all requests in milliseconds: of those that met a background request, or of those that queued behind them too.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_adjacent_and_tight() {
        for value in [0, 1, 63, 64, 65, 127, 128, 1_000, 123_456_789, u64::MAX] {
            let class = LogCounts::class(value);
            let floor = LogCounts::floor(class);
            assert!(floor <= value && value - floor <= value / 64, "{value} {floor}");
            if class + 1 < BUCKETS && value < u64::MAX {
                assert!(LogCounts::floor(class + 1) > value);
            }
        }
    }

    #[test]
    fn quantiles_count_from_below() {
        let mut counts = LogCounts::default();
        (1..=60).for_each(|v| counts.add(v));
        assert_eq!((counts.quantile(0.5), counts.quantile(1.0), counts.quantile(0.0)), (30, 60, 1));
    }
}
