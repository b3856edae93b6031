//! The admin queue of an association, which several threads ask.

use pumice_initiator::{Controller, InitiatorError, IoQueues, Queue, Stopper, Traffic};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

pub(crate) struct Admin {
    /// Locked while a Keep Alive is under way: for the deadline of the queue at most.
    controller: Mutex<Controller>,
    io: IoQueues,
    stopper: Stopper,
    /// Keep Alives that were answered.
    answers: AtomicU64,
    /// Traffic when the last Keep Alive ended.
    moved: Mutex<Traffic>,
}

impl Admin {
    /// # Errors
    /// If the system has no more descriptors.
    pub(crate) fn new(mut controller: Controller) -> Result<Self, InitiatorError> {
        let admin = controller.admin();
        let (stopper, moved) = (admin.stopper()?, Mutex::new(admin.traffic()));
        let io = controller.io_queues().clone();
        Ok(Self { controller: Mutex::new(controller), io, stopper, answers: AtomicU64::new(0), moved })
    }

    fn moved(&self) -> MutexGuard<'_, Traffic> {
        self.moved.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends a Keep Alive, and waits for the answer. A caller that waited here for the Keep Alive
    /// of another one takes its answer.
    pub(crate) fn keep_alive(&self) -> Result<(), InitiatorError> {
        let before = self.answers.load(Ordering::Acquire);
        let mut controller = match self.controller.try_lock() {
            Ok(controller) => controller,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => {
                let controller = self.controller.lock().unwrap_or_else(PoisonError::into_inner);
                if self.answers.load(Ordering::Acquire) != before {
                    return Ok(());
                }
                controller
            }
        };
        let answer = controller.keep_alive();
        *self.moved() = controller.admin().traffic();
        answer?;
        self.answers.fetch_add(1, Ordering::Release);
        Ok(())
    }

    /// Ends the connection: a Keep Alive under way fails at once.
    pub(crate) fn end(&self) {
        self.stopper.stop();
    }

    /// Its traffic, without that of a Keep Alive under way.
    pub(crate) fn traffic(&self) -> Traffic {
        *self.moved()
    }

    /// Connects I/O queue `number` for `depth` commands.
    pub(crate) fn queue(&self, number: u16, depth: u16) -> Result<Queue, InitiatorError> {
        self.io.connect(number, depth)
    }
}
