//! The decision whether to poll for work before sleeping.

use std::time::{Duration, Instant};

/// How long a thread looks again and again for what its peer sends before it lets the system wake
/// it.
///
/// To be woken on another core costs some 20 µs in a virtual machine, as much as a whole command
/// over loopback; where answers come faster than that, a thread that looks for them is both sooner
/// and no dearer. Where they do not, looking is lost. So it is learned: each wait is short (not
/// longer than the longest look) or long, and the thread looks first only while short ones prevail.
/// What is lost is bounded: a long wait counts as two short ones, so at most half of the waits
/// after which looking was in vain, and none at all of a peer that is silent or slow.
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

    /// Looks for at most `longest` at a time; zero for never.
    #[must_use]
    pub fn new(longest: Duration) -> Self {
        Self { longest, trust: 0 }
    }

    /// How long to look, from the beginning of a wait on, before sleeping.
    #[must_use]
    pub fn look(&self) -> Duration {
        if self.trust >= ENOUGH { self.longest } else { Duration::ZERO }
    }

    /// Between two looks: gives way to any other thread that wants to run here. Returns whether
    /// there was none; where there was, it is better to sleep than to look on beside it: it may be
    /// the peer itself.
    #[must_use]
    pub fn has_the_core() -> bool {
        /// More than it takes to give way to nobody, and less than any other thread is likely to
        /// run.
        const ALONE: Duration = Duration::from_micros(3);
        let began = Instant::now();
        std::thread::yield_now();
        began.elapsed() < ALONE
    }

    /// Whether it ever looks: if not, waits need not be told.
    #[must_use]
    pub fn is_on(&self) -> bool {
        !self.longest.is_zero()
    }

    /// A wait is over, and was so long.
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
