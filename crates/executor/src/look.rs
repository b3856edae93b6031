//! A look at the contents of the members: superblocks, heads and records of the stripe log,
//! bitmaps.

use crate::drive::MemberDrive;
use crate::error::OpenError;
use pumice_base::units::{Role, SECTOR};
use pumice_offload::{ErrorKind, NodeError};
use pumice_raid::bitmap::HEADER_BYTES;
use pumice_raid::foreign::strangers;
use pumice_raid::geometry::Geometry;
use pumice_raid::superblock::Superblock;
use pumice_raid::superblock::v1::{ROLE_FAULTY, ROLE_JOURNAL, ROLE_SPARE, V1};
use pumice_raid::{
    Known, MemberRecord, Metadata, ProbeError, ReadAt, Uuid, probe_at, probe_for, probe_together,
};
use pumice_volume::log::{HEAD_BYTES, HEADS, Head, LoggedBlocks, Region, newest_head, scan};
use pumice_volume::member::bad_blocks_of;
use pumice_volume::rows::BLOCK;
use pumice_volume::{MemberLook, MemberPlace};
use std::collections::BTreeMap;

/// Bytes of one read of a log.
const PIECE: u64 = 1 << 20;

/// A device with md's structures on it.
#[derive(Debug, Clone)]
pub struct Found {
    /// The device.
    pub drive: MemberDrive,
    /// The structures of md on it.
    pub record: MemberRecord,
    pub(crate) superblock: V1,
}

impl Found {
    /// The superblock, interpreted.
    #[must_use]
    pub const fn superblock(&self) -> &Superblock {
        &self.record.superblock
    }

    pub(crate) const fn events(&self) -> u64 {
        self.superblock.events
    }

    /// Its table of roles.
    pub(crate) fn table(&self) -> &[u16] {
        &self.superblock.dev_roles
    }

    /// Returns whether a table gives it a role.
    pub(crate) fn is_active(&self, table: &[u16]) -> bool {
        let role = table.get(self.superblock.dev_number as usize);
        role.is_some_and(|role| u32::from(*role) < self.superblock.raid_disks)
    }
}

/// Reads the superblocks of devices that are said to be members of one array. If their format is
/// known, only its place is looked at.
///
/// # Errors
/// If a device has none, it is of a kind that cannot be written, or which of several counts cannot
/// be told.
pub fn find_all(drives: &[MemberDrive], known: Known) -> Result<Vec<Found>, OpenError> {
    let devices: Vec<&dyn ReadAt> = drives.iter().map(|drive| drive as &dyn ReadAt).collect();
    let probed = match known.metadata {
        Some(metadata) => probe_at(&devices, metadata),
        None => probe_together(&devices, known),
    };
    drives.iter().zip(probed).map(|(drive, probed)| found(drive, probed)).collect()
}

/// The same of devices that an operator calls those of `array`.
pub(crate) fn all_of(
    drives: &[MemberDrive],
    array: Uuid,
    metadata: Option<Metadata>,
) -> Result<Vec<Found>, OpenError> {
    let found = find_all(drives, Known { array: Some(array), metadata })?;
    if let Some(other) = found.iter().find(|found| found.superblock().array_uuid != array) {
        let device = other.drive.name().to_owned();
        let (found, why) =
            (other.superblock().array_uuid.to_string(), "that is not the array that was named");
        return Err(OpenError::Field { device, field: "set_uuid", found, why });
    }
    Ok(found)
}

/// Reads the superblock of a device that is to be a member.
///
/// # Errors
/// As [`find_all`].
pub fn find(drive: &MemberDrive) -> Result<Found, OpenError> {
    find_known(drive, Known::default())
}

/// The same of a device of which something is known.
pub(crate) fn find_known(drive: &MemberDrive, known: Known) -> Result<Found, OpenError> {
    found(drive, probe_for(drive, known))
}

