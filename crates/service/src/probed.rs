//! Devices that have been opened, each with its location and its superblock.

use pumice_blockdev::BlockDevice;
use pumice_offload::{DriveId, Drives};
use pumice_raid::MemberRecord;
use pumice_raid::format::{ArrayFormat, Found};
use pumice_remote::RemoteNode;
use std::io;
use std::sync::Arc;

/// A structure of an array format on a device.
#[derive(Debug, Clone)]
pub struct Recognised {
    /// The format.
    pub format: &'static dyn ArrayFormat,
    /// Its structure.
    pub found: Found,
}

/// A device, and the array format that it is of.
pub struct Probed {
    /// Its name, as it was given.
    pub path: String,
    /// Its location.
    pub place: Place,
    /// The structure of an array format on it, if there is one.
    pub found: Option<Recognised>,
    /// The words for what it holds if there is none.
    pub holds: String,
}

/// Location of a device.
#[derive(Clone)]
pub enum Place {
    /// In this machine.
    Here(Arc<dyn BlockDevice>),
    /// A drive of a data node.
    There(Arc<RemoteNode>, DriveId),
}

impl Place {
    /// The device, if it is in this machine.
    #[must_use]
    pub const fn here(&self) -> Option<&Arc<dyn BlockDevice>> {
        match self {
            Self::Here(device) => Some(device),
            Self::There(..) => None,
        }
    }

    /// Its size in bytes.
    #[must_use]
    pub fn size_bytes(&self) -> u64 {
        match self {
            Self::Here(device) => device.size_bytes(),
            Self::There(node, drive) => {
                node.drives().iter().find(|known| known.id == *drive).map_or(0, |known| known.size_bytes)
            }
        }
    }

    /// Reads bytes of it.
    pub(crate) fn read(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        match self {
            Self::Here(device) => device.read_at(offset, buf).map_err(io::Error::other),
            Self::There(node, drive) => node.read(*drive, offset, buf).map_err(io::Error::other),
        }
    }
}

impl Probed {
    /// The device, if it is in this machine.
    #[must_use]
    pub const fn here(&self) -> Option<&Arc<dyn BlockDevice>> {
        self.place.here()
    }

    /// The records of md on it, if it has some.
    #[must_use]
    pub fn md(&self) -> Option<&MemberRecord> {
        self.found.as_ref()?.found.get()
    }
}

/// The nodes behind devices, each once.
#[must_use]
pub fn nodes_of<'p>(probed: impl IntoIterator<Item = &'p Probed>) -> Vec<Arc<RemoteNode>> {
    let mut nodes: Vec<Arc<RemoteNode>> = Vec::new();
    for device in probed {
        if let Place::There(node, _) = &device.place
            && !nodes.iter().any(|known| Arc::ptr_eq(known, node))
        {
            nodes.push(Arc::clone(node));
        }
    }
    nodes
}
