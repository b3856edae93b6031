//! Reasons why the translation layer could not do as it was told.

use crate::chip::{NandError, Ppn};
use thiserror::Error;

/// Reasons why an operation of the drive failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum FtlError {
    /// The flash failed in a way that the translation layer cannot hide.
    #[error(transparent)]
    Nand(#[from] NandError),
    /// No such logical page.
    #[error("logical page {0} does not exist")]
    OutOfRange(u32),
    /// The data of a logical page cannot be read.
    #[error("logical page {lpn}: the data in page {page} are damaged")]
    Damaged {
        /// The logical page.
        lpn: u32,
        /// The place of its data.
        page: Ppn,
    },
    /// A page holds data of another logical page than the map says.
    #[error("logical page {lpn}: page {page} holds other data than the map says")]
    Misplaced {
        /// The logical page.
        lpn: u32,
        /// The place where its data should be.
        page: Ppn,
    },
    /// Too many blocks were retired.
    #[error("no room: too many blocks had to be retired")]
    NoRoom,
    /// The geometry has too few blocks for the logical pages.
    #[error("{have} blocks are too few for {logical} logical pages: at least {need} are needed")]
    TooSmall {
        /// Logical pages.
        logical: u32,
        /// Blocks there are.
        have: u32,
        /// Blocks that are needed.
        need: u32,
    },
    /// More pages than numbers for them.
    #[error("more than 2^31 - 1 pages")]
    TooLarge,
    /// The flash has no valid checkpoint of a drive of this shape.
    #[error("the flash has no valid checkpoint of such a drive")]
    NoCheckpoint,
    /// A page of the log that was durable cannot be read.
    #[error("page {0} of the log was durable and cannot be read")]
    LogDamaged(u32),
    /// A checkpoint is damaged, and so is the one before it or its log.
    #[error("checkpoint {0} cannot be read, and none from which its log could be followed")]
    CheckpointLost(u64),
    /// A page that was durable lost its tag: it is not known which logical page it belongs to.
    #[error("page {0} was durable and its tag cannot be read")]
    TagLost(Ppn),
    /// The page that held the content of a logical page is void, and what came after it cannot be
    /// found; or the page that it shared is lost.
    #[error("logical page {0}: its content was replaced, and what replaced it cannot be found")]
    ContentLost(u32),
    /// The journal could not be written: no block of it works.
    #[error("the journal cannot be written")]
    JournalFailed,
}
