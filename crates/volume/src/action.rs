//! Events that go into a volume, and effects that come out.

use crate::choice::Standing;
use crate::log::Record;
use crate::member::MemberPlace;
use crate::near::{NearStep, NodeNumber, StretchStep};
use crate::plan::RowPlan;
use crate::rows::{Rows, Touch};
use crate::sequencer::OpId;
use pumice_base::units::Role;
use pumice_raid::superblock::v1::V1;
use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

/// Names a request; the caller's choice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub u64);

/// Names a claim; the caller's choice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClaimId(pub u64);

/// Names an action.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ActionId(pub u64);

impl ActionId {
    /// Bits of it that are its place.
    pub(crate) const PLACE_BITS: u32 = 24;

    /// A small number that no other action has that is under way in the same volume: for whoever
    /// keeps something of each action.
    #[must_use]
    pub const fn place(self) -> usize {
        (self.0 & ((1 << Self::PLACE_BITS) - 1)) as usize
    }
}

/// A request of a user of the volume. Offsets and lengths in bytes; a write's are multiples of 512.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Request {
    /// Bytes of the volume.
    Read {
        /// First byte.
        offset: u64,
        /// Length in bytes.
        len: u64,
    },
    /// Bytes of the volume replaced.
    Write {
        /// First byte.
        offset: u64,
        /// Length in bytes.
        len: u64,
        /// Answered only when it is durable.
        fua: bool,
    },
    /// Everything that was answered before, made durable.
    Flush,
}

/// Reasons why a request fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// It does not lie within the volume, or is not aligned.
    #[error("outside the volume, or not a multiple of 512 bytes")]
    Range,
    /// Too many blocks of a row are missing or bad.
    #[error("blocks are lost: too many of their rows are missing or bad")]
    Lost,
    /// Another writer holds the array.
    #[error("another writer holds the array")]
    Fenced,
    /// The volume has stopped.
    #[error("the volume has stopped")]
    Stopped,
}

/// The end of an action.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Done.
    Done,
    /// The member failed, or cannot be reached.
    Failed,
    /// These rows of a read could not be read; the member itself is well.
    Unreadable(Rows),
    /// An update was not done to its end, and the member itself may be well: its operation goes the
    /// far way.
    Refused,
    /// The member refused the writer's token.
    Fenced,
}

/// Something that happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// A user asks for something.
    Request(RequestId, Request),
    /// An action ended.
    Done(ActionId, Outcome),
    /// A member that could not be reached is back and lost nothing: the same epoch of its node.
    Returned(Role),
    /// A new device is to take a role of [`Volume::empty_roles`](crate::Volume::empty_roles), with
    /// [`Volume::numbers_left`](crate::Volume::numbers_left).
    Join {
        /// The role.
        role: Role,
        /// Its superblock: device UUID, places. All else is filled in, its number too.
        superblock: Box<V1>,
        /// Places of superblock, bitmap, logs and data on it.
        place: MemberPlace,
        /// Random.
        nonce: u64,
        /// The highest serial of a head that lies on it.
        serial: u64,
        /// Its node, if that makes parity for the volume and takes interims of the others.
        node: Option<NodeNumber>,
        /// For a device of [`Volume::former_role`](crate::Volume::former_role): the superblock is
        /// the one that lies on it, and these blocks of its data area are in its bad-block log.
        /// `None` for a device of which nothing counts.
        kept: Option<BTreeSet<u64>>,
    },
    /// Somebody is to look at stripes directly on the members. No operation writes there from
    /// [`Effect::Claimed`] until the claim is given back.
    Claim {
        /// Its name.
        id: ClaimId,
        /// The stripes.
        stripes: Range<u64>,
        /// Reads wait as well: the members will be written.
        alone: bool,
    },
    /// A claim is given back, or is waited for no longer.
    Unclaim(ClaimId),
    /// So many more windows of members may be restored, if
    /// [`Volume::pace_rebuilds`](crate::Volume::pace_rebuilds) was called.
    Restore(u64),
    /// A period of the bitmap's daemon has passed. Seconds since 1970.
    Tick(u64),
    /// No more requests come: make everything clean.
    Stop,
}

