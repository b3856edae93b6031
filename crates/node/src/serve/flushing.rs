//! The flush of all drives with which a server ends.

use pumice_blockdev::{BlockDevice, Lossy};
use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, mpsc};
use std::time::Instant;

/// The outcome of the flushes.
pub(super) struct Flushed {
    /// The last failure of a drive: of its flush, or of it or its tag file while it was served.
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
            // What was lost before is the hosts' to hear.
            let flushed = match device.lossy().map_or_else(|| device.flush(), Lossy::settle) {
                Ok(()) => device.failing().map_or(Ok(()), |why| Err(format!("{}: {why}", device.name()))),
                Err(error) => Err(error.to_string()),
            };
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
    use pumice_blockdev::{FaultyDevice, HookedDevice, MemoryDevice};
    use pumice_protect::guard::Guard;
    use pumice_tags::file::{SharedMedium, TagFile};
    use pumice_tags::geometry::Geometry;
    use pumice_tags::{DeviceMedium, TaggedDevice};
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

    /// Nothing that was acknowledged is lost, but the server did not do what it should.
    #[test]
    fn a_tag_file_that_failed_is_told_at_the_end() {
        let drive = Arc::new(MemoryDevice::new("d", 1 << 20));
        let geometry = Geometry::new(1 << 20, 512, 512, Guard::Crc16, 128 << 10).unwrap();
        let beside = Arc::new(FaultyDevice::new("t", vec![0; geometry.file_bytes() as usize], 1));
        let tags = SharedMedium(Arc::new(DeviceMedium(beside.clone())));
        TagFile::create(&tags, geometry, 7, "").unwrap();
        let device: Arc<dyn BlockDevice> = Arc::new(TaggedDevice::open(drive, tags, "").unwrap());
        let flush =
            || flush_all(vec![Arc::clone(&device)], Instant::now() + Duration::from_secs(60)).unwrap();
        assert!(flush().result.is_ok());
        beside.refuse_writes(0..geometry.file_bytes());
        device.write_at(0, &[1; 512]).unwrap_err();
        let why = flush().result.unwrap_err().to_string();
        assert!(why.contains("d: tag file: "), "{why}");
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
