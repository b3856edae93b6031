//! The bytes of an entry.

use super::super::bytes::{BadField, Fields, Versions, put_old, put_text};
use super::super::record::{Intent, IntentKind, OldBytes};
use super::{EntryId, Occasion};
use pumice_base::durable::{BadEnvelope, Envelope};
use pumice_base::units::Role;
use pumice_raid::Uuid;
use sha2::{Digest, Sha256};
use thiserror::Error;

const KINDS: Versions = Versions {
    plain: Envelope { magic: *b"PUMREPAR", version: 1 },
    with_tags: Envelope { magic: *b"PUMREPAR", version: 2 },
};
/// Most members of a stripe.
const MAX_WITNESSES: u32 = 4096;

/// The status of a repair.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// Kept, but not known to be written: the repair is under way, or was interrupted.
    Begun,
    /// Written and verified.
    Written,
    /// Not written, or put back after a crash.
    NotWritten,
    /// Undone, by another entry.
    Undone(EntryId),
    /// Its journal could not be settled, and is kept beside the entry.
    Dropped,
}

impl Status {
    pub(super) fn encode(self) -> Vec<u8> {
        let (code, by) = match self {
            Self::Begun => (0, 0),
            Self::Written => (1, 0),
            Self::NotWritten => (2, 0),
            Self::Undone(by) => (3, by.0),
            Self::Dropped => (4, 0),
        };
        let mut body = vec![code, 0, 0, 0, 0, 0, 0, 0];
        body.extend_from_slice(&by.to_le_bytes());
        body
    }

    pub(super) fn decode(body: &[u8]) -> Option<Self> {
        let by = u64::from_le_bytes(body.get(8..16)?.try_into().ok()?);
        match (body.first()?, by) {
            _ if body.len() != 16 || body[1..8] != [0; 7] => None,
            (0, 0) => Some(Self::Begun),
            (1, 0) => Some(Self::Written),
            (2, 0) => Some(Self::NotWritten),
            (3, by) if by > 0 => Some(Self::Undone(EntryId(by))),
            (4, 0) => Some(Self::Dropped),
            _ => None,
        }
    }

    /// The status as text.
    #[must_use]
    pub fn words(self) -> String {
        match self {
            Self::Begun => "begun".to_owned(),
            Self::Written => "written".to_owned(),
            Self::NotWritten => "not written".to_owned(),
            Self::Undone(by) => format!("undone by {by}"),
            Self::Dropped => "dropped".to_owned(),
        }
    }
}

/// The reasons why a file is not an entry.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum BadEntry {
    /// Damaged, of another version, or another kind of file.
    #[error(transparent)]
    Envelope(#[from] BadEnvelope),
    /// A field with an invalid value.
    #[error(transparent)]
    Field(#[from] BadField),
    /// Neither slot holds a status.
    #[error("it has no status")]
    Status,
}

/// Another member's bytes of the rows that were repaired.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Witness {
    /// Its role.
    pub role: Role,
    /// The UUID of its device; zero if its superblock has none.
    pub member: Uuid,
    /// The SHA-256 of the bytes; `None` if the drive did not give them back.
    pub digest: Option<[u8; 32]>,
}

/// A range that was rewritten.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EntryRecord {
    /// The member's role.
    pub role: Role,
    /// The UUID of its device; zero if its superblock has none.
    pub member: Uuid,
    /// The device as named by the operator.
    pub device: String,
    /// Byte offset on the device.
    pub device_offset: u64,
    /// The bytes before the repair.
    pub old: OldBytes,
    /// The SHA-256 of the bytes after it.
    pub new_digest: [u8; 32],
    /// True if the tags of its blocks stay as they are, because they convicted the old bytes (R26).
    pub tags_stay: bool,
}

/// An entry of the archive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Its number.
    pub id: EntryId,
    /// Its status.
    pub status: Status,
    /// A repair, or an undo.
    pub intent_kind: IntentKind,
    /// The array's UUID as stored.
    pub array: Uuid,
    /// Its event count then.
    pub events: u64,
    /// The stripe.
    pub stripe: u64,
    /// Reason and time.
    pub occasion: Occasion,
    /// The other members' bytes of the same rows.
    pub witnesses: Vec<Witness>,
    /// The bytes that were rewritten.
    pub records: Vec<EntryRecord>,
}

