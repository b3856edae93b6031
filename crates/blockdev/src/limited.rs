//! A wrapper that moves so many bytes a second: for measurements with drives of a known speed.

use crate::{BlockDevice, Grains, IoError, Marks, Tagged};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Idle time that counts towards the next requests, as the cache of a real device makes it count.
const SAVED: Duration = Duration::from_millis(20);

/// A device whose reads, writes and zeroings together move at most so many bytes a second, but for
/// the first 20 ms of them after a pause.
pub struct LimitedDevice {
    inner: Arc<dyn BlockDevice>,
    rate: u64,
    free: Mutex<Instant>,
}

impl LimitedDevice {
    /// A device over `inner` of `rate` bytes a second, at least one.
    #[must_use]
    pub fn new(inner: Arc<dyn BlockDevice>, rate: u64) -> Self {
        Self { inner, rate: rate.max(1), free: Mutex::new(Instant::now()) }
    }

    /// Waits for the turn of `bytes`.
    fn wait(&self, bytes: u64) {
        let now = Instant::now();
        let took = Duration::from_secs_f64(bytes as f64 / self.rate as f64);
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        let begins = now.checked_sub(SAVED).map_or(*free, |earliest| earliest.max(*free));
        let ends = begins + took;
        *free = ends;
        drop(free);
        std::thread::sleep(ends.saturating_duration_since(now));
    }
}

impl BlockDevice for LimitedDevice {
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

    fn marks(&self) -> Option<&dyn Marks> {
        self.inner.marks()
    }

    fn tagged(&self) -> Option<&dyn Tagged> {
        self.inner.tagged()
    }

    fn grains(&self) -> Grains {
        self.inner.grains()
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), IoError> {
        self.wait(buf.len() as u64);
        self.inner.read_at(offset, buf)
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> Result<(), IoError> {
        self.wait(data.len() as u64);
        self.inner.write_at(offset, data)
    }

    fn zero(&self, offset: u64, len: u64) -> Result<(), IoError> {
        self.wait(len);
        self.inner.zero(offset, len)
    }

    fn flush(&self) -> Result<(), IoError> {
        self.inner.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MemoryDevice;

    #[test]
    fn bytes_take_their_time() {
        let device = LimitedDevice::new(Arc::new(MemoryDevice::new("memory", 1 << 20)), 4 << 20);
        let began = Instant::now();
        let mut buf = vec![0; 256 << 10];
        device.write_at(0, &[7; 256 << 10]).unwrap();
        device.read_at(0, &mut buf).unwrap();
        device.zero(0, 256 << 10).unwrap();
        // Three quarters of a MiB, less what was saved up.
        assert!(began.elapsed() >= Duration::from_millis(160), "{:?}", began.elapsed());
        assert!(buf.iter().all(|byte| *byte == 7));
    }
}
