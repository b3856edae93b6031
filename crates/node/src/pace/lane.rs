//! The pacer of drives that share disks, and the events that the server reports to it.

use pumice_pacer::{Kind, Pacer};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError, TryLockError};

/// The one kind of background work that there is.
const SCRUB: u8 = 0;
/// Most reports that cores leave for a pacer whose lock is held; beyond that they wait for the
/// lock.
const MOST_LEFT: usize = 4096;

/// A foreground request: when it was seen, 0 where nobody wanted to know, and for how many
/// nanoseconds it had waited then.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Foreground {
    pub(super) seen: u64,
    pub(super) waited: u64,
}

#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) pacer: Option<Pacer>,
    /// The pacer while there is no pace, for what it has learned, and under which policy.
    pub(super) parked: Option<Pacer>,
    pub(super) readers: u32,
    /// Reports that came meanwhile and are being taken in: empty between two calls, kept for its
    /// memory.
    taken: Vec<Told>,
}

/// A report of a core to a pacer.
#[derive(Debug, Clone, Copy)]
pub(super) enum Told {
    Arrived { now: u64 },
    Completed { now: u64, request: Foreground, bytes: u64 },
}

impl State {
    pub(super) fn take(&mut self, told: Told) {
        match (&mut self.pacer, told) {
            (Some(pacer), Told::Arrived { now }) => pacer.foreground_arrived(now),
            (Some(pacer), Told::Completed { now, request, bytes }) => {
                pacer.foreground_completed(now, request.seen, request.waited, bytes);
            }
            (None, _) => {}
        }
    }

    /// Tells the pacer whether anybody wants to read.
    pub(super) fn tell_work(&mut self) {
        let kind = Kind::new(SCRUB).expect("there is a first kind");
        match &mut self.pacer {
            Some(pacer) if self.readers > 0 => pacer.begin_work(kind, 1),
            Some(pacer) => pacer.end_work(kind),
            None => {}
        }
    }
}

/// The drives that share disks, and their pacer: together, for what is read from one slows the
/// others, and a goal is not to be spent once for each.
///
/// Who reads in the background may lose its processor while it holds the lock, and a core that
/// waited for the lock would wait for that too. So a core that does not get it at once leaves what
/// it has to say, and whoever gets it next takes that in first.
#[derive(Debug, Default)]
pub(super) struct Lane {
    pub(super) state: Mutex<State>,
    pub(super) changed: Condvar,
    /// One background read asks the pacer at a time, the others wait until it has its answer: they
    /// would be woken in vain.
    taken: AtomicBool,
    pub(super) free: Condvar,
    /// Number of drives that it is for, and of their disks as far as is known.
    pub(super) drives: usize,
    pub(super) disks: usize,
    /// Background reads that wait for something to change, or are about to.
    pub(super) waiting: AtomicUsize,
    /// Reports that were left, in order, and whether there are some.
    pub(super) left: Mutex<Vec<Told>>,
    pub(super) any_left: AtomicBool,
    /// A request is done since those who wait were woken.
    pub(super) news: AtomicBool,
}

/// The turn of a background read to ask the pacer.
pub(super) struct Turn<'l>(&'l Lane);

impl<'l> Turn<'l> {
    /// The turn, where nobody has it. Asked for, and given back, with the lane's lock held.
    pub(super) fn take(lane: &'l Lane) -> Option<Self> {
        // Relaxed: the lock orders it.
        (!lane.taken.swap(true, Ordering::Relaxed)).then(|| Self(lane))
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.0.taken.store(false, Ordering::Relaxed);
        self.0.free.notify_one();
    }
}

impl Lane {
    /// Returns whether somebody has the turn to ask.
    pub(super) fn is_taken(&self) -> bool {
        self.taken.load(Ordering::Relaxed)
    }

    /// For so many drives on so many disks.
    pub(super) fn new(drives: usize, disks: usize) -> Self {
        Self { drives, disks, ..Self::default() }
    }

    /// The state as of now.
    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        let mut state = locked(&self.state);
        self.catch_up(&mut state);
        state
    }

    /// The same, where nobody has the lock.
    pub(super) fn try_lock(&self) -> Option<MutexGuard<'_, State>> {
        let mut state = match self.state.try_lock() {
            Ok(state) => state,
            Err(TryLockError::Poisoned(state)) => state.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        self.catch_up(&mut state);
        Some(state)
    }

    /// Takes in what was left.
    pub(super) fn catch_up(&self, state: &mut State) {
        // Acquire, with the Release in `tell`: what is seen to be left is there. A moment later is
        // as good.
        if !self.any_left.load(Ordering::Acquire) {
            return;
        }
        let mut taken = std::mem::take(&mut state.taken);
        {
            let mut left = locked(&self.left);
            self.any_left.store(false, Ordering::Release);
            std::mem::swap(&mut *left, &mut taken);
        }
        taken.drain(..).for_each(|told| state.take(told));
        state.taken = taken;
    }

    /// Tells the pacer, or whoever has the lock.
    pub(super) fn tell(&self, told: Told) {
        if let Some(mut state) = self.try_lock() {
            state.take(told);
            return;
        }
        let mut left = locked(&self.left);
        if left.len() < MOST_LEFT {
            left.push(told);
            self.any_left.store(true, Ordering::Release);
            return;
        }
        drop(left);
        self.lock().take(told);
    }
}

pub(super) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
