//! Drives whose blocks have more metadata than a tuple, and storage tags.

use pumice_base::durable::Slots;
use pumice_blockdev::{BlockDevice, FaultyDevice, MemoryDevice, Tagged};
use pumice_protect::command::Tags;
use pumice_protect::format::{Format, Place, Type};
use pumice_protect::guard::Guard;
use pumice_protect::metadata::MetadataFormat;
use pumice_protect::tuple::Tuple;
use pumice_tags::file::{SharedMedium, TagFile};
use pumice_tags::geometry::Geometry;
use pumice_tags::page::{Opinion, Origin};
use pumice_tags::{DeviceMedium, TaggedDevice, open_place};
use std::sync::Arc;

const BLOCK: usize = 4096;
const BLOCKS: u64 = 100;

/// Every place and guard of 64 bytes, and one of 16.
fn formats() -> Vec<MetadataFormat> {
    let mut formats = Vec::new();
    for guard in Guard::ALL {
        for place in [Place::First, Place::Last] {
            let large = MetadataFormat::tuple(guard).with_bytes(64, place).unwrap();
            formats.extend([large, large.with_storage_bits(20).unwrap()]);
        }
    }
    formats.push(MetadataFormat::tuple(Guard::Crc16).with_bytes(16, Place::Last).unwrap());
    formats
}

struct World {
    metadata: MetadataFormat,
    format: Format,
    drive: Arc<FaultyDevice>,
    tags: Arc<MemoryDevice>,
}

