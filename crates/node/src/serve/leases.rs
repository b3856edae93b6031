//! Leases: parts of the drives' local memory, each for one host.
//!
//! Invariants:
//!
//! * L1: a controller cannot access memory that it has not leased.
//! * L2: a part is cleared before it may be accessed, while other commands continue.
//! * L3: a lease is checked at the moment of each access, with the table locked.
//! * L4: a part that its controller has given back, or whose controller has ended, is not leased
//!   again while an earlier command of that controller is under way.
//! * L5: another node writes under a grant of the part's owner. A grant is for one range, until the
//!   owner revokes it, leases again, or ends.

use crate::memory::{LocalMemory, MemoryAccess};
use pumice_offload::wire::LEASE_UNIT;
use pumice_offload::{ErrorKind, Grant, MemoryAddress, NodeError};
use std::collections::{BTreeSet, HashMap};
use std::ops::Range;
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// Grants of a controller at a time, at most.
pub(super) const GRANTS: usize = 64;

/// Reasons to refuse a lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NoLease {
    /// There is no such drive, or its memory could never hold that.
    Senseless,
    /// Others have what is missing.
    Full,
}

/// A command: whose it is, and its number in the order in which commands began.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Toucher {
    pub(super) cntlid: u16,
    began: u64,
}

#[derive(Debug, Clone)]
struct Part {
    range: Range<u64>,
    owner: u16,
    /// Only commands that began before this may still touch it.
    until: Option<u64>,
    /// It is cleared, so it may be touched.
    clear: bool,
}

#[derive(Debug)]
struct Granted {
    grant: Grant,
    owner: u16,
    /// The drive by index.
    drive: usize,
    range: Range<u64>,
}

/// The parts of each drive's memory, with their owners.
#[derive(Debug)]
pub(super) struct Leases {
    size: u64,
    drives: Vec<Vec<Part>>,
    /// Commands under way, by controller.
    active: HashMap<u16, BTreeSet<u64>>,
    /// The number of the next command.
    next: u64,
    grants: Vec<Granted>,
}

impl Leases {
    /// Memory of `size` bytes for each of `drives` drives.
    pub(super) fn new(drives: usize, size: u64) -> Self {
        Self { size, drives: vec![Vec::new(); drives], active: HashMap::new(), next: 0, grants: Vec::new() }
    }

    /// A command of a controller begins.
    fn enter(&mut self, cntlid: u16) -> Toucher {
        let began = self.next;
        self.next += 1;
        self.active.entry(cntlid).or_default().insert(began);
        Toucher { cntlid, began }
    }

    /// It has ended.
    fn leave(&mut self, toucher: Toucher) {
        if let Some(commands) = self.active.get_mut(&toucher.cntlid) {
            commands.remove(&toucher.began);
            if commands.is_empty() {
                self.active.remove(&toucher.cntlid);
            }
        }
    }

    /// Controllers have ended: their numbers may come again, and are then somebody else's.
    fn sweep(&mut self, stands: impl Fn(u16) -> bool) {
        let next = self.next;
        self.grants.retain(|granted| stands(granted.owner));
        for part in self.drives.iter_mut().flatten().filter(|part| !stands(part.owner)) {
            part.until.get_or_insert(next);
        }
    }

    fn index(&self, drive: u32) -> Option<usize> {
        (drive as usize).checked_sub(1).filter(|index| *index < self.drives.len())
    }

