//! Whether an array still is what a pass began with.

use crate::probe::DriveReader;
use crate::scrub::ScrubError;
use crate::target::Target;
use pumice_offload::NodeError;
use pumice_raid::plan::Kind;
use pumice_raid::{assemble, probe};
use pumice_units::Role;

/// Reads superblocks and bad-block logs again: whether they still give every member the role and the state that it had, and leave each of `stripes` to be
/// checked. A superblock that cannot be made out is one that is being written: it says no, for now.
pub(crate) fn still_stands(target: &Target, stripes: &[u64]) -> Result<bool, ScrubError> {
    let mut set = Vec::new();
    for (_, member) in target.members() {
        let description = member.node.describe()?;
        let drive = description.drives.iter().find(|drive| drive.id == member.drive).ok_or_else(|| {
            NodeError::invalid("drive", format!("node '{}' has no {}", member.node_name, member.drive))
        })?;
        let reader = DriveReader::new(&*member.node, member.drive, drive.size_bytes);
        match probe(&reader) {
            Ok(Some(record)) => set.push((member.device.clone(), record)),
            Ok(None) | Err(_) => return Ok(false),
        }
    }
    let Ok(mut now) = assemble(set) else { return Ok(false) };
    let then = target.array();
    now.assume_like(then);
    let same_members = (0..then.geometry().raid_disks()).map(Role).all(|role| {
        let of = |array: &pumice_raid::Array| {
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
