//! Devices that are no members any more.

use crate::drive::MemberDrive;
use crate::error::OpenError;
use crate::look::{Found, all_of};
use pumice_base::units::SECTOR;
use pumice_offload::NodeError;
use pumice_raid::{Metadata, Uuid};
use pumice_volume::MemberPlace;
use pumice_volume::log::{HEAD_BYTES, HEADS, Head, Region};
use std::ops::Range;

/// Bytes that are made zeros by one call.
const PIECE: u64 = 4 << 20;

/// Takes devices out of their array. What describes the array is made zeros: the superblock, then
/// bitmap, bad-block log, partial parity log and stripe log. No byte of a data area is
/// touched, also not where other versions have their superblocks. `metadata` is the format of the
/// superblocks that count, if the operator names it.
///
/// All devices are looked at before the first byte is written. Returns how many members the array
/// has by their superblocks, spares aside.
///
/// # Errors
/// If a device has no superblock of `array`, or fails. Those before it are no members any more.
pub fn erase(drives: &[MemberDrive], array: Uuid, metadata: Option<Metadata>) -> Result<u16, OpenError> {
    let all = all_of(drives, array, metadata)?;
    let members = all.iter().map(|found| found.superblock().raid_disks).max().unwrap_or_default();
    for found in &all {
        let failed = |source| OpenError::Device { device: found.drive.name().to_owned(), source };
        clear_all(found).map_err(failed)?;
    }
    Ok(members)
}

fn clear_all(found: &Found) -> Result<(), NodeError> {
    let (drive, superblock) = (&found.drive, found.superblock());
    let log = log(found);
    // First: without it nothing else counts.
    let start = superblock.super_offset.get() * SECTOR;
    clear(drive, start..start + found.superblock.encode().len() as u64)?;
    drive.flush()?;
    // Each of them lies apart from the data, or the superblock would not have been taken.
    if let (Some(area), Some(bitmap)) = (superblock.bitmap, &found.record.bitmap) {
        clear(drive, area.start_bytes()..area.start_bytes() + bitmap.header().state_bytes().end)?;
    }
    let logs = [superblock.bad_block_log.map(|log| log.area), superblock.ppl];
    for area in logs.into_iter().flatten() {
        clear(drive, area.start_bytes()..area.end() * SECTOR)?;
    }
    if let Some(log) = log {
        let end = log.heads() + HEADS * HEAD_BYTES;
        for at in (log.start..end).step_by(PIECE as usize) {
            drive.zero(at, PIECE.min(end - at))?;
        }
    }
    drive.flush()
}

/// The stripe log of the array, if one was begun. If the medium does not give its heads, it is left
/// as it is: without a superblock it says nothing.
fn log(found: &Found) -> Option<Region> {
    let region = MemberPlace::of(found.superblock(), true).ok()?.log?;
    let slots = (0..HEADS).map(|slot| region.heads() + slot * HEAD_BYTES);
    let head = |at| Head::decode(&found.drive.read(at, HEAD_BYTES).ok()?);
    let array = found.superblock().array_uuid;
    slots.filter_map(head).any(|head| head.array == array).then_some(region)
}

/// Makes bytes zeros, and leaves the rest of their blocks as they are.
fn clear(drive: &MemberDrive, range: Range<u64>) -> Result<(), NodeError> {
    let block = u64::from(drive.block());
    let start = range.start / block * block;
    let end = range.end.next_multiple_of(block).min(drive.bytes());
    let mut bytes = drive.read(start, end - start)?;
    bytes[(range.start - start) as usize..(range.end - start) as usize].fill(0);
    drive.write(start, &bytes)
}
