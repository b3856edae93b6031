//! Reads the evidence about an array: hosts, superblocks, bitmap, logs. `docs/design/settling.md`
//! says how it is used.

use super::settling::{ArrayNow, HeldBy, HostsSeen, Records};
use crate::error::HostError;
use crate::probe::DriveReader;
use crate::target::{JournalDrive, Member, Target};
use pumice_base::units::Role;
use pumice_offload::{DriveDescription, DriveId, NodeError, Presence, SuperblockSeen};
use pumice_raid::assembly::{AgainError, WriteRecords};
use pumice_raid::plan::{SkipReason, Treatment};
use pumice_raid::{Array, MemberRecord, ReadAt};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

/// Asks every node of the array for its hosts, and for its records of superblocks.
pub(crate) fn hosts_now(target: &Target, zero: Instant) -> Result<HostsSeen, HostError> {
    let asked = zero.elapsed();
    let mut nodes = Vec::new();
    let mut saw_clean = true;
    for node in target.nodes() {
        let presence = node.presence();
        let hosts = presence.map(Presence::hosts).transpose()?;
        let seen = presence.map_or(Ok(None), Presence::superblocks)?;
        let drives = node.describe()?.drives;
        for (_, member) in target.members().filter(|(_, m)| Arc::ptr_eq(&m.node, node)) {
            let size = size_of(&member.node_name, &drives, member.drive)?;
            let own = target.array().superblock_span(size).map(|span| span.start);
            // Bytes at the place of another version are a user's data, whatever they look like.
            let of_member = |seen: &SuperblockSeen| {
                seen.drive == member.drive
                    && own.is_some()
                    && seen.offset == own
                    && seen.array == target.array().uuid().0
                    && seen.clean
            };
            saw_clean &= seen.iter().flatten().any(of_member);
        }
        nodes.push(hosts);
    }
    Ok(HostsSeen { asked, nodes, saw_clean })
}

/// The present state of the journal; `None` if there is none, or its superblock is invalid.
///
/// Read it between two looks at a stripe. md removes an entry from the journal only when the
/// members have all of it. So if a stripe looks the same before and after because one of its writes
/// is still to come, the journal names it in between.
fn journal_now(target: &Target) -> Result<Option<MemberRecord>, HostError> {
    let Some(JournalDrive { node, drive }) = target.journal() else { return Ok(None) };
    let drives = node.describe()?.drives;
    let reader = DriveReader::new(&**node, *drive, size_of("of the journal", &drives, *drive)?);
    Ok(target.array().read_journal_again(&reader))
}

/// The size in bytes of a drive of a node.
fn size_of(node: &str, drives: &[DriveDescription], id: DriveId) -> Result<u64, NodeError> {
    let drive = drives.iter().find(|drive| drive.id == id);
    let drive = drive.ok_or_else(|| NodeError::invalid("drive", format!("node '{node}' has no {id}")))?;
    Ok(drive.size_bytes)
}

/// Reads the members' superblocks again, with the records beside them that the plan needs, and
/// assembles them. Usually one read of each member.
pub(crate) fn members_now(
    target: &Target,
    journal: Option<MemberRecord>,
) -> Result<Result<Array, AgainError>, HostError> {
    let mut readers = Vec::new();
    for node in target.nodes() {
        let drives = node.describe()?.drives;
        let here = target.members().filter(|(_, member)| Arc::ptr_eq(&member.node, node));
        let sized = |(role, member): (Role, &Member)| {
            Ok((role, (member.drive, size_of(&member.node_name, &drives, member.drive)?)))
        };
        let (roles, places): (Vec<Role>, Vec<_>) =
            here.map(sized).collect::<Result<Vec<_>, NodeError>>()?.into_iter().unzip();
        let span = |size| target.array().superblock_span(size).into_iter().collect();
        readers.extend(roles.into_iter().zip(DriveReader::ahead(&**node, &places, span)));
    }
    // As the array lists its members.
    readers.sort_by_key(|(role, _)| *role);
    let devices: Vec<(Role, &dyn ReadAt)> =
        readers.iter().map(|(role, reader)| (*role, reader as &dyn ReadAt)).collect();
    Ok(target.array().read_again(&devices, journal))
}

/// Reads superblocks again, with the records beside them: whether they still give every member the
/// same role and state, and which record, including the journal, names each of `stripes` as
/// possibly half written. An invalid superblock is treated as one being written: for now the array
/// counts as changed.
///
/// One call serves any number of stripes with the same reads, usually one of each member.
pub(crate) fn evidence(target: &Target, stripes: &[u64]) -> Result<ArrayNow, HostError> {
    let journal = journal_now(target)?;
    let then = target.array();
    let unknown =
        || ArrayNow { same: false, clean: false, events: 0, records: Records::None, held: BTreeMap::new() };
    let Ok(mut now) = members_now(target, journal)? else { return Ok(unknown()) };
    let same_members = (0..then.geometry().raid_disks()).map(Role).all(|role| {
        let of = |array: &Array| {
            // A member that the pass does not have is not looked for.
            target.member(role)?;
            array.member(role).map(|m| (m.device.clone(), m.valid_stripes(array.geometry())))
        };
        of(then) == of(&now)
    });
    // md writes superblocks one after another: counts that differ are of an update under way.
    let same_events = now.members().iter().flatten().all(|m| m.record.superblock.events == now.events());
    // An array that is not clean and has no record is another clause's matter.
    now.assume_settled();
    let held = |stripe: u64| match now.plan(stripe..stripe + 1).next().map(|extent| extent.kind) {
        Some(Treatment::Check) => None,
        Some(Treatment::Skip(SkipReason::JournalPending)) => Some(HeldBy::Journal),
        Some(Treatment::Skip(SkipReason::PplPending)) => Some(HeldBy::Ppl),
        Some(Treatment::Skip(SkipReason::Dirty)) => Some(HeldBy::Bitmap),
        Some(Treatment::Skip(_)) | None => Some(HeldBy::Changed),
    };
    Ok(ArrayNow {
        same: now.uuid() == then.uuid() && now.geometry() == then.geometry() && same_members && same_events,
        clean: !now.unclean(),
        events: now.events(),
        records: match now.write_records() {
            WriteRecords::None => Records::None,
            WriteRecords::Bitmap => Records::Bitmap,
            WriteRecords::Ppl => Records::Ppl,
            WriteRecords::Journal => Records::Journal,
        },
        held: stripes.iter().filter_map(|stripe| Some((*stripe, held(*stripe)?))).collect(),
    })
}
