//! A node's records of md superblocks that hosts write to its drives: `docs/design/offload.md`,
//! *Superblocks*.
//!
//! A superblock that says "clean" is written when no write is under way and parity is whole. A
//! scrub that later finds the array active can rely on it as long as the association that wrote it
//! exists, because then its host has not crashed since.

use pumice_base::units::SECTOR;
use pumice_raid::Metadata;
use pumice_raid::superblock::{Resync, Superblock};
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Bytes of a superblock, at most.
const BYTES: u64 = 4096;

/// Contents of a superblock that a host wrote.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Written {
    /// The array's UUID.
    pub array: [u8; 16],
    /// Its event count.
    pub events: u64,
    /// Parity is whole and no write under way.
    pub clean: bool,
}

impl Written {
    /// Reads a superblock of one format out of the bytes of a write; `None` where they are none.
    #[must_use]
    pub fn parse(bytes: &[u8], metadata: Metadata, device_sectors: u64) -> Option<Self> {
        let superblock = Superblock::parse(bytes, metadata, device_sectors).ok()?;
        Some(Self {
            array: superblock.array_uuid.0,
            events: superblock.events,
            clean: superblock.resync == Resync::Done,
        })
    }
}

/// The memory of one drive. `A` tells associations apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Memory<A> {
    last: Option<Last<A>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Last<A> {
    writer: A,
    array: [u8; 16],
    /// Event count of the clean superblock, if nothing but the change to active came after it.
    clean: Option<u64>,
}

impl<A> Default for Memory<A> {
    fn default() -> Self {
        Self { last: None }
    }
}

impl<A: Copy + PartialEq> Memory<A> {
    /// An association has written where a superblock stands: a good one, or something else.
    pub fn wrote(&mut self, writer: A, what: Option<Written>) {
        let Some(written) = what else {
            self.last = None;
            return;
        };
        let before = self.last.as_ref().filter(|last| last.writer == writer && last.array == written.array);
        let clean = match before.and_then(|last| last.clean) {
            _ if written.clean => Some(written.events),
            // The change to active raises the count by one. More is another change of state, which
            // may be the start of an array that was cut off.
            Some(clean) if written.events <= clean + 1 => Some(clean),
            _ => None,
        };
        self.last = Some(Last { writer, array: written.array, clean });
    }

    /// Associations have ended: nothing that they wrote is known to be clean any more, and whoever
    /// comes under the same number is another one.
    pub fn sweep(&mut self, stands: impl Fn(A) -> bool) {
        if let Some(last) = self.last.as_mut().filter(|last| last.clean.is_some() && !stands(last.writer)) {
            last.clean = None;
        }
    }

    /// The association that wrote last, the array, and the event count of its clean superblock
    /// where there is one.
    #[must_use]
    pub fn last(&self) -> Option<(A, [u8; 16], Option<u64>)> {
        self.last.as_ref().map(|last| (last.writer, last.array, last.clean))
    }
}

/// The superblocks of one drive, in each place where one may stand. Associations are told apart by
/// their controllers.
#[derive(Debug)]
pub(crate) struct Superblocks {
    size: u64,
    /// Its memory, and the byte at which it begins.
    places: Vec<(Metadata, u64, Mutex<Memory<u16>>)>,
}

impl Superblocks {
    /// Of a drive of so many bytes.
    pub(crate) fn new(size: u64) -> Self {
        let place = |format: Metadata| Some((format, format.super_offset(size)?, Mutex::default()));
        Self { size, places: Metadata::ALL.into_iter().filter_map(place).collect() }
    }

    /// A controller writes `data` from `offset` on. To be told before the medium is changed.
    pub(crate) fn written(&self, writer: u16, offset: u64, data: &[u8]) {
        let end = offset + data.len() as u64;
        for (format, start, memory) in self.touched(&(offset..end)) {
            let bytes = start.checked_sub(offset).and_then(|skip| data.get(usize::try_from(skip).ok()?..));
            let bytes = bytes.map(|bytes| &bytes[..bytes.len().min(BYTES as usize)]);
            let what = bytes.and_then(|bytes| Written::parse(bytes, *format, self.size / SECTOR));
            locked(memory).wrote(writer, what);
        }
    }

    /// A controller changes a range to something that is no superblock.
    pub(crate) fn lost(&self, writer: u16, range: &Range<u64>) {
        self.touched(range).for_each(|(_, _, memory)| locked(memory).wrote(writer, None));
    }

    fn touched(&self, range: &Range<u64>) -> impl Iterator<Item = &(Metadata, u64, Mutex<Memory<u16>>)> {
        let (from, to) = (range.start, range.end);
        self.places.iter().filter(move |(_, start, _)| from < start + BYTES && *start < to)
    }

    /// Controllers have ended: their numbers may come again.
    pub(crate) fn sweep(&self, stands: impl Fn(u16) -> bool) {
        self.places.iter().for_each(|(_, _, memory)| locked(memory).sweep(&stands));
    }

