//! Rounds of all cores: a new association waits for one, and the end of an association is
//! propagated by one. `docs/design/node.md`, *A host that comes back*.

use super::handle::CoreHandle;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

/// The rounds that were asked for, and how far the cores are. Cores look here once for each time
/// they poll, never for a command.
///
/// Invariants:
///
/// 1. Every core that still runs has made every round up to `made`.
/// 2. `made` never falls.
/// 3. Before a core says that it has made a round, it has closed the connections whose end the
///    system had seen, or whose association had ended, when the round was asked for.
/// 4. A core that waits is woken when `made` rises: it says so before it looks at `made`.
#[derive(Debug)]
pub(super) struct Rounds {
    /// Rounds that were asked for.
    asked: AtomicU64,
    /// Of those, how many every core has made.
    made: AtomicU64,
    cores: Mutex<Vec<Progress>>,
    handles: OnceLock<Vec<CoreHandle>>,
}

/// The rounds of a core.
#[derive(Debug, Clone, Copy, Default)]
struct Progress {
    made: u64,
    /// It has admin queues that wait for the others.
    waits: bool,
}

impl Rounds {
    /// For so many cores.
    pub(super) fn new(cores: usize) -> Self {
        Self {
            asked: AtomicU64::new(0),
            made: AtomicU64::new(0),
            cores: Mutex::new(vec![Progress::default(); cores]),
            handles: OnceLock::new(),
        }
    }

    /// Says how the cores are woken.
    pub(super) fn tell(&self, handles: Vec<CoreHandle>) {
        // Told once, before any core runs.
        let _ = self.handles.set(handles);
    }

    /// Asks for a round, and returns its number. Whatever the caller has seen comes before it.
    pub(super) fn ask(&self) -> u64 {
        let round = self.asked.fetch_add(1, Ordering::AcqRel) + 1;
        self.handles.get().into_iter().flatten().for_each(CoreHandle::wake);
        round
    }

    /// The last round that was asked for: a core that polls after it has read this makes that one,
    /// and all before.
    pub(super) fn asked(&self) -> u64 {
        self.asked.load(Ordering::Acquire)
    }

    /// A core has made `round`, or, with the highest number, is gone and carries out nothing any
    /// more.
    pub(super) fn made(&self, core: usize, round: u64) {
        let mut cores = self.cores.lock().unwrap_or_else(PoisonError::into_inner);
        cores[core].made = cores[core].made.max(round);
        let all = cores.iter().map(|core| core.made).min().unwrap_or(u64::MAX);
        // Under the lock: it never falls. Release: what the cores carried out comes before what is
        // done after the round.
        let was = self.made.swap(all, Ordering::AcqRel);
        if all > was {
            for (core, handle) in cores.iter_mut().zip(self.handles.get().into_iter().flatten()) {
                if std::mem::take(&mut core.waits) {
                    handle.wake();
                }
            }
        }
    }

    /// A core waits for the others, and is woken when all have made a round. It looks whether they
    /// have after this.
    pub(super) fn will_wait(&self, core: usize) {
        self.cores.lock().unwrap_or_else(PoisonError::into_inner)[core].waits = true;
    }

    /// Returns whether every core has made it.
    pub(super) fn is_made(&self, round: u64) -> bool {
        self.made.load(Ordering::Acquire) >= round
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_is_made_when_every_core_has_made_it() {
        let rounds = Rounds::new(3);
        assert_eq!((rounds.ask(), rounds.ask(), rounds.asked()), (1, 2, 2));
        rounds.made(0, 2);
        rounds.made(1, 1);
        assert!(!rounds.is_made(1));
        rounds.made(2, 2);
        assert!(rounds.is_made(1) && !rounds.is_made(2));
        // One that is gone is not waited for.
        rounds.made(1, u64::MAX);
        assert!(rounds.is_made(2) && !rounds.is_made(3));
    }
}
