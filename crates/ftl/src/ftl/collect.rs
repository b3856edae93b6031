//! Garbage collection and wear levelling.

use super::Ftl;
use crate::content::Content;
use crate::dedup::Due;
use crate::error::FtlError;
use crate::journal::Journal;
use crate::map::Owner;
use crate::tag::{Kind, Tag};
use pumice_flash::{BlockId, Nand, NandError, Nanos, Ppn};

impl<N, J, C> Ftl<N, J, C>
where
    C: Content,
    N: Nand<Page = C, Oob = Tag>,
    J: Journal<N>,
{
    /// Collects until a host stream may take a block and garbage collection has its reserve.
    pub(super) fn make_room(&mut self, after: Nanos) -> Result<(), FtlError> {
        self.evacuate_failing(after)?;
        let keep = self.dedup.streams().1.max(1) + self.config.reserve;
        self.level_wear(keep as usize, after)?;
        while self.blocks.free() <= keep as usize {
            self.checkpoint_if_due()?;
            let Some(victim) = self.blocks.pick() else { break };
            self.empty(victim, after)?;
            self.blocks.release(victim);
        }
        Ok(())
    }

    /// Moves the live pages out of blocks where a program failed, and retires those blocks.
    pub(super) fn evacuate_failing(&mut self, after: Nanos) -> Result<(), FtlError> {
        while let Some(&block) = self.blocks.failing.last() {
            self.checkpoint_if_due()?;
            self.blocks.failing.retain(|&other| other != block);
            self.empty(block, after)?;
            self.blocks.retire(block);
            self.stats.retired += 1;
        }
        Ok(())
    }

    /// Moves the block with the fewest erases, if the others were erased much more often: its data hardly change, so
    /// that greedy choices never touch it.
    fn level_wear(&mut self, keep: usize, after: Nanos) -> Result<(), FtlError> {
        let often = self.nand.geometry().blocks / 8 + 1;
        if self.since_wear < often || self.blocks.free() < keep {
            return Ok(());
        }
        self.since_wear = 0;
        self.checkpoint_if_due()?;
        if let Some(coldest) = self.blocks.take_coldest(self.config.wear_spread) {
            self.empty(coldest, after)?;
            self.blocks.release(coldest);
        }
        Ok(())
    }

    /// Moves all live pages out of a block.
    fn empty(&mut self, block: u32, after: Nanos) -> Result<(), FtlError> {
        let geometry = self.nand.geometry();
        for index in 0..geometry.pages_per_block {
            let page = geometry.page(BlockId(block), index);
            if let Some(owner) = self.map.owner(page) {
                self.relocate(page, owner, after)?;
            }
        }
        Ok(())
    }

    fn relocate(&mut self, page: Ppn, owner: Owner, after: Nanos) -> Result<(), FtlError> {
        let (content, birth, read_at) = match self.nand.read(page, after) {
            Ok(read) => {
                let ours = self.fits(page, &read.oob);
                let content = read.data.filter(|_| ours && !read.oob.lost);
                (content, ours.then_some(read.oob.birth), read.done)
            }
            Err(NandError::Unreadable(_) | NandError::Erased(_)) => (None, None, after),
            Err(other) => return Err(other.into()),
        };
        if let Some(content) = &content
            && self.config.plan.in_gc
            && self.dedup.due(page) != Due::Nothing
            && self.examine(page, content, birth.unwrap_or(0), true, read_at + self.config.hash.strong)?.0
        {
            self.stats.gc_merges += 1;
            return Ok(());
        }
        let stream = self.dedup.gc_stream(page);
        let lost = content.is_none();
        self.stats.lost_pages += u64::from(lost);
        let content = content.unwrap_or_else(|| C::blank(self.nand.geometry().page_bytes));
        loop {
            let (kind, birth) = match owner {
                // Without its tag the birth of a content is unknown; that it is lost is then a fact of its own.
                Owner::Lpn(lpn) => (Kind::Lpn(lpn), birth),
                Owner::Object(object) => (Kind::Object, Some(self.map.object(object).birth)),
            };
            let programmed = self.program(stream, read_at, &content, kind, lost, birth)?;
            let Some((to, _)) = programmed else { continue };
            self.map.moved(page, to);
            self.blocks.page_died(page);
            self.blocks.page_born(to);
            self.dedup.moved(page, to);
            self.stats.copies += 1;
            return Ok(());
        }
    }
}
