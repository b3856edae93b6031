//! The order in which the connections of a core have their turns.
//!
//! Usually there is time for all of them, and nothing is counted. If a round takes too long, it is
//! interrupted, the core asks for new events, and from then on the host that has used the least
//! time goes first: a host with a thousand connections does not get a thousand turns for each turn
//! of another. Among the connections of a host, the one behind the last turn comes first.

use super::fair::HostKey;
use std::collections::HashMap;

/// Nanoseconds after which a round is cut.
pub(super) const SLICE: u64 = 1_000_000;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Order {
    /// Use of time by hosts of late; nothing while no round is cut.
    spent: HashMap<HostKey, Spent>,
    /// The last round was cut.
    behind: bool,
}

/// Use of time by a host.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Spent {
    /// Nanoseconds.
    time: u64,
    /// The connection that had the host's last turn: the next one is behind it.
    last: usize,
}

impl Order {
    /// Returns whether times are to be counted.
    pub(super) fn is_behind(&self) -> bool {
        self.behind
    }

    /// Puts connections in the order of their turns. `host` says whose one is.
    pub(super) fn arrange(&self, turns: &mut [usize], host: impl Fn(usize) -> HostKey) {
        if self.behind {
            turns.sort_by_cached_key(|number| match self.spent.get(&host(*number)) {
                Some(spent) => (spent.time, *number <= spent.last, *number),
                None => (0, false, *number),
            });
        }
    }

    /// A connection of a host had its turn for so many nanoseconds.
    pub(super) fn used(&mut self, host: HostKey, number: usize, time: u64) {
        if self.behind {
            let spent = self.spent.entry(host).or_default();
            (spent.time, spent.last) = (spent.time + time, number);
        }
    }

    /// A round is over; it was `cut`, or it was not.
    pub(super) fn ended(&mut self, cut: bool) {
        self.behind = cut;
        if !cut {
            self.spent.clear();
        }
    }

    /// Time passes, and what was used long ago counts less.
    pub(super) fn tick(&mut self) {
        self.spent.retain(|_, spent| {
            spent.time /= 2;
            spent.time > 0
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    fn host(n: u8) -> HostKey {
        HostKey::new(Ipv4Addr::LOCALHOST.into(), [n; 16])
    }

    /// Each turn takes a fifth of a slice. One host has connections 0 to 999, which always have
    /// something to do; another one has connection 1000, and the third 1001. Returns how many turns
    /// others have before connection 1000 has its own, each time.
    fn waits(order: &mut Order, rounds: usize) -> Vec<usize> {
        let of = |number: usize| host([1, 2, 3][number.saturating_sub(999).min(2)]);
        let (mut waits, mut since) = (Vec::new(), 0);
        for _ in 0..rounds {
            let mut turns: Vec<usize> = (0..1002).collect();
            order.arrange(&mut turns, of);
            for number in turns.drain(..5) {
                if number == 1000 {
                    waits.push(since);
                    since = 0;
                } else {
                    since += 1;
                }
                order.used(of(number), number, SLICE / 5);
            }
            order.ended(true);
        }
        waits
    }

    #[test]
    fn a_thousand_connections_of_one_host_do_not_hold_anothers() {
        let mut order = Order::default();
        let waits = waits(&mut order, 100);
        assert!(waits.len() >= 90, "{} turns of 500", waits.len());
        assert!(waits.iter().all(|wait| *wait <= 10), "{waits:?}");
    }

    #[test]
    fn connections_of_one_host_have_their_turns_one_after_another() {
        let mut order = Order::default();
        order.ended(true);
        let mut had = [0; 16];
        for round in 0..80 {
            // Some have nothing to do now and then.
            let mut turns: Vec<usize> = (0..16).filter(|number| (number + round) % 7 != 0).collect();
            order.arrange(&mut turns, |_| host(1));
            for number in turns.drain(..3) {
                had[number] += 1;
                order.used(host(1), number, SLICE / 3);
            }
            order.ended(true);
            order.tick();
        }
        let (least, most) = (had.iter().min().unwrap(), had.iter().max().unwrap());
        assert!(*least >= 10 && *most <= 20, "{had:?}");
    }

    #[test]
    fn while_there_is_time_for_all_they_come_as_they_are() {
        let mut order = Order::default();
        order.used(host(1), 1, 5);
        let mut turns = [1, 2, 3];
        order.arrange(&mut turns, |number| host(number as u8));
        assert_eq!(turns, [1, 2, 3]);
        order.ended(true);
        order.used(host(1), 1, 5);
        order.used(host(2), 2, 1);
        order.arrange(&mut turns, |number| host(number as u8));
        assert_eq!(turns, [3, 2, 1]);
        order.tick();
        order.tick();
        order.arrange(&mut turns, |number| host(number as u8));
        assert_eq!(turns, [2, 3, 1], "what was used long ago is forgotten");
        order.ended(false);
        assert!(order.spent.is_empty() && !order.is_behind());
    }
}
