//! Drives with tags, from outside: damage, writes behind the node's back, lost and restored tags.

use pumice_base::durable::Slots;
use pumice_blockdev::{BlockDevice, FaultyDevice, IoError, MemoryDevice, Operation};
use pumice_protect::guard::Guard;
use pumice_protect::origin::RestoredTag;
use pumice_tags::adoption::{Adopted, adopt};
use pumice_tags::file::{OnStale, SharedMedium, TagError, TagFile};
use pumice_tags::geometry::Geometry;
use pumice_tags::kept::Why;
use pumice_tags::page::{Opinion, Origin};
use pumice_tags::{DeviceMedium, TaggedDevice, make_in_memory};
use std::sync::Arc;

const BLOCKS: u64 = 600;

struct World {
    geometry: Geometry,
    drive: Arc<dyn BlockDevice>,
    tags: Arc<MemoryDevice>,
}

impl World {
    fn new(block: u32) -> Self {
        let geometry = Geometry::new(BLOCKS * u64::from(block), block, 512, Guard::Crc16, 128 << 10).unwrap();
        let drive = Arc::new(FaultyDevice::new("d", vec![0x11; geometry.size() as usize], 1));
        Self::over(geometry, drive)
    }

    fn over(geometry: Geometry, drive: Arc<dyn BlockDevice>) -> Self {
        let tags = Arc::new(MemoryDevice::new("tags", geometry.file_bytes()));
        let world = Self { geometry, drive, tags };
        TagFile::create(&world.medium(), geometry, 77, "serial").unwrap();
        world
    }

    fn medium(&self) -> SharedMedium {
        SharedMedium(Arc::new(DeviceMedium(self.tags.clone())))
    }

    fn open(&self) -> TaggedDevice {
        TaggedDevice::open(self.drive.clone(), self.medium(), "serial").unwrap()
    }

    fn open_as(&self, on_stale: OnStale) -> TaggedDevice {
        TaggedDevice::open_as(self.drive.clone(), self.medium(), "serial", on_stale).unwrap()
    }

    /// Ends as a kill would: what is only in the log stays there.
    fn kill(&self, device: TaggedDevice) {
        let left = self.tags.resident().unwrap().clone();
        drop(device);
        self.tags.write_at(0, &left).unwrap();
    }

    fn at(&self, block: u64) -> u64 {
        block * self.geometry.block_bytes() as u64
    }

    fn data(&self, block: u64, version: u8) -> Vec<u8> {
        (0..self.geometry.block_bytes()).map(|i| (block as u8).wrapping_mul(7) ^ version ^ i as u8).collect()
    }

    fn write_all(&self, device: &TaggedDevice, version: u8) {
        let all: Vec<u8> = (0..BLOCKS).flat_map(|block| self.data(block, version)).collect();
        device.write_at(0, &all).unwrap();
        device.flush().unwrap();
    }

    fn read(&self, device: &TaggedDevice, block: u64) -> Result<Vec<u8>, IoError> {
        let mut buf = vec![0; self.geometry.block_bytes()];
        device.read_at(self.at(block), &mut buf).map(|()| buf)
    }

    /// A write that the tags do not see.
    fn write_behind(&self, block: u64, version: u8) {
        self.drive.write_at(self.at(block), &self.data(block, version)).unwrap();
    }
}

#[test]
fn damage_is_refused_and_a_rewrite_heals_it() {
    for block in [512, 4096] {
        let world = World::new(block);
        let device = world.open();
        world.write_all(&device, 1);
        world.drive.write_at(world.at(9) + 100, &[0xEE]).unwrap();
        let error = world.read(&device, 9).unwrap_err();
        assert!(error.is_protection_error() && error.is_media_error(), "{error}");
        // A read over it fails whole, and gives nothing of it.
        let mut buf = vec![0x55; 4 * block as usize];
        assert!(device.read_at(world.at(8), &mut buf).is_err());
        assert!(buf.iter().all(|byte| *byte == 0));
        assert_eq!(device.refused_and_served(), (2, 0));
        assert_eq!(world.read(&device, 8).unwrap(), world.data(8, 1));
        // Over a restart.
        drop(device);
        let device = world.open();
        assert!(world.read(&device, 9).is_err());
        device.write_at(world.at(9), &world.data(9, 1)).unwrap();
        assert_eq!(world.read(&device, 9).unwrap(), world.data(9, 1));
    }
}

