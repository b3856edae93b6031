//! Blocks that differ from their tags: refused, or served if the tags are stale.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Counts of such blocks since the drive was opened, and whether its tags are stale.
///
/// No number of refusals makes tags stale: while the drive is open nobody else writes it, so what
/// fitted when it was opened has rotted since.
pub(crate) struct Refusals {
    stale: AtomicBool,
    served: AtomicU64,
    refused: AtomicU64,
}

impl Refusals {
    /// None yet.
    pub(crate) const fn new(stale: bool) -> Self {
        Self { stale: AtomicBool::new(stale), served: AtomicU64::new(0), refused: AtomicU64::new(0) }
    }

    /// Returns whether the tags are stale, so that nothing is refused.
    pub(crate) fn is_stale(&self) -> bool {
        self.stale.load(Ordering::Relaxed)
    }

    pub(crate) fn set_stale(&self, stale: bool) {
        self.stale.store(stale, Ordering::Relaxed);
    }

    /// Reads of blocks that were refused, and reads of blocks that were served though they differ.
    pub(crate) fn counts(&self) -> (u64, u64) {
        (self.refused.load(Ordering::Relaxed), self.served.load(Ordering::Relaxed))
    }

    /// Counts the read of a block that differs. Whether it is refused.
    pub(crate) fn refuses(&self) -> bool {
        let refuses = !self.is_stale();
        let counter = if refuses { &self.refused } else { &self.served };
        counter.fetch_add(1, Ordering::Relaxed);
        refuses
    }
}
