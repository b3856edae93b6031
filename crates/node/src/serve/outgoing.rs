//! What waits to be sent on a connection: bytes of its own, and between them data that drives lend.
//!
//! ```text
//! rest │ bytes[sent..loan 0] │ loan 0 │ bytes[..loan 1] │ loan 1 │ …
//! ```
//!
//! The data of a loan are taken from the drive's memory straight into the socket, in one gathered write with all else that waits. Each block goes out whole from one moment's
//! content: where the socket takes only part of one, the rest of that block is copied then and there, while nothing can be written. Blocks behind it stay lent; a write that comes before they are sent
//! shows in them, as it may in any read that is not completed.

use pumice_blockdev::BlockDevice;
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

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Outgoing {
    bytes: Vec<u8>,
    /// Of `bytes`.
    sent: usize,
    /// In order; none lies before `sent`.
    loans: VecDeque<Loan>,
    /// Bytes of all loans.
    lent: usize,
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
        self.loans.extend(loans.drain(..));
    }

    /// Bytes that wait.
    pub(super) fn len(&self) -> usize {
        self.own() + self.lent
    }

    /// Of those, what takes memory here.
    pub(super) fn own(&self) -> usize {
        self.rest.len() + self.bytes.len() - self.sent
    }

    /// Lets go of the memory that is kept for what comes next.
    pub(super) fn shrink(&mut self) {
        if self.is_empty() {
            *self = Self::default();
        }
    }

    /// Bytes of memory that it has.
    pub(super) fn memory(&self) -> usize {
        self.rest.capacity() + self.bytes.capacity()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Sends what `socket` takes, and returns how many bytes that were.
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
                Ok(0) => break,
                Ok(n) => all += n as u64,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.let_go();
        Ok(all)
    }

    /// Lets go of bytes that were sent. Where the drives are faster than the network, something always waits: then it must not be that nothing is let go until all is sent.
    fn let_go(&mut self) {
        if self.is_empty() {
            self.bytes.clear();
            self.bytes.shrink_to(KEPT);
        } else if self.sent >= KEPT && self.sent >= self.bytes.len() / 2 {
            // No more bytes are moved than were sent.
            self.bytes.drain(..self.sent);
            self.bytes.shrink_to((2 * self.bytes.len()).max(KEPT));
            for loan in &mut self.loans {
                loan.at -= self.sent;
            }
        } else {
            return;
        }
        self.sent = 0;
    }

    fn send_some(&mut self, socket: &mut impl Write, devices: &[Arc<dyn BlockDevice>]) -> io::Result<usize> {
        if self.loans.is_empty() && self.rest.is_empty() {
            let n = socket.write(&self.bytes[self.sent..])?;
            self.sent += n;
            return Ok(n);
        }
        // Each loan is a piece, with one of bytes before it; and there is what comes before and after all.
        let taken = self.loans.len().min(PIECES / 2 - 2);
        let held = hold(self.loans.iter().take(taken), devices);
        let mut pieces = [IoSlice::new(&[]); PIECES];
        let (front, back) = self.rest.as_slices();
        pieces[0] = IoSlice::new(front);
        pieces[1] = IoSlice::new(back);
        let (mut count, mut at) = (2, self.sent);
        for loan in self.loans.iter().take(taken) {
            pieces[count] = IoSlice::new(&self.bytes[at..loan.at]);
            pieces[count + 1] = IoSlice::new(content(loan, &held));
            count += 2;
            at = loan.at;
        }
        if taken == self.loans.len() {
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
            let until = self.loans.front().map_or(self.bytes.len(), |loan| loan.at);
            let own = n.min(until - self.sent);
            self.sent += own;
            n -= own;
            if n == 0 {
                break;
            }
            let Some(loan) = self.loans.pop_front() else { break };
            if n < loan.len {
                let whole = (loan.offset + n as u64).next_multiple_of(ATOM) - loan.offset;
                let cut = loan.len.min(usize::try_from(whole).unwrap_or(usize::MAX));
                self.rest.extend(&content(&loan, held)[n..cut]);
                self.lent -= cut;
                if cut < loan.len {
                    let left = Loan { offset: loan.offset + cut as u64, len: loan.len - cut, ..loan };
                    self.loans.push_front(left);
                }
                break;
            }
            self.lent -= loan.len;
            n -= loan.len;
        }
    }
}

/// Holds the drives of loans: all of them, in the order of their numbers, so that two cores never wait for each other.
fn hold<'a, 'd>(loans: impl Iterator<Item = &'a Loan>, devices: &'d [Arc<dyn BlockDevice>]) -> Held<'d> {
    let mut numbers: Vec<usize> = Vec::new();
    for loan in loans {
        if !numbers.contains(&loan.device) {
            numbers.push(loan.device);
        }
    }
    numbers.sort_unstable();
    let guard = |number: usize| (number, devices[number].resident().expect("only drives in memory lend"));
    numbers.into_iter().map(guard).collect()
}

/// The bytes of a loan; the command was checked against the drive's size.
fn content<'a>(loan: &Loan, held: &'a Held<'_>) -> &'a [u8] {
    let (_, content) = held.iter().find(|(number, _)| *number == loan.device).expect("it is held");
    &content[loan.offset as usize..][..loan.len]
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

    /// However the socket takes it, it is what was to be sent; with more loans than one write has pieces, from two drives, and bytes before, between and behind.
    #[test]
    fn every_way_of_taking_it_brings_the_same() {
        let devices = devices();
        for takes in [1, 2, 3, 7, 50, 1000, usize::MAX] {
            let mut out = Outgoing::default();
            let (mut loans, mut expected) = (Vec::new(), Vec::new());
            for i in 0..400_usize {
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
            assert!(out.bytes().is_empty() && out.loans.is_empty() && out.lent == 0);
        }
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

    /// However many bytes are taken at a time, and with writes between: each block comes from one moment.
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
