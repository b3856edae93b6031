//! What every block device offers.

use crate::IoError;
use std::os::fd::RawFd;

/// A file descriptor that takes direct I/O.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DirectFd {
    /// The descriptor; open while the device lives.
    pub fd: RawFd,
    /// Offsets and lengths must be multiples of this. Memory must begin on a page.
    pub grain: u32,
}

/// A device of fixed size, read and written by byte range.
///
/// Any offset and any length will do; what the medium wants to have aligned, the device aligns.
pub trait BlockDevice: Send + Sync {
    /// What an operator calls it.
    fn name(&self) -> &str;

    /// Bytes.
    fn size_bytes(&self) -> u64;

    /// Bytes of a block: what the medium writes all or nothing.
    fn logical_block(&self) -> u32;

    /// Whether writes are refused.
    fn read_only(&self) -> bool;

    /// Whether reads and writes end at once, without waiting for a medium.
    fn is_immediate(&self) -> bool {
        false
    }

    /// The descriptor for direct I/O, where reads come from the medium by DMA; `None` where a processor copies them.
    fn direct_fd(&self) -> Option<DirectFd> {
        None
    }

    /// Reads `buf.len()` bytes at `offset`.
    ///
    /// # Errors
    /// Where the range is not all within the device, or the medium fails.
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), IoError>;

    /// Writes `data` at `offset`. Durable after a [`flush`](Self::flush) that follows.
    ///
    /// # Errors
    /// Where the device is read-only, the range is not all within it, or the medium fails.
    fn write_at(&self, offset: u64, data: &[u8]) -> Result<(), IoError>;

    /// Makes every completed write durable.
    ///
    /// # Errors
    /// Where the medium cannot promise that.
    fn flush(&self) -> Result<(), IoError>;
}
