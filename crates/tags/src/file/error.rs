//! The errors of opening a tag file.

use crate::evidence::Evidence;
use crate::header::BadHeader;
use crate::kept::KeptError;
use crate::record::BadRecord;
use pumice_base::durable::RingError;
use pumice_blockdev::IoError;
use std::io;
use thiserror::Error;

/// The way out of a damaged log.
const WAY_OUT: &str = "; `pumice protect DRIVE --off --force` removes the tags; then adopt the drive again";

/// The same if it is the log that is damaged.
const fn way_out(error: &RingError) -> &'static str {
    if matches!(error, RingError::Damaged(_)) { WAY_OUT } else { "" }
}

/// The reasons why a tag file cannot be used.
#[derive(Debug, Error)]
pub enum TagError {
    /// The medium failed.
    #[error(transparent)]
    Medium(#[from] io::Error),
    /// The log.
    #[error("{0}{way}", way = way_out(.0))]
    Log(#[from] RingError),
    /// A record of the log.
    #[error("{0}{WAY_OUT}")]
    Record(#[from] BadRecord),
    /// A kept block.
    #[error(transparent)]
    Kept(#[from] KeptError),
    /// The header.
    #[error("header: {0}")]
    Header(#[from] BadHeader),
    /// It ends too early: it was cut off, or copied in part.
    #[error("it has {has} bytes, but its header describes {needs}")]
    Short {
        /// Bytes that it has.
        has: u64,
        /// Bytes that its parts take.
        needs: u64,
    },
    /// It belongs to another drive.
    #[error("{field}: the tags belong to a drive with {tags}, but this one has {drive}")]
    OtherDrive {
        /// The field that differs.
        field: &'static str,
        /// The value in the tag file.
        tags: String,
        /// The value of the drive.
        drive: String,
    },
    /// The tags are stale. Nothing was written.
    #[error("the tags are stale: {0}; nothing was written")]
    Stale(Box<Evidence>),
    /// It was not closed, and its log holds blocks.
    #[error("the tags were not closed; start the node, or `pumice protect` the drive, to recover them")]
    NotClosed,
    /// The drive failed.
    #[error(transparent)]
    Drive(#[from] IoError),
}

/// The treatment of a drive whose tags are [stale](Evidence).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnStale {
    /// It is not opened, and nothing is written.
    #[default]
    Fail,
    /// It is served; nothing is refused, and the log is not written to it.
    Serve,
    /// Blocks that differ are refused, and the log is not written to it.
    Refuse,
    /// An operator says that they are not.
    Believe,
}

/// Counts of the blocks of a drive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Census {
    /// Blocks by origin, in the order of [`Origin::ALL`](crate::page::Origin::ALL).
    pub origins: [u64; 4],
    /// Pages that are lost.
    pub lost_pages: u64,
    /// Blocks that are kept.
    pub kept: u64,
    /// Damaged places for kept blocks.
    pub damaged_kept: u64,
}

/// The report of opening a tag file.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Recovered {
    /// True if the log was read: after a clean close it need not be.
    pub log_read: bool,
    /// Blocks in the log.
    pub logged: u64,
    /// Blocks that were torn, and written again from the log. Their earlier contents are kept.
    pub rewritten: Vec<u64>,
    /// Blocks that are damaged: they will be refused.
    pub damaged: Vec<u64>,
    /// Number of them that are torn, and were not written again because there was no room to keep
    /// their contents.
    pub not_kept: u64,
    /// Blocks that match nothing, and were left as they are because the tags are stale. The newest
    /// of the log is kept for each, if there was room.
    pub left: Vec<u64>,
    /// The evidence about the tags, if they are stale.
    pub stale: Option<Evidence>,
    /// Blocks that could not be read.
    pub unreadable: Vec<u64>,
    /// Pages that are lost, of those that were needed.
    pub lost_pages: Vec<u64>,
}
