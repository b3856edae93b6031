//! Reasons why a drive cannot be opened, formatted or checked.

use crate::device::layout::LayoutError;
use crate::device::superblock::SuperblockError;
use crate::ftl::FtlError;
use pumice_blockdev::IoError;
use std::io;
use thiserror::Error;

/// Reasons why a drive cannot be opened, formatted or checked.
#[derive(Debug, Error)]
pub enum FlashError {
    /// The file or device cannot be opened, read or written.
    #[error(transparent)]
    Io(#[from] IoError),
    /// The same, of a path.
    #[error("{path}: {source}")]
    Path {
        /// The path.
        path: String,
        /// The reason.
        source: io::Error,
    },
    /// There is no superblock that can be used.
    #[error("{path}: {source}")]
    Superblock {
        /// The path.
        path: String,
        /// The problem with it.
        source: SuperblockError,
    },
    /// The superblock at the start is lost, and its copy is there.
    #[error("{0}: the superblock is lost; `pumice flash check --repair` restores it from its copy")]
    CopyLeft(String),
    /// The file or device is smaller than its superblock says.
    #[error("{path}: it has {has} bytes, and the drive needs {needs}")]
    Short {
        /// The path.
        path: String,
        /// Bytes that there are.
        has: u64,
        /// Bytes that are needed.
        needs: u64,
    },
    /// The file system has no room for a new drive.
    #[error("{path}: the file system has {has} free bytes, and the drive needs {needs}")]
    NoRoom {
        /// The path.
        path: String,
        /// Bytes that there are.
        has: u64,
        /// Bytes that are needed.
        needs: u64,
    },
    /// The drive cannot be recovered.
    #[error("{path}: {source}{}", hint(source))]
    Ftl {
        /// The path.
        path: String,
        /// The reason.
        source: FtlError,
    },
    /// The setting that is asked for is not that of the drive.
    #[error("{path}: {field}: the drive has {has}, and {asked} is asked for")]
    Differs {
        /// The path.
        path: String,
        /// The field that differs.
        field: &'static str,
        /// The value of the drive.
        has: String,
        /// The value that is asked for.
        asked: String,
    },
    /// A drive cannot be laid out so.
    #[error("{path}: {source}")]
    Layout {
        /// The path.
        path: String,
        /// The reason.
        source: LayoutError,
    },
    /// A capacity is needed to make a drive.
    #[error("{0}: capacity: it is needed to make a drive")]
    NoCapacity(String),
    /// The place is not empty.
    #[error("{0}: it is not empty; `pumice flash format --overwrite` destroys what it holds")]
    NotEmpty(String),
    /// Somebody has it open for writing.
    #[error("{0}: another program has it open for writing")]
    InUse(String),
    /// A part of what names a drive.
    #[error("{field}: {why}")]
    Field {
        /// The field.
        field: &'static str,
        /// The problem with it.
        why: String,
    },
}

/// The advice to the operator, where there is some.
const fn hint(error: &FtlError) -> &'static str {
    match error {
        FtlError::TagLost(_) | FtlError::ContentLost(_) => "; `pumice flash check` lists all that is lost",
        _ => "",
    }
}
