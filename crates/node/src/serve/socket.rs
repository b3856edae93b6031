//! A connection's socket with its buffers.

mod time;

use super::access::{Faces, Granted};
use super::blocks::{self, Blocks, IN_FLIGHT_LIMIT, ROOM};
use super::budget::{Account, Held};
use super::done::Done;
use super::fair::HostKey;
use super::metrics::Fullest;
use super::outgoing::Outgoing;
use super::shared::Shared;
use crate::watch::Writing;
use pumice_blockdev::BlockDevice;
use pumice_nvme::controller::{Connection, EndReason, Media, Notice, Windows};
use pumice_remote::transport::{ByteStream, Stream};
use std::collections::HashMap;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Bytes of the receive buffer to begin with; it grows to the longest PDU when one comes.
const FIRST_BUFFER: usize = 16 << 10;
/// Bytes of the receive buffer of an I/O queue: many capsules a read.
const IO_BUFFER: usize = 256 << 10;
/// Bytes that one turn of a connection takes from its socket, so that others have theirs.
const TURN: usize = 1 << 20;
/// Bytes that one turn of a connection answers with, but for the last batch: what drives in memory
/// give is there at once, and a host can take it as fast as it comes.
const ANSWERS: u64 = 1 << 20;
/// Commands and pieces of data that one turn takes, but for the last batch: many of them are
/// answered with next to nothing.
const WORK: u64 = 2048;
/// Bytes that wait to be sent on an I/O queue, beyond which no more commands are taken.
pub(super) const SEND_LIMIT: usize = 4 << 20;
/// The same on an admin queue, and before it is known whose connection it is: then nothing is
/// counted for anybody, and a host has no reason to ask for more than one thing.
const ADMIN_LIMIT: usize = 256 << 10;
const UNBOUND_LIMIT: usize = 4 << 10;

/// Nanoseconds that an admin queue waits for a round of all cores, at most: what CAP.TO lets a host
/// wait for a controller to be ready.
const ROUND_PATIENCE: u64 = 7_500_000_000;

/// Progress of the cores' search for ended connections of its host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Look {
    /// It is not known yet whose connection it is.
    Unbound,
    /// An admin queue, from which nothing is taken until every core has made this round; if that is
    /// after `until`, nothing ever is.
    Waits { round: u64, until: u64 },
    /// Every core has, or it is an I/O queue, whose controller has waited for that.
    Over,
}

/// The outcome of a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Turn {
    /// Nothing to do until the socket says so.
    Waits,
    /// More may be there: another turn after the others'.
    Again,
    /// Another turn when every core has made this round.
    AfterRound(u64),
    /// The connection is over.
    Over,
}

/// A connection.
pub(super) struct Socket {
    pub(super) stream: Stream,
    pub(super) connection: Connection,
    /// The address of its host, for the log.
    pub(super) peer: SocketAddr,
    local: SocketAddr,
    receive: Vec<u8>,
    /// Bytes in the receive buffer.
    filled: usize,
    out: Outgoing,
    /// Bytes that were received and sent and not yet counted.
    uncounted: (u64, u64),
    /// The account of its host, once it is known; and the part that this connection holds beside
    /// its commands.
    pub(super) account: Option<Account>,
    held: Option<Held>,
    /// And what its receive buffer has beyond the smallest one.
    grown: Option<Held>,
    /// Bytes that commands under way take.
    pub(super) flying: u64,
    /// Bytes that were ever sent; and since when, and since how many of them, something has waited
    /// to be sent.
    sent: u64,
    /// Bytes that were answered before the present turn.
    answered_before: u64,
    /// Work that was done in the present turn:
    /// [`Received::work`](pumice_nvme::controller::Received).
    work: u64,
    stuck: Option<(u64, u64)>,
    sent_at_tick: u64,
    /// The last read filled the buffer: a larger one is worth its memory.
    busy: bool,
    /// The socket may have more.
    readable: bool,
    /// The socket may take more: it took all the last time, or has said so since.
    writable: bool,
    pub(super) in_flight: usize,
    /// Writes of those.
    pub(super) writes: usize,
    /// Writes whose data are still to come, by slot: they are under way for whoever counts.
    pub(super) expected: HashMap<u16, Writing>,
    /// Raised when the connection is closed, for those who work for it.
    pub(super) gone: Arc<AtomicBool>,
    /// It may have to make room for another one; and it has not said yet whose it is.
    pub(super) newcomer: bool,
    pub(super) unbound: bool,
    /// The row of its host in the table of who may do what, once it is known.
    pub(super) granted: Granted,
    /// It is known to be over, and waits to be closed.
    pub(super) ending: bool,
    ended: bool,
    look: Look,
    /// The receive buffer may hold what was left for another turn.
    left: bool,
    /// Commands are left because there is no room for what they take.
    is_full: bool,
}