fn found(drive: &MemberDrive, probed: Result<Option<MemberRecord>, ProbeError>) -> Result<Found, OpenError> {
    let device = drive.name().to_owned();
    let probed = probed.map_err(|source| OpenError::Probe { device: device.clone(), source })?;
    let record = probed.ok_or_else(|| {
        let holds = pumice_raid::foreign::holds(drive);
        OpenError::NoSuperblock { device: device.clone(), holds }
    })?;
    let metadata = record.superblock.metadata;
    if metadata == Metadata::V0_90 {
        let why = "arrays with version 0.90 are not written";
        return Err(OpenError::Field { device, field: "metadata", found: metadata.to_string(), why });
    }
    let at = record.superblock.super_offset.get() * SECTOR;
    let room = (drive.bytes() - at).min(pumice_raid::superblock::v1::MAX_BYTES as u64);
    let bytes =
        drive.read(at, room).map_err(|source| OpenError::Device { device: device.clone(), source })?;
    let superblock =
        V1::decode(&bytes, metadata).map_err(|error| OpenError::Probe { device, source: error.into() })?;
    Ok(Found { drive: drive.clone(), record, superblock })
}

/// All devices of one array, by role.
#[derive(Debug)]
pub(crate) struct Survey {
    pub(crate) newest: Superblock,
    pub(crate) geometry: Geometry,
    /// Members that the newest superblock gives a role.
    pub(crate) members: BTreeMap<Role, Found>,
}

/// All members of a held volume, found again.
pub(crate) struct Back {
    pub(crate) survey: Survey,
    /// A node was started again: what its drives had not flushed may be lost.
    pub(crate) restarted: bool,
}

/// Checks that devices are members of one array that can be written, as far as that can be said
/// without their logs.
pub(crate) fn survey(found: Vec<Found>) -> Result<Survey, OpenError> {
    let newest = found.iter().max_by_key(|found| found.superblock.events).ok_or(OpenError::NoDevice)?;
    let table = newest.superblock.dev_roles.clone();
    let (superblock, name) = (newest.superblock().clone(), newest.drive.name().to_owned());
    if let Some(other) = found.iter().find(|f| f.superblock().array_uuid != superblock.array_uuid) {
        return Err(OpenError::TwoArrays {
            first: name,
            first_uuid: superblock.array_uuid.to_string(),
            second: other.drive.name().to_owned(),
            second_uuid: other.superblock().array_uuid.to_string(),
        });
    }
    let mut members: BTreeMap<Role, Found> = BTreeMap::new();
    for found in found {
        let device = found.drive.name().to_owned();
        check(&found, &device)?;
        let role = table.get(found.superblock.dev_number as usize).copied().unwrap_or(ROLE_SPARE);
        let what = match role {
            ROLE_SPARE => {
                Some(("spare", "spares are not kept up to date; leave it out, and add it when it is needed"))
            }
            ROLE_JOURNAL => Some(("journal", "arrays with a journal are not written")),
            ROLE_FAULTY => Some(("faulty", "the array goes on without it; leave it out, and add it anew")),
            _ => None,
        };
        if let Some((found, why)) = what {
            return Err(OpenError::Field { device, field: "role", found: found.to_owned(), why });
        }
        // Whoever wrote the superblocks last wrote the same on all members.
        if let Some((field, found, expected)) = found.superblock().disagreement(&superblock) {
            return Err(OpenError::Disagree { device, field, found, other: name, expected });
        }
        let role = Role(role);
        if let Some(first) = members.get(&role) {
            return Err(OpenError::SameRole { first: first.drive.name().to_owned(), second: device, role });
        }
        members.insert(role, found);
    }
    let geometry = superblock.geometry()?;
    let heads = members.iter().map(|(role, found)| {
        (*role, found.drive.name(), found.superblock(), found.record.foreign.as_slice())
    });
    if let Some(strangers) = strangers(heads, Some(&geometry)) {
        return Err(OpenError::Strangers(Box::new(strangers)));
    }
    Ok(Survey { newest: superblock, geometry, members })
}

