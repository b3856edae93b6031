//! Reads a tag file, and finds every reason to refuse it.

use super::{LOG_ALIGN, SharedMedium, TagError, TagFile};
use crate::geometry::LOG_AT;
use crate::header::Header;
use crate::record::Record;
use pumice_base::durable::{Medium, Ring};
use pumice_blockdev::BlockDevice;

/// A tag file that was read, and belongs to the drive.
pub(super) struct Examined {
    pub(super) header: Header,
    pub(super) ring: Ring<SharedMedium>,
    /// It was closed, and was not read.
    pub(super) is_ended: bool,
    /// The numbers of the records.
    pub(super) numbers: Vec<u64>,
    pub(super) records: Vec<Record>,
}

/// Finds every reason to refuse a tag file, and writes nothing.
pub(super) fn examine(
    medium: &SharedMedium,
    drive: &dyn BlockDevice,
    serial: &str,
) -> Result<Examined, TagError> {
    let mut header = TagFile::peek(medium)?;
    header.geometry = header.geometry.with_secret(header.identity);
    check_drive(&header, drive, serial)?;
    let geometry = header.geometry;
    check_length(medium, &header)?;
    let (at, identity) = ((LOG_AT, geometry.log_bytes()), header.identity);
    let ended = match header.clean {
        true => Ring::open_ended(medium.clone(), at, LOG_ALIGN, identity, &end_note(&header))?,
        false => None,
    };
    let is_ended = ended.is_some();
    let (ring, entries) = match ended {
        Some(ring) => (ring, Vec::new()),
        None => Ring::open(medium.clone(), at.0, at.1, LOG_ALIGN, identity)?,
    };
    let numbers = entries.iter().map(|entry| entry.sequence).collect();
    let records = entries.iter().map(|entry| Record::decode(&geometry, &entry.body));
    let records = records.collect::<Result<Vec<_>, _>>()?;
    Ok(Examined { header, ring, is_ended, numbers, records })
}

impl TagFile {
    /// Counts the records that a recovery would take from the log of a tag file that nobody uses.
    /// Nothing is written.
    ///
    /// # Errors
    /// If the log is damaged, it is no tag file, or the medium fails.
    pub fn count_log(medium: &SharedMedium) -> Result<u64, TagError> {
        let Header { identity, geometry, clean, .. } = Self::peek(medium)?;
        if clean {
            return Ok(0);
        }
        let (_, entries) = Ring::open(medium.clone(), LOG_AT, geometry.log_bytes(), LOG_ALIGN, identity)?;
        for entry in &entries {
            Record::decode(&geometry, &entry.body)?;
        }
        Ok(entries.len() as u64)
    }
}

/// The note of the end marker of a session.
pub(super) fn end_note(header: &Header) -> [u8; 8] {
    header.generation.to_le_bytes()
}

/// Refuses tags of a drive of another size, or with another serial number; `serial` is empty if it
/// is not known.
///
/// # Errors
/// With the field that differs, and both values.
pub fn check_drive(header: &Header, drive: &dyn BlockDevice, serial: &str) -> Result<(), TagError> {
    let geometry = &header.geometry;
    let other = |field, tags: String, drive: String| Err(TagError::OtherDrive { field, tags, drive });
    if drive.size_bytes() != geometry.size() {
        let (tags, drive) = (geometry.size(), drive.size_bytes());
        return other("size", format!("{tags} bytes"), format!("{drive} bytes"));
    }
    if !serial.is_empty() && !header.serial.is_empty() && serial != header.serial {
        return other("serial number", format!("'{}'", header.serial), format!("'{serial}'"));
    }
    Ok(())
}

/// Refuses a medium that ends before the last part of the file: pages that lie behind its end could
/// not be written, and the drive would fail all writes.
pub(crate) fn check_length(medium: &dyn Medium, header: &Header) -> Result<(), TagError> {
    let needs = header.geometry.file_bytes();
    match medium.size_bytes() {
        Some(has) if has < needs => Err(TagError::Short { has, needs }),
        _ => Ok(()),
    }
}
