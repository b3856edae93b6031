//! Devices that have been opened, each with its location and its superblock.

use crate::failure::Failure;
use pumice_blockdev::BlockDevice;
use pumice_offload::DriveId;
use pumice_raid::{MemberRecord, ProbeError};
use pumice_remote::RemoteNode;
use std::sync::Arc;

/// A device and its superblock.
pub struct Probed {
    /// Its name, as it was given.
    pub path: String,
    /// Its location.
    pub place: Place,
    /// Its superblock; `None` if it has none, or if that was taken to assemble an array.
    pub record: Option<MemberRecord>,
    /// The words for what it holds if it has no superblock.
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
}

impl Probed {
    /// The device, if it is in this machine.
    #[must_use]
    pub const fn here(&self) -> Option<&Arc<dyn BlockDevice>> {
        self.place.here()
    }
}

/// The nodes behind devices, each once.
#[must_use]
pub fn nodes_of(probed: &[Probed]) -> Vec<Arc<RemoteNode>> {
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

/// Advice for a member that has been cut short; empty where the error is another one.
pub(crate) fn advice(error: &ProbeError) -> &'static str {
    match error {
        ProbeError::Invalid(invalid) if invalid.field == "data_size" => {
            "; to check the others, leave it out and give --degraded"
        }
        _ => "",
    }
}

/// Takes the records of devices that are all members of an array.
///
/// # Errors
/// If a device has no superblock.
pub fn records(probed: &mut [Probed]) -> Result<Vec<(String, MemberRecord)>, Failure> {
    let mut records = Vec::new();
    let some_have_one = probed.iter().any(|device| device.record.is_some());
    for probed in probed {
        let record = probed.record.take().ok_or_else(|| {
            // That of version 0.90 or 1.0 is at the end, and missing where the end is.
            let advice = match some_have_one {
                true => "; leave it out, with --degraded if it is a member whose end was cut off",
                false => "",
            };
            Failure::new(format!("{}: no md superblock{}{advice}", probed.path, probed.holds))
        })?;
        records.push((probed.path.clone(), record));
    }
    Ok(records)
}