/// The bytes of an entry, after its status.
pub(super) fn encode(
    id: EntryId,
    intent: &Intent,
    occasion: &Occasion,
    witnesses: &[Witness],
    devices: &[String],
) -> Vec<u8> {
    let mut body = Vec::new();
    body.extend_from_slice(&[u8::from(intent.kind == IntentKind::Undo), 0, 0, 0]);
    body.extend_from_slice(&(intent.records.len() as u32).to_le_bytes());
    body.extend_from_slice(&id.0.to_le_bytes());
    body.extend_from_slice(&intent.array.0);
    let undoes = occasion.undoes.map_or(0, |id| id.0);
    for number in [intent.events, intent.stripe, occasion.time, undoes, occasion.pass] {
        body.extend_from_slice(&number.to_le_bytes());
    }
    body.extend_from_slice(&(witnesses.len() as u32).to_le_bytes());
    body.extend_from_slice(&[0; 4]);
    for text in [&occasion.policy, &occasion.verdict, &occasion.strength, &occasion.finding] {
        put_text(&mut body, text);
    }
    for witness in witnesses {
        body.extend_from_slice(&witness.role.0.to_le_bytes());
        body.extend_from_slice(&u16::from(witness.digest.is_none()).to_le_bytes());
        body.extend_from_slice(&witness.member.0);
        body.extend_from_slice(&witness.digest.unwrap_or_default());
    }
    for (record, device) in intent.records.iter().zip(devices) {
        body.extend_from_slice(&record.role.0.to_le_bytes());
        body.extend_from_slice(&u16::from(record.tags_stay).to_le_bytes());
        body.extend_from_slice(&(record.new.len() as u32).to_le_bytes());
        body.extend_from_slice(&record.device_offset.to_le_bytes());
        body.extend_from_slice(&record.member.0);
        body.extend_from_slice(&Sha256::digest(&record.new));
        put_old(&mut body, &record.old);
        put_text(&mut body, device);
    }
    KINDS.seal(&body, &intent.records)
}

impl Entry {
    pub(super) fn decode(file: &[u8]) -> Result<Self, BadEntry> {
        let (body, knows_tags) = KINDS.open(file)?;
        let mut fields = Fields(body);
        let intent_kind = match fields.array("kind")? {
            [0] => IntentKind::Repair,
            [1] => IntentKind::Undo,
            _ => return Err(BadField::Range("kind").into()),
        };
        fields.zero::<3>("padding")?;
        let count = fields.records()?;
        let id = EntryId(fields.u64("number")?);
        let array = fields.uuid("array")?;
        let (events, stripe) = (fields.u64("events")?, fields.u64("stripe")?);
        let time = fields.u64("time")?;
        let undoes = match (fields.u64("undoes")?, intent_kind) {
            (0, IntentKind::Repair) => None,
            (undoes, IntentKind::Undo) if undoes > 0 && undoes < id.0 => Some(EntryId(undoes)),
            _ => return Err(BadField::Range("undoes").into()),
        };
        let pass = fields.u64("pass")?;
        let others = fields.u32("witnesses")?;
        if others > MAX_WITNESSES {
            return Err(BadField::Range("witnesses").into());
        }
        fields.zero::<4>("padding")?;
        let occasion = Occasion {
            time,
            pass,
            policy: fields.text("policy")?,
            verdict: fields.text("verdict")?,
            strength: fields.text("strength")?,
            finding: fields.text("finding")?,
            undoes,
        };
        let witnesses = (0..others).map(|_| witness(&mut fields)).collect::<Result<_, _>>()?;
        let records = (0..count).map(|_| record(&mut fields, knows_tags)).collect::<Result<_, _>>()?;
        fields.end()?;
        // The status is read from its own place.
        let status = Status::Begun;
        Ok(Self { id, status, intent_kind, array, events, stripe, occasion, witnesses, records })
    }

    /// Checks that the entry matches the name and folder of its file.
    pub(super) fn belongs_to(self, array: Uuid, id: EntryId) -> Result<Self, BadEntry> {
        match () {
            () if self.array != array => Err(BadField::Range("array").into()),
            () if self.id != id => Err(BadField::Range("number").into()),
            () => Ok(self),
        }
    }

    /// Sectors of 512 bytes that have no old bytes, and all sectors.
    #[must_use]
    pub fn sectors(&self) -> (usize, usize) {
        let lost = self.records.iter().map(|record| record.old.lost_sectors()).sum();
        (lost, self.records.iter().map(|record| record.old.lost().len()).sum())
    }
}

fn witness(fields: &mut Fields<'_>) -> Result<Witness, BadField> {
    let role = Role(fields.u16("witness")?);
    let unread = fields.u16("witness")?;
    let member = fields.uuid("witness")?;
    let digest = fields.array("witness")?;
    match (unread, digest) {
        (0, digest) => Ok(Witness { role, member, digest: Some(digest) }),
        (1, digest) if digest == [0; 32] => Ok(Witness { role, member, digest: None }),
        _ => Err(BadField::Range("witness")),
    }
}

