//! Tag files that were closed, and those that were not.

use pumice_base::durable::Medium;
use pumice_blockdev::{BlockDevice, FaultyDevice, MemoryDevice};
use pumice_protect::guard::Guard;
use pumice_tags::file::{SharedMedium, TagFile};
use pumice_tags::geometry::{Geometry, LOG_AT};
use pumice_tags::page::{Opinion, Origin};
use pumice_tags::{DeviceMedium, TaggedDevice};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

const LOG: u64 = 256 << 10;

/// A medium that counts the bytes of the log that are read.
struct Counting {
    inner: DeviceMedium,
    read: AtomicU64,
}

impl Medium for Counting {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        let end = (offset + buf.len() as u64).min(LOG_AT + LOG);
        self.read.fetch_add(end.saturating_sub(offset.max(LOG_AT)), Ordering::Relaxed);
        self.inner.read_at(offset, buf)
    }
    fn write_at(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.inner.write_at(offset, data)
    }
    fn sync(&self) -> io::Result<()> {
        self.inner.sync()
    }
}

struct World {
    drive: Arc<dyn BlockDevice>,
    tags: Arc<MemoryDevice>,
    medium: Arc<Counting>,
}

impl World {
    fn new() -> Self {
        let geometry = Geometry::new(1 << 20, 4096, 512, Guard::Crc16, LOG).unwrap();
        let tags = Arc::new(MemoryDevice::new("tags", geometry.file_bytes()));
        let inner = DeviceMedium(tags.clone());
        TagFile::create(&inner, geometry, 7, "").unwrap();
        let drive = Arc::new(FaultyDevice::new("d", vec![1; 1 << 20], 1));
        Self { drive, tags, medium: Arc::new(Counting { inner, read: AtomicU64::new(0) }) }
    }

    /// Opens the drive; the bytes of the log that were read for that.
    fn open(&self) -> (TaggedDevice, u64) {
        self.medium.read.store(0, Ordering::Relaxed);
        let medium = SharedMedium(self.medium.clone());
        let device = TaggedDevice::open(self.drive.clone(), medium, "").unwrap();
        (device, self.medium.read.load(Ordering::Relaxed))
    }

    fn content(&self) -> Vec<u8> {
        let mut content = vec![0; 1 << 20];
        self.drive.read_at(0, &mut content).unwrap();
        content
    }

    fn left(&self) -> Vec<u8> {
        self.tags.resident().unwrap().clone()
    }
}

fn write(device: &TaggedDevice, version: u8) {
    for block in 0..100 {
        device.write_at(block * 4096, &[version; 4096]).unwrap();
    }
}

fn fits(device: &TaggedDevice) {
    let opinions = device.judge(0..100).unwrap();
    assert!(opinions.iter().all(|opinion| *opinion == Opinion::Fits(Origin::Written)));
}

#[test]
fn the_log_of_a_file_that_was_closed_is_not_read() {
    let world = World::new();
    let (device, read) = world.open();
    assert!(device.recovered().log_read && read >= LOG, "it is new");
    for version in 2..8 {
        write(&device, version);
    }
    drop(device);
    let (device, read) = world.open();
    assert!(!device.recovered().log_read && read <= 512, "{read} bytes");
    fits(&device);
    // Only what was closed: this one is killed, with and without records.
    let before = (world.left(), world.content());
    write(&device, 8);
    let killed = (world.left(), world.content());
    drop(device);
    for ((left, content), logged) in [(before, false), (killed, true)] {
        world.tags.write_at(0, &left).unwrap();
        world.drive.write_at(0, &content).unwrap();
        let (device, read) = world.open();
        assert!(device.recovered().log_read && read >= LOG, "{read} bytes");
        assert_eq!(device.recovered().logged > 0, logged);
        drop(device);
    }
    fits(&world.open().0);
}

#[test]
fn an_end_marker_of_another_opening_does_not_save_the_look_at_the_log() {
    let world = World::new();
    let (device, _) = world.open();
    write(&device, 2);
    drop(device);
    let end = world.left()[LOG_AT as usize..][..512].to_vec();
    drop(world.open());
    assert!(!world.open().0.recovered().log_read);
    // As after a program that does not write it.
    world.tags.write_at(LOG_AT, &end).unwrap();
    assert!(world.open().0.recovered().log_read);
}

#[test]
fn a_slot_that_is_damaged_after_a_crash_does_not_bring_back_a_clean_header() {
    let world = World::new();
    let (device, _) = world.open();
    write(&device, 2);
    drop(device);
    let (device, read) = world.open();
    assert!(read <= 512);
    // Few, so that the end marker is still there.
    (0..20).for_each(|block| device.write_at(block * 4096, &[3; 4096]).unwrap());
    let left = world.left();
    drop(device);
    for slot in [0, 4096] {
        world.tags.write_at(0, &left).unwrap();
        world.tags.write_at(slot + 40, &[0xEE]).unwrap();
        let (device, _) = world.open();
        assert!(device.recovered().log_read, "the slot at {slot}");
        fits(&device);
    }
}

#[test]
fn a_drive_that_was_closed_takes_no_writes() {
    let world = World::new();
    let (device, _) = world.open();
    write(&device, 2);
    device.close().unwrap();
    let why = device.write_at(0, &[3; 4096]).unwrap_err().to_string();
    assert!(why.contains("closed"), "{why}");
    assert!(device.zero(0, 4096).is_err());
    let mut block = [0; 4096];
    device.read_at(0, &mut block).unwrap();
    assert_eq!(block, [2; 4096]);
    device.close().unwrap();
    drop(device);
    let (device, read) = world.open();
    assert!(read <= 512);
    fits(&device);
}
