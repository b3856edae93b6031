//! Keeps writes of parts of a grain apart from writes of whole grains.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Lets many writes of whole grains run side by side, or one that reads a grain, changes part of it
/// and writes it back; that would undo a whole one under way.
#[derive(Debug, Default)]
pub(super) struct Gate {
    state: Mutex<GateState>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct GateState {
    /// Writes of whole grains under way.
    whole: usize,
    /// Writes of parts under way or waiting.
    parts: usize,
    /// One of them is under way.
    part: bool,
}

impl Gate {
    fn state(&self) -> MutexGuard<'_, GateState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&self, state: MutexGuard<'a, GateState>) -> MutexGuard<'a, GateState> {
        self.changed.wait(state).unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a write of whole grains, if it need not wait.
    pub(super) fn try_whole(&self) -> bool {
        let mut state = self.state();
        let free = state.parts == 0;
        state.whole += usize::from(free);
        free
    }

    pub(super) fn end_whole(&self) {
        let mut state = self.state();
        state.whole -= 1;
        if state.whole == 0 && state.parts > 0 {
            self.changed.notify_all();
        }
    }

    /// Writes whole grains.
    pub(super) fn whole<R>(&self, write: impl FnOnce() -> R) -> R {
        let mut state = self.state();
        // Those that wait, too, else a stream of whole ones would keep them out for ever. The other
        // way round it cannot be: a thread that waits here writes no parts.
        while state.parts > 0 {
            state = self.wait(state);
        }
        state.whole += 1;
        drop(state);
        let done = write();
        self.end_whole();
        done
    }

    /// Writes a part of a grain.
    pub(super) fn part<R>(&self, write: impl FnOnce() -> R) -> R {
        let mut state = self.state();
        state.parts += 1;
        while state.part || state.whole > 0 {
            state = self.wait(state);
        }
        state.part = true;
        drop(state);
        let done = write();
        let mut state = self.state();
        (state.part, state.parts) = (false, state.parts - 1);
        drop(state);
        self.changed.notify_all();
        done
    }
}
