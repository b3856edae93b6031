//! Access to a core from other threads.

use super::done::Done;
use mio::Waker;
use pumice_nvme::auth::Computed;
use pumice_remote::transport::Stream;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Things that other threads hand to a core.
#[derive(Default)]
pub(super) struct Inbox {
    /// Connections that are dealt to it, each with its number.
    pub(super) streams: Vec<(usize, Stream)>,
    /// Numbers of connections that must go, unless it is known whose they are.
    pub(super) dismissed: Vec<usize>,
    /// Its commands that are done.
    pub(super) done: Vec<Done>,
    /// Computations that are done, each with the number of its connection.
    pub(super) computed: Vec<(usize, Computed)>,
}

/// Access to a core from other threads.
#[derive(Clone)]
pub(super) struct CoreHandle {
    inbox: Arc<Mutex<Inbox>>,
    waker: Arc<Waker>,
    /// It was woken since it last took what is in its inbox: once is enough.
    woken: Arc<AtomicBool>,
    /// Number of times that it has taken what is in its inbox.
    taken: Arc<AtomicU64>,
}

impl std::fmt::Debug for CoreHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("CoreHandle")
    }
}

impl CoreHandle {
    /// A handle that wakes its core by `waker`.
    pub(super) fn new(waker: Waker) -> Self {
        Self { inbox: Arc::default(), waker: Arc::new(waker), woken: Arc::default(), taken: Arc::default() }
    }

    /// Wakes it. It sees all that was done before, also if another one has woken it already.
    pub(super) fn wake(&self) {
        // AcqRel, here and in `take`: if it is woken already, what comes before this comes before
        // its next look.
        if !self.woken.swap(true, Ordering::AcqRel) {
            // A core that is gone needs no waking.
            let _ = self.waker.wake();
        }
    }

    /// Hands it a command that is done.
    pub(super) fn done(&self, done: Done) {
        let mut inbox = self.inbox.lock().unwrap_or_else(PoisonError::into_inner);
        let first = inbox.done.is_empty();
        inbox.done.push(done);
        drop(inbox);
        // Others have woken it for theirs, and it takes all at once.
        if first {
            self.wake();
        }
    }

    /// Number of times that it has taken what it was handed.
    fn taken(&self) -> u64 {
        self.taken.load(Ordering::Relaxed)
    }

    /// Hands it the result of a computation for a connection.
    pub(super) fn computed(&self, number: usize, computed: Computed) {
        self.inbox.lock().unwrap_or_else(PoisonError::into_inner).computed.push((number, computed));
        self.wake();
    }

    /// Deals it a connection.
    pub(super) fn give(&self, number: usize, stream: Stream) {
        self.inbox.lock().unwrap_or_else(PoisonError::into_inner).streams.push((number, stream));
        self.wake();
    }

    /// Has it close a connection, unless it is known whose that is.
    pub(super) fn dismiss(&self, number: usize) {
        self.inbox.lock().unwrap_or_else(PoisonError::into_inner).dismissed.push(number);
        self.wake();
    }

    /// All that it has been handed since it last took it.
    pub(super) fn take(&self) -> Inbox {
        self.woken.swap(false, Ordering::AcqRel);
        // Relaxed: nothing is read because of it.
        self.taken.fetch_add(1, Ordering::Relaxed);
        std::mem::take(&mut *self.inbox.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Pause between two looks at a core.
const PAUSE: Duration = Duration::from_millis(5);

/// A way to see from another thread whether the cores of a server go on.
#[derive(Debug, Clone)]
pub struct Pulse(pub(super) Vec<CoreHandle>);

impl Pulse {
    /// Wakes every core, and returns whether each of them has begun a round within `patience`. A
    /// core waits for no medium and no other host, so one that does not is stuck.
    #[must_use]
    pub fn beats(&self, patience: Duration) -> bool {
        let until = Instant::now() + patience;
        let before: Vec<u64> = self.0.iter().map(CoreHandle::taken).collect();
        self.0.iter().for_each(CoreHandle::wake);
        loop {
            if self.0.iter().zip(&before).all(|(core, before)| core.taken() != *before) {
                return true;
            }
            if Instant::now() >= until {
                return false;
            }
            std::thread::sleep(PAUSE);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mio::{Poll, Token};

    #[test]
    fn a_core_that_takes_nothing_has_no_pulse() {
        let poll = Poll::new().unwrap();
        let core = CoreHandle::new(Waker::new(poll.registry(), Token(0)).unwrap());
        let pulse = Pulse(vec![core.clone()]);
        assert!(!pulse.beats(Duration::from_millis(30)));
        let beating = std::thread::spawn(move || pulse.beats(Duration::from_secs(60)));
        while !beating.is_finished() {
            core.take();
            std::thread::sleep(PAUSE);
        }
        assert!(beating.join().unwrap());
    }
}
