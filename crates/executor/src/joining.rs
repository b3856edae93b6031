//! A device that is to take an empty role.

use crate::drive::MemberDrive;
use crate::error::OpenError;
use crate::look::{check, check_blocks, find_known};
use crate::random::{random, random_uuid};
use crate::state::{Consistency, ControlError, Facts};
use pumice_base::units::{Role, SECTOR};
use pumice_offload::NodeError;
use pumice_raid::superblock::v1::{ROLE_FAULTY, ROLE_SPARE, V1};
use pumice_raid::{MemberRecord, Metadata, probe_for};
use pumice_volume::log::{HEAD_BYTES, HEADS, highest_serial};
use pumice_volume::member::bad_blocks_of;
use pumice_volume::near::NodeNumber;
use pumice_volume::{Event, MemberPlace};
use std::collections::BTreeSet;

/// A device that was checked, and the superblock that it gets.
pub(crate) struct Joining {
    pub(crate) drive: MemberDrive,
    superblock: V1,
    place: MemberPlace,
    nonce: u64,
    serial: u64,
    /// It was a member of the array before: its bad blocks.
    kept: Option<BTreeSet<u64>>,
    /// The device_uuid that lies on it, if that is a device of this array.
    pub(crate) lies_there: Option<[u8; 16]>,
}

/// The reason why an array takes no more devices.
pub(crate) const NO_NUMBER: &str = "max_dev: the array has no number left for it";

/// Works out a new member's superblock from one that is in sync. `like` is read from the medium;
/// `member_on` says which member of the volume is on a drive, or has a device_uuid.
pub(crate) fn prepare(
    drive: MemberDrive,
    like: &MemberDrive,
    facts: &Facts,
    force: bool,
    member_on: impl FnOnce(&MemberDrive, Option<[u8; 16]>) -> Result<Option<Role>, ControlError>,
) -> Result<Joining, ControlError> {
    let device = drive.name().to_owned();
    let refuse = |why: String| ControlError::Device { device: device.clone(), why };
    let model = find_known(like, facts.known()).map_err(|error| refuse(error.to_string()))?;
    let found = probe_for(&drive, facts.known()).map_err(|error| refuse(error.to_string()));
    let ours = |record: &&MemberRecord| record.superblock.array_uuid == model.superblock().array_uuid;
    let ours = found.as_ref().ok().and_then(Option::as_ref).filter(ours);
    let lies_there = ours.and_then(|record| record.superblock.device_uuid).map(|uuid| uuid.0);
    if let Some(role) = member_on(&drive, lies_there)? {
        return Err(ControlError::IsMember { device, role });
    }
    let found = found?;
    let array = found.as_ref().map(|record| record.superblock.array_uuid);
    if !force && array == Some(model.superblock().array_uuid) {
        return former(drive, facts);
    }
    is_free(&drive, found.as_ref(), facts, force).map_err(refuse)?;
    check_block_size(&drive, facts).map_err(refuse)?;
    check_blocks(&drive, model.superblock().data_offset_bytes()).map_err(|error| refuse(why(error)))?;
    let superblock = superblock_like(&model.superblock, &drive, facts.metadata).map_err(refuse)?;
    let read = superblock.interpret(facts.metadata, drive.bytes() / SECTOR);
    let read = read.map_err(|error| refuse(error.to_string()))?;
    let with_log = facts.consistency == Consistency::Log;
    let place = MemberPlace::of(&read, with_log).map_err(|error| refuse(error.to_string()))?;
    let serial = serial_on(&drive, &place).map_err(|error| refuse(error.to_string()))?;
    Ok(Joining { drive, superblock, place, nonce: random(), serial, kept: None, lies_there })
}

/// Refuses a device with something on it that matters, unless `force` says that it does not.
fn is_free(
    drive: &MemberDrive,
    found: Option<&MemberRecord>,
    facts: &Facts,
    force: bool,
) -> Result<(), String> {
    match found {
        None if force => Ok(()),
        None => match drive.first_not_zero().map_err(|error| error.to_string())? {
            Some(at) => Err(format!("byte {at} is not zero; --force takes it all the same")),
            None => Ok(()),
        },
        Some(record) if !force => {
            let array = record.superblock.array_uuid;
            Err(format!("set_uuid is {array}: it is a member of an array; --force takes it all the same"))
        }
        Some(record) if record.superblock.metadata != facts.metadata => {
            let old = record.superblock.metadata;
            Err(format!("a superblock of version {old} lies elsewhere on it; remove that first"))
        }
        Some(_) => Ok(()),
    }
}

