//! Losses of answered writes, and the hosts that were told of each:
//! `docs/design/held-volumes.md`, *Who is told*.

use std::collections::BTreeMap;

/// Hosts that are listed, at most. Others are told too, perhaps more than once.
const MOST: usize = 1024;

/// A name that tells a host from all others, its address and its identifier; zeros for the process
/// that serves the volume.
pub type Host = [u8; 32];

/// Bytes of the address, which come first.
const ADDRESS: usize = 16;

/// This process. It is always listed: nobody says when it writes.
const OWN: Host = [0; 32];

/// The way of an answer to a host.
pub trait Way: Clone {
    /// Returns whether it is gone, perhaps with answers that have not arrived.
    fn is_gone(&self) -> bool;
}

/// The losses that one host knows of.
#[derive(Debug)]
struct Known<W> {
    /// It was told of every loss up to this one, or none of them concerns it.
    told: u64,
    /// A Flush of it failed for this loss, and the answer went this way.
    telling: Option<(u64, W)>,
}

/// A Flush must fail: the host was not told of a loss.
#[derive(Debug, PartialEq, Eq)]
pub struct Untold;

/// The losses of a volume, and who was told.
#[derive(Debug)]
pub struct Losses<W> {
    /// The number of losses.
    count: u64,
    /// Hosts that have written, or flushed.
    hosts: BTreeMap<Host, Known<W>>,
    /// A host that is not listed is owed every loss after this one.
    unlisted: u64,
    /// A host was taken off the list: one that is not listed may have written.
    crowded: bool,
    most: usize,
}

impl<W: Way> Default for Losses<W> {
    fn default() -> Self {
        Self::of(MOST)
    }
}

impl<W: Way> Losses<W> {
    fn of(most: usize) -> Self {
        let mut new = Self { count: 0, hosts: BTreeMap::new(), unlisted: 0, crowded: false, most };
        new.known(OWN);
        new
    }

    /// The number of losses.
    #[must_use]
    pub const fn count(&self) -> u64 {
        self.count
    }

    /// Writes that were answered may be lost. Every host that has written is owed that.
    pub fn lose(&mut self) {
        self.count += 1;
        if !self.crowded {
            self.unlisted = self.count;
        }
    }

    /// A host writes.
    pub fn writes(&mut self, host: Host) {
        self.known(host);
    }

    /// A Flush begins, whose answer goes this way. Returns how many losses there were.
    ///
    /// # Errors
    /// If the host is to be told of one: the Flush fails, and is not carried out.
    pub fn flush_begins(&mut self, host: Host, way: &W) -> Result<u64, Untold> {
        let count = self.count;
        let known = self.known(host);
        if known.told < count {
            let told = matches!(&known.telling, Some((of, by)) if *of == count && !by.is_gone());
            if !told {
                known.telling = Some((count, way.clone()));
                return Err(Untold);
            }
            (known.told, known.telling) = (count, None);
        }
        Ok(count)
    }

    /// It was carried out. What was lost since it `began` it has not made durable.
    ///
    /// # Errors
    /// If writes were lost meanwhile: the Flush fails, whatever came of it.
    pub fn flush_ends(&mut self, host: Host, way: &W, began: u64) -> Result<(), Untold> {
        if self.count == began {
            return Ok(());
        }
        let count = self.count;
        let known = self.known(host);
        if known.told < count {
            known.telling = Some((count, way.clone()));
        }
        Err(Untold)
    }

    /// The losses known to hosts that are listed with the identifier of `host` and another address:
    /// a system with several ways to the volume writes by one, and flushes by another.
    fn others_told(&self, host: Host) -> Option<u64> {
        let same = self.hosts.iter().filter(|(of, _)| **of != OWN && of[ADDRESS..] == host[ADDRESS..]);
        same.map(|(_, known)| known.told).min()
    }

