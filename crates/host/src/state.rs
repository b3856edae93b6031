//! Progress that survives: the state of an interrupted pass. `docs/on-disk/progress-state.md` describes the file.

use crate::Method;
use crate::files::{remove_durably, write_durably};
use crate::finding::Finding;
use crate::scrub::{Order, ScrubError};
use pumice_raid::Uuid;
use pumice_raid::geometry::Geometry;
use pumice_telemetry::Ledger;
use serde::{Deserialize, Serialize};
use std::fs::{self, File, TryLockError};
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// The version of the file.
pub(crate) const VERSION: u32 = 2;

/// What of an array's shape a pass relies on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Shape {
    level: i32,
    /// mdadm's name of it.
    layout: Option<String>,
    chunk_bytes: u64,
    raid_disks: u16,
    stripes: u64,
}

impl Shape {
    pub(crate) fn of(geometry: &Geometry) -> Self {
        Self {
            level: geometry.level().number(),
            layout: geometry.layout().map(|layout| layout.to_string()),
            chunk_bytes: geometry.chunk_bytes(),
            raid_disks: geometry.raid_disks(),
            stripes: geometry.stripes(),
        }
    }
}

/// What a state directory says of an interrupted pass.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Before {
    /// There was none.
    Nothing,
    /// It can be gone on with.
    Pass(Box<SavedPass>),
    /// Another version of this program saved it: there is nothing wrong with it, and it cannot be gone on with.
    OtherVersion(u64),
}

/// What a pass checks and how: a resumed pass takes it over.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PassKey {
    pub(crate) method: Method,
    pub(crate) batch: u64,
    pub(crate) accumulators: u8,
    pub(crate) seed: String,
    pub(crate) range: Range<u64>,
    pub(crate) order: Order,
    /// What of the array the pass relies on.
    pub(crate) geometry: Shape,
    /// Digest of batches and their order.
    pub(crate) plan: u32,
}

/// An interrupted pass.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct SavedPass {
    version: u32,
    pub(crate) array: String,
    #[serde(flatten)]
    pub(crate) key: PassKey,
    pub(crate) batches_done: usize,
    pub(crate) stripes_checked: u64,
    pub(crate) rechecked: u64,
    pub(crate) bytes_checked: u64,
    pub(crate) findings: Vec<Finding>,
    pub(crate) patterns: Vec<crate::pattern::Pattern>,
    pub(crate) ledger: Ledger,
    pub(crate) miss_bound: f64,
    pub(crate) seconds: f64,
}

impl SavedPass {
    /// A pass that has not begun.
    pub(crate) fn new(array: String, key: PassKey) -> Self {
        Self {
            version: VERSION,
            array,
            key,
            batches_done: 0,
            stripes_checked: 0,
            rechecked: 0,
            bytes_checked: 0,
            findings: Vec::new(),
            patterns: Vec::new(),
            ledger: Ledger::default(),
            miss_bound: 0.0,
            seconds: 0.0,
        }
    }
}

/// The files of one array in the state directory, locked while this value lives.
#[derive(Debug)]
pub struct StateFiles {
    folder: PathBuf,
    array: String,
    // Held for its lock alone.
    _lock: File,
}

impl StateFiles {
    /// Opens (and makes) the state directory and locks the array's files.
    ///
    /// # Errors
    /// [`ScrubError::Locked`] where another scrub of the array runs, [`ScrubError::State`] where the directory cannot be used.
    pub fn open(folder: &Path, array: Uuid) -> Result<Self, ScrubError> {
        let array = array.to_string();
        fs::create_dir_all(folder)
            .map_err(|error| ScrubError::state(folder, "the state directory cannot be made", error))?;
        let path = folder.join(format!("{array}.lock"));
        let lock = File::create(&path).map_err(|error| ScrubError::state(&path, "cannot be made", error))?;
        match lock.try_lock() {
            Ok(()) => Ok(Self { folder: folder.to_owned(), array, _lock: lock }),
            Err(TryLockError::WouldBlock) => Err(ScrubError::Locked(path)),
            Err(TryLockError::Error(error)) => Err(ScrubError::state(&path, "cannot be locked", error)),
        }
    }

    fn path(&self, kind: &str) -> PathBuf {
        self.folder.join(format!("{}.{kind}", self.array))
    }

    /// Where the repair journal is.
    #[must_use]
    pub fn journal_path(&self) -> PathBuf {
        self.path("repair")
    }

    /// The interrupted pass, if there is one.
    pub(crate) fn load(&self) -> Result<Before, ScrubError> {
        /// What every version has.
        #[derive(Deserialize)]
        struct Versioned {
            version: u64,
        }
        let path = self.path("scrub");
        let bytes = match fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Before::Nothing),
            Err(error) => return Err(ScrubError::state(path, "cannot be read", error)),
        };
        let bad = |context: String| ScrubError::State { path: path.clone(), context, source: None };
        let no_state = |error| bad(format!("is not the state of a scrub: {error}"));
        let Versioned { version } = serde_json::from_slice(&bytes).map_err(no_state)?;
        if version != u64::from(VERSION) {
            return Ok(Before::OtherVersion(version));
        }
        let saved: SavedPass = serde_json::from_slice(&bytes).map_err(no_state)?;
        if saved.array != self.array {
            return Err(bad(format!("array is {}, not {}", saved.array, self.array)));
        }
        Ok(Before::Pass(Box::new(saved)))
    }

    /// Saves a pass.
    pub(crate) fn save(&self, pass: &SavedPass) -> Result<(), ScrubError> {
        let path = self.path("scrub");
        let bytes = serde_json::to_vec(pass).expect("plain data has a JSON form");
        write_durably(&path, &bytes).map_err(|error| ScrubError::state(path, "cannot be written", error))
    }

    /// Forgets the pass: it has come to its end.
    pub(crate) fn clear(&self) -> Result<(), ScrubError> {
        let path = self.path("scrub");
        remove_durably(&path).map_err(|error| ScrubError::state(path, "cannot be removed", error))
    }
}
