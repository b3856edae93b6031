//! The thread that computes powers for hosts that authenticate.
//! `docs/design/authentication.md`, *Computations*.

use super::fair::{Fair, HostKey};
use super::handle::CoreHandle;
use pumice_nvme::auth::Job;
use pumice_nvme::controller::network;
use std::collections::HashMap;
use std::hash::Hash;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

/// Computations of an address that wait, at most, and of a claimed name.
const PLACES: usize = 64;

/// A computation, and the connection that waits for it.
pub(super) struct Waiting {
    /// The name that its host claims.
    pub(super) name: String,
    /// The address that it comes from.
    pub(super) address: IpAddr,
    pub(super) core: CoreHandle,
    /// The number of the connection on its core.
    pub(super) connection: usize,
    /// Raised if the connection is closed.
    pub(super) gone: Arc<AtomicBool>,
    pub(super) job: Job,
}

#[derive(Default)]
struct State {
    lines: Fair<Waiting>,
    of_address: HashMap<IpAddr, usize>,
    of_name: HashMap<String, usize>,
    thread: Option<JoinHandle<()>>,
    stopping: bool,
}

#[derive(Default)]
struct Inner {
    state: Mutex<State>,
    ready: Condvar,
}

impl Inner {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn work(&self) {
        let mut state = self.lock();
        while !state.stopping {
            let Some(next) = state.next() else {
                state = self.ready.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            drop(state);
            // Relaxed: a computation for nobody only costs time.
            if !next.gone.load(Ordering::Relaxed) {
                next.core.computed(next.connection, next.job.run());
            }
            state = self.lock();
        }
    }
}

fn less<K: Hash + Eq>(counts: &mut HashMap<K, usize>, key: &K) {
    if let Some(count) = counts.get_mut(key) {
        *count -= 1;
        if *count == 0 {
            counts.remove(key);
        }
    }
}

impl State {
    /// Puts a computation at the end of its address's line; false if there is no place for it.
    fn push(&mut self, waiting: Waiting) -> bool {
        let address = network(waiting.address);
        let full = self.of_address.get(&address).is_some_and(|count| *count >= PLACES)
            || self.of_name.get(&waiting.name).is_some_and(|count| *count >= PLACES);
        if full || self.stopping {
            return false;
        }
        *self.of_address.entry(address).or_default() += 1;
        *self.of_name.entry(waiting.name.clone()).or_default() += 1;
        self.lines.push(HostKey::new(address, [0; 16]), waiting);
        true
    }

    /// The first of the next address.
    fn next(&mut self) -> Option<Waiting> {
        let (_, next) = self.lines.take(|_| true)?;
        less(&mut self.of_address, &network(next.address));
        less(&mut self.of_name, &next.name);
        Some(next)
    }
}

/// See the module. Without a computation there is no thread.
#[derive(Default)]
pub(super) struct Prover(Arc<Inner>);

impl Prover {
    /// Computes for a connection, which its core is told. False if there is no place, or the system
    /// has no thread.
    pub(super) fn submit(&self, waiting: Waiting) -> bool {
        let mut state = self.0.lock();
        if state.thread.is_none() {
            let inner = Arc::clone(&self.0);
            let thread = std::thread::Builder::new().name("proofs".to_owned());
            state.thread = thread.spawn(move || inner.work()).ok();
        }
        let taken = state.thread.is_some() && state.push(waiting);
        drop(state);
        self.0.ready.notify_one();
        taken
    }
}

impl Drop for Prover {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.stopping = true;
        let thread = state.thread.take();
        drop(state);
        self.0.ready.notify_all();
        if let Some(thread) = thread {
            // Its panic has been logged.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests;
