//! Tag files that change over to another atomic unit of their drive.

use pumice_blockdev::{BlockDevice, FileDevice, MemoryDevice, OpenMode, Options};
use pumice_protect::guard::Guard;
use pumice_tags::file::{SharedMedium, TagFile};
use pumice_tags::geometry::Geometry;
use pumice_tags::page::{Opinion, Origin};
use pumice_tags::{DeviceMedium, TaggedDevice, open_place};
use std::path::{Path, PathBuf};
use std::sync::Arc;

const BLOCK: usize = 4096;
const BLOCKS: u64 = 300;

struct World {
    folder: tempfile::TempDir,
}

impl World {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("drive"), vec![0x11; BLOCKS as usize * BLOCK]).unwrap();
        Self { folder }
    }

    fn tags(&self) -> PathBuf {
        self.folder.path().join("tags")
    }

    fn open(&self, unit: u32) -> TaggedDevice {
        let path = self.folder.path().join("drive");
        let drive = FileDevice::open(&path, OpenMode::ReadWrite, Options::default()).unwrap();
        assert_eq!(drive.atomic_unit(), 512, "a file");
        let drive = Arc::new(drive.with_atomic_unit(unit));
        let (medium, _) = open_place(&self.tags(), &*drive, BLOCK as u32, Guard::Crc16, "").unwrap();
        TaggedDevice::open(drive, medium, "").unwrap()
    }

    fn len(&self) -> u64 {
        std::fs::metadata(self.tags()).unwrap().len()
    }

    /// Ends as a kill would: what is only in the log stays there.
    fn kill(&self, device: TaggedDevice) {
        let left = std::fs::read(self.tags()).unwrap();
        drop(device);
        std::fs::write(self.tags(), left).unwrap();
    }
}

fn medium(path: &Path) -> SharedMedium {
    let device = FileDevice::open(path, OpenMode::ReadOnly, Options::default()).unwrap();
    SharedMedium(Arc::new(DeviceMedium(Arc::new(device))))
}

/// Bytes that no other block or version has at the same place.
fn data(block: u64, version: u8) -> Vec<u8> {
    (0..BLOCK).map(|at| (block as u8).wrapping_mul(7) ^ version ^ (at / 256 * 31 + at) as u8).collect()
}

fn fits(device: &TaggedDevice, blocks: std::ops::Range<u64>) {
    let opinions = device.judge(blocks.clone()).unwrap();
    assert!(opinions.iter().all(|opinion| *opinion == Opinion::Fits(Origin::Written)), "{blocks:?}");
}

#[test]
fn a_tag_file_of_a_larger_unit_changes_over_after_its_recovery_and_then_no_cut_tears_a_block() {
    let world = World::new();
    let device = world.open(4096);
    assert!(!device.header().geometry.carries_data());
    for block in 0..20 {
        device.write_at(block * BLOCK as u64, &data(block, 1)).unwrap();
    }
    let (before, made) = (device.header().geometry, world.len());
    world.kill(device);
    // The promise is taken back.
    let device = world.open(512);
    assert_eq!(device.recovered().logged, 20);
    let geometry = device.header().geometry;
    assert_eq!(geometry, before.with_data(true));
    assert!(world.len() > made && world.len() >= geometry.file_bytes());
    fits(&device, 0..20);
    device.write_at(0, &data(0, 2)).unwrap();
    device.flush().unwrap();
    world.kill(device);
    // A power cut: half of the block is what it was before.
    let torn = [&data(0, 2)[..2048], &data(0, 1)[2048..]].concat();
    std::fs::OpenOptions::new()
        .write(true)
        .open(world.folder.path().join("drive"))
        .and_then(|file| std::os::unix::fs::FileExt::write_all_at(&file, &torn, 0))
        .unwrap();
    let device = world.open(512);
    assert_eq!(device.recovered().rewritten, [0]);
    fits(&device, 0..20);
    // What is kept stays, whatever is promised now.
    drop(device);
    let device = world.open(4096);
    assert!(device.header().geometry.carries_data());
    let kept = TagFile::look_kept(medium(&world.tags())).unwrap();
    assert_eq!(kept.kept.len(), 1);
    assert_eq!(TagFile::read_kept(medium(&world.tags()), kept.kept[0].slot).unwrap().1, torn);
    device.forget_kept(kept.kept[0].slot).unwrap();
    drop(device);
    let device = world.open(4096);
    assert!(!device.header().geometry.carries_data());
    fits(&device, 0..20);
    device.write_at(BLOCK as u64, &data(1, 3)).unwrap();
    world.kill(device);
    fits(&world.open(4096), 0..20);
}

#[test]
fn heads_of_kept_blocks_are_zeros_when_a_file_changes_over_again() {
    let world = World::new();
    let device = world.open(4096);
    let geometry = device.header().geometry.with_data(true);
    drop(device);
    // Bytes of something else, where heads of kept blocks will lie.
    let mut all = std::fs::read(world.tags()).unwrap();
    all.resize(geometry.kept_head_at(0) as usize, 0);
    all.resize(geometry.file_bytes().next_multiple_of(4096) as usize, 0xA7);
    std::fs::write(world.tags(), all).unwrap();
    let device = world.open(512);
    assert!(device.header().geometry.carries_data());
    let kept = TagFile::look_kept(medium(&world.tags())).unwrap();
    assert_eq!((kept.kept.len(), kept.damaged.len()), (0, 0));
    assert_eq!(kept.room(), geometry.kept_blocks());
}

#[test]
fn a_device_that_has_no_room_for_kept_blocks_is_refused_and_left_as_it_is() {
    let geometry = Geometry::new(BLOCKS * BLOCK as u64, BLOCK as u32, 4096, Guard::Crc16, 64 << 10).unwrap();
    let tags = Arc::new(MemoryDevice::new("tags", geometry.file_bytes()));
    let medium = || SharedMedium(Arc::new(DeviceMedium(tags.clone())));
    TagFile::create(&medium(), geometry, 7, "").unwrap();
    let before = tags.resident().unwrap().clone();
    let world = World::new();
    let path = world.folder.path().join("drive");
    let open = |unit| {
        let drive = FileDevice::open(&path, OpenMode::ReadWrite, Options::default()).unwrap();
        TaggedDevice::open(Arc::new(drive.with_atomic_unit(unit)), medium(), "").map(drop)
    };
    let why = open(512).err().unwrap().to_string();
    assert!(why.starts_with("unit of writing: "), "{why}");
    assert!(*tags.resident().unwrap() == before);
    open(4096).unwrap();
}