fn record(fields: &mut Fields<'_>, knows_tags: bool) -> Result<EntryRecord, BadField> {
    let role = Role(fields.u16("role")?);
    let tags_stay = fields.tags_stay(knows_tags)?;
    let (len, device_offset) = fields.range()?;
    let member = fields.uuid("member")?;
    let new_digest = fields.array("new bytes")?;
    let old = fields.old(len)?;
    let device = fields.text("device")?;
    Ok(EntryRecord { role, member, device, device_offset, old, new_digest, tags_stay })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::repair::record::Record;

    fn sample() -> Vec<u8> {
        sample_with(false)
    }

    fn sample_with(tags_stay: bool) -> Vec<u8> {
        let old = OldBytes::with_lost(vec![3; 1024], vec![false, true]).unwrap();
        let (role, member, device_offset) = (Role(2), Uuid([2; 16]), 1 << 20);
        let record = Record { role, member, device_offset, old, new: vec![4; 1024], tags_stay };
        let intent = Intent {
            kind: IntentKind::Undo,
            array: Uuid([7; 16]),
            events: 20,
            stripe: 3,
            records: vec![record],
        };
        let occasion = Occasion {
            time: 5,
            pass: 6,
            policy: "strong".to_owned(),
            verdict: "data damaged".to_owned(),
            undoes: Some(EntryId(8)),
            ..Occasion::default()
        };
        let witness = |role, digest| Witness { role: Role(role), member: Uuid([9; 16]), digest };
        let witnesses = [witness(0, Some([1; 32])), witness(1, None)];
        encode(EntryId(9), &intent, &occasion, &witnesses, &["/dev/sda".to_owned()])
    }

    #[test]
    fn what_was_written_is_read() {
        let entry = Entry::decode(&sample()).unwrap();
        assert_eq!((entry.id, entry.intent_kind, entry.stripe), (EntryId(9), IntentKind::Undo, 3));
        assert_eq!(entry.occasion.undoes, Some(EntryId(8)));
        assert_eq!(entry.occasion.policy, "strong");
        assert_eq!((entry.witnesses[0].digest, entry.witnesses[1].digest), (Some([1; 32]), None));
        assert_eq!(entry.records[0].device, "/dev/sda");
        assert_eq!(entry.records[0].old.bytes()[..512], [3; 512]);
        assert_eq!(entry.sectors(), (1, 2));
        let new: [u8; 32] = Sha256::digest([4; 1024]).into();
        assert_eq!(entry.records[0].new_digest, new);
        assert!(entry.clone().belongs_to(Uuid([7; 16]), EntryId(8)).is_err());
        assert!(entry.belongs_to(Uuid([8; 16]), EntryId(9)).is_err());
    }

    /// Entries of earlier programs stay readable, and they read what they know.
    #[test]
    fn only_an_entry_with_tags_that_stay_has_the_later_version() {
        for (tags_stay, version) in [(false, 1), (true, 2)] {
            let file = sample_with(tags_stay);
            assert_eq!(file[8], version);
            assert_eq!(Entry::decode(&file).unwrap().records[0].tags_stay, tags_stay);
        }
    }

    #[test]
    fn every_truncation_and_every_flipped_bit_is_refused() {
        let good = sample();
        for len in 0..good.len() {
            assert!(Entry::decode(&good[..len]).is_err(), "{len} bytes");
        }
        for at in 0..good.len() * 8 {
            let mut bad = good.clone();
            bad[at / 8] ^= 1 << (at % 8);
            assert!(Entry::decode(&bad).is_err(), "bit {at}");
        }
    }

    #[test]
    fn fields_out_of_their_range_are_refused_by_name() {
        let good = sample();
        let body = KINDS.plain.open(&good).unwrap();
        for (at, value, field) in [
            (0, 0, "undoes"),
            (0, 2, "kind"),
            (1, 1, "padding"),
            (4, 65, "records"),
            (56, 9, "undoes"),
            (74, 1, "witnesses"),
            (76, 1, "padding"),
        ] {
            let mut bad = body.to_vec();
            bad[at] = value;
            let found = Entry::decode(&KINDS.plain.seal(&bad));
            assert_eq!(found, Err(BadEntry::Field(BadField::Range(field))), "{at} {value}");
        }
    }

    #[test]
    fn a_status_is_read_as_it_was_written() {
        for status in
            [Status::Begun, Status::Written, Status::NotWritten, Status::Undone(EntryId(4)), Status::Dropped]
        {
            assert_eq!(Status::decode(&status.encode()), Some(status));
            for cut in 0..16 {
                assert_eq!(Status::decode(&status.encode()[..cut]), None);
            }
        }
        assert_eq!(Status::decode(&[3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]), None);
        assert_eq!(Status::decode(&[5, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]), None);
    }
}
