//! The files of one array in the state directory: progress, the repair journal, the repair archive.
//!
//! `docs/reference/on-disk/progress-state.md` describes the directory and the progress file.

mod progress;

pub(crate) use progress::{Before, MAX_SAVED_FINDINGS, PassKey, SavedPass, Shape};

use crate::error::HostError;
use crate::repair::EntryId;
use crate::repair::{Archive, Found, Journal};
use pumice_base::durable::{Envelope, Folder, Lock, Store, remove, replace, sweep};
use pumice_raid::Uuid;
use serde::{Deserialize, Serialize};
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The record of a healing.
const HEAL: Envelope = Envelope { magic: *b"PUMHEALR", version: 1 };
/// Most bytes of it.
const MAX_HEAL: u64 = 4096;
/// Most bytes of a progress file.
const MAX_PROGRESS: u64 = 256 << 20;

/// The repair archives in a state directory, by array. No lock is needed: entries are complete or
/// absent.
///
/// # Errors
/// If the folder is there and cannot be listed.
pub fn archives(folder: &Path) -> Result<Vec<(Uuid, Archive)>, HostError> {
    let store = Folder::new(folder);
    let listed = |folder: &Path| -> io::Result<Vec<String>> {
        fs::read_dir(folder)?.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned())).collect()
    };
    let mut names = match listed(folder) {
        Err(error) if error.kind() == ErrorKind::NotFound => Vec::new(),
        names => names.map_err(|error| HostError::state(folder, "cannot be listed", error))?,
    };
    names.sort_unstable();
    let archive = |name: &String| {
        let array: Uuid = name.strip_suffix(".repairs")?.parse().ok()?;
        Some((array, Archive::open(store.folder(name), array)))
    };
    Ok(names.iter().filter_map(archive).collect())
}

/// The record of a healing's orders to md, so that they can be reversed: `docs/design/healing.md`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HealRecord {
    /// The kernel's name of the array, such as `md0`.
    pub md: String,
    /// The kernel's identifier of its boot.
    pub boot: String,
}

/// The files of one array in the state directory, locked while this value lives.
#[derive(Debug)]
pub struct StateFiles {
    store: Arc<dyn Store>,
    array: Uuid,
    /// The reason why nothing can be written here; `None` if writing is known or assumed to work.
    read_only: Option<String>,
    // Held for its lock alone.
    _lock: Option<Lock>,
}

impl StateFiles {
    /// Opens the state directory, creates it if it does not exist, and locks the array's files.
    ///
    /// In a directory that exists but cannot be written, the files can still be read: see
    /// [`read_only`](Self::read_only).
    ///
    /// # Errors
    /// [`HostError::Locked`] if another scrub of the array runs, [`HostError::State`] if the
    /// directory cannot be used at all.
    pub fn open(folder: &Path, array: Uuid) -> Result<Self, HostError> {
        let store = Folder::new(folder);
        store
            .make()
            .map_err(|error| HostError::state(folder, "the state directory cannot be created", error))?;
        let name = format!("{array}.lock");
        let path = store.path(&name);
        let (lock, read_only) = match store.lock(&name) {
            Ok(Some(lock)) => (Some(lock), None),
            Ok(None) => return Err(HostError::Locked(path)),
            Err(error) if is_unwritable(error.kind()) => {
                // Readable at least?
                fs::read_dir(folder).map_err(|error| HostError::state(folder, "cannot be read", error))?;
                (None, Some(format!("{}: {error}", folder.display())))
            }
            Err(error) => return Err(HostError::state(&path, "cannot be locked", error)),
        };
        let state = Self { store: Arc::new(store), array, read_only, _lock: lock };
        if state.read_only.is_none() {
            // Under the lock nobody else writes them. A file that cannot be removed does no harm.
            let _ = sweep(&*state.store, &format!("{array}."));
        }
        Ok(state)
    }

    /// The files of an array in any store, without a lock: for tests with a faulty one.
    #[must_use]
    pub fn over(store: Arc<dyn Store>, array: Uuid) -> Self {
        Self { store, array, read_only: None, _lock: None }
    }

    /// Reason why nothing can be written in the directory; `None` if it can be written.
    #[must_use]
    pub fn read_only(&self) -> Option<&str> {
        self.read_only.as_deref()
    }

    fn name(&self, kind: &str) -> String {
        format!("{}.{kind}", self.array)
    }

    /// Path of the repair journal.
    #[must_use]
    pub fn journal_path(&self) -> PathBuf {
        self.store.path(&self.name("repair"))
    }

