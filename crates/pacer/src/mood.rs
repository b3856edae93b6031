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
        self.count * (-(at.saturating_sub(self.at) as f64) / MEMORY).exp()
    }

    /// A request came.
    pub(crate) fn arrived(&mut self, at: Nanos) {
        self.count = self.count_at(at) + 1.0;
        self.at = self.at.max(at);
    }

    /// The class at a moment: 0 where less than half a request counts.
    pub(crate) fn class(self, at: Nanos) -> u8 {
        let doublings = (self.count_at(at) + 0.5).log2();
        (doublings + 1.0).clamp(0.0, MOODS as f64 - 1.0) as u8
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
