//! Failures of flash.

use crate::chip::{BlockId, Ppn};
use thiserror::Error;

/// Failure of an operation of the flash.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum NandError {
    /// The power is gone; nothing works until it is back.
    #[error("the flash has no power")]
    PowerLost,
    /// A page could not be programmed. Its content is undefined; other pages of the block still
    /// read.
    #[error("page {0} could not be programmed")]
    ProgramFailed(Ppn),
    /// A block could not be erased. It must not be programmed again.
    #[error("block {0} could not be erased")]
    EraseFailed(BlockId),
    /// A page holds data that cannot be read, or that do not fit their checksum.
    #[error("page {0} cannot be read")]
    Unreadable(Ppn),
    /// A page is erased.
    #[error("page {0} is erased")]
    Erased(Ppn),
    /// A page was programmed out of order, or twice without an erase between.
    #[error("page {0} cannot be programmed now: pages are programmed in order, once after an erase")]
    Order(Ppn),
    /// The medium behind the flash failed: it cannot be read now, or takes no more writes.
    #[error("the medium behind the flash failed")]
    Failed,
    /// No such page or block.
    #[error("page {0} does not exist")]
    OutOfRange(Ppn),
}
