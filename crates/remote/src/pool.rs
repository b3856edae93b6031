//! The queues of one association with a node, and their state after a loss.
//!
//! ```text
//! standing ── a call on any queue fails ──▶ lost: every call fails at once ── renew ──▶ standing, the next generation
//! ```
//!
//! One lost queue ends the whole association. Commands that the node still carries out for it use
//! memory that was leased to it; the next association leases other memory.
//!
//! Nothing goes over the network under the lock of the state: a node that is silent holds up those
//! who ask it, and nobody who looks at the state or gives a queue back.

use crate::admin::{Admin, Silence};
use crate::answer::unreachable;
use crate::initiator::{Controller, InitiatorError, Queue, Stopper, Traffic};
use pumice_offload::{ErrorKind, NodeError};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Commands in flight on a queue.
pub(crate) const DEPTH: u16 = 64;
/// Queues of a pool: calls beyond wait for one.
const QUEUES: u16 = 8;
/// Interval of Keep Alives, independent of other traffic: a node ends an association after 120 s of
/// silence.
const KEEP_ALIVE: Duration = Duration::from_secs(30);

/// Queues that are not in use, and numbers of queues that are not connected.
struct State {
    admin: Arc<Admin>,
    idle: Vec<(u16, Queue)>,
    numbers: Vec<u16>,
    /// Number of times that the association was re-established.
    generation: u64,
    /// The reason why it is lost, if it is.
    lost: Option<String>,
    /// Traffic of earlier associations, and of the returned queues of this one.
    moved: Traffic,
    /// Queues that were given away, by number: they end with the association.
    given: Vec<(u16, Stopper)>,
}

impl State {
    /// The association is lost. Its connections end: a node that was silent for a while would
    /// keep it alive, with its hold, and refuse the next one.
    fn lose(&mut self, why: String) {
        self.lost.get_or_insert(why);
        self.admin.end();
        self.idle.clear();
        self.given.drain(..).for_each(|(_, stopper)| stopper.stop());
    }
}

/// Calls that end when the caller gives up.
#[derive(Default)]
struct Waits {
    given_up: bool,
    next: u64,
    stoppers: Vec<(u64, Stopper)>,
}

/// The state, and those who wait for it to change.
struct Shared {
    state: Mutex<State>,
    returned: Condvar,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns whether the controller, which was silent for so long, answers. If it does not, the
    /// association is lost.
    fn is_alive(&self, silent: Duration) -> bool {
        let state = self.lock();
        if state.lost.is_some() {
            return false;
        }
        let (admin, generation) = (Arc::clone(&state.admin), state.generation);
        drop(state);
        let Err(error) = admin.keep_alive(silent) else { return true };
        self.lose(generation, &error);
        false
    }

    /// A call of association `generation` failed.
    fn lose(&self, generation: u64, why: &InitiatorError) {
        let mut state = self.lock();
        if state.generation == generation {
            state.lose(why.to_string());
        }
        drop(state);
        self.returned.notify_all();
    }
}

/// Up to [`QUEUES`] queues.
pub(crate) struct Pool {
    name: String,
    silence: Silence,
    shared: Arc<Shared>,
    waits: Mutex<Waits>,
    /// Dropped with the pool, which ends the thread that sends Keep Alives.
    _alive: Sender<()>,
}

/// A queue that was given away: its number, and the association that it is of.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Given {
    number: u16,
    generation: u64,
}

/// A queue for the time of a call.
pub(crate) struct Lease<'p> {
    pool: &'p Pool,
    number: u16,
    generation: u64,
    /// The traffic of the queue when the call began.
    before: Traffic,
    queue: Option<Queue>,
}

/// A call that ends when the caller gives up, as long as this value lives.
struct Stoppable<'p> {
    pool: &'p Pool,
    id: u64,
}

fn sum(a: Traffic, b: Traffic) -> Traffic {
    Traffic { bytes: a.bytes + b.bytes, pdus: a.pdus + b.pdus }
}

impl Pool {
    pub(crate) fn new(silence: Silence, controller: Controller, first: Queue) -> Result<Self, NodeError> {
        let name = silence.address.to_string();
        let moved = first.traffic();
        let state = State {
            admin: Arc::new(Admin::new(controller, silence).map_err(|error| unreachable(&error))?),
            idle: vec![(1, first)],
            numbers: (2..=QUEUES).rev().collect(),
            generation: 0,
            lost: None,
            moved,
            given: Vec::new(),
        };
        let shared = Arc::new(Shared { state: Mutex::new(state), returned: Condvar::new() });
        let alive = stay_alive(&shared, silence.deadline);
        Ok(Self { name, silence, _alive: alive, shared, waits: Mutex::default() })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.shared.lock()
    }

