//! Devices that have been opened, each with its location and its superblock.

use pumice_blockdev::BlockDevice;
use pumice_offload::DriveId;
use pumice_raid::MemberRecord;
use pumice_remote::RemoteNode;
use std::sync::Arc;

/// A device and its superblock.
pub(crate) struct Probed {
    pub(crate) path: String,
    pub(crate) place: Place,
    pub(crate) record: Option<MemberRecord>,
}

/// Where a device is.
#[derive(Clone)]
pub(crate) enum Place {
    /// In this machine.
    Here(Arc<dyn BlockDevice>),
    /// A drive of a data node.
    There(Arc<RemoteNode>, DriveId),
}

impl Place {
    /// The device, if it is in this machine.
    pub(crate) const fn here(&self) -> Option<&Arc<dyn BlockDevice>> {
        match self {
            Self::Here(device) => Some(device),
            Self::There(..) => None,
        }
    }
}

impl Probed {
    /// The device, if it is in this machine.
    pub(crate) const fn here(&self) -> Option<&Arc<dyn BlockDevice>> {
        self.place.here()
    }
}

/// The nodes behind devices, each once.
pub(crate) fn nodes_of(probed: &[Probed]) -> Vec<Arc<RemoteNode>> {
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
