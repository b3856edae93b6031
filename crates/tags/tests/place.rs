//! Files of tags: what opening one may write, and when.

use pumice_base::durable::{Medium, Ring, Slots};
use pumice_blockdev::{
    BlockDevice, Direct, FaultyDevice, FileDevice, MemoryDevice, OpenMode, Options, allocate,
};
use pumice_protect::format::Place;
use pumice_protect::guard::Guard;
use pumice_protect::metadata::MetadataFormat;
use pumice_tags::file::{SharedMedium, TagFile};
use pumice_tags::geometry::{Geometry, LOG_AT};
use pumice_tags::{DeviceMedium, TaggedDevice, open_place};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A size whose tags end beside a multiple of 4096 bytes.
const SIZE: u64 = 600 << 12;

fn drive(size: u64) -> Arc<dyn BlockDevice> {
    Arc::new(FaultyDevice::new("d", vec![0x11; size as usize], 1))
}

fn large() -> MetadataFormat {
    let tuple = MetadataFormat::tuple(Guard::Crc16);
    tuple.with_bytes(64, Place::First).and_then(|all| all.with_storage_bits(8)).unwrap()
}

fn opened(path: &Path, size: u64, block: u32, metadata: MetadataFormat, serial: &str) -> Result<(), String> {
    let drive = drive(size);
    let (medium, made) = open_place(path, &*drive, block, metadata, serial).map_err(|why| why.to_string())?;
    assert!(!made, "it was there");
    TaggedDevice::open(drive, medium, serial).map(drop).map_err(|why| why.to_string())
}

/// A tag file as earlier versions made it: it ends with its last part.
fn old_file(folder: &Path, unit: u32) -> (PathBuf, Geometry) {
    let path = folder.join("tags");
    let geometry = Geometry::new(SIZE, 4096, unit, large(), 128 << 10).unwrap();
    assert!(!geometry.file_bytes().is_multiple_of(4096));
    std::fs::write(&path, vec![0; geometry.file_bytes() as usize]).unwrap();
    TagFile::create(&medium(&path), geometry, 77, "serial").unwrap();
    (path, geometry)
}

fn medium(path: &Path) -> SharedMedium {
    let options = Options { direct: Direct::Off };
    let device = FileDevice::open(path, OpenMode::ReadWrite, options).unwrap();
    SharedMedium(Arc::new(DeviceMedium(Arc::new(device))))
}

#[test]
fn a_tag_file_that_is_refused_is_left_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let refused = |unit: u32, prepare: &dyn Fn(&Path, &Geometry), open: &dyn Fn(&Path) -> String| {
        let (path, geometry) = old_file(folder.path(), unit);
        prepare(&path, &geometry);
        let before = std::fs::read(&path).unwrap();
        let why = open(&path);
        assert!(std::fs::read(&path).unwrap() == before, "{why}: it was written to");
        why
    };
    let tuple = MetadataFormat::tuple(Guard::Crc16);
    let with = |bytes, place, bits| {
        tuple.with_bytes(bytes, place).and_then(|all| all.with_storage_bits(bits)).unwrap()
    };
    // Another drive, or other blocks.
    let odd = SIZE - 4096;
    for (size, block, metadata, serial, field) in [
        (odd, 4096, large(), "serial", "size: "),
        (SIZE, 4096, large(), "other", "serial number: "),
        (SIZE, 512, tuple, "serial", "block size: "),
        (SIZE, 4096, MetadataFormat::tuple(Guard::Crc64), "serial", "pi: "),
        (SIZE, 4096, tuple, "serial", "metadata: "),
        (SIZE, 4096, with(64, Place::Last, 8), "serial", "pi-place: "),
        (SIZE, 4096, with(64, Place::First, 0), "serial", "storage-tag: "),
    ] {
        let why = refused(512, &|_, _| (), &|path| opened(path, size, block, metadata, serial).unwrap_err());
        assert!(why.contains(field), "{why}");
    }
    let open = |path: &Path| opened(path, SIZE, 4096, large(), "serial").unwrap_err();
    // In use.
    let held = |path: &Path| {
        let _holder = FileDevice::open(path, OpenMode::ReadWrite, Options::default()).unwrap();
        open(path)
    };
    let why = refused(512, &|_, _| (), &held);
    assert!(why.contains("locked"), "{why}");
    // No tag file, one of another version, or one with a log that cannot be read.
    let nothing = |path: &Path, _: &Geometry| std::fs::write(path, vec![0; 100_100]).unwrap();
    let why = refused(512, &nothing, &open);
    assert!(why.contains("header: "), "{why}");
    let version = |path: &Path, _: &Geometry| {
        let body = TagFile::peek(&medium(path)).unwrap().encode();
        let old = Slots { offset: 0, slot_bytes: 4096, version: 1 };
        std::fs::write(path, [old.first(&body).unwrap(), vec![0; 100]].concat()).unwrap();
    };
    let why = refused(512, &version, &open);
    assert!(why.contains("header: version: "), "{why}");
    let records = |path: &Path, geometry: &Geometry, body: &[u8]| {
        let (mut ring, _) = Ring::open(medium(path), LOG_AT, geometry.log_bytes(), 512, 77).unwrap();
        for _ in 0..2 {
            for run in &ring.prepare([body.len()]).runs {
                let mut bytes = vec![0; run.len];
                ring.fill(run, &mut bytes, |_, into| into.copy_from_slice(body));
                ring.medium().write_at(run.at, &bytes).unwrap();
            }
            ring.sync().unwrap();
        }
    };
    refused(512, &|path, geometry| records(path, geometry, b"no record"), &open);
    let damaged = |path: &Path, geometry: &Geometry| {
        records(path, geometry, &[2; 24]);
        // The first is settled, so it cannot be torn.
        let file = std::fs::OpenOptions::new().write(true).open(path).unwrap();
        file.write_all_at(&[0xFF; 8], LOG_AT + 48).unwrap();
    };
    refused(512, &damaged, &open);
}