    fn lock_waits(&self) -> MutexGuard<'_, Waits> {
        self.waits.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Another association in the place of one that is lost.
    pub(crate) fn renew(&self, controller: Controller, first: Queue) -> Result<(), NodeError> {
        let admin = Arc::new(Admin::new(controller, self.silence).map_err(|error| unreachable(&error))?);
        let mut state = self.lock();
        let former = std::mem::replace(&mut state.admin, admin);
        state.moved = sum(sum(state.moved, former.traffic()), first.traffic());
        state.idle = vec![(1, first)];
        state.numbers = (2..=QUEUES).rev().collect();
        state.generation += 1;
        state.given.drain(..).for_each(|(_, stopper)| stopper.stop());
        state.lost = None;
        drop(state);
        former.end();
        self.shared.returned.notify_all();
        Ok(())
    }

    /// Returns whether the association is lost.
    pub(crate) fn is_lost(&self) -> bool {
        self.lock().lost.is_some()
    }

    /// Traffic of all connections, also of those that are gone. That of calls under way is added
    /// when they end.
    pub(crate) fn traffic(&self) -> Traffic {
        let state = self.lock();
        sum(state.moved, state.admin.traffic())
    }

    /// Returns whether the controller, from which nothing came for `silent`, answers: its admin
    /// queue is asked. If it stays silent for two deadlines together, the association is lost.
    pub(crate) fn is_alive(&self, silent: Duration) -> bool {
        self.shared.is_alive(silent)
    }

    /// The same for a call of [`Queue::run_while`], which asks after a quarter of the deadline.
    pub(crate) fn goes_on(&self) -> bool {
        self.is_alive(self.silence.deadline / 4)
    }

    /// Ends the calls that [`Lease::run_stoppable`] makes, now and from now on.
    pub(crate) fn give_up(&self) {
        let mut waits = self.lock_waits();
        waits.given_up = true;
        waits.stoppers.iter().for_each(|(_, stopper)| stopper.stop());
    }

    fn given_up(&self) -> NodeError {
        NodeError::new(ErrorKind::Unreachable, format!("{}: given up", self.name))
    }

    fn is_given_up(&self) -> bool {
        self.lock_waits().given_up
    }

