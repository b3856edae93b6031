//! The way of an answer to whoever asked.

use crate::buffers::Piece;
use crate::state::ControlError;
use pumice_volume::RequestError;
use std::fmt;
use std::sync::{Arc, Condvar, Mutex, PoisonError};

/// Reasons why a request of a user failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Failed {
    #[error(transparent)]
    Request(#[from] RequestError),
    /// The volume was held for too long.
    #[error("the volume is held: more members are missing than it survives")]
    Held,
    /// Its thread has ended without an answer.
    #[error("the volume has stopped")]
    Gone,
    /// Writes that were answered, and that no flush covered, may be lost.
    #[error("a node was started again before its drives had flushed writes that were answered")]
    Unsure,
}

/// To who asked without being a user.
impl From<Failed> for ControlError {
    fn from(why: Failed) -> Self {
        if why == Failed::Held { Self::Held } else { Self::Stopped }
    }
}

/// The answer to a request's user: if it was a read, its bytes, in any order.
pub(crate) type Answer = Result<Vec<Piece>, Failed>;

/// Takes the answer to a request; called once, by the volume's thread. It must not wait. What it
/// returns wakes who waits for the answer.
type Told = Box<dyn FnOnce(Answer) -> Option<Wake> + Send>;

/// Wakes somebody when it is dropped. That costs more than an answer, and may take the processor
/// from the thread that does it; so it comes after all answers of a round.
pub(crate) struct Wake(Option<Box<dyn FnOnce() + Send>>);

impl Wake {
    pub(crate) fn new(wake: impl FnOnce() + Send + 'static) -> Self {
        Self(Some(Box::new(wake)))
    }
}

impl Drop for Wake {
    fn drop(&mut self) {
        if let Some(wake) = self.0.take() {
            wake();
        }
    }
}

/// The way of one answer.
pub(crate) struct Reply(Option<Told>);

impl Reply {
    /// Calls `told` with the answer: if the volume ends without one, that it has stopped.
    pub(crate) fn new(told: impl FnOnce(Answer) + Send + 'static) -> Self {
        Self::queued(move |answer| {
            told(answer);
            None
        })
    }

    /// The same; what `told` returns is called when all answers of a round are given.
    pub(crate) fn queued(told: impl FnOnce(Answer) -> Option<Wake> + Send + 'static) -> Self {
        Self(Some(Box::new(told)))
    }

    /// One whose answer is waited for.
    pub(crate) fn waited_for() -> (Self, Waiting) {
        let place = Arc::new((Mutex::new(None), Condvar::new()));
        let waiting = Waiting(Arc::clone(&place));
        let told = move |answer| {
            *place.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(answer);
            place.1.notify_one();
        };
        (Self::new(told), waiting)
    }

    /// Gives the answer, and wakes who waits for it.
    pub(crate) fn send(self, answer: Answer) {
        drop(self.give(answer));
    }

    /// Gives the answer. Who waits for it is to be woken.
    pub(crate) fn give(mut self, answer: Answer) -> Option<Wake> {
        self.0.take().and_then(|told| told(answer))
    }
}

impl Drop for Reply {
    fn drop(&mut self) {
        drop(self.0.take().and_then(|told| told(Err(Failed::Gone))));
    }
}

impl fmt::Debug for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Reply")
    }
}

/// The place where an answer comes.
pub(crate) struct Waiting(Arc<(Mutex<Option<Answer>>, Condvar)>);

impl Waiting {
    /// The answer.
    pub(crate) fn wait(self) -> Answer {
        let (answered, came) = &*self.0;
        let mut answered = answered.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if let Some(answer) = answered.take() {
                return answer;
            }
            answered = came.wait(answered).unwrap_or_else(PoisonError::into_inner);
        }
    }
}
