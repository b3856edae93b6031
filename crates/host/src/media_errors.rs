//! The limit of repeated reads of refused bytes, for each member: rule R4 of
//! `docs/design/repair.md`.

use pumice_base::units::Role;
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The limits of one member's refusals in one pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ErrorLimit {
    /// Total time of refused reads.
    pub time: Duration,
    /// Refused reads.
    pub refusals: u64,
}

impl Default for ErrorLimit {
    /// 30 minutes and 65,536 refusals.
    fn default() -> Self {
        Self { time: Duration::from_secs(30 * 60), refusals: 1 << 16 }
    }
}

/// The account of each member's refusals.
#[derive(Debug, Default)]
pub(crate) struct ErrorAccount {
    limit: ErrorLimit,
    spent: Mutex<BTreeMap<Role, (Duration, u64)>>,
    read_again: Mutex<BTreeMap<Role, u64>>,
}

impl ErrorAccount {
    pub(crate) fn new(limit: ErrorLimit) -> Self {
        Self { limit, ..Self::default() }
    }

    fn spent(&self) -> MutexGuard<'_, BTreeMap<Role, (Duration, u64)>> {
        self.spent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns whether a member must not be asked again.
    pub(crate) fn is_spent(&self, role: Role) -> bool {
        let (time, count) = self.spent().get(&role).copied().unwrap_or_default();
        time >= self.limit.time || count >= self.limit.refusals
    }

    /// Enters a stripe in which a member refused bytes at first, and returned all of them later.
    pub(crate) fn read_again(&self, role: Role) {
        let mut stripes = self.read_again.lock().unwrap_or_else(PoisonError::into_inner);
        *stripes.entry(role).or_default() += 1;
    }

    /// Such stripes, by member.
    pub(crate) fn stripes_read_again(&self) -> BTreeMap<Role, u64> {
        self.read_again.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Enters a refused read.
    pub(crate) fn refused(&self, role: Role, took: Duration) {
        let mut spent = self.spent();
        let (time, count) = spent.entry(role).or_default();
        *time += took;
        *count += 1;
    }
}