/// The superblock of a new member, like that of one in sync.
fn superblock_like(model: &V1, drive: &MemberDrive, metadata: Metadata) -> Result<V1, String> {
    let mut superblock = model.clone();
    let sectors = drive.bytes() / SECTOR;
    let place = metadata.super_sector(sectors).ok_or_else(|| "it is too small".to_owned())?;
    superblock.super_offset = place;
    superblock.data_size = match metadata {
        Metadata::V1_0 => place.saturating_sub(model.super_offset.saturating_sub(model.data_size)),
        _ => sectors.saturating_sub(superblock.data_offset),
    };
    if superblock.data_size < superblock.size {
        let needed = (superblock.size + superblock.data_offset) * SECTOR;
        return Err(format!("it has {} bytes, and a member needs {needed}", drive.bytes()));
    }
    let first = |entry: u16| superblock.dev_roles.iter().position(|role| *role == entry);
    let number = first(ROLE_SPARE).or_else(|| first(ROLE_FAULTY)).ok_or_else(|| NO_NUMBER.to_owned())?;
    // It fits for now; when it joins the volume gives it one that no other device has by then.
    // A position in a table of at most 1920.
    superblock.dev_number = number as u32;
    superblock.device_uuid = random_uuid().0;
    superblock.corrected_reads = 0;
    Ok(superblock)
}

/// The volume's logical block, which its users know, would grow with that of a member.
fn check_block_size(drive: &MemberDrive, facts: &Facts) -> Result<(), String> {
    let (block, most) = (drive.block(), facts.block);
    if block <= most {
        return Ok(());
    }
    Err(format!("its logical block is {block} bytes, and that of the volume {most}"))
}

/// The reason alone: who asked names the device.
fn why(error: OpenError) -> String {
    match error {
        OpenError::Field { field, found, why, .. } => format!("{field} is {found}: {why}"),
        OpenError::Probe { source, .. } => source.to_string(),
        OpenError::Device { source, .. } => source.to_string(),
        other => other.to_string(),
    }
}

/// The highest serial of a head of a stripe log on a device.
fn serial_on(drive: &MemberDrive, place: &MemberPlace) -> Result<u64, NodeError> {
    let Some(region) = place.log else { return Ok(0) };
    Ok(highest_serial(&drive.read(region.heads(), HEADS * HEAD_BYTES)?))
}

/// A device that carries a superblock of this array. Whether it can come back as it is, the volume
/// says.
fn former(drive: MemberDrive, facts: &Facts) -> Result<Joining, ControlError> {
    let refuse = |why: String| ControlError::Device { device: drive.name().to_owned(), why };
    let found = find_known(&drive, facts.known()).map_err(|error| refuse(why(error)))?;
    check_block_size(&drive, facts).map_err(refuse)?;
    check(&found, drive.name()).map_err(|error| refuse(why(error)))?;
    let (metadata, own) = (found.record.metadata(), facts.metadata);
    if metadata != own {
        return Err(refuse(format!("metadata is {metadata}, and that of the volume {own}")));
    }
    let with_log = facts.consistency == Consistency::Log;
    let place = MemberPlace::of(found.superblock(), with_log).map_err(|error| refuse(error.to_string()))?;
    let serial = serial_on(&drive, &place).map_err(|error| refuse(error.to_string()))?;
    let kept = Some(bad_blocks_of(&found.record.bad_blocks, &place));
    let lies_there = Some(found.superblock.device_uuid);
    Ok(Joining { superblock: found.superblock, place, nonce: random(), serial, kept, drive, lies_there })
}

impl Joining {
    /// The superblock that lies on it, if it was a member of the array before.
    pub(crate) fn former(&self) -> Option<&V1> {
        self.kept.as_ref().map(|_| &self.superblock)
    }

    /// The reason why it is refused if it cannot come back as it is.
    pub(crate) fn stale(&self) -> ControlError {
        let what = "set_uuid is this array's, and it cannot come back as it is";
        let why = format!("{what}; --force takes it as a new one");
        ControlError::Device { device: self.drive.name().to_owned(), why }
    }

    /// `node`: the device's, if it makes parity for the volume.
    pub(crate) fn event(self, role: Role, node: Option<NodeNumber>) -> Event {
        let Self { superblock, place, nonce, serial, kept, .. } = self;
        Event::Join { role, superblock: Box::new(superblock), place, nonce, serial, node, kept }
    }
}
