//! The parity command set: the commands of a host to a data node, and the trait that both ends
//! share.
//!
//! A *data node* is a machine with drives. Each drive has a medium and a local memory (NVMe's
//! controller memory buffer); the node has a parity engine that folds media or memory ranges of its
//! drives, and a transfer engine that moves local memory to a drive of another node. A host never
//! needs the data itself: it sends a [`ParityCommand`] that covers thousands of stripes and gets
//! back a few bytes.
//!
//! ```text
//! host ── ParityCommand ──▶ node: read media, fold by a Rule, keep the result in local memory or send it back
//!      ◀─ ParityResult ───        (bitmap of bad stripes, fingerprint, first and last non-zero byte)
//!      ── Transfer ───────▶ node ── local memory ──▶ another node
//! ```
//!
//! `docs/design/offload.md` describes commands, results and their sizes,
//! `docs/reference/wire-format/offload.md` their bytes. `node` implements [`DataNode`] over block
//! devices in this process; `host` drives any implementation.

mod activity;
mod command;
mod drive;
mod error;
mod link;
mod node;
mod operation;
mod pacing;
pub mod record;
mod result;
mod rule;
mod tags;
mod update;
pub mod wire;

pub use activity::{Activity, AssociatedHost, Hosts, SuperblockSeen, Writes};
pub use command::{
    Grant, MAX_STRIPES, MAX_WORK, MemoryAddress, Mode, ParityCommand, Source, Transfer, Window,
};
pub use drive::{DriveDescription, DriveId, DriveRange, NodeDescription, Piece, PieceFailure};
pub use error::{ErrorKind, NodeError};
pub use link::{LinkFigures, QueueTraffic};
pub use node::{DataNode, DriveMemory, Drives, Link, Paced, ParityEngine, Presence, TaggedDrives, Updates};
pub use operation::{Completion, Ended, MAX_OPERATION, Operation, OperationQueue, Tag};
pub use pacing::{DAY, MAX_WINDOWS, NEVER, PaceFigures, PacePolicy, PaceRequest, parse_window};
pub use result::{
    MAX_UNREADABLE, ParityResult, RESULT_HEADER_BYTES, StripeBitmap, TAGS_HEADER_BYTES, TransferResult,
    UNREADABLE_ENTRY_BYTES, Unread, Unreadable,
};
pub use rule::{Rule, RuleError};
pub use tags::{MAX_TAG_PLACES, MAX_TAGGED_BLOCKS, TagFault, TagFormat, TagPlace, TagReport, TaggedBlocks};
pub use update::{
    MAX_PATHS, MAX_STRETCH_BYTES, MAX_STRETCH_CLASSES, MAX_UPDATE_BYTES, MAX_UPDATE_SOURCES, MAX_UPDATE_SUMS,
    PathId, PeerRange, SumTo, Update, UpdateRecord, UpdateSource, UpdateSum,
};
