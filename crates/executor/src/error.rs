//! Reasons why a volume cannot be opened.

use pumice_base::units::Role;
use pumice_offload::NodeError;
use pumice_raid::ProbeError;
use pumice_raid::foreign::Strangers;
use pumice_raid::geometry::GeometryError;
use pumice_volume::Refusal;
use pumice_volume::log::NoRoom;
use std::collections::BTreeSet;

/// Roles as an option names them.
fn roles(of: &BTreeSet<Role>) -> String {
    of.iter().map(|role| role.get().to_string()).collect::<Vec<_>>().join(",")
}

/// The members that are named as missing and are not, or are missing and not named.
fn not_missing(named: &BTreeSet<Role>, missing: &BTreeSet<Role>) -> String {
    let here: BTreeSet<Role> = named.difference(missing).copied().collect();
    let others: BTreeSet<Role> = missing.difference(named).copied().collect();
    match (here.is_empty(), others.is_empty()) {
        (false, true) => format!("not missing: {}", roles(&here)),
        (true, false) => format!("also missing: {}", roles(&others)),
        _ => format!("not missing: {}; also missing: {}", roles(&here), roles(&others)),
    }
}

/// Reasons why a volume cannot be opened. Nothing was written, unless a device failed during
/// recovery.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// No device was named.
    #[error("no device")]
    NoDevice,
    /// A device does not answer.
    #[error("{device}: {source}")]
    Device {
        /// The device.
        device: String,
        /// The reason.
        source: NodeError,
    },
    /// md's structures on a device cannot be read.
    #[error("{device}: {source}")]
    Probe {
        /// The device.
        device: String,
        /// The reason.
        source: ProbeError,
    },
    /// A device carries no superblock.
    #[error("{device}: no md superblock{holds}")]
    NoSuperblock {
        /// The device.
        device: String,
        /// The words for what it holds instead.
        holds: String,
    },
    /// A field of a device's structures is such that it cannot be written.
    #[error("{device}: {field} is {found}: {why}")]
    Field {
        /// The device.
        device: String,
        /// The field.
        field: &'static str,
        /// The value.
        found: String,
        /// The reason why it is refused.
        why: &'static str,
    },
    /// Devices of two arrays.
    #[error("{first} and {second} are of two arrays: set_uuid is {first_uuid} and {second_uuid}")]
    TwoArrays {
        /// A device.
        first: String,
        /// Its array.
        first_uuid: String,
        /// Another device.
        second: String,
        /// Its array.
        second_uuid: String,
    },
    /// Two members describe the array differently.
    #[error("in {device}, {field} is {found}; in {other}, it is {expected}")]
    Disagree {
        /// The member.
        device: String,
        /// The field in which it differs.
        field: &'static str,
        /// Its value.
        found: String,
        /// The member with the newest superblock.
        other: String,
        /// The value there.
        expected: String,
    },
    /// Two devices claim one role.
    #[error("{first} and {second} both claim role {role} of the array")]
    SameRole {
        /// A device.
        first: String,
        /// Another.
        second: String,
        /// The role.
        role: Role,
    },
    /// Members that the superblocks call active were not named, or their stripe log cannot be read.
    #[error(
        "{}: the superblocks call them active, and no device has them, or their stripe log cannot be read; to go on without, say --degraded",
        roles_of(.0)
    )]
    Missing(Vec<Role>),
    /// Members are older than the others: copies that were taken while the array was in service.
    #[error(
        "{}: older than the other members, whose superblocks or stripe logs say what it lacks; to go on without, say --degraded, and give it back with `pumice volume add --force`",
        roles_of(.0)
    )]
    Older(Vec<Role>),
    /// Members hold something else than the array.
    #[error("{0}")]
    Strangers(Box<Strangers>),
    /// Another host may have the other members.
    #[error(
        "{here} of {members} members are here: over nodes more than half are needed, or another host could have the others; if no other host has run the others since, say so: --without {}",
        roles(missing)
    )]
    Minority {
        /// Members that were named.
        here: u16,
        /// Members of the array.
        members: u16,
        /// Members that are not here.
        missing: BTreeSet<Role>,
    },
    /// The members that are missing are not those that the operator knows of.
    #[error("--without {}: {}", roles(named), not_missing(named, missing))]
    NotWithout {
        /// The members that the operator names.
        named: BTreeSet<Role>,
        /// The members that are missing.
        missing: BTreeSet<Role>,
    },
    /// There is no room for the stripe log.
    #[error("{device}: {source}; --consistency bitmap does without it")]
    NoRoom {
        /// The device.
        device: String,
        /// The room that is missing.
        source: NoRoom,
    },
    /// The geometry cannot be.
    #[error(transparent)]
    Geometry(#[from] GeometryError),
    /// The array cannot be written because of a member.
    #[error("{device}: {source}")]
    Member {
        /// The member's device.
        device: String,
        /// The reason.
        source: Refusal,
    },
    /// The array cannot be written as it is.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// Something else wrote the superblocks while the volume was held.
    #[error("events was {was} when the volume was held, and is {events}: something else ran the array")]
    Changed {
        /// The event count then.
        was: u64,
        /// The event count now.
        events: u64,
    },
    /// A thread or a queue could not be made.
    #[error("cannot begin: {0}")]
    System(String),
    /// Devices failed again and again while the volume was recovered.
    #[error("members fail while the volume is recovered: {0}")]
    Recovery(String),
}

impl OpenError {
    /// The writer that has the array open, if that is the reason.
    #[must_use]
    pub const fn held_by(&self) -> Option<u128> {
        match self {
            Self::Member { source: Refusal::Held { writer, .. }, .. }
            | Self::Refused(Refusal::Held { writer, .. }) => Some(*writer),
            _ => None,
        }
    }
}

fn roles_of(roles: &[Role]) -> String {
    let list: Vec<String> = roles.iter().map(ToString::to_string).collect();
    let noun = if list.len() == 1 { "role" } else { "roles" };
    format!("{noun} {}", list.join(", "))
}
