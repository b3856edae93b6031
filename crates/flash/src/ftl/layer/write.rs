//! Writes, trims, and pages to write to.

use super::Ftl;
use crate::chip::{BlockId, Nand, NandError, Nanos, Ppn};
use crate::ftl::blocks::State;
use crate::ftl::content::Content;
use crate::ftl::dedup::Stream;
use crate::ftl::error::FtlError;
use crate::ftl::journal::{Journal, Record};
use crate::ftl::tag::{Kind, Tag};

impl<N, J, C> Ftl<N, J, C>
where
    C: Content,
    N: Nand<Page = C, Oob = Tag>,
    J: Journal<N>,
{
    /// Writes a logical page, not before the time `after`, and says when that was done. It is
    /// durable after the next flush.
    ///
    /// # Errors
    /// If the page does not exist, or the flash fails in a way that other blocks cannot make good.
    pub fn write(&mut self, lpn: u32, content: &C, after: Nanos) -> Result<Nanos, FtlError> {
        self.check(lpn)?;
        self.write_through(lpn, content, after)
    }

    /// Brings the table entries of the next writes into the processor's cache, and changes nothing.
    /// The entries are far from each other: read together, they come from memory side by side; the
    /// writes would wait for each in turn. It pays if contents are numbers, for about ten writes at
    /// a time.
    pub fn prefetch(&self, writes: impl Iterator<Item = (u32, C)> + Clone) {
        let old = writes.clone().filter(|(lpn, _)| *lpn < self.config.logical);
        let seen = writes.fold(false, |sum, (_, content)| sum ^ self.dedup.prefetch_filter(&content));
        let old = old.filter_map(|(lpn, _)| self.map.lookup(lpn));
        let tables = old.fold(0, |sum, page| sum ^ self.dedup.prefetch(page));
        std::hint::black_box((seen, tables));
    }

    /// Does the same for a long write from `lpn` on, of contents whose keys are known, if each is
    /// looked up before it is programmed.
    pub fn prefetch_run(&self, lpn: u32, contents: &[C]) {
        if !self.config.plan.inline {
            return;
        }
        let found = contents.iter().fold(0, |sum, content| sum ^ self.dedup.prefetch_index(content));
        let lpns = (lpn..self.config.logical).take(contents.len());
        let old = lpns.filter_map(|lpn| self.map.lookup(lpn));
        let died = old.fold(0, |sum, page| sum ^ self.dedup.prefetch(page));
        std::hint::black_box((found, died));
    }

    /// Forgets what logical pages hold. It is durable after the next flush.
    ///
    /// # Errors
    /// If a page does not exist, or the flash fails.
    pub fn trim(&mut self, lpn: u32, count: u32) -> Result<(), FtlError> {
        if count == 0 {
            return Ok(());
        }
        self.check(lpn)?;
        if count > self.config.logical - lpn {
            return Err(FtlError::OutOfRange(self.config.logical));
        }
        self.checkpoint_if_due()?;
        let seq = self.next_seq();
        // First: a trim that the log does not take has happened to no page.
        self.journal.record(&mut self.nand, Record::Trim { seq, lpn, count }, self.durable)?;
        (self.changed, self.unlogged) = (seq, true);
        for lpn in lpn..lpn + count {
            if let Some(died) = self.map.unmap(lpn) {
                self.page_died(died, Some(lpn));
            }
        }
        Ok(())
    }

    pub(super) fn write_through(&mut self, lpn: u32, content: &C, after: Nanos) -> Result<Nanos, FtlError> {
        self.checkpoint_if_due()?;
        let plan = self.config.plan;
        let weak = if plan.uses_weak() { self.config.hash.weak } else { 0 };
        let strong = if plan.inline { self.config.hash.strong } else { 0 };
        let mut after = after + weak + strong;
        self.stats.host_writes += 1;
        let old = self.map.lookup(lpn);
        let arrival = self.dedup.arrive(lpn, content, old);
        let key = if plan.inline { self.dedup.key(content) } else { 0 };
        if plan.inline {
            let (twin, compared) = self.find_equal(key, content, None, after)?;
            after = compared;
            if let Some((page, birth)) = twin {
                self.stats.inline_hits += 1;
                if old != Some(page) {
                    self.merge(lpn, page, birth)?;
                    self.unlogged = true;
                }
                return Ok(after);
            }
        }
        let (page, done) = self.program_new(lpn, content, arrival.stream, after)?;
        self.stats.host_programs += 1;
        if let Some(died) = self.map.point(lpn, page) {
            self.page_died(died, Some(lpn));
        }
        self.blocks.page_born(page);
        self.dedup.born(lpn, page, arrival);
        if plan.inline {
            self.dedup.indexed(page, key);
        }
        Ok(done)
    }

    /// Programs a new version of a logical page.
    fn program_new(
        &mut self,
        lpn: u32,
        content: &C,
        stream: Stream,
        after: Nanos,
    ) -> Result<(Ppn, Nanos), FtlError> {
        loop {
            if self.open[usize::from(stream.0)].is_none() {
                self.make_room(after)?;
            }
            let kind = Kind::Lpn(lpn);
            if let Some(programmed) = self.program(stream, after, content, kind, false, None)? {
                return Ok(programmed);
            }
        }
    }

    /// Programs the next page of a stream; `None` if the page failed, and another is to be tried.
    /// Without a `birth` the content is born now.
    pub(super) fn program(
        &mut self,
        stream: Stream,
        after: Nanos,
        content: &C,
        kind: Kind,
        lost: bool,
        birth: Option<u64>,
    ) -> Result<Option<(Ppn, Nanos)>, FtlError> {
        let s = usize::from(stream.0);
        let (block, index) = match self.open[s] {
            Some(open) => open,
            None => (self.take_block(stream, after)?, 0),
        };
        let geometry = self.nand.geometry();
        let page = geometry.page(block, index);
        // The number is taken only now: taking a block syncs the flash and voids what came before
        // in the block.
        let seq = self.next_seq();
        assert!(
            self.blocks.state(block.0) == State::Open,
            "F12: pages are programmed in blocks that were taken: {block}"
        );
        let tails = self.tails.carry(block);
        let (birth, generation) = (birth.unwrap_or(seq), self.blocks.generation(block.0));
        let tag = Tag { kind, lost, birth, seq, durable: self.durable, generation, tails };
        let programmed = self.nand.program(page, after, content, &tag);
        (self.changed, self.said) = (seq, self.durable);
        self.blocks.clock += 1;
        self.since_checkpoint += 1;
        self.open[s] = (index + 1 < geometry.pages_per_block).then_some((block, index + 1));
        match programmed {
            Ok(done) => {
                self.tails.programmed(page, seq);
                if self.open[s].is_none() {
                    self.blocks.close(block);
                }
                Ok(Some((page, done)))
            }
            Err(NandError::ProgramFailed(_)) => {
                self.tails.say_again(block);
                self.open[s] = None;
                self.blocks.fail(block);
                Ok(None)
            }
            Err(other) => Err(other.into()),
        }
    }

    pub(super) fn page_died(&mut self, page: Ppn, overwrites: Option<u32>) {
        self.blocks.page_died(page);
        self.dedup.died(page, overwrites);
    }

    /// Takes a free block and erases it if need be; blocks that cannot be erased are retired.
    fn take_block(&mut self, stream: Stream, after: Nanos) -> Result<BlockId, FtlError> {
        loop {
            // Blocks that were erased together with another were worn as little as any.
            let ready_first = self.config.erase_at_once > 1;
            let block = self.blocks.take(stream, ready_first).ok_or(FtlError::NoRoom)?;
            // A cut may bring back what was in the others: enough must stay free even then.
            let keep = (self.dedup.collecting() + self.config.reserve) as usize;
            if self.blocks.may_come_back(self.durable, keep) {
                self.sync()?;
            }
            if !self.blocks.must_erase(block) {
                self.record_open(block)?;
                return Ok(block);
            }
            let ahead = self.blocks.to_erase(stream, self.config.erase_at_once.max(1) as usize - 1);
            self.void(&[&[block], &ahead[..]].concat())?;
            let erased = self.erase(block, after)?;
            if erased {
                self.blocks.was_erased(block);
            }
            self.erase_free(&ahead, after)?;
            if erased {
                self.record_open(block)?;
                return Ok(block);
            }
        }
    }

    /// Erases free blocks before they are needed. Says whether there were some to erase.
    ///
    /// # Errors
    /// If the flash fails.
    pub fn erase_ahead(&mut self, after: Nanos) -> Result<bool, FtlError> {
        let ahead = self.blocks.to_erase(Stream::UNIQUE, self.config.erase_at_once as usize);
        if ahead.is_empty() {
            return Ok(false);
        }
        self.checkpoint_if_due()?;
        self.void(&ahead)?;
        self.erase_free(&ahead, after)?;
        Ok(true)
    }

    /// Erases free blocks whose pages are void.
    pub(super) fn erase_free(&mut self, blocks: &[BlockId], after: Nanos) -> Result<(), FtlError> {
        for &block in blocks {
            if self.erase(block, after)? {
                self.blocks.erased_ahead(block);
            }
        }
        Ok(())
    }

    /// Erases a block, or retires it; whether it is erased.
    fn erase(&mut self, block: BlockId, after: Nanos) -> Result<bool, FtlError> {
        assert!(
            self.blocks.live(block.0) == 0,
            "F9: a block is erased when no live page lies in it: {block}"
        );
        assert!(
            self.blocks.void_at(block).is_some_and(|at| at <= self.durable),
            "F10: a block is erased when the record that its pages are void is durable: {block}"
        );
        match self.nand.erase(block, after) {
            Ok(_) => {
                self.stats.erases += 1;
                self.since_wear += 1;
                Ok(true)
            }
            Err(NandError::EraseFailed(_)) => {
                self.stats.retired += 1;
                self.blocks.retire(block.0);
                Ok(false)
            }
            Err(other) => Err(other.into()),
        }
    }
}
