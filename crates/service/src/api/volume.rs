//! The state of a volume, as a document. `docs/reference/json.md` has the fields.

use super::event::{Event, LossCause};
use serde::{Deserialize, Serialize};

/// A volume.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Volume {
    /// UUID of the array, as md writes it.
    pub uuid: String,
    /// Its name; may be empty.
    pub name: String,
    /// RAID level.
    pub level: u64,
    /// Layout, as mdadm calls it; `None` if the level has only one.
    pub layout: Option<String>,
    /// Bytes of a chunk.
    pub chunk_bytes: u64,
    /// Version of md's superblocks.
    pub metadata: String,
    /// Size in bytes.
    pub bytes: u64,
    /// Bytes of a logical block.
    pub block_bytes: u32,
    /// `log` or `bitmap`.
    pub consistency: String,
    /// `clean`, `dirty` or `held`.
    pub state: String,
    /// The redundancy; that of an older server is [unknown](Condition::Unknown).
    #[serde(default)]
    pub condition: Condition,
    /// Further losses that it survives.
    pub survives: Survives,
    /// Members by role.
    pub members: Vec<Member>,
    /// Traffic since it was opened.
    pub moved: Moved,
    /// Places where parity is computed.
    pub parity: Parity,
    /// Work of recovery when it was opened.
    pub recovered: Recovered,
    /// The words of `member_errors`.
    pub errors: Vec<String>,
    /// The last errors of members that are not in sync, or have been in sync all along.
    #[serde(default)]
    pub member_errors: Vec<MemberError>,
    /// Addresses of the server; `None` if it is not served.
    pub served: Option<Served>,
}

impl Volume {
    /// Returns whether a name or a UUID is that of this volume.
    #[must_use]
    pub fn is(&self, name: &str) -> bool {
        self.uuid == name || self.name == name
    }
}

/// Losses that a volume survives, whichever they are.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Survives {
    /// Number of drives.
    pub drives: usize,
    /// Number of nodes.
    pub nodes: usize,
}

/// The redundancy of a volume in one word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Condition {
    /// All members are in sync.
    Healthy,
    /// A member is missing or lost.
    Degraded,
    /// All members that are not in sync are being rebuilt.
    Rebuilding,
    /// More members are missing than the volume survives.
    Held,
    /// The server does not say it.
    #[default]
    #[serde(other)]
    Unknown,
}

impl Condition {
    /// Its word.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Healthy => "healthy",
            Self::Degraded => "degraded",
            Self::Rebuilding => "rebuilding",
            Self::Held => "held",
            Self::Unknown => "unknown",
        }
    }
}

/// An error of a member.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemberError {
    /// Its role; `None` if the error is of the volume as a whole.
    pub role: Option<u16>,
    /// Seconds since 1970.
    pub at: u64,
    /// The words.
    pub text: String,
}

/// The loss of a member.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Absent {
    /// Seconds since 1970.
    pub since: u64,
    /// The device that it was.
    pub device: String,
    /// The cause.
    pub cause: LossCause,
    /// The cause in words.
    pub why: String,
    /// The drive answers again, and this is the reason why it has not its role back.
    pub kept_out: Option<String>,
}

/// A member.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Member {
    /// Its role.
    pub role: u16,
    /// Its device; `None` if there is none.
    pub device: Option<String>,
    /// `in_sync`, `rebuilding`, `missing` or `lost`.
    pub state: String,
    /// Progress of a rebuild, per mille.
    pub rebuilt: Option<u64>,
    /// Its loss, until it is in sync again; `None` also if this is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub absent: Option<Absent>,
}

/// Bytes that were moved.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Moved {
    /// Bytes that users read.
    pub user_read: u64,
    /// Bytes that users wrote.
    pub user_written: u64,
    /// Bytes that this host read from members.
    pub member_read: u64,
    /// Bytes that this host wrote to members.
    pub member_written: u64,
    /// Bytes that were sent to nodes, with headers.
    pub link_sent: u64,
    /// Bytes that came from nodes, with headers.
    pub link_received: u64,
    /// Blocks that a medium did not give, written again.
    pub rewritten_blocks: u64,
}

/// Places where parity is computed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Parity {
    /// Nodes can compute it.
    pub by_nodes: bool,
    /// The reason if they cannot.
    pub why: Option<String>,
    /// Writes of windows whose parity nodes computed.
    pub near_writes: u64,
    /// Writes of windows whose parity this host computed.
    pub far_writes: u64,
    /// Places of classes of work; `None` if that is not measured.
    pub ways: Option<Vec<Work>>,
}

/// The place of a class of work, and the rates that were measured.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Work {
    /// `full_stripes`, `partial_writes` or `lost_reads`.
    pub work: String,
    /// `near` or `far`.
    pub way: String,
    /// Bytes a second of the time in which such work was under way, by the nodes.
    pub near_bytes_per_s: Option<u64>,
    /// The same by this host.
    pub far_bytes_per_s: Option<u64>,
    /// Comparisons since everything was measured anew.
    pub verdicts: u64,
}

/// Work of recovery.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Recovered {
    /// Another system has run the array since.
    pub log_discarded: bool,
    /// Writes that had not become durable.
    pub writes_dropped: u64,
    /// Blocks that were copied from the log.
    pub blocks_applied: u64,
    /// Windows whose parity was computed from data.
    pub windows_resynced: u64,
    /// Roles that were recorded as failed.
    pub members_failed: Vec<u16>,
}

impl Recovered {
    /// Events of the recovery; none if it had nothing to do.
    #[must_use]
    pub fn events(&self) -> Vec<Event> {
        let Self { log_discarded, writes_dropped, blocks_applied, windows_resynced, members_failed } = self;
        let mut out = Vec::new();
        if *log_discarded {
            out.push(Event::LogDiscarded);
        }
        if *blocks_applied > 0 {
            out.push(Event::BlocksApplied { blocks: *blocks_applied });
        }
        if *writes_dropped > 0 {
            out.push(Event::WritesDropped { writes: *writes_dropped });
        }
        if *windows_resynced > 0 {
            out.push(Event::WindowsResynced { windows: *windows_resynced });
        }
        out.extend(members_failed.iter().map(|role| Event::MemberRecorded { role: *role }));
        out
    }
}

/// The server of a volume.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Served {
    /// Addresses, each with its port.
    pub addresses: Vec<String>,
    /// Name of the subsystem.
    pub nqn: String,
    /// Process.
    pub pid: u32,
}