#[test]
fn what_was_never_written_is_served_unchecked_and_adopted_tags_are_no_witness() {
    let world = World::new(512);
    let device = world.open();
    world.drive.write_at(world.at(3), &[0xEE]).unwrap();
    assert!(world.read(&device, 3).is_ok());
    assert_eq!(device.adopt(0..10).unwrap(), (vec![Opinion::Unchecked; 10], 10));
    assert_eq!(device.adopt(0..10).unwrap(), (vec![Opinion::Fits(Origin::Adopted); 10], 0));
    device.write_at(world.at(4), &world.data(4, 1)).unwrap();
    device.keep_adopted(10).unwrap();
    device.close().unwrap();
    let census = device.census().unwrap();
    assert_eq!((census.origins, census.lost_pages), ([590, 1, 9, 0], 0));
    assert!(!Origin::Adopted.is_witness());
    // Adopting is no acquittal: damage after it is found, damage to what was written too.
    world.drive.write_at(world.at(5), &[0xEE]).unwrap();
    world.drive.write_at(world.at(4), &[0xEE]).unwrap();
    let (verdicts, _) = device.adopt(0..10).unwrap();
    assert_eq!(
        (verdicts[4], verdicts[5]),
        (Opinion::Differs(Origin::Written), Opinion::Differs(Origin::Adopted))
    );
    assert!(world.read(&device, 4).is_err(), "adopting again did not bless it");
    assert_eq!(device.header().adopted, 10);
}

/// An initramfs that assembled the array on the raw drives: many blocks are newer than their tags.
#[test]
fn writes_behind_the_back_lose_nothing_and_throw_no_member_out() {
    let world = World::new(512);
    let device = world.open();
    world.write_all(&device, 1);
    for block in 0..400 {
        world.write_behind(block, 2);
    }
    // While the drive is open nobody else writes it: however many differ, they have rotted.
    let refused = (0..BLOCKS).filter(|block| world.read(&device, *block).is_err()).count();
    assert_eq!(refused, 400);
    assert!(!device.is_stale() && !device.header().stale);
    drop(device);
    // At a start a sample decides. Without another word the drive is not opened.
    let before = world.tags.resident().unwrap().clone();
    let refused = TaggedDevice::open(world.drive.clone(), world.medium(), "serial").map(drop);
    assert!(matches!(&refused, Err(TagError::Stale(_))), "{refused:?}");
    assert!(refused.unwrap_err().to_string().contains("nothing was written"));
    assert!(*world.tags.resident().unwrap() == before, "nothing was written");
    let device = world.open_as(OnStale::Serve);
    assert!(device.is_stale() && device.header().stale);
    // Everything is there, as it was written last.
    for block in 0..BLOCKS {
        let version = if block < 400 { 2 } else { 1 };
        assert_eq!(world.read(&device, block).unwrap(), world.data(block, version), "{block}");
    }
    // New writes go on, and an operator may decide to believe the tags again.
    device.write_at(world.at(7), &world.data(7, 3)).unwrap();
    drop(device);
    let device = world.open_as(OnStale::Believe);
    device.set_stale(false).unwrap();
    assert_eq!(world.read(&device, 7).unwrap(), world.data(7, 3));
    assert!(world.read(&device, 8).is_err());
    drop(device);
    let device = world.open_as(OnStale::Refuse);
    assert!(!device.is_stale() && world.read(&device, 8).is_err());
    // The next start takes a sample.
    drop(device);
    assert!(TaggedDevice::open(world.drive.clone(), world.medium(), "serial").is_err());
}

