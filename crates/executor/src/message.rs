//! What a volume's thread is told, and what it answers.

use crate::claim::Granted;
use crate::drive::MemberDrive;
use crate::joining::Joining;
use crate::look::Back;
use crate::reply::Reply;
use crate::state::{ControlError, Status};
use pumice_buffer::SharedBuffer;
use pumice_units::Role;
use pumice_volume::{ClaimId, Request};
use std::ops::Range;
use std::sync::mpsc::{Sender, SyncSender};

/// What a volume's thread is told.
pub(crate) enum Message {
    /// Operations on drives have ended: they are taken from where they were put.
    Ended,
    /// A user asks for something. `data` are those of a write.
    Request { request: Request, data: Option<SharedBuffer>, reply: Reply },
    /// Somebody who is no user asks for a flush.
    Settle(Reply),
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
