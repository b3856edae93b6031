//! Memory that hosts make the node use, counted for each host and for all of them.
//!
//! Every host has a reserve that no other host can use, and all share a further amount. So no host
//! can block another, and the sum has a bound.

use super::access::{Share, Shares};
use super::fair::HostKey;
use pumice_nvme::controller::Windows;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

const MIB: u64 = 1 << 20;

/// Bytes that all hosts share of what is in flight, beyond what each has for itself.
pub(super) const FLIGHT: u64 = 512 * MIB;
/// The same of data that hosts were asked for.
pub(super) const WINDOWS: u64 = 256 * MIB;

/// Bytes that all hosts share, and those of them that are taken.
#[derive(Debug)]
struct Pot {
    shared: u64,
    used: AtomicU64,
}

/// Bytes that a host has taken.
#[derive(Debug)]
pub(super) struct Meter {
    share: Share,
    pot: Arc<Pot>,
    used: AtomicU64,
    /// Bytes that were taken of the pot alone, so that the host's own are left for its commands.
    spare: AtomicU64,
}

impl Meter {
    /// The part of `used` bytes that is not the host's own.
    fn beyond(&self, used: u64) -> u64 {
        used.saturating_sub(self.share.own)
    }

    /// Returns whether there is room for so many bytes more.
    pub(super) fn has_room(&self, bytes: u64) -> bool {
        // Relaxed, here and below: sums that bound memory, and order nothing.
        let used = self.used.load(Ordering::Relaxed);
        let more = self.beyond(used + bytes) - self.beyond(used);
        used + self.spare.load(Ordering::Relaxed) + bytes <= self.share.most
            && (more == 0 || self.pot.used.load(Ordering::Relaxed) + more <= self.pot.shared)
    }

    /// Returns whether there is room for so many bytes more of what all share, the host's own left
    /// out: at most half of what the host may have, so that its commands always find room.
    pub(super) fn has_spare_room(&self, bytes: u64) -> bool {
        self.all() + bytes <= self.share.most
            && self.spare.load(Ordering::Relaxed) + bytes <= self.share.most / 2
            && self.pot.used.load(Ordering::Relaxed) + bytes <= self.pot.shared
    }

    /// Bytes of both kinds.
    fn all(&self) -> u64 {
        self.used.load(Ordering::Relaxed) + self.spare.load(Ordering::Relaxed)
    }

    /// Takes what must be, whether there is room or not.
    fn add(&self, bytes: u64) {
        let before = self.used.fetch_add(bytes, Ordering::Relaxed);
        self.pot.used.fetch_add(self.beyond(before + bytes) - self.beyond(before), Ordering::Relaxed);
    }

    fn remove(&self, bytes: u64) {
        let before = self.used.fetch_sub(bytes, Ordering::Relaxed);
        self.pot.used.fetch_sub(self.beyond(before) - self.beyond(before - bytes), Ordering::Relaxed);
    }

    /// Holds so many bytes until what is returned is dropped.
    pub(super) fn hold(self: &Arc<Self>, bytes: u64) -> Held {
        self.add(bytes);
        Held { meter: Arc::clone(self), bytes, spare: false }
    }

    /// Holds bytes of what all share, and none of the host's own: for what it can do without.
    pub(super) fn hold_spare(self: &Arc<Self>) -> Held {
        Held { meter: Arc::clone(self), bytes: 0, spare: true }
    }
}

/// A connection asks for data within its host's bounds.
impl Windows for Meter {
    fn take(&self, bytes: u32) -> bool {
        let room = self.has_room(u64::from(bytes));
        if room {
            self.add(u64::from(bytes));
        }
        room
    }

    fn give_back(&self, bytes: u32) {
        self.remove(u64::from(bytes));
    }
}

/// Bytes that are held.
#[derive(Debug)]
pub(super) struct Held {
    meter: Arc<Meter>,
    bytes: u64,
    /// Of what all share alone.
    spare: bool,
}