/// An array reads a block, loses it, rebuilds it and writes it, block after block.
#[test]
fn a_rotten_drive_stays_protected_while_its_blocks_are_healed() {
    let world = World::new(512);
    let device = world.open();
    world.write_all(&device, 1);
    (0..400).for_each(|block| world.write_behind(block, 2));
    for block in 0..400 {
        assert!(world.read(&device, block).is_err(), "{block}");
        device.write_at(world.at(block), &world.data(block, 1)).unwrap();
    }
    assert!(!device.is_stale());
    assert_eq!(device.refused_and_served(), (400, 0));
    (0..BLOCKS).for_each(|block| assert_eq!(world.read(&device, block).unwrap(), world.data(block, 1)));
}

#[test]
fn a_lost_page_is_served_unchecked_and_a_finding() {
    let world = World::new(512);
    let device = world.open();
    world.write_all(&device, 1);
    drop(device);
    let page = world.geometry.page_at(2);
    world.tags.write_at(page + 40, &[0xEE]).unwrap();
    let device = world.open();
    for block in 0..BLOCKS {
        assert_eq!(world.read(&device, block).unwrap(), world.data(block, 1));
    }
    assert_eq!((device.lost_pages(), device.refused_and_served()), (1, (0, 0)));
    // A write makes a new page; its neighbours stay unchecked.
    device.write_at(world.at(130), &world.data(130, 2)).unwrap();
    drop(device);
    let device = world.open();
    world.drive.write_at(world.at(130), &[0xEE]).unwrap();
    world.drive.write_at(world.at(131), &[0xEE]).unwrap();
    assert!(world.read(&device, 130).is_err() && world.read(&device, 131).is_ok());
}

#[test]
fn a_restored_old_tag_file_loses_nothing() {
    let world = World::new(512);
    let device = world.open();
    world.write_all(&device, 1);
    drop(device);
    let old = world.tags.resident().unwrap().clone();
    let device = world.open();
    for block in 100..110 {
        device.write_at(world.at(block), &world.data(block, 2)).unwrap();
    }
    drop(device);
    world.tags.write_at(0, &old).unwrap();
    let device = world.open();
    // Ten blocks of 600 are newer than their tags, which looks like rot: they are refused, as they
    // are.
    assert!(!device.is_stale());
    for block in 0..BLOCKS {
        let is_newer = (100..110).contains(&block);
        assert_eq!(world.read(&device, block).is_err(), is_newer, "{block}");
        if is_newer {
            assert!(device.release(block).unwrap());
        }
        let version = if is_newer { 2 } else { 1 };
        assert_eq!(world.read(&device, block).unwrap(), world.data(block, version), "{block}");
    }
}

#[test]
fn tags_of_another_drive_are_refused_by_field() {
    let world = World::new(512);
    let small = Arc::new(MemoryDevice::new("m", 512));
    let open = |drive: Arc<dyn BlockDevice>, serial: &str| {
        TaggedDevice::open(drive, world.medium(), serial).err().map(|error| error.to_string())
    };
    assert!(open(small, "serial").unwrap().starts_with("size: "));
    assert!(open(world.drive.clone(), "other").unwrap().starts_with("serial number: "));
    assert_eq!(open(world.drive.clone(), ""), None);
    let none = SharedMedium(Arc::new(DeviceMedium(Arc::new(MemoryDevice::new("t", 1 << 20)))));
    assert!(TaggedDevice::open(world.drive.clone(), none, "").is_err());
}

