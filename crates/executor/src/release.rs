//! An array that a machine had open when it died becomes anybody's.

use crate::drive::MemberDrive;
use crate::error::OpenError;
use crate::look::{all_of, look, survey};
use pumice_raid::{Metadata, Uuid};

/// Takes the mark of a writer off all devices of `array`. Returns the writers that were named. What
/// the log holds stays: it is replayed when the volume is opened. `metadata` is the format of the
/// superblocks that count, if the operator names it.
///
/// # Errors
/// If the devices are not those of an array with a stripe log, or a device fails. Those before it
/// name nobody any more.
pub fn release(
    drives: &[MemberDrive],
    array: Uuid,
    metadata: Option<Metadata>,
) -> Result<Vec<u128>, OpenError> {
    let found = all_of(drives, array, metadata)?;
    let survey = survey(found)?;
    let mut writers = Vec::new();
    for (role, found) in &survey.members {
        let looked = look(found, *role, true)?;
        let (Some(head), Some(region)) = (looked.head, looked.place.log) else { continue };
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
    Ok(writers)
}
