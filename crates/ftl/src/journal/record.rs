//! Records of the log. The byte map is in `docs/ftl.md`.

/// Bytes of a record.
pub(crate) const BYTES: usize = 32;

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

    /// The record in 32 bytes; `None` at the end of a page, and for bytes that are no record of a drive with so many
    /// logical and physical pages.
    pub(super) fn decode(bytes: &[u8; BYTES], logical: u32, physical: u32) -> Option<Self> {
        let word = |at: usize| u64::from_le_bytes(std::array::from_fn(|i| bytes[at + i]));
        let number = u32::from_le_bytes(std::array::from_fn(|i| bytes[4 + i]));
        let (seq, birth) = (word(8), word(24));
        let lpn = u32::try_from(word(16)).ok().filter(|lpn| *lpn < logical)?;
        match bytes[0] {
            1 if number >= 1 && number <= logical - lpn => Some(Self::Trim { seq, lpn, count: number }),
            3 if number < physical => Some(Self::Erase { seq, block: number }),
            2 if number < physical => Some(Self::Merge { seq, lpn, page: number, birth }),
            _ => None,
        }
    }
}
