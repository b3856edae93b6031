//! Writes to the medium that wait for their turn. Which of them may overtake each other is in
//! `docs/reference/on-disk/flash.md`.

use pumice_buffer::AlignedBuffer;
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

/// Bytes that are joined to one write, at most.
const MOST: usize = 256 << 10;
/// Buffers that are kept for later writes.
const SPARE: usize = 16;

#[derive(Debug)]
struct Write {
    /// The number of the first write that was joined to it.
    number: u64,
    offset: u64,
    len: usize,
    data: Arc<AlignedBuffer>,
    begun: bool,
}

impl Write {
    fn range(&self) -> Range<u64> {
        self.offset..self.offset + self.len as u64
    }

    fn overlaps(&self, range: &Range<u64>) -> bool {
        self.offset < range.end && range.start < self.range().end
    }
}

/// A write that is to be made now.
#[derive(Debug)]
#[must_use = "it keeps later writes waiting until it ends"]
pub struct Job {
    number: u64,
    offset: u64,
    len: usize,
    data: Arc<AlignedBuffer>,
}

impl Job {
    /// Where it goes, in bytes.
    #[must_use]
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// What is written.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.data[..self.len]
    }
}

/// Writes that wait for their turn or are under way, in the order in which they came.
///
/// Writes to the same bytes are made in that order; all others may overtake each other, and are
/// made side by side. A write that continues a waiting one, or replaces bytes of it, is joined to
/// it.
#[derive(Debug, Default)]
pub struct Outbox {
    writes: VecDeque<Write>,
    /// Writes that were accepted.
    accepted: u64,
    /// Bytes that wait or are under way.
    bytes: usize,
    spare: Vec<AlignedBuffer>,
}

impl Outbox {
    /// Takes a write.
    pub fn accept(&mut self, offset: u64, data: &[u8]) {
        self.accepted += 1;
        let range = offset..offset + data.len() as u64;
        for write in self.writes.iter_mut().rev() {
            let within = offset.checked_sub(write.offset).filter(|at| *at <= write.len as u64);
            if let Some(at) = within.map(|at| at as usize)
                && !write.begun
                && at + data.len() <= MOST
                && let Some(buffer) = Arc::get_mut(&mut write.data)
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
        let mut buffer = match self.spare.pop() {
            Some(spare) if data.len() <= MOST => spare,
            _ => AlignedBuffer::new(data.len().max(MOST)),
        };
        buffer[..data.len()].copy_from_slice(data);
        self.bytes += data.len();
        self.writes.push_back(Write {
            number: self.accepted,
            offset,
            len: data.len(),
            data: Arc::new(buffer),
            begun: false,
        });
    }

    /// Begins a write, if one may begin.
    pub fn begin(&mut self) -> Option<Job> {
        let free = |i: &usize| {
            let (write, mut earlier) = (&self.writes[*i], self.writes.iter().take(*i));
            !write.begun && !earlier.any(|earlier| earlier.overlaps(&write.range()))
        };
        let next = (0..self.writes.len()).find(free)?;
        let write = &mut self.writes[next];
        write.begun = true;
        Some(Job {
            number: write.number,
            offset: write.offset,
            len: write.len,
            data: Arc::clone(&write.data),
        })
    }

    /// Ends a write that was made.
    pub fn end(&mut self, job: Job) {
        let Some(at) = self.writes.iter().position(|write| write.number == job.number) else { return };
        drop(job);
        if let Some(write) = self.writes.remove(at) {
            self.bytes -= write.len;
            if let Some(buffer) = Arc::into_inner(write.data).filter(|buffer| buffer.len() == MOST)
                && self.spare.len() < SPARE
            {
                self.spare.push(buffer);
            }
        }
    }

    /// The number of the last write that was accepted; they count from 1.
    #[must_use]
    pub fn accepted(&self) -> u64 {
        self.accepted
    }

    /// Whether the writes up to this number have been made.
    #[must_use]
    pub fn is_done(&self, number: u64) -> bool {
        self.writes.iter().all(|write| write.number > number)
    }

    /// The number of the oldest write that has not been made.
    #[must_use]
    pub fn oldest(&self) -> Option<u64> {
        self.writes.front().map(|write| write.number)
    }

    /// Whether some write has not begun.
    #[must_use]
    pub fn waits(&self) -> bool {
        self.writes.iter().any(|write| !write.begun)
    }

    /// Bytes that wait or are under way.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether a write that has not been made touches these bytes.
    #[must_use]
    pub fn touches(&self, offset: u64, len: usize) -> bool {
        let range = offset..offset + len as u64;
        self.writes.iter().any(|write| write.overlaps(&range))
    }

    /// Puts what was accepted over bytes of the medium.
    pub fn cover(&self, offset: u64, buf: &mut [u8]) {
        let end = offset + buf.len() as u64;
        for write in self.writes.iter().filter(|write| write.overlaps(&(offset..end))) {
            let (from, to) = (write.offset.max(offset), write.range().end.min(end));
            let data = &write.data[(from - write.offset) as usize..(to - write.offset) as usize];
            buf[(from - offset) as usize..(to - offset) as usize].copy_from_slice(data);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pumice_flash::Random;

    #[test]
    fn writes_that_continue_or_replace_a_waiting_one_are_joined_to_it() {
        let mut outbox = Outbox::default();
        outbox.accept(4096, &[1; 4096]);
        outbox.accept(65_536, &[9; 4096]);
        outbox.accept(8192, &[2; 4096]);
        outbox.accept(65_536, &[8; 8192]);
        assert_eq!((outbox.accepted(), outbox.bytes()), (4, 16_384));
        let data = outbox.begin().unwrap();
        assert_eq!((data.offset(), data.bytes().len()), (4096, 8192));
        // It has begun: what replaces it waits.
        outbox.accept(8192, &[3; 4096]);
        let tags = outbox.begin().unwrap();
        assert_eq!((tags.offset(), tags.bytes()), (65_536, &[8; 8192][..]));
        assert!(outbox.begin().is_none());
        outbox.end(tags);
        assert!(!outbox.is_done(1) && !outbox.is_done(4));
        outbox.end(data);
        assert!(outbox.is_done(4) && !outbox.is_done(5));
        let last = outbox.begin().unwrap();
        assert_eq!(last.bytes(), [3; 4096]);
        outbox.end(last);
        assert!(outbox.is_done(5) && outbox.bytes() == 0);
    }

    /// Whatever overtakes what: the medium ends up as if all writes were made in order, and reads
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
                outbox.accept(from as u64, &model[from..end]);
                for _ in 0..random.below(4) {
                    if random.below(2) == 0 {
                        under_way.extend(outbox.begin());
                    } else if !under_way.is_empty() {
                        let job: Job = under_way.swap_remove(random.below(under_way.len() as u64) as usize);
                        let at = job.offset() as usize;
                        medium[at..at + job.bytes().len()].copy_from_slice(job.bytes());
                        outbox.end(job);
                    }
                }
                let mut seen = medium.clone();
                outbox.cover(0, &mut seen);
                assert!(seen == model, "seed {seed}, write {number}");
            }
            while let Some(job) = under_way.pop().or_else(|| outbox.begin()) {
                let at = job.offset() as usize;
                medium[at..at + job.bytes().len()].copy_from_slice(job.bytes());
                outbox.end(job);
            }
            assert!(medium == model && outbox.is_done(outbox.accepted()), "seed {seed}");
        }
    }
}
