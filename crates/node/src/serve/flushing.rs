//! The flush of all drives with which a server ends.

use pumice_blockdev::BlockDevice;
use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, mpsc};
use std::time::Instant;

/// What came of the flushes.
pub(super) struct Flushed {
    /// The last failure of a drive.
    pub(super) result: io::Result<()>,
    /// Drives that did not come back in time.
    pub(super) missing: Vec<String>,
}

/// Flushes all drives that can be written, at a time, until then. The threads of those that came
/// back refer to no drive any more: whoever drops the last reference closes it, and must not be a
/// thread that ends with the process.
///
/// # Errors
/// If the system has no threads left.
pub(super) fn flush_all(devices: Vec<Arc<dyn BlockDevice>>, until: Instant) -> io::Result<Flushed> {
    let (done, flushed) = mpsc::channel();
    let mut flushing: BTreeMap<usize, String> = BTreeMap::new();
    for (i, device) in devices.into_iter().enumerate().filter(|(_, device)| !device.read_only()) {
        let (done, name) = (done.clone(), device.name().to_owned());
        std::thread::Builder::new().name(format!("flush{i}")).spawn(move || {
            let flushed = device.flush();
            drop(device);
            // Nobody listens any more if it took too long.
            let _ = done.send((i, flushed));
        })?;
        flushing.insert(i, name);
    }
    drop(done);
    let mut result = Ok(());
    while let Ok((i, flush)) = flushed.recv_timeout(until.saturating_duration_since(Instant::now())) {
        flushing.remove(&i);
        if let Err(error) = flush {
            result = Err(io::Error::other(error));
        }
    }
    let missing = flushing.into_values().map(|name| format!("the flush of {name}")).collect();
    Ok(Flushed { result, missing })
}

#[cfg(test)]
mod tests {
    use super::*;
    use pumice_blockdev::{HookedDevice, MemoryDevice};
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::Duration;

    /// Takes its time to be closed.
    struct Slow(Arc<AtomicBool>);

    impl Drop for Slow {
        fn drop(&mut self) {
            std::thread::sleep(Duration::from_millis(200));
            self.0.store(true, Ordering::SeqCst);
        }
    }

    /// A drive with tags beside it is closed by whoever drops it last. A thread of the flush that
    /// did so was cut off by the end of the process, and the tags were not closed.
    #[test]
    fn a_drive_that_its_flush_drops_last_is_closed_before_the_server_ends() {
        let closed = Arc::new(AtomicBool::new(false));
        let slow = Slow(Arc::clone(&closed));
        let device = HookedDevice::over(Arc::new(MemoryDevice::new("m", 4096))).at_reads(move |_, _| {
            let _ = &slow;
        });
        let flushed = flush_all(vec![Arc::new(device)], Instant::now() + Duration::from_secs(60)).unwrap();
        assert!(flushed.result.is_ok() && flushed.missing.is_empty());
        assert!(closed.load(Ordering::SeqCst));
    }
}
