//! The admin queue of an association, which several threads ask.

use crate::initiator::{Controller, InitiatorError, IoQueues, Queue, Stopper, Traffic};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::{Duration, Instant};

/// Notices about a node that does not answer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Silence {
    pub(crate) address: SocketAddr,
    /// Time that it has to answer.
    pub(crate) deadline: Duration,
    /// Told for how long it has not answered.
    pub(crate) tell: fn(SocketAddr, Duration),
}

pub(crate) struct Admin {
    /// Locked while a Keep Alive is under way: for the deadline of the queue at most.
    controller: Mutex<Controller>,
    io: IoQueues,
    stopper: Stopper,
    silence: Silence,
    /// Keep Alives that were answered.
    answers: AtomicU64,
    /// Traffic when the last Keep Alive ended.
    moved: Mutex<Traffic>,
}

impl Admin {
    /// # Errors
    /// If the system has no more descriptors.
    pub(crate) fn new(mut controller: Controller, silence: Silence) -> Result<Self, InitiatorError> {
        let admin = controller.admin();
        let (stopper, moved) = (admin.stopper()?, Mutex::new(admin.traffic()));
        let io = controller.io_queues().clone();
        Ok(Self {
            controller: Mutex::new(controller),
            io,
            stopper,
            silence,
            answers: AtomicU64::new(0),
            moved,
        })
    }

    fn moved(&self) -> MutexGuard<'_, Traffic> {
        self.moved.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends a Keep Alive, and waits for the answer: so long that together with `silent`, for which
    /// the node was silent already, it is twice the deadline. A caller that waited here for the
    /// Keep Alive of another one takes its answer.
    pub(crate) fn keep_alive(&self, silent: Duration) -> Result<(), InitiatorError> {
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
        let Silence { address, deadline, tell } = self.silence;
        let (began, mut told) = (Instant::now(), Duration::ZERO);
        let answer = controller.keep_alive(|| {
            let silent = silent + began.elapsed();
            if silent >= told + deadline / 2 {
                told = silent;
                tell(address, silent);
            }
            silent < 2 * deadline
        });
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
