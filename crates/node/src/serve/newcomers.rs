//! The places of connections. If all places are taken, a new connection displaces one that has not
//! yet identified its host: the oldest of the address with most such connections. So silent
//! connections cannot keep hosts out. An identified connection keeps its place, up to seven eighths
//! of all places for one address, so no address can keep the hosts of others out.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Connections that were told to go and are still there, at most: so many more than there are
/// places for may stand for a moment.
pub(super) const GOING: usize = 32;

/// A connection by the order in which it came, and its core.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Arrival {
    pub(super) number: usize,
    pub(super) core: usize,
}

/// The decision about a new connection, and about others that must go.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Entry {
    /// False where all places are taken by connections of which it is known whose they are.
    pub(super) admitted: bool,
    pub(super) leave: Vec<Arrival>,
}

#[derive(Debug, Default)]
struct State {
    /// All that stand.
    connections: usize,
    /// The address of each of them.
    from: HashMap<usize, IpAddr>,
    /// Connections that may have to give way, by address, each with its core: nobody knows yet
    /// whose they are, or their address keeps as many places as it may.
    of: BTreeMap<IpAddr, BTreeMap<usize, usize>>,
    /// Connections that keep their places, and how many of them each address has.
    settled: HashSet<usize>,
    settled_of: HashMap<IpAddr, usize>,
    /// Connections that were told to go.
    going: HashSet<usize>,
}

/// See the module. Asked when a connection comes, when it is known whose it is, and when it ends;
/// never for a command.
#[derive(Debug)]
pub(super) struct Newcomers {
    places: usize,
    state: Mutex<State>,
}

