//! The mood of a load: how many requests came lately.

use crate::Nanos;

/// Classes of mood: one for each doubling of the count.
pub(crate) const MOODS: usize = 20;
/// After which time a request counts 1/e, in nanoseconds.
const MEMORY: f64 = 4e9;

/// A count of requests with forgetting.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Mood {
    count: f64,
    at: Nanos,
}

impl Mood {
    fn count_at(self, at: Nanos) -> f64 {
        self.count * fading(at.saturating_sub(self.at) as f64 / MEMORY)
    }

    /// A request came.
    pub(crate) fn arrived(&mut self, at: Nanos) {
        self.count = self.count_at(at) + 1.0;
        self.at = self.at.max(at);
    }

    /// The class at a moment: 0 where less than half a request counts.
    pub(crate) fn class(self, at: Nanos) -> u8 {
        let count = self.count_at(at) + 0.5;
        // The binary exponent is the logarithm rounded down; 1022 is that of 1/2.
        let class = (count.to_bits() >> (f64::MANTISSA_DIGITS - 1)).saturating_sub(1_022);
        class.min(MOODS as u64 - 1) as u8
    }
}

/// exp(-x): requests that follow one another within 80 ms, as most do, need no more than the first
/// terms (to 1 in 10^16).
fn fading(x: f64) -> f64 {
    if x > 0.02 {
        return (-x).exp();
    }
    let cube = 1.0 / 6.0 - x * (1.0 / 24.0 - x * (1.0 / 120.0 - x * (1.0 / 720.0 - x / 5_040.0)));
    1.0 - x * (1.0 - x * (0.5 - x * cube))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fading_is_one_curve() {
        for x in [0.0, 1e-9, 1e-4, 0.01, 0.019_999, 0.02, 0.020_001, 1.0, 50.0] {
            assert!((fading(x) / (-x).exp() - 1.0).abs() < 3e-16, "{x}: {} {}", fading(x), (-x).exp());
        }
    }

    #[test]
    fn classes_are_doublings() {
        for i in 0..4_000_000 {
            let mood = Mood { count: f64::from(i) / 7.0, at: 0 };
            let doublings = (mood.count + 0.5).log2() + 1.0;
            assert_eq!(mood.class(0), doublings.clamp(0.0, MOODS as f64 - 1.0) as u8, "{i}");
        }
    }

    #[test]
    fn quiet_and_busy_differ() {
        let mut mood = Mood::default();
        assert_eq!(mood.class(0), 0);
        (1..100).for_each(|i| mood.arrived(i * 100_000_000));
        assert_eq!(mood.class(10_000_000_000), 6, "about 40 requests");
        assert_eq!(mood.class(60_000_000_000), 0);
        (0..1 << 24).for_each(|i| mood.arrived(60_000_000_000 + i / 64));
        assert_eq!(usize::from(mood.class(60_000_262_144)), MOODS - 1);
    }
}
