//! A wrapper that calls a function at each read, flush and zeroing of a device: for tests that
//! count them, or that change the data read.

use crate::{BlockDevice, DirectIo, Grains, IoError, Marks, Tagged};
use std::collections::BTreeSet;
use std::sync::Arc;

/// A change to the bytes of a read, which begin at an offset.
type ReadHook = dyn Fn(u64, &mut [u8]) + Send + Sync;
/// An action at a flush.
type FlushHook = dyn Fn() + Send + Sync;
/// An action at a zeroing, with its offset and its length.
type ClearHook = dyn Fn(u64, u64) + Send + Sync;

/// A device that is another one, but for its hooks. They do not see what goes past the device, by
/// its [direct I/O](BlockDevice::direct).
pub struct HookedDevice {
    inner: Arc<dyn BlockDevice>,
    read: Box<ReadHook>,
    flush: Box<FlushHook>,
    clear: Box<ClearHook>,
}

impl HookedDevice {
    /// A device over `inner` at which nothing happens yet.
    #[must_use]
    pub fn over(inner: Arc<dyn BlockDevice>) -> Self {
        Self { inner, read: Box::new(|_, _| {}), flush: Box::new(|| {}), clear: Box::new(|_, _| {}) }
    }

    /// The same device, with `hook` given the offset and the bytes of every read that went well.
    #[must_use]
    pub fn at_reads(self, hook: impl Fn(u64, &mut [u8]) + Send + Sync + 'static) -> Self {
        Self { read: Box::new(hook), ..self }
    }

    /// The same device, with `hook` called before every flush.
    #[must_use]
    pub fn at_flushes(self, hook: impl Fn() + Send + Sync + 'static) -> Self {
        Self { flush: Box::new(hook), ..self }
    }

    /// The same device, with `hook` given the offset and the length before every
    /// [`zero`](BlockDevice::zero) and [`discard`](BlockDevice::discard).
    #[must_use]
    pub fn at_clears(self, hook: impl Fn(u64, u64) + Send + Sync + 'static) -> Self {
        Self { clear: Box::new(hook), ..self }
    }
}

impl BlockDevice for HookedDevice {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn size_bytes(&self) -> u64 {
        self.inner.size_bytes()
    }

    fn logical_block(&self) -> u32 {
        self.inner.logical_block()
    }

    fn atomic_unit(&self) -> u32 {
        self.inner.atomic_unit()
    }

    fn read_only(&self) -> bool {
        self.inner.read_only()
    }

    fn disks(&self) -> BTreeSet<String> {
        self.inner.disks()
    }

    fn direct(&self) -> Option<&dyn DirectIo> {
        self.inner.direct()
    }

    fn marks(&self) -> Option<&dyn Marks> {
        self.inner.marks()
    }

    fn tagged(&self) -> Option<&dyn Tagged> {
        self.inner.tagged()
    }

    fn grains(&self) -> Grains {
        self.inner.grains()
    }

    fn clears_at_once(&self) -> u64 {
        self.inner.clears_at_once()
    }

    fn failing(&self) -> Option<String> {
        self.inner.failing()
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), IoError> {
        self.inner.read_at(offset, buf)?;
        (self.read)(offset, buf);
        Ok(())
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> Result<(), IoError> {
        self.inner.write_at(offset, data)
    }

    fn zero(&self, offset: u64, len: u64) -> Result<(), IoError> {
        (self.clear)(offset, len);
        self.inner.zero(offset, len)
    }

    fn discard(&self, offset: u64, len: u64) -> Result<(), IoError> {
        (self.clear)(offset, len);
        self.inner.discard(offset, len)
    }

    fn flush(&self) -> Result<(), IoError> {
        (self.flush)();
        self.inner.flush()
    }
}
