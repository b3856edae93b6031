//! The repair journal on disk. `docs/reference/on-disk/repair-journal.md` has its byte map and its
//! states.
//!
//! ```text
//! Journal::find ──▶ Settled(Journal) ──begin(&Kept)──▶ Begun ──settle──▶ the journal is gone
//!        └────────▶ Waiting ──recover, or Waiting::settle──▶ Journal
//! ```
//!
//! Only a [`Journal`] can begin a repair, and only with bytes that the archive has kept. The
//! journal of an interrupted repair is a [`Waiting`]; only recovery or a decision of the operator
//! turns it into a `Journal`.

use super::archive::{EntryId, Kept};
use super::bytes::{BadField, Fields, MAX_FILE, Versions, put_old};
use super::record::{Intent, IntentKind, Record};
use crate::error::HostError;
use pumice_base::durable::{BadEnvelope, Envelope, Store, remove, replace};
use pumice_base::units::Role;
use std::cell::Cell;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use thiserror::Error;

const KINDS: Versions = Versions {
    plain: Envelope { magic: *b"PUMREPJL", version: 2 },
    with_tags: Envelope { magic: *b"PUMREPJL", version: 3 },
};
const MAGIC_1: [u8; 8] = *b"PUMREPJ1";

/// The reasons why a file is not a journal.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum BadJournal {
    /// Damaged, of another version, or another kind of file.
    #[error(transparent)]
    Envelope(#[from] BadEnvelope),
    /// A field with an invalid value.
    #[error(transparent)]
    Field(#[from] BadField),
}

/// The bytes of the file for an intent whose old bytes are kept as `entry`.
pub(super) fn encode(intent: &Intent, entry: EntryId) -> Vec<u8> {
    let mut body = Vec::new();
    body.extend_from_slice(&[u8::from(intent.kind == IntentKind::Undo), 0, 0, 0]);
    body.extend_from_slice(&(intent.records.len() as u32).to_le_bytes());
    body.extend_from_slice(&entry.0.to_le_bytes());
    body.extend_from_slice(&intent.array.0);
    body.extend_from_slice(&intent.events.to_le_bytes());
    body.extend_from_slice(&intent.stripe.to_le_bytes());
    for record in &intent.records {
        assert_eq!(record.old.bytes().len(), record.new.len(), "old and new cover the same range");
        body.extend_from_slice(&record.role.0.to_le_bytes());
        body.extend_from_slice(&u16::from(record.tags_stay).to_le_bytes());
        body.extend_from_slice(&(record.new.len() as u32).to_le_bytes());
        body.extend_from_slice(&record.device_offset.to_le_bytes());
        body.extend_from_slice(&record.member.0);
        put_old(&mut body, &record.old);
        body.extend_from_slice(&record.new);
    }
    KINDS.seal(&body, &intent.records)
}

/// Reads the bytes of a file.
pub(super) fn decode(file: &[u8]) -> Result<(Intent, EntryId), BadJournal> {
    if file.starts_with(&MAGIC_1) {
        return Err(BadEnvelope::Version { found: 1, known: KINDS.with_tags.version }.into());
    }
    let (body, knows_tags) = KINDS.open(file)?;
    let mut fields = Fields(body);
    let kind = match fields.array("kind")? {
        [0] => IntentKind::Repair,
        [1] => IntentKind::Undo,
        _ => return Err(BadField::Range("kind").into()),
    };
    fields.zero::<3>("padding")?;
    let count = fields.records()?;
    let entry = fields.u64("archive entry")?;
    if entry == 0 {
        return Err(BadField::Range("archive entry").into());
    }
    let array = fields.uuid("array")?;
    let (events, stripe) = (fields.u64("events")?, fields.u64("stripe")?);
    let mut records: Vec<Record> = Vec::new();
    for _ in 0..count {
        let role = Role(fields.u16("role")?);
        if records.iter().any(|record| record.role == role) {
            return Err(BadField::Range("role").into());
        }
        let tags_stay = fields.tags_stay(knows_tags)?;
        let (len, device_offset) = fields.range()?;
        let member = fields.uuid("member")?;
        let old = fields.old(len)?;
        let new = fields.slice(len, "new bytes")?.to_vec();
        records.push(Record { role, member, device_offset, old, new, tags_stay });
    }
    fields.end()?;
    Ok((Intent { kind, array, events, stripe, records }, EntryId(entry)))
}

/// A journal in which nothing waits: a repair can begin.
#[derive(Debug)]
pub struct Journal {
    store: Arc<dyn Store>,
    name: String,
    /// True if a repair has begun that was not settled.
    open: Cell<bool>,
}

/// The state of a journal's file.
#[derive(Debug)]
pub enum Found {
    /// Nothing waits.
    Settled(Journal),
    /// A repair was interrupted.
    Waiting(Waiting),
}

/// A journal with an interrupted repair or undo.
#[derive(Debug)]
pub struct Waiting {
    journal: Journal,
    intent: Intent,
    entry: EntryId,
}

/// A repair that has begun. If it is dropped, the journal waits.
#[must_use]
#[derive(Debug)]
pub struct Begun<'j>(&'j Journal);

