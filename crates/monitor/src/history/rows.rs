//! Rows as values of this program.

use crate::history::error::Fault;
use crate::history::table::Record;
use crate::history::values::{ArrayUuid, Change, Count, DriveState, Id, Kind, Severity, Text, Time};
use rusqlite::types::Value;

/// An array that the history knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArrayRow {
    pub(crate) id: i64,
    /// Its UUID.
    pub uuid: ArrayUuid,
    /// Its name at the last pass.
    pub name: Text,
    /// The RAID level.
    pub level: i16,
    /// Members.
    pub raid_disks: u16,
    /// Stripes.
    pub stripes: Count,
    /// Bytes.
    pub chunk_bytes: Count,
    /// End of its last pass.
    pub seen: Time,
    /// Latest time at which a member joined, if one was noted.
    pub joined: Option<Time>,
}

impl ArrayRow {
    pub(crate) fn of(row: &Record) -> Result<Self, Fault> {
        Ok(Self {
            id: row.integer("id")?,
            uuid: row.text("uuid")?,
            name: row.text("name")?,
            level: row.number("level")?,
            raid_disks: row.number("raid_disks")?,
            stripes: row.count("stripes")?,
            chunk_bytes: row.count("chunk_bytes")?,
            seen: row.time("seen_us")?,
            joined: row.optional_time("joined_us")?,
        })
    }

    pub(crate) fn values(&self) -> Vec<Value> {
        vec![
            self.id.into(),
            text(&self.uuid),
            text(&self.name),
            self.level.into(),
            i64::from(self.raid_disks).into(),
            self.stripes.column().into(),
            self.chunk_bytes.column().into(),
            self.seen.micros().into(),
            self.joined.map(Time::micros).into(),
        ]
    }
}

/// A run of a pass.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PassRow {
    pub(crate) id: i64,
    pub(crate) array: i64,
    /// The run.
    pub pass: Id,
    /// The person or program that started it.
    pub by: Text,
    /// Start of the run.
    pub begun: Time,
    /// End of the run, not before its start.
    pub ended: Time,
    /// The method that ran.
    pub method: Text,
    /// The result.
    pub result: Text,
    /// Reason why it stopped early, if it did.
    pub stopped: Option<Text>,
    /// The first stripe of its range.
    pub first_stripe: Count,
    /// The stripe after the last of its range.
    pub end_stripe: Count,
    /// True if it judged the whole array.
    pub complete: bool,
    /// True if a member was absent from a stripe of the range.
    pub degraded: bool,
    /// Stripes.
    pub stripes_checked: Count,
    /// Stripes.
    pub stripes_skipped: Count,
    /// Stripes.
    pub stripes_rechecked: Count,
    /// Bytes of all members.
    pub bytes_checked: Count,
    /// Microseconds of reading.
    pub reading_us: Count,
    /// Findings without the busy ones.
    pub findings: Count,
    /// Findings that could not be settled.
    pub busy: Count,
    /// Findings that were repaired.
    pub repaired: Count,
}

/// The place of a pass in the order of time: the next page begins before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cursor {
    pub(crate) ended: i64,
    pub(crate) id: i64,
}

impl PassRow {
    /// Returns the place at which the page after this row begins.
    #[must_use]
    pub const fn cursor(&self) -> Cursor {
        Cursor { ended: self.ended.micros(), id: self.id }
    }

    pub(crate) fn of(row: &Record) -> Result<Self, Fault> {
        Ok(Self {
            id: row.integer("id")?,
            array: row.integer("array")?,
            pass: row.text("pass")?,
            by: row.text("by_whom")?,
            begun: row.time("begun_us")?,
            ended: row.time("ended_us")?,
            method: row.text("method")?,
            result: row.text("result")?,
            stopped: row.optional_text("stopped")?,
            first_stripe: row.count("first_stripe")?,
            end_stripe: row.count("end_stripe")?,
            complete: row.flag("complete")?,
            degraded: row.flag("degraded")?,
            stripes_checked: row.count("stripes_checked")?,
            stripes_skipped: row.count("stripes_skipped")?,
            stripes_rechecked: row.count("stripes_rechecked")?,
            bytes_checked: row.count("bytes_checked")?,
            reading_us: row.count("reading_us")?,
            findings: row.count("findings")?,
            busy: row.count("busy")?,
            repaired: row.count("repaired")?,
        })
    }
}

/// A finding that is kept: its number in the document, and what it says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FindingRow {
    /// From 0.
    pub number: u32,
    /// The finding.
    pub finding: crate::history::document::Finding,
}