impl World {
    fn new(metadata: MetadataFormat) -> Self {
        let size = BLOCKS * BLOCK as u64;
        let geometry = Geometry::new(size, BLOCK as u32, 512, metadata, 128 << 10).unwrap();
        let drive = Arc::new(FaultyDevice::new("d", vec![0x11; size as usize], 1));
        let tags = Arc::new(MemoryDevice::new("tags", geometry.file_bytes()));
        let format = metadata.with_data(BLOCK, Type::One, u64::MAX).unwrap();
        let world = Self { metadata, format, drive, tags };
        TagFile::create(&world.medium(), geometry, 77, "").unwrap();
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

    /// The data and the metadata of a host, in a version.
    fn made(&self, block: u64, version: u8) -> (Vec<u8>, Vec<u8>) {
        let data: Vec<u8> = (0..BLOCK).map(|i| block as u8 ^ version ^ (i / 7) as u8).collect();
        let mut beside: Vec<u8> = (0..self.metadata.bytes()).map(|i| version ^ (i * 3) as u8).collect();
        let tags = Tags { application: 9, storage: version.into(), ..Tags::at(&self.format, block) };
        pumice_protect::blocks::generate(&self.format, &tags, &data, &mut beside);
        (data, beside)
    }

    fn write(&self, device: &TaggedDevice, block: u64, version: u8) {
        let (data, beside) = self.made(block, version);
        device.write_with_metadata(block * BLOCK as u64, &data, &beside).unwrap();
    }

    fn read(&self, device: &TaggedDevice, block: u64) -> (Vec<u8>, Vec<u8>) {
        let (mut data, mut beside) = (vec![0; BLOCK], vec![0; self.metadata.bytes()]);
        device.read_with_metadata(block * BLOCK as u64, &mut data, &mut beside).unwrap();
        (data, beside)
    }

    /// The metadata that the node makes.
    fn of_node(&self, block: u64, data: &[u8]) -> Vec<u8> {
        let mut beside = vec![0; self.metadata.bytes()];
        pumice_protect::blocks::generate(&self.format, &Tags::at(&self.format, block), data, &mut beside);
        beside
    }

    fn hidden(&self, device: &TaggedDevice, block: u64) -> Result<Vec<u8>, bool> {
        let mut data = vec![0; BLOCK];
        let read = device.read_at(block * BLOCK as u64, &mut data);
        read.map(|()| data).map_err(|error| error.is_protection_error())
    }
}

#[test]
fn metadata_are_stored_with_the_block_over_kills_and_restarts() {
    for metadata in formats() {
        let world = World::new(metadata);
        let device = world.open();
        for block in 0..BLOCKS {
            world.write(&device, block, 1);
        }
        world.write(&device, 50, 2);
        // Over a kill from the log, then over a restart from the pages.
        world.kill(device);
        for _ in 0..2 {
            let device = world.open();
            for block in 0..BLOCKS {
                let version = if block == 50 { 2 } else { 1 };
                assert!(world.read(&device, block) == world.made(block, version), "{metadata:?} {block}");
                assert_eq!(world.hidden(&device, block), Ok(world.made(block, version).0));
            }
            let judged = device.judge(0..BLOCKS).unwrap();
            assert!(judged.iter().all(|opinion| *opinion == Opinion::Fits(Origin::Written)));
        }
    }
}

/// The same data with other metadata: the newer ones, which the block may have had.
#[test]
fn a_kill_never_mixes_the_metadata_of_two_writes() {
    for metadata in formats() {
        let world = World::new(metadata);
        let device = world.open();
        let (data, mut beside) = world.made(3, 1);
        device.write_with_metadata(3 * BLOCK as u64, &data, &beside).unwrap();
        let others = if metadata.place() == Place::First { metadata.bytes() - 1 } else { 0 };
        beside[others] ^= 0xFF;
        let at = world.format.tuple_range();
        let guard =
            metadata.guard().of(&[&data[..], &beside[..world.format.covered_bytes() - BLOCK]].concat());
        let tuple = Tuple { guard, ..Tuple::decode(&world.format, &beside[at.clone()]) };
        beside[at].copy_from_slice(tuple.encode(&world.format).as_slice());
        device.write_with_metadata(3 * BLOCK as u64, &data, &beside).unwrap();
        world.kill(device);
        let device = world.open();
        assert!(world.read(&device, 3) == (data, beside), "{metadata:?}");
        assert!(world.hidden(&device, 3).is_ok());
    }
}

#[test]
fn the_hidden_face_makes_other_metadata_zeros_and_its_blocks_fit() {
    for metadata in formats() {
        let world = World::new(metadata);
        let device = world.open();
        let zeros = vec![0; BLOCK];
        for block in 0..4 {
            world.write(&device, block, 1);
        }
        let (data, _) = world.made(0, 7);
        device.write_at(0, &data).unwrap();
        device.zero(BLOCK as u64, BLOCK as u64).unwrap();
        for device in [Some(device), None] {
            let device = device.unwrap_or_else(|| world.open());
            assert!(world.read(&device, 0) == (data.clone(), world.of_node(0, &data)), "{metadata:?}");
            assert!(world.read(&device, 1) == (zeros.clone(), world.of_node(1, &zeros)), "{metadata:?}");
            assert!(world.hidden(&device, 0).is_ok() && world.hidden(&device, 1).is_ok());
            // No tag: an escape in all of the metadata.
            assert!(world.read(&device, 90).1.iter().all(|byte| *byte == 0xFF));
            world.kill(device);
        }
        // Zeros with a host's metadata.
        let device = world.open();
        let (_, beside) = world.made(2, 3);
        device.zero_with_metadata(2 * BLOCK as u64, &beside, false).unwrap();
        assert!(world.read(&device, 2) == (zeros, beside), "{metadata:?}");
    }
}

#[test]
fn damage_is_found_and_the_guard_of_the_data_is_told() {
    for metadata in formats() {
        let world = World::new(metadata);
        let device = world.open();
        let good = world.made(5, 1).0;
        world.write(&device, 5, 1);
        let at = 5 * BLOCK as u64;
        world.drive.write_at(at + 100, &[0xEE]).unwrap();
        assert_eq!(world.hidden(&device, 5), Err(true), "{metadata:?}");
        let judged = device.read_judged(at, &mut vec![0; BLOCK]).unwrap();
        assert_eq!(judged[0].opinion, Opinion::Differs(Origin::Written));
        assert_eq!(judged[0].guard, metadata.guard().of(&good), "that of the data that were written");
        // Accepted as it is: the other metadata stay, and the guard covers them.
        let (_, before) = world.read(&device, 5);
        assert!(device.release(5).unwrap());
        let (data, beside) = world.read(&device, 5);
        assert!(world.hidden(&device, 5).is_ok());
        let tuple = world.format.tuple_range();
        let others = |beside: &[u8]| [&beside[..tuple.start], &beside[tuple.end..]].concat();
        assert_eq!(others(&beside), others(&before));
        let tags = Tags { application: 0, ..Tags::at(&world.format, 5) };
        let checks = pumice_protect::command::Prchk::ALL;
        assert_eq!(pumice_protect::blocks::verify(&world.format, &tags, checks, &data, &beside), None);
    }
}

#[test]
fn adopted_tags_can_be_vouched_for_and_keep_their_metadata() {
    for metadata in formats() {
        let world = World::new(metadata);
        let device = world.open();
        assert_eq!(device.adopt(0..3).unwrap(), (vec![Opinion::Unchecked; 3], 3));
        assert_eq!(device.vouch(0, 3 * BLOCK as u64).unwrap(), 3);
        assert_eq!(device.judge(0..3).unwrap(), [Opinion::Fits(Origin::Vouched); 3]);
        let data = vec![0x11; BLOCK];
        assert!(world.read(&device, 2) == (data.clone(), world.of_node(2, &data)), "{metadata:?}");
    }
}

/// Application tag FFFFh: the host asked for no check. Adoption leaves that as it is, each time.
#[test]
fn blocks_that_ask_for_no_check_are_not_adopted() {
    for metadata in formats() {
        let world = World::new(metadata);
        let device = world.open();
        let (data, mut beside) = world.made(7, 1);
        let tags = Tags { application: 0xFFFF, ..Tags::at(&world.format, 7) };
        pumice_protect::blocks::generate(&world.format, &tags, &data, &mut beside);
        device.write_with_metadata(7 * BLOCK as u64, &data, &beside).unwrap();
        for adopted in [BLOCKS - 1, 0] {
            let found = pumice_tags::adoption::adopt(&device, |_| true).unwrap();
            let fit = BLOCKS - 1 - adopted;
            assert_eq!((found.adopted, found.fit, found.unchecked), (adopted, fit, 1), "{metadata:?}");
            assert!(world.read(&device, 7) == (data.clone(), beside.clone()), "{metadata:?}");
        }
    }
}

#[test]
fn a_tag_file_of_other_metadata_is_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let drive = MemoryDevice::new("m", 1 << 20);
    let tuple = MetadataFormat::tuple(Guard::Crc16);
    let with = |bytes, place, bits| {
        tuple.with_bytes(bytes, place).and_then(|metadata| metadata.with_storage_bits(bits)).unwrap()
    };
    let path = folder.path().join("large");
    drop(open_place(&path, &drive, 4096, with(64, Place::First, 8), "").unwrap());
    assert!(!open_place(&path, &drive, 4096, with(64, Place::First, 8), "").unwrap().1);
    for (metadata, field) in [
        (MetadataFormat::tuple(Guard::Crc64), "pi"),
        (tuple, "metadata"),
        (with(16, Place::First, 8), "metadata"),
        (with(64, Place::Last, 8), "pi-place"),
        (with(64, Place::First, 0), "storage-tag"),
    ] {
        let why = open_place(&path, &drive, 4096, metadata, "").err().expect("another format").to_string();
        assert!(why.contains(&format!(": {field}: ")), "{why}");
    }
    // Programs that read only version 2 find nothing that they know; what they know stays as it is.
    let slots = |version| Slots { offset: 0, slot_bytes: 4096, version };
    let there = |path: &std::path::Path, version| {
        let bytes = std::fs::read(path).unwrap();
        let medium = MemoryDevice::new("m", bytes.len() as u64);
        medium.write_at(0, &bytes).unwrap();
        slots(version).load(&DeviceMedium(Arc::new(medium))).unwrap().is_some()
    };
    assert!(there(&path, 3) && !there(&path, 2) && !there(&path, 1));
    let path = folder.path().join("small");
    drop(open_place(&path, &drive, 4096, Guard::Crc16, "").unwrap());
    assert!(there(&path, 2) && !there(&path, 3));
}

#[test]
fn metadata_that_no_drive_has_are_refused() {
    let tuple = MetadataFormat::tuple(Guard::Crc64);
    let new = |block, metadata: MetadataFormat| Geometry::new(1 << 20, block, block, metadata, 1 << 20);
    let large = tuple.with_bytes(64, Place::Last).unwrap();
    assert!(new(4096, large).is_ok());
    assert_eq!(new(512, large).unwrap_err().field, "metadata");
    for bytes in [24, 32, 65, 128, 4096] {
        let odd = tuple.with_bytes(bytes, Place::Last).unwrap();
        assert_eq!(new(4096, odd).unwrap_err().field, "metadata", "{bytes}");
    }
}