    /// The `len` bytes of a drive's memory (counted from 1) that are the sender's from now on; what
    /// it had there before is given back. `stands` says which controllers are still there. Nobody
    /// can touch it until the caller has cleared it and said so.
    pub(super) fn lease(
        &mut self,
        drive: u32,
        len: u64,
        sender: Toucher,
        stands: impl Fn(u16) -> bool,
    ) -> Result<(usize, Range<u64>), NoLease> {
        let sense = len > 0 && len <= self.size && len.is_multiple_of(LEASE_UNIT);
        let index = self.index(drive).filter(|_| sense).ok_or(NoLease::Senseless)?;
        self.sweep(stands);
        let Self { size, drives, active, next, grants } = self;
        grants.retain(|granted| (granted.owner, granted.drive) != (sender.cntlid, index));
        let parts = &mut drives[index];
        for part in parts.iter_mut().filter(|part| part.owner == sender.cntlid) {
            // L4: commands of its own that have begun may still touch it; later ones may not.
            part.until.get_or_insert(*next);
        }
        parts.retain(|part| {
            let touches =
                |began: &u64| part.until.is_none_or(|until| *began < until) && *began != sender.began;
            part.until.is_none() || active.get(&part.owner).is_some_and(|all| all.iter().any(touches))
        });
        let mut start = 0;
        for part in parts.iter() {
            if part.range.start.checked_sub(start).is_some_and(|room| room >= len) {
                break;
            }
            start = part.range.end;
        }
        let end = start.checked_add(len).filter(|end| *end <= *size).ok_or(NoLease::Full)?;
        parts.push(Part { range: start..end, owner: sender.cntlid, until: None, clear: false });
        parts.sort_by_key(|part| part.range.start);
        Ok((index, start..end))
    }

    /// A part that was leased is cleared.
    fn cleared(&mut self, index: usize, range: &Range<u64>, owner: u16) {
        let leased = self.drives[index].iter_mut().find(|part| part.owner == owner && part.range == *range);
        if let Some(part) = leased {
            part.clear = true;
        }
    }

    /// L1, L2, L4: whether a command may touch a range of a drive's memory.
    fn may_touch(&self, drive: u32, range: &Range<u64>, toucher: Toucher) -> bool {
        let parts = self.index(drive).map(|index| &self.drives[index]);
        parts.into_iter().flatten().any(|part| {
            part.owner == toucher.cntlid
                && part.clear
                && part.until.is_none_or(|until| toucher.began < until)
                && part.range.start <= range.start
                && range.end <= part.range.end
        })
    }

    /// Lets whoever knows `grant` write a range that the sender has leased; false where it has not,
    /// or has given too many. An empty range takes the grant back.
    pub(super) fn grant(&mut self, grant: Grant, drive: u32, range: Range<u64>, sender: Toucher) -> bool {
        let Some(index) = self.index(drive) else { return false };
        let own = |granted: &Granted| granted.owner == sender.cntlid;
        self.grants.retain(|granted| !(own(granted) && granted.grant == grant));
        if range.is_empty() {
            return true;
        }
        let few = self.grants.iter().filter(|granted| own(granted)).count() < GRANTS;
        let may = few && self.may_touch(drive, &range, sender);
        if may {
            self.grants.push(Granted { grant, owner: sender.cntlid, drive: index, range });
        }
        may
    }

    /// Returns whether a controller has granted anything.
    pub(super) fn has_granted(&self, cntlid: u16) -> bool {
        self.grants.iter().any(|granted| granted.owner == cntlid)
    }

    /// The number of grants, and of those of the controller that has most.
    fn granted(&self) -> (usize, usize) {
        let mut of: HashMap<u16, usize> = HashMap::new();
        self.grants.iter().for_each(|granted| *of.entry(granted.owner).or_default() += 1);
        (self.grants.len(), of.into_values().max().unwrap_or(0))
    }

    /// Returns whether a range may be written under a grant.
    fn is_granted(
        &self,
        grant: &Grant,
        drive: u32,
        range: &Range<u64>,
        stands: impl Fn(u16) -> bool,
    ) -> bool {
        let index = self.index(drive);
        *grant != Grant::NONE
            && self.grants.iter().any(|granted| {
                granted.grant == *grant
                    && Some(granted.drive) == index
                    && granted.range.start <= range.start
                    && range.end <= granted.range.end
                    && stands(granted.owner)
            })
    }
}

/// The table, and the memory that it is about.
#[derive(Debug)]
pub(super) struct LeasedMemory {
    table: RwLock<Leases>,
    memory: std::sync::Arc<LocalMemory>,
}

impl LeasedMemory {
    pub(super) fn new(drives: usize, memory: std::sync::Arc<LocalMemory>) -> Self {
        Self { table: RwLock::new(Leases::new(drives, memory.size())), memory }
    }

    fn read_table(&self) -> RwLockReadGuard<'_, Leases> {
        self.table.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write_table(&self) -> RwLockWriteGuard<'_, Leases> {
        self.table.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends what belongs to controllers that have ended.
    pub(super) fn sweep(&self, stands: impl Fn(u16) -> bool) {
        self.write_table().sweep(stands);
    }

