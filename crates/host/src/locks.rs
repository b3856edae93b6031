//! Locks on the stripes of an array that somebody writes while it is scrubbed: the writer has them.

use crate::error::HostError;
use crate::stop::Stop;
use pumice_base::units::Role;
use std::collections::BTreeSet;
use std::ops::Range;

/// Purpose of a lock on stripes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// Their members are read: nobody else writes there.
    Check,
    /// Their members are written: nobody else reads or writes there, and everything that was
    /// written there before is durable and in place, also after a crash of the writer.
    Repair,
}

/// Locks on stripes. Implemented by clients of the writer of the array.
pub trait StripeLocks: Send + Sync {
    /// Locks stripes, and waits for that until `stop` is raised.
    ///
    /// # Errors
    /// [`HostError::Interrupted`] if `stop` was raised, [`HostError::Locks`] if the writer has
    /// ended.
    fn lock(&self, stripes: Range<u64>, purpose: Purpose, stop: &Stop) -> Result<StripeLock, HostError>;
}

/// Stripes that are locked until this is dropped.
pub struct StripeLock {
    members: BTreeSet<Role>,
    // Held for its drop alone.
    _held: Box<dyn Send>,
}

impl StripeLock {
    /// A lock that dropping `held` ends. `members` have everything that was written to the stripes.
    #[must_use]
    pub fn new(members: BTreeSet<Role>, held: Box<dyn Send>) -> Self {
        Self { members, _held: held }
    }

    /// Returns whether a member has everything that was written to the stripes.
    pub(crate) fn has(&self, role: Role) -> bool {
        self.members.contains(&role)
    }
}
