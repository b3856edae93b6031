//! The queues of one controller.

use pumice_initiator::{Controller, InitiatorError, Queue};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

/// Commands in flight on a queue.
pub(super) const DEPTH: u16 = 64;
/// Queues of a pool: calls beyond wait for one.
const QUEUES: u16 = 8;
/// How often the controller hears that this host is alive, whatever else it hears: a node ends an association after 120 s of silence.
const KEEP_ALIVE: Duration = Duration::from_secs(30);

/// Queues that are not in use, and numbers of queues that are not connected.
struct State {
    controller: Controller,
    idle: Vec<(u16, Queue)>,
    numbers: Vec<u16>,
}

/// Up to [`QUEUES`] queues.
pub(super) struct Pool {
    state: Arc<Mutex<State>>,
    returned: Condvar,
    /// Dropped with the pool: that ends the thread that says that this host is alive.
    _alive: Sender<()>,
}

/// A queue for the time of a call.
pub(super) struct Lease<'p> {
    pool: &'p Pool,
    number: u16,
    queue: Option<Queue>,
}

impl Pool {
    pub(super) fn new(controller: Controller, first: Queue) -> Self {
        let state = State { controller, idle: vec![(1, first)], numbers: (2..=QUEUES).rev().collect() };
        let state = Arc::new(Mutex::new(state));
        let (alive, over) = channel();
        let weak: Weak<Mutex<State>> = Arc::downgrade(&state);
        // Where there is no thread to be had, a host that is silent for long is forgotten, and says so.
        let _ = std::thread::Builder::new().name("keep-alive".to_owned()).spawn(move || {
            while over.recv_timeout(KEEP_ALIVE) == Err(RecvTimeoutError::Timeout) {
                let Some(state) = weak.upgrade() else { return };
                // A failure shows in the next command as well.
                let _ = locked(&state).controller.keep_alive();
            }
        });
        Self { state, returned: Condvar::new(), _alive: alive }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        locked(&self.state)
    }

    /// Whether the controller answers: its admin queue is asked, within its deadline.
    pub(super) fn is_alive(&self) -> bool {
        self.lock().controller.keep_alive().is_ok()
    }

    /// A queue that is idle, or a new one; waits where all are in use.
    pub(super) fn lease(&self) -> Result<Lease<'_>, InitiatorError> {
        let mut state = self.lock();
        loop {
            if let Some((number, queue)) = state.idle.pop() {
                return Ok(Lease { pool: self, number, queue: Some(queue) });
            }
            if let Some(number) = state.numbers.pop() {
                match state.controller.queue(number, DEPTH) {
                    Ok(queue) => return Ok(Lease { pool: self, number, queue: Some(queue) }),
                    Err(error) => {
                        state.numbers.push(number);
                        return Err(error);
                    }
                }
            }
            state = self.returned.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

fn locked(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Lease<'_> {
    /// Does something with the queue.
    pub(super) fn run<T>(
        &mut self,
        work: impl FnOnce(&mut Queue) -> Result<T, InitiatorError>,
    ) -> Result<T, InitiatorError> {
        work(self.queue.as_mut().expect("a lease has its queue until it is dropped"))
    }
}

impl Drop for Lease<'_> {
    fn drop(&mut self) {
        let Some(queue) = self.queue.take() else { return };
        let mut state = self.pool.lock();
        if queue.is_broken() {
            state.numbers.push(self.number);
        } else {
            state.idle.push((self.number, queue));
        }
        drop(state);
        self.pool.returned.notify_one();
    }
}
