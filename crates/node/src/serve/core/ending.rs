//! Ended connections, and rounds: how it becomes known that an old association has ended.
//! `docs/design/node.md`, *A host that comes back*.

use super::{Core, FIRST, ROUND_PAUSE, SLICE};
use crate::serve::results::QueueId;
use pumice_nvme::controller::Access;
use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::sync::atomic::Ordering;
use std::time::Instant;

/// A round that is made.
#[derive(Debug)]
struct Making {
    round: u64,
    /// So many connections must have been closed before it goes on.
    until: u64,
    /// Connections of ended associations were looked for.
    searched: bool,
}

/// The next step of a round.
#[derive(Debug, PartialEq, Eq)]
enum Step {
    /// Nothing, until more connections are closed.
    Wait,
    /// To look for connections of ended associations, and then [`Ending::searched`].
    Search,
    /// It is made.
    Made(u64),
}

/// Connections that are over, in the order in which that was seen, and the round that is made. They
/// are closed in that order, a slice at a time: those that end later do not hold a round up.
#[derive(Debug, Default)]
pub(super) struct Ending {
    waiting: VecDeque<usize>,
    /// Number of those that were ever added, and of those that were taken.
    added: u64,
    taken: u64,
    making: Option<Making>,
}

impl Ending {
    /// A connection is over. `ending` is its mark: it is added once.
    pub(super) fn add(&mut self, number: usize, ending: &mut bool) {
        if !std::mem::replace(ending, true) {
            self.waiting.push_back(number);
            self.added += 1;
        }
    }

    /// Returns whether connections wait to be closed, or a round is made.
    pub(super) fn is_under_way(&self) -> bool {
        self.making.is_some() || !self.waiting.is_empty()
    }

    /// The next to be closed.
    fn take(&mut self) -> Option<usize> {
        let next = self.waiting.pop_front()?;
        self.taken += 1;
        Some(next)
    }

    /// Begins a round; false if one is made already.
    fn begin(&mut self, round: u64) -> bool {
        let begins = self.making.is_none();
        if begins {
            self.making = Some(Making { round, until: self.added, searched: false });
        }
        begins
    }

    fn step(&mut self) -> Step {
        match &self.making {
            Some(making) if self.taken >= making.until => {
                if !making.searched {
                    return Step::Search;
                }
                let made = Step::Made(making.round);
                self.making = None;
                made
            }
            _ => Step::Wait,
        }
    }

    /// Connections of ended associations were looked for, and added.
    fn searched(&mut self) {
        if let Some(making) = &mut self.making {
            (making.until, making.searched) = (self.added, true);
        }
    }
}

impl Core {
    /// Closes connections that are over, as many as there is time for, and goes on with a round:
    /// with the one that is made, or with `asked`, which was asked for before the last poll. In a
    /// round, first those are closed whose peers were seen to close, then those of associations
    /// that have ended. Then those that wait for all cores are let go on, if all have been round.
    pub(super) fn end_some(&mut self, asked: u64) {
        if asked > self.round && self.rounded.elapsed() >= ROUND_PAUSE && self.ending.begin(asked) {
            (self.round, self.rounded) = (asked, Instant::now());
        }
        if self.ending.is_under_way() {
            self.go_round();
        }
        if !self.waiting.is_empty() {
            let (rounds, turns) = (self.shared.rounds(), &mut self.turns);
            // Before it looks: then it sees the round, or is woken by it.
            rounds.will_wait(self.number);
            self.waiting.retain(|number, round| {
                let made = rounds.is_made(*round);
                if made {
                    turns.push(*number);
                }
                !made
            });
        }
    }

    fn go_round(&mut self) {
        let began = self.shared.now();
        loop {
            match self.ending.step() {
                Step::Search => {
                    for (number, socket) in &mut self.sockets {
                        if socket.is_over() {
                            self.ending.add(*number, &mut socket.ending);
                        }
                    }
                    self.ending.searched();
                }
                Step::Made(round) => self.shared.rounds().made(self.number, round),
                Step::Wait => {
                    if self.shared.now() - began >= SLICE {
                        return;
                    }
                    let Some(number) = self.ending.take() else { return };
                    self.close(number);
                }
            }
        }
    }

    /// A write of a closed connection has ended.
    pub(super) fn orphan_ended(&mut self, number: usize) {
        let Some((host, left)) = self.orphans.get_mut(&number) else { return };
        *left -= 1;
        if *left == 0 {
            let host = *host;
            self.orphans.remove(&number);
            self.shared.subsystem().with(|s| s.orphan_ended(host));
        }
    }

    /// Closes a connection. Its end costs what it had itself, not what others have; only the end of
    /// an association is looked for in what all associations hold.
    pub(super) fn close(&mut self, number: usize) {
        let Some(mut socket) = self.sockets.remove(&number) else { return };
        socket.gone.store(true, Ordering::Relaxed);
        self.waiting.remove(&number);
        self.full.remove(&number);
        let host = socket.connection.host();
        let association = host.is_some() && !socket.connection.is_io_queue();
        if let Some(host) = host.filter(|_| socket.writes > 0) {
            self.shared.subsystem().with(|s| s.orphan(host));
            self.orphans.insert(number, (host, socket.writes));
        }
        if let Some(ended) = socket.connection.closed(self.shared.subsystem()) {
            self.shared.log().ended(&ended, socket.peer);
        }
        if host.is_some() {
            self.shared.offload().forget(QueueId { core: self.number, connection: number });
        }
        // Either may fail if the peer was first.
        let _ = self.poll.registry().deregister(&mut socket.stream);
        let _ = socket.close();
        self.shared.newcomers().leave(number - FIRST);
        if association {
            // Each owner is looked up once: one that has ended stays so.
            let known = RefCell::new(HashMap::new());
            let stands = |cntlid: u16| {
                let look = || self.shared.subsystem().with(|s| s.stands(cntlid));
                *known.borrow_mut().entry(cntlid).or_insert_with(look)
            };
            self.shared.offload().sweep(stands);
            // Its other queues may be anywhere, and a controller may wait for their end.
            self.shared.rounds().ask();
        }
    }
}

#[cfg(test)]
mod tests;
