//! A bounded log in a region of a medium.

mod ahead;
#[cfg(test)]
mod append;
mod end;

use self::ahead::{Ahead, READ_AHEAD};
use crate::durable::Medium;
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::ops::Range;
use thiserror::Error;

const MAGIC: [u8; 4] = *b"PRNG";
const HEADER: usize = 48;
/// Most that the number of a record can be: more than anybody can append, with room above it.
const MOST_SEQUENCE: u64 = 1 << 62;
const MARKER: u32 = 1;

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
        /// The rule that is broken.
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
    is_marker: bool,
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

/// Records that have their places, and are to be written.
#[derive(Debug)]
pub struct Prepared {
    /// The number of each, in order.
    pub numbers: Vec<u64>,
    /// The writes: one, or two where they reach the end of the region. They may be done in any
    /// order, and at the same time.
    pub runs: Vec<Run>,
}

/// Records that lie side by side and are written at once.
#[derive(Debug)]
pub struct Run {
    /// Place on the medium, in bytes.
    pub at: u64,
    /// Its bytes: whole units of writing.
    pub len: usize,
    /// Its records, counted from the first that was prepared.
    pub records: Range<usize>,
    heads: Vec<Head>,
}

/// Content of the header of a record.
#[derive(Debug)]
struct Head {
    placed: Placed,
    previous: u64,
    oldest: u64,
    synced: u64,
    kind: u32,
    body: usize,
}

