//! The result of checking a command's blocks against the tags beside a node's drives.

use crate::DriveDescription;
use pumice_protect::guard::Guard;
use pumice_protect::origin::{Judged, Origin};

/// Places of a result with something wrong about their tags, at most: of more the first ones are
/// told, by stripe, and nothing is known of the stripes from the last of them on.
pub const MAX_TAG_PLACES: usize = 1 << 14;
/// Blocks of one [`TaggedBlocks`], at most.
pub const MAX_TAGGED_BLOCKS: u64 = 1024;

/// Which tags a drive has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TagFormat {
    /// The guard of each block.
    pub guard: Guard,
    /// Bytes of a block: a power of two, 512 at least.
    pub block_bytes: u32,
}

impl DriveDescription {
    /// Which tags the drive has.
    #[must_use]
    pub fn tag_format(&self) -> Option<TagFormat> {
        self.tags.map(|guard| TagFormat { guard, block_bytes: self.block_bytes })
    }
}

/// What is wrong with blocks, or with their tags.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TagFault {
    /// They differ from tags of this origin.
    Differs(Origin),
    /// The page of their tags is lost.
    Lost,
}

/// A place whose tags do not fit, or are lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TagPlace {
    /// Index into the command's sources.
    pub source: usize,
    /// The stripe.
    pub stripe: u64,
    /// First byte within the chunk.
    pub start: u32,
    /// Bytes.
    pub len: u32,
    /// What is wrong.
    pub fault: TagFault,
}

/// What tags say of the blocks that a parity command read. Every block was folded, whatever its tag
/// says.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TagReport {
    /// Blocks that fit their tags, by origin; those of origin unknown are blocks without a check.
    pub fit: [u64; 4],
    /// The others, by stripe.
    pub places: Vec<TagPlace>,
}

impl TagReport {
    /// Whether there may be more places than are told: then nothing is known of the stripes from
    /// the last one told on.
    #[must_use]
    pub fn is_cut(&self) -> bool {
        self.places.len() >= MAX_TAG_PLACES
    }
}

/// Blocks with their tags. Both are of one version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaggedBlocks {
    /// What the blocks hold, whatever their tags say.
    pub data: Vec<u8>,
    /// What the tags say, block by block.
    pub judged: Vec<Judged>,
}