impl Socket {
    /// The stream of a host at `peer` that came in at `local`.
    pub(super) fn new(stream: Stream, connection: Connection, local: SocketAddr, peer: SocketAddr) -> Self {
        Self {
            stream,
            connection,
            peer,
            local,
            receive: vec![0; FIRST_BUFFER],
            filled: 0,
            out: Outgoing::default(),
            uncounted: (0, 0),
            account: None,
            held: None,
            grown: None,
            flying: 0,
            sent: 0,
            answered_before: 0,
            work: 0,
            stuck: None,
            sent_at_tick: 0,
            busy: false,
            readable: true,
            writable: true,
            in_flight: 0,
            writes: 0,
            expected: HashMap::new(),
            gone: Arc::default(),
            newcomer: true,
            unbound: true,
            granted: Granted::with_faces(Faces::default()),
            ending: false,
            ended: false,
            look: Look::Unbound,
            left: false,
            is_full: false,
        }
    }

    /// The socket says that it can be read.
    pub(super) fn readable(&mut self) {
        self.readable = true;
        self.writable |= self.stream.is_entangled();
    }

    /// The socket says that it can be written.
    pub(super) fn writable(&mut self) {
        self.writable = true;
        self.readable |= self.stream.is_entangled();
    }

    /// The peer has closed: what it sent and is not read yet is not carried out. Nobody hears how
    /// it ends, and whoever closed may write anew elsewhere.
    pub(super) fn hang_up(&mut self) {
        self.ended = true;
    }

    /// Its host.
    pub(super) fn host(&self) -> HostKey {
        let id = self.connection.host();
        id.map_or_else(HostKey::unknown, |id| HostKey::new(self.connection.peer(), id))
    }

    /// Returns whether nothing more is taken from it: its peer has closed it, or its association
    /// has ended.
    pub(super) fn is_over(&self) -> bool {
        self.ended || self.connection.has_ended()
    }

    /// Returns whether there is room for one more command of it.
    pub(super) fn may_go_on(&self) -> bool {
        blocks::has_room(self.in_flight, self.flying + self.unsent_memory(), self.account.as_ref())
    }

    /// Returns whether it waits for nothing but its own commands to end.
    pub(super) fn is_idle(&self) -> bool {
        self.in_flight == 0 && self.is_sent()
    }

    /// Returns whether the socket has taken everything that there was to send.
    fn is_sent(&self) -> bool {
        self.out.is_empty() && self.stream.unsent() == 0
    }

    /// Bytes of memory of answers, and of what the stream has made of them and of what came.
    fn unsent_memory(&self) -> u64 {
        (self.out.memory() + self.stream.held()) as u64
    }

