//! What a volume's thread is told, and what it answers.

use crate::buffers::Piece;
use crate::claim::Granted;
use crate::drive::MemberDrive;
use crate::joining::Joining;
use crate::look::Back;
use crate::state::{ControlError, Status};
use pumice_buffer::SharedBuffer;
use pumice_offload::Completion;
use pumice_units::Role;
use pumice_volume::{ClaimId, Request, RequestError};
use std::ops::Range;
use std::sync::mpsc::{Sender, SyncSender};

/// Why a request of a user failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Failed {
    #[error(transparent)]
    Request(#[from] RequestError),
    /// The volume was held for too long.
    #[error("the volume is held: more members are missing than it survives")]
    Held,
    /// Writes that were answered, and that no flush covered, may be lost.
    #[error("a node was started again before its drives had flushed writes that were answered")]
    Unsure,
}

/// What a request's user gets: if it was a read, its bytes, in any order.
pub(crate) type Answer = Result<Vec<Piece>, Failed>;

/// What a volume's thread is told.
pub(crate) enum Message {
    /// An operation on a drive has ended.
    Ended(Completion),
    /// A user asks for something. `data` are those of a write.
    Request { request: Request, data: Option<SharedBuffer>, reply: SyncSender<Answer> },
    /// Somebody who is no user asks for a flush.
    Settle(SyncSender<Answer>),
    /// An attempt to reach the members of a held volume has ended.
    Back(Result<Option<Box<Back>>, String>),
    /// How does it stand?
    Status(SyncSender<Status>),
    /// A member is to be failed.
    Fail(Role, SyncSender<Result<(), ControlError>>),
    /// Which drive is a member in sync?
    Model(SyncSender<Option<MemberDrive>>),
    /// Which member is on this drive, or has the superblock with this device_uuid?
    MemberOn(Box<MemberDrive>, Option<[u8; 16]>, SyncSender<Option<Role>>),
    /// A new member is to take the role of one that is missing.
    Join(Box<Joining>, SyncSender<Result<Role, ControlError>>),
    /// Stripes are claimed.
    Claim { stripes: Range<u64>, alone: bool, reply: Sender<Granted> },
    /// A claim is given back.
    Unclaim(ClaimId),
    /// Which drives are members, in sync or not?
    Members(SyncSender<Vec<(Role, MemberDrive)>>),
    /// Everything is to be made clean, and the volume to end. The answer comes when it is.
    Stop(SyncSender<()>),
    /// The volume is to end as it is.
    Abandon(SyncSender<()>),
}

impl std::fmt::Debug for Message {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Message")
    }
}
