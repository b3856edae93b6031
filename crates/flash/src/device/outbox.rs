//! Writes to the medium that wait for their turn. Which of them may overtake each other is in
//! `docs/reference/on-disk/flash.md`.

use pumice_base::buffer::AlignedBuffer;
use pumice_base::durable::Held;
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

/// Bytes that are joined to one write, at most.
const MOST: usize = 256 << 10;
/// Bytes of a write, at least, that is made beside others.
const LONG: usize = 32 << 10;
/// Bytes of a buffer for a short write, as most copied ones are: tags and drafts.
const SHORT: usize = 16 << 10;
/// Buffers that are kept for later writes.
const SPARE: usize = 8;
const SPARE_SHORT: usize = 64;

/// The bytes that are written.
#[derive(Debug, Clone)]
enum Data {
    /// A copy, at the start of a buffer.
    Copied(Arc<AlignedBuffer>),
    /// Pieces one after another, of which others keep the bytes as they are.
    Held(Arc<Vec<Held>>),
}

#[derive(Debug)]
struct Write {
    /// The number of the first write that was joined to it.
    number: u64,
    offset: u64,
    len: usize,
    data: Data,
    begun: bool,
}

impl Write {
    fn range(&self) -> Range<u64> {
        self.offset..self.offset + self.len as u64
    }

    fn overlaps(&self, range: &Range<u64>) -> bool {
        self.offset < range.end && range.start < self.range().end
    }

    /// The place where a write that is joined to this one begins in it, if it can be: it continues
    /// this one or begins within it.
    fn joins(&self, offset: u64, len: usize) -> Option<usize> {
        let at = offset.checked_sub(self.offset).filter(|at| *at <= self.len as u64)? as usize;
        (!self.begun && at + len <= MOST).then_some(at)
    }

    /// Its pieces, and where each lies.
    fn pieces(&self) -> impl Iterator<Item = (u64, &[u8])> {
        let (copy, held) = match &self.data {
            Data::Copied(buffer) => (Some(&buffer[..self.len]), &[][..]),
            Data::Held(pieces) => (None, &pieces[..]),
        };
        copy.into_iter().chain(held.iter().map(|piece| &piece[..])).scan(self.offset, |at, piece| {
            let start = std::mem::replace(at, *at + piece.len() as u64);
            Some((start, piece))
        })
    }
}

/// A write that is to be made now.
#[derive(Debug)]
#[must_use = "it keeps later writes waiting until it ends"]
pub struct Job {
    number: u64,
    offset: u64,
    len: usize,
    data: Data,
    /// Its pieces side by side, if they are many.
    gathered: Option<AlignedBuffer>,
}

impl Job {
    /// The place where it goes, in bytes.
    #[must_use]
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// The number of bytes that it writes.
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "none is empty")]
    pub fn len(&self) -> usize {
        self.len
    }

    /// The bytes that are written. Many pieces are copied to one place first.
    pub fn bytes(&mut self) -> &[u8] {
        let pieces = match &self.data {
            Data::Copied(buffer) => return &buffer[..self.len],
            Data::Held(pieces) if pieces.len() == 1 => return &pieces[0],
            Data::Held(pieces) => pieces,
        };
        let buffer = self.gathered.get_or_insert_with(|| AlignedBuffer::new(MOST));
        let mut at = 0;
        for piece in pieces.iter() {
            buffer[at..at + piece.len()].copy_from_slice(piece);
            at += piece.len();
        }
        &buffer[..self.len]
    }
}

/// Writes that wait for their turn or are under way, in the order in which they came.
///
/// Writes to the same bytes are made in that order; all others may overtake each other, and are
/// made side by side. A write that continues a waiting one, or replaces bytes of it, is joined to
/// it if both are copied; one of held bytes, if it continues one of held bytes.
#[derive(Debug, Default)]
pub struct Outbox {
    writes: VecDeque<Write>,
    /// Writes that were accepted.
    accepted: u64,
    /// Bytes that wait or are under way.
    bytes: usize,
    spare: Vec<AlignedBuffer>,
    spare_short: Vec<AlignedBuffer>,
}