    /// Returns what is remembered: the byte at which the superblock begins, the controller that
    /// wrote it last, the array, and the event count of its clean superblock where there is one.
    pub(crate) fn remembered(&self) -> Vec<(u64, u16, [u8; 16], Option<u64>)> {
        let of = |(_, start, memory): &(Metadata, u64, Mutex<Memory<u16>>)| {
            let (writer, array, clean) = locked(memory).last()?;
            Some((*start, writer, array, clean))
        };
        self.places.iter().filter_map(of).collect()
    }
}

fn locked(memory: &Mutex<Memory<u16>>) -> MutexGuard<'_, Memory<u16>> {
    memory.lock().unwrap_or_else(PoisonError::into_inner)
}

/// For tests: what is written to the first of four drives of `size` bytes when array 07…07 is made.
#[cfg(test)]
pub(crate) fn written_by_format(metadata: Metadata, size: u64) -> Vec<(u64, Vec<u8>)> {
    use pumice_raid::layout::{Layout, Level};
    use pumice_raid::{FormatSpec, Uuid};
    let spec = FormatSpec {
        metadata,
        level: Level::Raid6,
        layout: Some(Layout::LeftSymmetric),
        chunk_bytes: 65536,
        component_bytes: None,
        device_bytes: vec![size; 4],
        array_uuid: Uuid([7; 16]),
        device_uuids: (1..5).map(|i| Uuid([i; 16])).collect(),
        name: "test:array".to_owned(),
        ctime: 1_700_000_000,
        bitmap: true,
        bad_block_log: metadata != Metadata::V0_90,
        data_offset: None,
    };
    spec.format().unwrap().members.swap_remove(0).writes
}

#[cfg(test)]
mod tests {
    use super::*;

    const ARRAY: [u8; 16] = [7; 16];

    fn written(events: u64, clean: bool) -> Option<Written> {
        Some(Written { array: ARRAY, events, clean })
    }

    #[test]
    fn a_clean_superblock_is_remembered_while_its_writer_only_becomes_active() {
        let mut memory = Memory::default();
        assert_eq!(memory.last(), None);
        memory.wrote(1, written(10, false));
        assert_eq!(memory.last(), Some((1, ARRAY, None)), "active from the first: not known whole");
        memory.wrote(1, written(11, true));
        memory.wrote(1, written(12, false));
        assert_eq!(memory.last(), Some((1, ARRAY, Some(11))));
        memory.wrote(1, written(13, false));
        assert_eq!(memory.last(), Some((1, ARRAY, None)), "something else has changed");
        memory.wrote(1, written(12, true));
        assert_eq!(memory.last(), Some((1, ARRAY, Some(12))), "the count may fall by one");
    }

    #[test]
    fn superblocks_are_seen_where_they_stand_and_nowhere_else() {
        for metadata in Metadata::ALL {
            let size = 8 << 20;
            let drive = Superblocks::new(size);
            for (offset, bytes) in written_by_format(metadata, size) {
                drive.written(7, offset, &bytes);
            }
            let seen = drive.remembered();
            assert_eq!(seen.len(), 1, "{metadata}");
            let place = metadata.super_offset(size).unwrap();
            let (offset, writer, array, clean) = seen[0];
            assert_eq!((offset, writer, array, clean.is_some()), (place, 7, ARRAY, true), "{metadata}");
            drive.written(8, place + 8192 * u64::from(place < size / 2), &[1; 512]);
            assert_eq!(drive.remembered().len(), usize::from(place < size / 2), "{metadata}");
            drive.lost(8, &(place + 100..place + 101));
            assert_eq!(drive.remembered(), [], "{metadata}");
        }
    }

    #[test]
    fn a_number_that_comes_again_does_not_inherit_a_clean_superblock() {
        let mut memory = Memory::default();
        memory.wrote(1, written(10, true));
        memory.sweep(|writer| writer == 1);
        assert_eq!(memory.last(), Some((1, ARRAY, Some(10))), "it stands");
        memory.sweep(|_| false);
        memory.wrote(1, written(11, false));
        assert_eq!(memory.last(), Some((1, ARRAY, None)));
    }

    #[test]
    fn what_another_wrote_counts_no_more() {
        let mut memory = Memory::default();
        memory.wrote(1, written(10, true));
        memory.wrote(2, written(11, false));
        assert_eq!(memory.last(), Some((2, ARRAY, None)));
        memory.wrote(1, written(12, false));
        assert_eq!(memory.last(), Some((1, ARRAY, None)));
        memory.wrote(1, written(12, true));
        memory.wrote(1, Some(Written { array: [8; 16], events: 13, clean: false }));
        assert_eq!(memory.last(), Some((1, [8; 16], None)), "another array");
        memory.wrote(1, written(14, true));
        memory.wrote(1, None);
        assert_eq!(memory.last(), None, "it was overwritten");
    }
}
