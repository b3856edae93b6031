//! A drive that is a member of a volume, or is to be one.

use pumice_offload::{DataNode, DriveId, NodeError};
use pumice_raid::ReadAt;
use std::io;
use std::sync::Arc;

/// Bytes at both ends of a device that must be zeros before it is taken without force.
const ENDS: u64 = 1 << 20;

/// The epoch of a node: it has another one after each start. `None` if it does not tell.
pub(crate) fn epoch(node: &dyn DataNode) -> Result<Option<u64>, NodeError> {
    node.presence().map(|presence| Ok(presence.hosts()?.epoch)).transpose()
}

/// A drive of a node.
#[derive(Clone)]
pub struct MemberDrive {
    name: String,
    node: Arc<dyn DataNode>,
    drive: DriveId,
    bytes: u64,
    block: u32,
}

impl std::fmt::Debug for MemberDrive {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MemberDrive").field("name", &self.name).field("drive", &self.drive).finish()
    }
}

impl MemberDrive {
    /// A drive under the name that its operator gave it. The node is asked for its size.
    ///
    /// # Errors
    /// If the node does not answer, or has no such drive.
    pub fn new(name: impl Into<String>, node: Arc<dyn DataNode>, drive: DriveId) -> Result<Self, NodeError> {
        let name = name.into();
        let described = node.describe()?.drives.into_iter().find(|described| described.id == drive);
        let described =
            described.ok_or_else(|| NodeError::invalid("drive", format!("{name}: no {drive}")))?;
        let (bytes, block) = (described.size_bytes, described.block_bytes);
        Ok(Self { name, node, drive, bytes, block })
    }

    /// The name that its operator gives it.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Bytes of its medium.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Bytes of its logical block.
    #[must_use]
    pub const fn block(&self) -> u32 {
        self.block
    }

    /// Its node.
    #[must_use]
    pub const fn node(&self) -> &Arc<dyn DataNode> {
        &self.node
    }

    /// Its number there.
    #[must_use]
    pub const fn id(&self) -> DriveId {
        self.drive
    }

    /// Returns whether both are one drive of one node, whatever they are called.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.node, &other.node) && self.drive == other.drive
    }

    pub(crate) fn read(&self, offset: u64, len: u64) -> Result<Vec<u8>, NodeError> {
        let mut bytes = vec![0; len as usize];
        self.node.read(self.drive, offset, &mut bytes)?;
        Ok(bytes)
    }

    /// The first byte that is not zero in its first and its last MiB: somebody's data begin or end
    /// there.
    pub(crate) fn first_not_zero(&self) -> Result<Option<u64>, NodeError> {
        let len = ENDS.min(self.bytes);
        for start in [0, self.bytes - len] {
            let bytes = self.read(start, len)?;
            if let Some(at) = bytes.iter().position(|byte| *byte != 0) {
                return Ok(Some(start + at as u64));
            }
        }
        Ok(None)
    }

    pub(crate) fn write(&self, offset: u64, bytes: &[u8]) -> Result<(), NodeError> {
        self.node.write(self.drive, offset, bytes)
    }

    pub(crate) fn zero(&self, offset: u64, len: u64) -> Result<(), NodeError> {
        self.node.zero(self.drive, offset, len)
    }

    pub(crate) fn flush(&self) -> Result<(), NodeError> {
        self.node.flush(self.drive)
    }
}

impl ReadAt for MemberDrive {
    fn size_bytes(&self) -> u64 {
        self.bytes
    }

    fn read_exact_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        self.node.read(self.drive, offset, buf).map_err(io::Error::other)
    }
}