impl FindingRow {
    pub(crate) fn of(row: &Record) -> Result<Self, Fault> {
        Ok(Self {
            number: row.number("number")?,
            finding: crate::history::document::Finding {
                stripe: row.count("stripe")?,
                verdict: row.text("verdict")?,
                certainty: row.text("certainty")?,
                strength: row.text("strength")?,
                member: row.optional_number("member")?,
                device: row.optional_text("device")?,
                device_offset: row.optional_count("device_offset")?,
                array_offset: row.optional_count("array_offset")?,
                chunk_offset: row.count("chunk_offset")?,
                length: row.count("length")?,
                repaired: row.flag("repaired")?,
            },
        })
    }
}

/// Something that happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// Its identity: receivers drop what they have already.
    pub event: Id,
    /// Time of the event.
    pub at: Time,
    /// The array that it is about.
    pub array: Option<ArrayUuid>,
    /// The run that found it.
    pub pass: Option<Id>,
    /// Its kind.
    pub kind: Kind,
    /// Its urgency.
    pub severity: Severity,
    /// Its effect on an alert.
    pub change: Change,
    /// Its subject in addition to the array: a drive, a channel; may be empty.
    pub subject: Text,
    /// Message for a person.
    pub text: Text,
}

/// An event in the database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventRow {
    /// From 1; who reads asks for those after the last that it has.
    pub id: i64,
    /// The event.
    pub event: Event,
}

impl EventRow {
    pub(crate) fn of(row: &Record) -> Result<Self, Fault> {
        Ok(Self {
            id: row.integer("id")?,
            event: Event {
                event: row.text("event")?,
                at: row.time("at_us")?,
                array: row.optional_text("array")?,
                pass: row.optional_text("pass")?,
                kind: row.text("kind")?,
                severity: row.word("severity", Severity::parse)?,
                change: row.word("change", Change::parse)?,
                subject: row.text("subject")?,
                text: row.text("text")?,
            },
        })
    }
}

impl Event {
    pub(crate) fn values(&self, id: i64) -> Vec<Value> {
        vec![
            id.into(),
            text(&self.event),
            self.at.micros().into(),
            optional_text(self.array.as_ref()),
            optional_text(self.pass.as_ref()),
            text(&self.kind),
            self.severity.as_str().to_owned().into(),
            self.change.as_str().to_owned().into(),
            text(&self.subject),
            text(&self.text),
        ]
    }
}

/// A drive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Drive {
    /// A name that stays: WWN, NGUID or serial number.
    pub drive: Text,
    /// Its device now.
    pub device: Text,
    /// Its model.
    pub model: Text,
    /// Its serial number.
    pub serial: Text,
}

/// Health of a drive at one time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sample {
    /// Time of the sample.
    pub at: Time,
    /// Its health in one word.
    pub state: DriveState,
    /// Its temperature, -273 to 1000.
    pub celsius: Option<i16>,
    /// Errors of the medium since it was made.
    pub media_errors: Option<Count>,
    /// Wear; 100 is the life that its maker promises.
    pub worn_percent: Option<u8>,
    /// Hours since it was made.
    pub power_on_hours: Option<Count>,
}

impl Sample {
    pub(crate) fn of(row: &Record) -> Result<Self, Fault> {
        Ok(Self {
            at: row.time("at_us")?,
            state: row.word("state", DriveState::parse)?,
            celsius: row.optional_number("celsius")?,
            media_errors: row.optional_count("media_errors")?,
            worn_percent: row.optional_number("worn_percent")?,
            power_on_hours: row.optional_count("power_on_hours")?,
        })
    }

    pub(crate) fn values(&self, drive: i64) -> Vec<Value> {
        vec![
            drive.into(),
            self.at.micros().into(),
            self.state.as_str().to_owned().into(),
            self.celsius.map(i64::from).into(),
            self.media_errors.map(Count::column).into(),
            self.worn_percent.map(i64::from).into(),
            self.power_on_hours.map(Count::column).into(),
        ]
    }
}

impl Drive {
    pub(crate) fn of(row: &Record) -> Result<Self, Fault> {
        Ok(Self {
            drive: row.text("drive")?,
            device: row.text("device")?,
            model: row.text("model")?,
            serial: row.text("serial")?,
        })
    }
}

pub(crate) fn text(text: &impl ToString) -> Value {
    Value::Text(text.to_string())
}

pub(crate) fn optional_text(text: Option<&impl ToString>) -> Value {
    text.map_or(Value::Null, |text| Value::Text(text.to_string()))
}
