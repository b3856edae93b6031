//! Events of a volume.

use crate::words::count;
use serde::{Deserialize, Serialize};
use std::fmt;

/// The weight of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// For the record.
    Info,
    /// Somebody should look at it.
    Warning,
    /// Redundancy or data are at stake, or are lost.
    Critical,
}

/// The cause of the loss of a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LossCause {
    /// The connection to its node was lost.
    Unreachable,
    /// Its drive or its node failed an operation.
    Failed,
    /// Its operator failed it.
    ByHand,
    /// Any other one.
    #[serde(other)]
    Unknown,
}

/// Something that happened to a volume. [`Display`](fmt::Display) makes its words, and no other
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
    /// A member is gone.
    MemberFailed {
        /// Its role.
        role: u16,
        /// Its device, if it is known.
        device: Option<String>,
        /// The cause.
        cause: LossCause,
        /// The cause in words.
        why: Option<String>,
        /// The number of drives that the volume can lose from now on.
        survives: u64,
    },
    /// The drive of a member that was lost has taken its role back by itself.
    MemberBack {
        /// Its role.
        role: u16,
        /// Its device.
        device: String,
    },
    /// The drive of a member that was lost answers again, and only an order brings it back.
    MemberKeptOut {
        /// Its role.
        role: u16,
        /// Its device.
        device: String,
        /// The reason.
        why: String,
    },
    /// The rebuild of a member has begun.
    RebuildBegun {
        /// Its role.
        role: u16,
        /// Its device, if it is known.
        device: Option<String>,
    },
    /// The rebuild of a member has come so far.
    RebuildAt {
        /// Its role.
        role: u16,
        /// 20, 40, 60 or 80.
        percent: u8,
    },
    /// The rebuild of a member has ended: it is in sync.
    RebuildEnded {
        /// Its role.
        role: u16,
        /// Members that are not in sync yet.
        left: u64,
    },
    /// More members are missing than the volume survives: requests wait.
    Held {
        /// Their roles.
        roles: Vec<u16>,
    },
    /// A volume that was held goes on.
    GoesOn,
    /// Media did not give blocks, which were recovered and written again.
    BlocksRewritten {
        /// Number of them since the last such event.
        blocks: u64,
    },
    /// A scrub has begun.
    ScrubBegun {
        /// It repairs.
        repairs: bool,
    },
    /// A scrub has ended, without findings.
    ScrubEnded {
        /// Stripes that were checked.
        stripes: u64,
        /// Stripes that were to be checked.
        of_stripes: u64,
        /// The reason why it ended early.
        why: Option<String>,
    },
    /// A scrub has ended, with findings.
    ScrubFound {
        /// Number of them.
        findings: u64,
        /// Those of them that are repaired.
        repaired: u64,
        /// The reason why it ended early.
        why: Option<String>,
    },
    /// A scrub could not run.
    ScrubFailed {
        /// The reason.
        why: String,
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
    /// An event of a later version.
    #[serde(other)]
    Other,
}

impl Event {
    /// Its name, as programs read it.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::LogDiscarded => "log_discarded",
            Self::BlocksApplied { .. } => "blocks_applied",
            Self::WritesDropped { .. } => "writes_dropped",
            Self::WindowsResynced { .. } => "windows_resynced",
            Self::MemberRecorded { .. } => "member_recorded",
            Self::MemberFailed { .. } => "member_failed",
            Self::MemberBack { .. } => "member_back",
            Self::MemberKeptOut { .. } => "member_kept_out",
            Self::RebuildBegun { .. } => "rebuild_begun",
            Self::RebuildAt { .. } => "rebuild_at",
            Self::RebuildEnded { .. } => "rebuild_ended",
            Self::Held { .. } => "held",
            Self::GoesOn => "goes_on",
            Self::BlocksRewritten { .. } => "blocks_rewritten",
            Self::ScrubBegun { .. } => "scrub_begun",
            Self::ScrubEnded { .. } => "scrub_ended",
            Self::ScrubFound { .. } => "scrub_found",
            Self::ScrubFailed { .. } => "scrub_failed",
            Self::ScrubLeft => "scrub_left",
            Self::NotClean { .. } => "not_clean",
            Self::ServerFailed { .. } => "server_failed",
            Self::Other => "other",
        }
    }

    /// Its weight.
    #[must_use]
    pub const fn severity(&self) -> Severity {
        match self {
            Self::MemberRecorded { .. }
            | Self::MemberFailed { .. }
            | Self::Held { .. }
            | Self::ScrubFound { .. }
            | Self::NotClean { .. }
            | Self::ServerFailed { .. } => Severity::Critical,
            Self::LogDiscarded
            | Self::MemberKeptOut { .. }
            | Self::BlocksRewritten { .. }
            | Self::ScrubFailed { .. }
            | Self::ScrubLeft
            | Self::Other => Severity::Warning,
            Self::BlocksApplied { .. }
            | Self::WritesDropped { .. }
            | Self::WindowsResynced { .. }
            | Self::MemberBack { .. }
            | Self::RebuildBegun { .. }
            | Self::RebuildAt { .. }
            | Self::RebuildEnded { .. }
            | Self::GoesOn
            | Self::ScrubBegun { .. }
            | Self::ScrubEnded { .. } => Severity::Info,
        }
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::MemberFailed { .. }
            | Self::MemberBack { .. }
            | Self::MemberKeptOut { .. }
            | Self::RebuildBegun { .. }
            | Self::RebuildAt { .. }
            | Self::RebuildEnded { .. }
            | Self::Held { .. }
            | Self::GoesOn => members(self, f),
            Self::ScrubBegun { .. }
            | Self::ScrubEnded { .. }
            | Self::ScrubFound { .. }
            | Self::ScrubFailed { .. }
            | Self::ScrubLeft => scrubs(self, f),
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
            Self::BlocksRewritten { blocks } => write!(
                f,
                "{} that a medium did not give: recovered, and written again",
                count(*blocks, "block")
            ),
            Self::NotClean { why: None } => f.write_str("the volume could not be left clean"),
            Self::NotClean { why: Some(why) } => write!(f, "the volume could not be left clean: {why}"),
            Self::ServerFailed { why, stops: true } => write!(f, "the server stops: {why}"),
            Self::ServerFailed { why, stops: false } => f.write_str(why),
            Self::Other => f.write_str("an event of a later version"),
        }
    }
}

