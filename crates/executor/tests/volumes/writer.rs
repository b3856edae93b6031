//! Writers that have a volume open, and members that are replaced.

use crate::world::{Random, World, member, stop, wait_for};
use pumice_base::units::Role;
use pumice_blockdev::{BlockDevice, HookedDevice};
use pumice_executor::{Consistency, ControlError, MemberDrive, OpenError, ServedVolume, open, release};
use pumice_node::{LocalNode, NodeOptions, Peers};
use pumice_offload::DriveId;
use pumice_raid::Uuid;
use pumice_raid::bitmap::Region;
use pumice_raid::layout::{Layout, Level};
use pumice_volume::Refusal;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

fn world(seed: u64) -> World {
    let shape = (Level::Raid6, Some(Layout::LeftSymmetric), 5);
    World::new(seed, shape, 16384, 8, Consistency::Log)
}

fn volume_uuid(world: &World) -> Uuid {
    pumice_raid::probe(&world.disks[0].content()).unwrap().unwrap().superblock.array_uuid
}

#[test]
fn what_another_machine_has_open_is_refused_until_it_is_released() {
    let mut world = world(1);
    world.options.writer = 7;
    let volume = world.open();
    volume.device().write_at(4096, &[5; 8192]).unwrap();
    volume.abandon();
    let contents = |world: &World| world.disks.iter().map(|disk| disk.content()).collect::<Vec<_>>();
    let before = contents(&world);
    world.options.writer = 8;
    let all: Vec<usize> = (0..world.disks.len()).collect();
    match world.try_open(&all).map(|_| ()).unwrap_err() {
        OpenError::Member { device, source: Refusal::Held { role: Role(0), writer: 7 } } => {
            assert_eq!(device, "disk0");
        }
        other => panic!("{other}"),
    }
    assert!(contents(&world) == before, "something was written");
    // The machine itself takes up its own.
    world.options.writer = 7;
    world.open().abandon();
    let drives: Vec<_> = world.disks.iter().map(member).collect();
    let array = volume_uuid(&world);
    assert_eq!(release(&drives, array, None).unwrap().writers, [7]);
    assert_eq!(release(&drives, array, None).unwrap().writers, [] as [u128; 0], "once");
    world.options.writer = 8;
    let volume = world.open();
    let mut read = [0; 8192];
    volume.device().read_at(4096, &mut read).unwrap();
    assert_eq!(read, [5; 8192]);
    stop(volume);
    // What was stopped is anybody's.
    world.options.writer = 9;
    stop(world.open());
}

/// The log of an array that was released is replayed all the same.
#[test]
fn a_release_leaves_the_log_as_it_is() {
    let mut world = world(2);
    world.options.writer = 7;
    let volume = world.open();
    let mut model = vec![0; 40_960];
    Random(3).fill(&mut model);
    volume.device().write_at(512, &model).unwrap();
    volume.abandon();
    let drives: Vec<_> = world.disks.iter().map(member).collect();
    // Who names some devices is told that others are left.
    let some = release(&drives[..2], volume_uuid(&world), None).unwrap();
    assert_eq!((&some.writers[..], some.left.len(), some.without_log), (&[7][..], drives.len() - 2, false));
    let rest = release(&drives, volume_uuid(&world), None).unwrap();
    assert_eq!((&rest.writers[..], rest.left.len()), (&[7][..], 0));
    world.options.writer = 8;
    let volume = world.open();
    let report = &volume.facts().report;
    assert!(report.applied > 0 && !report.discarded, "{report:?}");
    let mut read = vec![0; model.len()];
    volume.device().read_at(512, &mut read).unwrap();
    assert!(read == model);
    stop(volume);
    assert_eq!(world.torn(), [] as [u64; 0]);
}

#[test]
fn a_member_is_replaced_by_a_device_that_was_checked_before() {
    let mut world = world(4);
    let volume = world.open();
    let device = volume.device();
    let mut model = vec![0; device.size_bytes() as usize];
    Random(5).fill(&mut model);
    device.write_at(0, &model).unwrap();
    let control = volume.control();
    // Another member's device: refused, and nobody is failed for it.
    let refused = control.replace(Role(2), member(&world.disks[3]), false).unwrap_err();
    assert!(matches!(refused, ControlError::IsMember { role: Role(3), .. }), "{refused}");
    assert_eq!(volume.status().unwrap().missing, []);
    let new = world.replace(Role(2));
    let full = control.replace(Role(2), new.clone(), false).unwrap_err().to_string();
    assert!(full.contains("byte 0 is not zero"), "{full}");
    assert_eq!(volume.status().unwrap().missing, []);
    assert_eq!(control.replace(Role(2), new, true), Ok(Role(2)));
    wait_for("the rebuild", || volume.status().unwrap().missing.is_empty());
    let mut read = vec![0; model.len()];
    device.read_at(0, &mut read).unwrap();
    assert!(read == model);
    control.fail(Role(0)).unwrap();
    wait_for("the failure", || volume.status().unwrap().missing == [Role(0)]);
    let other = world.replace(Role(1));
    assert_eq!(control.replace(Role(1), other, true), Err(ControlError::OthersMissing));
    stop(volume);
}

