//! A piece of a gather that should be the XOR of others, on drives with tags: its guards follow
//! from theirs.

use pumice_base::buffer::AlignedBuffer;
use pumice_blockdev::{BlockDevice, Gather, Gathered, Gatherer, Judgement, MemoryDevice, Part, Sum};
use pumice_protect::guard::Guard;
use pumice_protect::origin::Origin;
use pumice_tags::file::{SharedMedium, TagFile};
use pumice_tags::geometry::Geometry;
use pumice_tags::{DeviceMedium, TaggedDevice};
use std::sync::Arc;

/// More than a group of pages.
const BLOCKS: u64 = 1000;

/// Drives with tags; the last is the XOR of the others, but for one beside the last that does not
/// count.
struct World {
    block: usize,
    raw: Vec<Arc<MemoryDevice>>,
    devices: Vec<Arc<TaggedDevice>>,
}

impl World {
    fn new(guard: Guard, block: u32, drives: usize) -> Self {
        let geometry = Geometry::new(BLOCKS * u64::from(block), block, 512, guard, 128 << 10).unwrap();
        let size = geometry.size() as usize;
        let mut contents: Vec<Vec<u8>> = (1..drives as u64)
            .map(|drive| {
                (0..size as u64).map(|i| (i * 31 + drive * 977 + ((i * drive) >> 7)) as u8).collect()
            })
            .collect();
        let mut sum = vec![0; size];
        for content in &contents[..drives - 2] {
            sum.iter_mut().zip(content).for_each(|(sum, byte)| *sum ^= byte);
        }
        contents.push(sum);
        let mut world = Self { block: block as usize, raw: Vec::new(), devices: Vec::new() };
        for content in contents {
            let raw = Arc::new(MemoryDevice::new("d", geometry.size()));
            let tags = Arc::new(MemoryDevice::new("tags", geometry.file_bytes()));
            let medium = SharedMedium(Arc::new(DeviceMedium(tags)));
            TagFile::create(&medium, geometry, 77, "serial").unwrap();
            let device = TaggedDevice::open(raw.clone(), medium, "serial").unwrap();
            device.write_at(0, &content).unwrap();
            device.keep_adopted(0).unwrap();
            world.raw.push(raw);
            world.devices.push(Arc::new(device));
        }
        world
    }

    fn gatherer(&self) -> Gatherer {
        let devices = self.devices.iter().map(|device| Arc::clone(device) as Arc<dyn BlockDevice>);
        Gatherer::new(devices.collect(), 4, pumice_blockdev::Engine::Inline).unwrap()
    }

    /// Reads blocks of all drives, some pieces before, so that the tags are here.
    fn read(&self, gatherer: &mut Gatherer, first: u64, blocks: usize) -> Gathered {
        let (count, len) = (self.devices.len(), blocks * self.block);
        let part = |device| Part { device, offset: first * self.block as u64, at: device * len, len };
        let sum = Some(Sum { part: count - 1, without: Some(count - 2) });
        let parts = (0..count).map(part).collect();
        gatherer.submit(Gather { tag: 0, buffer: AlignedBuffer::new(count * len), parts, sum });
        let done = gatherer.next(true).unwrap();
        assert!(done.failures.is_empty(), "{:?}", done.failures);
        for (drive, raw) in self.raw.iter().enumerate() {
            let mut expected = vec![0; len];
            raw.read_at(first * self.block as u64, &mut expected).unwrap();
            assert_eq!(done.buffer[drive * len..][..len], expected, "the bytes are those of the drive");
        }
        done
    }

    fn flip(&self, drive: usize, block: u64) {
        let (at, mut byte) = (block * self.block as u64 + 100, [0]);
        self.raw[drive].read_at(at, &mut byte).unwrap();
        self.raw[drive].write_at(at, &[byte[0] ^ 4]).unwrap();
    }
}

fn written(blocks: u64) -> Judgement {
    let mut judgement = Judgement::default();
    judgement.fits(Origin::Written, blocks);
    judgement
}