impl Journal {
    /// Looks at the journal's file.
    ///
    /// # Errors
    /// If it cannot be read, or is no journal; the error names the file.
    pub fn find(store: Arc<dyn Store>, name: &str) -> Result<Found, HostError> {
        let journal = Self { store, name: name.to_owned(), open: Cell::new(false) };
        let bytes = journal.store.read(name, MAX_FILE);
        let bytes = bytes.map_err(|error| journal.error("the repair journal cannot be read", error))?;
        let Some(bytes) = bytes else { return Ok(Found::Settled(journal)) };
        let (intent, entry) = decode(&bytes).map_err(|bad| HostError::State {
            path: journal.path(),
            context: format!("is not a repair journal: {bad}"),
            source: None,
        })?;
        Ok(Found::Waiting(Waiting { journal, intent, entry }))
    }

    /// Path of the journal.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        self.store.path(&self.name)
    }

    pub(super) fn error(&self, context: &str, error: io::Error) -> HostError {
        HostError::state(self.path(), context, error)
    }

    /// Records the intended writes; when this returns, the record survives a crash.
    ///
    /// # Errors
    /// If the store fails, or an earlier repair was not settled. Then nothing may be written to a
    /// member. Whether the journal exists is known only to the next [`find`](Self::find).
    pub fn begin(&self, kept: &Kept) -> Result<Begun<'_>, HostError> {
        if self.open.get() {
            let why = io::Error::other("an earlier repair was interrupted and is not settled");
            return Err(self.error("the repair journal must be settled first", why));
        }
        self.open.set(true);
        let bytes = encode(kept.intent(), kept.id());
        let written = replace(&*self.store, &self.name, &bytes);
        written.map_err(|error| self.error("the repair journal cannot be written", error))?;
        Ok(Begun(self))
    }

    fn clear(&self) -> Result<(), HostError> {
        let removed = remove(&*self.store, &self.name);
        removed.map_err(|error| self.error("the repair journal cannot be removed", error))?;
        self.open.set(false);
        Ok(())
    }
}

impl Begun<'_> {
    /// Everything is written, verified and marked in the archive: removes the journal, durably.
    ///
    /// # Errors
    /// If the store does not let it. Then no other repair can begin.
    pub fn settle(self) -> Result<(), HostError> {
        self.0.clear()
    }
}

impl Waiting {
    /// The interrupted repair or undo.
    #[must_use]
    pub fn intent(&self) -> &Intent {
        &self.intent
    }

    /// The archive entry with its old bytes.
    #[must_use]
    pub fn entry(&self) -> EntryId {
        self.entry
    }

