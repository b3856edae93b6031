//! Times at which a drive that answers again may take its role back: each return costs a rebuild of
//! what was missed, and a node that is restarted each minute must not cost one each minute.
//! `docs/design/volume-operations.md`, *A member that comes back by itself*, has the numbers.

use std::time::Duration;

/// The wait before the second return of a role; it doubles with each further one.
const FIRST_WAIT: Duration = Duration::from_secs(60);
/// The longest wait.
const LONGEST_WAIT: Duration = Duration::from_secs(3600);
/// A member that has been in sync for so long begins anew.
const CALM: Duration = Duration::from_secs(2 * 3600);
/// The wait after an attempt that failed; it doubles with each further one.
const FIRST_PAUSE: Duration = Duration::from_secs(2);
/// The longest one.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// The returns of one role. All times count from one beginning.
#[derive(Debug, Clone, Default)]
pub struct ReturnTimes {
    /// Returns since the role began anew.
    returns: u32,
    returned: Option<Duration>,
    /// Attempts that failed since the last return.
    failed: u32,
    tried: Option<Duration>,
    /// In sync since then.
    whole: Option<Duration>,
}

/// `first`, doubled `times` times, and at most `most`.
fn doubled(first: Duration, times: u32, most: Duration) -> Duration {
    2_u32.checked_pow(times).and_then(|n| first.checked_mul(n)).unwrap_or(most).min(most)
}

impl ReturnTimes {
    /// The time from which on an attempt may be made.
    #[must_use]
    pub fn next(&self) -> Duration {
        let after_return = match (self.returns, self.returned) {
            (1.., Some(at)) => at + doubled(FIRST_WAIT, self.returns - 1, LONGEST_WAIT),
            _ => Duration::ZERO,
        };
        let after_try = match (self.failed, self.tried) {
            (1.., Some(at)) => at + doubled(FIRST_PAUSE, self.failed - 1, LONGEST_PAUSE),
            _ => Duration::ZERO,
        };
        after_return.max(after_try)
    }

    /// An attempt has failed.
    pub fn failed(&mut self, now: Duration) {
        self.failed = self.failed.saturating_add(1);
        self.tried = Some(now);
    }

    /// The drive has its role again, and is being rebuilt.
    pub fn returned(&mut self, now: Duration) {
        (self.returns, self.returned) = (self.returns.saturating_add(1), Some(now));
        (self.failed, self.tried, self.whole) = (0, None, None);
    }

    /// The member is in sync.
    pub fn is_whole(&mut self, now: Duration) {
        let since = *self.whole.get_or_insert(now);
        if now.saturating_sub(since) >= CALM {
            *self = Self { whole: self.whole, ..Self::default() };
        }
    }

    /// The member is gone.
    pub const fn is_gone(&mut self) {
        self.whole = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const DAY: u64 = 86_400;

    /// Lets a node come and go for a day: `up` says for each second whether it answers. A rebuild
    /// takes `rebuild` seconds. Returns the times of returns.
    fn returns(up: impl Fn(u64) -> bool, rebuild: u64) -> Vec<u64> {
        let (mut times, mut out) = (ReturnTimes::default(), Vec::new());
        let mut member = Some(0_u64);
        for second in 0..DAY {
            let now = Duration::from_secs(second);
            match member {
                Some(since) if up(second) && second >= since + rebuild => times.is_whole(now),
                Some(_) if up(second) => {}
                Some(_) => {
                    member = None;
                    times.is_gone();
                }
                None if now >= times.next() => {
                    if up(second) {
                        times.returned(now);
                        out.push(second);
                        member = Some(second);
                    } else {
                        times.failed(now);
                    }
                }
                None => {}
            }
        }
        out
    }

    #[test]
    fn one_restart_costs_no_wait_and_a_restart_each_minute_no_storm() {
        let once = returns(|second| !(1000..1030).contains(&second), 5);
        assert!(once.len() == 1 && once[0] <= 1030 + 32, "{once:?}");
        // Down for 5 s of each minute.
        let stormy = returns(|second| second % 60 >= 5, 5);
        assert!((20..=32).contains(&stormy.len()), "{} returns", stormy.len());
        // Calm after a monthly update: two restarts with three hours between wait for nothing.
        let calm =
            returns(|second| !(1000..1030).contains(&second) && !(12_000..12_030).contains(&second), 5);
        assert!(calm.len() == 2 && calm[1] <= 12_030 + 32, "{calm:?}");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]

        /// However a node comes and goes: at most 32 returns a day, and a node that stays is taken
        /// back within an hour and a minute.
        #[test]
        fn returns_are_bounded_and_come(
            edges in proptest::collection::btree_set(1..DAY, 0..200),
            rebuild in 0_u64..1000,
        ) {
            let edges: Vec<u64> = edges.into_iter().collect();
            let up = |second: u64| edges.partition_point(|edge| *edge <= second) % 2 == 0;
            let returned = returns(up, rebuild);
            prop_assert!(returned.len() <= 32, "{}", returned.len());
            // From the last edge on the node stays as it is.
            let last = edges.last().copied().unwrap_or(0);
            let waits = LONGEST_WAIT + LONGEST_PAUSE;
            if up(last) && !edges.is_empty() && DAY - last > waits.as_secs() {
                let came = returned.last().is_some_and(|at| *at <= last + waits.as_secs());
                prop_assert!(came, "last edge {last}, returns {returned:?}");
            }
        }
    }
}
