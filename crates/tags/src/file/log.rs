//! The log of a tag file.

use super::{LOG_ALIGN, SharedMedium, TagError};
use crate::geometry::{Geometry, LOG_AT};
use crate::record::Record;
use pumice_base::buffer::AlignedBuffer;
use pumice_base::durable::{Medium, Prepared, Ring, Run};

/// The largest unit of writing that a log is kept in.
const MOST_UNIT: u32 = 4096;

/// Memory of commits that is kept for the next: a commit has one write, or two.
const KEPT: usize = 2;
/// Most bytes of each. Larger ones are seldom, and few of them fit into a log.
const MOST_KEPT: usize = 2 << 20;

/// The log of an open tag file.
pub struct Log {
    ring: Ring<SharedMedium>,
    geometry: Geometry,
    /// Memory of earlier commits.
    kept: Vec<AlignedBuffer>,
}

/// Records that were appended.
#[derive(Debug, PartialEq, Eq)]
pub struct Appended {
    /// The numbers of the first of them.
    pub numbers: Vec<u64>,
    /// True if there was no room for the rest.
    pub full: bool,
    /// True if the longest free piece of the log is less than a quarter of it.
    pub low: bool,
}

impl Log {
    pub(super) fn new(ring: Ring<SharedMedium>, geometry: Geometry) -> Self {
        Self { ring, geometry, kept: Vec::new() }
    }

    /// Appends records in their order, as many as there is room for. Durable after
    /// [`sync`](Self::sync).
    ///
    /// # Errors
    /// If the medium fails. Then nothing more may be appended.
    pub fn append(&mut self, records: &[Record]) -> Result<Appended, TagError> {
        let (appended, runs) = self.prepare(records);
        for run in &runs {
            let mut memory = self.memory(run.len);
            self.fill(run, records, &mut memory[..run.len]);
            self.ring.medium().write_at(run.at, &memory[..run.len])?;
            self.give_back(memory);
        }
        Ok(appended)
    }

    /// Memory for so many bytes at least, whatever they are.
    pub(crate) fn memory(&mut self, len: usize) -> AlignedBuffer {
        let fits = self.kept.iter().position(|memory| memory.len() >= len);
        fits.map_or_else(|| AlignedBuffer::new(len), |at| self.kept.swap_remove(at))
    }

    /// Takes memory back for a later commit.
    pub(crate) fn give_back(&mut self, memory: AlignedBuffer) {
        if memory.len() > MOST_KEPT {
            return;
        }
        if self.kept.len() == KEPT {
            let smallest = (0..KEPT).min_by_key(|at| self.kept[*at].len()).unwrap_or(0);
            self.kept.swap_remove(smallest);
        }
        self.kept.push(memory);
    }

    /// Makes what was appended durable.
    ///
    /// # Errors
    /// If the medium fails.
    pub fn sync(&mut self) -> Result<(), TagError> {
        Ok(self.ring.sync()?)
    }

    /// Gives places to records in their order, as many as there is room for. The caller
    /// [fills](Self::fill) and writes the runs, makes them durable, and calls
    /// [`synced`](Self::synced).
    pub fn prepare(&mut self, records: &[Record]) -> (Appended, Vec<Run>) {
        let lens = records.iter().map(|record| record.encoded_bytes(&self.geometry));
        let Prepared { numbers, runs } = self.ring.prepare(lens);
        (self.appended(numbers, records.len()), runs)
    }

    fn appended(&self, numbers: Vec<u64>, of: usize) -> Appended {
        let full = numbers.len() < of;
        Appended { numbers, full, low: (self.ring.room() as u64) < self.geometry.log_bytes() / 4 }
    }

    /// Fills the bytes of a run of records, whatever they are before.
    ///
    /// # Panics
    /// If `into` has not as many bytes as the run.
    pub fn fill(&self, run: &Run, records: &[Record], into: &mut [u8]) {
        self.ring.fill(run, into, |at, body| records[at].encode_into(&self.geometry, body));
    }

    /// All that was prepared is durable.
    pub fn synced(&mut self) {
        self.ring.synced();
    }

    /// Has every write be of whole units of so many bytes, if the log consists of such units.
    /// Returns whether it does.
    pub fn set_unit(&mut self, unit: u32) -> bool {
        let fits = (LOG_AT + self.geometry.log_bytes()).is_multiple_of(unit.into())
            && LOG_AT.is_multiple_of(unit.into())
            && (LOG_ALIGN..=MOST_UNIT).contains(&unit);
        if fits {
            self.ring.set_unit(unit);
        }
        fits
    }

    /// Writes the end marker, durably. Returns false if a record counts.
    pub(super) fn end(&mut self, note: &[u8]) -> Result<bool, TagError> {
        Ok(self.ring.end(note)?)
    }

    /// Releases every record up to a number. Returns false if that frees nothing, and the records
    /// still count.
    ///
    /// # Errors
    /// If the medium fails.
    pub fn release(&mut self, upto: u64) -> Result<bool, TagError> {
        Ok(self.ring.release(upto)?)
    }
}
