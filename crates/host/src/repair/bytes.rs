//! Decodes and encodes fields of the journal and the archive.

use super::record::{OldBytes, Record, SECTOR};
use pumice_base::durable::{BadEnvelope, Envelope};
use pumice_raid::Uuid;
use thiserror::Error;

/// Most ranges of one repair.
pub(super) const MAX_RECORDS: u32 = 64;
/// Most bytes of one range.
const MAX_RANGE: u32 = 16 << 20;
/// Most bytes of a text.
const MAX_TEXT: u32 = 1 << 20;
/// Most bytes of a file.
pub(super) const MAX_FILE: u64 = 64 << 20;

/// An invalid field.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum BadField {
    /// The bytes end too early.
    #[error("it ends within '{0}'")]
    Truncated(&'static str),
    /// Out of its range.
    #[error("field '{0}' is out of range")]
    Range(&'static str),
}

/// Bytes that are taken field by field.
pub(super) struct Fields<'b>(pub(super) &'b [u8]);

impl<'b> Fields<'b> {
    pub(super) fn array<const N: usize>(&mut self, field: &'static str) -> Result<[u8; N], BadField> {
        let (head, rest) = self.0.split_first_chunk().ok_or(BadField::Truncated(field))?;
        self.0 = rest;
        Ok(*head)
    }

    pub(super) fn slice(&mut self, len: usize, field: &'static str) -> Result<&'b [u8], BadField> {
        let (head, rest) = self.0.split_at_checked(len).ok_or(BadField::Truncated(field))?;
        self.0 = rest;
        Ok(head)
    }

    pub(super) fn u16(&mut self, field: &'static str) -> Result<u16, BadField> {
        self.array(field).map(u16::from_le_bytes)
    }

    pub(super) fn u32(&mut self, field: &'static str) -> Result<u32, BadField> {
        self.array(field).map(u32::from_le_bytes)
    }

    pub(super) fn u64(&mut self, field: &'static str) -> Result<u64, BadField> {
        self.array(field).map(u64::from_le_bytes)
    }

    pub(super) fn uuid(&mut self, field: &'static str) -> Result<Uuid, BadField> {
        self.array(field).map(Uuid)
    }

    pub(super) fn zero<const N: usize>(&mut self, field: &'static str) -> Result<(), BadField> {
        if self.array::<N>(field)? == [0; N] { Ok(()) } else { Err(BadField::Range(field)) }
    }

    pub(super) fn text(&mut self, field: &'static str) -> Result<String, BadField> {
        let len = self.u32(field)?;
        if len > MAX_TEXT {
            return Err(BadField::Range(field));
        }
        let bytes = self.slice(len as usize, field)?;
        std::str::from_utf8(bytes).map(str::to_owned).map_err(|_| BadField::Range(field))
    }

    /// The number of records.
    pub(super) fn records(&mut self) -> Result<u32, BadField> {
        match self.u32("records")? {
            records @ 1..=MAX_RECORDS => Ok(records),
            _ => Err(BadField::Range("records")),
        }
    }

    /// Length and offset of a range on a device.
    pub(super) fn range(&mut self) -> Result<(usize, u64), BadField> {
        let len = self.u32("length")?;
        if len == 0 || len > MAX_RANGE || !len.is_multiple_of(SECTOR as u32) {
            return Err(BadField::Range("length"));
        }
        let offset = self.u64("device offset")?;
        offset.checked_add(u64::from(len)).ok_or(BadField::Range("device offset"))?;
        Ok((len as usize, offset))
    }

    /// The map of lost sectors, then the old bytes.
    pub(super) fn old(&mut self, len: usize) -> Result<OldBytes, BadField> {
        let sectors = len / SECTOR;
        let map = self.slice(sectors.div_ceil(8), "lost sectors")?;
        let bit = |i: usize| map[i / 8] >> (i % 8) & 1 == 1;
        if (sectors..map.len() * 8).any(bit) {
            return Err(BadField::Range("lost sectors"));
        }
        let lost: Vec<bool> = (0..sectors).map(bit).collect();
        let bytes = self.slice(len, "old bytes")?;
        let old = OldBytes::with_lost(bytes.to_vec(), lost).filter(|old| old.bytes() == bytes);
        old.ok_or(BadField::Range("old bytes"))
    }

    /// Returns whether the tags of a range stay; `known` is whether this version of the file says
    /// so.
    pub(super) fn tags_stay(&mut self, known: bool) -> Result<bool, BadField> {
        match self.u16("tags")? {
            0 => Ok(false),
            1 if known => Ok(true),
            _ => Err(BadField::Range("tags")),
        }
    }

    pub(super) fn end(&self) -> Result<(), BadField> {
        if self.0.is_empty() { Ok(()) } else { Err(BadField::Range("end")) }
    }
}

/// Two versions of a file, of which the later one knows of tags that stay.
pub(super) struct Versions {
    pub(super) plain: Envelope,
    pub(super) with_tags: Envelope,
}

impl Versions {
    /// The bytes of a file, of the version that its records need.
    pub(super) fn seal(&self, body: &[u8], records: &[Record]) -> Vec<u8> {
        let tags_stay = records.iter().any(|record| record.tags_stay);
        if tags_stay { &self.with_tags } else { &self.plain }.seal(body)
    }

    /// The content of a file, and whether it is of the version that knows of tags.
    pub(super) fn open<'f>(&self, file: &'f [u8]) -> Result<(&'f [u8], bool), BadEnvelope> {
        match self.with_tags.open(file) {
            Ok(body) => Ok((body, true)),
            Err(BadEnvelope::Version { found, .. }) if found == self.plain.version => {
                self.plain.open(file).map(|body| (body, false))
            }
            Err(bad) => Err(bad),
        }
    }
}

pub(super) fn put_text(out: &mut Vec<u8>, text: &str) {
    // Cut where it is too long, at a character.
    let mut len = text.len().min(MAX_TEXT as usize);
    while !text.is_char_boundary(len) {
        len -= 1;
    }
    out.extend_from_slice(&(len as u32).to_le_bytes());
    out.extend_from_slice(&text.as_bytes()[..len]);
}

pub(super) fn put_old(out: &mut Vec<u8>, old: &OldBytes) {
    let mut map = vec![0_u8; old.lost().len().div_ceil(8)];
    for (i, _) in old.lost().iter().enumerate().filter(|(_, lost)| **lost) {
        map[i / 8] |= 1 << (i % 8);
    }
    out.extend_from_slice(&map);
    out.extend_from_slice(old.bytes());
}
