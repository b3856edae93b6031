//! The pass file: what a run of `pumice scrub` leaves. Fields are in
//! `docs/reference/on-disk/history.md`, those of the report in `docs/reference/json.md`.

use crate::history::Error;
use crate::history::values::{ArrayUuid, Count, Id, Text, Time};
use serde::Deserialize;
use serde_json::value::RawValue;

/// The most bytes of a pass file.
pub const MOST_BYTES: u64 = 256 << 20;
/// The most parts in `checked`.
const MOST_PARTS: usize = 10_000;
/// The version that is known.
const FORMAT: u64 = 1;
/// A pass that reads for longer than this number of seconds is none: 30,000 years.
const MOST_SECONDS: f64 = 1e12;

/// Stripes that were checked whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub struct Checked {
    /// The first.
    pub start: Count,
    /// The one after the last.
    pub end: Count,
    /// Time at which the last of them was checked.
    pub at_us: Time,
}

/// A pass file that is what it must be.
#[derive(Debug, Clone)]
pub struct PassFile {
    /// The run.
    pub pass: Id,
    /// The person or program that started it.
    pub by: Text,
    /// Start of the run.
    pub begun: Time,
    /// End of the run, not before its start.
    pub ended: Time,
    /// Stripes that were checked whole.
    pub checked: Vec<Checked>,
    /// Fields of the report that the history needs.
    pub report: Report,
    /// The bytes of the report.
    pub document: Box<RawValue>,
}

/// Fields of a scrub's document that the history needs.
#[derive(Debug, Clone, Deserialize)]
pub struct Report {
    /// The array.
    pub array: Array,
    /// The method that ran.
    pub method: Text,
    /// The result.
    pub result: Text,
    /// Reason why the pass stopped early, if it did.
    #[serde(deserialize_with = "needed")]
    pub stopped: Option<Text>,
    /// The stripes of the pass.
    pub range: Stripes,
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
    /// Findings, busy ones included.
    pub findings: Vec<Finding>,
    /// Seconds of reading, 0 to 10^12.
    pub seconds: f64,
}

/// The array of a report.
#[derive(Debug, Clone, Deserialize)]
pub struct Array {
    /// Its UUID.
    pub uuid: ArrayUuid,
    /// Its name; may be empty.
    pub name: Text,
    /// The RAID level, -10 to 255.
    pub level: i16,
    /// Members.
    pub raid_disks: u16,
    /// Stripes, from 1.
    pub stripes: Count,
    /// Bytes.
    pub chunk_bytes: Count,
}

/// A range of stripes.
#[derive(Debug, Clone, Copy, Deserialize)]
pub struct Stripes {
    /// The first.
    pub start: Count,
    /// The one after the last.
    pub end: Count,
}

/// A finding of a report.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Finding {
    /// The stripe.
    pub stripe: Count,
    /// The verdict.
    pub verdict: Text,
    /// Certainty of the verdict.
    pub certainty: Text,
    /// Strength of the evidence.
    pub strength: Text,
    /// The role that it names.
    #[serde(deserialize_with = "needed")]
    pub member: Option<u16>,
    /// Its device.
    #[serde(deserialize_with = "needed")]
    pub device: Option<Text>,
    /// Bytes.
    #[serde(deserialize_with = "needed")]
    pub device_offset: Option<Count>,
    /// Bytes.
    #[serde(deserialize_with = "needed")]
    pub array_offset: Option<Count>,
    /// Bytes.
    pub chunk_offset: Count,
    /// Bytes.
    pub length: Count,
    /// True if it was rewritten and verified.
    pub repaired: bool,
}

/// A field that may be null, and may not be missing (serde takes a missing one for null).
fn needed<'a, D: serde::Deserializer<'a>, T: Deserialize<'a>>(from: D) -> Result<Option<T>, D::Error> {
    Option::deserialize(from)
}

#[derive(Deserialize)]
struct Whole {
    pass: Id,
    by: Text,
    begun_us: Time,
    ended_us: Time,
    checked: Vec<Checked>,
    report: Box<RawValue>,
}

#[derive(Deserialize)]
struct Format {
    format: u64,
}

impl Report {
    /// Findings of a verdict that counts as damage.
    pub(crate) fn damaged(&self) -> usize {
        self.findings.iter().filter(|finding| finding.verdict.as_str() != "busy").count()
    }

    /// Findings that were repaired.
    pub(crate) fn repaired(&self) -> usize {
        self.findings.iter().filter(|finding| finding.repaired).count()
    }

    /// Returns whether the pass judged the whole array.
    pub(crate) fn is_complete(&self) -> bool {
        let whole = self.range.start.get() == 0 && self.range.end == self.array.stripes;
        whole && matches!(self.result.as_str(), "clean" | "findings" | "copies_differ")
    }

    /// Microseconds of reading.
    pub(crate) fn reading_us(&self) -> i64 {
        (self.seconds * 1e6) as i64
    }

    fn wrong(&self) -> Option<&'static str> {
        let array = &self.array;
        let checks = [
            (array.stripes.get() > 0, "report.array.stripes: an array has stripes"),
            ((-10..=255).contains(&array.level), "report.array.level: -10 to 255"),
            (array.raid_disks > 0, "report.array.raid_disks: an array has members"),
            (
                self.range.start <= self.range.end && self.range.end <= array.stripes,
                "report.range: not stripes of the array",
            ),
            ((0.0..=MOST_SECONDS).contains(&self.seconds), "report.seconds: 0 to 10^12"),
        ];
        checks.into_iter().find(|(right, _)| !right).map(|(_, what)| what)
    }
}

impl PassFile {
    /// Parses a pass file. `name` is for messages.
    ///
    /// # Errors
    /// If a needed field is missing or wrong; the error names it.
    pub fn parse(name: &str, bytes: &[u8]) -> Result<Self, Error> {
        let wrong = |what: String| Error::Invalid { subject: name.to_owned(), what };
        if bytes.len() as u64 > MOST_BYTES {
            return Err(wrong(format!("a pass file has at most {MOST_BYTES} bytes")));
        }
        let format: Format = serde_json::from_slice(bytes).map_err(|error| wrong(error.to_string()))?;
        if format.format != FORMAT {
            return Err(wrong(format!("format: {} is not {FORMAT}, the one that is known", format.format)));
        }
        let whole: Whole = serde_json::from_slice(bytes).map_err(|error| wrong(error.to_string()))?;
        let report: Report =
            serde_json::from_str(whole.report.get()).map_err(|error| wrong(format!("report: {error}")))?;
        if let Some(what) = report.wrong() {
            return Err(wrong(what.to_owned()));
        }
        if whole.ended_us < whole.begun_us {
            return Err(wrong("ended_us: before begun_us".to_owned()));
        }
        if whole.checked.len() > MOST_PARTS {
            return Err(wrong(format!("checked: more than {MOST_PARTS} parts")));
        }
        let inside = |part: &Checked| part.start <= part.end && part.end <= report.array.stripes;
        if !whole.checked.iter().all(inside) {
            return Err(wrong("checked: not stripes of the array".to_owned()));
        }
        Ok(Self {
            pass: whole.pass,
            by: whole.by,
            begun: whole.begun_us,
            ended: whole.ended_us,
            checked: whole.checked,
            report,
            document: whole.report,
        })
    }
}
