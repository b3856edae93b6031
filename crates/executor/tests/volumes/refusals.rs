//! What is refused: the device and the field are named, and nothing is written.

use crate::world::{World, member, spec, stop};
use pumice_blockdev::{BlockDevice, FaultyDevice};
use pumice_executor::{Consistency, ControlError, CreateSpec, MemberDrive, create};
use pumice_raid::Metadata;
use pumice_raid::layout::{Layout, Level};
use pumice_raid::superblock::v1::V1;
use pumice_units::Role;
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
    create(&drives, &CreateSpec { force: true, ..good.clone() }, |_, _| {}).unwrap();
    refuse(&good, &["d0", "set_uuid", "--force"]);
    pumice_executor::erase(&drives).unwrap();
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
    volume.control().add(new, false).unwrap();
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