impl Held {
    /// Holds so many bytes instead.
    pub(super) fn resize(&mut self, bytes: u64) {
        let (more, less) = (bytes.saturating_sub(self.bytes), self.bytes.saturating_sub(bytes));
        if self.spare {
            for count in [&self.meter.spare, &self.meter.pot.used] {
                count.fetch_add(more, Ordering::Relaxed);
                count.fetch_sub(less, Ordering::Relaxed);
            }
        } else if more > 0 {
            self.meter.add(more);
        } else {
            self.meter.remove(less);
        }
        self.bytes = bytes;
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.resize(0);
    }
}

/// Everything that a host holds.
#[derive(Debug, Clone)]
pub(super) struct Account {
    pub(super) flight: Arc<Meter>,
    pub(super) windows: Arc<Meter>,
}

type Meters = HashMap<HostKey, [Weak<Meter>; 2]>;

/// The accounts of all hosts that have a connection.
#[derive(Debug)]
pub(super) struct Accounts {
    pots: [Arc<Pot>; 2],
    hosts: Mutex<Meters>,
}

impl Accounts {
    /// Accounts of hosts that share so many bytes.
    pub(super) fn new(flight: u64, windows: u64) -> Self {
        let pot = |shared| Arc::new(Pot { shared, used: AtomicU64::new(0) });
        Self { pots: [pot(flight), pot(windows)], hosts: Mutex::default() }
    }

    /// Of what is in flight, and of what was asked for: how much the host has that has most, and
    /// how much all hosts have of what they share.
    pub(super) fn used(&self) -> [(u64, u64); 2] {
        let hosts = self.hosts.lock().unwrap_or_else(PoisonError::into_inner);
        // Relaxed: sums that are only looked at.
        let used = |meter: &Weak<Meter>| meter.upgrade().map_or(0, |meter| meter.all());
        let most = |i: usize| hosts.values().map(|meters| used(&meters[i])).max().unwrap_or(0);
        [0, 1].map(|i| (most(i), self.pots[i].used.load(Ordering::Relaxed)))
    }

    /// Bytes that all hosts hold together.
    pub(super) fn all(&self) -> u64 {
        let hosts = self.hosts.lock().unwrap_or_else(PoisonError::into_inner);
        hosts.values().flatten().filter_map(Weak::upgrade).map(|meter| meter.all()).sum()
    }

    /// The account of a host with these shares: one for all of its connections.
    pub(super) fn of(&self, host: HostKey, shares: &Shares) -> Account {
        let mut hosts = self.hosts.lock().unwrap_or_else(PoisonError::into_inner);
        // One of them may have outlived the other, in a command that its host has left behind.
        let [flight, windows] =
            hosts.get(&host).map_or_else(Default::default, |meters| meters.each_ref().map(Weak::upgrade));
        let meter = |known: Option<Arc<Meter>>, i: usize, share: Share| {
            known.unwrap_or_else(|| {
                let pot = Arc::clone(&self.pots[i]);
                Arc::new(Meter { share, pot, used: AtomicU64::new(0), spare: AtomicU64::new(0) })
            })
        };
        let account =
            Account { flight: meter(flight, 0, shares.flight), windows: meter(windows, 1, shares.windows) };
        hosts.retain(|_, meters| meters.iter().any(|meter| meter.strong_count() > 0));
        hosts.insert(host, [Arc::downgrade(&account.flight), Arc::downgrade(&account.windows)]);
        account
    }
}

/// The moment to give memory that hosts held back to the system: the allocator keeps what is freed,
/// in a part of its own for each of many threads, and one host after another would fill all of
/// them.
#[derive(Debug, Default)]
pub(super) struct Ebb {
    /// The most that was held since memory was given back last.
    most: u64,
}

