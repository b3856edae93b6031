//! Records of the log. The byte map is in `docs/reference/on-disk/flash-journal.md`.

use crate::ftl::tag::MAX_SEQ;

/// Bytes of a record.
pub(crate) const BYTES: usize = 32;
/// The place of the sum of a record in it.
const SUM: std::ops::Range<usize> = 20..24;

/// The place of a record. The sum of a record covers it: what an earlier log left at the same place
/// is no record of this one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogPlace {
    /// The number of the checkpoint that the log follows.
    pub log: u64,
    /// The number of the page in the log.
    pub page: u32,
    /// The number of the record in the page.
    pub record: u32,
}

impl LogPlace {
    /// The CRC-32C of the 32 bytes of a record at this place. The bytes of the sum count as zeros.
    #[must_use]
    pub fn sum(&self, record: &[u8; 32]) -> u32 {
        let mut bytes = *record;
        bytes[SUM].fill(0);
        let sum = crc32c::crc32c(&self.log.to_le_bytes());
        let sum = crc32c::crc32c_append(sum, &self.page.to_le_bytes());
        let sum = crc32c::crc32c_append(sum, &self.record.to_le_bytes());
        crc32c::crc32c_append(sum, &bytes)
    }

    /// Puts the sum of a record into its bytes.
    pub fn seal(&self, record: &mut [u8; 32]) {
        let sum = self.sum(record);
        record[SUM].copy_from_slice(&sum.to_le_bytes());
    }
}

/// The numbers that records of a drive may name.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// Logical pages.
    pub(crate) logical: u32,
    /// The first block that holds data.
    pub(crate) first_block: u32,
    /// Blocks.
    pub(crate) blocks: u32,
    /// Pages in a block.
    pub(crate) pages_per_block: u32,
}

impl Limits {
    /// Returns whether a page may hold data.
    pub(crate) fn holds_data(&self, page: u32) -> bool {
        (self.first_block..self.blocks).contains(&(page / self.pages_per_block))
    }
}

/// Bytes that are no record of the drive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NoRecord;

/// A fact that no tag says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Record {
    /// Logical pages hold nothing.
    Trim {
        /// Its sequence number.
        seq: u64,
        /// The first of them.
        lpn: u32,
        /// The number of them; at least 1.
        count: u32,
    },
    /// A logical page holds a content that was written for another one.
    Merge {
        /// Its sequence number.
        seq: u64,
        /// The logical page.
        lpn: u32,
        /// The place of the content.
        page: u32,
        /// The birth of the content.
        birth: u64,
    },
    /// A block is about to be erased: what its pages say with lower sequence numbers is void.
    Erase {
        /// Its sequence number.
        seq: u64,
        /// The block.
        block: u32,
    },
}

impl Record {
    pub(super) fn encode(self, place: LogPlace) -> [u8; BYTES] {
        let (kind, number, seq, lpn, birth) = match self {
            Self::Trim { seq, lpn, count } => (1, count, seq, lpn, 0),
            Self::Merge { seq, lpn, page, birth } => (2, page, seq, lpn, birth),
            Self::Erase { seq, block } => (3, block, seq, 0, 0),
        };
        let mut out = [0; BYTES];
        out[0] = kind;
        out[4..8].copy_from_slice(&number.to_le_bytes());
        out[8..16].copy_from_slice(&seq.to_le_bytes());
        out[16..20].copy_from_slice(&lpn.to_le_bytes());
        out[24..32].copy_from_slice(&birth.to_le_bytes());
        place.seal(&mut out);
        out
    }

    /// The sequence number.
    pub(crate) fn seq(&self) -> u64 {
        match *self {
            Self::Trim { seq, .. } | Self::Merge { seq, .. } | Self::Erase { seq, .. } => seq,
        }
    }

    /// The record in 32 bytes; `None` if its sum does not fit.
    pub(crate) fn decode(
        bytes: &[u8; BYTES],
        place: LogPlace,
        limits: &Limits,
    ) -> Result<Option<Self>, NoRecord> {
        let long = |at: usize| u64::from_le_bytes(std::array::from_fn(|i| bytes[at + i]));
        let word = |at: usize| u32::from_le_bytes(std::array::from_fn(|i| bytes[at + i]));
        if word(SUM.start) != place.sum(bytes) {
            return Ok(None);
        }
        let (number, seq, lpn, birth) = (word(4), long(8), word(16), long(24));
        if lpn >= limits.logical || seq > MAX_SEQ || birth > MAX_SEQ {
            return Err(NoRecord);
        }
        match bytes[0] {
            1 if number >= 1 && number <= limits.logical - lpn => {
                Ok(Some(Self::Trim { seq, lpn, count: number }))
            }
            2 if limits.holds_data(number) => Ok(Some(Self::Merge { seq, lpn, page: number, birth })),
            3 if (limits.first_block..limits.blocks).contains(&number) => {
                Ok(Some(Self::Erase { seq, block: number }))
            }
            _ => Err(NoRecord),
        }
    }
}
