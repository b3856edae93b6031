//! The reasons why a set of devices cannot be assembled.

use pumice_base::units::{Role, Sectors};

use crate::foreign::Strangers;
use crate::layout::Level;
use crate::superblock::Position;
use crate::uuid::Uuid;

/// The reasons why a set of devices makes no array that can be checked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AssemblyError {
    /// No device was given.
    #[error("no member was given")]
    Empty,
    /// A device of another array.
    #[error("{device} belongs to another array: its uuid is {found}, while that of {other} is {expected}")]
    Foreign {
        /// The device.
        device: String,
        /// The array that it belongs to.
        found: Uuid,
        /// A device of the array.
        other: String,
        /// The array.
        expected: Uuid,
    },
    /// Members that describe the array differently.
    #[error("in {device}, {field} is {found}; in {other}, it is {expected}")]
    Disagree {
        /// The device.
        device: String,
        /// The field in which it differs.
        field: &'static str,
        /// Its value.
        found: String,
        /// The device with the newest superblock.
        other: String,
        /// The value there.
        expected: String,
    },
    /// The same device twice, or a copy.
    #[error(
        "{first} and {second} have the same device uuid, {uuid}: they are the same device, or one is a copy of the other"
    )]
    DuplicateDevice {
        /// The one.
        first: String,
        /// The other.
        second: String,
        /// The UUID of both.
        uuid: Uuid,
    },
    /// Members that hold something else than the array.
    #[error("{0}")]
    Strangers(Box<Strangers>),
    /// Two devices in one role.
    #[error("{first} and {second} both have role {role}")]
    DuplicateRole {
        /// The one.
        first: String,
        /// The other.
        second: String,
        /// Their role.
        role: Role,
    },
    /// A member that missed changes of the array.
    #[error(
        "{device} is out of date: events is {events}, {other} has {newest}; {}",
        without(*.level, *.spare)
    )]
    OutOfDate {
        /// The device.
        device: String,
        /// Its event count.
        events: u64,
        /// The device with the newest superblock.
        other: String,
        /// The event count of that.
        newest: u64,
        /// The level.
        level: Level,
        /// True if the others can be checked without it.
        spare: bool,
    },
    /// A device that is a member by its own superblock, although the array has continued without
    /// it.
    #[error("{device} is {own} by its own superblock, but {newer} by the newer superblock of {other}")]
    Dropped {
        /// The device.
        device: String,
        /// Its state by its own superblock.
        own: Position,
        /// The device with the newest superblock.
        other: String,
        /// Its state by that superblock.
        newer: Position,
    },
    /// A reshape is under way.
    #[error("{device} is being reshaped (reshape_position is {position}): let md finish it first")]
    Reshaping {
        /// A device whose superblock says so.
        device: String,
        /// Progress, in sectors of the array.
        position: u64,
    },
    /// Parity is being built.
    #[error(
        "a resync is at resync_offset {at} of {size} sectors, according to {device}: let md finish it first"
    )]
    Resyncing {
        /// The device with the newest superblock.
        device: String,
        /// Progress.
        at: Sectors,
        /// Size of the whole task.
        size: Sectors,
    },
    /// So many members are missing that no parity is left to check.
    #[error("{} missing: {level} can be checked only with {}", roles(.missing), needed(*.level))]
    Incomplete {
        /// The roles without a member.
        missing: Vec<Role>,
        /// The level.
        level: Level,
    },
    /// Numbers that no geometry can have.
    #[error("{device}: {why}")]
    Geometry {
        /// The device with the newest superblock.
        device: String,
        /// The reason.
        why: String,
    },
}

impl AssemblyError {
    /// Returns whether the cause may be that md is writing superblocks, one member after another:
    /// then the error disappears when they are read again.
    #[must_use]
    pub const fn may_pass(&self) -> bool {
        matches!(
            self,
            Self::OutOfDate { .. }
                | Self::Dropped { .. }
                | Self::Disagree { .. }
                | Self::DuplicateRole { .. }
        )
    }
}

