//! The pace of a rebuild: how many windows may be restored, and when the next.

use pumice_pacer::{Nanos, TokenBucket};
use std::time::{Duration, Instant};

/// The windows that may be saved up: a tenth of a second of the rate.
const SAVED: u64 = 10;

/// A rate of bytes that a member gets.
#[derive(Debug)]
pub(crate) struct Pace {
    zero: Instant,
    window: u64,
    bucket: TokenBucket,
    /// Windows that were counted and not restored yet.
    counted: u64,
}

impl Pace {
    /// `rate` bytes a second, in windows of `window` bytes.
    pub(crate) fn new(rate: u64, window: u64) -> Self {
        let burst = (rate / SAVED).max(window);
        Self { zero: Instant::now(), window, bucket: TokenBucket::new(rate, burst, 0), counted: 0 }
    }

    /// Windows that may be restored together.
    pub(crate) fn at_once(rate: u64, window: u64) -> u64 {
        rate / SAVED / window
    }

    fn now(&self) -> Nanos {
        Nanos::try_from(self.zero.elapsed().as_nanos()).unwrap_or(Nanos::MAX)
    }

    /// The time for which the next `windows` have to wait; `None` if they may be restored now.
    pub(crate) fn wait(&mut self, windows: u64) -> Option<Duration> {
        let now = self.now();
        while self.counted < windows {
            let ready = self.bucket.ready_at(now, self.window);
            if ready > now {
                return Some(Duration::from_nanos(ready - now));
            }
            self.bucket.take(now, self.window);
            self.counted += 1;
        }
        self.counted -= windows;
        None
    }
}
