//! Errors, as programs and people read them.

use serde::{Deserialize, Serialize};
use std::fmt;

/// The kind of an error. Its word stays the same; `docs/reference/control.md` has the meanings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Code {
    /// The request is no JSON object, or a field of it is missing, wrong or unknown.
    InvalidRequest,
    /// The request has too many bytes.
    TooLong,
    /// The server does not speak the version of the request.
    UnknownVersion,
    /// The version has no such request.
    UnknownRequest,
    /// More members are missing than the volume survives.
    Held,
    /// The volume, or the process that serves it, does not answer in time.
    Unanswered,
    /// The volume has stopped, or is being stopped.
    Stopped,
    /// The volume has stopped, and could not be left clean.
    NotClean,
    /// No member has that role or device.
    NoMember,
    /// The member is missing, or being rebuilt.
    Missing,
    /// The volume would not survive it.
    TooFew,
    /// The superblocks do not say in time that a member has failed.
    NotRecorded,
    /// Other members are missing.
    OthersMissing,
    /// No role is empty.
    NoneMissing,
    /// The role that the device had is not empty.
    Taken,
    /// The device is a member of this volume.
    IsMember,
    /// The device cannot be opened, or cannot be a member.
    Device,
    /// The superblocks do not name a new member in time.
    UnderWay,
    /// A scrub of the volume is under way.
    ScrubRunning,
    /// The order needs user 0, or the user of the process.
    NotAllowed,
    /// No progress is kept, so the pass cannot go on later.
    NotSaved,
    /// Too many clients are there.
    Busy,
    /// No array, scrub or alert of that name is there.
    NoSuch,
    /// No volume of that name or UUID is served here. Made by clients.
    NoVolume,
    /// A name of several volumes. Made by clients.
    SeveralVolumes,
    /// Anything else, and every code of a later version.
    #[serde(other)]
    Failed,
}

/// An error over the socket. One of version 1 has no code.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Form", into = "Form")]
pub struct Fault {
    /// Its kind.
    pub code: Option<Code>,
    /// The words for people, on one line.
    pub text: String,
}

/// An error in JSON.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Form {
    Text(String),
    Coded { code: Code, text: String },
}

impl From<Form> for Fault {
    fn from(form: Form) -> Self {
        match form {
            Form::Text(text) => Self { code: None, text },
            Form::Coded { code, text } => Self { code: Some(code), text },
        }
    }
}

impl From<Fault> for Form {
    fn from(Fault { code, text }: Fault) -> Self {
        match code {
            None => Self::Text(text),
            Some(code) => Self::Coded { code, text },
        }
    }
}

impl Fault {
    /// An error of a kind.
    pub fn new(code: Code, text: impl Into<String>) -> Self {
        Self { code: Some(code), text: text.into() }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}
