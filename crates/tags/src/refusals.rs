//! Blocks that differ from their tags: refused, or served if the tags are stale.

use crate::budget::Budget;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// What becomes of the read of a block that differs from its tag.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ruling {
    /// It fails.
    Refused,
    /// It succeeds: the tags are stale.
    Served,
    /// It succeeds: with it the tags have become stale.
    BecameStale,
}

/// Counts of such blocks since the drive was opened, and whether its tags are stale.
pub(crate) struct Refusals {
    budget: Mutex<Budget>,
    /// Some block counts in the budget.
    counts: AtomicBool,
    opened: Instant,
    stale: AtomicBool,
    served: AtomicU64,
    refused: AtomicU64,
}

impl Refusals {
    /// None yet.
    pub(crate) fn new(stale: bool) -> Self {
        Self {
            budget: Mutex::default(),
            counts: AtomicBool::new(false),
            opened: Instant::now(),
            stale: AtomicBool::new(stale),
            served: AtomicU64::new(0),
            refused: AtomicU64::new(0),
        }
    }

    /// Whether the tags are stale, so that nothing is refused.
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

    /// Counts the read of a block that differs.
    pub(crate) fn count(&self, block: u64) -> Ruling {
        let ruling = self.rule(block);
        let counter = if ruling == Ruling::Refused { &self.refused } else { &self.served };
        counter.fetch_add(1, Ordering::Relaxed);
        ruling
    }

    /// Blocks are written: those among them that were refused [do not count](Budget::written).
    pub(crate) fn written(&self, blocks: &Range<u64>) {
        // Relaxed: a host that writes a block because its read was refused has had the answer.
        if self.counts.load(Ordering::Relaxed) {
            let mut budget = self.budget.lock().unwrap_or_else(PoisonError::into_inner);
            budget.written(blocks);
            self.counts.store(!budget.is_empty(), Ordering::Relaxed);
        }
    }

    fn rule(&self, block: u64) -> Ruling {
        if self.is_stale() {
            return Ruling::Served;
        }
        let now = u64::try_from(self.opened.elapsed().as_millis()).unwrap_or(u64::MAX);
        let mut budget = self.budget.lock().unwrap_or_else(PoisonError::into_inner);
        self.counts.store(true, Ordering::Relaxed);
        if budget.refuse(now, block) {
            self.set_stale(true);
            return Ruling::BecameStale;
        }
        Ruling::Refused
    }
}
