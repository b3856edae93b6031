//! Events of a volume.

use crate::words::count;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Something that happened to a volume. [`Display`](fmt::Display) makes its log line, and no other
/// place does.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// Recovery discarded the stripe log: another system had run the array.
    LogDiscarded,
    /// Recovery copied blocks from the stripe log into place.
    BlocksApplied {
        /// Number of them.
        blocks: u64,
    },
    /// Recovery dropped writes that had not become durable.
    WritesDropped {
        /// Number of them.
        writes: u64,
    },
    /// Recovery computed parity from data.
    WindowsResynced {
        /// Number of windows.
        windows: u64,
    },
    /// Recovery recorded a member as failed.
    MemberRecorded {
        /// Its role.
        role: u16,
    },
    /// The volume ends, and its scrub waits for a drive or a node.
    ScrubLeft,
    /// The volume ended, and is not clean.
    NotClean {
        /// The reason, if it is known.
        why: Option<String>,
    },
    /// The server cannot go on, or did not end well.
    ServerFailed {
        /// The reason.
        why: String,
        /// The volume ends because of it.
        stops: bool,
    },
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::LogDiscarded => {
                f.write_str("another system has run the array since: the stripe log was discarded")
            }
            Self::BlocksApplied { blocks } => {
                write!(f, "{} copied from the stripe log", count(*blocks, "block"))
            }
            Self::WritesDropped { writes } => {
                write!(f, "{} dropped that had not become durable", count(*writes, "write"))
            }
            Self::WindowsResynced { windows } => {
                write!(f, "parity of {} computed from data", count(*windows, "window"))
            }
            Self::MemberRecorded { role } => write!(
                f,
                "role {role} is recorded as failed: its device was missing, or its stripe log could not be read"
            ),
            Self::ScrubLeft => {
                f.write_str("a scrub of the volume waits for a drive or a node, and is left behind")
            }
            Self::NotClean { why: None } => f.write_str("the volume could not be left clean"),
            Self::NotClean { why: Some(why) } => write!(f, "the volume could not be left clean: {why}"),
            Self::ServerFailed { why, stops: true } => write!(f, "the server stops: {why}"),
            Self::ServerFailed { why, stops: false } => f.write_str(why),
        }
    }
}
