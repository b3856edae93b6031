//! Records of the log.

use crate::geometry::Geometry;
use crate::page::{Origin, Tag};
use crate::sum::Sums;
use pumice_protect::tuple::Tuple;
use std::ops::Range;
use std::sync::Arc;
use thiserror::Error;

const HEAD: usize = 24;
/// The most blocks of a record of zeros: more are several records.
pub(crate) const MAX_ZEROS: u64 = 16_384;

/// The change that a record makes to its blocks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// Each block has a tag, and a sum of 32 bits.
    Tags {
        /// The tags, one for each block.
        tags: Vec<Tag>,
        /// The metadata beside the tuples, of one block after the other; empty if they are zeros,
        /// or there are none.
        others: Vec<u8>,
        /// The sum of each block.
        sums: Sums,
        /// The blocks themselves, if the log carries them.
        data: Option<Vec<u8>>,
    },
    /// So many blocks are zeros.
    Zeros(u64),
}

impl Change {
    /// The number of blocks that it changes.
    pub(crate) fn blocks(&self) -> u64 {
        match self {
            Self::Tags { tags, .. } => tags.len() as u64,
            Self::Zeros(count) => *count,
        }
    }

    /// The metadata beside the tuple of block `at` of the change; empty if they are zeros.
    pub(crate) fn others_of(&self, geometry: &Geometry, at: usize) -> &[u8] {
        self.others_in(geometry, &(at..at + 1))
    }

    /// The same of several blocks, one after the other.
    pub(crate) fn others_in(&self, geometry: &Geometry, at: &Range<usize>) -> &[u8] {
        match self {
            Self::Tags { others, .. } if !others.is_empty() => {
                &others[at.start * geometry.other_bytes()..at.end * geometry.other_bytes()]
            }
            Self::Tags { .. } | Self::Zeros(_) => &[],
        }
    }
}

/// The tags and the other metadata with which a change writes blocks, from their metadata.
pub(crate) fn apart(geometry: &Geometry, metadata: &[u8]) -> (Vec<Tag>, Vec<u8>) {
    let format = geometry.format();
    let blocks = || metadata.chunks_exact(format.metadata_bytes());
    let tuples = blocks().map(|block| Tuple::decode(format, &block[format.tuple_range()]));
    let others = match geometry.is_tuple_only() {
        true => Vec::new(),
        false => blocks().flat_map(|block| &block[geometry.other_range()]).copied().collect(),
    };
    (tuples.map(Tag::written).collect(), others)
}

/// A change that was about to be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// The first block.
    pub first: u64,
    /// The new contents of its blocks.
    pub change: Arc<Change>,
    /// The data of every record up to this number are durable.
    pub settled: u64,
}

