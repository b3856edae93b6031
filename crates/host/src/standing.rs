//! Whether an array still is what a pass began with.

use crate::finding::Unsettled;
use crate::probe::DriveReader;
use crate::scrub::ScrubError;
use crate::target::Target;
use pumice_offload::{DataNode, DriveDescription, DriveId, NodeError};
use pumice_raid::plan::{Kind, SkipReason};
use pumice_raid::{Array, MemberRecord, ReadAt};
use pumice_units::Role;

/// What the journal says now; `None` where there is none, or its superblock cannot be made out.
///
/// To be read between two looks at a stripe. md takes an entry out of the journal only when the members have all of it: a stripe that looks the same before and after, because a write of it is still to come,
/// is named in between.
pub(crate) fn journal_now(target: &Target) -> Result<Option<MemberRecord>, ScrubError> {
    let Some(journal) = target.journal() else { return Ok(None) };
    let drives = journal.node.describe()?.drives;
    let reader = reader(&*journal.node, "of the journal", &drives, journal.drive)?;
    Ok(target.array().read_journal_again(&reader))
}

fn reader<'n>(
    node: &'n dyn DataNode,
    name: &str,
    drives: &[DriveDescription],
    id: DriveId,
) -> Result<DriveReader<'n>, NodeError> {
    let drive = drives.iter().find(|drive| drive.id == id);
    let drive = drive.ok_or_else(|| NodeError::invalid("drive", format!("node '{name}' has no {id}")))?;
    Ok(DriveReader::new(node, id, drive.size_bytes))
}

/// Reads superblocks again, and what counts beside them: whether they still give every member the role and the state that it had, and leave each of `stripes`
/// to be checked, with `journal` as it was read before. Says of each stripe what stands against a finding there. A superblock that cannot be made out is one that is being written: it stands against all, for now.
///
/// One call serves any number of stripes with the same reads: as a rule one of each member.
pub(crate) fn objections(
    target: &Target,
    journal: Option<MemberRecord>,
    stripes: &[u64],
) -> Result<Vec<Option<Unsettled>>, ScrubError> {
    let mut drives: Vec<(&str, Vec<DriveDescription>)> = Vec::new();
    let mut readers = Vec::new();
    for (role, member) in target.members() {
        let node = member.node_name.as_str();
        if !drives.iter().any(|(known, _)| *known == node) {
            drives.push((node, member.node.describe()?.drives));
        }
        let here = drives.iter().find(|(known, _)| *known == node).map_or(&[][..], |(_, drives)| drives);
        readers.push((role, reader(&*member.node, node, here, member.drive)?));
    }
    let devices: Vec<(Role, &dyn ReadAt)> =
        readers.iter().map(|(role, reader)| (*role, reader as &dyn ReadAt)).collect();
    let then = target.array();
    let all = |why| Ok(vec![Some(why); stripes.len()]);
    let Some(now) = then.read_again(&devices, journal) else { return all(Unsettled::ArrayChanged) };
    let same_members = (0..then.geometry().raid_disks()).map(Role).all(|role| {
        let of = |array: &Array| {
            // A member that the pass does not have is not looked for.
            target.member(role)?;
            array.member(role).map(|m| (m.device.clone(), m.valid_stripes(array.geometry())))
        };
        of(then) == of(&now)
    });
    if now.uuid() != then.uuid() || now.geometry() != then.geometry() || !same_members {
        return all(Unsettled::ArrayChanged);
    }
    let objection = |stripe: &u64| match now.plan(*stripe..*stripe + 1).next().map(|extent| extent.kind) {
        Some(Kind::Check) => None,
        Some(Kind::Skip(SkipReason::JournalPending)) => Some(Unsettled::Journal),
        Some(Kind::Skip(_)) | None => Some(Unsettled::ArrayChanged),
    };
    Ok(stripes.iter().map(objection).collect())
}
