//! Bytes that are put back: with the tags that are there, or with adopted ones.

use pumice_blockdev::{BlockDevice, MemoryDevice, Tagged};
use pumice_protect::format::Place;
use pumice_protect::guard::Guard;
use pumice_protect::metadata::MetadataFormat;
use pumice_protect::origin::{Opinion, Origin, RestoredTag};
use pumice_tags::file::{SharedMedium, TagFile};
use pumice_tags::geometry::Geometry;
use pumice_tags::{DeviceMedium, TaggedDevice, TaggedMemory};
use std::sync::Arc;

const BLOCK: usize = 4096;
const BLOCKS: u64 = 5000;

fn metadata() -> MetadataFormat {
    MetadataFormat::tuple(Guard::Crc64).with_bytes(64, Place::Last).unwrap()
}

fn at(block: u64) -> u64 {
    block * BLOCK as u64
}

fn bytes(version: u8) -> Vec<u8> {
    (0..BLOCK).map(|i| version ^ (i / 9) as u8).collect()
}

struct World {
    drive: Arc<MemoryDevice>,
    tags: Arc<MemoryDevice>,
}

impl World {
    /// A unit smaller than a block: records carry the data.
    fn new(unit: u32) -> Self {
        let geometry = Geometry::new(at(BLOCKS), BLOCK as u32, unit, metadata(), 16 << 20).unwrap();
        let drive = Arc::new(MemoryDevice::new("d", at(BLOCKS)));
        let tags = Arc::new(MemoryDevice::new("tags", geometry.file_bytes()));
        let world = Self { drive, tags };
        TagFile::create(&world.medium(), geometry, 7, "").unwrap();
        world
    }

    fn medium(&self) -> SharedMedium {
        SharedMedium(Arc::new(DeviceMedium(self.tags.clone())))
    }

    fn open(&self) -> TaggedDevice {
        TaggedDevice::open(self.drive.clone(), self.medium(), "").unwrap()
    }

    /// Ends as a kill would: what is only in the log stays there.
    fn kill(&self, device: TaggedDevice) {
        let left = self.tags.resident().unwrap().clone();
        drop(device);
        self.tags.write_at(0, &left).unwrap();
    }
}

fn metadata_of(device: &dyn BlockDevice, block: u64) -> Vec<u8> {
    let mut beside = vec![0; 64];
    device.tagged().unwrap().read_with_metadata(at(block), &mut [0; BLOCK], &mut beside).unwrap();
    beside
}

fn opinion(device: &dyn BlockDevice, block: u64) -> Opinion {
    device.tagged().unwrap().read_judged(at(block), &mut [0; BLOCK]).unwrap()[0].opinion
}

#[test]
fn tags_stay_whatever_is_put_beside_them_also_over_a_kill() {
    for unit in [512, 4096] {
        let world = World::new(unit);
        let device = world.open();
        let [good, bad] = [bytes(1), bytes(2)];
        // Written with what the host sent, adopted, and nothing.
        let mut sent: Vec<u8> = (0..64).collect();
        device.write_at(at(3), &good).unwrap();
        sent[48..].copy_from_slice(&metadata_of(&device, 3)[48..]);
        device.write_with_metadata(at(3), &good, &sent).unwrap();
        device.adopt(4..5).unwrap();
        let adopted = metadata_of(&device, 4);
        let all = [bad.clone(), bad.clone(), bad.clone()].concat();
        device.restore(at(3), &all, RestoredTag::Stays).unwrap();
        let check = |device: &TaggedDevice| {
            assert_eq!((metadata_of(device, 3), metadata_of(device, 4)), (sent.clone(), adopted.clone()));
            assert_eq!(opinion(device, 4), Opinion::Differs(Origin::Adopted));
            assert_eq!(opinion(device, 5), Opinion::Unchecked);
            let mut read = vec![0; BLOCK];
            device.read_at(at(5), &mut read).unwrap();
            assert_eq!(read, bad);
        };
        check(&device);
        world.kill(device);
        let device = world.open();
        check(&device);
        assert!(device.recovered().damaged.is_empty(), "the log knows the bytes by their sum");
        let before = opinion(&device, 3);
        assert!(matches!(before, Opinion::Differs(Origin::Written)), "{before:?}");
        // What the tag is of comes back beside it. More than a record holds, at once.
        let many = vec![7; at(3000) as usize];
        device.restore(at(1000), &many, RestoredTag::Stays).unwrap();
        device.restore(at(3), &good, RestoredTag::Stays).unwrap();
        assert_eq!(metadata_of(&device, 3), sent);
        assert_eq!(
            (opinion(&device, 1000), opinion(&device, 3999)),
            (Opinion::Unchecked, Opinion::Unchecked)
        );
        device.close().unwrap();
        let device = world.open();
        assert_eq!(metadata_of(&device, 3), sent);
    }
}

#[test]
fn adopted_tags_are_no_witness_whatever_was_there() {
    let world = World::new(512);
    let device = world.open();
    device.write_at(at(3), &bytes(1)).unwrap();
    device.restore(at(3), &[bytes(2), bytes(3)].concat(), RestoredTag::Adopted).unwrap();
    for device in [Some(device), None] {
        let device = device.unwrap_or_else(|| world.open());
        assert_eq!(opinion(&device, 3), Opinion::Fits(Origin::Adopted));
        assert_eq!(opinion(&device, 4), Opinion::Fits(Origin::Adopted));
        world.kill(device);
    }
    assert!(world.open().restore(at(3) + 512, &bytes(1), RestoredTag::Adopted).is_err());
}

/// Memory has tags that came with the data, and none.
#[test]
fn memory_keeps_tags_or_has_none() {
    let memory = TaggedMemory::new("m", at(100), BLOCK as u32, metadata()).unwrap();
    memory.write_at(at(3), &bytes(1)).unwrap();
    let tag = metadata_of(&memory, 3);
    memory.restore(at(3), &[bytes(2), bytes(2)].concat(), RestoredTag::Stays).unwrap();
    assert_eq!((metadata_of(&memory, 3), opinion(&memory, 3)), (tag, Opinion::Differs(Origin::Written)));
    assert_eq!(opinion(&memory, 4), Opinion::Unchecked);
    memory.write_at(at(10), &bytes(1).repeat(9)).unwrap();
    memory.restore(at(11), &bytes(2).repeat(7), RestoredTag::Adopted).unwrap();
    let opinions: Vec<Opinion> = (10..19).map(|block| opinion(&memory, block)).collect();
    let fits = Opinion::Fits(Origin::Written);
    assert_eq!(opinions, [&[fits][..], &[Opinion::Unchecked; 7], &[fits]].concat());
    let mut read = vec![0; BLOCK];
    memory.read_at(at(12), &mut read).unwrap();
    assert_eq!(read, bytes(2));
}