/// A record that no correct program has written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("a record of the tag log: {0}")]
pub struct BadRecord(&'static str);

impl Record {
    /// The blocks.
    #[must_use]
    pub fn blocks(&self) -> Range<u64> {
        self.first..self.first + self.change.blocks()
    }

    /// Bytes of the body of a log record.
    #[must_use]
    pub fn encoded_bytes(&self, geometry: &Geometry) -> usize {
        HEAD + match &*self.change {
            Change::Tags { tags, data, .. } => {
                tags.len() * (geometry.format().metadata_bytes() + 5) + data.as_ref().map_or(0, Vec::len)
            }
            Change::Zeros(_) => 0,
        }
    }

    /// The body of a log record.
    #[must_use]
    pub fn encode(&self, geometry: &Geometry) -> Vec<u8> {
        let mut bytes = vec![0; self.encoded_bytes(geometry)];
        self.encode_into(geometry, &mut bytes);
        bytes
    }

    /// Fills the [bytes](Self::encoded_bytes) of the body of a log record, whatever they are
    /// before.
    ///
    /// # Panics
    /// If there are more or fewer of them.
    pub fn encode_into(&self, geometry: &Geometry, bytes: &mut [u8]) {
        assert_eq!(bytes.len(), self.encoded_bytes(geometry), "bytes of a record");
        let carried = match &*self.change {
            Change::Tags { data, .. } => data.as_ref().map_or(0, Vec::len),
            Change::Zeros(_) => 0,
        };
        // The data fill the rest completely.
        let described = bytes.len() - carried;
        bytes[..described].fill(0);
        let (head, rest) = bytes.split_at_mut(HEAD);
        let (kind, carries) = match &*self.change {
            Change::Tags { sums: Sums::Plain(_), data, .. } => (1, data.is_some()),
            Change::Tags { sums: Sums::Keyed(_), data, .. } => (3, data.is_some()),
            Change::Zeros(_) => (2, false),
        };
        head[..2].copy_from_slice(&[kind, u8::from(carries)]);
        head[4..8].copy_from_slice(&(self.change.blocks() as u32).to_le_bytes());
        head[8..16].copy_from_slice(&self.first.to_le_bytes());
        head[16..24].copy_from_slice(&self.settled.to_le_bytes());
        let Change::Tags { tags, sums, data, .. } = &*self.change else { return };
        let format = geometry.format();
        let (metadata, rest) = rest.split_at_mut(tags.len() * format.metadata_bytes());
        Tuple::encode_all(format, tags.iter().map(|tag| &tag.tuple), metadata);
        if !geometry.is_tuple_only() {
            for (at, into) in metadata.chunks_exact_mut(format.metadata_bytes()).enumerate() {
                let others = self.change.others_of(geometry, at);
                into[geometry.other_range()][..others.len()].copy_from_slice(others);
            }
        }
        let (origins, rest) = rest.split_at_mut(tags.len());
        origins.iter_mut().zip(tags).for_each(|(origin, tag)| *origin = tag.origin as u8);
        let (into, rest) = rest.split_at_mut(tags.len() * 4);
        into.chunks_exact_mut(4)
            .zip(sums.all())
            .for_each(|(into, sum)| into.copy_from_slice(&sum.to_le_bytes()));
        rest.copy_from_slice(data.as_deref().unwrap_or_default());
    }

    /// Reads the body of a log record.
    ///
    /// # Errors
    /// If it is no record for this drive.
    pub fn decode(geometry: &Geometry, bytes: &[u8]) -> Result<Self, BadRecord> {
        let (head, rest) = bytes.split_at_checked(HEAD).ok_or(BadRecord("it is too short"))?;
        let qword = |at: usize| u64::from_le_bytes(std::array::from_fn(|i| head[at + i]));
        let count = u64::from(u32::from_le_bytes(std::array::from_fn(|i| head[4 + i])));
        let (first, settled) = (qword(8), qword(16));
        if head[1] > 1 || head[2..4] != [0; 2] {
            return Err(BadRecord("reserved bits are set"));
        }
        if count == 0 || first.checked_add(count).is_none_or(|end| end > geometry.blocks()) {
            return Err(BadRecord("some of its blocks are not on the drive"));
        }
        let change = match head[0] {
            1 => tags(geometry, count, head[1] == 1, rest, Sums::Plain)?,
            3 => tags(geometry, count, head[1] == 1, rest, Sums::Keyed)?,
            2 if count <= MAX_ZEROS && head[1] == 0 && rest.is_empty() => Change::Zeros(count),
            2 => return Err(BadRecord("a record of zeros with more than a range")),
            _ => return Err(BadRecord("its kind is not known")),
        };
        Ok(Self { first, change: Arc::new(change), settled })
    }
}

/// The tags of a record, with sums of a kind.
fn tags(
    geometry: &Geometry,
    count: u64,
    carries: bool,
    rest: &[u8],
    kind: fn(Vec<u32>) -> Sums,
) -> Result<Change, BadRecord> {
    let format = geometry.format();
    if count > geometry.max_record_blocks() {
        return Err(BadRecord("it has too many blocks"));
    }
    if carries != geometry.carries_data() {
        return Err(BadRecord("its data is present or absent against the header"));
    }
    let count = count as usize;
    let data_bytes = if carries { count * geometry.block_bytes() } else { 0 };
    if rest.len() != count * (format.metadata_bytes() + 5) + data_bytes {
        return Err(BadRecord("its length is wrong"));
    }
    let (metadata, rest) = rest.split_at(count * format.metadata_bytes());
    let (origins, rest) = rest.split_at(count);
    let (sums, data) = rest.split_at(count * 4);
    let (mut tags, mut others) = apart(geometry, metadata);
    if others.iter().all(|byte| *byte == 0) {
        others.clear();
    }
    let metadata = metadata.chunks_exact(format.metadata_bytes());
    for ((tag, metadata), origin) in tags.iter_mut().zip(metadata).zip(origins) {
        tag.origin = *Origin::ALL.get(usize::from(*origin)).ok_or(BadRecord("an origin is not known"))?;
        if tag.origin == Origin::Unknown && metadata.iter().any(|byte| *byte != 0) {
            return Err(BadRecord("a block without a tag has metadata"));
        }
    }
    Ok(Change::Tags {
        tags,
        others,
        sums: kind(sums.as_chunks::<4>().0.iter().map(|sum| u32::from_le_bytes(*sum)).collect()),
        data: carries.then(|| data.to_vec()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::geometry::MIN_LOG;
    use pumice_protect::format::Place;
    use pumice_protect::guard::Guard;
    use pumice_protect::metadata::MetadataFormat;
    use pumice_protect::tuple::Tuple;

    fn geometry(unit: u32) -> Geometry {
        Geometry::new(1 << 24, 4096, unit, Guard::Crc16, 1 << 20).expect("a drive")
    }

    /// The same with other metadata before the tuple or behind it.
    fn large(unit: u32, place: Place) -> Geometry {
        let metadata = MetadataFormat::tuple(Guard::Crc16).with_bytes(16, place).expect("a format");
        Geometry::new(1 << 24, 4096, unit, metadata, 1 << 20).expect("a drive")
    }

    fn record(geometry: &Geometry) -> Record {
        let tuple = |i: u64| Tuple { guard: 0x1111 * i, ..geometry.tuple(9 + i, 0) };
        let tags = (0..3).map(|i| Tag::written(tuple(i))).collect();
        let others = (1..=3 * geometry.other_bytes() as u8).collect();
        let data = geometry.carries_data().then(|| vec![7; 3 * 4096]);
        let change = Change::Tags { tags, others, sums: Sums::Keyed(vec![1, 2, 3]), data };
        Record { first: 9, change: Arc::new(change), settled: 5 }
    }

    #[test]
    fn the_bytes_of_records() {
        let geometry = geometry(4096);
        let bytes = record(&geometry).encode(&geometry);
        let mut expected = vec![3, 0, 0, 0, 3, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0];
        for (guard, lba) in [(0, 9), (0x11, 10), (0x22, 11)] {
            expected.extend_from_slice(&[guard, guard, 0, 0, 0, 0, 0, lba]);
        }
        expected.extend_from_slice(&[1, 1, 1]);
        expected.extend_from_slice(&[1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0]);
        assert_eq!(bytes, expected);
        let zeros = Record { first: 9, change: Arc::new(Change::Zeros(4000)), settled: 0 };
        assert_eq!(zeros.encode(&geometry)[..8], [2, 0, 0, 0, 0xA0, 0x0F, 0, 0]);
        let all = [geometry, self::geometry(512), large(4096, Place::First), large(512, Place::Last)];
        for geometry in all {
            for record in [record(&geometry), zeros.clone()] {
                // Into memory that was used before, too.
                let mut used = vec![0xA5; record.encoded_bytes(&geometry)];
                record.encode_into(&geometry, &mut used);
                assert_eq!(used, record.encode(&geometry));
                assert_eq!(Record::decode(&geometry, &record.encode(&geometry)), Ok(record));
            }
        }
        // Other metadata on their side of the tuple.
        for (place, tuple, others) in [(Place::First, 24, 32), (Place::Last, 32, 24)] {
            let geometry = large(4096, place);
            let bytes = record(&geometry).encode(&geometry);
            assert_eq!(bytes[tuple..tuple + 8], [0, 0, 0, 0, 0, 0, 0, 9]);
            assert_eq!(bytes[others..others + 8], [1, 2, 3, 4, 5, 6, 7, 8]);
            assert_eq!(bytes[tuple + 16..tuple + 24], [0x11, 0x11, 0, 0, 0, 0, 0, 10]);
            assert_eq!(bytes.len(), 24 + 3 * 21);
        }
    }

    /// Recovery needs time for each of its blocks, so no record has more than a writer makes.
    #[test]
    fn a_record_of_zeros_has_no_more_blocks_than_a_writer_makes() {
        let geometry = Geometry::new(1 << 30, 4096, 4096, Guard::Crc16, 1 << 20).expect("a drive");
        for (blocks, is_record) in [(MAX_ZEROS, true), (MAX_ZEROS + 1, false), (1 << 18, false)] {
            let zeros = Record { first: 0, change: Arc::new(Change::Zeros(blocks)), settled: 0 };
            let read = Record::decode(&geometry, &zeros.encode(&geometry));
            assert_eq!(read.is_ok(), is_record, "{blocks}");
        }
    }

    #[test]
    fn a_block_without_a_tag_has_no_metadata() {
        let geometry = geometry(4096);
        let mut bytes = record(&geometry).encode(&geometry);
        bytes[48] = 0;
        assert!(Record::decode(&geometry, &bytes).is_err());
        bytes[24..32].fill(0);
        let Change::Tags { tags, .. } = &*Record::decode(&geometry, &bytes).expect("a record").change else {
            panic!("tags")
        };
        assert_eq!(tags[0], Tag::UNKNOWN);
    }

    #[test]
    fn no_other_bytes_are_a_record() {
        for geometry in [geometry(512), geometry(4096), large(512, Place::Last)] {
            let good = record(&geometry).encode(&geometry);
            for len in 0..good.len() {
                assert!(Record::decode(&geometry, &good[..len]).is_err(), "{len}");
            }
            assert!(Record::decode(&geometry, &[&good[..], &[0]].concat()).is_err());
            let origins = 24 + 3 * geometry.format().metadata_bytes();
            // Kind, flag, reserved, no blocks, too many, past the end of the drive.
            for (at, value) in [
                (0, 4),
                (0, 0),
                (0, 2),
                (1, 2),
                (2, 1),
                (3, 1),
                (4, 0),
                (5, 1),
                (9, 255),
                (15, 255),
                (origins, 4),
            ] {
                let mut bad = good.clone();
                bad[at] = value;
                assert!(Record::decode(&geometry, &bad).is_err(), "{at} {value}");
            }
            let mut bad = good.clone();
            bad[1] ^= 1;
            assert!(Record::decode(&geometry, &bad).is_err());
        }
    }

    /// The bound that `docs/reference/on-disk/tags.md` gives, for the smallest log.
    #[test]
    fn a_log_holds_four_of_the_longest_records() {
        for (bytes, unit) in [(8, 4096), (16, 4096), (64, 4096), (8, 512), (16, 512), (64, 512)] {
            let metadata = MetadataFormat::tuple(Guard::Crc16).with_bytes(bytes, Place::Last).unwrap();
            let geometry = Geometry::new(64 << 20, 4096, unit, metadata, MIN_LOG).unwrap();
            let blocks = geometry.max_record_blocks() as usize;
            let change = Change::Tags {
                tags: vec![Tag::written(geometry.tuple(0, 1)); blocks],
                others: vec![1; blocks * geometry.other_bytes()],
                sums: Sums::Keyed(vec![7; blocks]),
                data: (unit < 4096).then(|| vec![0; blocks * 4096]),
            };
            let body = Record { first: 0, change: change.into(), settled: 0 }.encode(&geometry);
            // The log adds a header, and begins each record on a sector.
            let record = (48 + body.len()).next_multiple_of(512) as u64;
            assert!(blocks > 0 && 4 * record <= MIN_LOG, "{bytes}, {unit}: {blocks} blocks, {record} bytes");
        }
    }
}
