//! The token bucket: a rate that is really held.

use crate::Nanos;

const SECOND: u128 = 1_000_000_000;

/// Bytes a second, with a burst. One bucket belongs to one drive.
///
/// Over any stretch of `t` seconds at most `rate * t + burst + one request` bytes are started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenBucket {
    rate: u64,
    burst: u64,
    /// Byte-nanoseconds: bytes times 10^9, so that no rounding ever loses or makes a token.
    /// Negative: in debt.
    tokens: i128,
    at: Nanos,
}

impl TokenBucket {
    /// A full bucket: `rate` bytes a second (at least 1), `burst` bytes saved up at most.
    #[must_use]
    pub fn new(rate: u64, burst: u64, now: Nanos) -> Self {
        Self { rate: rate.max(1), burst, tokens: i128::from(burst) * SECOND as i128, at: now }
    }

    /// Bytes a second.
    #[must_use]
    pub fn rate(&self) -> u64 {
        self.rate
    }

    fn fill(&mut self, now: Nanos) {
        let passed = i128::from(now.saturating_sub(self.at));
        self.at = self.at.max(now);
        let full = i128::from(self.burst) * SECOND as i128;
        self.tokens = (self.tokens + passed * i128::from(self.rate)).min(full);
    }

    /// Time at which a request may start: now, if the bucket is not in debt, or else the time at
    /// which the debt is paid.
    ///
    /// A request larger than the burst may start from a full bucket and leaves a debt.
    pub fn ready_at(&mut self, now: Nanos, bytes: u64) -> Nanos {
        self.fill(now);
        let needed = i128::from(bytes.min(self.burst)) * SECOND as i128 - self.tokens;
        if needed <= 0 {
            return now;
        }
        let wait = needed.unsigned_abs().div_ceil(u128::from(self.rate));
        now.saturating_add(u64::try_from(wait).unwrap_or(u64::MAX))
    }

    /// Gives back the tokens of bytes that were granted and not used.
    pub fn give_back(&mut self, bytes: u64) {
        let full = i128::from(self.burst) * SECOND as i128;
        self.tokens = (self.tokens + i128::from(bytes) * SECOND as i128).min(full);
    }

    /// Takes the tokens of a request that starts now.
    pub fn take(&mut self, now: Nanos, bytes: u64) {
        self.fill(now);
        self.tokens -= i128::from(bytes) * SECOND as i128;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_rate_is_held_over_any_stretch(
            rate in 1_000_u64..1_000_000_000,
            burst in 0_u64..8_000_000,
            sizes in proptest::collection::vec(1_u64..4_194_304, 1..200),
        ) {
            let mut bucket = TokenBucket::new(rate, burst, 0);
            let mut now = 0;
            let mut starts = Vec::new();
            for bytes in sizes {
                now = bucket.ready_at(now, bytes);
                prop_assert_eq!(bucket.ready_at(now, bytes), now);
                bucket.take(now, bytes);
                starts.push((now, bytes));
            }
            let last = starts.last().map_or(0, |s| s.1);
            let total: u64 = starts.iter().map(|s| s.1).sum();
            let allowed = u128::from(rate) * u128::from(now) / SECOND + u128::from(burst.max(last));
            prop_assert!(u128::from(total) <= allowed + 1, "{total} > {allowed}");
        }
    }

    #[test]
    fn what_was_granted_and_not_used_costs_nothing() {
        let mut bucket = TokenBucket::new(1_000, 1_000, 0);
        bucket.take(0, 1_000);
        assert!(bucket.ready_at(0, 1_000) > 0);
        bucket.give_back(1_000);
        assert_eq!(bucket.ready_at(0, 1_000), 0);
        // And no more than the burst is ever saved up.
        bucket.give_back(5_000);
        bucket.take(0, 1_000);
        assert_eq!(bucket.ready_at(0, 1_000), 1_000_000_000);
    }
}