pub(crate) fn check(found: &Found, device: &str) -> Result<(), OpenError> {
    let refuse =
        |field, found: String, why| Err(OpenError::Field { device: device.to_owned(), field, found, why });
    let sb = found.superblock();
    if sb.level.is_mirror() {
        return refuse("level", sb.level.number().to_string(), "only levels with parity are written");
    }
    if sb.reshape.is_some() {
        return refuse("feature_map", sb.features.to_string(), "a reshape is under way");
    }
    if sb.ppl.is_some() {
        return refuse(
            "feature_map",
            sb.features.to_string(),
            "arrays with a partial parity log are not written",
        );
    }
    let Some(bitmap) = &found.record.bitmap else {
        let why = "arrays without a bitmap are not written; mdadm --grow --bitmap=internal adds one";
        return refuse("bitmap", "none".to_owned(), why);
    };
    if bitmap.is_lockless() {
        return refuse("bitmap version", "6".to_owned(), "lockless bitmaps are not written");
    }
    if let Some(log) = sb.bad_block_log.filter(|log| log.shift != 0) {
        let why = "only bad-block logs that count in sectors are written";
        return refuse("bblog_shift", log.shift.to_string(), why);
    }
    check_blocks(&found.drive, sb.data_offset_bytes())
}

/// Checks that the rows of a data area can be written to a drive.
pub(crate) fn check_blocks(drive: &MemberDrive, data_offset: u64) -> Result<(), OpenError> {
    let block = u64::from(drive.block());
    let refuse = |field, found: u64, why| {
        Err(OpenError::Field { device: drive.name().to_owned(), field, found: found.to_string(), why })
    };
    if block > BLOCK {
        return refuse("logical block", block, "blocks of more than 4096 bytes cannot be written row by row");
    }
    if !data_offset.is_multiple_of(block) {
        return refuse("data_offset", data_offset, "the data area does not begin on a block of the drive");
    }
    Ok(())
}

/// Reads the head of a member's stripe log that counts, and with `records` those that it vouches
/// for.
fn read_log(
    found: &Found,
    role: Role,
    region: Region,
    records: bool,
) -> Result<(Option<Head>, Vec<LoggedBlocks>), NodeError> {
    let slots = found.drive.read(region.heads(), HEADS * HEAD_BYTES)?;
    let array = Uuid(found.superblock.set_uuid);
    let head = newest_head(&slots, array, role, region);
    let Some(head) = head.filter(|_| records) else { return Ok((head, Vec::new())) };
    let mut log = Vec::with_capacity(region.len as usize);
    while (log.len() as u64) < region.len {
        let done = log.len() as u64;
        log.extend(found.drive.read(region.start + done, PIECE.min(region.len - done))?);
    }
    Ok((Some(head), scan(&log, &head)))
}

/// Reads what assembly needs of one member. A sector of its stripe log that cannot be read is no
/// error: its log is none then.
///
/// # Errors
/// If the device does not answer, its bitmap cannot be read, or it has no room for a log.
pub(crate) fn look(found: &Found, role: Role, with_log: bool) -> Result<MemberLook, OpenError> {
    let drive = &found.drive;
    let device = || drive.name().to_owned();
    let read = |at, len| drive.read(at, len).map_err(|source| OpenError::Device { device: device(), source });
    let place = MemberPlace::of(found.superblock(), with_log)
        .map_err(|source| OpenError::NoRoom { device: device(), source })?;
    // Its head also without the log: it says who has the array open, and what waits there.
    let region = MemberPlace::of(found.superblock(), true).ok().and_then(|place| place.log);
    let (head, records) = match region.map(|region| read_log(found, role, region, with_log)) {
        None => (None, Vec::new()),
        Some(Ok(log)) => log,
        // The other head may be an old one, and records may be among what is lost: the log counts
        // for nothing, and assembly fails the member if there is a log at all.
        Some(Err(error)) if error.kind() == ErrorKind::Media => {
            tracing::warn!(member = %role, device = %device(), %error, "the stripe log cannot be read");
            (None, Vec::new())
        }
        Some(Err(source)) => return Err(OpenError::Device { device: device(), source }),
    };
    let bitmap = found.record.bitmap.clone();
    let bitmap_bytes = match (&bitmap, place.bitmap) {
        (Some(bitmap), Some(area)) => {
            let bits = HEADER_BYTES as u64 + bitmap.header().regions().div_ceil(8);
            read(area.start, bits.next_multiple_of(SECTOR).min(area.len))?
        }
        _ => Vec::new(),
    };
    let bad = bad_blocks_of(&found.record.bad_blocks, &place);
    Ok(MemberLook { superblock: found.superblock.clone(), place, head, records, bitmap, bitmap_bytes, bad })
}