    /// The number of grants, and of those of the controller that has most.
    pub(super) fn granted(&self) -> (usize, usize) {
        self.read_table().granted()
    }

    /// A command of a controller begins.
    pub(super) fn begin(&self, cntlid: u16) -> Active<'_> {
        Active { of: self, toucher: self.write_table().enter(cntlid) }
    }

    /// Writes under a grant, or says that there is none.
    pub(super) fn write_granted(
        &self,
        grant: &Grant,
        address: MemoryAddress,
        data: &[u8],
        stands: impl Fn(u16) -> bool,
    ) -> Result<(), NodeError> {
        let range = range_of(address, data.len() as u64);
        // L5, L3: held until it is written, because the owner may take the grant back meanwhile.
        let table = self.read_table();
        if !table.is_granted(grant, address.drive.0, &range, stands) {
            return Err(NodeError::new(ErrorKind::Busy, "there is no grant for the range to be written"));
        }
        self.memory.write(address, data)
    }
}

fn range_of(address: MemoryAddress, len: u64) -> Range<u64> {
    address.offset..address.offset.saturating_add(len)
}

/// A command under way, and what it may do with local memory: over when it is dropped, however it
/// ends.
pub(super) struct Active<'a> {
    of: &'a LeasedMemory,
    toucher: Toucher,
}

impl Active<'_> {
    /// Leases a part, which is cleared. The first byte.
    pub(super) fn lease(&self, drive: u32, len: u64, stands: impl Fn(u16) -> bool) -> Result<u64, NoLease> {
        let (index, range) = self.of.write_table().lease(drive, len, self.toucher, stands)?;
        // L2. Without the table: it takes milliseconds, and every command of every host needs the
        // table. The part stays where it is, because this command is under way (L4).
        self.of.memory.clear(index, range.clone());
        self.of.write_table().cleared(index, &range, self.toucher.cntlid);
        Ok(range.start)
    }

    /// Grants a range or, if it is empty, takes the grant back. Whether it could, and whether the
    /// controller has any grants now.
    pub(super) fn grant(&self, grant: Grant, address: MemoryAddress, len: u64) -> (bool, bool) {
        let mut table = self.of.write_table();
        let done = table.grant(grant, address.drive.0, range_of(address, len), self.toucher);
        (done, table.has_granted(self.toucher.cntlid))
    }

    /// Does something with a range while it is the controller's.
    fn touch<T>(
        &self,
        address: MemoryAddress,
        len: u64,
        work: impl FnOnce() -> Result<T, NodeError>,
    ) -> Result<T, NodeError> {
        let table = self.of.read_table();
        if !table.may_touch(address.drive.0, &range_of(address, len), self.toucher) {
            let what = format!("{}+{len} of the memory of {} is not leased", address.offset, address.drive);
            return Err(NodeError::new(ErrorKind::Busy, what));
        }
        work()
    }
}

impl MemoryAccess for Active<'_> {
    fn check(&self, field: &'static str, address: MemoryAddress, len: u64) -> Result<(), NodeError> {
        self.of.memory.check(field, address, len)?;
        self.touch(address, len, || Ok(()))
    }

    fn read(&self, address: MemoryAddress, buf: &mut [u8]) -> Result<(), NodeError> {
        self.of.memory.check("address", address, buf.len() as u64)?;
        self.touch(address, buf.len() as u64, || self.of.memory.read(address, buf))
    }

    fn write(&self, address: MemoryAddress, data: &[u8]) -> Result<(), NodeError> {
        self.of.memory.check("address", address, data.len() as u64)?;
        self.touch(address, data.len() as u64, || self.of.memory.write(address, data))
    }

    fn look(&self, address: MemoryAddress, len: u64, work: &mut dyn FnMut(&[u8])) -> Result<(), NodeError> {
        self.of.memory.check("address", address, len)?;
        self.touch(address, len, || self.of.memory.look(address, len, work))
    }
}

