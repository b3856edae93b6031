//! Recovery after a crash during a repair or an undo: each range becomes entirely old or entirely
//! new.
//!
//! The rules, and their order, are those of `docs/reference/on-disk/repair-journal.md`.

use super::archive::{Archive, EntryId, Status};
use super::by_role;
use super::journal::{Found, Journal, Waiting};
use super::plan::syndromes;
use super::record::{Intent, IntentKind, Record, SECTOR, device_uuid, window};
use super::write::{Bytes, cannot_restore, reads_back, why_not, write};
use crate::error::HostError;
use crate::stripes::{Stripes, read_raw};
use crate::target::Target;
use pumice_offload::ErrorKind;
use pumice_raid::Uuid;
use std::fmt;

/// The state in which an interrupted repair was found, and the outcome.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Recovery {
    /// There was no journal.
    Nothing,
    /// The ranges were already entirely old or entirely new.
    Whole,
    /// Half-written; finished with the new bytes: parity holds for them, or it was an undo.
    Finished,
    /// Half-written; put back to the old bytes, because parity does not hold for the new ones.
    PutBack,
    /// Left alone, and the reason; the archive has the journal.
    Dropped(&'static str, EntryId),
}

impl fmt::Display for Recovery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nothing => f.write_str("no repair was interrupted"),
            Self::Whole => f.write_str("an interrupted repair had left its ranges entirely old or entirely new; its journal is removed"),
            Self::Finished => f.write_str("an interrupted repair was finished"),
            Self::PutBack => {
                f.write_str("an interrupted repair was reversed, because parity does not hold for the new bytes")
            }
            Self::Dropped(why, entry) => write!(
                f,
                "an interrupted repair is left as it is: {why}; its journal is kept in the archive, as {entry}.journal"
            ),
        }
    }
}

/// The present contents of a range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Content {
    Old,
    New,
    Mixed,
    Foreign,
}

