//! The ends of operations, as drives tell them.

use crate::message::Message;
use pumice_offload::Completion;
use std::sync::mpsc::Sender;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Operations that have ended, and that the volume's thread has not looked at. It gets one message
/// for all of them: one for each would cost as much as the operation, for a drive in memory.
pub(crate) struct Ends {
    ended: Mutex<Vec<Completion>>,
    told: Sender<Message>,
}

impl Ends {
    pub(crate) fn new(told: Sender<Message>) -> Self {
        Self { ended: Mutex::default(), told }
    }

    fn ended(&self) -> MutexGuard<'_, Vec<Completion>> {
        self.ended.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An operation has ended.
    pub(crate) fn put(&self, completion: Completion) {
        let mut ended = self.ended();
        ended.push(completion);
        let first = ended.len() == 1;
        drop(ended);
        if first {
            // Who does not listen any more has closed the volume.
            let _ = self.told.send(Message::Ended);
        }
    }

    /// Takes all, in their order. `into` is empty.
    pub(crate) fn take(&self, into: &mut Vec<Completion>) {
        std::mem::swap(into, &mut *self.ended());
    }
}
