//! The records of changes that tags cannot say: trims, merges, and checkpoints of the map.

mod checkpoint;
mod nand;
mod record;

pub use nand::NandJournal;

pub use checkpoint::Image;
pub(crate) use nand::Found;
pub use record::{LogPlace, Record};

use crate::chip::Nand;
use crate::ftl::error::FtlError;
use crate::ftl::tag::{Tag, Tails};

/// Keeps records and checkpoints.
pub trait Journal<N: Nand<Oob = Tag>> {
    /// Blocks at the start of the flash that are the journal's.
    fn reserved(&self) -> u32;

    /// Keeps a record of a fact; durable after [`Journal::flush`] and a sync.
    ///
    /// # Errors
    /// If the log cannot be written.
    fn record(&mut self, nand: &mut N, record: Record, durable: u64) -> Result<(), FtlError>;

    /// Programs what is not programmed of the log.
    ///
    /// # Errors
    /// If the log cannot be written.
    fn flush(&mut self, nand: &mut N, durable: u64) -> Result<(), FtlError>;

    /// Makes records that are not programmed yet outlive the process, though not a power cut.
    ///
    /// # Errors
    /// If the flash fails.
    fn draft(&mut self, nand: &mut N, durable: u64) -> Result<(), FtlError>;

    /// Programs a page of the log that says what is durable, whether there are records or not. It
    /// has a sequence number of its own, above those of all records so far, and names these pages.
    ///
    /// # Errors
    /// If the log cannot be written.
    fn mark(&mut self, nand: &mut N, seq: u64, durable: u64, tails: Tails) -> Result<(), FtlError>;

    /// Returns whether pages of the log have one copy only. [`Journal::mark`] and a checkpoint
    /// write the others.
    fn lags(&self) -> bool;

    /// Returns whether the log is so full that a checkpoint is due.
    fn is_full(&self) -> bool;

    /// Makes a checkpoint durable and begins a new log. Everything in the image is durable already.
    /// `go_on` is asked now and then; if it says no, the checkpoint is given up, and the one before
    /// stands with its log. Whether it was made.
    ///
    /// # Errors
    /// If the checkpoint cannot be written.
    fn checkpoint(
        &mut self,
        nand: &mut N,
        image: &Image<'_>,
        go_on: &mut dyn FnMut() -> bool,
    ) -> Result<bool, FtlError>;
}

/// Keeps nothing: for simulations without cuts of the power.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoJournal;

impl<N: Nand<Oob = Tag>> Journal<N> for NoJournal {
    fn reserved(&self) -> u32 {
        0
    }

    fn record(&mut self, _: &mut N, _: Record, _: u64) -> Result<(), FtlError> {
        Ok(())
    }

    fn flush(&mut self, _: &mut N, _: u64) -> Result<(), FtlError> {
        Ok(())
    }

    fn draft(&mut self, _: &mut N, _: u64) -> Result<(), FtlError> {
        Ok(())
    }

    fn mark(&mut self, _: &mut N, _: u64, _: u64, _: Tails) -> Result<(), FtlError> {
        Ok(())
    }

    fn lags(&self) -> bool {
        false
    }

    fn is_full(&self) -> bool {
        false
    }

    fn checkpoint(
        &mut self,
        _: &mut N,
        _: &Image<'_>,
        _: &mut dyn FnMut() -> bool,
    ) -> Result<bool, FtlError> {
        Ok(true)
    }
}
