//! A device over another one, with something done at each read.

use pumice_blockdev::{BlockDevice, FaultyDevice, IoError};
use std::sync::Arc;

/// What is done to the bytes of a read, which begin at an offset.
type Hook = dyn Fn(u64, &mut [u8]) + Send + Sync;

/// A device, and what happens at its reads.
pub(crate) struct Hooked {
    inner: Arc<FaultyDevice>,
    hook: Box<Hook>,
}

impl Hooked {
    pub(crate) fn over(
        inner: &Arc<FaultyDevice>,
        hook: impl Fn(u64, &mut [u8]) + Send + Sync + 'static,
    ) -> Arc<dyn BlockDevice> {
        Arc::new(Self { inner: Arc::clone(inner), hook: Box::new(hook) })
    }
}

impl BlockDevice for Hooked {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn size_bytes(&self) -> u64 {
        self.inner.size_bytes()
    }

    fn logical_block(&self) -> u32 {
        self.inner.logical_block()
    }

    fn read_only(&self) -> bool {
        self.inner.read_only()
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), IoError> {
        self.inner.read_at(offset, buf)?;
        (self.hook)(offset, buf);
        Ok(())
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> Result<(), IoError> {
        self.inner.write_at(offset, data)
    }

    fn flush(&self) -> Result<(), IoError> {
        self.inner.flush()
    }
}
