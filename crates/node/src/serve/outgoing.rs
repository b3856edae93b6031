//! What waits to be sent on a connection: bytes of its own, and between them data that lie
//! elsewhere: in a drive's memory, or in the buffer that they were read into.
//!
//! ```text
//! rest │ bytes[sent..loan 0] │ loan 0 │ bytes[..loan 1] │ loan 1 │ …
//! ```
//!
//! The data of a loan are taken from the drive's memory straight into the socket, in one gathered
//! write with all else that waits. Each block goes out whole from one moment's content: where the
//! socket takes only part of one, the rest of that block is copied then and there, while nothing
//! can be written. Blocks behind it stay lent; a write that comes before they are sent shows in
//! them, as it may in any read that is not completed.
//!
//! A buffer is sent from where it lies and let go when all of it is sent: nothing is copied, and
//! what waits takes no more memory than the command was counted with.

use pumice_blockdev::BlockDevice;
use pumice_buffer::AlignedBuffer;
use std::collections::VecDeque;
use std::io::{self, ErrorKind, IoSlice, Write};
use std::sync::{Arc, RwLockReadGuard};

/// Pieces of one gathered write, at most. (Linux takes 1024.)
const PIECES: usize = 256;
/// What is atomic: no logical block is larger, and all are parts of it.
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
    Pages(AlignedBuffer),
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
            Self::Pages(pages) => pages.len(),
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
    /// What is left of a block of a loan that was sent in part.
    rest: VecDeque<u8>,
}

type Held<'a> = Vec<(usize, RwLockReadGuard<'a, Vec<u8>>)>;

impl Outgoing {
    /// Where bytes are appended. Loans made meanwhile are told afterwards, by [`lend`](Self::lend).
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
        let taken = self.apart.len().min(PIECES / 2 - 2);
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
mod tests {
    use super::*;
    use pumice_blockdev::MemoryDevice;

    /// Takes as many bytes at a time as it is told, then none.
    struct Narrow {
        got: Vec<u8>,
        takes: usize,
    }

    impl Write for Narrow {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.write_vectored(&[IoSlice::new(bytes)])
        }