/// Something to be done on a member.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    /// Read old blocks of an operation.
    Read {
        /// The operation that keeps them.
        op: OpId,
        /// The member.
        role: Role,
        /// The start of the window, from the start of the device.
        at: u64,
        /// The rows of the window.
        rows: Rows,
    },
    /// Make the new blocks of an operation.
    Fold {
        /// The operation.
        op: OpId,
        /// The plan of each row.
        plans: Vec<(u32, Arc<RowPlan>)>,
        /// The bytes of the request that are laid over them.
        touches: Vec<Touch>,
        /// The request.
        request: Option<RequestId>,
    },
    /// Write a record of the stripe log, durably.
    Log {
        /// The operation whose new blocks it holds.
        op: OpId,
        /// The member.
        role: Role,
        /// The place, from the start of the device.
        at: u64,
        /// The same from the start of the records.
        position: u64,
        /// The generation's nonce.
        nonce: u64,
        /// The fields of the record.
        record: Record,
    },
    /// Write new blocks of an operation in place. Durable after a flush.
    Write {
        /// The operation.
        op: OpId,
        /// The member.
        role: Role,
        /// The start of the window, from the start of the device.
        at: u64,
        /// The rows of it.
        rows: Rows,
    },
    /// A step of the near way, by the member's node.
    Update {
        /// The operation.
        op: OpId,
        /// The member.
        role: Role,
        /// The request whose bytes are new, if any are.
        request: Option<RequestId>,
        /// The step.
        step: Box<NearStep>,
    },
    /// Bring blocks that a node has made from the member's place in local memory to this host. An
    /// error is [`Outcome::Refused`].
    Fetch {
        /// The operation that keeps them.
        op: OpId,
        /// The member.
        role: Role,
        /// The member whose blocks they are.
        of: Role,
        /// The number of the place.
        place: u32,
        /// The rows of the window: one run.
        rows: Rows,
    },
    /// Write new blocks from the member's place in local memory. Durable after a flush.
    Store {
        /// The operation.
        op: OpId,
        /// The member.
        role: Role,
        /// The number of the place.
        place: u32,
        /// The start of the window, from the start of the device.
        at: u64,
        /// The rows of it: one run.
        rows: Rows,
    },
    /// A sum of a stretch, by the member's node. Of the member that is restored: to its place for
    /// stretches; of another one: to the same place of that member, as an interim.
    Gather {
        /// The operation.
        op: OpId,
        /// The member.
        role: Role,
        /// The step.
        step: Box<StretchStep>,
    },
    /// Write a stretch from the member's place for stretches. Durable after a flush.
    StoreStretch {
        /// The operation.
        op: OpId,
        /// The member.
        role: Role,
        /// The number of the place.
        place: u32,
        /// The start of the stretch, from the start of the device.
        at: u64,
        /// Its bytes.
        bytes: u64,
    },
    /// Copy a block from the log into place. Durable after a flush.
    Copy {
        /// The member.
        role: Role,
        /// From, from the start of the device.
        from: u64,
        /// To, from the start of the device.
        to: u64,
    },
    /// Make everything that was written before durable.
    Flush {
        /// The member.
        role: Role,
    },
    /// Write these bytes durably.
    Put {
        /// The member.
        role: Role,
        /// The place, from the start of the device.
        at: u64,
        /// The bytes.
        bytes: Vec<u8>,
    },
}

impl Command {
    /// The member that it is for; `None` for what needs none.
    #[must_use]
    pub const fn role(&self) -> Option<Role> {
        match self {
            Self::Read { role, .. }
            | Self::Log { role, .. }
            | Self::Write { role, .. }
            | Self::Update { role, .. }
            | Self::Fetch { role, .. }
            | Self::Store { role, .. }
            | Self::Gather { role, .. }
            | Self::StoreStretch { role, .. }
            | Self::Copy { role, .. }
            | Self::Flush { role }
            | Self::Put { role, .. } => Some(*role),
            Self::Fold { .. } => None,
        }
    }

    /// Returns whether it changes the member.
    #[must_use]
    pub const fn writes(&self) -> bool {
        match self {
            Self::Log { .. }
            | Self::Write { .. }
            | Self::Store { .. }
            | Self::StoreStretch { .. }
            | Self::Copy { .. }
            | Self::Put { .. } => true,
            Self::Update { step, .. } => step.record.is_some(),
            Self::Read { .. }
            | Self::Fold { .. }
            | Self::Fetch { .. }
            | Self::Gather { .. }
            | Self::Flush { .. } => false,
        }
    }
}

/// A command under its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Action {
    /// Its name.
    pub id: ActionId,
    /// The command to carry out.
    pub command: Command,
}

/// A volume's wish to its executor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// Do this, and tell when it is done. Actions that are issued together may be done in any
    /// order.
    Issue(Action),
    /// For a read: an operation's new blocks are the answer's bytes, laid out by its touches.
    Deliver {
        /// The operation.
        op: OpId,
        /// The request.
        request: RequestId,
        /// The place where the bytes belong.
        touches: Vec<Touch>,
    },
    /// A request has its answer.
    Answer(RequestId, Result<(), RequestError>),
    /// A claim is granted, with the members that have all of its stripes: there the rows are whole,
    /// and nothing changes. Or it never is.
    Claimed(ClaimId, Result<Vec<Role>, RequestError>),
    /// The operation's blocks are not needed any more.
    Forget(OpId),
    /// Operations of a class go another way from now on.
    Chosen(Standing),
    /// More members are missing than the code corrects: everything waits. `false`: it goes on.
    Held(bool),
    /// A member failed during recovery: look at the members again and assemble anew.
    AssembleAgain,
    /// Recovery is done; requests are carried out.
    Ready,
    /// Everything is clean after [`Event::Stop`].
    Stopped,
}
