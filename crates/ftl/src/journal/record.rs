//! Records of the log. The byte map is in `docs/design/ftl.md`.

use crate::tag::MAX_SEQ;

/// Bytes of a record.
pub(crate) const BYTES: usize = 32;

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
    /// Whether a page may hold data.
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
        /// How many; at least 1.
        count: u32,
    },
    /// A logical page holds a content that was written for another one.
    Merge {
        /// Its sequence number.
        seq: u64,
        /// The logical page.
        lpn: u32,
        /// Where the content is.
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
    pub(super) fn encode(self) -> [u8; BYTES] {
        let (kind, number, seq, lpn, birth) = match self {
            Self::Trim { seq, lpn, count } => (1, count, seq, lpn, 0),
            Self::Merge { seq, lpn, page, birth } => (2, page, seq, lpn, birth),
            Self::Erase { seq, block } => (3, block, seq, 0, 0),
        };
        let mut out = [0; BYTES];
        out[0] = kind;
        out[4..8].copy_from_slice(&number.to_le_bytes());
        out[8..16].copy_from_slice(&seq.to_le_bytes());
        out[16..24].copy_from_slice(&u64::from(lpn).to_le_bytes());
        out[24..32].copy_from_slice(&birth.to_le_bytes());
        out
    }

    /// The sequence number.
    pub(crate) fn seq(&self) -> u64 {
        match *self {
            Self::Trim { seq, .. } | Self::Merge { seq, .. } | Self::Erase { seq, .. } => seq,
        }
    }

    /// The record in 32 bytes; `None` after the last one of a page.
    pub(crate) fn decode(bytes: &[u8; BYTES], limits: &Limits) -> Result<Option<Self>, NoRecord> {
        let word = |at: usize| u64::from_le_bytes(std::array::from_fn(|i| bytes[at + i]));
        let number = u32::from_le_bytes(std::array::from_fn(|i| bytes[4 + i]));
        let (seq, birth) = (word(8), word(24));
        if bytes.iter().all(|&byte| byte == 0) {
            return Ok(None);
        }
        let lpn = u32::try_from(word(16)).ok().filter(|lpn| *lpn < limits.logical).ok_or(NoRecord)?;
        if seq > MAX_SEQ || birth > MAX_SEQ {
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