#[test]
fn parts_of_blocks_are_read_and_not_written() {
    let world = World::new(4096);
    let device = world.open();
    world.write_all(&device, 1);
    let mut buf = [0; 700];
    device.read_at(world.at(5) + 3900, &mut buf).unwrap();
    assert_eq!(buf[..196], world.data(5, 1)[3900..]);
    assert_eq!(buf[196..], world.data(6, 1)[..504]);
    assert!(!device.write_at(512, &[0; 512]).unwrap_err().is_media_error());
    assert!(device.read_at(world.geometry.size() - 1, &mut buf).is_err());
    device.zero(world.at(3), 3 * 4096).unwrap();
    device.discard(world.at(9), 4096).unwrap();
    for block in [3, 4, 5, 9] {
        assert_eq!(world.read(&device, block).unwrap(), vec![0; 4096]);
    }
    world.drive.write_at(world.at(4), &[1]).unwrap();
    assert!(world.read(&device, 4).is_err(), "zeros have tags too");
}

/// Threads that write and read the same few blocks: each read is of one version, and none is
/// refused.
#[test]
fn threads_that_meet_see_one_version_of_data_and_tag() {
    for block in [512, 4096] {
        let world = World::new(block);
        let device = world.open();
        std::thread::scope(|scope| {
            for thread in 0..4_u8 {
                let (world, device) = (&world, &device);
                scope.spawn(move || {
                    for round in 0..200_u64 {
                        let at = (round * 7 + u64::from(thread)) % 12;
                        let data = [world.data(at, thread), world.data(at + 1, thread)].concat();
                        device.write_at(world.at(at), &data).unwrap();
                        let mut buf = vec![0; 3 * block as usize];
                        device.read_at(world.at(round % 10), &mut buf).unwrap();
                        if round % 50 == 0 {
                            device.flush().unwrap();
                        }
                    }
                });
            }
        });
        drop(device);
        let device = world.open();
        assert!(device.header().generation >= 2);
        let verdicts = device.judge(0..13).unwrap();
        assert_eq!(verdicts, [Opinion::Fits(Origin::Written); 13]);
    }
}

#[test]
fn when_the_tag_file_fails_writes_are_refused_and_reads_are_checked() {
    let geometry = Geometry::new(BLOCKS * 512, 512, 512, Guard::Crc16, 128 << 10).unwrap();
    let drive: Arc<dyn BlockDevice> = Arc::new(MemoryDevice::new("m", geometry.size()));
    let tags = Arc::new(FaultyDevice::new("t", vec![0; geometry.file_bytes() as usize], 1));
    let medium = SharedMedium(Arc::new(DeviceMedium(tags.clone())));
    TagFile::create(&medium, geometry, 1, "").unwrap();
    let device = TaggedDevice::open(drive.clone(), medium, "").unwrap();
    device.write_at(0, &[1; 1024]).unwrap();
    tags.refuse_writes(0..geometry.file_bytes());
    assert!(!device.write_at(512, &[2; 512]).unwrap_err().is_media_error());
    assert!(device.failing().unwrap().starts_with("tag file: "));
    let mut buf = [0; 1024];
    device.read_at(0, &mut buf).unwrap();
    assert_eq!(buf, [1; 1024]);
    drive.write_at(100, &[9]).unwrap();
    assert!(device.read_at(0, &mut buf).unwrap_err().is_protection_error());
    device.flush().unwrap();
}