    fn stoppable(&self, queue: &Queue) -> Result<Stoppable<'_>, NodeError> {
        let stopper = queue.stopper().map_err(|error| unreachable(&error))?;
        let mut waits = self.lock_waits();
        if waits.given_up {
            return Err(self.given_up());
        }
        let id = waits.next;
        waits.next += 1;
        waits.stoppers.push((id, stopper));
        Ok(Stoppable { pool: self, id })
    }

    /// A queue for `depth` commands that is the caller's until it is [taken back](Self::take_back).
    /// It ends when the association is lost.
    pub(crate) fn give(&self, depth: u16) -> Result<(Queue, Given), NodeError> {
        let mut state = self.lock();
        if let Some(why) = &state.lost {
            return Err(self.is_lost_error(why));
        }
        let Some(number) = state.numbers.pop() else {
            let what = format!("{}: all {QUEUES} queues are in use", self.name);
            return Err(NodeError::new(ErrorKind::Busy, what));
        };
        let (admin, generation) = (Arc::clone(&state.admin), state.generation);
        drop(state);
        let made = admin.queue(number, depth);
        let made = made.and_then(|queue| queue.stopper().map(|stopper| (queue, stopper)));
        let mut state = self.lock();
        let is_ours = state.generation == generation;
        match made {
            Ok(made) => {
                if let Some(why) = self.lost_meanwhile(&state, generation) {
                    return Err(why);
                }
                let (queue, stopper) = made;
                state.given.push((number, stopper));
                Ok((queue, Given { number, generation }))
            }
            Err(error) => {
                if is_ours {
                    state.numbers.push(number);
                }
                Err(unreachable(&error))
            }
        }
    }

    /// The error of a queue that was connected for association `generation` if it is of no use.
    fn lost_meanwhile(&self, state: &State, generation: u64) -> Option<NodeError> {
        match &state.lost {
            Some(why) => Some(self.is_lost_error(why)),
            None if state.generation != generation => Some(self.is_lost_error("it was made anew")),
            None => None,
        }
    }

    /// The connection of a queue that was given away is over.
    pub(crate) fn take_back(&self, given: Given) {
        let mut state = self.lock();
        if state.generation == given.generation && state.lost.is_none() {
            state.given.retain(|(number, _)| *number != given.number);
            state.numbers.push(given.number);
        }
    }

    /// A queue that was given away failed.
    pub(crate) fn lose_given(&self, given: Given, why: &InitiatorError) {
        self.lose(given.generation, why);
    }

    fn is_lost_error(&self, why: &str) -> NodeError {
        NodeError::new(ErrorKind::Unreachable, format!("{}: the connection is lost: {why}", self.name))
    }

    fn lose(&self, generation: u64, why: &InitiatorError) {
        self.shared.lose(generation, why);
    }

    /// A queue that is idle, or a new one; waits where all are in use.
    pub(crate) fn lease(&self) -> Result<Lease<'_>, NodeError> {
        let mut state = self.lock();
        loop {
            if let Some(why) = &state.lost {
                return Err(self.is_lost_error(why));
            }
            let generation = state.generation;
            let leased = |number, queue: Queue, before| Lease {
                pool: self,
                number,
                generation,
                before,
                queue: Some(queue),
            };
            if let Some((number, queue)) = state.idle.pop() {
                let before = queue.traffic();
                return Ok(leased(number, queue, before));
            }
            // Calls leave a number for a queue that is given away.
            if state.numbers.len() > 1
                && let Some(number) = state.numbers.pop()
            {
                let admin = Arc::clone(&state.admin);
                drop(state);
                let made = admin.queue(number, DEPTH);
                state = self.lock();
                if let Some(why) = self.lost_meanwhile(&state, generation) {
                    return Err(why);
                }
                match made {
                    Ok(queue) => return Ok(leased(number, queue, Traffic::default())),
                    Err(error) => {
                        state.numbers.push(number);
                        drop(state);
                        self.lose(generation, &error);
                        return Err(unreachable(&error));
                    }
                }
            }
            state = self.shared.returned.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// Has a thread keep the association alive until what is returned is dropped.
fn stay_alive(shared: &Arc<Shared>, deadline: Duration) -> Sender<()> {
    let (alive, over) = channel();
    let weak = Arc::downgrade(shared);
    // If there is no thread to be had, a host that is silent for long is forgotten, and says so.
    let _ = std::thread::Builder::new().name("keep-alive".to_owned()).spawn(move || {
        while over.recv_timeout(KEEP_ALIVE) == Err(RecvTimeoutError::Timeout) {
            let Some(shared) = weak.upgrade() else { return };
            shared.is_alive(deadline);
        }
    });
    alive
}

impl Lease<'_> {
    /// Does something with the queue. If that fails, the association is lost.
    pub(crate) fn run<T>(
        &mut self,
        work: impl FnOnce(&mut Queue) -> Result<T, InitiatorError>,
    ) -> Result<T, NodeError> {
        let queue = self.queue.as_mut().expect("a lease has its queue until it is dropped");
        work(queue).map_err(|error| {
            self.pool.lose(self.generation, &error);
            unreachable(&error)
        })
    }

    /// The same for a call that may take long: it fails at once when the caller gives up. That
    /// costs this queue alone.
    pub(crate) fn run_stoppable<T>(
        &mut self,
        work: impl FnOnce(&mut Queue) -> Result<T, InitiatorError>,
    ) -> Result<T, NodeError> {
        let queue = self.queue.as_mut().expect("a lease has its queue until it is dropped");
        let _stoppable = self.pool.stoppable(queue)?;
        work(queue).map_err(|error| {
            if self.pool.is_given_up() {
                return self.pool.given_up();
            }
            self.pool.lose(self.generation, &error);
            unreachable(&error)
        })
    }
}

impl Drop for Stoppable<'_> {
    fn drop(&mut self) {
        self.pool.lock_waits().stoppers.retain(|(id, _)| *id != self.id);
    }
}

impl Drop for Lease<'_> {
    fn drop(&mut self) {
        let Some(queue) = self.queue.take() else { return };
        let now = queue.traffic();
        let mut state = self.pool.lock();
        let (bytes, pdus) = (now.bytes - self.before.bytes, now.pdus - self.before.pdus);
        state.moved = sum(state.moved, Traffic { bytes, pdus });
        if state.generation == self.generation {
            if queue.is_broken() || state.lost.is_some() {
                state.numbers.push(self.number);
            } else {
                state.idle.push((self.number, queue));
            }
        }
        drop(state);
        self.pool.shared.returned.notify_one();
    }
}
