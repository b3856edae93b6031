//! The bytes that a queue of a host sends, and the data of commands between them.
//!
//! ```text
//! bytes[sent..data 0] │ data 0 │ bytes[..data 1] │ data 1 │ … │ bytes[..end]
//! ```
//!
//! Data that are [`Outgoing`] stay where they are: they can go into a socket from there, without a
//! copy.

use std::collections::VecDeque;
use std::fmt;
use std::ops::Range;

/// Data of fewer bytes are copied: that costs less than a piece of their own in a gathered write.
const LEND: usize = 2048;
/// Bytes that were sent and are still kept, beyond which they are let go.
const KEPT: usize = 64 << 10;

/// Data for the controller.
pub trait Payload: Default {
    /// Bytes.
    fn size(&self) -> usize;

    /// These bytes of it, which lie in two places at most.
    fn parts(&self, range: Range<usize>) -> [&[u8]; 2];

    /// The command has ended: its data are not asked for any more.
    fn release(&mut self);
}

impl Payload for Vec<u8> {
    fn size(&self) -> usize {
        self.len()
    }

    fn parts(&self, range: Range<usize>) -> [&[u8]; 2] {
        [&self[range], &[]]
    }

    fn release(&mut self) {
        self.clear();
    }
}

/// Bytes that are sent with their command, at once.
impl Payload for &[u8] {
    fn size(&self) -> usize {
        self.len()
    }

    fn parts(&self, range: Range<usize>) -> [&[u8]; 2] {
        [&self[range], &[]]
    }

    fn release(&mut self) {
        *self = &[];
    }
}

/// Destination of a queue's bytes.
pub trait Sink<D> {
    /// Buffer to which bytes are appended.
    fn bytes(&mut self) -> &mut Vec<u8>;

    /// Appends a range of a command's data.
    fn data(&mut self, data: &D, range: Range<usize>);
}

impl<D: Payload> Sink<D> for Vec<u8> {
    fn bytes(&mut self) -> &mut Vec<u8> {
        self
    }

    fn data(&mut self, data: &D, range: Range<usize>) {
        data.parts(range).into_iter().for_each(|part| self.extend_from_slice(part));
    }
}

/// Data that go in front of byte `at` of the queue's own.
struct Lent<D> {
    at: usize,
    data: D,
    range: Range<usize>,
}

/// Bytes to send, of which data of commands stay in their memory.
pub struct Outgoing<D> {
    bytes: Vec<u8>,
    /// Of `bytes`.
    sent: usize,
    /// In order; none lies before `sent`.
    lent: VecDeque<Lent<D>>,
    /// Bytes of them.
    lent_bytes: usize,
}

impl<D> Default for Outgoing<D> {
    fn default() -> Self {
        Self { bytes: Vec::new(), sent: 0, lent: VecDeque::new(), lent_bytes: 0 }
    }
}

impl<D> fmt::Debug for Outgoing<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outgoing").field("len", &self.len()).finish_non_exhaustive()
    }
}

impl<D: Payload + Clone> Sink<D> for Outgoing<D> {
    fn bytes(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    fn data(&mut self, data: &D, range: Range<usize>) {
        if range.len() < LEND {
            return data.parts(range).into_iter().for_each(|part| self.bytes.extend_from_slice(part));
        }
        self.lent_bytes += range.len();
        self.lent.push_back(Lent { at: self.bytes.len(), data: data.clone(), range });
    }
}

impl<D> Outgoing<D> {
    /// Bytes that wait.
    #[must_use]
    pub fn len(&self) -> usize {
        self.bytes.len() - self.sent + self.lent_bytes
    }

    /// Returns whether none wait.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<D: Payload> Outgoing<D> {
    /// The waiting pieces, in their order; empty ones are left out.
    pub fn pieces(&self) -> impl Iterator<Item = &[u8]> {
        let before = self.lent.iter().scan(self.sent, |from, lent| {
            let own = &self.bytes[*from..lent.at];
            *from = lent.at;
            let [first, second] = lent.data.parts(lent.range.clone());
            Some([own, first, second])
        });
        let last = self.lent.back().map_or(self.sent, |lent| lent.at);
        let pieces = before.flatten().chain(std::iter::once(&self.bytes[last..]));
        pieces.filter(|piece| !piece.is_empty())
    }

    /// The first bytes of what waits were sent.
    ///
    /// # Panics
    /// If fewer wait.
    pub fn advance(&mut self, bytes: usize) {
        let mut left = bytes;
        while let Some(first) = self.lent.front_mut() {
            let own = left.min(first.at - self.sent);
            self.sent += own;
            left -= own;
            let of_it = left.min(first.range.len());
            first.range.start += of_it;
            self.lent_bytes -= of_it;
            left -= of_it;
            if self.sent < first.at || !first.range.is_empty() {
                break;
            }
            self.lent.pop_front();
        }
        self.sent += left;
        assert!(self.sent <= self.bytes.len(), "{bytes} bytes are more than wait");
        if self.sent == self.bytes.len() && self.lent.is_empty() {
            self.bytes.clear();
            self.sent = 0;
        } else if self.sent >= KEPT {
            self.bytes.drain(..self.sent);
            self.lent.iter_mut().for_each(|lent| lent.at -= self.sent);
            self.sent = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(out: &Outgoing<Vec<u8>>) -> Vec<u8> {
        out.pieces().flatten().copied().collect()
    }

    /// Bytes of its own, then data, short and long, also without anything between.
    fn filled() -> (Outgoing<Vec<u8>>, Vec<u8>) {
        let (mut out, mut flat) = (Outgoing::default(), Vec::new());
        let data: Vec<u8> = (0..3 * LEND).map(|i| (i % 251) as u8).collect();
        let ranges = [0..LEND, 5..LEND + 5, 7..9, 100..3 * LEND, 0..0, LEND..2 * LEND];
        for (i, range) in (0_u8..).zip(ranges) {
            if i != 1 {
                let own = vec![0xE0 + i; usize::from(i) + 3];
                Sink::<Vec<u8>>::bytes(&mut out).extend_from_slice(&own);
                flat.extend_from_slice(&own);
            }
            out.data(&data, range.clone());
            Sink::<Vec<u8>>::data(&mut flat, &data, range);
        }
        Sink::<Vec<u8>>::bytes(&mut out).push(0xFF);
        flat.push(0xFF);
        (out, flat)
    }

    #[test]
    fn what_waits_is_sent_in_order_however_it_is_cut() {
        for step in [1, 2, 3, 7, LEND - 1, LEND, LEND + 1, 100_000] {
            let (mut out, flat) = filled();
            assert!(out.pieces().all(|piece| !piece.is_empty()));
            let mut sent = 0;
            while !out.is_empty() {
                assert_eq!(
                    (out.len(), all(&out) == flat[sent..]),
                    (flat.len() - sent, true),
                    "{step} {sent}"
                );
                let now = step.min(out.len());
                out.advance(now);
                sent += now;
            }
            assert_eq!(sent, flat.len());
            assert!(out.lent.is_empty() && out.bytes.is_empty());
        }
    }

    #[test]
    fn sent_bytes_are_let_go_though_more_always_wait() {
        let mut out = Outgoing::default();
        let data = vec![7; LEND];
        for _ in 0..1000 {
            Sink::<Vec<u8>>::bytes(&mut out).extend_from_slice(&[1; 1000]);
            out.data(&data, 0..LEND);
            while out.len() > 2000 {
                out.advance(500);
            }
            assert!(out.bytes.len() <= KEPT + 4096 && out.lent.len() <= 2);
        }
    }
}
