//! Flushes, and the steps of erases that they carry along.

use super::Ftl;
use crate::chip::{BlockId, Nand, Nanos};
use crate::ftl::content::Content;
use crate::ftl::error::FtlError;
use crate::ftl::journal::{Journal, Record};
use crate::ftl::tag::Tag;

/// Changes that need not be durable, if no host asks for that. Recovery reads the data of those
/// pages.
const MOST_UNFLUSHED: u64 = 65_536;

/// A flush that has begun. It covers what was acknowledged before that, and nothing that came
/// later.
#[derive(Debug)]
#[must_use = "what a flush covers is durable only when it ends"]
pub struct Flush {
    /// The last sequence number that it covers.
    upto: u64,
    /// The number of the last program, trim or merge that it covers.
    changed: u64,
}

impl Flush {
    /// The last sequence number that it covers.
    #[must_use]
    pub fn upto(&self) -> u64 {
        self.upto
    }
}

impl<N, J, C> Ftl<N, J, C>
where
    C: Content,
    N: Nand<Page = C, Oob = Tag>,
    J: Journal<N>,
{
    /// Makes all that was acknowledged durable.
    ///
    /// # Errors
    /// If the flash fails.
    pub fn flush(&mut self, after: Nanos) -> Result<Nanos, FtlError> {
        self.sync()?;
        self.advance_erases(after)?;
        Ok(after)
    }

    /// The number of the last change that was acknowledged and is not durable, if there is one.
    pub fn unflushed(&self) -> Option<u64> {
        Some(self.seq - 1).filter(|last| *last > self.durable)
    }

    /// Returns whether the changes up to this number are durable.
    pub fn is_durable(&self, number: u64) -> bool {
        number <= self.durable
    }

    /// Returns whether a flush would keep writes from waiting: few blocks are erased, and others
    /// could be once what made them free is durable. Or so much is not durable that a recovery
    /// would take long to read it.
    pub fn wants_flush(&self) -> bool {
        let half = self.config.erase_at_once as usize / 2;
        let (erased, others) = self.blocks.free_by_erase();
        let many = half > 0 && erased < half && others >= half;
        let last = others > 0 && erased < self.config.ahead as usize / 2;
        let late = self.unflushed().is_some_and(|last| last.saturating_sub(self.durable) > MOST_UNFLUSHED);
        late || (many || last) && self.unflushed().is_some()
    }

    /// Begins a flush: hands everything over that was acknowledged. The caller then syncs the
    /// medium of the flash, and ends the flush if that succeeded. Meanwhile all other operations
    /// may go on. `None` if everything is durable already.
    ///
    /// # Errors
    /// If the flash fails.
    pub fn begin_flush(&mut self) -> Result<Option<Flush>, FtlError> {
        let upto = self.seq - 1;
        if upto <= self.durable {
            return Ok(None);
        }
        self.journal.flush(&mut self.nand, self.durable)?;
        self.nand.hand_over()?;
        self.unlogged = false;
        self.tails.sync_began(upto);
        Ok(Some(Flush { upto, changed: self.changed }))
    }

    /// Ends a flush: the medium was synced after it began, and that succeeded.
    ///
    /// # Errors
    /// If the flash fails.
    #[expect(clippy::needless_pass_by_value, reason = "a flush ends once")]
    pub fn end_flush(&mut self, flush: Flush) -> Result<(), FtlError> {
        let Flush { upto, changed } = flush;
        self.became_durable(upto, changed);
        self.advance_erases(0)
    }

    pub(super) fn sync(&mut self) -> Result<(), FtlError> {
        let upto = self.seq - 1;
        self.journal.flush(&mut self.nand, self.durable)?;
        self.nand.sync()?;
        self.unlogged = false;
        self.became_durable(upto, self.changed);
        Ok(())
    }

    fn became_durable(&mut self, upto: u64, changed: u64) {
        assert!(upto < self.seq && changed < self.seq, "F14: what is durable has a number: {upto}");
        // Another sync may have covered more meanwhile.
        self.durable = upto.max(self.durable);
        self.synced = changed.max(self.synced);
        self.tails.synced(upto);
    }

    /// Makes everything that was acknowledged outlive this process. A power cut may undo it until
    /// the next flush.
    ///
    /// # Errors
    /// If the flash fails.
    pub fn hand_over(&mut self) -> Result<(), FtlError> {
        self.nand.hand_over()?;
        if std::mem::take(&mut self.unlogged) {
            self.journal.draft(&mut self.nand, self.durable)?;
        }
        Ok(())
    }

    /// Takes free blocks towards their next use, as far as that needs no sync: those that are void
    /// are erased, and records are made that others are void.
    fn advance_erases(&mut self, after: Nanos) -> Result<(), FtlError> {
        if self.config.erase_at_once <= 1 {
            return Ok(());
        }
        let (void, dead) = self.blocks.to_advance(self.durable, self.config.erase_at_once as usize);
        self.erase_free(&void, after)?;
        // The rest of the log is for those who cannot wait.
        if !self.journal.is_full() {
            for block in dead {
                self.record_void(block)?;
            }
        }
        Ok(())
    }

    /// Makes it durable that what the pages of free blocks say is void: an erase that is cut short
    /// leaves some of them behind.
    pub(super) fn void(&mut self, blocks: &[BlockId]) -> Result<(), FtlError> {
        // What made their pages dead must be durable first: a record that outlived the writes
        // before it would void the last copy of flushed data.
        let fresh: Vec<BlockId> =
            blocks.iter().copied().filter(|block| self.blocks.void_at(*block).is_none()).collect();
        if fresh.iter().any(|block| self.blocks.free_at(*block) > self.durable) {
            self.sync()?;
        }
        for block in fresh {
            self.record_void(block)?;
        }
        if blocks.iter().any(|block| self.blocks.void_at(*block).is_none_or(|at| at > self.durable)) {
            self.sync()?;
        }
        Ok(())
    }

    /// Sees to it that the log says which block is programmed next: recovery looks at no others. A
    /// block that was erased before the last checkpoint has no record in this log.
    pub(super) fn record_open(&mut self, block: BlockId) -> Result<(), FtlError> {
        if !self.blocks.is_recorded(block) {
            self.record_void(block)?;
            // It must outlive the process with the first page of the block.
            self.unlogged = true;
        }
        Ok(())
    }

    /// Records that what the pages of a free block say is void.
    fn record_void(&mut self, block: BlockId) -> Result<(), FtlError> {
        assert!(
            self.blocks.free_at(block) <= self.durable,
            "F11: pages are void on record when what made them dead is durable: {block}"
        );
        self.tails.void(block);
        let seq = self.next_seq();
        self.journal.record(&mut self.nand, Record::Erase { seq, block: block.0 }, self.durable)?;
        self.blocks.set_void(block, seq);
        Ok(())
    }
}