/// The words of events of members.
fn members(event: &Event, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let named =
        |device: &Option<String>| device.as_ref().map_or(String::new(), |device| format!(" ({device})"));
    match event {
        Event::MemberFailed { role, device, cause, why, survives } => {
            let what = match cause {
                LossCause::Unreachable => "is lost with its node",
                LossCause::Failed | LossCause::Unknown => "has failed",
                LossCause::ByHand => "was failed",
            };
            let more = match survives {
                0 => "no further loss is survived".to_owned(),
                n => format!("{} more may be lost", count(*n, "drive")),
            };
            write!(f, "role {role}{} {what}; {more}", named(device))?;
            why.as_ref().map_or(Ok(()), |why| write!(f, ": {why}"))
        }
        Event::MemberBack { role, device } => {
            write!(f, "role {role} ({device}) answers again, and has its role back")
        }
        Event::MemberKeptOut { role, device, why } => {
            write!(f, "role {role} ({device}) answers again, and is not taken back by itself: {why}")
        }
        Event::RebuildBegun { role, device } => write!(f, "role {role}{}: rebuild begun", named(device)),
        Event::RebuildAt { role, percent } => write!(f, "role {role}: {percent} % rebuilt"),
        Event::RebuildEnded { role, left: 0 } => {
            write!(f, "role {role} is rebuilt; all members are in sync")
        }
        Event::RebuildEnded { role, left } => {
            write!(f, "role {role} is rebuilt; {} not in sync yet", count(*left, "member"))
        }
        Event::Held { roles } => {
            let roles: Vec<String> = roles.iter().map(ToString::to_string).collect();
            let roles = roles.join(", ");
            write!(
                f,
                "held: more members are missing than the volume survives (roles {roles}); requests wait"
            )
        }
        _ => f.write_str("the members are back, and the volume goes on"),
    }
}

/// The words of events of scrubs.
fn scrubs(event: &Event, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let early =
        |why: &Option<String>| why.as_ref().map_or(String::new(), |why| format!("; it ended early: {why}"));
    match event {
        Event::ScrubBegun { repairs: true } => f.write_str("a scrub with repairs has begun"),
        Event::ScrubBegun { repairs: false } => f.write_str("a scrub has begun"),
        Event::ScrubEnded { stripes, of_stripes, why } => {
            write!(f, "the scrub has ended: nothing found in {stripes} of {of_stripes} stripes{}", early(why))
        }
        Event::ScrubFound { findings, repaired, why } => {
            let findings = count(*findings, "finding");
            write!(f, "the scrub has ended: {findings}, {repaired} repaired{}", early(why))
        }
        Event::ScrubFailed { why } => write!(f, "the scrub could not run: {why}"),
        _ => f.write_str("a scrub of the volume waits for a drive or a node, and is left behind"),
    }
}

/// An event with its number.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Told {
    /// Its number: 1 for the first of its series, and one more for each.
    pub id: u64,
    /// Seconds since 1970.
    pub at: u64,
    /// Its weight.
    pub severity: Severity,
    /// The words for people.
    pub text: String,
    /// The event.
    #[serde(flatten)]
    pub event: Event,
}

/// Events that a server has kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Events {
    /// The series that the numbers are of: 16 hexadecimal digits, drawn when the server begins.
    pub series: String,
    /// Events after the one that was named, the oldest first.
    pub events: Vec<Told>,
    /// Events after the one that was named that the server keeps no more.
    pub dropped: u64,
    /// The number of the newest event; 0 if there is none.
    pub newest: u64,
}