/// It would fail all writes once a page behind its end is to be written.
#[test]
fn a_tag_file_that_is_shorter_than_its_header_says_is_refused_and_left_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let (path, geometry) = old_file(folder.path(), 512);
    let whole = geometry.file_bytes();
    // Whole pages of memory and parts of them; without kept blocks, pages, the log.
    for len in [whole - 1, whole - 512, whole / 4096 * 4096, geometry.page_at(1), LOG_AT + 4096, LOG_AT] {
        let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
        file.set_len(len).unwrap();
        let before = std::fs::read(&path).unwrap();
        let lengths = format!("it has {len} bytes, but its header describes {whole}");
        let why = opened(&path, SIZE, 4096, large(), "serial").unwrap_err();
        assert!(why.contains(&lengths) && why.contains(path.to_str().unwrap()), "{why}");
        // Nor by those who have it open.
        let why = TaggedDevice::open(drive(SIZE), medium(&path), "serial").err().unwrap().to_string();
        assert!(why.contains(&lengths), "{why}");
        assert!(std::fs::read(&path).unwrap() == before, "{len}: it was written to");
    }
}

#[test]
fn a_tag_file_of_an_odd_length_is_lengthened_once_it_is_taken() {
    let folder = tempfile::tempdir().unwrap();
    let (path, _) = old_file(folder.path(), 512);
    let before = std::fs::read(&path).unwrap();
    let drive = drive(SIZE);
    let (medium, made) = open_place(&path, &*drive, 4096, large(), "serial").unwrap();
    assert!(!made);
    let after = std::fs::read(&path).unwrap();
    assert!(after.len().is_multiple_of(4096) && after.len() < before.len() + 4096);
    assert!(after[..before.len()] == before && after[before.len()..].iter().all(|byte| *byte == 0));
    // The lock is still held.
    let again = open_place(&path, &*drive, 4096, large(), "serial").err().unwrap().to_string();
    assert!(again.contains("locked"), "{again}");
    let device = TaggedDevice::open(drive, medium, "serial").unwrap();
    device.write_at(4096, &[3; 8192]).unwrap();
    drop(device);
    opened(&path, SIZE, 4096, large(), "serial").unwrap();
}

#[test]
fn a_new_log_that_carries_data_is_large_and_an_old_one_stays_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let (path, size) = (folder.path().join("tags"), 80 << 20);
    let drive: Arc<dyn BlockDevice> = Arc::new(FaultyDevice::new("d", vec![0x11; size], 1));
    let old = Geometry::new(size as u64, 4096, 512, Guard::Crc16, 8 << 20).unwrap();
    std::fs::write(&path, vec![0; old.file_bytes().next_multiple_of(4096) as usize]).unwrap();
    TagFile::create(&medium(&path), old, 77, "").unwrap();
    for log in [8 << 20, 10 << 20] {
        let (medium, _) = open_place(&path, &*drive, 4096, Guard::Crc16, "").unwrap();
        let device = TaggedDevice::open(drive.clone(), medium, "").unwrap();
        assert_eq!(device.header().geometry.log_bytes(), log);
        device.write_at(0, &[2; 1 << 20]).unwrap();
        drop(device);
        std::fs::remove_file(&path).unwrap();
    }
}

#[test]
fn a_tag_file_is_there_whole_or_not_at_all() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tags");
    let drive = MemoryDevice::new("m", 1 << 20);
    // Another drive may have its tags there.
    let neighbour = folder.path().join("tags.new");
    std::fs::write(&neighbour, [7; 100]).unwrap();
    let (medium, made) = open_place(&path, &drive, 512, Guard::Crc16, "s").unwrap();
    assert!(made);
    assert_eq!(TagFile::peek(&medium).unwrap().serial, "s");
    drop(medium);
    assert_eq!(std::fs::read(&neighbour).unwrap(), [7; 100]);
    std::fs::remove_file(neighbour).unwrap();
    assert!(!open_place(&path, &drive, 512, Guard::Crc16, "s").unwrap().1);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    // A file of zeros is no tag file, and is not made one: it may have been one.
    std::fs::write(&path, vec![0; 1 << 20]).unwrap();
    assert!(open_place(&path, &drive, 512, Guard::Crc16, "s").is_err());
}

/// Bytes that the file system has given a file.
fn allocated(path: &Path) -> u64 {
    std::fs::metadata(path).unwrap().blocks() * 512
}

#[test]
fn a_new_tag_file_has_all_its_room() {
    let folder = tempfile::tempdir().unwrap();
    // On a file system that cannot, nothing is promised.
    let probe = folder.path().join("probe");
    let file = std::fs::File::create(&probe).unwrap();
    allocate(&file, 1 << 20).unwrap();
    file.set_len(1 << 20).unwrap();
    if allocated(&probe) < 1 << 20 {
        return;
    }
    let path = folder.path().join("tags");
    let (_, made) = open_place(&path, &*drive(32 << 20), 512, Guard::Crc16, "").unwrap();
    let len = std::fs::metadata(&path).unwrap().len();
    assert!(made && allocated(&path) >= len, "{} of {len} bytes", allocated(&path));
}