#[test]
fn the_tags_of_a_sum_are_checked_by_the_guards_of_its_terms() {
    // Of an odd number of terms and of an even one, the start values of guards cancel or do not.
    for (guard, block, drives) in Guard::ALL
        .into_iter()
        .flat_map(|guard| [(guard, 512, 5), (guard, 512, 6), (guard, 4096, 5), (guard, 4096, 6)])
    {
        let (world, context) = (World::new(guard, block, drives), format!("{guard} {block} {drives}"));
        let mut gatherer = world.gatherer();
        world.read(&mut gatherer, 0, 8);
        for first in [8, 100, 300, 900] {
            let done = world.read(&mut gatherer, first, 64);
            assert_eq!(done.if_sum, Some((drives - 1, written(64))), "{context} {first}");
            assert_eq!(done.judged.len(), drives - 1);
            assert!(done.judged.iter().all(|(_, judgement)| *judgement == written(64)), "{context}");
        }
        // A drive that does not count has no say, nor has the sum itself: nobody knows it is one.
        world.flip(drives - 2, 500);
        world.flip(drives - 1, 501);
        let done = world.read(&mut gatherer, 490, 20);
        assert_eq!(done.if_sum, Some((drives - 1, written(20))), "{context}");
        assert_eq!(done.judged[drives - 2].1.faulty[0].at, 10 * block as usize);
    }
}

#[test]
fn a_tag_that_a_sum_would_not_fit_is_checked_by_its_own_bytes() {
    let world = World::new(Guard::Crc16, 512, 6);
    let mut gatherer = world.gatherer();
    world.read(&mut gatherer, 0, 8);
    // The drive loses a write: the tag is that of other bytes.
    let mut old = vec![0; 512];
    world.raw[5].read_at(512 * 200, &mut old).unwrap();
    world.devices[5].write_at(512 * 200, &[9; 512]).unwrap();
    world.raw[5].write_at(512 * 200, &old).unwrap();
    for _ in 0..3 {
        let done = world.read(&mut gatherer, 190, 20);
        assert_eq!(done.if_sum, None);
        let (drive, judgement) = done.judged.last().unwrap();
        assert_eq!((*drive, judgement.faulty[0].at, judgement.faulty[0].len), (5, 512 * 10, 512));
    }
}

#[test]
fn guards_of_bytes_that_were_read_again_are_not_used() {
    let world = World::new(Guard::Crc16, 512, 6);
    let mut gatherer = world.gatherer();
    world.read(&mut gatherer, 0, 8);
    // One term differs from its tag, so it is read twice; other bytes may have come.
    world.flip(1, 300);
    for _ in 0..3 {
        let done = world.read(&mut gatherer, 290, 20);
        assert_eq!(done.if_sum, None);
        assert_eq!(done.judged.last().unwrap(), &(5, written(20)));
        assert_eq!(done.judged[1].1.faulty[0].at, 512 * 10);
    }
    let done = world.read(&mut gatherer, 400, 20);
    assert!(done.if_sum.is_some(), "of others they are");
}

#[test]
fn pieces_that_are_no_whole_blocks_and_sums_of_nothing_are_read_as_ever() {
    let world = World::new(Guard::Crc16, 512, 6);
    let mut gatherer = world.gatherer();
    world.read(&mut gatherer, 0, 8);
    // The offset of the sum, and bytes of all; and a sum alone.
    for (last, len, drives) in [(0, 4096, 6), (64, 4096, 6), (0, 4000, 6), (64, 960, 6), (64, 960, 1)] {
        let part = |device| {
            let offset = 4096 + if device + 1 == drives { last } else { 0 };
            Part { device, offset, at: device * 4096, len }
        };
        let (parts, sum) = ((0..drives).map(part).collect(), Some(Sum { part: drives - 1, without: None }));
        gatherer.submit(Gather { tag: 0, buffer: AlignedBuffer::new(drives * 4096), parts, sum });
        let done = gatherer.next(true).unwrap();
        assert!(done.failures.is_empty() && done.if_sum.is_none(), "{:?}", done.failures);
        assert_eq!(done.judged.len(), drives);
        assert!(done.judged.iter().all(|(_, judgement)| judgement.faulty.is_empty()));
    }
}
