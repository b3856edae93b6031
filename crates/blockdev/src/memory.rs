//! A device in memory.

use crate::error::Operation;
use crate::system::{prefer_large_pages, prefetch};
use crate::{BlockDevice, IoError, stream};
use std::io;
use std::ops::Range;
use std::sync::{PoisonError, RwLock, RwLockReadGuard};

/// Bytes of a block.
const BLOCK: u32 = 512;

/// Bytes that are made zeros while readers wait.
const PIECE: usize = 256 << 10;

/// A device in memory, zeroed at first. Durable as long as it lives.
pub struct MemoryDevice {
    name: String,
    content: RwLock<Vec<u8>>,
}

impl MemoryDevice {
    /// A device of `size` bytes. The system gives the memory now, in large pages where it can, and
    /// not page by page to the first writes.
    ///
    /// # Panics
    /// If `size` does not fit the address space.
    #[must_use]
    pub fn new(name: &str, size: u64) -> Self {
        Self::with_content(name, zeroed_memory(usize::try_from(size).expect("it fits memory")))
    }

    /// The same, for a size that comes from outside.
    ///
    /// # Errors
    /// If this machine does not have that much memory.
    pub fn try_new(name: &str, size: u64) -> Result<Self, NoMemory> {
        Ok(Self::with_content(name, try_zeroed_memory(size)?))
    }

    /// A device that holds `content`.
    #[must_use]
    pub fn with_content(name: &str, content: Vec<u8>) -> Self {
        Self { name: name.to_owned(), content: RwLock::new(content) }
    }
}

/// This machine does not have as much memory as is needed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{needed} bytes of memory are needed, and {available} are available")]
pub struct NoMemory {
    /// Bytes that are needed.
    pub needed: u64,
    /// Bytes that the system can give; 0 if only the process may have no more.
    pub available: u64,
}

/// Bytes of memory that the system can give without swapping, as it estimates; `None` if it does
/// not tell.
#[must_use]
pub fn memory_available() -> Option<u64> {
    let all = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = all.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// Checks that the system can give so many bytes. An allocation of more would end the process: at
/// once, or when its pages are first written.
///
/// # Errors
/// If it cannot.
pub fn check_memory(needed: u64) -> Result<(), NoMemory> {
    let available = memory_available().unwrap_or(u64::MAX).min(isize::MAX as u64);
    if needed > available { Err(NoMemory { needed, available }) } else { Ok(()) }
}

/// Zeroed memory of `size` bytes, which the system gives now, in large pages where it can.
#[must_use]
pub fn zeroed_memory(size: usize) -> Vec<u8> {
    zeros_in(Vec::with_capacity(size), size)
}

/// The same, for a size that comes from outside.
///
/// # Errors
/// If this machine does not have that much memory, or the process may not have it.
pub fn try_zeroed_memory(size: u64) -> Result<Vec<u8>, NoMemory> {
    check_memory(size)?;
    let no_memory = || NoMemory { needed: size, available: 0 };
    let size = usize::try_from(size).map_err(|_| no_memory())?;
    let mut content = Vec::new();
    // A limit of the process may be lower than what the machine has.
    content.try_reserve_exact(size).map_err(|_| no_memory())?;
    Ok(zeros_in(content, size))
}

/// Makes `size` zeros of memory that is empty and has the room.
fn zeros_in(mut content: Vec<u8>, size: usize) -> Vec<u8> {
    prefer_large_pages(content.spare_capacity_mut());
    content.resize(size, 0);
    content
}

/// The range of an operation in memory of `size` bytes.
pub(crate) fn range(
    device: &str,
    operation: Operation,
    offset: u64,
    len: usize,
    size: usize,
) -> Result<Range<usize>, IoError> {
    usize::try_from(offset)
        .ok()
        .and_then(|start| Some(start..start.checked_add(len)?))
        .filter(|range| range.end <= size)
        .ok_or_else(|| {
            let why = io::Error::new(io::ErrorKind::UnexpectedEof, format!("the device has {size} bytes"));
            IoError::new(device, operation, offset, len, why)
        })
}

impl BlockDevice for MemoryDevice {
    fn name(&self) -> &str {
        &self.name
    }

    fn size_bytes(&self) -> u64 {
        self.content.read().unwrap_or_else(PoisonError::into_inner).len() as u64
    }

    fn logical_block(&self) -> u32 {
        BLOCK
    }

    fn read_only(&self) -> bool {
        false
    }

    fn clears_at_once(&self) -> u64 {
        8 << 20
    }

    fn is_immediate(&self) -> bool {
        true
    }

    fn resident(&self) -> Option<RwLockReadGuard<'_, Vec<u8>>> {
        Some(self.content.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn prepare(&self, offset: u64, len: u64) {
        let content = self.content.read().unwrap_or_else(PoisonError::into_inner);
        let begin = usize::try_from(offset).unwrap_or(usize::MAX);
        let end = begin.saturating_add(usize::try_from(len).unwrap_or(usize::MAX));
        prefetch(content.get(begin..end).unwrap_or_default());
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), IoError> {
        let content = self.content.read().unwrap_or_else(PoisonError::into_inner);
        let range = range(&self.name, Operation::Read, offset, buf.len(), content.len())?;
        buf.copy_from_slice(&content[range]);
        Ok(())
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> Result<(), IoError> {
        let mut content = self.content.write().unwrap_or_else(PoisonError::into_inner);
        let range = range(&self.name, Operation::Write, offset, data.len(), content.len())?;
        stream::copy(&mut content[range], data);
        Ok(())
    }

    fn zero(&self, offset: u64, len: u64) -> Result<(), IoError> {
        let length = usize::try_from(len).unwrap_or(usize::MAX);
        let size = self.content.read().unwrap_or_else(PoisonError::into_inner).len();
        let all = range(&self.name, Operation::Zero, offset, length, size)?;
        // In pieces, for readers wait for the lock. The content never changes its length.
        for at in all.clone().step_by(PIECE) {
            let end = all.end.min(at + PIECE);
            self.content.write().unwrap_or_else(PoisonError::into_inner)[at..end].fill(0);
        }
        Ok(())
    }

    fn flush(&self) -> Result<(), IoError> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_that_no_machine_has_is_an_error_and_no_panic() {
        for size in [99_999 << 40, isize::MAX as u64, u64::MAX] {
            let error = MemoryDevice::try_new("m", size).err().unwrap();
            assert!(error.needed == size && error.available < size, "{error}");
        }
        assert_eq!(MemoryDevice::try_new("m", 1 << 20).unwrap().size_bytes(), 1 << 20);
    }
}
