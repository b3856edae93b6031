//! A drive that is not served, in its place among the others: its namespaces keep their numbers,
//! and every command for them fails.

use pumice_blockdev::{BlockDevice, IoError, Operation, TagCounts, TagFormat, Tagged};
use pumice_protect::origin::{Judged, RestoredTag};
use std::io;

/// A drive whose tags are stale. It holds neither the drive nor its tag file.
pub(super) struct WithheldDevice {
    name: String,
    size: u64,
    format: TagFormat,
    why: String,
}

impl WithheldDevice {
    /// The drive with this name and size; `format` is that of its tags, and `why` says what is
    /// wrong, and the way out.
    pub(super) const fn new(name: String, size: u64, format: TagFormat, why: String) -> Self {
        Self { name, size, format, why }
    }

    fn fail<T>(&self, operation: Operation, offset: u64, len: u64) -> Result<T, IoError> {
        let len = usize::try_from(len).unwrap_or(usize::MAX);
        let why = format!("not served: {}", self.why);
        Err(IoError::new(&self.name, operation, offset, len, io::Error::other(why)))
    }

    /// The bytes of blocks with so many bytes of metadata.
    fn bytes(&self, metadata: &[u8]) -> u64 {
        (metadata.len() / self.format.metadata.bytes()) as u64 * u64::from(self.format.block_bytes)
    }
}

impl BlockDevice for WithheldDevice {
    fn name(&self) -> &str {
        &self.name
    }

    fn size_bytes(&self) -> u64 {
        self.size
    }

    fn logical_block(&self) -> u32 {
        self.format.block_bytes
    }

    fn read_only(&self) -> bool {
        false
    }

    fn failing(&self) -> Option<String> {
        Some(self.why.clone())
    }

    fn tagged(&self) -> Option<&dyn Tagged> {
        Some(self)
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), IoError> {
        self.fail(Operation::Read, offset, buf.len() as u64)
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> Result<(), IoError> {
        self.fail(Operation::Write, offset, data.len() as u64)
    }

    fn zero(&self, offset: u64, len: u64) -> Result<(), IoError> {
        self.fail(Operation::Zero, offset, len)
    }

    fn discard(&self, offset: u64, len: u64) -> Result<(), IoError> {
        self.fail(Operation::Discard, offset, len)
    }

    fn flush(&self) -> Result<(), IoError> {
        self.fail(Operation::Flush, 0, 0)
    }
}

impl Tagged for WithheldDevice {
    fn format(&self) -> TagFormat {
        self.format
    }

    fn counts(&self) -> TagCounts {
        TagCounts { stale: true, ..TagCounts::default() }
    }

    fn read_judged(&self, offset: u64, buf: &mut [u8]) -> Result<Vec<Judged>, IoError> {
        self.fail(Operation::Read, offset, buf.len() as u64)
    }

    fn read_with_metadata(&self, offset: u64, data: &mut [u8], _: &mut [u8]) -> Result<(), IoError> {
        self.fail(Operation::Read, offset, data.len() as u64)
    }

    fn write_with_metadata(&self, offset: u64, data: &[u8], _: &[u8]) -> Result<(), IoError> {
        self.fail(Operation::Write, offset, data.len() as u64)
    }

    fn zero_with_metadata(&self, offset: u64, metadata: &[u8], _: bool) -> Result<(), IoError> {
        self.fail(Operation::Zero, offset, self.bytes(metadata))
    }

    fn vouch(&self, offset: u64, len: u64) -> Result<u64, IoError> {
        self.fail(Operation::Write, offset, len)
    }

    fn restore(&self, offset: u64, data: &[u8], _: RestoredTag) -> Result<(), IoError> {
        self.fail(Operation::Write, offset, data.len() as u64)
    }
}