/// A log in a region of fixed size.
pub struct Ring<M> {
    medium: M,
    /// Start of the region on the medium.
    start: u64,
    size: u64,
    align: u64,
    /// Writes begin and end at multiples of this.
    unit: u64,
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
        let mut ring = Self::new(medium, start, size, align, identity)?;
        // All that is read is durable from here on, even if a process and not the power went.
        ring.medium.sync()?;
        let found = ring.scan()?;
        let entries = ring.adopt(found)?;
        Ok((ring, entries))
    }

    /// A log of which nothing was read.
    fn new(medium: M, start: u64, size: u64, align: u32, identity: u64) -> Result<Self, RingError> {
        let shape = |why| RingError::Shape { size, align, why };
        if !align.is_power_of_two() || (align as usize) < HEADER {
            return Err(shape("the alignment must be a power of two, at least 64"));
        }
        let align = u64::from(align);
        if !size.is_multiple_of(align) || size / align < 2 {
            return Err(shape("the size must be a multiple of the alignment, at least twice as large"));
        }
        Ok(Self {
            medium,
            start,
            size,
            align,
            unit: align,
            identity,
            live: VecDeque::new(),
            next_sequence: 1,
            write_at: 0,
            synced: 0,
        })
    }

    /// Has writes begin and end at multiples of `unit` bytes from the start of the region, for
    /// media that write whole units. The last record of a write takes the rest of its unit.
    ///
    /// # Panics
    /// If `unit` is no power of two from the alignment on, the region holds no four of them, or it
    /// becomes larger while records count.
    pub fn set_unit(&mut self, unit: u32) {
        let unit = u64::from(unit);
        assert!(unit.is_power_of_two() && unit >= self.align, "a unit of {unit} bytes");
        assert!(self.size.is_multiple_of(unit) && self.size / unit >= 4, "units of {unit} bytes");
        // Else the rest of the unit that it ends in could be that of the oldest record.
        assert!(unit <= self.unit || self.live.iter().all(|placed| placed.is_marker), "records count");
        self.unit = unit;
        self.end_run();
    }

    /// The medium, on which the caller writes what was [prepared](Self::prepare).
    pub const fn medium(&self) -> &M {
        &self.medium
    }

    /// Gives places to records with bodies of these lengths, as many as there is room for. The
    /// caller [fills](Self::fill) and writes the runs, makes them durable, and then calls
    /// [`synced`](Self::synced); nothing else may be written before.
    pub fn prepare(&mut self, bodies: impl IntoIterator<Item = usize>) -> Prepared {
        let (mut numbers, mut runs): (Vec<u64>, Vec<Run>) = (Vec::new(), Vec::new());
        for body in bodies {
            let oldest = self.live.front().map(|oldest| oldest.sequence);
            let Some(head) = self.place(0, body, oldest) else { break };
            let placed = head.placed;
            let at = numbers.len();
            numbers.push(placed.sequence);
            match runs.last_mut().filter(|run| run.at + run.len as u64 == self.start + placed.at) {
                Some(run) => {
                    run.len += placed.len as usize;
                    run.records.end = at + 1;
                    run.heads.push(head);
                }
                None => runs.push(self.run(at, head)),
            }
            self.take(placed);
        }
        self.end_run();
        for run in &mut runs {
            run.len = run.len.next_multiple_of(self.unit as usize);
        }
        Prepared { numbers, runs }
    }

    fn run(&self, first: usize, head: Head) -> Run {
        let Placed { at, len, .. } = head.placed;
        Run { at: self.start + at, len: len as usize, records: first..first + 1, heads: vec![head] }
    }

    /// Fills the bytes of a run, whatever they are before. `body` fills the body of a record,
    /// counted from the first that was prepared; what is left between records becomes zeros.
    ///
    /// # Panics
    /// If `into` has not as many bytes as the run.
    pub fn fill(&self, run: &Run, into: &mut [u8], mut body: impl FnMut(usize, &mut [u8])) {
        assert_eq!(into.len(), run.len, "bytes of a run");
        let mut filled = 0;
        for (at, head) in run.records.clone().zip(&run.heads) {
            let begin = (self.start + head.placed.at - run.at) as usize;
            into[filled..begin].fill(0);
            filled = begin + HEADER + head.body;
            let record = &mut into[begin..filled];
            record[..4].copy_from_slice(&MAGIC);
            let fields = [head.placed.sequence, head.previous, head.oldest, head.synced];
            for (field, value) in record[8..40].chunks_exact_mut(8).zip(fields) {
                field.copy_from_slice(&value.to_le_bytes());
            }
            record[40..44].copy_from_slice(&(head.body as u32).to_le_bytes());
            record[44..48].copy_from_slice(&head.kind.to_le_bytes());
            body(at, &mut record[HEADER..]);
            let crc = self.checksum(head.placed.at, record);
            record[4..8].copy_from_slice(&crc.to_le_bytes());
        }
        into[filled..].fill(0);
    }

    /// Makes every record that was appended durable.
    ///
    /// # Errors
    /// If the medium fails.
    pub fn sync(&mut self) -> Result<(), RingError> {
        self.medium.sync()?;
        self.synced();
        Ok(())
    }

    /// Every record that was appended or prepared is durable.
    pub fn synced(&mut self) {
        self.synced = self.live.back().map_or(self.synced, |last| last.sequence);
    }

    /// Releases every record up to and including number `upto`; that, and every record appended
    /// before, is durable when it returns. Returns false, and the records still count, if they
    /// share a [unit](Self::set_unit) with the next one: that frees nothing, and would use up the
    /// room for the marker of a release that does.
    ///
    /// # Errors
    /// If the medium fails.
    pub fn release(&mut self, upto: u64) -> Result<bool, RingError> {
        let Some(first) = self.live.front().copied().filter(|first| first.sequence <= upto) else {
            // A marker that frees nothing would use up the room for the next one.
            return self.sync().map(|()| true);
        };
        // Markers before it count no more: this one says all that they say.
        let oldest = self.live.iter().find(|placed| placed.sequence > upto && !placed.is_marker).copied();
        if oldest.is_some_and(|oldest| oldest.at / self.unit == first.at / self.unit) {
            return self.sync().map(|()| false);
        }
        let oldest = oldest.map_or(self.next_sequence, |oldest| oldest.sequence);
        let marker = self.place(MARKER, 0, Some(oldest)).ok_or(RingError::Full(0))?;
        self.write_marker(marker, &[])?;
        // Only now may their space be used.
        while self.live.front().is_some_and(|placed| placed.sequence < oldest) {
            self.live.pop_front();
        }
        Ok(true)
    }

    /// The longest body that [`prepare`](Self::prepare) takes now, in bytes; 0 also if none does.
    #[must_use]
    pub fn room(&self) -> usize {
        let longest = |free: u64| (free.saturating_sub(self.unit)) as usize;
        let (here, there) = self.free();
        longest(here + if there == 0 { 0 } else { self.unit }).max(longest(there)).saturating_sub(HEADER)
    }

    /// Free bytes from where the next record goes to the end of the region or the oldest record,
    /// and from the start of the region to the oldest record if the former is the end. No write may
    /// touch the unit in which that record begins.
    fn free(&self) -> (u64, u64) {
        let until = |at: u64| at - at % self.unit;
        match self.live.front() {
            None => (self.size - self.write_at, until(self.write_at)),
            Some(oldest) if self.write_at > oldest.at => (self.size - self.write_at, until(oldest.at)),
            Some(oldest) => (until(oldest.at).saturating_sub(self.write_at), 0),
        }
    }

    /// The place of the next record; `None` if there is no room.
    fn place(&mut self, kind: u32, body: usize, oldest: Option<u64>) -> Option<Head> {
        let need = (HEADER as u64 + body as u64).next_multiple_of(self.align);
        let padded = (self.write_at + need).next_multiple_of(self.unit) - self.write_at;
        // A record leaves room for a marker, or nothing could ever be released.
        let spare = if kind == MARKER { 0 } else { self.unit };
        let (here, there) = self.free();
        let at = if padded + spare <= here || (padded <= here && there >= spare && there > 0) {
            self.write_at
        } else if need.next_multiple_of(self.unit) + spare <= there {
            0
        } else {
            return None;
        };
        let sequence = self.next_sequence;
        // A number is used once, even if the write fails: some of it may be there.
        self.next_sequence += 1;
        Some(Head {
            placed: Placed { sequence, at, len: need, is_marker: kind == MARKER },
            previous: self.live.back().map_or(0, |last| last.sequence),
            oldest: oldest.unwrap_or(sequence),
            synced: self.synced,
            kind,
            body,
        })
    }

    /// Counts a record as the last.
    fn take(&mut self, placed: Placed) {
        self.write_at = placed.at + placed.len;
        self.wrap();
        self.live.push_back(placed);
    }

    /// The next record begins with a unit.
    fn end_run(&mut self) {
        self.write_at = self.write_at.next_multiple_of(self.unit);
        self.wrap();
    }

    fn wrap(&mut self) {
        if self.write_at == self.size {
            self.write_at = 0;
        }
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
        if header[..4] != MAGIC
            || at + end > self.size
            || !(1..=MOST_SEQUENCE).contains(&qword(8))
            || dword(44) > MARKER
        {
            return Ok(None);
        }
        let mut record = vec![0; end as usize];
        self.read(at, &mut record, ahead)?;
        if dword(4) != self.checksum(at, &record) {
            return Ok(None);
        }
        Ok(Some(Found {
            placed: Placed {
                sequence: qword(8),
                at,
                len: end.next_multiple_of(self.align),
                is_marker: dword(44) == MARKER,
            },
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
