//! Response times, for their mean and percentiles without keeping them.

use crate::{LogCounts, Nanos};

/// Response times: percentiles are right to 1 in 16. 8 KiB, taken when it is made.
#[derive(Debug, Clone, Default)]
pub struct Latency {
    counts: LogCounts<16>,
    sum: f64,
}

impl Latency {
    pub(crate) fn add(&mut self, time: Nanos) {
        self.counts.add(time);
        self.sum += time as f64;
    }

    pub(crate) fn clear(&mut self) {
        self.counts.clear();
        self.sum = 0.0;
    }

    /// Number of values.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.counts.total()
    }

    /// The mean in nanoseconds; 0 for none.
    #[must_use]
    pub fn mean(&self) -> f64 {
        if self.count() == 0 { 0.0 } else { self.sum / self.count() as f64 }
    }

    /// The time that a share of all does not exceed, in nanoseconds; 0 for none. The 99th
    /// percentile is `quantile(0.99)`.
    #[must_use]
    pub fn quantile(&self, share: f64) -> Nanos {
        self.counts.quantile(share)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_right_to_one_in_sixteen() {
        let mut latency = Latency::default();
        (1..=10_000).for_each(|t| latency.add(t * 1_000));
        assert!((latency.mean() - 5_000_500.0).abs() < 1e-3);
        for share in [0.01, 0.5, 0.99, 1.0] {
            let (found, exact) = (latency.quantile(share) as f64, share * 1e7);
            assert!(found <= exact && found > exact * 15.0 / 16.0 - 1_000.0, "{share}: {found}");
        }
        latency.add(Nanos::MAX);
        latency.clear();
        assert_eq!((latency.count(), latency.quantile(0.5)), (0, 0));
    }
}
