//! Notices of a connection to the operator: for the caller to log and count.

use crate::auth::failure::Failure;
use crate::spec::Status;
use std::fmt;
use std::sync::OnceLock;
use std::sync::atomic::AtomicU64;

/// Something that happened on a connection. There is none for a single command of a live queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Notice {
    /// A host has associated with a controller.
    Associated {
        /// The association.
        association: Who,
        /// The keep-alive timeout in milliseconds; 0 for none.
        kato_ms: u32,
    },
    /// A Connect was refused.
    Refused {
        /// The host's name as it was given: any text of at most 255 bytes. Empty where the data
        /// could not be read.
        host: String,
        /// The queue that was to be connected.
        qid: u16,
        /// The status of the answer.
        status: Status,
    },
    /// A host did not prove itself.
    Unproven {
        /// The name that it claims: any text of at most 255 bytes.
        host: String,
        /// The queue.
        qid: u16,
        /// The reason, which the peer is not told exactly.
        failure: Failure,
    },
    /// The peer broke the protocol.
    Violation(&'static str),
}

/// The host and the controller of an association.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Who {
    /// The host's name; empty if it gave none.
    pub host: String,
    /// The host's identifier.
    pub host_id: [u8; 16],
    /// The controller.
    pub cntlid: u16,
    /// True if it is the discovery service's.
    pub discovery: bool,
}

/// An association whose last connection is gone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ended {
    /// The association.
    pub association: Who,
    /// Reason for its end.
    pub reason: EndReason,
    /// Commands of all of its queues.
    pub commands: u64,
    /// Bytes read from namespaces.
    pub bytes_read: u64,
    /// Bytes written to namespaces.
    pub bytes_written: u64,
}

/// Reason for the end of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EndReason {
    /// The host closed the connection.
    HostClosed,
    /// The connection broke.
    Lost,
    /// The host sent a term request, or disconnected.
    HostEnded,
    /// The host broke the protocol.
    Violation,
    /// No Keep Alive came in time.
    KeepAlive,
    /// Nothing came for too long from a host without keep alive.
    Silence,
    /// A state, or a PDU that had begun, lasted too long.
    Deadline,
    /// The host did not prove itself.
    Unproven,
    /// The node stops.
    Stopped,
}

impl fmt::Display for EndReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::HostClosed => "host closed",
            Self::Lost => "connection lost",
            Self::HostEnded => "host ended it",
            Self::Violation => "violation",
            Self::KeepAlive => "keep alive timeout",
            Self::Silence => "silence",
            Self::Deadline => "deadline",
            Self::Unproven => "authentication failed",
            Self::Stopped => "shutdown of the node",
        })
    }
}

/// Sums of the connections of an association; each adds its own when it ends.
#[derive(Debug, Default)]
pub(crate) struct Totals {
    /// The first cause of the end.
    pub(super) reason: OnceLock<EndReason>,
    pub(super) commands: AtomicU64,
    pub(super) bytes_read: AtomicU64,
    pub(super) bytes_written: AtomicU64,
}

/// Sums of one queue.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct QueueSums {
    pub(super) commands: u64,
    pub(super) bytes_read: u64,
    pub(super) bytes_written: u64,
}