fn roles(missing: &[Role]) -> String {
    let numbers: Vec<_> = missing.iter().map(ToString::to_string).collect();
    match missing.len() {
        1 => format!("role {} is", numbers[0]),
        _ => format!("roles {} are", numbers.join(", ")),
    }
}

fn needed(level: Level) -> &'static str {
    match level {
        Level::Raid4 | Level::Raid5 => "all members",
        Level::Raid6 => "all members but one",
        Level::Raid1 | Level::Raid10 => "two copies of a chunk",
    }
}

/// Advice about a member that is out of date.
fn without(level: Level, spare: bool) -> String {
    match spare {
        true => "let md rebuild it, or leave it out: the others can be checked without it".to_owned(),
        false => format!("{level} cannot be checked without it: let md rebuild it first"),
    }
}

/// A note about an array that can be checked, for readers of the results.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Note {
    /// The array was not stopped cleanly, or is running, and nothing shows where writes were under
    /// way.
    #[error(
        "the array is not clean (resync_offset is 0) and has neither bitmap nor partial parity log: any stripe may be half written"
    )]
    Unclean,
    /// The array has a journal and its device is not among those given.
    #[error(
        "the journal device is missing: any stripe may have writes waiting in it; name it with the members"
    )]
    JournalMissing,
    /// The journal holds writes.
    #[error(
        "{device}: writes wait in the journal (stripes: {stripes}); md removes them when other writes follow"
    )]
    JournalPending {
        /// The journal.
        device: String,
        /// Number of stripes.
        stripes: u64,
    },
    /// The journal cannot be judged.
    #[error("{device}: {why}: any stripe may have writes waiting in the journal")]
    JournalUnknown {
        /// The journal.
        device: String,
        /// The rule that is broken.
        why: &'static str,
    },
    /// A partial parity log cannot be read.
    #[error("{device}: {why}: any stripe may be half written")]
    PplUnreadable {
        /// The member.
        device: String,
        /// The problem.
        why: String,
    },
    /// A bitmap missed changes.
    #[error("{device}: the bitmap is stale: all its regions count as dirty")]
    BitmapStale {
        /// The member.
        device: String,
    },
    /// A bad-block log in use that names no block.
    #[error(
        "{device}: its bad-block log is in use and holds zeros, as mdadm before 4.5 wrote them; it names no block. Linux 6.12 and later refuse such a device: remove the log with mdadm --assemble --update=force-no-bbl, or clear a spare with mdadm --zero-superblock and add it with mdadm 4.5 or later"
    )]
    BadBlockLogOfZeros {
        /// The device.
        device: String,
    },
    /// The bad-block log of a device without a role cannot be made out.
    #[error("{device} is left out: {why}; it is no member, so that this concerns nothing that is checked")]
    BadBlockLogUnread {
        /// The spare or faulty device.
        device: String,
        /// The problem.
        why: String,
    },
    /// A device that was removed; another one now has its number in the array.
    #[error("{device} is left out: its superblock is old, and {other} now has its place in the array")]
    Superseded {
        /// The device.
        device: String,
        /// The one that has its number.
        other: String,
    },
    /// A device that failed or was removed and still carries an old superblock.
    #[error("{device} is left out: by the newer superblock of {other} it is {newer}")]
    LeftOut {
        /// The device.
        device: String,
        /// The device with the newest superblock.
        other: String,
        /// Its state by that superblock.
        newer: Position,
    },
    /// Roles that have no member by md's own superblocks.
    #[error("{} missing", roles(.missing))]
    Degraded {
        /// The roles.
        missing: Vec<Role>,
    },
    /// Roles that have an active member by md's superblocks, but no device of the set.
    #[error("{} not among the named devices, although part of the array", roles(.not_named))]
    NotNamed {
        /// The roles.
        not_named: Vec<Role>,
    },
    /// A member that is being rebuilt.
    #[error("{device} is being rebuilt: recovery_offset is {valid} of {size} sectors")]
    Recovering {
        /// The member.
        device: String,
        /// Up to where it is good.
        valid: Sectors,
        /// The size present.
        size: Sectors,
    },
}