impl Drop for Active<'_> {
    fn drop(&mut self) {
        self.of.write_table().leave(self.toucher);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pumice_offload::DriveId;
    use std::sync::Arc;

    const KIB: u64 = 1 << 10;

    fn memory(drives: usize, kib: u64) -> LeasedMemory {
        LeasedMemory::new(drives, Arc::new(LocalMemory::new(drives, kib * KIB)))
    }

    fn lease(of: &LeasedMemory, drive: u32, kib: u64, cntlid: u16, gone: &[u16]) -> Result<u64, NoLease> {
        of.begin(cntlid).lease(drive, kib * KIB, |other| !gone.contains(&other)).map(|start| start / KIB)
    }

    fn at(offset: u64) -> MemoryAddress {
        MemoryAddress { drive: DriveId(1), offset }
    }

    #[test]
    fn hosts_have_parts_of_their_own_until_they_are_gone() {
        let of = memory(2, 64);
        assert_eq!(lease(&of, 1, 16, 1, &[]), Ok(0));
        assert_eq!(lease(&of, 1, 16, 2, &[]), Ok(16));
        assert_eq!(lease(&of, 1, 32, 3, &[]), Ok(32));
        assert_eq!(lease(&of, 1, 4, 4, &[]), Err(NoLease::Full), "it is full");
        assert_eq!(lease(&of, 2, 64, 4, &[]), Ok(0), "another drive's memory is its own");
        // The second is gone: its part is free, and a smaller one fits into the gap.
        assert_eq!(lease(&of, 1, 12, 4, &[2]), Ok(16));
        // Who asks again gives back what it had.
        assert_eq!(lease(&of, 1, 16, 1, &[2]), Ok(0));
    }

    #[test]
    fn a_part_is_not_given_away_while_a_command_of_its_owner_runs() {
        let of = memory(1, 8);
        assert_eq!(lease(&of, 1, 8, 1, &[]), Ok(0));
        let running = of.begin(1);
        assert_eq!(lease(&of, 1, 4, 2, &[1]), Err(NoLease::Full));
        // It is still its own.
        running.write(at(0), &[1]).unwrap();
        drop(running);
        assert_eq!(lease(&of, 1, 4, 2, &[1]), Ok(0));
    }

    /// Nor when the owner itself leases anew: the part that it gives back is nobody's until that
    /// command has ended.
    #[test]
    fn a_second_lease_frees_nothing_that_a_command_of_its_owner_still_writes() {
        let of = memory(1, 16);
        assert_eq!(lease(&of, 1, 4, 1, &[]), Ok(0));
        let running = of.begin(1);
        assert_eq!(lease(&of, 1, 4, 1, &[]), Ok(4), "another part");
        assert_eq!(lease(&of, 1, 4, 2, &[]), Ok(8), "not the one that is still written");
        running.write(at(0), &[1]).unwrap();
        assert!(of.begin(1).write(at(0), &[2]).is_err(), "a later command has the new part alone");
        of.begin(1).write(at(4 * KIB), &[2]).unwrap();
        assert!(running.write(at(4 * KIB), &[3]).is_ok(), "both are its own");
        drop(running);
        assert_eq!(lease(&of, 1, 4, 3, &[]), Ok(0));
    }

    /// While a part is cleared, the table is free; the part is taken, and nobody can touch it.
    #[test]
    fn nobody_waits_while_a_part_is_cleared_and_nobody_touches_it() {
        let of = memory(1, 16);
        let leases = of.begin(1);
        let (index, range) = of.write_table().lease(1, 4 * KIB, leases.toucher, |_| true).unwrap();
        let mut seen = [0];
        assert!(leases.write(at(0), &[1]).is_err() && of.begin(1).read(at(0), &mut seen).is_err());
        assert_eq!(lease(&of, 1, 4, 2, &[1]), Ok(4), "also if its owner ends meanwhile");
        of.write_table().cleared(index, &range, 1);
        assert!(leases.write(at(0), &[1]).is_ok());
        drop(leases);
        assert_eq!(lease(&of, 1, 4, 3, &[1]), Ok(0));
    }

    #[test]
    fn senseless_requests_get_nothing() {
        let of = memory(1, 8);
        for (drive, len) in
            [(0, 4 * KIB), (2, 4 * KIB), (1, 0), (1, 100), (1, 12 * KIB), (1, 0u64.wrapping_sub(4 * KIB))]
        {
            assert_eq!(of.begin(1).lease(drive, len, |_| true), Err(NoLease::Senseless), "{drive} {len}");
        }
    }

    /// A command that began when the memory was its own does not touch it any more when it is
    /// another's, neither to write nor to read.
    #[test]
    fn what_is_anothers_is_neither_written_nor_read_nor_left_for_it() {
        let of = memory(1, 8);
        let early = of.begin(2);
        assert!(early.write(at(0), &[1]).is_err(), "nobody's is not anybody's");
        assert_eq!(lease(&of, 1, 8, 1, &[]), Ok(0));
        of.begin(1).write(at(100), b"secret").unwrap();
        let mut seen = [9; 6];
        for other in [&early, &of.begin(2)] {
            assert_eq!(other.write(at(100), &[1]).unwrap_err().kind(), ErrorKind::Busy);
            assert_eq!(other.read(at(100), &mut seen).unwrap_err().kind(), ErrorKind::Busy);
            assert!(other.check("from", at(100), 6).is_err());
            let mut look = |_: &[u8]| panic!("it is shown to another");
            assert_eq!(other.look(at(100), 6, &mut look).unwrap_err().kind(), ErrorKind::Busy);
        }
        assert_eq!(seen, [9; 6]);
        drop(early);
        assert_eq!(lease(&of, 1, 8, 2, &[1]), Ok(0));
        of.begin(2).read(at(100), &mut seen).unwrap();
        assert_eq!(seen, [0; 6], "the next owner finds nothing of the last one");
        assert_eq!(
            of.begin(2).write(at(8 * KIB), &[1]).unwrap_err().kind(),
            ErrorKind::InvalidField("address")
        );
    }

    #[test]
    fn another_node_writes_what_was_granted_and_while_it_is() {
        let of = memory(1, 16);
        let grant = Grant([3; 16]);
        let write = |grant: &Grant, offset, gone: u16| {
            of.write_granted(grant, at(offset), &[7; 100], |owner| owner != gone).is_ok()
        };
        assert_eq!(lease(&of, 1, 8, 1, &[]), Ok(0));
        assert_eq!(of.begin(1).grant(grant, at(7 * KIB), 2 * KIB), (false, false), "past what is leased");
        assert_eq!(of.begin(2).grant(grant, at(0), KIB), (false, false), "another's");
        assert!(!write(&grant, 4 * KIB, 0));
        assert_eq!(of.begin(1).grant(grant, at(4 * KIB), KIB), (true, true));
        assert!(write(&grant, 4 * KIB, 0) && write(&grant, 5 * KIB - 100, 0));
        assert!(!write(&grant, 4 * KIB - 1, 0) && !write(&grant, 5 * KIB - 99, 0), "outside");
        assert!(!write(&Grant([4; 16]), 4 * KIB, 0) && !write(&Grant::NONE, 4 * KIB, 0));
        assert!(!write(&grant, 4 * KIB, 1), "its owner is gone");
        assert_eq!(of.begin(2).grant(grant, at(4 * KIB), 0), (true, false));
        assert!(write(&grant, 4 * KIB, 0), "nobody takes back what is another's");
        assert_eq!(of.begin(1).grant(grant, at(4 * KIB), 0), (true, false));
        assert!(!write(&grant, 4 * KIB, 0), "taken back");
        assert_eq!(of.begin(1).grant(grant, at(4 * KIB), KIB), (true, true));
        assert_eq!(lease(&of, 1, 8, 1, &[]), Ok(0));
        assert!(!write(&grant, 4 * KIB, 0), "the lease that it was given under has ended");
        for i in 1..=GRANTS as u8 {
            assert!(of.begin(1).grant(Grant([i; 16]), at(0), 1).0);
        }
        assert!(!of.begin(1).grant(Grant([99; 16]), at(0), 1).0, "a bounded number");
        assert_eq!(lease(&of, 1, 8, 2, &[]), Ok(8));
        assert!(of.begin(2).grant(Grant([1; 16]), at(8 * KIB), 1).0, "others have their own");
        assert_eq!(of.granted(), (GRANTS + 1, GRANTS));
    }
}
