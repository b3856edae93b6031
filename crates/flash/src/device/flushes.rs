//! Turns of flushes: one at a time, and those that come meanwhile share the next one.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// The flusher, and those who wait for it.
#[derive(Debug, Default)]
pub(crate) struct Flushes {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// A flush is under way.
    busy: bool,
    /// All sequence numbers up to this one were flushed.
    done: u64,
}

/// The right to flush, until it is dropped.
#[derive(Debug)]
#[must_use = "others flush when it is dropped"]
pub(crate) struct Turn<'a>(&'a Flushes);

impl Flushes {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the right to flush; none if the flush of another has covered the number meanwhile.
    pub(crate) fn turn(&self, number: u64) -> Option<Turn<'_>> {
        let wait = |state: &mut State| state.busy && state.done < number;
        let waited = self.changed.wait_while(self.state(), wait);
        let mut state = waited.unwrap_or_else(PoisonError::into_inner);
        if state.done >= number {
            return None;
        }
        state.busy = true;
        Some(Turn(self))
    }

    /// The right to flush, if nobody has it.
    pub(crate) fn turn_now(&self) -> Option<Turn<'_>> {
        let mut state = self.state();
        (!std::mem::replace(&mut state.busy, true)).then(|| Turn(self))
    }
}

impl Turn<'_> {
    /// The flush succeeded, and covered all numbers up to this one.
    pub(crate) fn done(self, upto: u64) {
        let mut state = self.0.state();
        state.done = state.done.max(upto);
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.0.state().busy = false;
        // All: those that were covered go on, and one of the others flushes.
        self.0.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering};

    #[test]
    fn a_flush_serves_those_that_it_covers_and_one_of_the_others_comes_next() {
        let flushes = Flushes::default();
        let (asked, made) = (AtomicU64::new(0), AtomicU64::new(0));
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..200 {
                        let number = asked.fetch_add(1, Ordering::SeqCst) + 1;
                        if let Some(turn) = flushes.turn(number) {
                            let upto = asked.load(Ordering::SeqCst);
                            std::thread::yield_now();
                            assert!(upto >= number);
                            made.fetch_add(1, Ordering::SeqCst);
                            turn.done(upto);
                        }
                        assert!(flushes.state().done >= number);
                    }
                });
            }
        });
        assert!(made.into_inner() <= 1600);
        assert!(flushes.turn_now().is_some_and(|_turn| flushes.turn_now().is_none()));
    }

    #[test]
    fn a_flush_that_failed_covers_nothing() {
        let flushes = Flushes::default();
        drop(flushes.turn(3));
        assert!(flushes.turn(3).is_some());
        flushes.turn(4).unwrap().done(5);
        assert!(flushes.turn(5).is_none() && flushes.turn(6).is_some());
    }
}
