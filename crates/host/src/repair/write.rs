//! The only function by which repair, recovery and undo write: it writes every range, then flushes
//! every member, so that all bytes are durable before anything is read back.

use super::record::{Intent, Record};
use crate::error::HostError;
use crate::stripes::read_raw;
use crate::target::{Member, Target};
use std::ops::Range;

/// The side of an intent: its old or its new bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Bytes {
    /// The new bytes.
    New,
    /// The old bytes. A lost sector has none, and is left alone.
    Old,
}

impl Bytes {
    fn parts(self, record: &Record) -> Vec<Range<usize>> {
        match self {
            Self::New => std::iter::once(0..record.new.len()).collect(),
            Self::Old => record.old.known().collect(),
        }
    }

    fn of(self, record: &Record) -> &[u8] {
        match self {
            Self::New => &record.new,
            Self::Old => record.old.bytes(),
        }
    }
}

/// Writes one side of every record and flushes the members. Returns the bytes written.
///
/// # Errors
/// If a node or a drive fails.
///
/// # Panics
/// If the member of a record is missing: the caller must have checked that.
pub(super) fn write(target: &Target, intent: &Intent, bytes: Bytes) -> Result<u64, HostError> {
    let mut written = 0;
    for record in &intent.records {
        let member = member(target, record);
        for part in bytes.parts(record) {
            let place = record.device_offset + part.start as u64;
            written += part.len() as u64;
            member.node.write(member.drive, place, &bytes.of(record)[part])?;
        }
    }
    for record in &intent.records {
        let member = member(target, record);
        member.node.flush(member.drive)?;
    }
    Ok(written)
}

/// Whether the members hold one side of every record.
///
/// # Errors
/// If a node or a drive fails.
///
/// # Panics
/// If the member of a record is missing.
pub(super) fn reads_back(target: &Target, intent: &Intent, bytes: Bytes) -> Result<bool, HostError> {
    for record in &intent.records {
        for part in bytes.parts(record) {
            let mut back = vec![0; part.len()];
            read_raw(target, record.role, record.device_offset + part.start as u64, &mut back)?;
            if back != bytes.of(record)[part] {
                return Ok(false);
            }
        }
    }
    Ok(true)
}

fn member<'t>(target: &'t Target, record: &Record) -> &'t Member {
    target.member(record.role).expect("the member of a record is there")
}
