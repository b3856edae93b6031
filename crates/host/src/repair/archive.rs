//! The archive: the bytes that repairs replaced, kept for undo.
//! `docs/reference/on-disk/repair-archive.md` has the byte map, the statuses and the rules.

mod entry;

pub use entry::{BadEntry, Entry, EntryRecord, Status, Witness};

use super::RepairPolicy;
use super::bytes::MAX_FILE;
use super::record::{Intent, Record, device_uuid, window};
use crate::date;
use crate::error::HostError;
use crate::finding::Finding;
use crate::stripes::read_raw;
use crate::target::Target;
use pumice_base::durable::{Slots, Store, StoreFile, remove, replace, sweep};
use pumice_base::telemetry::Ledger;
use pumice_base::units::Role;
use pumice_offload::ErrorKind;
use pumice_raid::Uuid;
use sha2::{Digest, Sha256};
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::{Arc, Mutex, PoisonError};

/// The place of the status in an entry's file.
const STATUS: Slots = Slots { offset: 0, slot_bytes: 512, version: 1 };
/// Time for which an entry is kept unless the operator says otherwise, in seconds.
pub const KEPT_FOR: u64 = 90 * 24 * 60 * 60;

/// The number of an entry, from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EntryId(pub u64);

impl fmt::Display for EntryId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for EntryId {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.parse() {
            Ok(number) if number > 0 => Ok(Self(number)),
            _ => Err(format!("'{text}' is not the number of a repair: numbers begin at 1")),
        }
    }
}

/// The reason why bytes are replaced, for later readers of the archive.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Occasion {
    /// Time of the replacement, in seconds since 1970.
    pub time: u64,
    /// The pass that found it; 0 if none.
    pub pass: u64,
    /// The repair policy.
    pub policy: String,
    /// The verdict.
    pub verdict: String,
    /// Strength of the evidence for the verdict.
    pub strength: String,
    /// The finding in the JSON of the report; empty if there is none.
    pub finding: String,
    /// The entry that is undone.
    pub undoes: Option<EntryId>,
}

impl Occasion {
    /// The repair of a finding, now.
    pub(crate) fn of(finding: &Finding, policy: RepairPolicy, pass: u64) -> Self {
        Self {
            time: date::now(),
            pass,
            policy: policy.to_string(),
            verdict: finding.verdict.words().to_owned(),
            strength: finding.strength.word().to_owned(),
            finding: serde_json::to_string(finding).expect("plain data has a JSON form"),
            undoes: None,
        }
    }
}

/// An intent whose old bytes are durable in the archive. Only [`Archive::keep`] creates one.
#[derive(Debug)]
pub struct Kept {
    intent: Intent,
    id: EntryId,
}

impl Kept {
    /// The intended writes.
    #[must_use]
    pub fn intent(&self) -> &Intent {
        &self.intent
    }

    /// The entry.
    #[must_use]
    pub fn id(&self) -> EntryId {
        self.id
    }

    #[cfg(test)]
    pub(super) fn for_tests(intent: Intent, id: EntryId) -> Self {
        Self { intent, id }
    }
}

/// An entry in a list: its number, and its contents or the error.
pub type Listed = (EntryId, Result<Entry, HostError>);

/// The archive of one array.
#[derive(Debug, Clone)]
pub struct Archive {
    store: Arc<dyn Store>,
    array: Uuid,
    /// The highest number in use; the caller's lock prevents others from using the next one.
    last: Arc<Mutex<Option<u64>>>,
}

fn file_name(id: EntryId) -> String {
    format!("{id}.entry")
}

fn journal_name(id: EntryId) -> String {
    format!("{id}.journal")
}

impl Archive {
    /// The archive in its folder, which need not exist yet.
    #[must_use]
    pub fn open(store: Arc<dyn Store>, array: Uuid) -> Self {
        Self { store, array, last: Arc::default() }
    }

