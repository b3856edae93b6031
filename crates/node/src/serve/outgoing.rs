//! The data waiting to be sent on a connection: its own bytes and, between them, *loans*: data that
//! stays in a drive's memory, or in the buffer into which it was read.
//!
//! ```text
//! rest │ bytes[sent..loan 0] │ loan 0 │ bytes[..loan 1] │ loan 1 │ …
//! ```
//!
//! The data of a loan goes from the drive's memory directly into the socket, in one gathered write
//! with everything else that waits. Each block is sent with its contents of a single moment: if the
//! socket accepts only part of a block, the rest of that block is copied at once, while no write
//! can happen. Blocks behind it stay lent; a write before they are sent shows in them, as it may in
//! any read that has not completed.
//!
//! A buffer is sent in place, without a copy, and released when all of it is sent. So waiting data
//! takes no more memory than was counted for the command.

use pumice_base::buffer::SharedBuffer;
use pumice_blockdev::BlockDevice;
use std::collections::VecDeque;
use std::io::{self, ErrorKind, IoSlice, Write};
use std::sync::{Arc, RwLockReadGuard};

/// Pieces of one gathered write, at most. (Linux takes 1024.)
const PIECES: usize = 256;
/// Bytes that drives lend for one gathered write, beyond which nothing more is added: whoever
/// writes to a drive waits for that.
const LENT_AT_ONCE: usize = 1 << 20;
/// Unit of atomicity, in bytes: no logical block is larger, and all are parts of it.
const ATOM: u64 = 4096;
/// Bytes that were sent and are still kept, beyond which they are let go.
const KEPT: usize = 1 << 20;

/// Data of a read that lie in a drive's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Loan {
    /// They go in front of this byte of the buffer.
    pub(super) at: usize,
    /// The drive.
    pub(super) device: usize,
    /// First byte on it.
    pub(super) offset: u64,
    /// Bytes.
    pub(super) len: usize,
}

/// A buffer with the data of an answer.
pub(super) enum Buffer {
    Pages(SharedBuffer),
    Bytes(Vec<u8>),
}

impl Buffer {
    fn content(&self) -> &[u8] {
        match self {
            Self::Pages(pages) => pages,
            Self::Bytes(bytes) => bytes,
        }
    }

    /// Bytes of memory.
    fn memory(&self) -> usize {
        match self {
            Self::Pages(pages) => pages.memory(),
            Self::Bytes(bytes) => bytes.capacity(),
        }
    }
}

/// Data that go in front of byte `at` of the connection's own.
struct Apart {
    at: usize,
    len: usize,
    place: Place,
}

enum Place {
    /// From this byte of a drive in memory on.
    Drive { device: usize, offset: u64 },
    /// From this byte of a buffer on.
    Buffer { buffer: Buffer, from: usize },
}

/// See the module.
#[derive(Default)]
pub(super) struct Outgoing {
    bytes: Vec<u8>,
    /// Of `bytes`.
    sent: usize,
    /// In order; none lies before `sent`.
    apart: VecDeque<Apart>,
    /// Bytes of them that drives lend, and those that lie in buffers.
    lent: usize,
    buffered: usize,
    /// Memory of those buffers.
    buffers: usize,
    /// The rest of a block of a loan that was sent in part.
    rest: VecDeque<u8>,
}

type Held<'a> = Vec<(usize, RwLockReadGuard<'a, Vec<u8>>)>;

