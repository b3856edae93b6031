//! The document of `pumice status`: `docs/reference/json.md` has the fields. Both forms
//! of the output are made from it.

use serde::{Deserialize, Serialize};

/// State of an array, or of the machine, the most urgent one last. Its word begins the page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum State {
    /// Nothing needs a person.
    Ok,
    /// Something could not be asked.
    Unknown,
    /// A person should look.
    Warning,
    /// Places are damaged.
    Damage,
    /// Members are missing.
    Degraded,
    /// More members are missing than it survives, or it does not run.
    Held,
}

impl State {
    /// The word for people.
    pub(super) const fn word(self) -> &'static str {
        match self {
            Self::Ok => "OK",
            Self::Unknown => "UNKNOWN",
            Self::Warning => "WARNING",
            Self::Damage => "DAMAGE",
            Self::Degraded => "DEGRADED",
            Self::Held => "HELD",
        }
    }

    /// The exit code.
    pub(super) const fn exit(self) -> u8 {
        match self {
            Self::Ok => 0,
            Self::Unknown => 2,
            Self::Warning | Self::Damage | Self::Degraded | Self::Held => 1,
        }
    }
}

/// The machine. Times are seconds since 1970.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Document {
    pub(super) format: u32,
    pub(super) version: &'static str,
    pub(super) host: String,
    pub(super) at: u64,
    pub(super) state: State,
    /// Members of all arrays that are there.
    pub(super) drives: usize,
    pub(super) arrays: Vec<Array>,
    pub(super) nodes: Vec<Node>,
    pub(super) alerts: Vec<Alert>,
    pub(super) monitor: Monitor,
    pub(super) history: History,
    pub(super) silent: Vec<Silent>,
}

/// An array that runs, is served or is known from earlier passes.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Array {
    pub(super) kind: Kind,
    pub(super) name: String,
    pub(super) uuid: Option<String>,
    pub(super) level: String,
    pub(super) bytes: Option<u64>,
    pub(super) state: State,
    /// The state in one or two words.
    pub(super) condition: String,
    pub(super) survives: Option<usize>,
    pub(super) members: Vec<Member>,
    pub(super) rebuild: Option<Rebuild>,
    /// The last errors, as text.
    pub(super) errors: Vec<String>,
    pub(super) last_complete: Option<Pass>,
    pub(super) last: Option<Pass>,
    pub(super) damage: Option<Damage>,
    /// Time of the next pass, if the monitor says it.
    pub(super) next: Option<u64>,
    pub(super) scrub: Option<Scrub>,
}

/// A member, as its server or the kernel tells it. Fields of other versions are left out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Member {
    pub(super) role: u16,
    pub(super) device: Option<String>,
    /// `in_sync`, `rebuilding`, `missing` or `lost`.
    pub(super) state: String,
    /// Progress of a rebuild, per mille.
    pub(super) rebuilt: Option<u64>,
    /// Its loss, if the server tells it.
    #[serde(default)]
    pub(super) absent: Option<Absent>,
}

/// The loss of a member.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Absent {
    pub(super) since: u64,
    pub(super) device: String,
    pub(super) why: String,
    /// The drive answers again, and this is why it has not its role back.
    pub(super) kept_out: Option<String>,
}

/// The place of an array.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Kind {
    /// The kernel runs it.
    Md,
    /// This program serves it.
    Volume,
    /// Neither; passes of it are in the history.
    Known,
}

/// A rebuild or resync by the kernel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Rebuild {
    /// The kernel's word.
    pub(super) action: String,
    pub(super) done_per_mille: Option<u64>,
    pub(super) bytes_per_s: Option<u64>,
    pub(super) seconds_left: Option<u64>,
}

/// A pass of the history.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Pass {
    pub(super) pass: String,
    pub(super) by: String,
    pub(super) begun: u64,
    pub(super) ended: u64,
    /// Seconds of reading.
    pub(super) seconds: u64,
    pub(super) result: String,
    pub(super) findings: u64,
    pub(super) repaired: u64,
}

/// Places that passes found damaged, and none has repaired or found well since.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Damage {
    pub(super) places: u64,
    /// Places of a named member, on evidence on which a repair writes.
    pub(super) repairable: u64,
    /// End of the pass that found the first of them.
    pub(super) since: u64,
    pub(super) kinds: Vec<DamageOf>,
}

/// Places of one member with one verdict.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct DamageOf {
    pub(super) member: Option<u16>,
    pub(super) device: Option<String>,
    pub(super) places: u64,
    pub(super) verdict: String,
    pub(super) evidence: String,
    pub(super) serial: Option<String>,
    /// The drive's own word on its health, if it is awake and was asked.
    pub(super) health: Option<String>,
}

/// A scrub that is under way.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Scrub {
    /// `running`, `pausing`, `paused` or `stopping`.
    pub(super) state: String,
    pub(super) stripes: u64,
    pub(super) of_stripes: u64,
    pub(super) findings: u64,
    pub(super) begun: Option<u64>,
    pub(super) by: Option<String>,
    /// Bytes a second from each drive that were asked for.
    pub(super) rate: Option<u64>,
    /// Nanoseconds of slowdown that were asked for.
    pub(super) slowdown_ns: Option<u64>,
    pub(super) note: Option<String>,
}

/// A node process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Node {
    pub(super) socket: String,
    pub(super) name: Option<String>,
    pub(super) drives: Option<usize>,
}

/// An open alert.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Alert {
    pub(super) array: Option<String>,
    pub(super) kind: String,
    pub(super) severity: &'static str,
    pub(super) subject: String,
    pub(super) text: String,
    pub(super) since: u64,
}

/// The monitor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Monitor {
    pub(super) running: bool,
    /// True if it was ever used here: it has left a history.
    pub(super) expected: bool,
    /// Channels of alerts that did not take their last message.
    pub(super) failed: Vec<ChannelFailed>,
}

/// A channel of alerts that fails.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct ChannelFailed {
    pub(super) channel: String,
    pub(super) why: String,
}

/// The history.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct History {
    pub(super) path: String,
    /// The reason if it could not be read.
    pub(super) why: Option<String>,
    /// True if there is none yet, which is no failure.
    pub(super) missing: bool,
}

/// A process or a file that gave no answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Silent {
    pub(super) what: String,
    pub(super) why: String,
}
