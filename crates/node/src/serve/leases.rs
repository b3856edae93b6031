//! Parts of the drives' local memory, each for one host.

use pumice_offload::wire::LEASE_UNIT;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Why there is no lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NoLease {
    /// There is no such drive, or its memory could never hold that.
    Senseless,
    /// Others have what is missing.
    Full,
}

/// Who has which part of each drive's memory. A part belongs to the controller that asked for it, until that ends and no command of it is left.
#[derive(Debug)]
pub(super) struct Leases {
    size: u64,
    drives: Vec<Vec<(Range<u64>, u16)>>,
    /// Commands under way, by controller.
    active: HashMap<u16, u32>,
}

impl Leases {
    /// Memory of `size` bytes for each of `drives` drives.
    pub(super) fn new(drives: usize, size: u64) -> Self {
        Self { size, drives: vec![Vec::new(); drives], active: HashMap::new() }
    }

    /// A command of a controller begins.
    fn enter(&mut self, cntlid: u16) {
        *self.active.entry(cntlid).or_default() += 1;
    }

    /// It has ended.
    fn leave(&mut self, cntlid: u16) {
        if let Some(count) = self.active.get_mut(&cntlid) {
            *count -= 1;
            if *count == 0 {
                self.active.remove(&cntlid);
            }
        }
    }

    /// The start of `len` bytes of a drive's memory (counted from 1) that are `cntlid`'s from now on; what it had there before is given back. `stands` says which
    /// controllers are still there.
    pub(super) fn lease(
        &mut self,
        drive: u32,
        len: u64,
        cntlid: u16,
        stands: impl Fn(u16) -> bool,
    ) -> Result<u64, NoLease> {
        let Self { size, drives, active } = self;
        let taken = (drive as usize).checked_sub(1).and_then(|index| drives.get_mut(index));
        let sense = len > 0 && len <= *size && len.is_multiple_of(LEASE_UNIT);
        let taken = taken.filter(|_| sense).ok_or(NoLease::Senseless)?;
        // The command that asks is one of its controller's, so that one stays among the active.
        taken.retain(|(_, owner)| *owner != cntlid && (stands(*owner) || active.contains_key(owner)));
        let mut start = 0;
        for (range, _) in taken.iter() {
            if range.start.checked_sub(start).is_some_and(|room| room >= len) {
                break;
            }
            start = range.end;
        }
        let end = start.checked_add(len).filter(|end| *end <= *size).ok_or(NoLease::Full)?;
        taken.push((start..end, cntlid));
        taken.sort_by_key(|(range, _)| range.start);
        Ok(start)
    }

    /// Whether a controller other than `cntlid`, that still stands or has commands under way, has leased any of `range`.
    pub(super) fn is_anothers(
        &self,
        drive: u32,
        range: &Range<u64>,
        cntlid: u16,
        stands: impl Fn(u16) -> bool,
    ) -> bool {
        let taken = (drive as usize).checked_sub(1).and_then(|index| self.drives.get(index));
        taken.into_iter().flatten().any(|(part, owner)| {
            *owner != cntlid
                && part.start < range.end
                && range.start < part.end
                && (stands(*owner) || self.active.contains_key(owner))
        })
    }
}

/// Leases that commands share.
pub(super) fn locked(leases: &Mutex<Leases>) -> MutexGuard<'_, Leases> {
    leases.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A command under way: over when it is dropped, however it ends.
pub(super) struct Active<'a> {
    leases: &'a Mutex<Leases>,
    cntlid: u16,
}

impl<'a> Active<'a> {
    /// A command of a controller begins.
    pub(super) fn begin(leases: &'a Mutex<Leases>, cntlid: u16) -> Self {
        locked(leases).enter(cntlid);
        Self { leases, cntlid }
    }
}

impl Drop for Active<'_> {
    fn drop(&mut self) {
        locked(self.leases).leave(self.cntlid);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIB: u64 = 1 << 10;

    #[test]
    fn hosts_have_parts_of_their_own_until_they_are_gone() {
        let mut leases = Leases::new(2, 64 * KIB);
        let all = |_| true;
        assert_eq!(leases.lease(1, 16 * KIB, 1, all), Ok(0));
        assert_eq!(leases.lease(1, 16 * KIB, 2, all), Ok(16 * KIB));
        assert_eq!(leases.lease(1, 32 * KIB, 3, all), Ok(32 * KIB));
        assert_eq!(leases.lease(1, 4 * KIB, 4, all), Err(NoLease::Full), "it is full");
        assert_eq!(leases.lease(2, 64 * KIB, 4, all), Ok(0), "another drive's memory is its own");
        // The second is gone: its part is free, and a smaller one fits into the gap.
        assert_eq!(leases.lease(1, 12 * KIB, 4, |cntlid| cntlid != 2), Ok(16 * KIB));
        // Who asks again gives back what it had.
        assert_eq!(leases.lease(1, 16 * KIB, 1, all), Ok(0));
    }

    #[test]
    fn a_part_is_not_given_away_while_a_command_of_its_owner_runs() {
        let mut leases = Leases::new(1, 8 * KIB);
        assert_eq!(leases.lease(1, 8 * KIB, 1, |_| true), Ok(0));
        leases.enter(1);
        assert_eq!(leases.lease(1, 4 * KIB, 2, |_| false), Err(NoLease::Full));
        leases.leave(1);
        assert_eq!(leases.lease(1, 4 * KIB, 2, |_| false), Ok(0));
    }

    #[test]
    fn senseless_requests_get_nothing() {
        let mut leases = Leases::new(1, 8 * KIB);
        for (drive, len) in
            [(0, 4 * KIB), (2, 4 * KIB), (1, 0), (1, 100), (1, 12 * KIB), (1, 0u64.wrapping_sub(4 * KIB))]
        {
            assert_eq!(leases.lease(drive, len, 1, |_| true), Err(NoLease::Senseless), "{drive} {len}");
        }
    }

    #[test]
    fn a_part_is_anothers_while_that_stands_or_has_commands() {
        let mut leases = Leases::new(1, 64 * KIB);
        assert_eq!(leases.lease(1, 16 * KIB, 1, |_| true), Ok(0));
        assert_eq!(leases.lease(1, 16 * KIB, 2, |_| true), Ok(16 * KIB));
        let mine = |leases: &Leases, range, stands| !leases.is_anothers(1, &range, 2, |_| stands);
        assert!(mine(&leases, 16 * KIB..32 * KIB, true) && mine(&leases, 32 * KIB..64 * KIB, true));
        assert!(!mine(&leases, 16 * KIB - 1..16 * KIB, true) && !mine(&leases, 0..64 * KIB, true));
        assert!(mine(&leases, 0..16 * KIB, false));
        leases.enter(1);
        assert!(!mine(&leases, 0..16 * KIB, false));
        assert!(!leases.is_anothers(7, &(0..1), 2, |_| true), "no such drive");
    }
}
