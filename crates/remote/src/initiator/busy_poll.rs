//! The decision whether to poll for work before sleeping.

use std::time::{Duration, Instant};

/// Time that a thread polls for data from its peer before it sleeps.
///
/// Being woken on another core costs about 20 µs in a virtual machine, as much as a whole command
/// over loopback. If answers come faster than that, polling is faster and not more expensive;
/// otherwise it is wasted. So the behaviour is learned: each wait is short (not longer than the
/// longest poll) or long, and the thread polls only while short waits prevail. The waste is
/// bounded: a long wait counts as two short ones, so polling is in vain for at most half of the
/// long waits, and never for a peer that is silent or slow.
#[derive(Debug, Clone)]
pub struct BusyPoll {
    longest: Duration,
    /// 0 to [`MOST`]; looks from [`ENOUGH`] on.
    trust: u8,
}

/// Trust that no more short waits raise.
const MOST: u8 = 8;
/// Trust from which a wait begins with looking.
const ENOUGH: u8 = 4;

impl BusyPoll {
    /// A few times what being woken costs, and what a queue of some dozens of commands takes over
    /// loopback.
    pub const USUAL: Duration = Duration::from_micros(100);

    /// Polls for at most `longest` at a time; zero for never.
    #[must_use]
    pub fn new(longest: Duration) -> Self {
        Self { longest, trust: 0 }
    }

    /// Returns the time to poll, from the beginning of a wait, before sleeping.
    #[must_use]
    pub fn look(&self) -> Duration {
        if self.trust >= ENOUGH { self.longest } else { Duration::ZERO }
    }

    /// Between two polls: yields to any other thread that wants to run here. Returns whether there
    /// was none; if there was one, sleeping is better than further polling, because that thread may
    /// be the peer.
    #[must_use]
    pub fn has_the_core() -> bool {
        /// More than it takes to give way to nobody, and less than any other thread is likely to
        /// run.
        const ALONE: Duration = Duration::from_micros(3);
        let began = Instant::now();
        std::thread::yield_now();
        began.elapsed() < ALONE
    }

    /// Returns whether it ever polls: if not, waits need not be reported.
    #[must_use]
    pub fn is_on(&self) -> bool {
        !self.longest.is_zero()
    }

    /// Reports the length of a wait that has ended.
    pub fn waited(&mut self, wait: Duration) {
        self.trust =
            if wait <= self.longest { (self.trust + 1).min(MOST) } else { self.trust.saturating_sub(2) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHORT: Duration = Duration::from_micros(10);
    const LONG: Duration = Duration::from_millis(1);

    #[test]
    fn it_looks_once_short_waits_prevail_and_stops_soon_after() {
        let mut poll = BusyPoll::new(BusyPoll::USUAL);
        assert_eq!(poll.look(), Duration::ZERO);
        for _ in 0..100 {
            poll.waited(SHORT);
        }
        assert_eq!(poll.look(), BusyPoll::USUAL);
        for _ in 0..3 {
            poll.waited(LONG);
        }
        assert_eq!(poll.look(), Duration::ZERO);
    }

    #[test]
    fn waits_of_which_half_are_long_are_slept_through() {
        let mut poll = BusyPoll::new(BusyPoll::USUAL);
        let looks = (0..1000)
            .filter(|i| {
                poll.waited(if i % 2 == 0 { SHORT } else { LONG });
                !poll.look().is_zero()
            })
            .count();
        assert_eq!(looks, 0);
    }

    #[test]
    fn none_of_zero() {
        let mut poll = BusyPoll::new(Duration::ZERO);
        (0..100).for_each(|_| poll.waited(SHORT));
        assert!(!poll.is_on() && poll.look().is_zero());
    }
}
