//! The counters of a node. `docs/reference/visibility.md` lists it.
//!
//! Each core has its own counters of commands ([`CoreCounts`]); rarer events have shared counters.

mod counts;

pub(super) use counts::{Class, CoreCounts, Fullest, Sum, bucket_end};

use pumice_offload::{NodeError, ParityCommand, ParityResult, Source};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// A counter that many raise, and seldom.
#[derive(Debug, Default)]
pub(super) struct Count(AtomicU64);

impl Count {
    pub(super) fn add(&self, n: u64) {
        // Relaxed: a sum that is looked at alone.
        self.0.fetch_add(n, Ordering::Relaxed);
    }

    pub(super) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// All counters of a node.
#[derive(Default)]
pub(super) struct Metrics {
    cores: Mutex<Vec<Arc<CoreCounts>>>,
    failed: Vec<AtomicBool>,
    pub(super) accepted: Count,
    pub(super) no_room: Count,
    pub(super) gave_way: Count,
    pub(super) associations: Count,
    pub(super) connects_refused: Count,
    pub(super) violations: Count,
}

/// Counters of parity commands over media.
#[derive(Debug, Default)]
pub(super) struct ParityCounts {
    pub(super) commands: Count,
    pub(super) failed: Count,
    pub(super) stripes: Count,
    pub(super) suspects: Count,
    pub(super) unreadable: Count,
}

impl ParityCounts {
    /// Counts a command that `work` carries out, if it reads media.
    pub(super) fn counted(
        &self,
        command: &ParityCommand,
        work: impl FnOnce() -> Result<ParityResult, NodeError>,
    ) -> Result<ParityResult, NodeError> {
        let done = work();
        if command.sources.iter().any(|source| matches!(source, Source::Media { .. })) {
            self.commands.add(1);
            match &done {
                Ok(result) => {
                    self.stripes.add(command.count());
                    self.suspects.add(result.nonzero.ones().count() as u64);
                    self.unreadable.add(result.unreadable.len() as u64);
                }
                Err(_) => self.failed.add(1),
            }
        }
        done
    }
}

impl Metrics {
    pub(super) fn new(drives: usize) -> Self {
        Self { failed: (0..drives).map(|_| AtomicBool::new(false)).collect(), ..Self::default() }
    }

    /// The counters of one more core.
    pub(super) fn core(&self) -> Arc<CoreCounts> {
        let counts = Arc::new(CoreCounts::new(self.failed.len()));
        self.cores.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::clone(&counts));
        counts
    }

    /// Figures of the fullest connections.
    pub(super) fn fullest(&self) -> Fullest {
        self.cores().iter().fold(Fullest::default(), |all, core| all.or(core.fullest()))
    }

    pub(super) fn cores(&self) -> Vec<Arc<CoreCounts>> {
        self.cores.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// A drive lost data, or takes no more writes.
    pub(super) fn drive_failed(&self, index: usize) {
        self.failed[index].store(true, Ordering::Relaxed);
    }

    pub(super) fn has_failed(&self, index: usize) -> bool {
        self.failed[index].load(Ordering::Relaxed)
    }
}