    /// The losses that a host knows of. Who is taken off the list for it is owed every loss that it
    /// does not know of, and may be told again of others.
    fn known(&mut self, host: Host) -> &mut Known<W> {
        if !self.hosts.contains_key(&host) && self.hosts.len() >= self.most {
            self.crowded = true;
            let others = || self.hosts.iter().filter(|(of, _)| **of != OWN);
            let knows_all = others().find(|(_, known)| known.told == self.count);
            if let Some(leaves) = knows_all.or_else(|| others().next()).map(|(of, _)| *of) {
                let left = self.hosts.remove(&leaves);
                self.unlisted = self.unlisted.min(left.map_or(0, |known| known.told));
            }
        }
        let told = self.others_told(host).map_or(self.unlisted, |told| told.min(self.unlisted));
        self.hosts.entry(host).or_insert(Known { told, telling: None })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::rc::Rc;

    #[derive(Debug, Clone, Default)]
    struct Connection(Rc<Cell<bool>>);

    impl Way for Connection {
        fn is_gone(&self) -> bool {
            self.0.get()
        }
    }

    struct Asker {
        host: Host,
        way: Connection,
    }

    fn host(n: u8) -> Asker {
        Asker { host: [n; 32], way: Connection::default() }
    }

    fn flush(losses: &mut Losses<Connection>, asker: &Asker) -> bool {
        losses.flush_begins(asker.host, &asker.way).is_ok()
    }

    #[test]
    fn each_host_that_has_written_is_told_once_of_each_loss() {
        let mut losses = Losses::default();
        let (a, b, idle) = (host(1), host(2), host(3));
        losses.writes(a.host);
        losses.writes(b.host);
        assert!(flush(&mut losses, &a) && flush(&mut losses, &b));
        losses.lose();
        assert_eq!(
            [flush(&mut losses, &a), flush(&mut losses, &a), flush(&mut losses, &a)],
            [false, true, true]
        );
        assert_eq!([flush(&mut losses, &b), flush(&mut losses, &b)], [false, true], "not told by a's Flush");
        assert!(flush(&mut losses, &idle), "it had written nothing");
        losses.lose();
        losses.lose();
        assert_eq!(
            [flush(&mut losses, &a), flush(&mut losses, &a)],
            [false, true],
            "two losses, told together"
        );
        assert!(!flush(&mut losses, &idle), "from its first flush on it is known");
        assert_eq!([flush(&mut losses, &host(0)), flush(&mut losses, &host(0))], [false, true]);
    }

    #[test]
    fn a_host_that_flushes_by_another_address_is_told() {
        let mut losses = Losses::default();
        let (a, b) = (host(1), host(2));
        let at = |address: u8| {
            let mut host = a.host;
            host[..ADDRESS].fill(address);
            Asker { host, way: Connection::default() }
        };
        losses.writes(a.host);
        losses.lose();
        assert!(flush(&mut losses, &b), "another system");
        assert_eq!([flush(&mut losses, &at(9)), flush(&mut losses, &at(9))], [false, true]);
        assert_eq!([flush(&mut losses, &a), flush(&mut losses, &a)], [false, true]);
        assert!(flush(&mut losses, &at(8)), "it was told");
    }

    #[test]
    fn a_host_whose_connection_is_lost_with_the_answer_is_told_again() {
        let mut losses = Losses::default();
        let (first, second) = (host(1), host(1));
        losses.writes(first.host);
        losses.lose();
        assert!(!flush(&mut losses, &first));
        first.way.0.set(true);
        assert_eq!([flush(&mut losses, &second), flush(&mut losses, &second)], [false, true]);
    }

    #[test]
    fn a_flush_that_is_under_way_when_writes_are_lost_fails_and_tells() {
        let mut losses = Losses::default();
        let a = host(1);
        losses.writes(a.host);
        let began = losses.flush_begins(a.host, &a.way).unwrap();
        losses.lose();
        assert_eq!(losses.flush_ends(a.host, &a.way, began), Err(Untold));
        let began = losses.flush_begins(a.host, &a.way).unwrap();
        assert_eq!(losses.flush_ends(a.host, &a.way, began), Ok(()));
    }

    /// More hosts than the list has room for: each is told, some more than once, none never.
    #[test]
    fn hosts_beyond_the_list_are_told_as_well() {
        let mut losses = Losses::of(4);
        let hosts: Vec<Asker> = (1..=9).map(host).collect();
        hosts.iter().for_each(|of| losses.writes(of.host));
        losses.lose();
        for of in &hosts {
            assert!(!flush(&mut losses, of), "{:?}", of.host[0]);
            assert!(losses.hosts.len() <= 4);
        }
        // The last ones are still listed, and know.
        assert!(flush(&mut losses, &hosts[8]));
        // Who was told and taken off the list is told again, which does no harm.
        assert_eq!([flush(&mut losses, &hosts[0]), flush(&mut losses, &hosts[0])], [false, true]);
        let new = host(77);
        assert_eq!(
            [flush(&mut losses, &new), flush(&mut losses, &new)],
            [false, true],
            "it may have written"
        );
    }
}
