//! A bounded log in a region of a medium.

use crate::Medium;
use std::collections::{BTreeMap, VecDeque};
use std::io;
use thiserror::Error;

const MAGIC: [u8; 4] = *b"PRNG";
const HEADER: usize = 48;
const MARKER: u32 = 1;

/// Bytes that are read at once when a log is opened.
const READ_AHEAD: usize = 256 << 10;

/// The reasons why a log cannot be used.
#[derive(Debug, Error)]
pub enum RingError {
    /// The medium failed.
    #[error(transparent)]
    Medium(#[from] io::Error),
    /// An invalid region or alignment.
    #[error("a log of {size} bytes with an alignment of {align}: {why}")]
    Shape {
        /// Bytes of the region.
        size: u64,
        /// The alignment in bytes.
        align: u32,
        /// What is wrong.
        why: &'static str,
    },
    /// A record that was durable is missing.
    #[error("the log is damaged: record {0} was durable and cannot be read")]
    Damaged(u64),
    /// No room until older records are released.
    #[error("the log has no room for {0} bytes more until older records are released")]
    Full(usize),
}

/// A record of a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Its number; ascending, with gaps.
    pub sequence: u64,
    /// The caller's bytes.
    pub body: Vec<u8>,
}

/// A record as it lies in the region.
#[derive(Debug, Clone, Copy)]
struct Placed {
    sequence: u64,
    at: u64,
    /// Bytes to the next record.
    len: u64,
}

/// A header with what follows it.
struct Found {
    placed: Placed,
    previous: u64,
    oldest: u64,
    synced: u64,
    kind: u32,
    body: Vec<u8>,
}

/// Bytes of the region that were read in one piece, from `at` on.
#[derive(Default)]
struct Ahead {
    at: u64,
    bytes: Vec<u8>,
    /// Up to here it is read in small pieces: a large one failed.
    small_until: u64,
}

impl Ahead {
    fn slice(&self, begin: u64, end: u64) -> Option<&[u8]> {
        let from = usize::try_from(begin.checked_sub(self.at)?).ok()?;
        self.bytes.get(from..from + (end - begin) as usize)
    }
}

/// A log in a region of fixed size.
pub struct Ring<M> {
    medium: M,
    /// Where the region begins on the medium.
    start: u64,
    size: u64,
    align: u64,
    identity: u64,
    /// Records that count, oldest first, markers included.
    live: VecDeque<Placed>,
    next_sequence: u64,
    write_at: u64,
    /// Every record up to this number is durable.
    synced: u64,
}

impl<M: Medium> Ring<M> {
    /// Opens the log in `size` bytes from `start` of a medium, and reads its records, oldest first.
    /// A region in which no record of this identity lies is an empty log.
    ///
    /// # Errors
    /// If `align` is less than 48 or no power of two, `size` is not at least two of it or no
    /// multiple, the medium fails, or a durable record is gone.
    pub fn open(
        medium: M,
        start: u64,
        size: u64,
        align: u32,
        identity: u64,
    ) -> Result<(Self, Vec<Entry>), RingError> {
        let shape = |why| RingError::Shape { size, align, why };
        if !align.is_power_of_two() || (align as usize) < HEADER {
            return Err(shape("the alignment must be a power of two, at least 64"));
        }
        let align = u64::from(align);
        if !size.is_multiple_of(align) || size / align < 2 {
            return Err(shape("the size must be a multiple of the alignment, at least twice as large"));
        }
        let mut ring = Self {
            medium,
            start,
            size,
            align,
            identity,
            live: VecDeque::new(),
            next_sequence: 1,
            write_at: 0,
            synced: 0,
        };
        // What is read is durable from here on, even if a process and not the power went.
        ring.medium.sync()?;
        let found = ring.scan()?;
        let entries = ring.adopt(found)?;
        Ok((ring, entries))
    }

    /// Appends a record and returns its number. It is durable after the next [`sync`](Self::sync).
    ///
    /// # Errors
    /// [`RingError::Full`] if there is no room, or the medium fails; then it is not there.
    pub fn append(&mut self, body: &[u8]) -> Result<u64, RingError> {
        self.write(0, body, self.live.front().map(|oldest| oldest.sequence))
    }

    /// Appends records in their order, as many as there is room for, and returns the numbers of
    /// these. Records that lie side by side are written at once; all are durable after the next
    /// [`sync`](Self::sync), and before it any of them may be.
    ///
    /// # Errors
    /// If the medium fails; then none of them is there.
    pub fn append_all<B: AsRef<[u8]>>(
        &mut self,
        bodies: impl IntoIterator<Item = B>,
    ) -> Result<Vec<u64>, RingError> {
        let (live, write_at) = (self.live.len(), self.write_at);
        let appended = self.append_side_by_side(bodies);
        if appended.is_err() {
            self.live.truncate(live);
            self.write_at = write_at;
        }
        appended
    }