    /// Path of the archive.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        self.store.path("")
    }

    fn error(&self, name: &str, context: &str, error: io::Error) -> HostError {
        HostError::state(self.store.path(name), context, error)
    }

    /// The numbers of the entries, the oldest first.
    ///
    /// # Errors
    /// If the folder is there and cannot be listed.
    pub fn ids(&self) -> Result<Vec<EntryId>, HostError> {
        let names = match self.store.names() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            names => names.map_err(|error| self.error("", "the archive cannot be listed", error))?,
        };
        let number = |name: &String| name.strip_suffix(".entry")?.parse::<EntryId>().ok();
        let mut ids: Vec<EntryId> = names.iter().filter_map(number).collect();
        ids.sort_unstable();
        Ok(ids)
    }

    /// Reads an entry; `None` if there is none of that number.
    ///
    /// # Errors
    /// If it cannot be read, or is damaged; the error names the file.
    pub fn read(&self, id: EntryId) -> Result<Option<Entry>, HostError> {
        let name = file_name(id);
        let bytes = self.store.read(&name, MAX_FILE);
        let bytes = bytes.map_err(|error| self.error(&name, "cannot be read", error))?;
        let Some(bytes) = bytes else { return Ok(None) };
        let bad = |bad: BadEntry| HostError::State {
            path: self.store.path(&name),
            context: format!("is not an entry of the repair archive: {bad}"),
            source: None,
        };
        let mut entry = Entry::decode(bytes.get(2 * STATUS.slot_bytes as usize..).unwrap_or(&[]))
            .and_then(|entry| entry.belongs_to(self.array, id))
            .map_err(bad)?;
        let status = STATUS.load(&StoreFile { store: &*self.store, name: &name });
        let status = status.map_err(|error| self.error(&name, "cannot be read", error))?;
        entry.status =
            status.and_then(|record| Status::decode(&record.body)).ok_or(BadEntry::Status).map_err(bad)?;
        Ok(Some(entry))
    }

    /// Every entry, the newest first; a damaged one as its error.
    ///
    /// # Errors
    /// If the folder cannot be listed.
    pub fn list(&self) -> Result<Vec<Listed>, HostError> {
        let read = |id: EntryId| Some((id, self.read(id).transpose()?));
        Ok(self.ids()?.into_iter().rev().filter_map(read).collect())
    }

    /// Keeps the old bytes of an intent, with a fingerprint of the other members' bytes of the same
    /// rows, which are read now. When this returns, all that survives a crash.
    ///
    /// # Errors
    /// [`HostError::NotKept`] if the archive does not take it; then nothing may be written to a
    /// member. Else if a node fails, or the records are not one window of the stripe.
    pub fn keep(
        &self,
        target: &Target,
        intent: Intent,
        occasion: &Occasion,
        moved: &mut Ledger,
    ) -> Result<Kept, HostError> {
        let witnesses = witnesses(target, &intent, moved)?;
        let not_kept =
            |error: &dyn fmt::Display| HostError::NotKept { path: self.path(), reason: error.to_string() };
        self.store.make().map_err(|error| not_kept(&error))?;
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let before = match *last {
            Some(last) => last,
            None => self.ids().map_err(|error| not_kept(&error))?.last().map_or(0, |last| last.0),
        };
        let id = EntryId(before + 1);
        let device = |record: &Record| {
            target.member(record.role).map(|member| member.device.clone()).unwrap_or_default()
        };
        let devices: Vec<String> = intent.records.iter().map(device).collect();
        let mut file = STATUS.first(&Status::Begun.encode()).map_err(|error| not_kept(&error))?;
        file.extend(entry::encode(id, &intent, occasion, &witnesses, &devices));
        replace(&*self.store, &file_name(id), &file).map_err(|error| not_kept(&error))?;
        *last = Some(id.0);
        Ok(Kept { intent, id })
    }

    /// Changes the status of an entry, durably. An entry that the operator removed has none.
    ///
    /// # Errors
    /// If it cannot be written.
    pub(super) fn mark(&self, id: EntryId, status: Status) -> Result<(), HostError> {
        let name = file_name(id);
        let stored = STATUS.store(&StoreFile { store: &*self.store, name: &name }, &status.encode());
        match stored {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            stored => {
                stored.map(|_| ()).map_err(|error| self.error(&name, "its status cannot be written", error))
            }
        }
    }

    /// Marks an entry as written and updates the chain before it: the entry that it undoes is
    /// undone, the one that that entry had undone is in force again, and so on.
    pub(super) fn mark_done(&self, id: EntryId) -> Result<(), HostError> {
        let mut in_force = id;
        loop {
            self.mark(in_force, Status::Written)?;
            let Some(undone) = self.read(in_force)?.and_then(|entry| entry.occasion.undoes) else { break };
            self.mark(undone, Status::Undone(in_force))?;
            let Some(before) = self.read(undone)?.and_then(|entry| entry.occasion.undoes) else { break };
            in_force = before;
        }
        Ok(())
    }

    /// Keeps the bytes of a journal that is dropped, and marks its entry.
    pub(super) fn keep_journal(&self, id: EntryId, bytes: &[u8]) -> Result<(), HostError> {
        let name = journal_name(id);
        let kept = self.store.make().and_then(|()| replace(&*self.store, &name, bytes));
        kept.map_err(|error| self.error(&name, "the journal cannot be kept", error))?;
        self.mark(id, Status::Dropped)
    }

    /// Cleans up before a run that may write, while no journal waits: leftovers of a crash, entries
    /// whose repair never wrote to a member, and entries older than `age` seconds. Returns the
    /// number of old entries.
    ///
    /// # Errors
    /// If the store does not let it.
    pub(crate) fn tidy(&self, now: u64, age: u64) -> Result<usize, HostError> {
        let ids = self.ids()?;
        if ids.is_empty() {
            return Ok(0);
        }
        sweep(&*self.store, "").map_err(|error| self.error("", "cannot be cleaned up", error))?;
        let mut forgotten = 0;
        for id in ids {
            // A damaged entry is the operator's.
            let Ok(Some(entry)) = self.read(id) else { continue };
            if entry.status == Status::Begun {
                self.mark(id, Status::NotWritten)?;
            }
            if now.saturating_sub(entry.occasion.time) > age {
                self.forget(id)?;
                forgotten += 1;
            }
        }
        Ok(forgotten)
    }

    /// Deletes an entry, and its journal if it was dropped. The waiting journal must not name it.
    ///
    /// # Errors
    /// If it cannot be removed.
    pub fn forget(&self, id: EntryId) -> Result<(), HostError> {
        for name in [file_name(id), journal_name(id)] {
            remove(&*self.store, &name).map_err(|error| self.error(&name, "cannot be removed", error))?;
        }
        Ok(())
    }

    /// The findings of a pass that were repaired and written, in the JSON of the report, with the
    /// numbers of their entries.
    pub(crate) fn findings_of(&self, pass: u64) -> Result<Vec<(EntryId, String)>, HostError> {
        let mut findings = Vec::new();
        for id in self.ids()? {
            if let Some(entry) = self.read(id)?.filter(|entry| entry.occasion.pass == pass)
                && entry.status == Status::Written
                && !entry.occasion.finding.is_empty()
            {
                findings.push((id, entry.occasion.finding));
            }
        }
        Ok(findings)
    }
}

