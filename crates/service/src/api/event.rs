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
    /// A member failed, or does not answer.
    MemberLost {
        /// Its role.
        role: u16,
        /// The reason.
        why: String,
    },
    /// A member that had failed took its role again.
    MemberBack {
        /// Its role.
        role: u16,
    },
    /// A member is being rebuilt from now on.
    RebuildBegun {
        /// Its role.
        role: u16,
        /// Its device.
        device: String,
    },
    /// A member is in sync after a rebuild.
    RebuildEnded {
        /// Its role.
        role: u16,
    },
    /// Requests wait: more members are missing than the volume survives.
    Held {
        /// Roles that are missing.
        missing: Vec<u16>,
    },
    /// Members came back, and requests are carried out again.
    Resumed {
        /// Writes may be lost that were answered and not flushed.
        unsure: bool,
    },
    /// A scrub begins.
    ScrubBegun {
        /// Its repairs are written.
        repairs: bool,
    },
    /// A scrub waits for its hours or its rate.
    ScrubPaused,
    /// A scrub ended.
    ScrubEnded {
        /// The exit code of its command.
        exit: u8,
    },
    /// A scrub found stripes that are inconsistent.
    Found {
        /// Number of findings.
        findings: u64,
    },
    /// A scrub repaired stripes.
    Repaired {
        /// Number of them.
        stripes: u64,
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
            Self::MemberLost { role, why } => write!(f, "role {role} is lost: {why}"),
            Self::MemberBack { role } => write!(f, "role {role} is back"),
            Self::RebuildBegun { role, device } => write!(f, "role {role} is being rebuilt on {device}"),
            Self::RebuildEnded { role } => write!(f, "role {role} is rebuilt"),
            Self::Held { missing } => {
                let roles: Vec<String> = missing.iter().map(ToString::to_string).collect();
                write!(f, "more members are missing than the volume survives: {}", roles.join(", "))
            }
            Self::Resumed { unsure } => {
                f.write_str("the members are back, and the volume goes on")?;
                if *unsure { f.write_str("; writes that were not flushed may be lost") } else { Ok(()) }
            }
            Self::ScrubBegun { repairs } => {
                f.write_str(if *repairs { "a scrub with repairs begins" } else { "a scrub begins" })
            }
            Self::ScrubPaused => f.write_str("the scrub waits for its hours or its rate"),
            Self::ScrubEnded { exit } => write!(f, "the scrub has ended with {exit}"),
            Self::Found { findings } => write!(f, "the scrub has {}", count(*findings, "finding")),
            Self::Repaired { stripes } => write!(f, "the scrub has repaired {}", count(*stripes, "stripe")),
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
