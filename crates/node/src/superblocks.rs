//! What a node remembers of md superblocks that hosts write to its drives: `docs/offload.md`, *Superblocks*.
//!
//! A superblock that says "clean" is written when no write is under way and parity is whole. Whoever finds the array active later can
//! rely on that for as long as the association that wrote it stands: its host has not crashed since.

use pumice_raid::Metadata;
use pumice_raid::superblock::{Resync, Superblock};

/// What was read in a superblock that a host wrote.
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
            // The change to active raises the count by one. More is another change of state, which may be the start of an array that was cut off.
            Some(clean) if written.events <= clean + 1 => Some(clean),
            _ => None,
        };
        self.last = Some(Last { writer, array: written.array, clean });
    }

    /// The association that wrote last, the array, and the event count of its clean superblock where there is one.
    #[must_use]
    pub fn last(&self) -> Option<(A, [u8; 16], Option<u64>)> {
        self.last.as_ref().map(|last| (last.writer, last.array, last.clean))
    }
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