    fn append_side_by_side<B: AsRef<[u8]>>(
        &mut self,
        bodies: impl IntoIterator<Item = B>,
    ) -> Result<Vec<u64>, RingError> {
        let (mut numbers, mut run, mut run_at) = (Vec::new(), Vec::new(), self.write_at);
        for body in bodies {
            let oldest = self.live.front().map(|oldest| oldest.sequence);
            let (placed, record) = match self.place(0, body.as_ref(), oldest) {
                Ok(placed) => placed,
                Err(RingError::Full(_)) => break,
                Err(error) => return Err(error),
            };
            if placed.at != run_at + run.len() as u64 {
                self.medium.write_at(self.start + run_at, &run)?;
                run.clear();
                run_at = placed.at;
            }
            run.extend_from_slice(&record);
            numbers.push(placed.sequence);
            self.take(placed);
        }
        if !run.is_empty() {
            self.medium.write_at(self.start + run_at, &run)?;
        }
        Ok(numbers)
    }

    /// Makes every record that was appended durable.
    ///
    /// # Errors
    /// If the medium fails.
    pub fn sync(&mut self) -> Result<(), RingError> {
        self.medium.sync()?;
        self.synced = self.live.back().map_or(self.synced, |last| last.sequence);
        Ok(())
    }

    /// Releases every record up to and including number `upto`; that, and every record appended
    /// before, is durable when it returns.
    ///
    /// # Errors
    /// If the medium fails.
    pub fn release(&mut self, upto: u64) -> Result<(), RingError> {
        if self.live.front().is_none_or(|oldest| oldest.sequence > upto) {
            // A marker that frees nothing would use up the room for the next one.
            return self.sync();
        }
        let oldest = self.live.iter().find(|placed| placed.sequence > upto).map(|p| p.sequence);
        self.write(MARKER, &[], Some(oldest.unwrap_or(self.next_sequence)))?;
        self.sync()?;
        // Only now may their space be used.
        while self.live.front().is_some_and(|placed| placed.sequence <= upto) {
            self.live.pop_front();
        }
        Ok(())
    }

    /// The longest body that [`append`](Self::append) takes now, in bytes; 0 also if none does.
    #[must_use]
    pub fn room(&self) -> usize {
        let longest = |free: u64| (free.saturating_sub(self.align)) as usize;
        let (here, there) = self.free();
        longest(here + if there == 0 { 0 } else { self.align }).max(longest(there)).saturating_sub(HEADER)
    }

    /// Free bytes from where the next record goes to the end of the region or the oldest record,
    /// and from the start of the region to the oldest record if the former is the end.
    fn free(&self) -> (u64, u64) {
        match self.live.front() {
            None => (self.size - self.write_at, self.write_at),
            Some(oldest) if self.write_at > oldest.at => (self.size - self.write_at, oldest.at),
            Some(oldest) => (oldest.at - self.write_at, 0),
        }
    }

    fn write(&mut self, kind: u32, body: &[u8], oldest: Option<u64>) -> Result<u64, RingError> {
        let (placed, record) = self.place(kind, body, oldest)?;
        self.medium.write_at(self.start + placed.at, &record)?;
        self.take(placed);
        Ok(placed.sequence)
    }

    /// The place and the bytes of the next record.
    fn place(&mut self, kind: u32, body: &[u8], oldest: Option<u64>) -> Result<(Placed, Vec<u8>), RingError> {
        let need = (HEADER as u64 + body.len() as u64).next_multiple_of(self.align);
        // A record leaves room for a marker, or nothing could ever be released.
        let spare = if kind == MARKER { 0 } else { self.align };
        let (here, there) = self.free();
        let at = if need + spare <= here || (need <= here && there >= spare && there > 0) {
            self.write_at
        } else if need + spare <= there {
            0
        } else {
            return Err(RingError::Full(body.len()));
        };
        let sequence = self.next_sequence;
        let mut record = Vec::with_capacity(need as usize);
        record.extend_from_slice(&MAGIC);
        record.extend_from_slice(&[0; 4]);
        record.extend_from_slice(&sequence.to_le_bytes());
        record.extend_from_slice(&self.live.back().map_or(0, |last| last.sequence).to_le_bytes());
        record.extend_from_slice(&oldest.unwrap_or(sequence).to_le_bytes());
        record.extend_from_slice(&self.synced.to_le_bytes());
        record.extend_from_slice(&(body.len() as u32).to_le_bytes());
        record.extend_from_slice(&kind.to_le_bytes());
        record.extend_from_slice(body);
        let crc = self.checksum(at, &record);
        record[4..8].copy_from_slice(&crc.to_le_bytes());
        record.resize(need as usize, 0);
        // A number is used once, even if the write fails: some of it may be there.
        self.next_sequence += 1;
        Ok((Placed { sequence, at, len: need }, record))
    }

