//! The repair journal on disk. `docs/on-disk/repair-journal.md` has its byte map and its states.

use crate::files::{remove_durably, write_durably};
use std::io;
use std::path::{Path, PathBuf};
use thiserror::Error;

const MAGIC: [u8; 8] = *b"PUMREPJ1";
const CRC_AT: usize = 12;
const BODY_AT: usize = 16;
const HEADER: usize = 48;
const RECORD_HEADER: usize = 16;
const MAX_RECORDS: u32 = 64;
const MAX_RANGE: u32 = 16 << 20;

/// One range of one member, before and after.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// The member.
    pub role: u16,
    /// Byte offset on its device.
    pub device_offset: u64,
    /// The bytes before the repair.
    pub old: Vec<u8>,
    /// The bytes after it; as many.
    pub new: Vec<u8>,
}

/// What a repair is about to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Intent {
    /// The array's UUID as stored.
    pub array: [u8; 16],
    /// Its event count.
    pub events: u64,
    /// The stripe.
    pub stripe: u64,
    /// The ranges, 1 to 64 of them.
    pub records: Vec<Record>,
}

/// A journal that is not one.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum BadJournal {
    /// It ends too early.
    #[error("it ends within {0}")]
    Truncated(&'static str),
    /// Another file.
    #[error("magic is not PUMREPJ1")]
    Magic,
    /// Damaged.
    #[error("CRC-32C is {found:08x}, its bytes give {computed:08x}")]
    Checksum {
        /// In the file.
        found: u32,
        /// Of the file.
        computed: u32,
    },
    /// A field out of its range.
    #[error("field '{0}' is out of range")]
    Field(&'static str),
}

/// Takes `N` bytes off the front.
fn take<const N: usize>(bytes: &mut &[u8], field: &'static str) -> Result<[u8; N], BadJournal> {
    let (head, rest) = bytes.split_first_chunk().ok_or(BadJournal::Truncated(field))?;
    *bytes = rest;
    Ok(*head)
}

fn take_slice<'a>(bytes: &mut &'a [u8], len: usize, field: &'static str) -> Result<&'a [u8], BadJournal> {
    let (head, rest) = bytes.split_at_checked(len).ok_or(BadJournal::Truncated(field))?;
    *bytes = rest;
    Ok(head)
}

impl Intent {
    /// The bytes of the file.
    ///
    /// # Panics
    /// Where a record's halves differ in length: the caller made it wrong.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut body = Vec::with_capacity(HEADER);
        body.extend_from_slice(&self.array);
        body.extend_from_slice(&self.events.to_le_bytes());
        body.extend_from_slice(&self.stripe.to_le_bytes());
        for record in &self.records {
            assert_eq!(record.old.len(), record.new.len(), "old and new cover the same range");
            body.extend_from_slice(&record.role.to_le_bytes());
            body.extend_from_slice(&[0; 2]);
            body.extend_from_slice(&(record.old.len() as u32).to_le_bytes());
            body.extend_from_slice(&record.device_offset.to_le_bytes());
            body.extend_from_slice(&record.old);
            body.extend_from_slice(&record.new);
        }
        let mut file = Vec::with_capacity(BODY_AT + body.len());
        file.extend_from_slice(&MAGIC);
        file.extend_from_slice(&(self.records.len() as u32).to_le_bytes());
        file.extend_from_slice(&crc32c::crc32c(&body).to_le_bytes());
        debug_assert_eq!(file.len(), BODY_AT);
        file.extend_from_slice(&body);
        file
    }

    /// Reads the bytes of a file.
    ///
    /// # Errors
    /// Where they are no journal; the error names the field.
    pub fn decode(file: &[u8]) -> Result<Self, BadJournal> {
        let mut rest = file;
        if take::<8>(&mut rest, "magic")? != MAGIC {
            return Err(BadJournal::Magic);
        }
        let count = u32::from_le_bytes(take(&mut rest, "records")?);
        debug_assert_eq!(file.len() - rest.len(), CRC_AT);
        let found = u32::from_le_bytes(take(&mut rest, "crc")?);
        let computed = crc32c::crc32c(rest);
        if found != computed {
            return Err(BadJournal::Checksum { found, computed });
        }
        if count == 0 || count > MAX_RECORDS {
            return Err(BadJournal::Field("records"));
        }
        let array = take(&mut rest, "array uuid")?;
        let events = u64::from_le_bytes(take(&mut rest, "events")?);
        let stripe = u64::from_le_bytes(take(&mut rest, "stripe")?);
        let records = (0..count).map(|_| Record::decode(&mut rest)).collect::<Result<_, _>>()?;
        if !rest.is_empty() {
            return Err(BadJournal::Field("records"));
        }
        Ok(Self { array, events, stripe, records })
    }
}