/// Reads the rows of a window from the members that a repair does not change.
fn witnesses(target: &Target, intent: &Intent, moved: &mut Ledger) -> Result<Vec<Witness>, HostError> {
    let ranges = intent.records.iter().map(|r| (r.role, r.device_offset, r.new.len() as u64));
    let (start, len) = window(target, intent.stripe, ranges).ok_or_else(|| {
        pumice_offload::NodeError::invalid("records", "they are not the same rows of the stripe".to_owned())
    })?;
    let mut witnesses = Vec::new();
    let ours = |role: Role| intent.records.iter().any(|record| record.role == role);
    for (role, member) in target.members() {
        let has_chunk = target.layout().place(intent.stripe, role.index()).is_some();
        if ours(role) || !has_chunk || intent.stripe >= member.valid_stripes {
            continue;
        }
        *moved += Ledger::read_from_drives(u64::from(len)) + Ledger::arrived_at_host(u64::from(len));
        let digest = digest_of_rows(target, role, intent.stripe, start, len)?;
        witnesses.push(Witness { role, member: device_uuid(target, role), digest });
    }
    Ok(witnesses)
}

/// The SHA-256 of a member's bytes of some rows; `None` if the drive refuses them.
pub(super) fn digest_of_rows(
    target: &Target,
    role: Role,
    stripe: u64,
    start: u32,
    len: u32,
) -> Result<Option<[u8; 32]>, HostError> {
    let mut bytes = vec![0; len as usize];
    match read_raw(target, role, target.place(role, stripe, start), &mut bytes) {
        Ok(()) => Ok(Some(Sha256::digest(&bytes).into())),
        Err(error) if error.kind() == ErrorKind::Media => Ok(None),
        Err(error) => Err(error.into()),
    }
}
