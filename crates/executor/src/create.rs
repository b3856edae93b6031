//! A new volume on new members.

use crate::drive::MemberDrive;
use crate::random::random_uuid;
use pumice_base::units::SECTOR;
use pumice_offload::{DriveRange, NodeError};
use pumice_raid::layout::{Layout, Level};
use pumice_raid::writer::{Format, FormatError};
use pumice_raid::{FormatSpec, Metadata, ProbeError, Uuid, probe};
use pumice_volume::MemberPlace;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;

/// Bytes that are kept for the stripe log on members that are not small.
const LOG_BYTES: u64 = 16 << 20;
/// The same on small ones.
const SMALL_LOG_BYTES: u64 = 2 << 20;
/// Members below this are small.
const SMALL: u64 = 1 << 30;
/// Bytes of a drive that are made zeros by one call: enough for a drive to be busy while the next
/// call is on its way.
const PIECE: u64 = 16 << 20;

/// The description of a new volume.
#[derive(Debug, Clone)]
pub struct CreateSpec {
    /// The level.
    pub level: Level,
    /// The layout; `None` for RAID-4.
    pub layout: Option<Layout>,
    /// Bytes of a chunk.
    pub chunk_bytes: u64,
    /// Its name, at most 32 bytes.
    pub name: String,
    /// Bytes of each member that hold data; `None` for as many as there are before the places of
    /// superblocks of other versions at the end of the device.
    pub component_bytes: Option<u64>,
    /// Seconds since 1970.
    pub now: u64,
    /// Contents of the devices do not matter.
    pub force: bool,
    /// With a place for the stripe log.
    pub log: bool,
}

