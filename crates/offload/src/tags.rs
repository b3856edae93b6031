//! The result of checking a command's blocks against the tags beside a node's drives.

use crate::DriveDescription;
use pumice_protect::guard::Guard;
use pumice_protect::origin::{Judged, Origin};

/// Most places with tag faults in a result. If there are more, the result has the first ones, in
/// order of stripes, and nothing is known of the stripes from the last listed one on.
pub const MAX_TAG_PLACES: usize = 1 << 14;
/// Most blocks of one [`TaggedBlocks`].
pub const MAX_TAGGED_BLOCKS: u64 = 1024;

/// The format of a drive's tags.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TagFormat {
    /// The guard of each block.
    pub guard: Guard,
    /// Bytes of a block: a power of two, 512 at least.
    pub block_bytes: u32,
}

impl DriveDescription {
    /// The format of the drive's tags.
    #[must_use]
    pub fn tag_format(&self) -> Option<TagFormat> {
        self.tags.map(|guard| TagFormat { guard, block_bytes: self.block_bytes })
    }
}

/// A fault of blocks or of their tags.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TagFault {
    /// They differ from tags of this origin.
    Differs(Origin),
    /// The page of their tags is lost.
    Lost,
}

/// A place whose blocks differ from their tags, or whose tags are lost.
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
    /// The fault.
    pub fault: TagFault,
}

/// The report on the tags of the blocks that a parity command read. Every block was folded, even if
/// it differs from its tag.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TagReport {
    /// Numbers of blocks that match their tags, by origin; blocks of origin unknown were not
    /// checked.
    pub fit: [u64; 4],
    /// The others, by stripe.
    pub places: Vec<TagPlace>,
}

impl TagReport {
    /// Returns whether the list of places may be incomplete: then nothing is known of the stripes
    /// from the last listed one on.
    #[must_use]
    pub fn is_cut(&self) -> bool {
        self.places.len() >= MAX_TAG_PLACES
    }
}

/// Blocks with their tags, both of the same version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaggedBlocks<'b> {
    /// The contents of the blocks, even if they differ from their tags.
    pub data: &'b [u8],
    /// The result of checking each block.
    pub judged: Vec<Judged>,
}
