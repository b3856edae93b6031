//! After a crash in the middle of a repair: each range wholly old, or wholly new.

use super::plan::syndromes;
use super::{Intent, Journal, by_role};
use crate::scrub::ScrubError;
use crate::target::{Stripes, Target};
use pumice_offload::ErrorKind;
use pumice_units::Role;
use std::fmt;

/// A sector: the unit in which a drive writes all or nothing.
const SECTOR: usize = 512;

/// What was found of an interrupted repair, and what became of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Recovery {
    /// There was no journal.
    Nothing,
    /// The ranges were wholly old or wholly new already.
    Whole,
    /// Half-written; finished with the new bytes, for which parity holds.
    Finished,
    /// Half-written; put back to the old bytes, because parity does not hold for the new ones.
    PutBack,
    /// Left alone, and why.
    Dropped(&'static str),
}

impl fmt::Display for Recovery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nothing => f.write_str("no repair was interrupted"),
            Self::Whole => f.write_str("an interrupted repair had left whole chunks; its journal is removed"),
            Self::Finished => {
                f.write_str("an interrupted repair was finished: parity holds for the new bytes")
            }
            Self::PutBack => {
                f.write_str("an interrupted repair was put back: parity does not hold for the new bytes")
            }
            Self::Dropped(why) => write!(f, "the journal of an interrupted repair is dropped: {why}"),
        }
    }
}

/// What lies in a range now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Content {
    Old,
    New,
    Mixed,
    Foreign,
}

/// Brings an interrupted repair to an end, before anything else of a repairing run.
///
/// # Errors
/// Where the journal cannot be read or is none, or a node fails.
pub fn recover(target: &Target, journal: &Journal) -> Result<Recovery, ScrubError> {
    let state_error = |error| ScrubError::state(journal.path(), "the repair journal", error);
    let Some(intent) = journal.load().map_err(state_error)? else { return Ok(Recovery::Nothing) };
    let outcome = settle(target, &intent)?;
    journal.clear().map_err(state_error)?;
    Ok(outcome)
}

fn settle(target: &Target, intent: &Intent) -> Result<Recovery, ScrubError> {
    if intent.array != target.array().uuid().0 {
        return Ok(Recovery::Dropped("it is of another array"));
    }
    if intent.events != target.array().events() {
        return Ok(Recovery::Dropped("the array has been assembled since"));
    }
    let Some((start, len)) = window(target, intent) else {
        return Ok(Recovery::Dropped("its ranges are not where the members have that stripe"));
    };
    let mut contents = Vec::with_capacity(intent.records.len());
    for record in &intent.records {
        let member = target.member(Role(record.role)).expect("the window was found on it");
        let mut now = vec![0; record.old.len()];
        contents.push(match member.node.read(member.drive, record.device_offset, &mut now) {
            Ok(()) => classify(&now, &record.old, &record.new),
            // A range that cannot be read is neither old nor new, and can become either.
            Err(error) if error.kind() == ErrorKind::Media => Content::Mixed,
            Err(error) => return Err(error.into()),
        });
    }
    if contents.contains(&Content::Foreign) {
        return Ok(Recovery::Dropped("somebody has written there since"));
    }
    if contents.iter().all(|c| *c == Content::Old) || contents.iter().all(|c| *c == Content::New) {
        return Ok(Recovery::Whole);
    }
    let finish = holds_with_new(target, intent, start, len)?;
    for record in &intent.records {
        let member = target.member(Role(record.role)).expect("as above");
        let bytes = if finish { &record.new } else { &record.old };
        member.node.write(member.drive, record.device_offset, bytes)?;
    }
    for record in &intent.records {
        let member = target.member(Role(record.role)).expect("as above");
        member.node.flush(member.drive)?;
        let mut back = vec![0; record.new.len()];
        member.node.read(member.drive, record.device_offset, &mut back)?;
        if back != if finish { &record.new[..] } else { &record.old[..] } {
            return Err(ScrubError::RepairNotVerified { stripe: intent.stripe, start });
        }
    }
    Ok(if finish { Recovery::Finished } else { Recovery::PutBack })
}

/// The window of the chunk that the records cover: the same on every member.
fn window(target: &Target, intent: &Intent) -> Option<(u32, u32)> {
    let chunk = u64::from(target.chunk());
    if intent.stripe >= target.geometry().stripes() {
        return None;
    }
    let mut common = None;
    for record in &intent.records {
        let member = target.member(Role(record.role))?;
        let base = member.data_offset + intent.stripe * chunk;
        let start = record.device_offset.checked_sub(base)?;
        let len = record.old.len() as u64;
        if start + len > chunk || *common.get_or_insert((start, len)) != (start, len) {
            return None;
        }
    }
    common.map(|(start, len)| (start as u32, len as u32))
}

fn classify(now: &[u8], old: &[u8], new: &[u8]) -> Content {
    if now == new {
        return Content::New;
    }
    if now == old {
        return Content::Old;
    }
    let sectors = now.chunks(SECTOR).zip(old.chunks(SECTOR).zip(new.chunks(SECTOR)));
    for (now, (old, new)) in sectors {
        if now != old && now != new {
            return Content::Foreign;
        }
    }
    Content::Mixed
}

/// Whether the stripe's parity holds over the window with the new bytes in place.
fn holds_with_new(target: &Target, intent: &Intent, start: u32, len: u32) -> Result<bool, ScrubError> {
    let view = target.view(intent.stripe)?;
    let check = view.check_matrix(intent.stripe);
    let mut reader = Stripes::new(&view, target.chunk());
    let mut at = 0;
    while at < len {
        let piece = reader.window_bytes().min(len - at);
        let window = reader.read(intent.stripe, start + at, piece)?;
        let ours = |role: &Role| intent.records.iter().any(|record| record.role == role.0);
        if window.holes.iter().any(|(role, _)| !ours(role)) {
            return Ok(false);
        }
        let mut chunks = by_role(&view, &window.chunks, check.columns());
        for record in &intent.records {
            chunks[usize::from(record.role)] = Some(&record.new[at as usize..(at + piece) as usize]);
        }
        if syndromes(check, &chunks, piece as usize).iter().any(|row| row.iter().any(|byte| *byte != 0)) {
            return Ok(false);
        }
        at += piece;
    }
    Ok(true)
}