#[test]
fn adoption_goes_on_where_it_stopped_and_blesses_nothing() {
    let geometry = Geometry::new(5 << 20, 512, 512, Guard::Crc16, 128 << 10).unwrap();
    let drive = Arc::new(FaultyDevice::new("d", vec![0x22; geometry.size() as usize], 1));
    let world = World::over(geometry, drive.clone());
    let device = world.open();
    device.write_at(world.at(5000), &world.data(5000, 1)).unwrap();
    drive.write_at(world.at(5000), &[0xEE]).unwrap();
    drive.lose(world.at(7000)..world.at(7000) + 1);
    // Stopped after two pieces; what was done is kept.
    let mut pieces = 0;
    let mut two = |_| {
        pieces += 1;
        pieces < 2
    };
    let found = adopt(&device, &mut two).unwrap();
    assert_eq!((found.adopted, found.complete), (4096, false));
    drop(device);
    let device = world.open();
    assert_eq!(device.header().adopted, 4096);
    let found = adopt(&device, |_| true).unwrap();
    let expected = Adopted {
        adopted: 10_240 - 4096 - 2,
        differ: 1,
        first_differs: Some(5000),
        unreadable: 1,
        complete: true,
        ..Adopted::default()
    };
    assert_eq!(found, expected);
    device.close().unwrap();
    let (header, census) = {
        let mut told = Vec::new();
        let looked = TagFile::look(world.medium(), &mut |done, of| told.push((done, of))).unwrap();
        let pages = looked.0.geometry.pages();
        assert_eq!(told, (1..=pages).map(|done| (done, pages)).collect::<Vec<_>>());
        looked
    };
    assert_eq!((census.origins, header.clean), ([1, 1, 10_238, 0], true));
    // Again, to check: nothing is adopted twice.
    let found = adopt(&device, |_| true).unwrap();
    assert_eq!((found.adopted, found.fit, found.differ), (0, 10_238, 1));
    // An operator accepts the block as it is.
    assert!(world.read(&device, 5000).is_err());
    assert!(device.release(5000).unwrap() && !device.release(5001).unwrap());
    drop(device);
    let device = world.open();
    assert_eq!(world.read(&device, 5000).unwrap()[0], 0xEE);
    assert_eq!(device.judge(5000..5001).unwrap(), [Opinion::Fits(Origin::Adopted)]);
}

/// A thread that brings pages home waits while another carries the checkpoint out, and is woken.
/// A drive that cannot flush.
struct NoFlush(MemoryDevice);

impl BlockDevice for NoFlush {
    fn name(&self) -> &str {
        self.0.name()
    }
    fn size_bytes(&self) -> u64 {
        self.0.size_bytes()
    }
    fn logical_block(&self) -> u32 {
        self.0.logical_block()
    }
    fn read_only(&self) -> bool {
        false
    }
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), IoError> {
        self.0.read_at(offset, buf)
    }
    fn write_at(&self, offset: u64, data: &[u8]) -> Result<(), IoError> {
        self.0.write_at(offset, data)
    }
    fn flush(&self) -> Result<(), IoError> {
        // Others come to wait meanwhile.
        std::thread::sleep(std::time::Duration::from_millis(2));
        Err(IoError::new(self.name(), Operation::Flush, 0, 0, std::io::ErrorKind::Other.into()))
    }
}

#[test]
fn a_flush_that_fails_fails_for_all_who_share_it() {
    let geometry = Geometry::new(BLOCKS * 512, 512, 512, Guard::Crc16, 128 << 10).unwrap();
    let world = World::over(geometry, Arc::new(NoFlush(MemoryDevice::new("d", BLOCKS * 512))));
    let device = world.open();
    std::thread::scope(|scope| {
        for thread in 0..6 {
            let device = &device;
            scope.spawn(move || {
                for _ in 0..10 {
                    device.write_at(thread * 512, &[7; 512]).unwrap();
                    device.flush().unwrap_err();
                }
            });
        }
    });
}

#[test]
fn who_waits_for_a_checkpoint_of_another_thread_is_woken() {
    let world = World::new(512);
    let device = world.open();
    std::thread::scope(|scope| {
        for thread in 0..3_u64 {
            let (world, device) = (&world, &device);
            scope.spawn(move || {
                for round in 0..300 {
                    let at = (round * 3 + thread * 100) % BLOCKS;
                    device.write_at(world.at(at), &world.data(at, round as u8)).unwrap();
                    device.keep_adopted(0).unwrap();
                }
            });
        }
    });
    device.close().unwrap();
}

#[test]
fn a_drive_in_memory_has_blocks_larger_than_its_sectors_without_data_in_the_log() {
    let drive = Arc::new(MemoryDevice::new("m", 1 << 20));
    let medium = make_in_memory(&*drive, 4096, Guard::Crc64).unwrap();
    let device = TaggedDevice::open(drive, medium, "").unwrap();
    assert!(!device.header().geometry.carries_data());
    device.write_at(4096, &[3; 8192]).unwrap();
    assert_eq!(device.judge(1..3).unwrap(), [Opinion::Fits(Origin::Written); 2]);
}

