//! Response times by logarithm, for percentiles without keeping them.

use crate::Nanos;

/// Parts of a doubling: a percentile is right to 1 in 16.
const PARTS: u32 = 16;
const CLASSES: usize = 48 * PARTS as usize;

/// Counts of response times. 6 KiB, taken when it is made.
#[derive(Debug, Clone)]
pub struct Latency {
    counts: Vec<u64>,
    total: u64,
    sum: f64,
}

impl Default for Latency {
    fn default() -> Self {
        Self { counts: vec![0; CLASSES], total: 0, sum: 0.0 }
    }
}

impl Latency {
    fn class(time: Nanos) -> usize {
        if time < u64::from(PARTS) {
            return time as usize;
        }
        let shift = 63 - time.leading_zeros() - PARTS.trailing_zeros();
        let class = (shift + 1) * PARTS + ((time >> shift) as u32 - PARTS);
        (class as usize).min(CLASSES - 1)
    }

    fn floor(class: usize) -> Nanos {
        let (row, part) = (class as u32 / PARTS, u64::from(class as u32 % PARTS));
        if row == 0 { part } else { (u64::from(PARTS) + part) << (row - 1) }
    }

    pub(crate) fn add(&mut self, time: Nanos) {
        self.counts[Self::class(time)] += 1;
        self.total += 1;
        self.sum += time as f64;
    }

    pub(crate) fn clear(&mut self) {
        self.counts.fill(0);
        (self.total, self.sum) = (0, 0.0);
    }

    /// How many.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.total
    }

    /// The mean in nanoseconds; 0 for none.
    #[must_use]
    pub fn mean(&self) -> f64 {
        if self.total == 0 { 0.0 } else { self.sum / self.total as f64 }
    }

    /// The time that a share of all does not exceed, in nanoseconds; 0 for none. The 99th percentile is `quantile(0.99)`.
    #[must_use]
    pub fn quantile(&self, share: f64) -> Nanos {
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