impl Record {
    fn decode(rest: &mut &[u8]) -> Result<Self, BadJournal> {
        debug_assert_eq!(RECORD_HEADER, 2 + 2 + 4 + 8);
        let role = u16::from_le_bytes(take(rest, "role")?);
        if take::<2>(rest, "padding")? != [0; 2] {
            return Err(BadJournal::Field("padding"));
        }
        let len = u32::from_le_bytes(take(rest, "length")?);
        if len == 0 || len > MAX_RANGE || !len.is_multiple_of(512) {
            return Err(BadJournal::Field("length"));
        }
        let device_offset = u64::from_le_bytes(take(rest, "device offset")?);
        if device_offset.checked_add(u64::from(len)).is_none() {
            return Err(BadJournal::Field("device offset"));
        }
        let old = take_slice(rest, len as usize, "old bytes")?.to_vec();
        let new = take_slice(rest, len as usize, "new bytes")?.to_vec();
        Ok(Self { role, device_offset, old, new })
    }
}

/// The journal's file.
#[derive(Debug, Clone)]
pub struct Journal {
    path: PathBuf,
}

impl Journal {
    /// The journal at `path`, whether or not the file is there.
    #[must_use]
    pub fn at(path: PathBuf) -> Self {
        Self { path }
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes an intent; when this returns, it survives a crash.
    ///
    /// # Errors
    /// Where the file system does not take it. Then no journal is there.
    pub fn begin(&self, intent: &Intent) -> io::Result<()> {
        write_durably(&self.path, &intent.encode())
    }

    /// Reads what is there.
    ///
    /// # Errors
    /// Where the file cannot be read, or is no journal (kind `InvalidData`).
    pub fn load(&self) -> io::Result<Option<Intent>> {
        match std::fs::read(&self.path) {
            Ok(bytes) => Intent::decode(&bytes)
                .map(Some)
                .map_err(|bad| io::Error::new(io::ErrorKind::InvalidData, bad)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Removes it; when this returns, it stays removed after a crash.
    ///
    /// # Errors
    /// Where the file system does not let it.
    pub fn clear(&self) -> io::Result<()> {
        remove_durably(&self.path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn intent() -> Intent {
        let record =
            |role, byte| Record { role, device_offset: 1 << 20, old: vec![0; 512], new: vec![byte; 512] };
        Intent { array: [7; 16], events: 20, stripe: 3, records: vec![record(1, 9), record(5, 8)] }
    }

    #[test]
    fn what_was_written_is_read() {
        assert_eq!(Intent::decode(&intent().encode()), Ok(intent()));
    }

    #[test]
    fn every_truncation_and_every_flipped_bit_is_refused() {
        let good = intent().encode();
        for len in 0..good.len() {
            assert!(Intent::decode(&good[..len]).is_err(), "{len} bytes");
        }
        for at in 0..good.len() * 8 {
            let mut bad = good.clone();
            bad[at / 8] ^= 1 << (at % 8);
            assert!(Intent::decode(&bad).is_err(), "bit {at}");
        }
    }

    #[test]
    fn the_file_is_there_or_not() {
        let folder = tempfile::tempdir().unwrap();
        let journal = Journal::at(folder.path().join("x.repair"));
        assert_eq!(journal.load().unwrap(), None);
        journal.begin(&intent()).unwrap();
        assert_eq!(journal.load().unwrap(), Some(intent()));
        journal.clear().unwrap();
        journal.clear().unwrap();
        assert_eq!(journal.load().unwrap(), None);
        std::fs::write(journal.path(), b"PUMREPJ1 and nonsense").unwrap();
        assert_eq!(journal.load().unwrap_err().kind(), io::ErrorKind::InvalidData);
    }
}
