//! Queues the work of several hosts and serves the hosts in turn: a host with much work delays only
//! itself.

use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr};

/// A host that is served: an identifier, which anybody can claim, at a network address, which not
/// everybody has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct HostKey {
    address: IpAddr,
    id: [u8; 16],
}

impl HostKey {
    /// The host with this identifier at this address.
    pub(super) fn new(address: IpAddr, id: [u8; 16]) -> Self {
        Self { address, id }
    }

    /// The bytes that tell it from all others.
    pub(super) fn name(&self) -> [u8; 32] {
        let address = match self.address {
            IpAddr::V4(address) => address.to_ipv6_mapped(),
            IpAddr::V6(address) => address,
        };
        let mut name = [0; 32];
        name[..16].copy_from_slice(&address.octets());
        name[16..].copy_from_slice(&self.id);
        name
    }

    /// Peers that have not yet named themselves.
    pub(super) fn unknown() -> Self {
        Self::new(Ipv4Addr::UNSPECIFIED.into(), [0; 16])
    }
}

/// Things that wait: a line for each host, and the lines take turns.
#[derive(Debug)]
pub(super) struct Fair<T> {
    /// The one that is next comes first; none is empty.
    lines: VecDeque<(HostKey, VecDeque<T>)>,
}

impl<T> Default for Fair<T> {
    fn default() -> Self {
        Self { lines: VecDeque::new() }
    }
}

impl<T> Fair<T> {
    /// Puts something at the end of its host's line; true if it is the only one there.
    pub(super) fn push(&mut self, host: HostKey, thing: T) -> bool {
        match self.lines.iter_mut().find(|(of, _)| *of == host) {
            Some((_, line)) => {
                line.push_back(thing);
                false
            }
            None => {
                self.lines.push_back((host, VecDeque::from([thing])));
                true
            }
        }
    }

    /// Takes the first thing of the next host that may have its turn; that host's next turn is
    /// after all others'.
    pub(super) fn take(&mut self, may: impl Fn(&HostKey) -> bool) -> Option<(HostKey, T)> {
        let next = self.lines.iter().position(|(host, _)| may(host))?;
        let (host, mut line) = self.lines.remove(next)?;
        let thing = line.pop_front()?;
        if !line.is_empty() {
            self.lines.push_back((host, line));
        }
        Some((host, thing))
    }

    /// Takes more from the beginning of a host's line, as long as it is wanted: so many at most.
    pub(super) fn take_more(
        &mut self,
        host: &HostKey,
        most: usize,
        is_wanted: impl Fn(&T) -> bool,
    ) -> Vec<T> {
        let Some(at) = self.lines.iter().position(|(of, _)| of == host) else { return Vec::new() };
        let line = &mut self.lines[at].1;
        let count = line.iter().take(most).take_while(|thing| is_wanted(thing)).count();
        let taken = line.drain(..count).collect();
        if line.is_empty() {
            self.lines.remove(at);
        }
        taken
    }

    /// The hosts that have something waiting, each once.
    pub(super) fn hosts(&self) -> impl Iterator<Item = &HostKey> {
        self.lines.iter().map(|(host, _)| host)
    }

    /// Returns whether anything of another host waits.
    pub(super) fn has_others(&self, host: &HostKey) -> bool {
        self.lines.iter().any(|(of, _)| of != host)
    }

    /// Takes out what is `unwanted`.
    pub(super) fn remove(&mut self, unwanted: impl Fn(&T) -> bool) {
        self.lines.iter_mut().for_each(|(_, line)| line.retain(|thing| !unwanted(thing)));
        self.lines.retain(|(_, line)| !line.is_empty());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(n: u8) -> HostKey {
        HostKey::new(Ipv4Addr::LOCALHOST.into(), [n; 16])
    }

    #[test]
    fn hosts_take_turns_whatever_they_have_waiting() {
        let mut fair = Fair::default();
        (0..100).for_each(|i| assert_eq!(fair.push(host(1), i), i == 0));
        fair.push(host(2), 200);
        fair.push(host(2), 201);
        fair.push(host(3), 300);
        let order: Vec<u32> = (0..6).map(|_| fair.take(|_| true).unwrap().1).collect();
        assert_eq!(order, [0, 200, 300, 1, 201, 2]);
        // One that comes later is next but one at the latest.
        fair.push(host(2), 202);
        assert_eq!((fair.take(|_| true).unwrap().1, fair.take(|_| true).unwrap().1), (3, 202));
        assert!(fair.has_others(&host(2)) && !fair.has_others(&host(1)));
    }

    #[test]
    fn what_follows_in_a_line_is_taken_with_the_first() {
        let mut fair = Fair::default();
        [2, 4, 6, 7, 8].into_iter().for_each(|i| _ = fair.push(host(1), i));
        fair.push(host(2), 10);
        let is_even = |i: &i32| i % 2 == 0;
        assert_eq!(fair.take_more(&host(1), 2, is_even), [2, 4]);
        assert_eq!(fair.take_more(&host(1), 5, is_even), [6], "7 is in the way");
        assert_eq!(fair.take_more(&host(2), 5, is_even), [10]);
        assert_eq!(fair.take_more(&host(2), 5, is_even), []);
        assert_eq!((fair.take(|_| true), fair.take(|_| true)), (Some((host(1), 7)), Some((host(1), 8))));
    }

    #[test]
    fn one_that_may_not_have_its_turn_keeps_its_place() {
        let mut fair = Fair::default();
        [1, 2, 3].into_iter().for_each(|i| assert!(fair.push(host(i), i)));
        assert_eq!(fair.take(|of| *of != host(1)), Some((host(2), 2)));
        assert_eq!(fair.take(|_| true), Some((host(1), 1)));
        assert_eq!(fair.take(|of| *of != host(3)), None);
        fair.remove(|thing| *thing == 3);
        assert_eq!(fair.take(|_| true), None);
    }
}