/// An initramfs that assembles the array on the raw drives after a crash, before the node is back:
/// what it wrote is newer than the log.
#[test]
fn what_is_written_behind_the_back_between_crash_and_restart_is_not_written_over() {
    for tagged in [true, false] {
        let world = World::new(4096);
        let device = world.open();
        if tagged {
            world.write_all(&device, 1);
        }
        for block in 0..4 {
            device.write_at(world.at(block), &world.data(block, 2)).unwrap();
        }
        world.kill(device);
        world.write_behind(1, 0xC3);
        let device = world.open();
        assert!(device.recovered().logged >= 4);
        assert_eq!(device.recovered().rewritten, [0; 0]);
        let mut bytes = vec![0; 4096];
        world.drive.read_at(world.at(1), &mut bytes).unwrap();
        assert_eq!(bytes, world.data(1, 0xC3));
        assert_eq!(world.read(&device, 1).is_err(), tagged, "served unchecked if it had no tag");
        assert_eq!(world.read(&device, 2).unwrap(), world.data(2, 2));
    }
}

#[test]
fn a_torn_block_is_written_again_and_what_it_held_is_kept_and_put_back() {
    let world = World::new(4096);
    let device = world.open();
    world.write_all(&device, 1);
    device.write_at(world.at(7), &world.data(7, 2)).unwrap();
    world.kill(device);
    // One sector of the log, the rest of another writer: it looks torn.
    let mut found = world.data(7, 0xC3);
    found[1024..1536].copy_from_slice(&world.data(7, 2)[1024..1536]);
    world.drive.write_at(world.at(7), &found).unwrap();
    let device = world.open();
    assert_eq!(device.recovered().rewritten, [7]);
    assert_eq!(world.read(&device, 7).unwrap(), world.data(7, 2));
    assert_eq!(device.census().unwrap().kept, 1);
    let contents = TagFile::look_kept(world.medium()).unwrap();
    let [kept] = contents.kept[..] else { panic!("one kept block") };
    assert_eq!((kept.slot, kept.block, kept.why), (0, 7, Why::Recovery));
    assert!(kept.time > 1_700_000_000);
    assert_eq!(TagFile::read_kept(world.medium(), 0).unwrap().1, found);
    // Back, and back again: what is replaced is kept each time, and no tag is a witness.
    assert_eq!(device.put_back(0).unwrap(), 7);
    assert_eq!(world.read(&device, 7).unwrap(), found);
    assert_eq!(device.judge(7..8).unwrap(), [Opinion::Fits(Origin::Adopted)]);
    assert_eq!(TagFile::read_kept(world.medium(), 1).unwrap().1, world.data(7, 2));
    drop(device);
    let device = world.open();
    assert_eq!(world.read(&device, 7).unwrap(), found);
    assert_eq!(device.put_back(1).unwrap(), 7);
    assert_eq!(world.read(&device, 7).unwrap(), world.data(7, 2));
    assert_eq!(device.census().unwrap().kept, 2, "the same bytes are kept once");
    for slot in 0..2 {
        device.forget_kept(slot).unwrap();
    }
    assert!(device.put_back(0).is_err() && device.forget_kept(0).is_err());
    assert_eq!(device.census().unwrap().kept, 0);
}

