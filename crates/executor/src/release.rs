//! An array that a machine had open when it died becomes anybody's.

use crate::drive::MemberDrive;
use crate::error::OpenError;
use crate::look::{all_of, look, survey};
use pumice_base::units::Role;
use pumice_raid::{Metadata, Uuid};
use pumice_volume::MemberPlace;

/// The outcome of the release of an array.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Released {
    /// The writers that were named.
    pub writers: Vec<u128>,
    /// Members by the superblocks whose devices were not named: a mark on them is left.
    pub left: Vec<Role>,
    /// No device has room for a stripe log, whose heads hold the mark.
    pub without_log: bool,
}

/// Takes the mark of a writer off devices of `array`. What the log holds stays: it is replayed when
/// the volume is opened. `metadata` is the format of the superblocks that count, if the operator
/// names it.
///
/// # Errors
/// If the devices are not those of the array, or a device fails. Those before it name nobody any
/// more.
pub fn release(
    drives: &[MemberDrive],
    array: Uuid,
    metadata: Option<Metadata>,
) -> Result<Released, OpenError> {
    let found = all_of(drives, array, metadata)?;
    let survey = survey(found)?;
    let (mut writers, mut without_log) = (Vec::new(), true);
    for (role, found) in &survey.members {
        let Some(region) = MemberPlace::of(found.superblock(), true).ok().and_then(|place| place.log) else {
            continue;
        };
        without_log = false;
        let Some(head) = look(found, *role, true)?.head else { continue };
        if head.writer == 0 {
            continue;
        }
        if !writers.contains(&head.writer) {
            writers.push(head.writer);
        }
        let device = || found.drive.name().to_owned();
        let next = head.released_by_operator();
        let written = found.drive.write(next.slot(region.heads()), &next.encode());
        let durable = written.and_then(|()| found.drive.flush());
        durable.map_err(|source| OpenError::Device { device: device(), source })?;
    }
    let newest = survey.members.values().max_by_key(|found| found.events());
    let is_active = |role: &Role| newest.is_some_and(|found| found.table().contains(&role.get()));
    let all = (0..survey.geometry.raid_disks()).map(Role);
    let left = all.filter(|role| is_active(role) && !survey.members.contains_key(role)).collect();
    Ok(Released { writers, left, without_log })
}