impl Outbox {
    /// Takes a copy of a write.
    pub fn accept(&mut self, offset: u64, data: &[u8]) {
        self.accepted += 1;
        let range = offset..offset + data.len() as u64;
        for write in self.writes.iter_mut().rev() {
            if let Some(at) = write.joins(offset, data.len())
                && let Data::Copied(buffer) = &mut write.data
                && at + data.len() <= buffer.len()
                && let Some(buffer) = Arc::get_mut(buffer)
            {
                buffer[at..at + data.len()].copy_from_slice(data);
                let len = write.len.max(at + data.len());
                self.bytes += len - write.len;
                write.len = len;
                return;
            }
            if write.overlaps(&range) {
                break;
            }
        }
        let (spare, size) = match data.len() <= SHORT {
            true => (self.spare_short.pop(), SHORT),
            false => (self.spare.pop().filter(|_| data.len() <= MOST), MOST.max(data.len())),
        };
        let mut buffer = spare.unwrap_or_else(|| AlignedBuffer::new(size));
        buffer[..data.len()].copy_from_slice(data);
        self.push(offset, data.len(), Data::Copied(Arc::new(buffer)));
    }

    /// Takes a write whose bytes stay where they are, and as they are.
    pub fn accept_held(&mut self, offset: u64, data: Held) {
        self.accepted += 1;
        let (len, range) = (data.len(), offset..offset + data.len() as u64);
        for write in self.writes.iter_mut().rev() {
            if write.joins(offset, len) == Some(write.len)
                && let Data::Held(pieces) = &mut write.data
                && let Some(pieces) = Arc::get_mut(pieces)
            {
                match pieces.last_mut().and_then(|last| Some((last.joined(&data)?, last))) {
                    Some((both, last)) => *last = both,
                    None => pieces.push(data),
                }
                self.bytes += len;
                write.len += len;
                return;
            }
            if write.overlaps(&range) {
                break;
            }
        }
        self.push(offset, len, Data::Held(Arc::new(vec![data])));
    }

    fn push(&mut self, offset: u64, len: usize, data: Data) {
        self.bytes += len;
        self.writes.push_back(Write { number: self.accepted, offset, len, data, begun: false });
    }

    /// Begins a write, if one may begin.
    pub fn begin(&mut self) -> Option<Job> {
        self.begin_of(0)
    }

    /// Does the same, but begins a short write only if no other short one is under way. The file
    /// would make them one after another as well; those that wait meanwhile are joined.
    pub fn begin_joined(&mut self) -> Option<Job> {
        let busy = self.writes.iter().any(|write| write.begun && write.len < LONG);
        self.begin_of(if busy { LONG } else { 0 })
    }

    /// Begins a write of at least so many bytes, if one may begin.
    fn begin_of(&mut self, least: usize) -> Option<Job> {
        let free = |i: &usize| {
            let (write, mut earlier) = (&self.writes[*i], self.writes.iter().take(*i));
            !write.begun && write.len >= least && !earlier.any(|earlier| earlier.overlaps(&write.range()))
        };
        let next = (0..self.writes.len()).find(free)?;
        let write = &mut self.writes[next];
        write.begun = true;
        let scattered = matches!(&write.data, Data::Held(pieces) if pieces.len() > 1);
        Some(Job {
            number: write.number,
            offset: write.offset,
            len: write.len,
            data: write.data.clone(),
            gathered: if scattered { self.spare.pop() } else { None },
        })
    }

    /// Ends a write that was made.
    pub fn end(&mut self, job: Job) {
        let is_it = |write: &Write| write.begun && write.number == job.number;
        let at = self.writes.iter().position(is_it).expect("O2: a write ends once, after it began");
        let Job { data, gathered, .. } = job;
        drop(data);
        if let Some(write) = self.writes.remove(at) {
            self.bytes -= write.len;
            assert!(
                !self.writes.is_empty() || self.bytes == 0,
                "O3: the bytes of each write are counted once"
            );
            let copy = match write.data {
                Data::Copied(buffer) => Arc::into_inner(buffer),
                Data::Held(_) => None,
            };
            for buffer in copy.into_iter().chain(gathered) {
                if buffer.len() == SHORT && self.spare_short.len() < SPARE_SHORT {
                    self.spare_short.push(buffer);
                } else if buffer.len() == MOST && self.spare.len() < SPARE {
                    self.spare.push(buffer);
                }
            }
        }
    }

