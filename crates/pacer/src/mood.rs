//! The mood of a load: how many long idle intervals ended lately.

use crate::Nanos;

/// Classes of mood.
pub(crate) const MOODS: usize = 16;
/// After which time an end counts 1/e, in nanoseconds: for the nearest past and for the longer one.
const NEAR: f64 = 2e9;
const FAR: f64 = 15e9;

/// Two counts with forgetting, each in four classes.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Mood {
    near: f64,
    far: f64,
    at: Nanos,
    class: u8,
}

impl Mood {
    /// An idle interval ended; `long` if a background request could have been in it.
    pub(crate) fn observe(&mut self, at: Nanos, long: bool) {
        let passed = at.saturating_sub(self.at) as f64;
        self.at = self.at.max(at);
        let more = f64::from(u8::from(long));
        self.near = self.near * (-passed / NEAR).exp() + more;
        self.far = self.far * (-passed / FAR).exp() + more;
        // 0 to 1/2, to 3/2, to 7/2, above.
        let class = |count: f64| u8::from(count > 0.5) + u8::from(count > 1.5) + u8::from(count > 3.5);
        self.class = class(self.near) + 4 * class(self.far / 2.0);
    }

    pub(crate) fn class(self) -> u8 {
        self.class
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quiet_and_busy_differ() {
        let mut mood = Mood::default();
        assert_eq!(mood.class(), 0);
        (1..100).for_each(|i| mood.observe(i * 100_000_000, true));
        assert_eq!(usize::from(mood.class()), MOODS - 1);
        mood.observe(600_000_000_000, false);
        assert_eq!(mood.class(), 0);
    }
}
