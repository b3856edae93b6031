//! The shape of a flash device.

use std::fmt;

/// Time in nanoseconds.
pub type Nanos = u64;

/// A block, from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlockId(pub u32);

/// A physical page, from 0: block times pages per block, plus the page within its block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ppn(pub u32);

impl fmt::Display for BlockId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for Ppn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The shape of a flash device. A block is the unit of erasure: a superblock, if it spans several
/// chips.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Geometry {
    /// Blocks.
    pub blocks: u32,
    /// Pages in a block.
    pub pages_per_block: u32,
    /// Channels that work side by side. The pages of a block go round the channels.
    pub channels: u32,
    /// Bytes of data in a page.
    pub page_bytes: u32,
    /// Out-of-band bytes of a page; at least [`crate::chip::MIN_OOB_BYTES`].
    pub oob_bytes: u32,
}

impl Geometry {
    /// Pages of the device.
    ///
    /// # Panics
    /// If there are 2^32 pages or more.
    #[must_use]
    pub fn pages(&self) -> u32 {
        self.blocks.checked_mul(self.pages_per_block).expect("fewer than 2^32 pages")
    }

    /// The block of a page.
    #[must_use]
    pub fn block_of(&self, page: Ppn) -> BlockId {
        BlockId(page.0 / self.pages_per_block)
    }

    /// The place of a page within its block.
    #[must_use]
    pub fn index_of(&self, page: Ppn) -> u32 {
        page.0 % self.pages_per_block
    }

    /// A page of a block.
    #[must_use]
    pub fn page(&self, block: BlockId, index: u32) -> Ppn {
        Ppn(block.0 * self.pages_per_block + index)
    }

    /// The channel of a page.
    #[must_use]
    pub fn channel_of(&self, page: Ppn) -> u32 {
        page.0 % self.channels
    }
}