#[test]
fn without_room_for_a_copy_nothing_is_written_over() {
    let world = World::new(4096);
    let device = world.open();
    world.write_all(&device, 1);
    let room = TagFile::look_kept(world.medium()).unwrap().room();
    assert_eq!(room, 32);
    // Each round tears a block, until there is no room any more.
    for round in 0..=room {
        let device = world.open();
        device.write_at(world.at(round), &world.data(round, 2)).unwrap();
        world.kill(device);
        let mut torn = world.data(round, 1);
        torn[..512].copy_from_slice(&world.data(round, 2)[..512]);
        world.drive.write_at(world.at(round), &torn).unwrap();
        let device = world.open();
        let found = device.recovered();
        if round < room {
            assert_eq!((found.rewritten.as_slice(), found.not_kept), (&[round][..], 0));
            continue;
        }
        assert_eq!((found.rewritten.len(), found.damaged.as_slice(), found.not_kept), (0, &[round][..], 1));
        let mut bytes = vec![0; 4096];
        world.drive.read_at(world.at(round), &mut bytes).unwrap();
        assert_eq!(bytes, torn);
        assert!(world.read(&device, round).is_err());
        assert!(device.put_back(0).unwrap_err().to_string().contains("no place is free"));
    }
}

#[test]
fn a_tag_file_of_the_version_without_kept_blocks_is_refused_by_name() {
    let world = World::new(4096);
    let header = TagFile::peek(&world.medium()).unwrap();
    let old = Slots { offset: 0, slot_bytes: 4096, version: 1 };
    world.tags.write_at(0, &old.first(&header.encode()).unwrap()).unwrap();
    let error = TaggedDevice::open(world.drive.clone(), world.medium(), "serial").err().unwrap();
    assert!(error.to_string().starts_with("header: version: "), "{error}");
}

#[test]
fn an_unreadable_page_of_tags_does_not_hide_its_neighbours() {
    let world = World::new(512);
    let tags = Arc::new(FaultyDevice::new("tags", vec![0; world.geometry.file_bytes() as usize], 1));
    let medium = || SharedMedium(Arc::new(DeviceMedium(tags.clone())));
    TagFile::create(&medium(), world.geometry, 77, "serial").unwrap();
    let open = || TaggedDevice::open(world.drive.clone(), medium(), "serial").unwrap();
    world.write_all(&open(), 1);
    let page = world.geometry.page_at(2);
    tags.lose(page..page + 512);
    let device = open();
    let mut all = vec![0; world.at(BLOCKS) as usize];
    device.read_at(0, &mut all).unwrap();
    assert_eq!(device.lost_pages(), 1);
    let per_page = world.geometry.blocks_of_page();
    for (page, refused) in [(1, true), (2, false), (3, true)] {
        let at = world.at(page * per_page);
        world.drive.write_at(at, &[0xEE]).unwrap();
        assert_eq!(device.read_at(at, &mut all[..512]).is_err(), refused, "page {page}");
    }
}

/// Bytes that came back to a block without a tag leave it without one. Torn, it has parts of two
/// versions, and no tag by which it could be refused.
#[test]
fn a_torn_block_without_a_tag_is_refused_if_it_cannot_be_kept() {
    let world = World::new(4096);
    let (file, ..) = TagFile::open(world.medium(), &*world.drive, "", 7, OnStale::Fail).unwrap();
    let room = TagFile::look_kept(world.medium()).unwrap().room();
    (0..room).for_each(|i| file.keep_replaced(1, &world.data(i, 9), 7).unwrap());
    let device = world.open();
    let data = world.data(7, 2);
    device.tagged().unwrap().restore(world.at(7), &data, RestoredTag::Stays).unwrap();
    assert_eq!(device.judge(7..8).unwrap(), [Opinion::Unchecked]);
    world.kill(device);
    let mut torn = vec![0x11; 4096];
    torn[..512].copy_from_slice(&data[..512]);
    world.drive.write_at(world.at(7), &torn).unwrap();
    let device = world.open();
    assert_eq!((device.recovered().damaged.as_slice(), device.recovered().not_kept), (&[7][..], 1));
    assert!(world.read(&device, 7).is_err(), "neither the old data nor the new");
    world.write_all(&device, 3);
    assert_eq!(world.read(&device, 7).unwrap(), world.data(7, 3), "whoever writes it heals it");
}
