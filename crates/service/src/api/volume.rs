//! The state of a volume, as a document. `docs/reference/json.md` has the fields.

use super::event::Event;
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
    /// The last errors of members.
    pub errors: Vec<String>,
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