fn fail(volume: &ServedVolume, role: Role) {
    volume.control().fail(role).unwrap();
    wait_for("the failure", || volume.status().unwrap().missing.contains(&role));
}

#[test]
fn a_role_takes_one_device_after_another() {
    let mut world = world(6);
    let volume = world.open();
    for _ in 0..3 {
        fail(&volume, Role(2));
        let new = world.replace(Role(2));
        assert_eq!(volume.control().add(new, true), Ok(Role(2)));
        wait_for("the rebuild", || volume.status().unwrap().missing.is_empty());
    }
    stop(volume);
    stop(world.open());
}

/// A failure that no superblock says yet counts as one.
#[test]
fn orders_to_fail_members_together_never_fail_more_than_the_code_corrects() {
    for seed in 0..4 {
        let shape = (Level::Raid5, Some(Layout::LeftSymmetric), 4);
        let world = World::new(seed, shape, 16384, 8, Consistency::Log);
        let volume = world.open();
        let control = volume.control();
        let failed = std::thread::scope(|scope| {
            let orders = [0, 1].map(|role| {
                scope.spawn({
                    let control = volume.control();
                    move || control.fail(Role(role))
                })
            });
            orders.map(|order| order.join().unwrap())
        });
        let refused = failed.iter().position(Result::is_err).unwrap();
        assert_eq!(failed[refused], Err(ControlError::TooFew), "seed {seed}");
        assert_eq!(control.status().unwrap().missing, [Role(1 - refused as u16)]);
        volume.device().write_at(0, &[1; 4096]).unwrap();
        assert!(!volume.status().unwrap().held);
        stop(volume);
    }
}

/// Another member is gone as well, which nobody has noticed yet.
#[test]
fn an_order_ends_if_the_volume_is_held_before_the_failure_is_recorded() {
    let shape = (Level::Raid5, Some(Layout::LeftSymmetric), 4);
    let mut world = World::new(7, shape, 16384, 8, Consistency::Log);
    let volume = world.open();
    world.disks[1].cut_power_after(0);
    let new = world.replace(Role(0));
    assert_eq!(volume.control().replace(Role(0), new, true), Err(ControlError::Held));
    assert!(volume.status().unwrap().held);
    volume.abandon();
}

/// The superblocks of the others do not say yet that it has failed.
#[test]
fn a_member_that_has_just_failed_comes_back_when_its_failure_is_on_record() {
    let shape = (Level::Raid5, Some(Layout::LeftSymmetric), 4);
    let mut world = World::new(8, shape, 16384, 8, Consistency::Log);
    world.options.tick = Duration::from_secs(3600);
    let (flushes, may_flush) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(true)));
    let hook = {
        let (flushes, may_flush) = (Arc::clone(&flushes), Arc::clone(&may_flush));
        move || {
            // The second is the first step of the update.
            let is_first = flushes.fetch_add(1, Ordering::SeqCst) == 0;
            wait_for("the gate", || is_first || may_flush.load(Ordering::SeqCst));
        }
    };
    let slow = Arc::new(HookedDevice::over(Arc::clone(&world.disks[0]) as _).at_flushes(hook));
    let node = LocalNode::new("slow", vec![slow], &Peers::new(), NodeOptions::default());
    let slow = MemberDrive::new("slow".to_owned(), Arc::new(node), DriveId(1)).unwrap();
    let drives = [slow].into_iter().chain(world.disks[1..].iter().map(member)).collect::<Vec<_>>();
    let volume = open(&drives, &world.options).unwrap();
    volume.device().write_at(0, &[7; 4096]).unwrap();
    flushes.store(0, Ordering::SeqCst);
    may_flush.store(false, Ordering::SeqCst);
    let added = std::thread::scope(|scope| {
        let failed = scope.spawn(|| volume.control().fail(Role(2)));
        wait_for("the failure", || volume.status().unwrap().missing == [Role(2)]);
        assert!(volume.status().unwrap().recording);
        let added = scope.spawn(|| volume.control().add(member(&world.disks[2]), false));
        std::thread::sleep(Duration::from_millis(50));
        may_flush.store(true, Ordering::SeqCst);
        assert_eq!(failed.join().unwrap(), Ok(()));
        added.join().unwrap()
    });
    assert_eq!(added, Ok(Role(2)));
    wait_for("the rebuild", || volume.status().unwrap().missing.is_empty());
    stop(volume);
    assert_eq!(world.torn(), [] as [u64; 0]);
}

