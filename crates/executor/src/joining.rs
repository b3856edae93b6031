//! A device that is to take an empty role.

use crate::drive::MemberDrive;
use crate::state::ControlError;
use pumice_raid::Uuid;
use pumice_raid::superblock::v1::{ROLE_SPARE, V1};
use pumice_raid::{Metadata, probe};
use pumice_units::{Role, SECTOR};
use pumice_volume::log::{HEAD_BYTES, HEADS, highest_serial};
use pumice_volume::near::NodeNumber;
use pumice_volume::{Event, MemberPlace};

/// A device that was checked, and the superblock that it gets.
pub(crate) struct Joining {
    pub(crate) drive: MemberDrive,
    superblock: V1,
    place: MemberPlace,
    nonce: u64,
    serial: u64,
}

/// Why an array takes no more devices.
pub(crate) const NO_NUMBER: &str = "max_dev: the array has no number left for it";

/// Works out a new member's superblock from one that is in sync. `like` is read from the medium.
pub(crate) fn prepare(
    drive: MemberDrive,
    like: &MemberDrive,
    metadata: Metadata,
    with_log: bool,
    force: bool,
) -> Result<Joining, ControlError> {
    let device = drive.name().to_owned();
    let refuse = |why: String| ControlError::Device { device: device.clone(), why };
    let found = probe(&drive).map_err(|error| refuse(error.to_string()));
    match found {
        Ok(None) => {}
        Ok(Some(record)) if !force => {
            let array = record.superblock.array_uuid;
            return Err(refuse(format!(
                "set_uuid is {array}: it is a member of an array; --force takes it all the same"
            )));
        }
        Ok(Some(record)) if record.superblock.metadata != metadata => {
            let old = record.superblock.metadata;
            return Err(refuse(format!(
                "a superblock of version {old} lies elsewhere on it; remove that first"
            )));
        }
        Err(error) => return Err(error),
        Ok(Some(_)) => {}
    }
    let model = crate::look::find(like).map_err(|error| refuse(error.to_string()))?;
    let mut superblock = model.superblock.clone();
    let sectors = drive.bytes() / SECTOR;
    let place = metadata.super_sector(sectors).ok_or_else(|| refuse("it is too small".to_owned()))?;
    superblock.super_offset = place;
    superblock.data_size = match metadata {
        Metadata::V1_0 => {
            place.saturating_sub(model.superblock.super_offset.saturating_sub(model.superblock.data_size))
        }
        _ => sectors.saturating_sub(superblock.data_offset),
    };
    if superblock.data_size < superblock.size {
        let needed = (superblock.size + superblock.data_offset) * SECTOR;
        return Err(refuse(format!("it has {} bytes, and a member needs {needed}", drive.bytes())));
    }
    let number = superblock.dev_roles.iter().position(|role| *role == ROLE_SPARE);
    let number = number.ok_or_else(|| refuse(NO_NUMBER.to_owned()))?;
    // It fits for now; when it joins the volume gives it one that no other device has by then.
    // A position in a table of at most 1920.
    superblock.dev_number = number as u32;
    superblock.device_uuid = random_uuid().0;
    superblock.corrected_reads = 0;
    let read = superblock.interpret(metadata, sectors).map_err(|error| refuse(error.to_string()))?;
    let place = MemberPlace::of(&read, with_log).map_err(|error| refuse(error.to_string()))?;
    let serial = match place.log {
        Some(region) => {
            let slots = drive.read(region.heads(), HEADS * HEAD_BYTES);
            highest_serial(&slots.map_err(|error| refuse(error.to_string()))?)
        }
        None => 0,
    };
    Ok(Joining { drive, superblock, place, nonce: random(), serial })
}

impl Joining {
    /// `node`: the device's, if it makes parity for the volume.
    pub(crate) fn event(self, role: Role, node: Option<NodeNumber>) -> Event {
        let Self { superblock, place, nonce, serial, .. } = self;
        Event::Join { role, superblock: Box::new(superblock), place, nonce, serial, node }
    }
}

/// 64 bits that nobody can guess: the standard library's hasher is keyed by the system.
pub(crate) fn random() -> u64 {
    std::hash::BuildHasher::hash_one(&std::hash::RandomState::new(), std::time::Instant::now())
}

/// A UUID of version 4.
pub(crate) fn random_uuid() -> Uuid {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&random().to_le_bytes());
    bytes[8..].copy_from_slice(&random().to_le_bytes());
    bytes[6] = bytes[6] & 0x0F | 0x40;
    bytes[8] = bytes[8] & 0x3F | 0x80;
    Uuid(bytes)
}
