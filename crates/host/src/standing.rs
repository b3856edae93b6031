//! Whether an array still is what a pass began with.

use crate::probe::DriveReader;
use crate::scrub::ScrubError;
use crate::target::Target;
use pumice_offload::{DriveDescription, NodeError};
use pumice_raid::plan::Kind;
use pumice_raid::{Array, ReadAt};
use pumice_units::Role;

/// Reads superblocks again, and what counts beside them: whether they still give every member the role and the state that it had, and leave each of `stripes`
/// to be checked. A superblock that cannot be made out is one that is being written: it says no, for now.
///
/// One call serves any number of stripes with the same reads: as a rule one of each member.
pub(crate) fn still_stands(target: &Target, stripes: &[u64]) -> Result<bool, ScrubError> {
    let mut drives: Vec<(&str, Vec<DriveDescription>)> = Vec::new();
    let mut readers = Vec::new();
    for (role, member) in target.members() {
        let node = member.node_name.as_str();
        if !drives.iter().any(|(known, _)| *known == node) {
            drives.push((node, member.node.describe()?.drives));
        }
        let here = drives.iter().filter(|(known, _)| *known == node).flat_map(|(_, drives)| drives);
        let drive = here
            .into_iter()
            .find(|drive| drive.id == member.drive)
            .ok_or_else(|| NodeError::invalid("drive", format!("node '{node}' has no {}", member.drive)))?;
        readers.push((role, DriveReader::new(&*member.node, member.drive, drive.size_bytes)));
    }
    let devices: Vec<(Role, &dyn ReadAt)> =
        readers.iter().map(|(role, reader)| (*role, reader as &dyn ReadAt)).collect();
    let then = target.array();
    let Some(now) = then.read_again(&devices) else { return Ok(false) };
    let same_members = (0..then.geometry().raid_disks()).map(Role).all(|role| {
        let of = |array: &Array| {
            // A member that the pass does not have is not looked for.
            target.member(role)?;
            array.member(role).map(|m| (m.device.clone(), m.valid_stripes(array.geometry())))
        };
        of(then) == of(&now)
    });
    let checked =
        |stripe: &u64| now.plan(*stripe..*stripe + 1).next().is_some_and(|extent| extent.kind == Kind::Check);
    Ok(now.uuid() == then.uuid()
        && now.geometry() == then.geometry()
        && same_members
        && stripes.iter().all(checked))
}