/// The decision about a waiting journal.
enum Decision {
    /// The ranges are all old or all new; whether they are new.
    Whole { new: bool },
    /// The ranges are to be written, entirely new or (except lost sectors) entirely old.
    Written { new: bool },
    /// The journal no longer applies.
    Drop(&'static str),
}

/// Finishes or reverses an interrupted repair, before any other step of a run that may write.
///
/// # Errors
/// [`HostError::JournalWaits`] if it cannot be settled with these devices; the journal stays. Else
/// if a node or the state directory fails.
pub fn recover(target: &Target, found: Found, archive: &Archive) -> Result<(Recovery, Journal), HostError> {
    let waiting = match found {
        Found::Settled(journal) => return Ok((Recovery::Nothing, journal)),
        Found::Waiting(waiting) => waiting,
    };
    let entry = waiting.entry();
    let (new, recovery) = match decide(target, &waiting)? {
        Decision::Whole { new } => (new, Recovery::Whole),
        Decision::Written { new: true } => (true, Recovery::Finished),
        Decision::Written { new: false } => (false, Recovery::PutBack),
        Decision::Drop(why) => return Ok((Recovery::Dropped(why, entry), drop_waiting(waiting, archive)?)),
    };
    if new {
        archive.mark_done(entry)?;
    } else {
        archive.mark(entry, Status::NotWritten)?;
    }
    Ok((recovery, waiting.settle()?))
}

/// Moves a waiting journal into the archive: its writes are not done, but its bytes are kept.
///
/// # Errors
/// If the archive fails; then the journal stays.
pub fn drop_waiting(waiting: Waiting, archive: &Archive) -> Result<Journal, HostError> {
    archive.keep_journal(waiting.entry(), &waiting.bytes())?;
    waiting.settle()
}

fn decide(target: &Target, waiting: &Waiting) -> Result<Decision, HostError> {
    let intent = waiting.intent();
    let waits = |why: String| Err(HostError::JournalWaits { path: waiting.path(), why });
    if intent.array != target.array().uuid() {
        return waits(format!("it belongs to array {}", intent.array));
    }
    if intent.events > target.array().events() {
        return waits(format!(
            "the array was at event {} then, and these devices are at {}: newer members are missing",
            intent.events,
            target.array().events()
        ));
    }
    if intent.events < target.array().events() {
        return Ok(Decision::Drop("the array has been assembled since"));
    }
    if let Some(record) = intent.records.iter().find(|record| !is_there(target, record)) {
        let Record { role, member, .. } = record;
        let uuid = if *member == Uuid([0; 16]) { String::new() } else { format!(" (device {member})") };
        return waits(format!("member {role}{uuid} is not among the devices"));
    }
    let ranges = intent.records.iter().map(|r| (r.role, r.device_offset, r.new.len() as u64));
    let Some((start, len)) = window(target, intent.stripe, ranges) else {
        return Ok(Decision::Drop("its ranges are not at the place of that stripe on the members"));
    };
    let contents: Vec<Content> =
        intent.records.iter().map(|record| content(target, record)).collect::<Result<_, _>>()?;
    if contents.contains(&Content::Foreign) {
        return Ok(Decision::Drop("its ranges have been written since"));
    }
    if contents.iter().all(|content| *content == Content::Old) {
        return Ok(Decision::Whole { new: false });
    }
    let can = |bytes: Bytes| match cannot_restore(target, intent, bytes)? {
        Some(member) => Err(HostError::JournalWaits { path: waiting.path(), why: why_not(member) }),
        None => Ok(()),
    };
    if contents.iter().all(|content| *content == Content::New) {
        can(Bytes::New)?;
        // They may be in a cache only, which no later flush writes if an earlier one has failed.
        write_all(target, intent, Bytes::New, start)?;
        return Ok(Decision::Whole { new: true });
    }
    let new = intent.kind == IntentKind::Undo || holds_with_new(target, intent, start, len)?;
    let bytes = if new { Bytes::New } else { Bytes::Old };
    can(bytes)?;
    write_all(target, intent, bytes, start)?;
    Ok(Decision::Written { new })
}

/// Returns whether the member of a record is among the devices.
fn is_there(target: &Target, record: &Record) -> bool {
    target.member(record.role).is_some() && device_uuid(target, record.role) == record.member
}

/// Writes one side of every record, flushes, and reads it back.
pub(super) fn write_all(target: &Target, intent: &Intent, bytes: Bytes, start: u32) -> Result<(), HostError> {
    write(target, intent, bytes)?;
    match reads_back(target, intent, bytes)? {
        true => Ok(()),
        false => Err(HostError::RepairNotVerified { stripe: intent.stripe, start }),
    }
}

fn content(target: &Target, record: &Record) -> Result<Content, HostError> {
    let mut now = vec![0; record.new.len()];
    let mut unread = vec![false; record.new.len().div_ceil(SECTOR)];
    match read_raw(target, record.role, record.device_offset, &mut now) {
        Ok(()) => {}
        // Sectors beside one that cannot be read may be somebody else's.
        Err(error) if error.kind() == ErrorKind::Media => {
            let step = (target.sector_bytes(record.role)? as usize).max(SECTOR);
            for (index, piece) in now.chunks_mut(step).enumerate() {
                let at = index * step;
                match read_raw(target, record.role, record.device_offset + at as u64, piece) {
                    Ok(()) => {}
                    Err(error) if error.kind() == ErrorKind::Media => {
                        unread[at / SECTOR..(at + piece.len()).div_ceil(SECTOR)].fill(true);
                    }
                    Err(error) => return Err(error.into()),
                }
            }
        }
        Err(error) => return Err(error.into()),
    }
    Ok(classify(&now, &unread, record))
}

/// A sector that cannot be read (`unread`) is neither old nor new, and can become either.
fn classify(now: &[u8], unread: &[bool], record: &Record) -> Content {
    let lost = record.old.lost();
    let whole = !unread.contains(&true);
    if whole && now == record.new {
        return Content::New;
    }
    if whole && now == record.old.bytes() && !lost.contains(&true) {
        return Content::Old;
    }
    let old = record.old.bytes().chunks(SECTOR).zip(lost);
    let sectors = now.chunks(SECTOR).zip(unread).zip(old.zip(record.new.chunks(SECTOR)));
    for ((now, unread), ((old, lost), new)) in sectors {
        if now != old && now != new && !lost && !unread {
            return Content::Foreign;
        }
    }
    Content::Mixed
}

/// Returns whether the stripe's parity holds over the window with the new bytes in place.
fn holds_with_new(target: &Target, intent: &Intent, start: u32, len: u32) -> Result<bool, HostError> {
    let view = target.view(intent.stripe)?;
    let check = view.check_matrix(intent.stripe);
    let mut reader = Stripes::new(&view, target.chunk(intent.stripe));
    let mut at = 0;
    while at < len {
        let piece = reader.window_bytes().min(len - at);
        let window = reader.read(intent.stripe, start + at, piece)?;
        let ours = |role: &pumice_base::units::Role| intent.records.iter().any(|record| record.role == *role);
        if window.holes.iter().any(|(role, _)| !ours(role)) {
            return Ok(false);
        }
        let mut chunks = by_role(&view, &window.chunks, check.columns());
        for record in &intent.records {
            chunks[record.role.index()] = Some(&record.new[at as usize..(at + piece) as usize]);
        }
        if syndromes(check, &chunks, piece as usize).iter().any(|row| row.iter().any(|byte| *byte != 0)) {
            return Ok(false);
        }
        at += piece;
    }
    Ok(true)
}