impl Newcomers {
    pub(super) fn new(places: usize) -> Self {
        Self { places, state: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The number of places that the connections of one address may keep.
    pub(super) fn places_of_address(&self) -> usize {
        self.places - self.places / 8
    }

    /// The number of places of the address that keeps most.
    pub(super) fn kept_of_address(&self) -> usize {
        self.lock().settled_of.values().copied().max().unwrap_or(0)
    }

    /// Connections that stand.
    pub(super) fn connections(&self) -> usize {
        self.lock().connections
    }

    /// Returns whether the next one should wait until some of those have gone that were told to:
    /// their core may be busy, and whoever comes meanwhile is to have a place.
    pub(super) fn are_going(&self) -> bool {
        let state = self.lock();
        state.going.len() >= GOING && state.connections - state.going.len() >= self.places
    }

    /// A connection comes from an address.
    pub(super) fn arrive(&self, arrival: Arrival, address: IpAddr) -> Entry {
        let mut state = self.lock();
        let mut leave = Vec::new();
        while state.connections - state.going.len() >= self.places {
            let oldest = if state.going.len() < GOING { state.oldest() } else { None };
            let Some(oldest) = oldest else { return Entry { admitted: false, leave } };
            state.no_newcomer(oldest.number);
            state.going.insert(oldest.number);
            leave.push(oldest);
        }
        state.connections += 1;
        state.from.insert(arrival.number, address);
        state.of.entry(address).or_default().insert(arrival.number, arrival.core);
        Entry { admitted: true, leave }
    }

    /// It is known whose connection it is: it keeps its place, even if it was told to go, unless
    /// its address has as many as it may keep. Whether it does.
    pub(super) fn settle(&self, number: usize) -> bool {
        let mut state = self.lock();
        let Some(address) = state.from.get(&number).copied() else { return false };
        let kept = state.settled_of.entry(address).or_default();
        if *kept >= self.places_of_address() {
            return false;
        }
        *kept += 1;
        state.settled.insert(number);
        state.no_newcomer(number);
        state.going.remove(&number);
        true
    }

    /// A connection is closed.
    pub(super) fn leave(&self, number: usize) {
        let mut state = self.lock();
        state.connections -= 1;
        state.no_newcomer(number);
        state.going.remove(&number);
        let address = state.from.remove(&number);
        if let Some(address) = address.filter(|_| state.settled.remove(&number))
            && let Some(kept) = state.settled_of.get_mut(&address)
        {
            *kept -= 1;
            if *kept == 0 {
                state.settled_of.remove(&address);
            }
        }
    }
}

impl State {
    /// The oldest newcomer of the address that has most.
    fn oldest(&self) -> Option<Arrival> {
        let oldest = |of: &BTreeMap<usize, usize>| of.keys().next().copied();
        let most = self.of.values().max_by_key(|of| (of.len(), Reverse(oldest(of))))?;
        most.first_key_value().map(|(number, core)| Arrival { number: *number, core: *core })
    }

    /// It is no newcomer any more.
    fn no_newcomer(&mut self, number: usize) {
        let Some(address) = self.from.get(&number).copied() else { return };
        if let Some(of) = self.of.get_mut(&address) {
            of.remove(&number);
            if of.is_empty() {
                self.of.remove(&address);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    fn address(n: u8) -> IpAddr {
        Ipv4Addr::new(192, 0, 2, n).into()
    }

    fn arrive(newcomers: &Newcomers, number: usize, from: u8) -> (bool, Vec<usize>) {
        let Entry { admitted, leave } = newcomers.arrive(Arrival { number, core: number % 2 }, address(from));
        assert!(leave.iter().all(|arrival| arrival.core == arrival.number % 2));
        (admitted, leave.into_iter().map(|arrival| arrival.number).collect())
    }

    #[test]
    fn the_oldest_newcomer_of_the_fullest_address_gives_way() {
        let newcomers = Newcomers::new(4);
        for (number, from) in [(0, 1), (1, 2), (2, 2), (3, 2)] {
            assert_eq!(arrive(&newcomers, number, from), (true, vec![]));
        }
        assert_eq!(arrive(&newcomers, 4, 3), (true, vec![1]), "not the oldest of all");
        assert_eq!(newcomers.connections(), 5, "the one that was told to go is still there");
        newcomers.leave(1);
        newcomers.settle(2);
        assert_eq!(arrive(&newcomers, 5, 3), (true, vec![0]), "of addresses with one each, any");
        newcomers.leave(0);
        newcomers.settle(3);
        newcomers.settle(4);
        newcomers.settle(5);
        assert_eq!(arrive(&newcomers, 6, 1), (false, vec![]), "nobody is thrown out who has said who it is");
        newcomers.leave(3);
        assert_eq!(arrive(&newcomers, 7, 1), (true, vec![]));
        assert_eq!(newcomers.connections(), 4);
    }

    /// One that was told to go has said who it is before it heard that: it stays, and there is one
    /// too many until the next comes.
    #[test]
    fn one_that_settles_in_time_keeps_its_place() {
        let newcomers = Newcomers::new(2);
        assert!(arrive(&newcomers, 0, 1).0 && arrive(&newcomers, 1, 1).0);
        assert_eq!(arrive(&newcomers, 2, 1), (true, vec![0]));
        newcomers.settle(0);
        assert_eq!(arrive(&newcomers, 3, 1), (true, vec![1, 2]));
        newcomers.leave(1);
        newcomers.leave(2);
        assert_eq!(newcomers.connections(), 2);
    }

    /// One address has as many hosts' connections as it likes: those beyond its share give way to
    /// another address, and no others do.
    #[test]
    fn no_address_keeps_all_places() {
        let newcomers = Newcomers::new(200);
        for number in 0..200 {
            assert_eq!(arrive(&newcomers, number, 1), (true, vec![]));
            assert_eq!(newcomers.settle(number), number < 175, "{number}");
        }
        assert_eq!((newcomers.kept_of_address(), newcomers.places_of_address()), (175, 175));
        for number in 200..225 {
            assert_eq!(arrive(&newcomers, number, 2), (true, vec![number - 25]));
            newcomers.leave(number - 25);
            assert!(newcomers.settle(number));
        }
        assert_eq!(arrive(&newcomers, 225, 1), (false, vec![]));
        newcomers.leave(0);
        assert_eq!(arrive(&newcomers, 226, 1), (true, vec![]));
        assert!(newcomers.settle(226), "another one of it has gone");
    }

    #[test]
    fn a_core_that_does_not_hear_bounds_how_many_come() {
        let newcomers = Newcomers::new(100);
        let came = (0..1000).filter(|number| arrive(&newcomers, *number, 1).0).count();
        assert_eq!((came, newcomers.connections()), (100 + GOING, 100 + GOING));
        assert!(newcomers.are_going(), "the next should wait, and not be refused");
        newcomers.leave(0);
        assert!(!newcomers.are_going());
        assert!(arrive(&newcomers, 1000, 1).0);
    }
}