    /// Content of the repair journal.
    ///
    /// # Errors
    /// If it cannot be read, or is none.
    pub fn journal(&self) -> Result<Found, HostError> {
        Journal::find(Arc::clone(&self.store), &self.name("repair"))
    }

    /// The repair archive.
    #[must_use]
    pub fn archive(&self) -> Archive {
        Archive::open(self.store.folder(&self.name("repairs")), self.array)
    }

    /// The entry of the archive that an interrupted repair needs, if one waits.
    ///
    /// # Errors
    /// If the journal cannot be read, or is none.
    pub fn waiting_entry(&self) -> Result<Option<EntryId>, HostError> {
        Ok(match self.journal()? {
            Found::Settled(_) => None,
            Found::Waiting(waiting) => Some(waiting.entry()),
        })
    }

    /// The interrupted pass, if there is one: of the whole array, or of a part of it.
    pub(crate) fn load(&self, complete: bool) -> Result<Before, HostError> {
        let name = self.progress_name(complete);
        match self.store.read(&name, MAX_PROGRESS) {
            Ok(None) => Ok(Before::Nothing),
            Ok(Some(bytes)) => Ok(match SavedPass::decode(&bytes, self.array) {
                // Earlier versions kept both in one file.
                Before::Pass(pass) if pass.is_complete() != complete => Before::Nothing,
                before => before,
            }),
            Err(error) if error.kind() == ErrorKind::FileTooLarge => {
                Ok(Before::Unusable(format!("it is damaged: it is longer than {MAX_PROGRESS} bytes")))
            }
            Err(error) => Err(HostError::state(self.store.path(&name), "cannot be read", error)),
        }
    }

    /// The name of the progress file. A pass over a part of the array has a file of its own, so
    /// that a look at a few stripes leaves the progress of a complete pass alone.
    fn progress_name(&self, complete: bool) -> String {
        self.name(if complete { "scrub" } else { "range" })
    }

    /// Path of the progress file of a pass.
    #[must_use]
    pub fn progress_path(&self, complete: bool) -> PathBuf {
        self.store.path(&self.progress_name(complete))
    }

    /// Saves a pass.
    pub(crate) fn save(&self, pass: &SavedPass) -> Result<(), HostError> {
        let complete = pass.is_complete();
        let written = replace(&*self.store, &self.progress_name(complete), &pass.encode());
        written.map_err(|error| HostError::state(self.progress_path(complete), "cannot be written", error))
    }

    /// Record of the orders that a healing under way has given md; `None` if there is none.
    ///
    /// # Errors
    /// If the record cannot be read, or is none.
    pub fn heal_record(&self) -> Result<Option<HealRecord>, HostError> {
        let name = self.name("heal");
        let fail = |error| HostError::state(self.store.path(&name), "cannot be read", error);
        let Some(bytes) = self.store.read(&name, MAX_HEAL).map_err(fail)? else { return Ok(None) };
        let body = HEAL.open(&bytes).map_err(|bad| fail(io::Error::other(bad.to_string())))?;
        serde_json::from_slice(body).map(Some).map_err(|error| fail(io::Error::other(error)))
    }

    /// Writes down what md is about to be told.
    ///
    /// # Errors
    /// If the record cannot be written.
    ///
    /// # Panics
    /// Never: plain data has a JSON form.
    pub fn record_heal(&self, record: &HealRecord) -> Result<(), HostError> {
        let name = self.name("heal");
        let body = serde_json::to_vec(record).expect("plain data has a JSON form");
        let written = replace(&*self.store, &name, &HEAL.seal(&body));
        written.map_err(|error| HostError::state(self.store.path(&name), "cannot be written", error))
    }

    /// Forgets it: md is as it was.
    ///
    /// # Errors
    /// If the record cannot be removed.
    pub fn forget_heal(&self) -> Result<(), HostError> {
        let name = self.name("heal");
        let removed = remove(&*self.store, &name);
        removed.map_err(|error| HostError::state(self.store.path(&name), "cannot be removed", error))
    }

    /// Forgets a pass: it has come to its end.
    pub(crate) fn clear(&self, pass: &SavedPass) -> Result<(), HostError> {
        let complete = pass.is_complete();
        let removed = remove(&*self.store, &self.progress_name(complete));
        removed.map_err(|error| HostError::state(self.progress_path(complete), "cannot be removed", error))
    }
}

/// Returns whether an error means that a folder takes no new file, but may still be read.
fn is_unwritable(kind: ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::ReadOnlyFilesystem
            | ErrorKind::PermissionDenied
            | ErrorKind::StorageFull
            | ErrorKind::QuotaExceeded
    )
}
