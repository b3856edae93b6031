//! The facts of a volume, its status, and its refusals.

use pumice_base::units::Role;
use pumice_raid::geometry::Geometry;
use pumice_raid::{Known, Metadata, Uuid};
use pumice_volume::Report;
use pumice_volume::choice::{Preference, Standing};
use pumice_volume::rows::RowLayout;
use std::collections::BTreeSet;

/// The means that keeps rows whole over a crash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Consistency {
    /// The stripe log.
    Log,
    /// md's bitmap alone: a crash of a degraded array loses blocks.
    Bitmap,
}

/// The place where parity is made, if the nodes of the drives can make it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Offload {
    /// The place where it is faster, by measurement.
    Auto,
    /// By the nodes, if that moves fewer bytes over this host's links.
    #[default]
    On,
    /// By this host.
    Off,
}

impl Offload {
    /// The preference for operations that can be near.
    pub(crate) const fn preference(self) -> Preference {
        match self {
            Self::Auto => Preference::Faster,
            Self::On => Preference::Near,
            Self::Off => Preference::Far,
        }
    }
}

/// The facts of a volume that do not change while it is open, but for its members.
#[derive(Debug, Clone)]
pub struct Facts {
    /// The array.
    pub uuid: Uuid,
    /// Its name.
    pub name: String,
    /// md's format.
    pub metadata: Metadata,
    /// The layout of its chunks.
    pub geometry: Geometry,
    /// Its bytes.
    pub bytes: u64,
    /// Bytes of a logical block: the largest of its members'.
    pub block: u32,
    /// Members.
    pub members: u16,
    /// The number of them that may be missing, whichever they are.
    pub survives: u16,
    /// The means that keeps rows whole over a crash.
    pub consistency: Consistency,
    /// The findings when it was opened.
    pub report: Report,
}

impl Facts {
    /// The known facts of the superblocks of its devices.
    #[must_use]
    pub const fn known(&self) -> Known {
        Known { array: Some(self.uuid), metadata: Some(self.metadata) }
    }

    /// Returns whether the blocks of `missing` members follow from the others.
    #[must_use]
    pub fn corrects(&self, missing: &BTreeSet<Role>) -> bool {
        self.geometry.corrects(missing)
    }
}

/// The status of a volume.
#[derive(Debug, Clone)]
pub struct Status {
    /// The facts that do not change.
    pub facts: Facts,
    /// Its devices by role; `None` where none is.
    pub devices: Vec<(Role, Option<String>)>,
    /// Members that are missing or being rebuilt.
    pub missing: Vec<Role>,
    /// Members that have failed or do not answer, though no superblock says so yet: while the
    /// volume is held none will. Of those that are missing or being rebuilt, some may be among
    /// them.
    pub lost: Vec<Role>,
    /// Those of the missing that are being rebuilt, and that the superblocks on all members name:
    /// windows that are restored, of how many.
    pub rebuilding: Vec<(Role, u64, u64)>,
    /// True if the superblocks say that nothing is being written.
    pub clean: bool,
    /// True if it waits for members.
    pub held: bool,
    /// True if a member has failed, and the superblocks of the others do not say so yet.
    pub recording: bool,
    /// Bytes that users read.
    pub user_read: u64,
    /// Bytes that users wrote.
    pub user_written: u64,
    /// Bytes that this host read from members, or from their nodes' memory.
    pub member_read: u64,
    /// Bytes that this host wrote to members: data, parity, log, superblocks. Parity that a node
    /// made, and what it logged and stored, is not among them.
    pub member_written: u64,
    /// Bytes of interims that nodes sent to each other.
    pub between_nodes: u64,
    /// Bytes that this host's buffers were read or written for users and members: copies, folds,
    /// and payload that came or went. Those of users are among them.
    pub host_memory: u64,
    /// The nodes make parity; else the reason why they do not.
    pub near: Result<(), String>,
    /// The place where classes of work go, if that is measured ([`Offload::Auto`]).
    pub ways: Option<[Standing; 3]>,
    /// Writes of windows whose parity the nodes made.
    pub near_writes: u64,
    /// Writes of windows whose parity this host made.
    pub far_writes: u64,
    /// Blocks that the medium of a member did not give, and that were recovered and written again.
    pub rewritten: u64,
    /// Bytes that were sent to nodes of other machines, with headers.
    pub link_sent: u64,
    /// Bytes that came from them.
    pub link_received: u64,
    /// Requests under way.
    pub requests: usize,
    /// The last errors of members.
    pub errors: Vec<String>,
}

/// Reasons why something cannot be done with a volume.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ControlError {
    /// It has stopped.
    #[error("the volume has stopped")]
    Stopped,
    /// Its thread does not answer in time.
    #[error("the volume does not answer: it waits for a drive or a node; try again")]
    Unanswered,
    /// It has no such stripes.
    #[error("the volume has no such stripes")]
    NoStripes,
    /// It has no such role.
    #[error("role {0}: the volume has no such member")]
    NoRole(Role),
    /// The member is missing already.
    #[error("role {0}: it is missing or being rebuilt already")]
    Missing(Role),
    /// More members are missing than the volume survives.
    #[error("the volume is held: more members are missing than it survives")]
    Held,
    /// The superblocks do not say in time that a member has failed.
    #[error("the failure is not on the other members yet")]
    NotRecorded,
    /// The volume would not survive it.
    #[error("the volume does not survive the loss of another member")]
    TooFew,
    /// A member is to be replaced while others are missing.
    #[error("other members are missing: add devices for them first")]
    OthersMissing,
    /// No member is missing.
    #[error("no member is missing")]
    Full,
    /// A device that comes back had a role that is not empty.
    #[error("role {0}, which the device had, is not empty")]
    Taken(Role),
    /// A device is a member in sync, or being rebuilt: it would be overwritten.
    #[error("{device}: it is the member of this volume with role {role}")]
    IsMember {
        /// The device.
        device: String,
        /// The role that it has.
        role: Role,
    },
    /// A device cannot be a member.
    #[error("{device}: {why}")]
    Device {
        /// The device.
        device: String,
        /// The reason.
        why: String,
    },
}
