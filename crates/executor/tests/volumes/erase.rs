//! Arrays that are removed: nothing is left of them but their data.

use crate::world::{Random, World, member, spec, stop};
use pumice_blockdev::{BlockDevice, FaultyDevice};
use pumice_executor::{Consistency, CreateSpec, MemberDrive, create, erase};
use pumice_raid::layout::{Layout, Level};
use pumice_raid::{FormatSpec, Metadata, Uuid, probe};
use pumice_volume::log::Head;
use std::sync::Arc;

const SHAPE: (Level, Option<Layout>, u16) = (Level::Raid5, Some(Layout::LeftSymmetric), 3);

fn contents(disks: &[Arc<FaultyDevice>]) -> Vec<Vec<u8>> {
    disks.iter().map(|disk| disk.content()).collect()
}

/// The data area reaches the end of the device here, so superblocks of other versions have their
/// places in it.
#[test]
fn the_data_of_a_volume_that_is_removed_stays() {
    let world = World::new(1, SHAPE, 16384, 16, Consistency::Log);
    let volume = world.open();
    let device = volume.device();
    let mut data = vec![0; device.size_bytes() as usize];
    Random(7).fill(&mut data);
    device.write_at(0, &data).unwrap();
    device.flush().unwrap();
    drop(device);
    stop(volume);
    let before = contents(&world.disks);
    let array = probe(&before[0]).unwrap().unwrap().superblock.array_uuid;
    let drives: Vec<MemberDrive> = world.disks.iter().map(member).collect();
    let why = erase(&drives, Uuid([9; 16]), None).unwrap_err().to_string();
    assert!(why.contains("disk0") && why.contains("set_uuid"), "{why}");
    assert!(contents(&world.disks) == before);
    erase(&drives, array, None).unwrap();
    let start = world.data_offset as usize;
    for (before, after) in before.iter().zip(contents(&world.disks)) {
        assert!(after[start..] == before[start..], "no byte of the data is touched");
        assert!(probe(&after).unwrap().is_none());
        assert!(after[..1 << 20].iter().all(|byte| *byte == 0), "bitmap and bad-block log are gone");
        let slot = |at: usize| &after[start - at..][..4096];
        assert_eq!([8192, 4096].map(|at| Head::decode(slot(at))), [None; 2]);
    }
    // Their data is in the way of a new volume, and only that.
    let good = spec(SHAPE.0, SHAPE.1, 16384);
    let why = create(&drives, &good, |_, _| {}).unwrap_err().to_string();
    assert!(why.contains("is not zero"), "{why}");
    create(&drives, &CreateSpec { force: true, ..good }, |_, _| {}).unwrap();
    stop(world.open());
}

/// Also of arrays that Linux made.
#[test]
fn the_data_of_every_version_stays() {
    for metadata in [Metadata::V1_0, Metadata::V1_1, Metadata::V1_2] {
        let array = Uuid([0xA0; 16]);
        let format = FormatSpec {
            metadata,
            level: Level::Raid5,
            layout: SHAPE.1,
            chunk_bytes: 16384,
            component_bytes: None,
            device_bytes: vec![4 << 20; 3],
            array_uuid: array,
            device_uuids: (1..4).map(|i| Uuid([i; 16])).collect(),
            name: String::new(),
            ctime: 1,
            bitmap: true,
            bad_block_log: true,
            data_offset: None,
        };
        let format = format.format().unwrap();
        let component = format.geometry.stripes() * format.geometry.chunk_bytes();
        let disk = |i: usize| {
            let member = &format.members[i];
            let mut content = vec![0; 4 << 20];
            Random(i as u64).fill(&mut content[member.data_offset as usize..][..component as usize]);
            for (at, bytes) in &member.writes {
                content[*at as usize..][..bytes.len()].copy_from_slice(bytes);
            }
            Arc::new(FaultyDevice::new(&format!("d{i}"), content, i as u64))
        };
        let disks: Vec<_> = (0..3).map(disk).collect();
        let before = contents(&disks);
        let drives: Vec<MemberDrive> = disks.iter().map(member).collect();
        erase(&drives, array, None).unwrap();
        for ((before, after), member) in before.iter().zip(contents(&disks)).zip(&format.members) {
            assert!(probe(&after).unwrap().is_none(), "{metadata}");
            let data = member.data_offset as usize..(member.data_offset + component) as usize;
            assert!(after[data.clone()] == before[data.clone()], "{metadata}: the data stays");
            for (at, bytes) in &member.writes {
                let rest = &after[*at as usize..][..bytes.len()];
                assert!(rest.iter().all(|byte| *byte == 0), "{metadata}: {at}");
            }
        }
    }
}