    /// Takes what has come, and sends what there is to send.
    pub(super) fn turn(&mut self, shared: &Shared, blocks: &mut Blocks<'_>, now: u64) -> Turn {
        let mut taken = 0;
        (self.answered_before, self.work) = (self.answered(), 0);
        blocks.unsent = self.unsent_memory();
        self.is_full &= !blocks.has_room();
        if self.waits().is_some_and(|round| shared.rounds().is_made(round)) {
            self.look = Look::Over;
        }
        if self.left && !self.ended && self.waits().is_none() && self.has_room(*blocks.in_flight) {
            self.process(shared, blocks, now);
        }
        while self.readable
            && !self.left
            && !self.ended
            && taken < TURN
            && self.goes_on()
            && self.has_room(*blocks.in_flight)
        {
            let room = &mut self.receive[self.filled..];
            let len = room.len();
            match self.stream.read_stamped(room, shared.pacing().is_active()) {
                Ok((0, _)) => self.ended = true,
                Ok((n, waited)) => {
                    blocks.waited = waited;
                    taken += n;
                    self.uncounted.0 += n as u64;
                    self.filled += n;
                    self.readable = self.stream.has_more(len, n);
                    self.busy |= n == len;
                    self.process(shared, blocks, now);
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => self.readable = false,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => self.lost(),
            }
        }
        self.send(shared.devices());
        self.account_for(shared);
        let (received, sent) = std::mem::take(&mut self.uncounted);
        shared.offload().traffic().count(received, sent);
        if self.ended || self.connection.is_closed() && self.is_sent() {
            Turn::Over
        } else if let Some(round) = self.waits() {
            Turn::AfterRound(round)
        } else if (self.readable || self.left) && self.has_room(*blocks.in_flight) {
            Turn::Again
        } else {
            Turn::Waits
        }
    }

    /// Bytes that may wait to be sent before no more commands are taken.
    fn send_limit(&self) -> usize {
        if self.connection.is_io_queue() {
            SEND_LIMIT
        } else if self.connection.host().is_some() {
            ADMIN_LIMIT
        } else {
            UNBOUND_LIMIT
        }
    }

    /// Bytes that were ever sent, and that wait to be.
    fn answered(&self) -> u64 {
        self.sent + self.out.len() as u64
    }

    /// Returns whether a turn may do more.
    fn goes_on(&self) -> bool {
        self.answered() - self.answered_before < ANSWERS
            && self.work < WORK
            && self.out.len() < self.send_limit()
    }

    /// Its use of each bound of a connection.
    pub(super) fn fullness(&self) -> Fullest {
        Fullest {
            flight: self.flying + self.unsent_memory(),
            unsent: self.out.len() as u64,
            commands: self.in_flight as u64,
        }
    }

    fn has_room(&self, in_flight: usize) -> bool {
        self.out.len() < self.send_limit() && in_flight < IN_FLIGHT_LIMIT && !self.is_full
    }

    /// Returns whether commands wait in its buffer for room that other connections may have given
    /// back.
    pub(super) fn waits_for_room(&self) -> bool {
        self.is_full
    }

    /// Counts what it holds beside its commands: what waits to be sent, and a receive buffer that
    /// is larger than the first one.
    fn account_for(&mut self, shared: &Shared) {
        if self.account.is_none()
            && let Some(id) = self.connection.host()
        {
            // The turn ends with Connect: commands come with the next one, under these rights.
            self.granted = *shared.access().of(self.connection.host_name().unwrap_or_default());
            let host = HostKey::new(self.connection.peer(), id);
            let account = shared.accounts().of(host, self.granted.shares());
            self.connection.set_windows(Arc::clone(&account.windows) as Arc<dyn Windows>);
            self.held = Some(account.flight.hold(0));
            self.grown = Some(account.flight.hold_spare());
            self.account = Some(account);
        }
        if self.out.is_empty() && self.account.as_ref().is_some_and(|account| !account.flight.has_room(ROOM))
        {
            // What is kept for the next answers is in the way of the next command.
            self.out.shrink();
        }
        let unsent = self.unsent_memory();
        if let Some(held) = &mut self.held {
            held.resize(unsent);
        }
        if let Some(grown) = &mut self.grown {
            grown.resize(self.receive.len().saturating_sub(FIRST_BUFFER) as u64);
        }
    }

    /// The round that it waits for.
    fn waits(&self) -> Option<u64> {
        match self.look {
            Look::Waits { round, .. } => Some(round),
            Look::Unbound | Look::Over => None,
        }
    }

    /// The end of the part of the buffer that may be carried out, from `taken` on: one PDU, while
    /// it is not known whose connection it is, because nothing may be that follows the Connect of
    /// an admin queue.
    fn end(&self, taken: usize) -> usize {
        match (self.look, self.receive[taken..self.filled].get(4..8)) {
            (Look::Unbound, Some(plen)) => {
                let plen = u32::from_le_bytes(plen.try_into().expect("four bytes")) as usize;
                // One that is shorter than its header is a fault whatever follows.
                taken.saturating_add(plen.max(8)).min(self.filled)
            }
            _ => self.filled,
        }
    }

    /// It may be known whose connection it is; true if that has just become so.
    fn bound(&mut self, shared: &Shared, now: u64) -> bool {
        let bound = self.look == Look::Unbound && self.connection.host().is_some();
        if bound {
            self.look = if self.connection.is_io_queue() {
                Look::Over
            } else {
                Look::Waits { round: shared.rounds().ask(), until: now.saturating_add(ROUND_PATIENCE) }
            };
        }
        bound
    }

    fn process(&mut self, shared: &Shared, blocks: &mut Blocks<'_>, now: u64) {
        let mut taken = 0;
        self.left = false;
        self.is_full = false;
        let needed = loop {
            blocks.unsent = self.unsent_memory();
            let end = self.end(taken);
            let bytes = &self.receive[taken..end];
            let received = self.connection.receive(now, bytes, shared.subsystem(), blocks, self.out.bytes());
            self.out.lend(&mut blocks.loans);
            self.tell(shared);
            taken += received.consumed;
            self.work += u64::from(received.work);
            let bound = self.bound(shared, now);
            let more = received.more || received.consumed > 0 && end < self.filled;
            if received.more {
                self.send(shared.devices());
            }
            self.is_full = received.full;
            // What follows Connect is for the next turn: this one knows no host, so it could not
            // count for it what is taken, nor have it carried out within the host's share. And a
            // host may ask for more than it has entries for: what it does not take waits in its own
            // memory.
            self.left = bound || received.full || more && !self.goes_on();
            if !more || self.left {
                break received.needed;
            }
        };
        self.receive.copy_within(taken..self.filled, 0);
        self.filled -= taken;
        let room = || self.account.as_ref().is_none_or(|a| a.flight.has_spare_room(IO_BUFFER as u64));
        let large = self.busy && self.connection.is_io_queue() && room();
        let wanted = if large { IO_BUFFER } else { FIRST_BUFFER };
        let wanted = wanted.max(needed);
        if self.receive.len() < wanted {
            self.receive.resize(wanted, 0);
            self.readable = true;
        }
    }

    /// Sends what the socket takes. One that was full is left alone until it says that it has room:
    /// to ask it costs as much as to send, and many may be full.
    fn send(&mut self, devices: &[Arc<dyn BlockDevice>]) {
        if !self.writable || self.is_sent() {
            return;
        }
        match self.out.send(&mut self.stream, devices) {
            Ok(sent) => {
                self.uncounted.1 += sent;
                self.sent += sent;
                self.writable = self.out.is_empty();
            }
            Err(_) => return self.lost(),
        }
        if self.stream.unsent() > 0 {
            match self.stream.flush() {
                Ok(()) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => self.writable = false,
                Err(_) => self.lost(),
            }
        }
    }

    /// The connection broke.
    fn lost(&mut self) {
        self.connection.end(EndReason::Lost);
        self.ended = true;
    }

    /// Logs and counts what has happened on the connection.
    fn tell(&mut self, shared: &Shared) {
        let metrics = shared.metrics();
        for notice in self.connection.take_notices() {
            match &notice {
                Notice::Associated { .. } => metrics.associations.add(1),
                Notice::Refused { .. } => metrics.connects_refused.add(1),
                Notice::Violation(_) => metrics.violations.add(1),
            }
            shared.log().notice(&notice, self.peer, self.local);
        }
    }

    /// A command is done.
    pub(super) fn complete(&mut self, shared: &Shared, done: &mut Done) {
        self.in_flight -= 1;
        self.flying -= done.flown;
        self.writes -= usize::from(done.wrote);
        let (access, slot) = (shared.subsystem(), done.ticket.slot);
        if done.is_worth_keeping()
            && let Some(at) = self.connection.complete_around(slot, done.bytes_for_host(), self.out.bytes())
            && let Some((len, buffer)) = done.take_data()
        {
            self.out.keep(at, len, buffer);
        } else {
            let out = self.out.bytes();
            match (done.data(), done.lba) {
                (Some(data), _) => self.connection.complete_with(slot, Ok(data), access, out),
                (None, Some(lba)) => self.connection.complete_failed(slot, done.status, lba, access, out),
                (None, None) => self.connection.complete(slot, done.status, done.result, access, out),
            }
        }
        // Before the command's own buffer is let go: what is held is never less than what there is.
        self.account_for(shared);
        // It may have waited for the command's room.
        self.is_full = false;
    }

    /// Says goodbye to the peer.
    pub(super) fn close(&mut self) -> io::Result<()> {
        self.stream.close()
    }
}

#[cfg(test)]
mod tests;
