//! Reasons why an array is not opened.

use crate::log::MIN_RECORDS;
use pumice_base::units::Role;
use pumice_raid::superblock::features::Features;

/// Event counts that a writer may use up until the array is assembled again.
pub(crate) const EVENTS_LEFT: u64 = 1 << 32;

/// Reasons why an array cannot be written as it is. Nothing was changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// No device at all.
    #[error("no member")]
    None,
    /// Something that this version does not write.
    #[error("feature_map of device {number} is {map}: an array with {strange} cannot be written")]
    Feature {
        /// The device's number, as `mdadm --detail` counts.
        number: u32,
        /// The feature map of its superblock.
        map: Features,
        /// The bits of it that a writer would have to know.
        strange: Features,
    },
    /// Members do not fit the layout.
    #[error("raid_disks is {found}; the layout has {layout}")]
    RaidDisks {
        /// In the superblock.
        found: u32,
        /// The layout's.
        layout: u16,
    },
    /// Two arrays.
    #[error("set_uuid differs: the members are of two arrays")]
    TwoArrays,
    /// Too few members in sync.
    #[error("{missing} members are missing; the array survives {survives}")]
    TooFew {
        /// Failed, unreachable or without a readable log.
        missing: u16,
        /// The number of members that may be missing, whichever they are.
        survives: u16,
    },
    /// It crashed while a member was missing, and nothing says what was under way.
    #[error(
        "the array is dirty and degraded, and there is no stripe log for it: blocks of the missing members in dirty regions are unknown (`mdadm --assemble --force` takes it all the same)"
    )]
    DirtyDegraded,
    /// The stripe log was asked for and there is no room.
    #[error("member {0} has no room for the stripe log of at least {MIN_RECORDS} bytes")]
    NoLog(Role),
    /// Blocks that become unreadable could not be recorded.
    #[error("member {0} has no bad-block log in units of sectors")]
    NoBadBlockLog(Role),
    /// Another machine has it open, or had when it crashed.
    #[error(
        "the head of the stripe log of member {role} names another writer, {writer:032x}: if that machine does not run the array any more, `pumice volume release` it"
    )]
    Held {
        /// The member.
        role: Role,
        /// The writer that has it.
        writer: u128,
    },
    /// Members of one part of the array, and of another that was run without it.
    #[error(
        "by the superblock of device {number}, device {other} is no member: they were run apart from each other; leave one of them out"
    )]
    Apart {
        /// The device's number, as `mdadm --detail` counts.
        number: u32,
        /// That of one that is a member by the newest superblock.
        other: u32,
    },
    /// The stripe log is not to be used, and is needed.
    #[error(
        "the stripe log, seen on member {role}, may hold writes that are not in place: open the array with it once (`pumice volume assemble`)"
    )]
    LogWaits {
        /// The first member with a head of it.
        role: Role,
    },
    /// More members than a record of the stripe log can list.
    #[error("{0} members are more than the stripe log can list")]
    TooMany(u16),
    /// Its superblocks could not be updated any more.
    #[error("events is {0}: a writer needs {EVENTS_LEFT} counts above it")]
    Events(u64),
}

impl Refusal {
    /// The member that it is about, if it is about one.
    #[must_use]
    pub const fn role(&self) -> Option<Role> {
        match self {
            Self::NoLog(role)
            | Self::NoBadBlockLog(role)
            | Self::Held { role, .. }
            | Self::LogWaits { role } => Some(*role),
            _ => None,
        }
    }
}
