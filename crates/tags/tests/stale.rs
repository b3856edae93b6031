//! Tags that are stale: found before anything is written, whoever the drive was written by.

use pumice_blockdev::{BlockDevice, FaultyDevice, MemoryDevice};
use pumice_protect::guard::Guard;
use pumice_tags::file::{OnStale, SharedMedium, TagError, TagFile};
use pumice_tags::geometry::Geometry;
use pumice_tags::kept::Why;
use pumice_tags::{DeviceMedium, TaggedDevice};
use std::sync::Arc;

const SIZE: u64 = 4096;

/// A drive of 4096-byte blocks whose log carries the data, and its tag file.
struct World {
    drive: Arc<FaultyDevice>,
    tags: Arc<MemoryDevice>,
    blocks: u64,
}

impl World {
    fn new(blocks: u64) -> Self {
        let geometry = Geometry::new(blocks * SIZE, 4096, 512, Guard::Crc16, 8 << 20).unwrap();
        let drive = Arc::new(FaultyDevice::new("d", vec![0; geometry.size() as usize], 1));
        let tags = Arc::new(MemoryDevice::new("tags", geometry.file_bytes()));
        let world = Self { drive, tags, blocks };
        TagFile::create(&world.medium(), geometry, 77, "serial").unwrap();
        world
    }

    fn medium(&self) -> SharedMedium {
        SharedMedium(Arc::new(DeviceMedium(self.tags.clone())))
    }

    fn open(&self, on_stale: OnStale) -> Result<TaggedDevice, TagError> {
        TaggedDevice::open_as(self.drive.clone(), self.medium(), "serial", on_stale)
    }

    /// The state that the process has left when it is killed.
    fn kill(&self, device: TaggedDevice) {
        let left = self.file();
        drop(device);
        self.tags.write_at(0, &left).unwrap();
    }

    fn file(&self) -> Vec<u8> {
        self.tags.resident().unwrap().clone()
    }

    fn content(&self) -> Vec<u8> {
        self.drive.peek(0, (self.blocks * SIZE) as usize)
    }

    /// Changes 8 bytes of each block, without the tags.
    fn update_behind(&self, blocks: impl IntoIterator<Item = u64>) {
        for block in blocks {
            self.drive.write_at(block * SIZE + 512, &[0xC5; 8]).unwrap();
        }
    }
}

fn page(block: u64, version: u64) -> Vec<u8> {
    let mut state = block << 16 | version;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as u8
    };
    (0..SIZE).map(|_| next()).collect()
}

fn write(device: &TaggedDevice, block: u64, version: u64) {
    device.write_at(block * SIZE, &page(block, version)).unwrap();
}

/// The node dies, and the drive is served without its tags for a while: each page is updated in
/// part.
#[test]
fn recovery_of_stale_tags_writes_nothing_over_newer_data() {
    let world = World::new(4096);
    let device = world.open(OnStale::Fail).unwrap();
    (0..1000).for_each(|block| write(&device, block, 1));
    device.flush().unwrap();
    (0..500).for_each(|block| write(&device, 2 * block, 2));
    device.flush().unwrap();
    world.kill(device);
    world.update_behind(0..1000);
    let (content, file) = (world.content(), world.file());
    let refused = world.open(OnStale::Fail).map(drop);
    assert!(matches!(&refused, Err(TagError::Stale(_))), "{refused:?}");
    assert!(world.content() == content && world.file() == file, "nothing was written");
    // Served as it is, at the operator's word: the log's data are kept, and not written.
    let device = world.open(OnStale::Serve).unwrap();
    assert!(device.is_stale() && device.recovered().rewritten.is_empty());
    assert!(!device.recovered().left.is_empty());
    assert!(world.content() == content, "the drive was written");
    let kept = TagFile::look_kept(world.medium()).unwrap().kept;
    assert_eq!(kept.len(), device.recovered().left.len());
    assert!(kept.iter().all(|kept| kept.why == Why::Log));
    let (first, bytes) = TagFile::read_kept(world.medium(), kept[0].slot).unwrap();
    assert!(bytes == page(first.block, 1) || bytes == page(first.block, 2));
}

/// An older tag file that was copied after a crash: all that was updated since is in its log.
#[test]
fn an_older_tag_file_with_a_log_rolls_nothing_back() {
    let world = World::new(4096);
    let device = world.open(OnStale::Fail).unwrap();
    (0..300).for_each(|block| write(&device, block, 1));
    world.kill(device);
    let old = world.file();
    let device = world.open(OnStale::Fail).unwrap();
    for block in 0..300 {
        let mut updated = page(block, 1);
        updated[8..16].fill(0xC5);
        device.write_at(block * SIZE, &updated).unwrap();
    }
    device.flush().unwrap();
    drop(device);
    world.tags.write_at(0, &old).unwrap();
    let content = world.content();
    assert!(matches!(world.open(OnStale::Fail), Err(TagError::Stale(_))));
    assert!(world.content() == content);
}

/// However much of it a host reads.
#[test]
fn rot_makes_no_tags_stale_while_the_drive_is_open_nor_at_the_next_start() {
    let world = World::new(4096);
    let device = world.open(OnStale::Fail).unwrap();
    (0..4096).for_each(|block| write(&device, block, 1));
    drop(device);
    // Two in a hundred here and there, and a run of 400.
    let rotten: Vec<u64> =
        (0..4096).filter(|block| block % 50 == 7 || (1000..1400).contains(block)).collect();
    world.update_behind(rotten.iter().copied());
    for _ in 0..3 {
        let device = world.open(OnStale::Fail).unwrap();
        let mut block = vec![0; SIZE as usize];
        let refused = (0..4096).filter(|at| device.read_at(at * SIZE, &mut block).is_err());
        assert!(refused.eq(rotten.iter().copied()), "rot was returned");
        assert_eq!(device.refused_and_served(), (rotten.len() as u64, 0));
        assert!(!device.is_stale());
    }
}

#[test]
fn few_blocks_with_tags_are_enough_evidence() {
    for (blocks, tagged) in [(4096, 20), (100_000, 30), (4096, 4096)] {
        let world = World::new(blocks);
        let device = world.open(OnStale::Fail).unwrap();
        (0..tagged).for_each(|block| write(&device, block, 1));
        drop(device);
        world.update_behind(0..tagged);
        assert!(matches!(world.open(OnStale::Fail), Err(TagError::Stale(_))), "{blocks} {tagged}");
    }
}