    /// The number of the last write that was accepted; they count from 1.
    #[must_use]
    pub fn accepted(&self) -> u64 {
        self.accepted
    }

    /// Returns whether the writes up to this number have been made.
    #[must_use]
    pub fn is_done(&self, number: u64) -> bool {
        self.writes.iter().all(|write| write.number > number)
    }

    /// The number of the oldest write that has not been made.
    #[must_use]
    pub fn oldest(&self) -> Option<u64> {
        self.writes.front().map(|write| write.number)
    }

    /// Returns whether some write has not begun.
    #[must_use]
    pub fn waits(&self) -> bool {
        self.writes.iter().any(|write| !write.begun)
    }

    /// Bytes that wait or are under way.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns whether a write that has not been made touches these bytes.
    #[must_use]
    pub fn touches(&self, offset: u64, len: usize) -> bool {
        let range = offset..offset + len as u64;
        self.writes.iter().any(|write| write.overlaps(&range))
    }

    /// Puts what was accepted over bytes of the medium.
    pub fn cover(&self, offset: u64, buf: &mut [u8]) {
        let end = offset + buf.len() as u64;
        for write in self.writes.iter().filter(|write| write.overlaps(&(offset..end))) {
            for (start, piece) in write.pieces() {
                let (from, to) = (start.max(offset), (start + piece.len() as u64).min(end));
                if from < to {
                    let part = &piece[(from - start) as usize..(to - start) as usize];
                    buf[(from - offset) as usize..(to - offset) as usize].copy_from_slice(part);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chip::Random;

    #[test]
    fn writes_that_continue_or_replace_a_waiting_one_are_joined_to_it() {
        let mut outbox = Outbox::default();
        outbox.accept(4096, &[1; 4096]);
        outbox.accept(65_536, &[9; 4096]);
        outbox.accept(8192, &[2; 4096]);
        outbox.accept(65_536, &[8; 8192]);
        assert_eq!((outbox.accepted(), outbox.bytes()), (4, 16_384));
        let mut data = outbox.begin().unwrap();
        assert_eq!((data.offset(), data.bytes().len()), (4096, 8192));
        // It has begun: what replaces it waits.
        outbox.accept(8192, &[3; 4096]);
        let mut tags = outbox.begin().unwrap();
        assert_eq!((tags.offset(), tags.bytes()), (65_536, &[8; 8192][..]));
        assert!(outbox.begin().is_none());
        outbox.end(tags);
        assert!(!outbox.is_done(1) && !outbox.is_done(4));
        outbox.end(data);
        assert!(outbox.is_done(4) && !outbox.is_done(5));
        let mut last = outbox.begin().unwrap();
        assert_eq!(last.bytes(), [3; 4096]);
        outbox.end(last);
        assert!(outbox.is_done(5) && outbox.bytes() == 0);
    }

    #[test]
    fn short_writes_wait_for_the_one_under_way_and_are_joined_and_long_ones_do_not() {
        let mut outbox = Outbox::default();
        let page = |byte| Held::new(vec![byte; 4096]);
        outbox.accept_held(0, page(1));
        let first = outbox.begin_joined().unwrap();
        outbox.accept_held(4096, page(2));
        outbox.accept(1 << 20, &[9; 128]);
        assert!(outbox.begin_joined().is_none() && outbox.waits());
        outbox.accept_held(8192, page(3));
        outbox.accept(1 << 20 | 128, &[8; 128]);
        outbox.accept_held(2 << 20, Held::new(vec![4; LONG]));
        let long = outbox.begin_joined().unwrap();
        assert_eq!((long.offset(), long.len()), (2 << 20, LONG));
        outbox.end(first);
        let mut both = outbox.begin_joined().unwrap();
        outbox.end(long);
        assert!(both.offset() == 4096 && both.bytes() == [[2; 4096], [3; 4096]].concat());
        outbox.end(both);
        let tags = outbox.begin_joined().unwrap();
        assert_eq!((tags.offset(), tags.len()), (1 << 20, 256));
        outbox.end(tags);
        assert!(outbox.is_done(6));
    }

    #[test]
    fn held_bytes_are_joined_without_a_copy_if_they_continue_each_other() {
        let (mut outbox, all) = (Outbox::default(), Held::new(vec![7; 16_384]));
        for at in [0, 4096, 8192] {
            outbox.accept_held(65_536 + at as u64, all.part(at..at + 4096));
        }
        // Of another owner; then what replaces bytes, and what is copied: a write of its own each.
        outbox.accept_held(65_536 + 12_288, Held::new(vec![8; 4096]));
        outbox.accept_held(65_536, Held::new(vec![9; 4096]));
        outbox.accept(65_536 + 16_384, &[5; 4096]);
        assert_eq!((outbox.accepted(), outbox.bytes()), (6, 24_576));
        let mut first = outbox.begin().unwrap();
        assert!(first.bytes() == [&[7; 12_288][..], &[8; 4096]].concat());
        let mut copied = outbox.begin().unwrap();
        assert_eq!((copied.offset(), copied.bytes()), (81_920, &[5; 4096][..]));
        assert!(outbox.begin().is_none(), "it waits for what it replaces");
        let mut seen = [0; 20_480];
        outbox.cover(65_536, &mut seen);
        assert!(seen[..4096] == [9; 4096] && seen[12_288..16_384] == [8; 4096]);
        outbox.end(first);
        let mut last = outbox.begin().unwrap();
        assert!(last.bytes().as_ptr() != all.as_ptr() && last.bytes() == [9; 4096]);
        outbox.end(last);
        outbox.accept_held(0, all.clone());
        let mut whole = outbox.begin().unwrap();
        assert_eq!(whole.bytes().as_ptr(), all.as_ptr());
    }

    /// The medium ends up as if all writes were made in order, whatever overtakes what, and reads
    /// see them from the start.
    #[test]
    fn bytes_are_as_if_all_writes_were_made_in_order() {
        for seed in 0..300 {
            let mut random = Random::new(seed);
            let (mut outbox, mut under_way) = (Outbox::default(), Vec::new());
            let (mut medium, mut model) = (vec![0_u8; 65_536], vec![0_u8; 65_536]);
            for number in 0..200_u64 {
                let from = random.below(60) as usize * 1024;
                let len = (1 + random.below(6) as usize) * 1024;
                let end = (from + len).min(model.len());
                model[from..end].fill(number as u8 + 1);
                if random.below(2) == 0 {
                    outbox.accept(from as u64, &model[from..end]);
                } else {
                    // In pieces of one owner, or of several.
                    let all = Held::new(model[from..end].to_vec());
                    let middle = random.below((end - from) as u64) as usize / 1024 * 1024;
                    let other = Held::new(all[middle..].to_vec());
                    let second = if random.below(2) == 0 { all.part(middle..all.len()) } else { other };
                    for (at, piece) in [(0, all.part(0..middle)), (middle, second)] {
                        if !piece.is_empty() {
                            outbox.accept_held((from + at) as u64, piece);
                        }
                    }
                }
                for _ in 0..random.below(4) {
                    if random.below(2) == 0 {
                        under_way.extend(outbox.begin());
                    } else if !under_way.is_empty() {
                        let mut job: Job =
                            under_way.swap_remove(random.below(under_way.len() as u64) as usize);
                        let at = job.offset() as usize;
                        medium[at..at + job.len()].copy_from_slice(job.bytes());
                        outbox.end(job);
                    }
                }
                let mut seen = medium.clone();
                outbox.cover(0, &mut seen);
                assert!(seen == model, "seed {seed}, write {number}");
            }
            while let Some(mut job) = under_way.pop().or_else(|| outbox.begin()) {
                let at = job.offset() as usize;
                medium[at..at + job.len()].copy_from_slice(job.bytes());
                outbox.end(job);
            }
            assert!(medium == model && outbox.is_done(outbox.accepted()), "seed {seed}");
        }
    }
}
