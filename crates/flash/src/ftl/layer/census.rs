//! The counted contents of a drive.

use super::Ftl;
use crate::chip::{Nand, Ppn};
use crate::ftl::blocks::State;
use crate::ftl::content::Content;
use crate::ftl::dedup::Stream;
use crate::ftl::journal::Journal;
use crate::ftl::map::Owner;
use crate::ftl::tag::Tag;

/// Blocks of one stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BlockCount {
    /// Blocks with live pages, the open one included.
    pub blocks: u32,
    /// Their live pages.
    pub live_pages: u32,
}

/// The contents of a drive.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Census {
    /// Logical pages.
    pub logical: u32,
    /// Logical pages that hold something.
    pub mapped: u32,
    /// Physical pages that hold it.
    pub live: u32,
    /// Physical pages that more than one logical page shares.
    pub shared: u32,
    /// Blocks, those of the journal included.
    pub blocks: u32,
    /// Blocks of the journal.
    pub journal: u32,
    /// Blocks that hold nothing live.
    pub free: u32,
    /// Blocks that are used no more.
    pub retired: u32,
    /// Blocks of each stream, by its number. Blocks that were taken after the last checkpoint
    /// before a recovery are counted as the first stream's.
    pub streams: [BlockCount; Stream::COUNT],
}

impl<N, J, C> Ftl<N, J, C>
where
    C: Content,
    N: Nand<Page = C, Oob = Tag>,
    J: Journal<N>,
{
    /// Counts what the drive holds. It looks at every page and block.
    pub fn census(&self) -> Census {
        let geometry = self.nand.geometry();
        let logical = self.map.logical();
        let mut census =
            Census { logical, mapped: self.map.mapped(), blocks: geometry.blocks, ..Census::default() };
        for page in (0..geometry.pages()).map(Ppn) {
            let shared = match self.map.owner(page) {
                None => continue,
                Some(Owner::Lpn(_)) => false,
                Some(Owner::Object(object)) => self.map.object(object).refs > 1,
            };
            census.live += 1;
            census.shared += u32::from(shared);
        }
        for block in 0..geometry.blocks {
            match self.blocks.state(block) {
                State::Reserved => census.journal += 1,
                State::Free => census.free += 1,
                State::Retired => census.retired += 1,
                State::Open | State::Closed | State::Failing => {
                    let stream = &mut census.streams[usize::from(self.blocks.stream(block).0)];
                    stream.blocks += 1;
                    stream.live_pages += self.blocks.live(block);
                }
            }
        }
        census
    }
}
