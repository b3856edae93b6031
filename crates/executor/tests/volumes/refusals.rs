//! Refusals: the device and the field are named, and nothing is written.

use crate::world::{World, member, spec, stop};
use pumice_base::units::Role;
use pumice_blockdev::{BlockDevice, FaultyDevice, FileDevice, OpenMode, Options};
use pumice_executor::{Consistency, ControlError, CreateSpec, MemberDrive, create};
use pumice_node::{LocalNode, NodeOptions, Peers};
use pumice_offload::DriveId;
use pumice_raid::layout::{Layout, Level};
use pumice_raid::superblock::v1::V1;
use pumice_raid::{FormatSpec, Metadata, Uuid};
use pumice_volume::log::{Head, MAX_RECORDS, Region, SuperblockMark};
use std::sync::Arc;

const SHAPE: (Level, Option<Layout>, u16) = (Level::Raid5, Some(Layout::LeftSymmetric), 3);

fn world() -> World {
    World::new(1, SHAPE, 16384, 4, Consistency::Log)
}

/// Changes a member's superblock.
fn patch(world: &World, role: usize, change: impl FnOnce(&mut V1)) {
    let content = world.disks[role].content();
    let mut superblock = V1::decode(&content[4096..], Metadata::V1_2).unwrap();
    change(&mut superblock);
    poke(&world.disks[role], 4096, &superblock.encode());
}

fn poke(disk: &FaultyDevice, at: u64, bytes: &[u8]) {
    disk.write_at(at, bytes).unwrap();
    disk.flush().unwrap();
}

fn refused(world: &World, which: &[usize], words: &[&str]) {
    let before: Vec<Vec<u8>> = world.disks.iter().map(|disk| disk.content()).collect();
    let why = world.try_open(which).unwrap_err().to_string();
    for word in words {
        assert!(why.contains(word), "{why}: no '{word}'");
    }
    assert!(world.disks.iter().zip(before).all(|(disk, before)| disk.content() == before), "{why}");
}

#[test]
fn what_cannot_be_written_is_refused_by_device_and_field() {
    let all = [0, 1, 2];
    refused(&world(), &[], &["no device"]);
    refused(&world(), &[0, 1], &["role 2", "--degraded"]);
    let mut too_few = world();
    too_few.options.degraded = true;
    refused(&too_few, &[0], &["2 members are missing", "survives 1"]);
    refused(&world(), &[0, 0, 1, 2], &["disk0", "role 0"]);
    let mut two = world();
    two.disks[1] = Arc::clone(&world().disks[1]);
    refused(&two, &all, &["two arrays", "disk1", "set_uuid"]);
    let mut blank = world();
    blank.disks[2] = Arc::new(FaultyDevice::new("blank", vec![0; 4 << 20], 1));
    refused(&blank, &all, &["blank", "no md superblock"]);
    for (bits, words) in [
        (0x4, ["disk1", "feature_map"]),
        (0x200 | 0x400, ["disk1", "feature_map"]),
        (0x8000, ["disk1", "feature_map"]),
        (0x80, ["feature_map of device 1", "with recovery-bitmap"]),
    ] {
        let changed = world();
        patch(&changed, 1, |superblock| superblock.feature_map |= bits);
        refused(&changed, &all, &words);
    }
    let mirror = world();
    for role in 0..3 {
        patch(&mirror, role, |superblock| (superblock.level, superblock.layout) = (1, 0));
    }
    refused(&mirror, &all, &["disk", "level is 1"]);
    let no_bitmap = world();
    patch(&no_bitmap, 1, |superblock| superblock.feature_map &= !1);
    refused(&no_bitmap, &all, &["disk1", "bitmap", "none"]);
    let spare = world();
    for role in 0..3 {
        patch(&spare, role, |superblock| superblock.dev_roles[2] = 0xFFFF);
    }
    refused(&spare, &all, &["disk2", "role is spare"]);
    let no_log = world();
    for role in 0..3 {
        patch(&no_log, role, |superblock| superblock.data_offset = 1 << 11);
    }
    refused(&no_log, &all, &["disk0", "no room for the stripe log", "--consistency bitmap"]);
}