    /// Path of the journal.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        self.journal.path()
    }

    /// The bytes of the journal's file.
    pub(super) fn bytes(&self) -> Vec<u8> {
        encode(&self.intent, self.entry)
    }

    /// Removes the journal, after its ranges are entirely old or new, or the archive has it.
    pub(super) fn settle(self) -> Result<Journal, HostError> {
        self.journal.clear()?;
        Ok(self.journal)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::repair::record::OldBytes;
    use pumice_base::durable::FaultyStore;
    use pumice_raid::Uuid;

    fn intent() -> Intent {
        let record = |role, byte, old| Record {
            role: Role(role),
            member: Uuid([role as u8; 16]),
            device_offset: 1 << 20,
            old,
            new: vec![byte; 1024],
            tags_stay: false,
        };
        let lost = OldBytes::with_lost(vec![3; 1024], vec![false, true]).unwrap();
        Intent {
            kind: IntentKind::Repair,
            array: Uuid([7; 16]),
            events: 20,
            stripe: 3,
            records: vec![record(1, 9, OldBytes::read(vec![0; 1024])), record(5, 8, lost)],
        }
    }

    #[test]
    fn what_was_written_is_read() {
        assert_eq!(decode(&encode(&intent(), EntryId(4))), Ok((intent(), EntryId(4))));
        let undo = Intent { kind: IntentKind::Undo, ..intent() };
        assert_eq!(decode(&encode(&undo, EntryId(4))), Ok((undo, EntryId(4))));
    }

    /// Earlier programs read what they know, and refuse the rest by its version.
    #[test]
    fn only_a_journal_with_tags_that_stay_has_the_later_version() {
        let mut stays = intent();
        stays.records[0].tags_stay = true;
        for (intent, version) in [(intent(), 2), (stays, 3)] {
            let file = encode(&intent, EntryId(4));
            assert_eq!(file[8], version);
            assert_eq!(decode(&file), Ok((intent, EntryId(4))));
        }
    }

    #[test]
    fn every_truncation_and_every_flipped_bit_is_refused() {
        let good = encode(&intent(), EntryId(4));
        for len in 0..good.len() {
            assert!(decode(&good[..len]).is_err(), "{len} bytes");
        }
        for at in 0..good.len() * 8 {
            let mut bad = good.clone();
            bad[at / 8] ^= 1 << (at % 8);
            assert!(decode(&bad).is_err(), "bit {at}");
        }
    }

    /// Every field is checked even if the checksum is right.
    #[test]
    fn fields_out_of_their_range_are_refused_by_name() {
        let good = encode(&intent(), EntryId(4));
        let body = KINDS.plain.open(&good).unwrap();
        for (at, value, field) in [
            (0, 2, "kind"),
            (1, 1, "padding"),
            (4, 0, "records"),
            (5, 1, "records"),
            (8, 0, "archive entry"),
            (50, 1, "tags"),
            (52, 1, "length"),
            (80, 4, "lost sectors"),
            (81 + 2048, 1, "role"),
        ] {
            let mut bad = body.to_vec();
            bad[at] = value;
            assert_eq!(
                decode(&KINDS.plain.seal(&bad)),
                Err(BadJournal::Field(BadField::Range(field))),
                "{at} {value}"
            );
        }
        assert!(matches!(
            decode(b"PUMREPJ1 and more"),
            Err(BadJournal::Envelope(BadEnvelope::Version { found: 1, .. }))
        ));
    }

    #[test]
    fn an_unsettled_journal_lets_nothing_else_begin() {
        let store: Arc<dyn Store> = Arc::new(FaultyStore::new(1));
        let find = || Journal::find(Arc::clone(&store), "x.repair").unwrap();
        let Found::Settled(journal) = find() else { panic!("there is none") };
        let kept = Kept::for_tests(intent(), EntryId(4));
        let begun = journal.begin(&kept).unwrap();
        assert!(journal.begin(&kept).is_err());
        let Found::Waiting(waiting) = find() else { panic!("it waits") };
        assert_eq!((waiting.intent(), waiting.entry()), (&intent(), EntryId(4)));
        begun.settle().unwrap();
        assert!(matches!(find(), Found::Settled(_)));
        drop(journal.begin(&kept).unwrap());
        assert!(journal.begin(&kept).is_err(), "dropped, and not settled");
    }
}