/// Reasons why a volume cannot be created.
#[derive(Debug, thiserror::Error)]
pub enum CreateError {
    /// A field of what was asked for makes no sense.
    #[error(transparent)]
    Format(#[from] FormatError),
    /// A device does not answer, or fails.
    #[error("{device}: {source}")]
    Device {
        /// The device.
        device: String,
        /// The reason.
        source: NodeError,
    },
    /// A device carries a superblock.
    #[error("{device}: set_uuid is {array}: it is a member of an array; --force takes it all the same")]
    Member {
        /// The device.
        device: String,
        /// The array.
        array: Uuid,
    },
    /// md's structures on a device cannot be made out.
    #[error("{device}: {source}; --force takes it all the same")]
    Probe {
        /// The device.
        device: String,
        /// The reason.
        source: ProbeError,
    },
    /// A device holds something.
    #[error("{device}: byte {at} is not zero: it may hold data; --force takes it all the same")]
    NotEmpty {
        /// The device.
        device: String,
        /// The first byte that is not zero.
        at: u64,
    },
    /// There is no room for md's structures and the stripe log.
    #[error("{device}: {why}")]
    NoRoom {
        /// The device.
        device: String,
        /// The field that is missing or wrong.
        why: String,
    },
}

/// Makes a volume of drives in the order of their roles: zeros everywhere, then md's structures.
/// Returns the array's UUID. `progress` is told how many bytes are done, of how many.
///
/// Everything is checked before the first byte is written. The superblocks come last: until then
/// the devices are members of nothing.
///
/// # Errors
/// If the volume cannot be as asked for, or a device fails or holds something.
pub fn create(
    drives: &[MemberDrive],
    spec: &CreateSpec,
    mut progress: impl FnMut(u64, u64),
) -> Result<Uuid, CreateError> {
    let array_uuid = random_uuid();
    let smallest = drives.iter().map(MemberDrive::bytes).min().unwrap_or(0);
    let log = match (spec.log, smallest < SMALL) {
        (false, _) => 0,
        (true, true) => SMALL_LOG_BYTES,
        (true, false) => LOG_BYTES,
    };
    // What md places before the data takes some hundred KiB.
    let structures = 1 << 20;
    for drive in drives {
        let (bytes, least) = (drive.bytes(), structures + log);
        if bytes <= least {
            let why = format!("its size is {bytes} bytes; it must be more than {least}");
            return Err(CreateError::NoRoom { device: drive.name().to_owned(), why });
        }
    }
    let format = FormatSpec {
        metadata: Metadata::V1_2,
        level: spec.level,
        layout: spec.layout,
        chunk_bytes: spec.chunk_bytes,
        component_bytes: spec.component_bytes.or_else(|| out_of_reach(drives, structures + log, spec)),
        device_bytes: drives.iter().map(MemberDrive::bytes).collect(),
        array_uuid,
        device_uuids: drives.iter().map(|_| random_uuid()).collect(),
        name: spec.name.clone(),
        ctime: spec.now,
        bitmap: true,
        bad_block_log: true,
        data_offset: Some(structures + log),
    }
    .format()?;
    if !spec.force {
        each(drives, |_, drive| check_empty(drive))?;
    }
    check_room(drives, &format, spec.log)?;
    let ends: Vec<u64> = (0..drives.len()).map(|i| end_of(&format, i)).collect();
    let all = ends.iter().sum();
    initialise(drives, &ends, |done| progress(done, all))?;
    let write = |role: usize, drive: &MemberDrive, which: Range<usize>| {
        let writes = format.members[role].writes.get(which).unwrap_or_default();
        let write = |(at, bytes): &(u64, Vec<u8>)| drive.write(*at, bytes);
        writes.iter().try_for_each(write).map_err(|source| failed(drive, source))
    };
    let flush = |_, drive: &MemberDrive| drive.flush().map_err(|source| failed(drive, source));
    each(drives, flush)?;
    // The superblock is the first of a member's writes; it goes last.
    each(drives, |role, drive| write(role, drive, 1..format.members[role].writes.len()))?;
    each(drives, flush)?;
    each(drives, |role, drive| write(role, drive, 0..1))?;
    each(drives, flush)?;
    Ok(array_uuid)
}

/// Bytes of a data area that ends before the places of superblocks 1.0 and 0.90 on all drives, so
/// that no user of the volume can write one there; `None` if that leaves no chunk.
fn out_of_reach(drives: &[MemberDrive], data_offset: u64, spec: &CreateSpec) -> Option<u64> {
    let places = [Metadata::V1_0, Metadata::V0_90];
    let first =
        |drive: &MemberDrive| places.iter().filter_map(|metadata| metadata.super_offset(drive.bytes())).min();
    let end = drives.iter().filter_map(first).min()?;
    end.checked_sub(data_offset).filter(|bytes| *bytes >= spec.chunk_bytes)
}

fn failed(drive: &MemberDrive, source: NodeError) -> CreateError {
    CreateError::Device { device: drive.name().to_owned(), source }
}

/// Does something with all drives at a time. If several fail, the first of them is told.
fn each(
    drives: &[MemberDrive],
    work: impl Fn(usize, &MemberDrive) -> Result<(), CreateError> + Sync,
) -> Result<(), CreateError> {
    let work = &work;
    std::thread::scope(|scope| {
        let start = |(role, drive)| scope.spawn(move || work(role, drive));
        let threads: Vec<_> = drives.iter().enumerate().map(start).collect();
        threads.into_iter().try_for_each(|thread| thread.join().expect("no thread panics"))
    })
}

/// Makes drives zeros up to their ends, all at a time. `done` is told how many bytes are.
fn initialise(drives: &[MemberDrive], ends: &[u64], mut done: impl FnMut(u64)) -> Result<(), CreateError> {
    each(drives, |_, drive| wipe(drive))?;
    let mut of_nodes: Vec<Vec<usize>> = Vec::new();
    for (role, drive) in drives.iter().enumerate() {
        let same = |roles: &&mut Vec<usize>| Arc::ptr_eq(drives[roles[0]].node(), drive.node());
        match of_nodes.iter_mut().find(same) {
            Some(roles) => roles.push(role),
            None => of_nodes.push(vec![role]),
        }
    }
    let stop = AtomicBool::new(false);
    let (told, pieces) = channel();
    std::thread::scope(|scope| {
        let start = |roles: Vec<usize>| {
            let (stop, told) = (&stop, told.clone());
            scope.spawn(move || {
                // Whoever listens does so to the end.
                let goes_on = |bytes| told.send(bytes).is_ok() && !stop.load(Ordering::Relaxed);
                let result = zero_together(drives, ends, &roles, goes_on);
                // If one fails, the others need not go on.
                stop.fetch_or(result.is_err(), Ordering::Relaxed);
                result
            })
        };
        let threads: Vec<_> = of_nodes.into_iter().map(start).collect();
        drop(told);
        let mut sum = 0;
        for bytes in pieces {
            sum += bytes;
            done(sum);
        }
        threads.into_iter().try_for_each(|thread| thread.join().expect("no thread panics"))
    })
}

/// Makes some drives of one node zeros, a piece of each at a time, as long as `goes_on`.
fn zero_together(
    drives: &[MemberDrive],
    ends: &[u64],
    roles: &[usize],
    goes_on: impl Fn(u64) -> bool,
) -> Result<(), CreateError> {
    for offset in (0..roles.iter().map(|role| ends[*role]).max().unwrap_or(0)).step_by(PIECE as usize) {
        let left: Vec<usize> = roles.iter().copied().filter(|role| ends[*role] > offset).collect();
        let range = |role: &usize| DriveRange {
            drive: drives[*role].id(),
            offset,
            len: PIECE.min(ends[*role] - offset),
        };
        let ranges: Vec<DriveRange> = left.iter().map(range).collect();
        let node = drives[left[0]].node();
        node.zero_ranges(&ranges).map_err(|(i, source)| failed(&drives[left[i]], source))?;
        if !goes_on(ranges.iter().map(|range| range.len).sum()) {
            break;
        }
    }
    Ok(())
}

/// The place where the data area of a member ends.
fn end_of(format: &Format, role: usize) -> u64 {
    let geometry = &format.geometry;
    format.members[role].data_offset + geometry.stripes() * geometry.chunk_bytes()
}

/// The log's place is worked out from the superblock, as every assembly does.
fn check_room(drives: &[MemberDrive], format: &Format, log: bool) -> Result<(), CreateError> {
    for (drive, member) in drives.iter().zip(&format.members) {
        let refuse = |why: String| CreateError::NoRoom { device: drive.name().to_owned(), why };
        let Some((_, bytes)) = member.writes.first() else { continue };
        let superblock =
            pumice_raid::superblock::Superblock::parse(bytes, Metadata::V1_2, drive.bytes() / SECTOR)
                .map_err(|error| refuse(error.to_string()))?;
        MemberPlace::of(&superblock, log).map_err(|error| refuse(error.to_string()))?;
    }
    Ok(())
}

fn check_empty(drive: &MemberDrive) -> Result<(), CreateError> {
    let device = || drive.name().to_owned();
    match probe(drive) {
        Ok(None) => {}
        Ok(Some(record)) => {
            return Err(CreateError::Member { device: device(), array: record.superblock.array_uuid });
        }
        Err(source) => return Err(CreateError::Probe { device: device(), source }),
    }
    match drive.first_not_zero().map_err(|source| failed(drive, source))? {
        Some(at) => Err(CreateError::NotEmpty { device: device(), at }),
        None => Ok(()),
    }
}

/// Makes every place zeros where a superblock of any version could lie. What else is there is lost
/// as well: nothing on the drive counts.
fn wipe(drive: &MemberDrive) -> Result<(), CreateError> {
    let sectors = drive.bytes() / SECTOR;
    let block = u64::from(drive.block());
    for metadata in Metadata::ALL {
        let Some(sector) = metadata.super_sector(sectors) else { continue };
        let start = sector * SECTOR / block * block;
        let end = (sector * SECTOR + 4096).next_multiple_of(block).min(drive.bytes());
        drive.zero(start, end - start).map_err(|source| failed(drive, source))?;
    }
    drive.flush().map_err(|source| failed(drive, source))
}
