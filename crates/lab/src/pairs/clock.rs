//! Duration of the two features of a cell.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// The time of a cell. What goes on and on ends when it is over; what takes its time once it has
/// begun, such as a pause, is waited for.
#[derive(Debug)]
pub(crate) struct Clock {
    end: Instant,
    stages: AtomicUsize,
}

/// While it lives, the cell goes on.
#[derive(Debug)]
pub(crate) struct Stage<'c>(&'c Clock);

impl Drop for Stage<'_> {
    fn drop(&mut self) {
        self.0.stages.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Clock {
    pub(crate) fn new(length: Duration) -> Self {
        Self { end: Instant::now() + length, stages: AtomicUsize::new(0) }
    }

    /// Something that is not interrupted; `None` if nothing more is to begin.
    pub(crate) fn stage(&self) -> Option<Stage<'_>> {
        self.stages.fetch_add(1, Ordering::AcqRel);
        let stage = Stage(self);
        (Instant::now() < self.end).then_some(stage)
    }

    /// The time is over, and nothing is under way that must be waited for.
    pub(crate) fn is_over(&self) -> bool {
        Instant::now() >= self.end && self.stages.load(Ordering::Acquire) == 0
    }

    /// Waits, but not longer than the cell goes on.
    pub(crate) fn rest(&self, time: Duration) {
        let until = Instant::now() + time;
        while Instant::now() < until && !self.is_over() {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}
