//! Counts by logarithm, for percentiles without keeping the values.

/// Counts of values by logarithm, in so many classes a doubling (a power of two): a percentile is
/// right to 1 in `PARTS`. Values below `PARTS` have a class each. Memory for all 64-bit values is
/// taken when it is made: 8 KiB with 16 parts, 30 KiB with 64.
#[derive(Debug, Clone)]
pub struct LogCounts<const PARTS: u32> {
    counts: Vec<u64>,
    total: u64,
}

impl<const PARTS: u32> Default for LogCounts<PARTS> {
    fn default() -> Self {
        Self { counts: vec![0; Self::class(u64::MAX) + 1], total: 0 }
    }
}

impl<const PARTS: u32> LogCounts<PARTS> {
    fn class(value: u64) -> usize {
        const { assert!(PARTS.is_power_of_two(), "a class is found by shifting") };
        if value < u64::from(PARTS) {
            return value as usize;
        }
        let shift = 63 - value.leading_zeros() - PARTS.trailing_zeros();
        let part = (value >> shift) as u32 - PARTS;
        ((shift + 1) * PARTS + part) as usize
    }

    /// The least value of a class.
    fn floor(class: usize) -> u64 {
        let (row, part) = (class as u32 / PARTS, u64::from(class as u32 % PARTS));
        if row == 0 { part } else { (u64::from(PARTS) + part) << (row - 1) }
    }

    /// Counts a value.
    pub fn add(&mut self, value: u64) {
        self.counts[Self::class(value)] += 1;
        self.total += 1;
    }

    /// Forgets all values.
    pub fn clear(&mut self) {
        self.counts.fill(0);
        self.total = 0;
    }

    /// Number of values.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.total
    }

    /// The value that a share (0 to 1) of all values does not exceed; 0 for none. The 99th
    /// percentile is `quantile(0.99)`.
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

    /// Calls `see` with (least value of a class, count) of every class that has values.
    pub fn each(&self, mut see: impl FnMut(u64, u64)) {
        for (class, &count) in self.counts.iter().enumerate().filter(|(_, c)| **c > 0) {
            see(Self::floor(class), count);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn adjacent_and_tight<const PARTS: u32>() {
        let last = LogCounts::<PARTS>::class(u64::MAX);
        for value in [0, 1, 15, 16, 17, 63, 64, 65, 127, 128, 1_000, 123_456_789, u64::MAX] {
            let class = LogCounts::<PARTS>::class(value);
            let floor = LogCounts::<PARTS>::floor(class);
            assert!(floor <= value && value - floor <= value / u64::from(PARTS), "{value} {floor}");
            assert!(class == last || LogCounts::<PARTS>::floor(class + 1) > value);
        }
    }

    #[test]
    fn classes_are_adjacent_and_tight() {
        adjacent_and_tight::<16>();
        adjacent_and_tight::<64>();
    }

    #[test]
    fn quantiles_count_from_below() {
        let mut counts = LogCounts::<64>::default();
        (1..=60).for_each(|v| counts.add(v));
        assert_eq!((counts.quantile(0.5), counts.quantile(1.0), counts.quantile(0.0)), (30, 60, 1));
        counts.add(u64::MAX);
        assert_eq!(counts.total(), 61);
        counts.clear();
        assert_eq!((counts.total(), counts.quantile(0.5)), (0, 0));
    }
}
