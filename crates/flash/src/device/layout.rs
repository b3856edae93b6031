//! The place of everything. The byte map is in `docs/reference/on-disk/flash.md`.

use crate::chip::{BlockId, Geometry, Ppn};
use crate::ftl::NandJournal;
use thiserror::Error;

/// Out-of-band bytes of a page.
pub const OOB_BYTES: u32 = 128;
/// Bytes of a page of a drive.
pub const PAGE_BYTES: u32 = 4096;
/// Bytes of both slots of a superblock.
pub(crate) const SUPERBLOCK_BYTES: u64 = 8192;
/// The start of the first block.
const BLOCKS_AT: u64 = 65_536;
/// Pages in a block of a drive, at least and at most.
pub(crate) const PAGES_PER_BLOCK: std::ops::RangeInclusive<u32> = 32..=1024;
/// Footers are written in units of this, if they are made of whole ones.
const UNIT: usize = 4096;
/// The bytes that a disk writes all or nothing.
const SECTOR: usize = 512;
/// Blocks beyond those for the logical pages and the overprovisioning: one for each stream of any
/// scheme, those that garbage collection keeps free, and the reserve.
const SPARE_BLOCKS: u32 = 12;

/// Reasons why a drive cannot be laid out so.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum LayoutError {
    /// The capacity is zero, or no whole number of pages.
    #[error("capacity: {0} bytes are no whole number of pages of 4096 bytes")]
    Capacity(u64),
    /// More pages than numbers for them.
    #[error("capacity: more than 2^31 - 1 pages with what is kept in reserve")]
    TooLarge,
}

/// The place of the blocks of a drive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    geometry: Geometry,
}

impl Layout {
    /// So many blocks. `None` if footers are no whole sectors, or there are 2^31 pages or more.
    #[must_use]
    pub fn new(blocks: u32, pages_per_block: u32, page_bytes: u32) -> Option<Self> {
        let sectors = |bytes: u32| bytes > 0 && bytes.is_multiple_of(SECTOR as u32);
        let footer = pages_per_block.checked_mul(OOB_BYTES)?;
        let pages = blocks.checked_mul(pages_per_block).filter(|pages| *pages < 1 << 31)?;
        let geometry = Geometry { blocks, pages_per_block, channels: 1, page_bytes, oob_bytes: OOB_BYTES };
        (pages > 0 && sectors(footer) && sectors(page_bytes)).then_some(Self { geometry })
    }

    /// The layout of a drive of `capacity` bytes with so much overprovisioning, in hundredths of a
    /// percent; and its logical pages.
    ///
    /// # Errors
    /// If the capacity is no whole number of pages, or too large.
    pub fn of_drive(capacity: u64, op: u32) -> Result<(Self, u32), LayoutError> {
        if capacity == 0 || !capacity.is_multiple_of(u64::from(PAGE_BYTES)) {
            return Err(LayoutError::Capacity(capacity));
        }
        let pages = capacity / u64::from(PAGE_BYTES);
        let logical = u32::try_from(pages).ok().filter(|n| *n < 1 << 31).ok_or(LayoutError::TooLarge)?;
        // About a thousand blocks, within the bounds.
        let per_block = (logical / 1024).next_power_of_two();
        let per_block = per_block.clamp(*PAGES_PER_BLOCK.start(), *PAGES_PER_BLOCK.end());
        let physical = u64::from(logical) + (u64::from(logical) * u64::from(op)).div_ceil(10_000);
        let data = u32::try_from(physical.div_ceil(u64::from(per_block))).ok();
        let data = data.and_then(|blocks| blocks.checked_add(SPARE_BLOCKS)).ok_or(LayoutError::TooLarge)?;
        let mut blocks = data;
        // A checkpoint names every block, those of the journal too.
        loop {
            let layout = Self::new(blocks, per_block, PAGE_BYTES).ok_or(LayoutError::TooLarge)?;
            let need = data + NandJournal::new(layout.geometry, logical).blocks();
            if need == blocks {
                return Ok((layout, logical));
            }
            blocks = need;
        }
    }

    /// The shape of the NAND.
    #[must_use]
    pub fn geometry(&self) -> Geometry {
        self.geometry
    }

    /// Bytes of a page's data.
    pub(crate) fn page_bytes(&self) -> usize {
        self.geometry.page_bytes as usize
    }

    /// Bytes of a block's footer.
    #[must_use]
    pub fn footer_bytes(&self) -> usize {
        (self.geometry.pages_per_block * OOB_BYTES) as usize
    }

    /// Footers are read and written in units of so many bytes.
    pub(crate) fn unit(&self) -> usize {
        if self.footer_bytes().is_multiple_of(UNIT) { UNIT } else { SECTOR }
    }

    fn block_at(&self, block: BlockId) -> u64 {
        let data = u64::from(self.geometry.pages_per_block) * u64::from(self.geometry.page_bytes);
        BLOCKS_AT + u64::from(block.0) * (data + self.footer_bytes() as u64)
    }

    /// The start of the data of a page, in bytes.
    #[must_use]
    pub fn data_at(&self, page: Ppn) -> u64 {
        let within = u64::from(self.geometry.index_of(page)) * u64::from(self.geometry.page_bytes);
        self.block_at(self.geometry.block_of(page)) + within
    }

    /// The start of the footer of a block, in bytes.
    #[must_use]
    pub fn footer_at(&self, block: BlockId) -> u64 {
        let data = u64::from(self.geometry.pages_per_block) * u64::from(self.geometry.page_bytes);
        self.block_at(block) + data
    }

    /// Bytes of a file of the drive.
    #[must_use]
    pub fn file_bytes(&self) -> u64 {
        self.block_at(BlockId(self.geometry.blocks)) + SUPERBLOCK_BYTES
    }
}

/// The place where the copy of the superblock begins in a file or device of so many bytes: in its
/// last whole units. 0 if there is no room for one.
pub(crate) fn copy_at(size: u64) -> u64 {
    (size / UNIT as u64 * UNIT as u64).saturating_sub(SUPERBLOCK_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_follow_each_other_and_the_copy_ends_the_file() {
        let (layout, logical) = Layout::of_drive(64 << 20, 700).unwrap();
        let geometry = layout.geometry();
        assert_eq!((logical, geometry.pages_per_block), (16_384, 32));
        assert!(geometry.pages() >= logical + logical * 7 / 100);
        let mut at = 65_536;
        for block in (0..geometry.blocks).map(BlockId) {
            assert_eq!(layout.data_at(geometry.page(block, 0)), at);
            assert_eq!(layout.data_at(geometry.page(block, 31)), at + 31 * 4096);
            assert_eq!(layout.footer_at(block), at + 32 * 4096);
            at += 33 * 4096;
        }
        assert_eq!(layout.file_bytes(), at + 8192);
        assert_eq!(copy_at(layout.file_bytes()), at);
    }

    #[test]
    fn drives_of_all_sizes_have_room_for_their_pages() {
        for (capacity, per_block) in
            [(4096, 32), (4 << 20, 32), (1 << 30, 256), (4 << 30, 1024), (1 << 42, 1024)]
        {
            let (layout, logical) = Layout::of_drive(capacity, 700).unwrap();
            assert_eq!(layout.geometry().pages_per_block, per_block);
            assert_eq!(u64::from(logical) * 4096, capacity);
        }
        assert_eq!(Layout::of_drive(4097, 700), Err(LayoutError::Capacity(4097)));
        assert_eq!(Layout::of_drive(0, 700), Err(LayoutError::Capacity(0)));
        assert_eq!(Layout::of_drive(1 << 43, 700), Err(LayoutError::TooLarge));
    }
}
