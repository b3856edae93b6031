//! Events of requests by time: blkparse prints what several CPUs recorded, and not always in order.

use super::Request;
use super::error::Wrong;
use pumice_pacer::Nanos;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Longest time by which a line may be behind one of another CPU.
const WINDOW: Nanos = 1_000_000_000;
/// Events that wait for their place in time, at most.
const WAITING: usize = 65_536;
/// CPUs of one machine, at most.
const CPUS: u64 = 65_536;

/// Steps in the life of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RequestEvent {
    Queued,
    Issued,
    Completed,
    /// Travels within the request that it continues.
    MergedBehind,
    /// Travels within the request that continues it.
    MergedBefore,
}

#[derive(Debug, Clone, Copy)]
struct Waiting {
    /// Time, and number of the line.
    order: (Nanos, u64),
    event: RequestEvent,
    request: Request,
}

impl PartialEq for Waiting {
    fn eq(&self, other: &Self) -> bool {
        self.order == other.order
    }
}

impl Eq for Waiting {}

impl PartialOrd for Waiting {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Waiting {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.order.cmp(&other.order)
    }
}

/// Puts the events of several CPUs in order: each CPU's own come in order.
#[derive(Debug, Default)]
pub(crate) struct Events {
    waiting: BinaryHeap<Reverse<Waiting>>,
    /// The time of each CPU's last event.
    cpus: Vec<Nanos>,
    newest: Nanos,
    taken: Nanos,
    count: u64,
}

impl Events {
    /// Time by which an event of a CPU is late; `None` if it may come now.
    pub(crate) fn late(&self, cpu: u64, at: Nanos) -> Option<Nanos> {
        let own = self.cpus.get(cpu as usize).copied().unwrap_or(0);
        (at < own || at < self.taken).then(|| own.max(self.taken) - at)
    }

    /// An event that is not late.
    pub(crate) fn push(&mut self, event: RequestEvent, cpu: u64, request: Request) -> Result<(), Wrong> {
        if cpu >= CPUS {
            return Err(Wrong::new("cpu", format!("{cpu}: no machine has so many")));
        }
        let cpu = cpu as usize;
        if cpu >= self.cpus.len() {
            self.cpus.resize(cpu + 1, 0);
        }
        self.cpus[cpu] = request.at;
        self.newest = self.newest.max(request.at);
        self.count += 1;
        self.waiting.push(Reverse(Waiting { order: (request.at, self.count), event, request }));
        Ok(())
    }

    /// The next event that nothing earlier can follow, or at the end any.
    pub(crate) fn pop(&mut self, end: bool) -> Option<(RequestEvent, Request)> {
        let at = self.waiting.peek()?.0.order.0;
        if !end && self.newest - at < WINDOW && self.waiting.len() <= WAITING {
            return None;
        }
        self.taken = at;
        self.waiting.pop().map(|Reverse(w)| (w.event, w.request))
    }
}

#[cfg(test)]
mod tests {
    use super::super::Op;
    use super::*;

    fn at(at: Nanos) -> Request {
        Request { at, device: 0, op: Op::Read, offset: 0, bytes: 0, response: None }
    }

    #[test]
    fn cpus_may_be_behind_each_other_but_not_behind_themselves() {
        let mut events = Events::default();
        for (cpu, time) in [(0, 5), (1, 3), (0, 5), (1, 4)] {
            assert_eq!(events.late(cpu, time), None);
            assert!(events.push(RequestEvent::Queued, cpu, at(time)).is_ok());
        }
        assert_eq!(events.late(1, 3), Some(1));
        assert!(events.pop(false).is_none(), "something earlier may come");
        assert!(events.push(RequestEvent::Issued, 0, at(4 + WINDOW)).is_ok());
        let order: Vec<_> = std::iter::from_fn(|| events.pop(false)).map(|e| e.1.at).collect();
        assert_eq!(order, [3, 4], "5 is not a second old");
        assert_eq!(events.late(7, 3), Some(1), "what is given on stays so");
        assert_eq!(std::iter::from_fn(|| events.pop(true)).count(), 3);
        assert!(events.push(RequestEvent::Queued, CPUS, at(0)).is_err());
    }
}
