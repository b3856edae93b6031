//! Content of a line of a trace, and bounds that every line must keep.

use super::Op;
use super::error::Wrong;
use super::events::RequestEvent;
use pumice_pacer::Nanos;

/// The longest time between two lines of one trace: more is a damaged time, which a simulation
/// would spend years on.
const LEAP: Nanos = 30 * 86_400 * SECOND;
/// The longest trace.
const SPAN: Nanos = 3_660 * 86_400 * SECOND;
/// The longest response time.
const RESPONSE: Nanos = 86_400 * SECOND;
/// The end of the largest drive.
const END: u64 = 1 << 63;
pub(super) const SECOND: Nanos = 1_000_000_000;

/// Content of a line.
#[derive(Debug)]
pub(crate) struct Line<'a> {
    pub(crate) time_field: &'static str,
    pub(crate) place_field: &'static str,
    pub(crate) device_field: &'static str,
    pub(crate) response_field: &'static str,
    pub(crate) at: Nanos,
    pub(crate) device: &'a [u8],
    /// Another name of the device.
    pub(crate) alias: Option<&'a [u8]>,
    pub(crate) op: Op,
    pub(crate) offset: u64,
    pub(crate) bytes: u64,
    pub(crate) response: Option<Nanos>,
}

impl Line<'_> {
    /// Complains of a time that fits no trace, after a first and a latest one.
    pub(super) fn check_time(&self, first: Nanos, last: Nanos) -> Result<(), Wrong> {
        if leaps(self.at, first, last) {
            let days = self.at.saturating_sub(last) / (86_400 * SECOND);
            let what =
                format!("time leaps by {days} days: at most 30 between two lines, and ten years in all");
            return Err(Wrong::new(self.time_field, what));
        }
        Ok(())
    }

    /// Complains of a response time or a place that fits no drive.
    pub(super) fn check(&self) -> Result<(), Wrong> {
        if let Some(response) = self.response.filter(|r| *r > RESPONSE) {
            let what = format!("a response time of {} s: at most a day", response / SECOND);
            return Err(Wrong::new(self.response_field, what));
        }
        if self.offset.checked_add(self.bytes).is_none_or(|end| end > END) {
            let what = format!("byte {} is past the end of any drive", self.offset);
            return Err(Wrong::new(self.place_field, what));
        }
        Ok(())
    }
}

/// A parsed line.
#[derive(Debug)]
pub(crate) enum Parsed<'a> {
    /// Nothing that concerns the drive.
    Nothing,
    /// A request, at its arrival.
    Request(Line<'a>),
    /// A request, at its completion, with its response time.
    Finished(Line<'a>),
    /// An event of a request, recorded by a CPU.
    Event(RequestEvent, u64, Line<'a>),
}

/// Returns whether a time fits no trace, after a first and a latest one.
pub(crate) fn leaps(at: Nanos, first: Nanos, last: Nanos) -> bool {
    at.saturating_sub(last) > LEAP || at.saturating_sub(first) > SPAN
}
