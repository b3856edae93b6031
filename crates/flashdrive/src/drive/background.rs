//! What a flash drive does besides commands: in idle time, and ahead of need.

use super::{FlashDrive, PAGE};
use crate::ahead::Ahead;
use pumice_blockdev::{Background, IoError, Operation};
use pumice_flash::Nand as _;
use pumice_ftl::FtlError;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Blocks that background work keeps free beyond those that garbage collection needs.
const FREE_AHEAD: u32 = 4;
/// Pages that are looked at for duplicates under one lock.
const LOOKS: u64 = 64;
/// How quiet it must be for a checkpoint that nothing else asks for.
const QUIET: Duration = Duration::from_secs(5);

impl FlashDrive {
    /// Collects a block before a write has to wait for that, unless another thread does so. The
    /// block is read without the lock.
    pub(super) fn collect_ahead(&self) -> Result<(), FtlError> {
        let Ok(_turn) = self.collecting.try_lock() else { return Ok(()) };
        let mut state = self.lock();
        let Some((block, pages)) = state.layer.next_victim() else { return Ok(()) };
        let erases = state.layer.nand().erases(block);
        drop(state);
        let ahead = Ahead::read(&self.medium, self.layout, &pages, &self.buffers);
        let mut state = self.lock();
        // Another may have collected it meanwhile, and it may be in use again.
        if state.layer.nand().erases(block) != erases {
            return Ok(());
        }
        if let Some(ahead) = ahead {
            state.layer.nand_mut().inner_mut().know(ahead);
        }
        state.layer.collect_block(block, 0)?;
        let number = self.medium.accepted();
        drop(state);
        self.carry(number)
    }
}

impl Background for FlashDrive {
    fn wanted(&self) -> u64 {
        let Ok(state) = self.state.try_lock() else { return 0 };
        if state.layer.needs_mark() {
            2 * PAGE as u64
        } else if state.layer.is_short(FREE_AHEAD) && !state.rested {
            // Half of the pages of a block are moved, at most: read and written.
            u64::from(self.layout.geometry().pages_per_block) * PAGE as u64
        } else if !state.rested {
            LOOKS * PAGE as u64
        } else if self.quiet() >= QUIET && state.layer.checkpoint_pays() {
            2 * 4 * u64::from(state.layer.map().logical())
        } else {
            0
        }
    }

    fn quiet(&self) -> Duration {
        self.opened.elapsed().saturating_sub(Duration::from_nanos(self.last.load(Ordering::Relaxed)))
    }

    fn work(&self, most: u64) -> Result<u64, IoError> {
        let fail = |error| self.error(Operation::Write, 0, 0, error);
        let mut guard = self.lock();
        let state = &mut *guard;
        let before = state.layer.stats();
        if state.layer.needs_mark() {
            state.layer.mark().map_err(fail)?;
            return Ok(2 * PAGE as u64);
        }
        let moved = state.layer.collect_ahead(0, FREE_AHEAD).map_err(fail)?;
        if !moved && !state.layer.erase_ahead(0).map_err(fail)? {
            if state.layer.waiting() > 0 {
                state.layer.idle(0, (most / PAGE as u64).clamp(1, LOOKS)).map_err(fail)?;
            } else if state.rested {
                state.layer.checkpoint().map_err(fail)?;
            } else {
                state.rested = true;
            }
        }
        self.show(state);
        let after = state.layer.stats();
        let pages = 2 * (after.copies - before.copies) + after.dedup_reads - before.dedup_reads;
        let footers = (after.erases - before.erases) * self.layout.footer_bytes() as u64;
        let number = self.medium.accepted();
        drop(guard);
        self.carry(number).map_err(fail)?;
        Ok(pages * PAGE as u64 + footers)
    }
}
