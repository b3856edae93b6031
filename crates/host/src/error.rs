//! Errors: the reasons why work on an array could not begin or continue.

use pumice_base::units::Role;
use pumice_offload::{ErrorKind, NodeError};
use std::io;
use std::path::PathBuf;
use thiserror::Error;

/// Reasons why work on an array could not begin or continue.
#[derive(Debug, Error)]
pub enum HostError {
    /// A node failed for another reason than unreadable media.
    #[error(transparent)]
    Node(#[from] NodeError),
    /// The operator wants the pass to end.
    #[error("interrupted")]
    Interrupted,
    /// No equation remains.
    #[error("stripe {stripe}: {missing} members are missing, so no equation remains to be checked")]
    TooFewMembers {
        /// The stripe.
        stripe: u64,
        /// Members missing there.
        missing: usize,
    },
    /// Interims do not fit.
    #[error("interims need {need} bytes of local memory, a drive has {have}")]
    LocalMemory {
        /// Bytes needed.
        need: u64,
        /// Bytes there.
        have: u64,
    },
    /// A batch with more stripes than the method can identify.
    #[error("a batch of {0} stripes is too long")]
    Batch(u64),
    /// Most of a batch is inconsistent, in an array that was assumed to be synced because it is
    /// running.
    #[error(
        "most of the stripes {start}..{end} are inconsistent: the array's parity is probably being built; scrub it when the resync is over"
    )]
    Unsynced {
        /// First stripe.
        start: u64,
        /// Stripe after the last.
        end: u64,
    },
    /// A stripe that was readable before.
    #[error("stripe {stripe} could be read a moment ago but not now: {reason}")]
    LostMeanwhile {
        /// The stripe.
        stripe: u64,
        /// The drive's error text.
        reason: String,
    },
    /// After a rewrite, the bytes that are read back do not satisfy parity.
    #[error(
        "stripe {stripe}: the bytes at {start} of the chunk were rewritten, and parity still does not hold when they are read back; the journal is kept"
    )]
    RepairNotVerified {
        /// The stripe.
        stripe: u64,
        /// First byte within the chunk.
        start: u32,
    },
    /// The hours of a node's configuration and of this pass have none in common.
    #[error(
        "node {node}: the hours in which it may be read ([pacing] window of its configuration) and those asked for (--window) have none in common"
    )]
    NeverOpen {
        /// The node.
        node: String,
    },
    /// The writer of the array gives no locks any more.
    #[error("the stripes cannot be locked: {0}")]
    Locks(String),
    /// A member does not have what is written to the array any more.
    #[error("member {0} is not in sync any more: scrub the volume again without it")]
    MemberLeft(Role),
    /// The array is no longer the one that the pass reads (`docs/design/premises.md`).
    #[error("{0}")]
    ArrayChanged(String),
    /// `--range` reaches past the array.
    #[error("range {start}..{end} is not within the array's {stripes} stripes")]
    Range {
        /// First stripe.
        start: u64,
        /// Stripe after the last.
        end: u64,
        /// Stripes of the array.
        stripes: u64,
    },
    /// An invalid value of an option.
    #[error("{option} is {value}: {allowed}")]
    Option {
        /// The option.
        option: &'static str,
        /// The value given.
        value: String,
        /// The allowed values.
        allowed: &'static str,
    },
    /// A file in the state directory.
    #[error("{}: {context}", path.display())]
    State {
        /// The file.
        path: PathBuf,
        /// The operation that failed.
        context: String,
        /// The cause.
        source: Option<io::Error>,
    },
    /// The bytes that a repair would replace cannot be kept. Nothing was written.
    #[error("{}: the bytes before the repair cannot be kept: {reason}", path.display())]
    NotKept {
        /// The archive.
        path: PathBuf,
        /// The reason.
        reason: String,
    },
    /// An interrupted repair cannot be settled with these devices; its journal remains.
    #[error(
        "{}: this journal of an interrupted repair must be settled before anything is repaired: {why}",
        path.display()
    )]
    JournalWaits {
        /// The journal.
        path: PathBuf,
        /// The obstacle.
        why: String,
    },
    /// An undo is refused; nothing was written.
    #[error("repair {id} cannot be undone: {why}")]
    NotUndone {
        /// The entry of the archive.
        id: u64,
        /// The obstacle.
        why: String,
    },
    /// Another scrub of the array is running.
    #[error("another scrub of this array is running ({} is locked)", .0.display())]
    Locked(PathBuf),
    /// `--resume` with options that differ from those of the pass.
    #[error(
        "the interrupted scrub has {option} {then}, this command has {now}; omit the option, or start again without --resume"
    )]
    Resume {
        /// The option.
        option: &'static str,
        /// Its value then.
        then: String,
        /// Its value now.
        now: String,
    },
}

impl HostError {
    /// Returns whether a node, or the connection to it, is lost: the same call may succeed over a
    /// new connection.
    pub(crate) fn is_lost_connection(&self) -> bool {
        matches!(self, Self::Node(error) if error.kind() == ErrorKind::Unreachable)
    }

    pub(crate) fn state(path: impl Into<PathBuf>, context: impl Into<String>, source: io::Error) -> Self {
        Self::State {
            path: path.into(),
            context: format!("{}: {source}", context.into()),
            source: Some(source),
        }
    }
}