impl Ebb {
    /// Returns whether so much less is held than before that it is worth while.
    pub(super) fn has_come(&mut self, held: u64) -> bool {
        self.most = self.most.max(held);
        let has = self.most - held >= (64 * MIB).max(self.most / 2);
        if has {
            self.most = held;
        }
        has
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_given_back_when_much_less_is_held() {
        let mut ebb = Ebb::default();
        assert!(!ebb.has_come(0) && !ebb.has_come(100 * MIB) && !ebb.has_come(51 * MIB));
        assert!(ebb.has_come(36 * MIB), "64 MiB less");
        assert!(!ebb.has_come(0), "not for a little");
        assert!(
            !ebb.has_come(500 * MIB) && !ebb.has_come(251 * MIB) && ebb.has_come(250 * MIB),
            "half of it"
        );
        assert!(!ebb.has_come(250 * MIB));
    }
    use std::net::Ipv4Addr;

    const SMALL: Share = Share { own: 10, most: 50 };
    const SHARED: u64 = 60;

    fn account(of: &Accounts, n: u8) -> Arc<Meter> {
        let shares = Shares { flight: SMALL, windows: SMALL };
        of.of(HostKey::new(Ipv4Addr::LOCALHOST.into(), [n; 16]), &shares).flight
    }

    #[test]
    fn what_others_take_leaves_every_host_its_own() {
        let accounts = Accounts::new(SHARED, SHARED);
        let [one, two, three] = [1, 2, 3].map(|n| account(&accounts, n));
        assert!(one.has_room(50) && !one.has_room(51), "not more than a host may have");
        let first = one.hold(50);
        let second = two.hold(30);
        // 40 and 20 of 60 are taken.
        assert!(two.has_room(0) && !two.has_room(1));
        assert!(three.has_room(10) && !three.has_room(11), "its own");
        drop(first);
        assert!(three.has_room(50));
        drop(second);
        assert_eq!(accounts.pots[0].used.load(Ordering::Relaxed), 0);
    }

    /// Receive buffers that grew must not keep a host's commands waiting when others have all the
    /// rest: nothing would ever give them back.
    #[test]
    fn what_a_host_can_do_without_takes_nothing_of_its_own() {
        let accounts = Accounts::new(SHARED, SHARED);
        let [one, two] = [1, 2].map(|n| account(&accounts, n));
        let mut grown = one.hold_spare();
        grown.resize(20);
        let others = two.hold(50);
        assert_eq!(accounts.pots[0].used.load(Ordering::Relaxed), 60, "all that is shared is taken");
        assert!(!one.has_spare_room(1), "no buffer grows any more");
        assert!(one.has_room(10) && !one.has_room(11), "its own is all there");
        drop(others);
        assert!(one.has_room(30) && !one.has_room(31), "both count for the host");
        assert!(one.has_spare_room(5) && !one.has_spare_room(6), "half of what it may have");
        assert_eq!((accounts.used()[0], accounts.all()), ((20, 20), 20));
        drop(grown);
        assert_eq!(accounts.pots[0].used.load(Ordering::Relaxed), 0);
        assert!(one.has_room(50));
    }

    /// Buffers that grew and are full of commands are not given back before those are taken: they
    /// must leave room for them, whatever the number of the host's queues.
    #[test]
    fn what_a_host_can_do_without_is_half_of_what_it_may_have() {
        let accounts = Accounts::new(SHARED, SHARED);
        let one = account(&accounts, 1);
        let mut grown = Vec::new();
        while one.has_spare_room(5) {
            let mut more = one.hold_spare();
            more.resize(5);
            grown.push(more);
        }
        assert_eq!(grown.len(), 5);
        assert!(one.has_room(25) && !one.has_room(26));
    }

    #[test]
    fn a_host_has_one_account_and_it_ends_with_its_last_connection() {
        let accounts = Accounts::new(SHARED, SHARED);
        let one = account(&accounts, 1);
        let mut held = account(&accounts, 1).hold(20);
        assert!(!one.has_room(31));
        held.resize(5);
        assert!(one.has_room(45) && !one.has_room(46));
        held.resize(40);
        assert_eq!(accounts.pots[0].used.load(Ordering::Relaxed), 30);
        drop((one, held));
        assert!(account(&accounts, 1).has_room(50));
        assert_eq!(accounts.hosts.lock().unwrap().len(), 1);
    }

    /// The sums in `docs/design/node.md`: with as many hosts as there can be.
    #[test]
    fn the_bounds_are_the_documented_ones() {
        let Shares { flight, windows } = Shares::EACH;
        let all = |share: Share, shared: u64| 64 * share.own + shared;
        assert_eq!((all(flight, FLIGHT), all(windows, WINDOWS)), (768 * MIB, 384 * MIB));
    }
}
