//! Reading superblocks through a node, so that members on a network are found like those of this
//! machine.

use pumice_offload::{DataNode, DriveId};
use pumice_raid::ReadAt;
use std::io;

/// A drive of a node, as the parser of superblocks reads it.
pub struct DriveReader<'n> {
    node: &'n dyn DataNode,
    drive: DriveId,
    size: u64,
}

impl<'n> DriveReader<'n> {
    /// A drive of `size` bytes.
    #[must_use]
    pub fn new(node: &'n dyn DataNode, drive: DriveId, size: u64) -> Self {
        Self { node, drive, size }
    }
}

impl ReadAt for DriveReader<'_> {
    fn size_bytes(&self) -> u64 {
        self.size
    }

    fn read_exact_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        self.node.read(self.drive, offset, buf).map_err(io::Error::other)
    }
}
