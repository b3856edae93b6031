//! The only function by which repair, recovery and undo write: it writes every range, then flushes
//! every member, so that all bytes are durable before anything is read back. On drives with tags
//! the blocks get the tags of rule R26.

use super::record::{Intent, IntentKind, Record};
use crate::error::HostError;
use crate::stripes::read_raw;
use crate::target::{Member, Target};
use pumice_base::units::Role;
use pumice_offload::{ErrorKind, TaggedDrives};
use pumice_protect::origin::RestoredTag;
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
            let data = &bytes.of(record)[part];
            match target.tag_format(record.role)? {
                Some(_) if record.tags_stay => {
                    member.node.tagged_drives()?.restore(member.drive, place, data, RestoredTag::Stays)?;
                }
                Some(format) if puts_back(intent.kind, bytes) => {
                    put_back(target, record.role, place, data, format.block_bytes as usize)?;
                }
                _ => member.node.write(member.drive, place, data)?,
            }
        }
    }
    for record in &intent.records {
        let member = member(target, record);
        member.node.flush(member.drive)?;
    }
    Ok(written)
}

/// Returns whether one side of an intent is bytes of before, which no tag may speak for.
fn puts_back(kind: IntentKind, bytes: Bytes) -> bool {
    (kind, bytes) != (IntentKind::Repair, Bytes::New)
}

/// Writes bytes of before: with adopted tags, except for blocks that hold them already. These are
/// written too, because they may be in a cache only, and keep their tags.
fn put_back(target: &Target, role: Role, place: u64, data: &[u8], block: usize) -> Result<(), HostError> {
    let member = target.member(role).expect("the member of a record is there");
    let mut present = vec![0; data.len()];
    let known = match read_raw(target, role, place, &mut present) {
        Ok(()) => true,
        Err(error) if error.kind() == ErrorKind::Media => false,
        Err(error) => return Err(error.into()),
    };
    let is_there = |at: usize| {
        let range = at..(at + block).min(data.len());
        known && present[range.clone()] == data[range]
    };
    let mut start = 0;
    while start < data.len() {
        let stays = is_there(start);
        let mut end = start + block;
        while end < data.len() && is_there(end) == stays {
            end += block;
        }
        let end = end.min(data.len());
        let tag = if stays { RestoredTag::Stays } else { RestoredTag::Adopted };
        member.node.tagged_drives()?.restore(member.drive, place + start as u64, &data[start..end], tag)?;
        start = end;
    }
    Ok(())
}

/// Returns whether the node of a member can put bytes back beside tags.
pub(super) fn can_restore(target: &Target, role: Role) -> bool {
    target.member(role).is_some_and(|member| member.node.tagged().is_some_and(TaggedDrives::restores))
}

/// The first member of an intent that has tags, and whose node cannot put one side of it back.
///
/// # Errors
/// If a node fails.
///
/// # Panics
/// If the member of a record is missing.
pub(super) fn cannot_restore<'t>(
    target: &'t Target,
    intent: &Intent,
    bytes: Bytes,
) -> Result<Option<&'t Member>, HostError> {
    for record in &intent.records {
        let needs = record.tags_stay || puts_back(intent.kind, bytes);
        if needs && !can_restore(target, record.role) && target.tag_format(record.role)?.is_some() {
            return Ok(Some(member(target, record)));
        }
    }
    Ok(None)
}

/// The reason for that.
pub(super) fn why_not(member: &Member) -> String {
    format!("node '{}' is of an earlier version, and cannot put bytes back beside tags", member.node_name)
}

/// Returns whether the members hold one side of every record.
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
