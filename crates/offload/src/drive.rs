//! Drives of a node, and places that could not be read.

use pumice_protect::guard::Guard;
use std::fmt;

/// A drive of a node, counted from 1 as NVMe counts namespaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct DriveId(pub u32);

impl fmt::Display for DriveId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "drive {}", self.0)
    }
}

/// A drive as its node describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DriveDescription {
    /// Its number on the node.
    pub id: DriveId,
    /// Its name for operators: a path, or a network address.
    pub name: String,
    /// The size of its medium in bytes.
    pub size_bytes: u64,
    /// The size of its local memory in bytes.
    pub memory_bytes: u64,
    /// Bytes of a logical block: the smallest unit that its medium reads and writes.
    pub block_bytes: u32,
    /// The guard of its tags, which lie beside each logical block; `None` if it has no tags.
    pub tags: Option<Guard>,
}

/// A node's description of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeDescription {
    /// The node's name, by which other nodes address transfers to it.
    pub name: String,
    /// Its drives, in the order of their numbers.
    pub drives: Vec<DriveDescription>,
}

/// One piece of a gathered read: its place on a drive, and in the buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Piece {
    /// The drive to read.
    pub drive: DriveId,
    /// Byte offset on its medium.
    pub offset: u64,
    /// Byte offset in the buffer.
    pub at: usize,
    /// Bytes to read.
    pub len: usize,
}

/// A range of a drive's medium.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DriveRange {
    /// The drive.
    pub drive: DriveId,
    /// First byte.
    pub offset: u64,
    /// Bytes.
    pub len: u64,
}

/// A piece of a gathered read that the medium refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PieceFailure {
    /// Index into the pieces of the read.
    pub piece: usize,
    /// The drive's error text.
    pub reason: String,
}
