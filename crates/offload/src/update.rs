//! Commands for a writer of parity: `docs/design/offload.md`, *Updates*.

use crate::{DriveId, Grant, MemoryAddress, NodeError};

/// Most sources of an update.
pub const MAX_UPDATE_SOURCES: usize = 64;
/// Most sums of an update.
pub const MAX_UPDATE_SUMS: usize = 8;
/// Most bytes of each source and sum of an update.
pub const MAX_UPDATE_BYTES: u32 = 64 << 10;
/// Most bytes of each source and of the sum of a stretch, and of a store.
pub const MAX_STRETCH_BYTES: u32 = 4 << 20;
/// Most classes of a stretch.
pub const MAX_STRETCH_CLASSES: usize = 4096;
/// Most paths of an association.
pub const MAX_PATHS: usize = 64;

/// Names a path of this association.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PathId(pub u16);

/// A range of a peer's local memory to which sums can be sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PeerRange {
    /// The peer's name.
    pub peer: String,
    /// First byte there, as [`absolute`](crate::DriveMemory::absolute) of the peer says.
    pub to: MemoryAddress,
    /// Bytes.
    pub len: u64,
    /// The grant that allows this node to write there.
    pub grant: Grant,
}

/// A summand of an update's sums.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UpdateSource {
    /// Of a drive's medium.
    Media {
        /// The drive.
        drive: DriveId,
        /// First byte.
        offset: u64,
    },
    /// Of local memory, by absolute address.
    Memory {
        /// First byte.
        address: MemoryAddress,
        /// The sum under the secret that the bytes must have.
        sum: Option<u32>,
    },
}

/// The destination of a sum.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SumTo {
    /// To the update's slot.
    Slot,
    /// To a peer.
    Peer {
        /// The path.
        path: PathId,
        /// First byte in its range.
        offset: u64,
    },
}

/// One sum of an update.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UpdateSum {
    /// Its destination.
    pub to: SumTo,
    /// A coefficient for each source; of a stretch, for each source of each class.
    pub factors: Vec<u8>,
}

/// The record of a stripe log that an update writes: `docs/reference/on-disk/stripe-log.md`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UpdateRecord {
    /// Its place on the medium of the update's drive.
    pub at: u64,
    /// The same from the start of the log's records, a multiple of 4096.
    pub position: u64,
    /// Of the log's generation.
    pub nonce: u64,
    /// The generation.
    pub generation: u64,
    /// The write.
    pub sequence: u64,
    /// The records of every write up to this number are durable; at most `sequence`.
    pub committed: u64,
    /// The blocks of every record up to this number are in place and flushed; at most `sequence`.
    pub released: u64,
    /// The window.
    pub window: u64,
    /// The member's role.
    pub role: u16,
    /// The rows, lowest bit first.
    pub rows: u16,
    /// The members of the write, ascending.
    pub members: Vec<u16>,
    /// It holds the blocks of the slot, a row for each 4096 bytes.
    pub blocks: bool,
}

/// A step of a write of parity on one drive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Update {
    /// The drive.
    pub drive: DriveId,
    /// First byte of its slot, by absolute address in the drive's local memory.
    pub slot: u64,
    /// Bytes of the slot, of each source and sum: a multiple of 512.
    pub len: u32,
    /// Of a stretch: bytes from one set of coefficients to the next. Segment `i` has those of class
    /// `i` modulo their number. There is one sum, no data and no record; memory sources are added
    /// as they are.
    pub segment: Option<u32>,
    /// True if it carries data, which goes to the slot first.
    pub fills: bool,
    /// Secret of the checksums of interims: drawn by the host, so that no user of its volume can
    /// make two interims of one checksum.
    pub secret: u64,
    /// The sources of the sums.
    pub sources: Vec<UpdateSource>,
    /// The sums.
    pub sums: Vec<UpdateSum>,
    /// The record that is written last.
    pub record: Option<UpdateRecord>,
}

impl Update {
    /// Returns whether it sends interims or checks their sums.
    #[must_use]
    pub fn has_interims(&self) -> bool {
        self.sources.iter().any(|source| matches!(source, UpdateSource::Memory { sum: Some(_), .. }))
            || self.sums.iter().any(|sum| matches!(sum.to, SumTo::Peer { .. }))
    }

    /// Checks what can be checked without the node.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidField`](crate::ErrorKind::InvalidField) names the field.
    pub fn validate(&self) -> Result<(), NodeError> {
        let fail = |field, what: String| Err(NodeError::invalid(field, what));
        let most = if self.segment.is_some() { MAX_STRETCH_BYTES } else { MAX_UPDATE_BYTES };
        if self.len == 0 || self.len > most || !self.len.is_multiple_of(512) {
            return fail("len", format!("{}, not a multiple of 512 up to {most}", self.len));
        }
        if self.sources.len() > MAX_UPDATE_SOURCES {
            return fail("sources", format!("{}, more than {MAX_UPDATE_SOURCES}", self.sources.len()));
        }
        if self.sums.len() > MAX_UPDATE_SUMS {
            return fail("sums", format!("{}, more than {MAX_UPDATE_SUMS}", self.sums.len()));
        }
        if let Some(segment) = self.segment {
            return self.validate_stretch(segment);
        }
        if self.sums.is_empty() != self.sources.is_empty() {
            return fail("sums", "sources without sums, or sums without sources".to_owned());
        }
        if self.sums.iter().any(|sum| sum.factors.len() != self.sources.len()) {
            return fail("sums", "not a coefficient for each source".to_owned());
        }
        if self.sums.iter().filter(|sum| sum.to == SumTo::Slot).count() > 1 {
            return fail("sums", "two of them go to the slot".to_owned());
        }
        let Some(record) = &self.record else { return Ok(()) };
        if record.blocks && u64::from(record.rows.count_ones()) * 4096 != u64::from(self.len) {
            let rows = record.rows.count_ones();
            return fail("rows", format!("{rows}, and the slot has {} bytes", self.len));
        }
        if record.committed > record.sequence || record.released > record.sequence {
            return fail("sequence", "it is below what was committed or released before".to_owned());
        }
        if !record.position.is_multiple_of(4096) {
            return fail("position", format!("{}, not a multiple of 4096", record.position));
        }
        Ok(())
    }

