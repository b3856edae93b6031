//! The file that keeps marks over restarts. Everything is little-endian.
//!
//! | off | size | field |
//! |---|---|---|
//! | 0 | 8 | `PUMICEMK` |
//! | 8 | 4 | version, 1 |
//! | 12 | 4 | ranges, n |
//! | 16 | 16 n | each: first byte 0:8, end 8:8; ascending, apart from each other |
//! | 16 + 16 n | 4 | CRC-32C of everything before |
//!
//! A change replaces the file atomically, as `docs/reference/on-disk/durable.md` describes.

use super::MAX_MARKS;
use super::ranges::Ranges;
use pumice_base::durable::{Folder, Store, replace, sweep};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

const MAGIC: [u8; 8] = *b"PUMICEMK";
const VERSION: u32 = 1;
const HEADER: usize = 16;
const RANGE: usize = 16;
const CRC: usize = 4;
/// Bytes of the longest file.
const MAX_LEN: usize = HEADER + RANGE * MAX_MARKS + CRC;

/// Marks of a device that cannot be known.
#[derive(Debug, thiserror::Error)]
pub enum MarksError {
    /// The file cannot be read.
    #[error("{path}: {source}")]
    Read {
        /// The file.
        path: PathBuf,
        /// The failure.
        source: io::Error,
    },
    /// The file is damaged, or another kind of file.
    #[error(
        "{path}: {why}; it lists the ranges that hosts marked unreadable: remove it to make all of them readable"
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The problem with it.
        why: &'static str,
    },
}

/// A file of marks.
#[derive(Debug)]
pub(super) struct MarksFile {
    store: Arc<dyn Store>,
    name: String,
}

impl MarksFile {
    /// Path of the file.
    pub(super) fn path(&self) -> PathBuf {
        self.store.path(&self.name)
    }

    /// The file at a path, whether or not it is there.
    pub(super) fn at(path: &std::path::Path) -> Result<Self, MarksError> {
        let (folder, name) =
            Folder::of(path).map_err(|source| MarksError::Read { path: path.to_owned(), source })?;
        Ok(Self::of(Arc::new(folder), &name))
    }

    pub(super) fn of(store: Arc<dyn Store>, name: &str) -> Self {
        Self { store, name: name.to_owned() }
    }

    /// The marks in it; none if there is no file.
    pub(super) fn load(&self) -> Result<Ranges, MarksError> {
        let path = || self.store.path(&self.name);
        match self.store.read(&self.name, MAX_LEN as u64) {
            Ok(Some(bytes)) => decode(&bytes).map_err(|why| MarksError::Damaged { path: path(), why }),
            Ok(None) => Ok(Ranges::default()),
            Err(error) if error.kind() == io::ErrorKind::FileTooLarge => {
                Err(MarksError::Damaged { path: path(), why: "not a file of unreadable ranges" })
            }
            Err(source) => Err(MarksError::Read { path: path(), source }),
        }
    }

    /// Keeps marks: durable when this returns.
    pub(super) fn store(&self, marks: &Ranges) -> io::Result<()> {
        self.store.make()?;
        // Changes are made one at a time, so whatever else is there was left by a crash.
        sweep(&*self.store, &self.name)?;
        replace(&*self.store, &self.name, &encode(marks))
    }
}

fn encode(marks: &Ranges) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(HEADER + RANGE * marks.len() + CRC);
    bytes.extend_from_slice(&MAGIC);
    bytes.extend_from_slice(&VERSION.to_le_bytes());
    bytes.extend_from_slice(&(marks.len() as u32).to_le_bytes());
    for (start, end) in marks.iter() {
        bytes.extend_from_slice(&start.to_le_bytes());
        bytes.extend_from_slice(&end.to_le_bytes());
    }
    let crc = crc32c::crc32c(&bytes);
    bytes.extend_from_slice(&crc.to_le_bytes());
    bytes
}

fn decode(bytes: &[u8]) -> Result<Ranges, &'static str> {
    let dword = |at: usize| u32::from_le_bytes(std::array::from_fn(|i| bytes[at + i]));
    let qword = |at: usize| u64::from_le_bytes(std::array::from_fn(|i| bytes[at + i]));
    if bytes.len() < HEADER + CRC || bytes.len() > MAX_LEN || bytes[..8] != MAGIC {
        return Err("not a file of unreadable ranges");
    }
    let end = bytes.len() - CRC;
    if dword(end) != crc32c::crc32c(&bytes[..end]) {
        return Err("damaged: its checksum is wrong");
    }
    if dword(8) != VERSION {
        return Err("of an unknown version");
    }
    if end - HEADER != dword(12) as usize * RANGE {
        return Err("damaged: its length is wrong");
    }
    let mut marks = Ranges::default();
    let mut so_far = 0;
    for at in (HEADER..end).step_by(RANGE) {
        let (start, end) = (qword(at), qword(at + 8));
        if start >= end || (so_far != 0 && start <= so_far) {
            return Err("damaged: its ranges are not in order");
        }
        marks.insert(start, end);
        so_far = end;
    }
    Ok(marks)
}

#[cfg(test)]
mod tests {
    use super::*;
    use pumice_base::durable::FaultyStore;

    #[test]
    fn after_a_cut_at_any_operation_the_marks_are_the_old_ones_or_the_new() {
        for seed in 0..300 {
            let store = FaultyStore::new(seed);
            let file = MarksFile::of(Arc::new(store.clone()), "marks");
            let (mut old, mut new) = (Ranges::default(), Ranges::default());
            old.insert(0, 512);
            for i in 0..100 {
                new.insert(i * 4096, i * 4096 + 512);
            }
            file.store(&old).unwrap();
            store.cut_power_after(seed % 7);
            let stored = file.store(&new);
            store.crash();
            let found = file.load().unwrap();
            assert!(found == new || (stored.is_err() && found == old), "seed {seed}");
            file.store(&old).unwrap();
            assert_eq!(store.names().unwrap(), ["marks"], "what was left is gone");
        }
    }

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    #[test]
    fn the_bytes_of_a_file() {
        let mut marks = Ranges::default();
        marks.insert(0x200, 0x600);
        marks.insert(0x1_0000_0000, 0x1_0000_1000);
        let bytes = encode(&marks);
        let expected = "50554d4943454d4b0100000002000000\
             00020000000000000006000000000000\
             00000000010000000010000001000000";
        assert_eq!(hex(&bytes[..48]), expected);
        assert_eq!(bytes[48..], crc32c::crc32c(&bytes[..48]).to_le_bytes());
        assert_eq!(decode(&bytes), Ok(marks));
    }

    #[test]
    fn no_damaged_file_is_believed() {
        let mut marks = Ranges::default();
        marks.insert(0, 512);
        marks.insert(4096, 8192);
        let bytes = encode(&marks);
        for len in 0..bytes.len() {
            assert!(decode(&bytes[..len]).is_err(), "{len}");
        }
        for at in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[at] ^= 1;
            assert!(decode(&changed).is_err(), "{at}");
        }
        // Of another version, overlapping, empty: with a checksum that fits.
        for (at, value) in [(8, 2), (12, 1), (24, 0), (33, 1)] {
            let mut changed = bytes[..bytes.len() - CRC].to_vec();
            changed[at] = value;
            if at == 24 {
                changed[25] = 0;
            }
            let crc = crc32c::crc32c(&changed);
            changed.extend_from_slice(&crc.to_le_bytes());
            assert!(decode(&changed).is_err(), "{at}");
        }
        assert!(decode(&vec![0; MAX_LEN + 1]).is_err());
    }
}