impl Outgoing {
    /// The connection's own bytes, to append to. Loans made meanwhile are told afterwards, by
    /// [`lend`](Self::lend).
    pub(super) fn bytes(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    /// Puts loans in their places, which are behind those of all before.
    pub(super) fn lend(&mut self, loans: &mut Vec<Loan>) {
        self.lent += loans.iter().map(|loan| loan.len).sum::<usize>();
        self.apart.extend(loans.drain(..).map(|Loan { at, device, offset, len }| Apart {
            at,
            len,
            place: Place::Drive { device, offset },
        }));
    }

    /// Puts the first `len` bytes of a buffer in front of byte `at`, which is behind all data apart
    /// before.
    pub(super) fn keep(&mut self, at: usize, len: usize, buffer: Buffer) {
        self.buffered += len;
        self.buffers += buffer.memory();
        self.apart.push_back(Apart { at, len, place: Place::Buffer { buffer, from: 0 } });
    }

    /// Bytes that wait.
    pub(super) fn len(&self) -> usize {
        self.own() + self.lent
    }

    /// Of those, what takes memory here.
    pub(super) fn own(&self) -> usize {
        self.rest.len() + self.bytes.len() - self.sent + self.buffered
    }

    /// Lets go of the memory that is kept for what comes next.
    pub(super) fn shrink(&mut self) {
        if self.is_empty() {
            *self = Self::default();
        }
    }

    /// Bytes of memory that it has.
    pub(super) fn memory(&self) -> usize {
        self.rest.capacity() + self.bytes.capacity() + self.buffers
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Sends what `socket` takes, and returns how many bytes that were. If something is left, the
    /// socket is full.
    ///
    /// # Errors
    /// Where the socket fails; that it is full is no failure.
    pub(super) fn send(
        &mut self,
        socket: &mut impl Write,
        devices: &[Arc<dyn BlockDevice>],
    ) -> io::Result<u64> {
        let mut all = 0;
        while !self.is_empty() {
            match self.send_some(socket, devices) {
                // Something waits: a socket that takes nothing would have to say that it is full.
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(n) => all += n as u64,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.let_go();
        Ok(all)
    }

    /// Lets go of bytes that were sent. Where the drives are faster than the network, something
    /// always waits: then it must not be that nothing is let go until all is sent.
    fn let_go(&mut self) {
        if self.is_empty() {
            self.bytes.clear();
            self.bytes.shrink_to(KEPT);
        } else if self.sent >= KEPT && self.sent >= self.bytes.len() / 2 {
            // No more bytes are moved than were sent.
            self.bytes.drain(..self.sent);
            self.bytes.shrink_to((2 * self.bytes.len()).max(KEPT));
            for apart in &mut self.apart {
                apart.at -= self.sent;
            }
        } else {
            return;
        }
        self.sent = 0;
    }

    fn send_some(&mut self, socket: &mut impl Write, devices: &[Arc<dyn BlockDevice>]) -> io::Result<usize> {
        if self.apart.is_empty() && self.rest.is_empty() {
            let n = socket.write(&self.bytes[self.sent..])?;
            self.sent += n;
            return Ok(n);
        }
        // Each of the data apart is a piece, with one of bytes before it; and there is what comes
        // before and after all.
        let mut lent = 0;
        let fits = |apart: &&Apart| {
            let fits = lent < LENT_AT_ONCE;
            lent += if matches!(apart.place, Place::Drive { .. }) { apart.len } else { 0 };
            fits
        };
        let taken = self.apart.iter().take(PIECES / 2 - 2).take_while(fits).count();
        let held = hold(self.apart.iter().take(taken), devices);
        let mut pieces = [IoSlice::new(&[]); PIECES];
        let (front, back) = self.rest.as_slices();
        pieces[0] = IoSlice::new(front);
        pieces[1] = IoSlice::new(back);
        let (mut count, mut at) = (2, self.sent);
        for apart in self.apart.iter().take(taken) {
            pieces[count] = IoSlice::new(&self.bytes[at..apart.at]);
            pieces[count + 1] = IoSlice::new(content(apart, &held));
            count += 2;
            at = apart.at;
        }
        if taken == self.apart.len() {
            pieces[count] = IoSlice::new(&self.bytes[at..]);
            count += 1;
        }
        let n = socket.write_vectored(&pieces[..count])?;
        self.advance(n, &held);
        Ok(n)
    }

    /// `n` bytes are gone.
    fn advance(&mut self, mut n: usize, held: &Held<'_>) {
        let of_rest = n.min(self.rest.len());
        self.rest.drain(..of_rest);
        n -= of_rest;
        while n > 0 {
            let until = self.apart.front().map_or(self.bytes.len(), |apart| apart.at);
            let own = n.min(until - self.sent);
            self.sent += own;
            n -= own;
            if n == 0 {
                break;
            }
            let Some(apart) = self.apart.pop_front() else { break };
            let now = n.min(apart.len);
            n -= now;
            self.advance_apart(apart, now, held);
        }
    }

    /// The first `n` bytes of data apart, which were the first of all that waits, are gone.
    fn advance_apart(&mut self, mut apart: Apart, n: usize, held: &Held<'_>) {
        let all = n == apart.len;
        match &mut apart.place {
            Place::Drive { device, offset } => {
                let (device, offset) = (*device, *offset);
                // The rest of a block that went out in part is copied now.
                let whole = (offset + n as u64).next_multiple_of(ATOM) - offset;
                let cut = apart.len.min(usize::try_from(whole).unwrap_or(usize::MAX));
                let cut = if all { n } else { cut };
                self.rest.extend(&content(&apart, held)[n..cut]);
                self.lent -= cut;
                apart.len -= cut;
                apart.place = Place::Drive { device, offset: offset + cut as u64 };
            }
            Place::Buffer { buffer, from } => {
                self.buffered -= n;
                apart.len -= n;
                *from += n;
                if all {
                    self.buffers -= buffer.memory();
                }
            }
        }
        if apart.len > 0 {
            self.apart.push_front(apart);
        }
    }
}

/// Holds the drives that lend: all of them, in the order of their numbers, so that two cores never
/// wait for each other.
fn hold<'a, 'd>(all: impl Iterator<Item = &'a Apart>, devices: &'d [Arc<dyn BlockDevice>]) -> Held<'d> {
    let mut numbers: Vec<usize> = Vec::new();
    for apart in all {
        if let Place::Drive { device, .. } = apart.place
            && !numbers.contains(&device)
        {
            numbers.push(device);
        }
    }
    numbers.sort_unstable();
    let guard = |number: usize| (number, devices[number].resident().expect("only drives in memory lend"));
    numbers.into_iter().map(guard).collect()
}

/// The bytes of data apart; the command was checked against the drive's size.
fn content<'a>(apart: &'a Apart, held: &'a Held<'_>) -> &'a [u8] {
    match &apart.place {
        Place::Drive { device, offset } => {
            let (_, content) = held.iter().find(|(number, _)| number == device).expect("it is held");
            &content[*offset as usize..][..apart.len]
        }
        Place::Buffer { buffer, from } => &buffer.content()[*from..][..apart.len],
    }
}

#[cfg(test)]
mod tests;