    /// Returns whether it reads or writes the slot. A stretch whose sum goes to a peer does not.
    #[must_use]
    pub fn uses_slot(&self) -> bool {
        self.segment.is_none() || self.sums.iter().any(|sum| sum.to == SumTo::Slot)
    }

    fn validate_stretch(&self, segment: u32) -> Result<(), NodeError> {
        let fail = |field, what: String| Err(NodeError::invalid(field, what));
        if segment == 0 || !segment.is_multiple_of(512) || !self.len.is_multiple_of(segment) {
            return fail("segment", format!("{segment} of {} bytes", self.len));
        }
        if self.fills || self.record.is_some() {
            return fail("flags", "a stretch has neither data nor a record".to_owned());
        }
        let ([sum], false) = (&self.sums[..], self.sources.is_empty()) else {
            return fail("sums", format!("a stretch has one, not {}", self.sums.len()));
        };
        let (factors, sources) = (sum.factors.len(), self.sources.len());
        let classes = factors / sources;
        if !factors.is_multiple_of(sources) || !(1..=MAX_STRETCH_CLASSES).contains(&classes) {
            return fail("sums", format!("{factors} coefficients for {sources} sources"));
        }
        let of_memory = |i: &usize| matches!(self.sources[i % sources], UpdateSource::Memory { .. });
        if (0..factors).filter(of_memory).any(|i| sum.factors[i] != 1) {
            return fail("sums", "memory of a stretch is added as it is".to_owned());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorKind;

    pub(crate) fn update() -> Update {
        Update {
            drive: DriveId(2),
            slot: 65536,
            len: 8192,
            segment: None,
            fills: true,
            secret: 0,
            sources: vec![UpdateSource::Media { drive: DriveId(2), offset: 1 << 40 }],
            sums: vec![UpdateSum { to: SumTo::Slot, factors: vec![3] }],
            record: Some(UpdateRecord {
                at: 4096 * 300,
                position: 8192,
                nonce: 7,
                generation: 3,
                sequence: 44,
                committed: 40,
                released: 33,
                window: 9,
                role: 1,
                rows: 0b110,
                members: vec![0, 1],
                blocks: true,
            }),
        }
    }

    #[test]
    fn senseless_updates_are_refused_by_field() {
        update().validate().unwrap();
        let refused = |change: fn(&mut Update)| {
            let mut update = update();
            change(&mut update);
            match update.validate().unwrap_err().kind() {
                ErrorKind::InvalidField(field) => field,
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(refused(|u| u.len = 100), "len");
        assert_eq!(refused(|u| u.len = MAX_UPDATE_BYTES + 512), "len");
        assert_eq!(refused(|u| u.sums.clear()), "sums");
        assert_eq!(refused(|u| u.sums[0].factors.push(1)), "sums");
        assert_eq!(refused(|u| u.sums.push(u.sums[0].clone())), "sums");
        assert_eq!(refused(|u| u.sources = vec![u.sources[0]; 65]), "sources");
        assert_eq!(refused(|u| u.record.as_mut().unwrap().rows = 1), "rows");
        assert_eq!(refused(|u| u.record.as_mut().unwrap().committed = 45), "sequence");
        assert_eq!(refused(|u| u.record.as_mut().unwrap().position = 1), "position");
    }

    #[test]
    fn senseless_stretches_are_refused_by_field() {
        let address = MemoryAddress { drive: DriveId(2), offset: 0 };
        let stretch = || {
            let sources = vec![
                UpdateSource::Media { drive: DriveId(2), offset: 0 },
                UpdateSource::Memory { address, sum: Some(1) },
            ];
            let sums = vec![UpdateSum { to: SumTo::Slot, factors: vec![3, 1, 7, 1] }];
            let plain = Update { fills: false, record: None, segment: Some(4096), ..update() };
            Update { len: MAX_STRETCH_BYTES, sources, sums, ..plain }
        };
        stretch().validate().unwrap();
        let refused = |change: fn(&mut Update)| {
            let mut stretch = stretch();
            change(&mut stretch);
            match stretch.validate().unwrap_err().kind() {
                ErrorKind::InvalidField(field) => field,
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(refused(|u| u.len += 4096), "len");
        assert_eq!(refused(|u| u.segment = Some(0)), "segment");
        assert_eq!(refused(|u| u.segment = Some(100)), "segment");
        assert_eq!(refused(|u| u.segment = Some(3 << 20)), "segment");
        assert_eq!(refused(|u| u.fills = true), "flags");
        assert_eq!(refused(|u| u.record = update().record), "flags");
        assert_eq!(refused(|u| u.sums.push(u.sums[0].clone())), "sums");
        assert_eq!(refused(|u| (u.sources, u.sums) = Default::default()), "sums");
        assert_eq!(refused(|u| u.sums[0].factors.truncate(3)), "sums");
        assert_eq!(refused(|u| u.sums[0].factors.clear()), "sums");
        assert_eq!(refused(|u| u.sums[0].factors[3] = 2), "sums");
    }
}
