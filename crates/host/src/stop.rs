//! The stop signal of a pass, and the waits that it ends at once.

use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Function that is called when the stop is raised.
type Listener = Box<dyn Fn() + Send>;

#[derive(Default)]
struct State {
    raised: bool,
    next: u64,
    listeners: Vec<(u64, Listener)>,
}

/// A request to end a pass. Any thread may raise it, once; it is never lowered.
///
/// Threads wait through this value, and a raised stop wakes them at once. Nothing polls a flag.
#[derive(Default)]
pub struct Stop {
    state: Mutex<State>,
}

/// The pass is to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stopped;

/// Something that is called when the pass is to end, as long as this value lives.
pub struct Listening<'s> {
    stop: &'s Stop,
    id: u64,
}

impl Stop {
    /// A stop that is not raised.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Raises the stop, and ends every wait.
    pub fn raise(&self) {
        let listeners = {
            let mut state = self.lock();
            state.raised = true;
            std::mem::take(&mut state.listeners)
        };
        // Without the lock: a listener may take long, and may ask.
        listeners.iter().for_each(|(_, listener)| listener());
    }

    /// Returns whether the stop was raised.
    #[must_use]
    pub fn is_raised(&self) -> bool {
        self.lock().raised
    }

    /// Calls `listener` when the stop is raised, or now if it was. It must not wait long.
    pub fn listen(&self, listener: impl Fn() + Send + 'static) -> Listening<'_> {
        let mut state = self.lock();
        let id = state.next;
        state.next += 1;
        if state.raised {
            drop(state);
            listener();
        } else {
            state.listeners.push((id, Box::new(listener)));
        }
        Listening { stop: self, id }
    }

    /// Waits for `time`, or until the stop is raised.
    ///
    /// # Errors
    /// If it was raised.
    pub fn wait(&self, time: Duration) -> Result<(), Stopped> {
        let (wake, woken) = channel();
        let _listening = self.listen(move || {
            // The waiting thread may be gone.
            let _ = wake.send(());
        });
        match woken.recv_timeout(time) {
            Err(RecvTimeoutError::Timeout) => Ok(()),
            Ok(()) | Err(RecvTimeoutError::Disconnected) => Err(Stopped),
        }
    }

    /// Does `work` on a thread of its own, and waits for its result, or until the stop is raised:
    /// then the thread is left to itself.
    pub(crate) fn wait_for<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Stopped> {
        let (tell, told) = channel();
        let wake = tell.clone();
        let _listening = self.listen(move || {
            // The waiting thread may be gone, here and below.
            let _ = wake.send(None);
        });
        std::thread::spawn(move || {
            let _ = tell.send(Some(work()));
        });
        told.recv().ok().flatten().ok_or(Stopped)
    }
}

impl Drop for Listening<'_> {
    fn drop(&mut self) {
        self.stop.lock().listeners.retain(|(id, _)| *id != self.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_ends_with_its_time_or_with_the_stop() {
        let stop = Stop::new();
        assert_eq!(stop.wait(Duration::from_millis(1)), Ok(()));
        std::thread::scope(|scope| {
            // Far longer than the test may take.
            let waits = scope.spawn(|| stop.wait(Duration::from_secs(3600)));
            let works = scope.spawn(|| stop.wait_for(|| std::thread::sleep(Duration::from_secs(3600))));
            stop.raise();
            assert_eq!((waits.join().unwrap(), works.join().unwrap()), (Err(Stopped), Err(Stopped)));
        });
        assert!(stop.is_raised());
        assert_eq!(stop.wait(Duration::from_secs(3600)), Err(Stopped), "it is not taken back");
    }

    #[test]
    fn what_listens_is_called_once_and_not_after_it_has_gone() {
        let stop = Stop::new();
        let (tell, told) = channel();
        let gone = tell.clone();
        drop(stop.listen(move || gone.send("gone").unwrap()));
        let first = tell.clone();
        let _listening = stop.listen(move || first.send("before").unwrap());
        stop.raise();
        let _late = stop.listen(move || tell.send("after").unwrap());
        assert_eq!(told.try_iter().collect::<Vec<_>>(), ["before", "after"]);
    }

    #[test]
    fn work_that_ends_first_brings_its_result() {
        assert_eq!(Stop::new().wait_for(|| 7), Ok(7));
    }
}