/// It gets the blocks that it has missed, and keeps the others.
#[test]
fn a_member_that_was_failed_comes_back_and_is_restored_where_blocks_were_written() {
    let (chunk, stripes) = (65536, 64);
    let shape = (Level::Raid5, Some(Layout::LeftSymmetric), 4);
    let world = World::new(9, shape, chunk, stripes, Consistency::Log);
    for disk in &world.disks {
        // A bit for each chunk.
        disk.write_at(8192 + 52, &(chunk as u32).to_le_bytes()).unwrap();
    }
    let volume = world.open();
    let device = volume.device();
    let mut model = vec![0; device.size_bytes() as usize];
    Random(9).fill(&mut model);
    device.write_at(0, &model).unwrap();
    device.flush().unwrap();
    let bits = || {
        let probed = pumice_raid::probe(&world.disks[0].content()).unwrap().unwrap();
        probed.bitmap.unwrap().runs().filter(|(_, state)| *state != Region::Clean).count()
    };
    wait_for("the end of all bits", || bits() == 0);
    let old = member(&world.disks[2]);
    // It is a member.
    let is_member = Err(ControlError::IsMember { device: old.name().to_owned(), role: Role(2) });
    assert_eq!(volume.control().add(old.clone(), false), is_member);
    fail(&volume, Role(2));
    for stripe in [3, 17, 40] {
        let at = stripe * 3 * chunk as usize;
        model[at..at + 8192].fill(stripe as u8);
        device.write_at(at as u64, &model[at..at + 8192]).unwrap();
    }
    let before = volume.status().unwrap();
    assert_eq!(volume.control().add(old, false), Ok(Role(2)));
    wait_for("the rebuild", || volume.status().unwrap().missing.is_empty());
    device.flush().unwrap();
    let after = volume.status().unwrap();
    let (read, written) =
        (after.member_read - before.member_read, after.member_written - before.member_written);
    println!("{read} bytes read, {written} written");
    assert!((3 * 3 * chunk..6 * 3 * chunk).contains(&read), "{read}");
    assert!(written < stripes * chunk / 4, "{written}");
    stop(volume);
    assert_eq!(world.torn(), [] as [u64; 0]);
    let volume = world.open();
    let mut read = vec![0; model.len()];
    volume.device().read_at(0, &mut read).unwrap();
    assert!(read == model);
    stop(volume);
}

/// The heads of the log are read without the log as well: they say who has the array open, and that
/// writes may wait there.
#[test]
fn a_volume_is_not_opened_without_a_log_that_somebody_needs() {
    let mut world = world(5);
    let all: Vec<usize> = (0..world.disks.len()).collect();
    let refusal = |world: &World| match world.try_open(&all).map(|_| ()).unwrap_err() {
        OpenError::Member { source, .. } => source,
        other => panic!("{other}"),
    };
    world.options.writer = 7;
    let volume = world.open();
    volume.device().write_at(4096, &[5; 8192]).unwrap();
    volume.abandon();
    let before: Vec<Vec<u8>> = world.disks.iter().map(|disk| disk.content()).collect();
    world.options.consistency = Consistency::Bitmap;
    assert_eq!(refusal(&world), Refusal::LogWaits { role: Role(0) });
    world.options.writer = 8;
    assert_eq!(refusal(&world), Refusal::Held { role: Role(0), writer: 7 });
    assert!(world.disks.iter().zip(before).all(|(disk, before)| disk.content() == before));
    (world.options.consistency, world.options.writer) = (Consistency::Log, 7);
    stop(world.open());
    (world.options.consistency, world.options.writer) = (Consistency::Bitmap, 8);
    let volume = world.open();
    let mut read = [0; 8192];
    volume.device().read_at(4096, &mut read).unwrap();
    assert_eq!(read, [5; 8192]);
    volume.device().write_at(0, &[6; 4096]).unwrap();
    volume.abandon();
    // The log that lies there is of before.
    stop(world.open());
}

/// Both halves of the drives of an array were run without the other half.
#[test]
fn a_drive_that_was_run_apart_does_not_come_back_as_it_is() {
    let shape = (Level::Raid6, Some(Layout::LeftSymmetric), 4);
    let mut world = World::new(6, shape, 16384, 8, Consistency::Log);
    stop(world.open());
    world.options.degraded = true;
    let mut model = vec![0; world.geometry.array_bytes() as usize];
    for (half, rounds) in [([0, 1], 1), ([2, 3], 3)] {
        for round in 0..rounds {
            let volume = world.try_open(&half).unwrap();
            let (mut bytes, at) = ([0; 4096], 16384 * (half[0] + round));
            Random(at as u64).fill(&mut bytes);
            volume.device().write_at(at as u64, &bytes).unwrap();
            if half == [2, 3] {
                model[at..at + 4096].copy_from_slice(&bytes);
            }
            stop(volume);
        }
    }
    let volume = world.try_open(&[2, 3]).unwrap();
    let why = volume.control().add(member(&world.disks[0]), false).unwrap_err().to_string();
    assert!(why.contains("disk0") && why.contains("cannot come back as it is"), "{why}");
    for role in [0, 1] {
        volume.control().add(member(&world.disks[role]), true).unwrap();
    }
    wait_for("the rebuilds", || volume.status().unwrap().missing.is_empty());
    let mut read = vec![0; model.len()];
    volume.device().read_at(0, &mut read).unwrap();
    assert!(read == model);
    stop(volume);
    assert_eq!(world.torn(), [] as [u64; 0]);
}
