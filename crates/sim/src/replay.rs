//! Outcome of a start policy in the idle intervals of a window, in closed form.

use pumice_pacer::{History, Idle, Nanos, Percentile, ServiceCurve};

/// Sizes of requests within one idle interval: the first has `first` bytes, each further one twice
/// as many, up to `max`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sizing {
    /// Bytes of the first request of an idle interval.
    pub first: u64,
    /// Bytes of the largest.
    pub max: u64,
}

impl Sizing {
    /// Always the same size.
    #[must_use]
    pub const fn fixed(bytes: u64) -> Self {
        Self { first: bytes, max: bytes }
    }

    /// The size of the request after `done` others of the same interval.
    #[must_use]
    pub fn at(&self, done: u32) -> u64 {
        let grown = if done >= self.first.leading_zeros() { u64::MAX } else { self.first << done };
        grown.min(self.max)
    }
}

/// Start `threshold` after the drive fell idle, if the predictor expects at least `cutoff`; go on
/// until a collision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Start {
    /// Idle time before the first request, in nanoseconds.
    pub threshold: Nanos,
    /// Least predicted length, in nanoseconds; 0 does not ask the predictor.
    pub cutoff: Nanos,
    /// Request sizes.
    pub sizing: Sizing,
}

/// The outcome of a replay.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Outcome {
    /// Bytes gone through.
    pub bytes: f64,
    /// Sum of the slowdowns, in nanoseconds.
    pub delay: f64,
    /// Collisions.
    pub collisions: u64,
    /// Slowdowns over the percentile's limit.
    pub excesses: u64,
}

impl Start {
    /// Goes through one idle interval: bytes, and how far the last request reached past its end.
    #[must_use]
    pub fn interval(&self, idle: &Idle, curve: &ServiceCurve) -> (f64, Nanos) {
        let length = idle.length();
        if length <= self.threshold || (self.cutoff > 0 && f64::from(idle.predicted) < self.cutoff as f64) {
            return (0.0, 0);
        }
        let (mut bytes, mut at, mut done) = (0_u64, self.threshold, 0);
        while self.sizing.at(done) < self.sizing.max && at < length {
            let size = self.sizing.at(done);
            (bytes, at, done) = (bytes + size, at + curve.time(size), done + 1);
        }
        if at < length {
            let service = curve.time(self.sizing.max);
            let count = (length - at).div_ceil(service);
            (bytes, at) = (bytes + count * self.sizing.max, at + count * service);
        }
        (bytes as f64, at - length)
    }

    /// Goes through a whole window. Costs a few nanoseconds an interval.
    #[must_use]
    pub fn replay(&self, window: &History, curve: &ServiceCurve, percentile: Option<Percentile>) -> Outcome {
        let mut out = Outcome::default();
        let service = curve.time(self.sizing.max);
        let fixed = self.sizing.first == self.sizing.max;
        for idle in window.intervals() {
            if fixed && idle.length() <= self.threshold {
                continue;
            }
            let (bytes, delay) = if fixed && self.cutoff == 0 {
                let count = (idle.length() - self.threshold).div_ceil(service);
                ((count * self.sizing.max) as f64, self.threshold + count * service - idle.length())
            } else {
                self.interval(idle, curve)
            };
            out.bytes += bytes;
            out.delay += delay as f64;
            out.collisions += u64::from(delay > 0);
            out.excesses += u64::from(percentile.is_some_and(|p| delay > p.limit));
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_interval_by_hand() -> Result<(), pumice_pacer::CurveError> {
        let curve = ServiceCurve::new(&[(64, 10), (128, 15), (256, 25)])?;
        let idle = Idle { start: 100, end: 200, predicted: 50.0, arrivals: 1, mood: 0 };
        let start = Start { threshold: 20, cutoff: 0, sizing: Sizing::fixed(128) };
        assert_eq!(start.interval(&idle, &curve), (6.0 * 128.0, 10));
        let growing = Start { sizing: Sizing { first: 64, max: 256 }, ..start };
        // 20 + 10 + 15 + 25 + 25 + 25 = 120
        assert_eq!(growing.interval(&idle, &curve), (64.0 + 128.0 + 3.0 * 256.0, 20));
        assert_eq!(Start { cutoff: 51, ..start }.interval(&idle, &curve), (0.0, 0));
        assert_eq!(Start { threshold: 100, ..start }.interval(&idle, &curve), (0.0, 0));
        Ok(())
    }
}
