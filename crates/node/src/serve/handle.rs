//! Access to a core from other threads.

use super::done::Done;
use mio::Waker;
use pumice_remote::transport::Stream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Things that other threads hand to a core.
#[derive(Default)]
pub(super) struct Inbox {
    /// Connections that are dealt to it, each with its number.
    pub(super) streams: Vec<(usize, Stream)>,
    /// Numbers of connections that must go, unless it is known whose they are.
    pub(super) dismissed: Vec<usize>,
    /// Its commands that are done.
    pub(super) done: Vec<Done>,
}

/// Access to a core from other threads.
#[derive(Clone)]
pub(super) struct CoreHandle {
    inbox: Arc<Mutex<Inbox>>,
    waker: Arc<Waker>,
    /// It was woken since it last took what is in its inbox: once is enough.
    woken: Arc<AtomicBool>,
}

impl std::fmt::Debug for CoreHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("CoreHandle")
    }
}

impl CoreHandle {
    /// A handle that wakes its core by `waker`.
    pub(super) fn new(waker: Waker) -> Self {
        Self { inbox: Arc::default(), waker: Arc::new(waker), woken: Arc::default() }
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
        std::mem::take(&mut *self.inbox.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
