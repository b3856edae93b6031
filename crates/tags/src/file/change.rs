//! Changes a tag file over to another atomic unit of its drive.
//!
//! `docs/reference/on-disk/tags.md`, "The atomic unit", has the rules.

use super::{TagError, TagFile};
use crate::geometry::{Geometry, KEPT_HEAD};
use crate::recovery::Recovery;
use crate::rules::Rule;
use pumice_base::durable::Medium;
use pumice_blockdev::BlockDevice;

/// Heads that are written at a time.
const HEADS_AT_ONCE: u64 = 2048;

/// The sizes of a tag file for this drive: with data in the log if a power cut can tear a block.
pub(crate) fn sizes_for(geometry: &Geometry, drive: &dyn BlockDevice) -> Geometry {
    // What a power cut leaves of a drive in memory is nothing: it tears no block.
    if drive.resident().is_some() {
        return *geometry;
    }
    geometry.with_data(drive.atomic_unit() < geometry.block_bytes() as u32)
}

/// Refuses a tag file that must change over, on a medium that is too small for kept blocks.
pub(super) fn check_room(
    medium: &dyn Medium,
    geometry: &Geometry,
    drive: &dyn BlockDevice,
) -> Result<(), TagError> {
    let wanted = sizes_for(geometry, drive);
    let has_room = medium.size_bytes().is_none_or(|has| has >= wanted.file_bytes());
    if has_room || !wanted.carries_data() || geometry.carries_data() {
        return Ok(());
    }
    let bytes = |bytes: u32| format!("{bytes} bytes");
    let (tags, drive) = (bytes(geometry.block_bytes() as u32), bytes(drive.atomic_unit()));
    Err(TagError::OtherDrive { field: "unit of writing", tags, drive })
}

/// The sizes with which the file goes on, whose log is empty after a recovery. The caller writes
/// the header.
pub(super) fn change_over(
    file: &TagFile,
    drive: &dyn BlockDevice,
    recovery: &Recovery<'_>,
) -> Result<Geometry, TagError> {
    let geometry = file.header.geometry;
    let wanted = sizes_for(&geometry, drive);
    let rule = if geometry.carries_data() { Rule::KeptStays } else { Rule::HeadsCleared };
    if !recovery.rules.keep(rule) {
        return Ok(wanted);
    }
    match (geometry.carries_data(), wanted.carries_data()) {
        (true, false) => {
            let contents = file.kept_area().contents()?;
            // They are somebody's only copies.
            let holds_any = !(contents.kept.is_empty() && contents.damaged.is_empty());
            Ok(if holds_any { geometry } else { wanted })
        }
        (false, true) => {
            // What lies there was never written, or was of kept blocks that are gone.
            let zeros = vec![0; HEADS_AT_ONCE as usize * KEPT_HEAD];
            let count = wanted.kept_blocks();
            for first in (0..count).step_by(HEADS_AT_ONCE as usize) {
                let heads = HEADS_AT_ONCE.min(count - first) as usize;
                file.medium.write_at(wanted.kept_head_at(first), &zeros[..heads * KEPT_HEAD])?;
            }
            file.medium.sync()?;
            Ok(wanted)
        }
        _ => Ok(geometry),
    }
}
