//! Turns of parity commands: hosts take turns in slices of time.
//!
//! A command that has begun keeps its thread until it ends. It works while it has a turn; when its
//! slice is over and another host waits, it passes the turn on and waits for its next one. Commands
//! whose reads keep a pace mostly sleep, and take turns among themselves.

use super::fair::{Fair, HostKey};
use crate::engine::Permit;
use std::collections::HashSet;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Time that a command works before another host has its turn.
const SLICE: Duration = Duration::from_millis(50);
/// The same for one whose reads keep a pace: what it has read and not folded is read again.
const PACED_SLICE: Duration = Duration::from_secs(2);
/// Interval at which a waiting command checks whether it is still wanted.
const LOOK: Duration = Duration::from_millis(100);

/// So many turns at a time.
#[derive(Debug)]
pub(super) struct Turns {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug)]
struct State {
    all: usize,
    free: usize,
    waiting: Fair<u64>,
    /// Tickets that have got their turn and have not seen it.
    given: HashSet<u64>,
    next: u64,
}

impl Turns {
    pub(super) fn new(count: usize) -> Self {
        let state =
            State { all: count, free: count, waiting: Fair::default(), given: HashSet::new(), next: 0 };
        Self { state: Mutex::new(state), changed: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Turns that are taken, and all that there are.
    pub(super) fn used(&self) -> (usize, usize) {
        let state = self.lock();
        (state.all - state.free, state.all)
    }

    /// Waits for a turn; false where it is not wanted any more.
    fn take(&self, host: HostKey, wanted: &dyn Fn() -> bool) -> bool {
        let mut state = self.lock();
        let ticket = state.next;
        state.next += 1;
        state.waiting.push(host, ticket);
        state.deal();
        loop {
            if state.given.remove(&ticket) {
                return true;
            }
            if !wanted() {
                state.waiting.remove(|waiting| *waiting == ticket);
                return false;
            }
            state = self.changed.wait_timeout(state, LOOK).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Gives a turn back.
    fn give_back(&self) {
        let mut state = self.lock();
        state.free += 1;
        if state.deal() {
            drop(state);
            self.changed.notify_all();
        }
    }

    fn others_wait(&self, host: &HostKey) -> bool {
        self.lock().waiting.has_others(host)
    }
}

impl State {
    /// Deals out what is free; tells whether anybody got anything.
    fn deal(&mut self) -> bool {
        let mut dealt = false;
        while self.free > 0 {
            let Some((_, ticket)) = self.waiting.take(|_| true) else { break };
            self.free -= 1;
            self.given.insert(ticket);
            dealt = true;
        }
        dealt
    }
}

/// The turn of a command.
#[derive(Debug)]
struct Held {
    began: Instant,
    has: bool,
    paced: bool,
}

/// A parity command with its turns. Its turn is given back when it is dropped, however it ends.
pub(super) struct InTurn<'t> {
    plain: &'t Turns,
    paced: &'t Turns,
    host: HostKey,
    cntlid: u16,
    wanted: &'t (dyn Fn() -> bool + Sync),
    held: Mutex<Held>,
}

impl<'t> InTurn<'t> {
    /// Waits for the first turn, for a command of a host's controller.
    pub(super) fn begin(
        plain: &'t Turns,
        paced: &'t Turns,
        (host, cntlid): (HostKey, u16),
        wanted: &'t (dyn Fn() -> bool + Sync),
    ) -> Self {
        let has = plain.take(host, wanted);
        let held = Mutex::new(Held { began: Instant::now(), has, paced: false });
        Self { plain, paced, host, cntlid, wanted, held }
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn turns(&self, paced: bool) -> &'t Turns {
        if paced { self.paced } else { self.plain }
    }

    /// Gives back what it has, and waits for a turn of this kind.
    fn change(&self, held: &mut Held, paced: bool) {
        if std::mem::take(&mut held.has) {
            self.turns(held.paced).give_back();
        }
        held.paced = paced;
        held.has = self.turns(paced).take(self.host, self.wanted);
        held.began = Instant::now();
    }
}

impl Permit for InTurn<'_> {
    fn is_wanted(&self) -> bool {
        (self.wanted)()
    }

    fn must_yield(&self) -> bool {
        let held = self.held();
        let slice = if held.paced { PACED_SLICE } else { SLICE };
        held.began.elapsed() >= slice && self.turns(held.paced).others_wait(&self.host)
    }

    fn yield_turn(&self) {
        let mut held = self.held();
        let paced = held.paced;
        self.change(&mut held, paced);
    }

    fn asker(&self) -> u16 {
        self.cntlid
    }

    fn enter_paced(&self) {
        self.change(&mut self.held(), true);
    }
}

impl Drop for InTurn<'_> {
    fn drop(&mut self) {
        let held = self.held();
        if held.has {
            self.turns(held.paced).give_back();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;
    use std::sync::atomic::{AtomicBool, Ordering};

    fn host(n: u8) -> HostKey {
        HostKey::new(Ipv4Addr::LOCALHOST.into(), [n; 16])
    }

    /// One turn; a host with many commands that never end by themselves, and another one with a
    /// single command.
    #[test]
    fn a_hundred_commands_of_one_host_do_not_hold_anothers() {
        let (plain, paced) = (Turns::new(1), Turns::new(1));
        let stop = AtomicBool::new(false);
        let wanted = || !stop.load(Ordering::Relaxed);
        std::thread::scope(|scope| {
            for _ in 0..100 {
                scope.spawn(|| {
                    let turn = InTurn::begin(&plain, &paced, (host(1), 1), &wanted);
                    while turn.check().is_ok() {
                        if turn.must_yield() {
                            turn.yield_turn();
                        }
                        std::thread::sleep(Duration::from_millis(1));
                    }
                });
            }
            // A turn of each kind, more than once: the test ends.
            for paces in [false, true, false] {
                let turn = InTurn::begin(&plain, &paced, (host(2), 2), &|| true);
                if paces {
                    turn.enter_paced();
                }
                assert!(turn.held().has);
                drop(turn);
            }
            stop.store(true, Ordering::Relaxed);
        });
        assert_eq!((plain.lock().free, paced.lock().free), (1, 1), "all turns were given back");
    }

    #[test]
    fn a_slice_ends_only_for_others() {
        let (plain, paced) = (Turns::new(1), Turns::new(1));
        let turn = InTurn::begin(&plain, &paced, (host(1), 1), &|| true);
        std::thread::sleep(SLICE);
        plain.lock().waiting.push(host(1), 77);
        assert!(!turn.must_yield(), "its own commands wait for its end");
        plain.lock().waiting.push(host(2), 78);
        assert!(turn.must_yield());
    }
}