        fn write_vectored(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
            let n = std::mem::take(&mut self.takes);
            if n == 0 {
                return Err(ErrorKind::WouldBlock.into());
            }
            let all: Vec<u8> = pieces.iter().flat_map(|piece| piece.iter().copied()).collect();
            let n = n.min(all.len());
            self.got.extend_from_slice(&all[..n]);
            Ok(n)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn devices() -> Vec<Arc<dyn BlockDevice>> {
        let device = |from: u8| -> Arc<dyn BlockDevice> {
            let content = (0..200).map(|i| from.wrapping_add(i)).collect();
            Arc::new(MemoryDevice::with_content("m", content))
        };
        vec![device(0), device(100)]
    }

    /// However the socket takes it, it is what was to be sent; with more loans than one write has
    /// pieces, from two drives, and bytes before, between and behind.
    #[test]
    fn every_way_of_taking_it_brings_the_same() {
        let devices = devices();
        for takes in [1, 2, 3, 7, 50, 1000, usize::MAX] {
            let mut out = Outgoing::default();
            let (mut loans, mut expected) = (Vec::new(), Vec::new());
            for i in 0..400_usize {
                if i % 10 == 0 {
                    let mut pages = AlignedBuffer::new(70);
                    pages[..70].fill(i as u8);
                    let at = out.bytes().len();
                    out.keep(at, 70, Buffer::Pages(pages));
                    out.keep(at, 3, Buffer::Bytes(vec![0xBB; 9]));
                    expected.extend_from_slice(&[i as u8; 70]);
                    expected.extend_from_slice(&[0xBB; 3]);
                }
                let header = [0xEE; 5];
                out.bytes().extend_from_slice(&header[..i % 6]);
                expected.extend_from_slice(&header[..i % 6]);
                let (device, offset, len) = (i % 2, (i * 3 % 100) as u64, 1 + i % 60);
                loans.push(Loan { at: out.bytes().len(), device, offset, len });
                let mut data = vec![0; len];
                devices[device].read_at(offset, &mut data).unwrap();
                expected.extend_from_slice(&data);
                if i % 10 == 9 {
                    out.lend(&mut loans);
                }
            }
            out.bytes().extend_from_slice(b"end");
            expected.extend_from_slice(b"end");
            assert_eq!(out.len(), expected.len());
            let mut socket = Narrow { got: Vec::new(), takes };
            while !out.is_empty() {
                out.send(&mut socket, &devices).unwrap();
                socket.takes = takes;
            }
            assert_eq!(socket.got, expected, "{takes} at a time");
            assert_eq!((out.buffers, out.buffered, out.own()), (0, 0, 0));
            assert!(out.bytes().is_empty() && out.apart.is_empty() && out.lent == 0);
        }
    }

    /// A connection whose host takes nothing holds the buffers of its answers and next to nothing
    /// else; and each of them only until it is sent.
    #[test]
    fn what_waits_in_buffers_takes_no_more_than_they_do() {
        const MIB: usize = 1 << 20;
        let mut out = Outgoing::default();
        for i in 0..16 {
            out.bytes().extend_from_slice(&[i; 24]);
            let at = out.bytes().len();
            out.keep(at, MIB, Buffer::Pages(AlignedBuffer::new(MIB)));
        }
        assert_eq!((out.len(), out.own()), (16 * (MIB + 24), 16 * (MIB + 24)));
        assert!(out.memory() < 16 * MIB + 4096, "{}", out.memory());
        let mut socket = Narrow { got: Vec::new(), takes: 0 };
        for left in (0..16).rev() {
            socket.takes = MIB + 24;
            out.send(&mut socket, &[]).unwrap();
            assert!(out.memory() < left * MIB + 4096, "{left} are left");
        }
        assert!(out.is_empty());
    }

    /// A write between two halves of a loan is not seen: a block is read from one moment.
    #[test]
    fn a_loan_is_never_torn() {
        let devices = devices();
        let mut out = Outgoing::default();
        out.lend(&mut vec![
            Loan { at: 0, device: 0, offset: 0, len: 100 },
            Loan { at: 0, device: 0, offset: 0, len: 100 },
        ]);
        let mut socket = Narrow { got: Vec::new(), takes: 10 };
        assert_eq!(out.send(&mut socket, &devices).unwrap(), 10);
        devices[0].write_at(0, &[9; 100]).unwrap();
        socket.takes = usize::MAX;
        out.send(&mut socket, &devices).unwrap();
        let before: Vec<u8> = (0..100).collect();
        assert_eq!(socket.got[..100], before);
        assert_eq!(socket.got[100..], [9; 100]);
    }

    /// However many bytes are taken at a time, and with writes between: each block comes from one
    /// moment.
    #[test]
    fn of_a_long_loan_each_block_is_of_one_moment() {
        const LEN: usize = 64 << 10;
        for takes in [700, 4096, 5_000, 30_000] {
            let device: Arc<dyn BlockDevice> = Arc::new(MemoryDevice::with_content("m", vec![0; LEN]));
            let devices = vec![Arc::clone(&device)];
            let mut out = Outgoing::default();
            out.bytes().extend_from_slice(b"ab");
            out.lend(&mut vec![Loan { at: 1, device: 0, offset: 512, len: LEN - 1024 }]);
            let mut socket = Narrow { got: Vec::new(), takes };
            let mut moment = 0;
            while !out.is_empty() {
                out.send(&mut socket, &devices).unwrap();
                assert!(out.own() < 4096 + 2, "no more than a block is copied");
                moment += 1;
                device.write_at(0, &vec![moment; LEN]).unwrap();
                socket.takes = takes;
            }
            assert_eq!(socket.got.len(), LEN - 1024 + 2);
            assert_eq!((socket.got[0], *socket.got.last().unwrap()), (b'a', b'b'));
            let data = &socket.got[1..=LEN - 1024];
            let (first, others) = data.split_at(4096 - 512);
            assert!(first.iter().all(|byte| *byte == first[0]), "{takes}");
            for block in others.chunks(4096) {
                assert!(block.iter().all(|byte| *byte == block[0]), "{takes}");
            }
            assert!(data.is_sorted(), "later blocks from later moments");
        }
    }

    /// A host that always leaves something waiting: what it has got is let go all the same.
    #[test]
    fn what_is_kept_is_bounded_by_what_waits() {
        let devices = devices();
        let mut out = Outgoing::default();
        let mut socket = Narrow { got: Vec::new(), takes: 0 };
        let (mut expected, mut sent) = (Vec::new(), 0);
        for i in 0..200_usize {
            out.bytes().extend(std::iter::repeat_n(i as u8, 50_000));
            expected.extend(std::iter::repeat_n(i as u8, 50_000));
            if i % 3 == 0 {
                let mut loan = vec![Loan { at: out.bytes().len(), device: 1, offset: 0, len: 90 }];
                out.lend(&mut loan);
                expected.extend(100..190);
            }
            socket.takes = if i < 20 { 0 } else { 50_030 };
            sent += out.send(&mut socket, &devices).unwrap() as usize;
            assert!(!out.is_empty());
            assert!(out.bytes.len() <= 2 * out.len() + KEPT + 50_000, "{} of {}", out.bytes.len(), out.len());
        }
        assert_eq!(socket.got.len(), sent);
        while !out.is_empty() {
            socket.takes = usize::MAX;
            out.send(&mut socket, &devices).unwrap();
        }
        assert!(socket.got == expected);
    }
}