    /// Counts a record as the last.
    fn take(&mut self, placed: Placed) {
        self.write_at = placed.at + placed.len;
        if self.write_at == self.size {
            self.write_at = 0;
        }
        self.live.push_back(placed);
    }

    fn checksum(&self, at: u64, record: &[u8]) -> u32 {
        let crc = crc32c::crc32c(&self.identity.to_le_bytes());
        let crc = crc32c::crc32c_append(crc, &at.to_le_bytes());
        crc32c::crc32c_append(crc, &record[8..])
    }

    /// Every whole record in the region.
    fn scan(&self) -> Result<BTreeMap<u64, Found>, RingError> {
        let mut found = BTreeMap::new();
        let mut ahead = Ahead::default();
        let mut at = 0;
        while at < self.size {
            let record = self.record_at(at, &mut ahead)?;
            at += record.as_ref().map_or(self.align, |record| record.placed.len);
            found.extend(record.map(|record| (record.placed.sequence, record)));
        }
        Ok(found)
    }

    /// Reads from the region.
    fn read(&self, at: u64, into: &mut [u8], ahead: &mut Ahead) -> io::Result<()> {
        let end = at + into.len() as u64;
        if ahead.slice(at, end).is_none() && into.len() < READ_AHEAD && at >= ahead.small_until {
            ahead.bytes.resize((self.size - at).min(READ_AHEAD as u64) as usize, 0);
            ahead.at = at;
            if self.medium.read_at(self.start + at, &mut ahead.bytes).is_err() {
                // Somewhere in it. The bytes that are needed may be good.
                ahead.small_until = at + ahead.bytes.len() as u64;
                ahead.bytes.clear();
            }
        }
        match ahead.slice(at, end) {
            Some(bytes) => into.copy_from_slice(bytes),
            None => self.medium.read_at(self.start + at, into)?,
        }
        Ok(())
    }

    fn record_at(&self, at: u64, ahead: &mut Ahead) -> Result<Option<Found>, RingError> {
        let mut header = [0; HEADER];
        self.read(at, &mut header, ahead)?;
        let dword = |at: usize| u32::from_le_bytes(std::array::from_fn(|i| header[at + i]));
        let qword = |at: usize| u64::from_le_bytes(std::array::from_fn(|i| header[at + i]));
        let end = HEADER as u64 + u64::from(dword(40));
        if header[..4] != MAGIC || at + end > self.size || qword(8) == 0 || dword(44) > MARKER {
            return Ok(None);
        }
        let mut record = vec![0; end as usize];
        self.read(at, &mut record, ahead)?;
        if dword(4) != self.checksum(at, &record) {
            return Ok(None);
        }
        Ok(Some(Found {
            placed: Placed { sequence: qword(8), at, len: end.next_multiple_of(self.align) },
            previous: qword(16),
            oldest: qword(24),
            synced: qword(32),
            kind: dword(44),
            body: record.split_off(HEADER),
        }))
    }

    /// Takes the newest chain of records without a gap.
    fn adopt(&mut self, mut found: BTreeMap<u64, Found>) -> Result<Vec<Entry>, RingError> {
        let durable = found.values().map(|record| record.synced).max().unwrap_or(0);
        self.next_sequence = found.keys().next_back().map_or(1, |last| last + 1);
        let tips: Vec<u64> = found.keys().rev().copied().collect();
        for tip in tips {
            match chain(&found, tip) {
                Ok(sequences) => {
                    self.synced = tip;
                    let last = found[&tip].placed;
                    self.write_at = (last.at + last.len) % self.size;
                    let records = sequences.into_iter().rev().filter_map(|s| found.remove(&s));
                    let mut entries = Vec::new();
                    for record in records {
                        self.live.push_back(record.placed);
                        if record.kind != MARKER {
                            entries.push(Entry { sequence: record.placed.sequence, body: record.body });
                        }
                    }
                    return Ok(entries);
                }
                Err(missing) if missing <= durable => return Err(RingError::Damaged(missing)),
                Err(_) => {}
            }
            // It came after one that was never durable: it was not either.
            found.remove(&tip);
        }
        Ok(Vec::new())
    }
}

/// The numbers from `tip` back to the oldest that counts, or the one that is missing on the way.
fn chain(found: &BTreeMap<u64, Found>, tip: u64) -> Result<Vec<u64>, u64> {
    let oldest = found[&tip].oldest;
    let mut sequences = Vec::new();
    let mut at = tip;
    loop {
        let record = found.get(&at).ok_or(at)?;
        sequences.push(at);
        if at <= oldest {
            return Ok(sequences);
        }
        // Back to a lower number each time, so that it ends.
        at = if record.previous < at && record.previous != 0 { record.previous } else { return Err(oldest) };
    }
}

#[cfg(test)]
mod tests;
