//! Local memory of drives, and transfers to the memory of other nodes.

use pumice_offload::{DriveId, ErrorKind, MemoryAddress, NodeError};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Bytes of a drive's memory that are cleared before others may use it.
const CLEARED_AT_ONCE: u64 = 1 << 20;

/// The local memories of one node's drives. They are grown as they are used, up to their stated
/// size, so that a node of many drives does not hold memory that no command asked for.
#[derive(Debug)]
pub(crate) struct LocalMemory {
    size: u64,
    drives: Vec<Mutex<Vec<u8>>>,
}

/// Local memory as a command may use it. The right to a place is looked at when the place is
/// touched, and not only when the command begins: whose it is can change meanwhile.
pub(crate) trait MemoryAccess: Sync {
    /// Checks that a range can be used, before anything is done.
    fn check(&self, field: &'static str, address: MemoryAddress, len: u64) -> Result<(), NodeError>;

    /// Copies out of memory.
    fn read(&self, address: MemoryAddress, buf: &mut [u8]) -> Result<(), NodeError>;

    /// Copies into memory.
    fn write(&self, address: MemoryAddress, data: &[u8]) -> Result<(), NodeError>;

    /// Shows bytes where they are. Nobody else can use the drive's memory meanwhile: only for work
    /// that waits for nothing.
    fn look(&self, address: MemoryAddress, len: u64, work: &mut dyn FnMut(&[u8])) -> Result<(), NodeError>;
}

/// All of it, for commands of this process.
impl MemoryAccess for LocalMemory {
    fn check(&self, field: &'static str, address: MemoryAddress, len: u64) -> Result<(), NodeError> {
        self.range(field, address, len).map(drop)
    }

    fn read(&self, address: MemoryAddress, buf: &mut [u8]) -> Result<(), NodeError> {
        Self::read(self, address, buf)
    }

    fn write(&self, address: MemoryAddress, data: &[u8]) -> Result<(), NodeError> {
        Self::write(self, address, data)
    }

    fn look(&self, address: MemoryAddress, len: u64, work: &mut dyn FnMut(&[u8])) -> Result<(), NodeError> {
        let (drive, range) = self.range("address", address, len)?;
        work(&self.lock(drive, range.end)[range]);
        Ok(())
    }
}

impl LocalMemory {
    /// Memory of `size` bytes for each of `drives` drives.
    pub(crate) fn new(drives: usize, size: u64) -> Self {
        Self { size, drives: (0..drives).map(|_| Mutex::new(Vec::new())).collect() }
    }

    /// Bytes of one drive's memory.
    pub(crate) fn size(&self) -> u64 {
        self.size
    }

    /// Checks that a range lies in a drive's memory.
    pub(crate) fn range(
        &self,
        field: &'static str,
        address: MemoryAddress,
        len: u64,
    ) -> Result<(usize, Range<usize>), NodeError> {
        let drive = (address.drive.0 as usize).wrapping_sub(1);
        if drive >= self.drives.len() {
            return Err(NodeError::invalid(field, format!("there is no {}", address.drive)));
        }
        let end = address.offset.checked_add(len).filter(|end| *end <= self.size);
        let outside = || {
            let MemoryAddress { drive, offset } = address;
            NodeError::invalid(
                field,
                format!("{offset}+{len} is outside the {} bytes of memory of {drive}", self.size),
            )
        };
        let end = end.and_then(|end| usize::try_from(end).ok()).ok_or_else(outside)?;
        Ok((drive, end - len as usize..end))
    }

    /// One drive's memory, at least `end` bytes of it.
    fn lock(&self, drive: usize, end: usize) -> MutexGuard<'_, Vec<u8>> {
        // A thread that panicked while it held the lock left bytes, not structure: they are as good
        // as any.
        let mut memory = self.drives[drive].lock().unwrap_or_else(PoisonError::into_inner);
        if memory.len() < end {
            memory.resize(end, 0);
        }
        memory
    }

    /// Copies out of memory.
    pub(crate) fn read(&self, address: MemoryAddress, buf: &mut [u8]) -> Result<(), NodeError> {
        let (drive, range) = self.range("address", address, buf.len() as u64)?;
        buf.copy_from_slice(&self.lock(drive, range.end)[range]);
        Ok(())
    }

    /// Copies into memory.
    pub(crate) fn write(&self, address: MemoryAddress, data: &[u8]) -> Result<(), NodeError> {
        let (drive, range) = self.range("address", address, data.len() as u64)?;
        self.lock(drive, range.end)[range].copy_from_slice(data);
        Ok(())
    }
}

impl LocalMemory {
    /// Overwrites a range with zeros, as far as it was ever used.
    pub(crate) fn clear(&self, drive: usize, range: Range<u64>) {
        for start in range.clone().step_by(CLEARED_AT_ONCE as usize) {
            let mut memory = self.drives[drive].lock().unwrap_or_else(PoisonError::into_inner);
            let used = memory.len();
            let at = |byte: u64| usize::try_from(byte).unwrap_or(usize::MAX).min(used);
            memory[at(start)..at(range.end.min(start.saturating_add(CLEARED_AT_ONCE)))].fill(0);
        }
    }
}

/// The nodes of this process that may send to one another.
#[derive(Debug, Clone, Default)]
pub struct Peers {
    nodes: Arc<Mutex<BTreeMap<String, Arc<LocalMemory>>>>,
}

impl Peers {
    /// No nodes yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    pub(crate) fn announce(&self, name: &str, memory: &Arc<LocalMemory>) {
        self.lock().insert(name.to_owned(), Arc::clone(memory));
    }

    pub(crate) fn withdraw(&self, name: &str, memory: &Arc<LocalMemory>) {
        let mut nodes = self.lock();
        // Another node may have taken the name since.
        if nodes.get(name).is_some_and(|known| Arc::ptr_eq(known, memory)) {
            nodes.remove(name);
        }
    }

    /// The memory of a peer.
    pub(crate) fn find(&self, name: &str) -> Result<Arc<LocalMemory>, NodeError> {
        self.lock()
            .get(name)
            .cloned()
            .ok_or_else(|| NodeError::new(ErrorKind::Unreachable, format!("no node '{name}' is known here")))
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Arc<LocalMemory>>> {
        self.nodes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The address `bytes` further.
pub(crate) fn further(address: MemoryAddress, bytes: u64) -> MemoryAddress {
    MemoryAddress { drive: DriveId(address.drive.0), offset: address.offset + bytes }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_ends_where_it_says() {
        let memory = LocalMemory::new(2, 4096);
        let at = |drive, offset| MemoryAddress { drive: DriveId(drive), offset };
        memory.write(at(2, 4000), &[7; 96]).unwrap();
        let mut back = [0; 96];
        memory.read(at(2, 4000), &mut back).unwrap();
        assert_eq!((back[0], back[95]), (7, 7));
        for bad in [at(0, 0), at(3, 0), at(1, 4096), at(1, u64::MAX)] {
            let error = memory.write(bad, &[0]).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidField("address"), "{bad:?}");
        }
    }
}
