//! Undo: puts back the bytes that a repair replaced. The conditions are those of
//! `docs/reference/on-disk/repair-archive.md`, section *Undo*; they are checked before anything is
//! written.

use super::archive::{Archive, Entry, EntryId, EntryRecord, Occasion, Status, digest_of_rows};
use super::journal::Journal;
use super::record::{Intent, IntentKind, OldBytes, Record, device_uuid, window};
use super::recover::write_all;
use super::write::{Bytes, cannot_restore, why_not};
use crate::error::HostError;
use crate::stripes::read_raw;
use crate::target::Target;
use pumice_base::telemetry::Ledger;
use pumice_offload::ErrorKind;
use pumice_raid::Uuid;
use sha2::{Digest, Sha256};

/// Undoes one entry, and returns the number of the undo's own.
///
/// The caller must have exclusive use of the devices: opened exclusively, or held at their nodes.
/// The journal must be settled, so that no interrupted repair waits.
///
/// # Errors
/// [`HostError::NotUndone`] with the reason, and nothing is written. Also if a node, the archive or
/// the journal fails; then the journal may be left waiting.
pub fn undo(
    target: &Target,
    archive: &Archive,
    journal: &Journal,
    id: EntryId,
    now: u64,
) -> Result<EntryId, HostError> {
    let refused = |why: String| HostError::NotUndone { id: id.0, why };
    let entry = archive.read(id)?.ok_or_else(|| refused("there is no such entry".to_owned()))?;
    let (start, records) = check(target, &entry).map_err(|why| match why {
        Objection::Refused(why) => refused(why),
        Objection::Failed(error) => error,
    })?;
    let array = target.array();
    let intent = Intent {
        kind: IntentKind::Undo,
        array: array.uuid(),
        events: array.events(),
        stripe: entry.stripe,
        records,
    };
    let occasion = Occasion {
        time: now,
        policy: entry.occasion.policy,
        verdict: entry.occasion.verdict,
        strength: entry.occasion.strength,
        undoes: Some(id),
        ..Occasion::default()
    };
    if let Some(member) = cannot_restore(target, &intent, Bytes::New)? {
        return Err(refused(why_not(member)));
    }
    let kept = archive.keep(target, intent, &occasion, &mut Ledger::default())?;
    let begun = journal.begin(&kept)?;
    write_all(target, kept.intent(), Bytes::New, start)?;
    archive.mark_done(kept.id())?;
    begun.settle()?;
    Ok(kept.id())
}

/// The repairs for `--all`, newest first: repairs that were written and not undone, and have old
/// bytes. A damaged entry is an error.
///
/// # Errors
/// If the archive cannot be read.
pub fn written_repairs(archive: &Archive) -> Result<Vec<EntryId>, HostError> {
    let mut ids = Vec::new();
    for (id, entry) in archive.list()? {
        let entry = entry?;
        let (lost, sectors) = entry.sectors();
        if entry.intent_kind == IntentKind::Repair && entry.status == Status::Written && lost < sectors {
            ids.push(id);
        }
    }
    Ok(ids)
}

enum Objection {
    Refused(String),
    Failed(HostError),
}

impl<E: Into<HostError>> From<E> for Objection {
    fn from(error: E) -> Self {
        Self::Failed(error.into())
    }
}

fn refuse<T>(why: impl Into<String>) -> Result<T, Objection> {
    Err(Objection::Refused(why.into()))
}

/// The device as text, if its UUID is known.
fn device(uuid: Uuid) -> String {
    if uuid == Uuid([0; 16]) { String::new() } else { format!(" (device {uuid})") }
}

/// The writes of an undo, and their place in the chunk.
fn check(target: &Target, entry: &Entry) -> Result<(u32, Vec<Record>), Objection> {
    match entry.status {
        Status::Written => {}
        Status::Begun => return refuse("it was interrupted, and nothing shows that it was written"),
        Status::NotWritten => return refuse("it was not written"),
        Status::Undone(by) => return refuse(format!("it was undone, by {by}")),
        Status::Dropped => {
            return refuse("it was interrupted, and its journal could not be settled");
        }
    }
    if entry.array != target.array().uuid() {
        return refuse(format!("it belongs to array {}", entry.array));
    }
    let known = entry.records.iter().map(|r| (r.role, r.member));
    for (role, member) in known.chain(entry.witnesses.iter().map(|w| (w.role, w.member))) {
        if target.member(role).is_none() || device_uuid(target, role) != member {
            return refuse(format!("member {role}{} is not among the devices", device(member)));
        }
    }
    let ranges = entry.records.iter().map(|r| (r.role, r.device_offset, r.old.bytes().len() as u64));
    let Some((start, len)) = window(target, entry.stripe, ranges) else {
        return refuse("its ranges are not at the place of that stripe on the members");
    };
    let (lost, sectors) = entry.sectors();
    if lost == sectors {
        return refuse("the drive had refused every byte of it, so there is nothing to put back");
    }
    let records = entry.records.iter().map(|r| put_back(target, r)).collect::<Result<_, _>>()?;
    for witness in &entry.witnesses {
        if digest_of_rows(target, witness.role, entry.stripe, start, len)? != witness.digest {
            return refuse(format!(
                "the bytes of member {} there have changed since the repair",
                witness.role
            ));
        }
    }
    Ok((start, records))
}

/// The record that puts the old bytes of a range back, if the range reads as the repair left it.
fn put_back(target: &Target, record: &EntryRecord) -> Result<Record, Objection> {
    let EntryRecord { role, member, device_offset, .. } = record;
    let mut now = vec![0; record.old.bytes().len()];
    match read_raw(target, *role, *device_offset, &mut now) {
        Ok(()) => {}
        Err(error) if error.kind() == ErrorKind::Media => {
            return refuse(format!("member {role} refuses the bytes that the repair wrote"));
        }
        Err(error) => return Err(error.into()),
    }
    if <[u8; 32]>::from(Sha256::digest(&now)) != record.new_digest {
        return refuse(format!("member {role} has been written there since the repair"));
    }
    let mut new = now.clone();
    for part in record.old.known() {
        new[part.clone()].copy_from_slice(&record.old.bytes()[part]);
    }
    let old = OldBytes::read(now);
    let (role, member, device_offset) = (*role, *member, *device_offset);
    Ok(Record { role, member, device_offset, old, new, tags_stay: record.tags_stay })
}