/// The member that is asked for the shape must not decide it, also if all have the same event
/// count.
#[test]
fn members_of_different_shapes_are_refused() {
    type Change = (&'static str, fn(&mut V1));
    let changes: [Change; 6] = [
        ("chunk", |sb| sb.chunk *= 2),
        ("size", |sb| sb.size -= 32),
        ("layout", |sb| sb.layout = 0),
        ("level", |sb| (sb.level, sb.layout) = (4, 0)),
        ("raid_disks", |sb| sb.raid_disks += 1),
        ("ctime", |sb| sb.ctime += 1),
    ];
    for (field, change) in changes {
        for role in [0, 2] {
            let world = world();
            patch(&world, role, change);
            if field == "size" {
                // The bitmap has it as well.
                poke(&world.disks[role], 8192 + 40, &96_u64.to_le_bytes());
            }
            refused(&world, &[0, 1, 2], &["disk2", &format!("{field} is")]);
        }
    }
}

/// One entry of a log that counts in units of 2^40 sectors would be 2^37 blocks.
#[test]
fn a_bad_block_log_with_a_shift_is_refused_before_it_is_read() {
    let shifted = |world: &World| {
        patch(world, 1, |sb| {
            (sb.bblog_shift, sb.feature_map) = (40, sb.feature_map | 8);
            let at = (sb.super_offset + u64::from(sb.bblog_offset.unsigned_abs())) * 512;
            poke(&world.disks[1], at, &1_u64.to_le_bytes());
        });
    };
    let world = world();
    shifted(&world);
    refused(&world, &[0, 1, 2], &["disk1", "bblog_shift is 40"]);
    let world = self::world();
    let volume = world.open();
    volume.control().fail(Role(1)).unwrap();
    crate::world::wait_for("the failure", || volume.status().unwrap().missing == [Role(1)]);
    shifted(&world);
    let why = volume.control().add(member(&world.disks[1]), false).unwrap_err().to_string();
    assert_eq!(why, "disk1: bblog_shift is 40: only bad-block logs that count in sectors are written");
    stop(volume);
}

/// A superblock says how much room there is for the log.
#[test]
fn a_log_before_a_far_data_area_takes_no_more_memory_than_the_largest() {
    let (folder, data) = (tempfile::tempdir().unwrap(), 1_u64 << 40);
    let format = FormatSpec {
        metadata: Metadata::V1_2,
        level: SHAPE.0,
        layout: SHAPE.1,
        chunk_bytes: 65536,
        component_bytes: None,
        device_bytes: vec![data + (1 << 20); 3],
        array_uuid: Uuid([0xA0; 16]),
        device_uuids: (1..4).map(|i| Uuid([i; 16])).collect(),
        name: String::new(),
        ctime: 1,
        bitmap: true,
        bad_block_log: true,
        data_offset: Some(data),
    };
    let format = format.format().unwrap();
    let drive = |role: u16| {
        let path = folder.path().join(format!("disk{role}"));
        std::fs::File::create(&path).unwrap().set_len(data + (1 << 20)).unwrap();
        let device = FileDevice::open(&path, OpenMode::ReadWrite, Options::default()).unwrap();
        for (at, bytes) in &format.members[usize::from(role)].writes {
            device.write_at(*at, bytes).unwrap();
        }
        let start = 280 * 512;
        let head = Head {
            serial: 1,
            array: Uuid([0xA0; 16]),
            role: Role(role),
            generation: 1,
            nonce: 1,
            sums: pumice_volume::log::Sums::Keyed,
            released: 0,
            region: Region { start, len: data - 8192 - start },
            last: SuperblockMark::NONE,
            next: SuperblockMark::NONE,
            writer: 0,
        };
        device.write_at(data - 4096, &head.encode()).unwrap();
        let node = LocalNode::new("here", vec![Arc::new(device)], &Peers::new(), NodeOptions::default());
        MemberDrive::new(format!("disk{role}"), Arc::new(node), DriveId(1)).unwrap()
    };
    let drives: Vec<MemberDrive> = (0..3).map(drive).collect();
    stop(pumice_executor::open(&drives, &world().options).unwrap());
    let slots = drives[0].node().clone();
    let mut heads = vec![0; 8192];
    slots.read(DriveId(1), data - 8192, &mut heads).unwrap();
    let lens: Vec<u64> = heads.chunks(4096).filter_map(Head::decode).map(|head| head.region.len).collect();
    assert!(lens.contains(&MAX_RECORDS), "{lens:?}");
}

#[test]
fn a_volume_is_made_only_of_drives_that_hold_nothing() {
    let disks: Vec<_> =
        (0..3).map(|i| Arc::new(FaultyDevice::new(&format!("d{i}"), vec![0; 4 << 20], i))).collect();
    let drives: Vec<MemberDrive> = disks.iter().map(member).collect();
    let good = spec(SHAPE.0, SHAPE.1, 65536);
    let refuse = |spec: &CreateSpec, words: &[&str]| {
        let before: Vec<Vec<u8>> = disks.iter().map(|disk| disk.content()).collect();
        let why = create(&drives, spec, |_, _| {}).unwrap_err().to_string();
        for word in words {
            assert!(why.contains(word), "{why}: no '{word}'");
        }
        assert!(disks.iter().zip(before).all(|(disk, before)| disk.content() == before), "{why}");
    };
    refuse(&CreateSpec { chunk_bytes: 5000, ..good.clone() }, &["chunk"]);
    let tiny = [member(&disks[0]), member(&Arc::new(small(3 << 20))), member(&disks[2])];
    let why = create(&tiny, &good, |_, _| {}).unwrap_err().to_string();
    assert!(why.contains("small: its size is 3145728 bytes"), "{why}");
    refuse(&CreateSpec { name: "x".repeat(40), ..good.clone() }, &["name"]);
    refuse(&CreateSpec { component_bytes: Some(1 << 30), ..good.clone() }, &["component size"]);
    poke(&disks[1], (4 << 20) - 600, &[1; 1]);
    refuse(&good, &["d1", "is not zero", "--force"]);
    let array = create(&drives, &CreateSpec { force: true, ..good.clone() }, |_, _| {}).unwrap();
    refuse(&good, &["d0", "set_uuid", "--force"]);
    pumice_executor::erase(&drives, array, None).unwrap();
    assert!(disks.iter().all(|disk| pumice_raid::probe(&disk.content()).unwrap().is_none()));
}

#[test]
fn a_new_member_must_be_large_enough_and_of_no_array() {
    let mut world = world();
    let volume = world.open();
    let full = volume.control().add(member(&Arc::new(small(8 << 20))), false).unwrap_err();
    assert!(full.to_string().contains("no member is missing"));
    volume.control().fail(Role(1)).unwrap();
    let refuse = |drive: MemberDrive, words: &[&str]| {
        let why = volume.control().add(drive, false).unwrap_err().to_string();
        assert!(words.iter().all(|word| why.contains(word)), "{why}");
    };
    refuse(member(&Arc::new(small(3 << 20))), &["small", "a member needs"]);
    let other = World::new(2, SHAPE, 16384, 4, Consistency::Log);
    refuse(member(&other.disks[0]), &["disk0", "set_uuid", "--force"]);
    let again = volume.control().fail(Role(1)).unwrap_err().to_string();
    assert!(again.contains("role 1"), "{again}");
    let new = world.replace(Role(1));
    crate::world::wait_for("the failure", || !volume.status().unwrap().missing.is_empty());
    // It is full of something.
    refuse(new.clone(), &["new", "byte 0 is not zero", "--force"]);
    volume.control().add(new, true).unwrap();
    crate::world::wait_for("the rebuild", || volume.status().unwrap().missing.is_empty());
    stop(volume);
}

/// It holds what nobody else holds: even if the operator insists, and whatever way leads to it.
#[test]
fn a_member_is_never_taken_for_a_new_one() {
    let world = world();
    let drives: Vec<MemberDrive> = world.disks.iter().map(member).collect();
    let volume = pumice_executor::open(&drives, &world.options).unwrap();
    let control = volume.control();
    let another_way = member(&world.disks[0]);
    let is_refused = |drive: &MemberDrive, which: u16| {
        let is_member = |done: Result<_, _>| matches!(done, Err(ControlError::IsMember { role, .. }) if role == Role(which));
        for force in [false, true] {
            assert!(is_member(control.add(drive.clone(), force)), "force: {force}");
            assert!(is_member(control.replace(Role(1), drive.clone(), force)), "force: {force}");
        }
    };
    is_refused(&another_way, 0);
    assert_eq!(volume.status().unwrap().missing, [], "nobody was failed for it");
    control.fail(Role(1)).unwrap();
    crate::world::wait_for("the failure", || volume.status().unwrap().missing == [Role(1)]);
    is_refused(&another_way, 0);
    // Nor by its name alone, if something else has wiped its superblock.
    let superblock = world.disks[2].content()[4096..8192].to_vec();
    poke(&world.disks[2], 4096, &[0; 4096]);
    is_refused(&drives[2], 2);
    poke(&world.disks[2], 4096, &superblock);
    // One that failed and is not a member any more is taken.
    assert_eq!(control.add(drives[1].clone(), true), Ok(Role(1)));
    crate::world::wait_for("the rebuild", || volume.status().unwrap().missing.is_empty());
    stop(volume);
    assert_eq!(world.torn(), [] as [u64; 0]);
}

fn small(bytes: usize) -> FaultyDevice {
    FaultyDevice::new("small", vec![0; bytes], 1)
}
