//! Lines of answers.

use super::event::Events;
use super::fault::Fault;
use super::scrub::{ScrubDone, ScrubProgress};
use super::version::Version;
use super::volume::Volume;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// One line of an answer. A scrub is answered by any number of `Progress` and `Note`, and then by
/// `Done` or `Error`; a request for events by `Events` or `Error`; every other request by `Volume`
/// or `Error`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// The state of the volume, after the request.
    Volume(Box<Volume>),
    /// Events of the volume.
    Events(Events),
    /// The progress of a scrub.
    Progress(ScrubProgress),
    /// A note of a scrub for its operator.
    Note(String),
    /// The end of a scrub.
    Done(ScrubDone),
    /// The request, or the scrub, came to nothing.
    Error(Fault),
}

/// A line in JSON.
#[derive(Serialize, Deserialize)]
struct Line<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<u64>,
    #[serde(flatten)]
    answer: Cow<'a, Answer>,
}

/// The bytes of a line, with its line feed. Version 1 leaves out the code of an error.
#[must_use]
pub fn encode(version: Version, answer: &Answer) -> Vec<u8> {
    let answer = match (version, answer) {
        (Version::V1, Answer::Error(fault)) => {
            Cow::Owned(Answer::Error(Fault { code: None, text: fault.text.clone() }))
        }
        _ => Cow::Borrowed(answer),
    };
    let line = Line { version: version.named(), answer };
    let mut line = serde_json::to_vec(&line).expect("an answer has a JSON form");
    line.push(b'\n');
    line
}

/// The answer of a line, and its version.
///
/// # Errors
/// The reason, if the line is no answer, or is of a version that this program does not know.
pub fn decode(line: &[u8]) -> Result<(Version, Answer), String> {
    let line: Line<'_> = serde_json::from_slice(line).map_err(|error| error.to_string())?;
    let number = line.version.unwrap_or(Version::V1.number());
    let version = Version::of(number).ok_or_else(|| {
        let (from, to) = (Version::FIRST, Version::LAST);
        format!("it is of version {number}; this program speaks versions {from} to {to}")
    })?;
    Ok((version, line.answer.into_owned()))
}
