//! Garbage collection and wear levelling.

use super::Ftl;
use crate::chip::{BlockId, Nand, NandError, Nanos, Ppn};
use crate::ftl::content::Content;
use crate::ftl::dedup::{Due, Stream};
use crate::ftl::error::FtlError;
use crate::ftl::journal::Journal;
use crate::ftl::map::Owner;
use crate::ftl::tag::{Kind, Tag};

impl<N, J, C> Ftl<N, J, C>
where
    C: Content,
    N: Nand<Page = C, Oob = Tag>,
    J: Journal<N>,
{
    /// Collects until a host stream may take a block and garbage collection has its reserve.
    pub(super) fn make_room(&mut self, after: Nanos) -> Result<(), FtlError> {
        self.evacuate_failing(after)?;
        self.close_unused();
        let keep = self.dedup.collecting() + self.config.reserve;
        self.level_wear(keep as usize, after)?;
        while self.blocks.free() <= keep as usize {
            self.checkpoint_if_due()?;
            let Some(victim) = self.blocks.pick(u32::MAX) else { break };
            self.collect(victim, after)?;
        }
        // Half of what is to be free ahead is left to those who can read a victim beforehand.
        while self.config.ahead > 0 && self.is_short(self.config.ahead / 2) {
            let Some(victim) = self.blocks.pick(self.worth()) else { break };
            self.checkpoint_if_due()?;
            self.collect(victim, after)?;
        }
        // Blocks that hold nothing are free for nothing, and the erases of many share their syncs.
        let wanted = (keep + self.config.erase_at_once) as usize;
        while self.config.erase_at_once > 1 && self.blocks.free() < wanted {
            let Some(dead) = self.blocks.pick(0) else { break };
            self.collect(dead, after)?;
        }
        Ok(())
    }

    /// Live pages of a block that is collected ahead of need, at most. One that is all but full of
    /// them would be moved for next to nothing.
    fn worth(&self) -> u32 {
        let pages = self.nand.geometry().pages_per_block;
        pages - pages / 16
    }

    /// Returns whether a block should be collected now, so that writes need not wait for that
    /// later.
    pub fn wants_collecting(&self) -> bool {
        self.config.ahead > 0 && self.is_short(self.config.ahead)
    }

    /// The block that should be collected now, and its live pages. Its flash stays as it is until
    /// it is erased: a caller may read it meanwhile, and call [`Ftl::collect_block`] then.
    pub fn next_victim(&mut self) -> Option<(BlockId, Vec<Ppn>)> {
        if !self.wants_collecting() {
            return None;
        }
        let block = BlockId(self.blocks.choose(self.worth())?);
        let geometry = self.nand.geometry();
        let pages = (0..geometry.pages_per_block).map(|index| geometry.page(block, index));
        Some((block, pages.filter(|page| self.map.owner(*page).is_some()).collect()))
    }

    /// Collects a block that [`Ftl::next_victim`] named, if it is closed and still worth it.
    ///
    /// # Errors
    /// If the flash fails.
    pub fn collect_block(&mut self, block: BlockId, after: Nanos) -> Result<(), FtlError> {
        self.checkpoint_if_due()?;
        if self.blocks.live(block.0) <= self.worth() && self.blocks.take_closed(block.0) {
            self.collect(block.0, after)?;
        }
        Ok(())
    }

    /// Moves all live pages out of a block that was taken out of the closed ones, and frees it.
    fn collect(&mut self, victim: u32, after: Nanos) -> Result<(), FtlError> {
        let emptied = self.empty(victim, after);
        match emptied {
            Ok(()) => self.blocks.release(victim, self.seq - 1),
            // What is left in it stays live: it may be tried again.
            Err(_) => self.blocks.close(BlockId(victim)),
        }
        emptied
    }

    /// Returns whether at most `spare` blocks are free beside those that are kept for garbage
    /// collection.
    pub fn is_short(&self, spare: u32) -> bool {
        self.blocks.free() <= (self.dedup.collecting() + self.config.reserve + spare) as usize
    }

    /// Collects one block ahead of need: if at most `spare` blocks are free beside those that are
    /// kept, and some block is half dead. Says whether it did.
    ///
    /// # Errors
    /// If the flash fails.
    pub fn collect_ahead(&mut self, after: Nanos, spare: u32) -> Result<bool, FtlError> {
        self.evacuate_failing(after)?;
        self.close_unused();
        if !self.is_short(spare) {
            return Ok(false);
        }
        self.checkpoint_if_due()?;
        let half = self.nand.geometry().pages_per_block / 2;
        let Some(victim) = self.blocks.pick(half) else { return Ok(false) };
        self.collect(victim, after)?;
        Ok(true)
    }

    /// Closes the open blocks of streams that are not in use any more, so that they can become
    /// victims.
    fn close_unused(&mut self) {
        for stream in 0..Stream::COUNT {
            if !self.dedup.uses(Stream(stream as u8))
                && let Some((block, _)) = self.open[stream].take()
            {
                self.blocks.close(block);
            }
        }
    }

    /// Moves the live pages out of blocks where a program failed, and retires those blocks.
    pub(super) fn evacuate_failing(&mut self, after: Nanos) -> Result<(), FtlError> {
        while let Some(&block) = self.blocks.failing.last() {
            self.checkpoint_if_due()?;
            // It stays on the list if that fails.
            self.empty(block, after)?;
            self.blocks.failing.retain(|&other| other != block);
            self.blocks.retire(block);
            self.stats.retired += 1;
        }
        Ok(())
    }

    /// Moves the block with the fewest erases, if the others were erased much more often: its data
    /// hardly change, so that greedy choices never touch it.
    fn level_wear(&mut self, keep: usize, after: Nanos) -> Result<(), FtlError> {
        let often = self.nand.geometry().blocks / 8 + 1;
        if self.since_wear < often || self.blocks.free() < keep {
            return Ok(());
        }
        self.since_wear = 0;
        self.checkpoint_if_due()?;
        if let Some(coldest) = self.blocks.take_coldest(self.config.wear_spread) {
            self.collect(coldest, after)?;
        }
        Ok(())
    }

    /// Moves all live pages out of a block.
    fn empty(&mut self, block: u32, after: Nanos) -> Result<(), FtlError> {
        let geometry = self.nand.geometry();
        // The table entries that the moves change are far from each other. Read together, they come
        // from memory side by side; the moves would wait for each in turn.
        let pages = (0..geometry.pages_per_block).map(|index| geometry.page(BlockId(block), index));
        std::hint::black_box(pages.fold(0, |sum, page| sum ^ self.map.prefetch(page)));
        let pages = (0..geometry.pages_per_block).map(|index| geometry.page(BlockId(block), index));
        std::hint::black_box(pages.fold(0, |sum, page| sum ^ self.dedup.prefetch(page)));
        let pages = (0..geometry.pages_per_block).map(|index| geometry.page(BlockId(block), index));
        self.nand.prefetch(pages.filter(|page| self.map.owner(*page).is_some()));
        for index in 0..geometry.pages_per_block {
            let page = geometry.page(BlockId(block), index);
            if let Some(owner) = self.map.owner(page) {
                self.relocate(page, owner, after)?;
            }
        }
        self.nand.prefetch(std::iter::empty());
        Ok(())
    }

    /// The stream for a page that moves: another one of garbage collection that has an open block,
    /// if the last free block would be taken. Streams that came into use lately may need more
    /// blocks than were kept for them.
    fn stream_with_room(&self, wanted: Stream) -> Stream {
        let opened = |stream: u8| self.open[usize::from(stream)].is_some();
        if opened(wanted.0) || self.blocks.free() > 1 {
            return wanted;
        }
        (Stream::COLLECTED.0..Stream::COUNT as u8).find(|&stream| opened(stream)).map_or(wanted, Stream)
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
            && self.dedup.plan.in_gc
            && self.dedup.due(page) != Due::Nothing
            && self.examine(page, content, read_at + self.config.hash.strong)?.0
        {
            self.stats.gc_merges += 1;
            return Ok(());
        }
        let wanted = self.dedup.gc_stream(page, self.blocks.stream(self.blocks.block_of(page)));
        let stream = self.stream_with_room(wanted);
        let lost = content.is_none();
        self.stats.lost_pages += u64::from(lost);
        let content = content.unwrap_or_else(|| C::blank(self.nand.geometry().page_bytes));
        loop {
            let (kind, birth) = match owner {
                // Without its tag the birth of a content is unknown; that it is lost is then a fact
                // of its own.
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
