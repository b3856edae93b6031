//! Numbers of devices, and members without a bad-block log.

use crate::harness::disk::Disk;
use crate::harness::{Setup, World};
use pumice_base::units::Role;
use pumice_raid::layout::{Layout, Level};
use pumice_raid::superblock::v1::{ROLE_FAULTY, ROLE_SPARE};
use pumice_volume::{Event, Request};

fn started(seed: u64, disks: u16, log: bool) -> World {
    let layout = Some(Layout::LeftSymmetric);
    let level = if disks > 4 { Level::Raid6 } else { Level::Raid5 };
    let setup = Setup { level, layout, disks, chunk: 4096, stripes: 4, log, near: false };
    let mut world = World::new(seed, &setup);
    world.start().unwrap();
    world
}

fn fill(world: &mut World) {
    let len = world.geometry.array_bytes();
    world.submit(Request::Write { offset: 0, len, fua: true });
    world.settle();
}

/// A member fails for good, or cannot be reached for a while.
fn fail(world: &mut World, role: Role, for_good: bool) {
    let disk = &mut world.disks[role.index()];
    (disk.lost, disk.up) = (for_good, for_good);
    let block = world.random.next(8);
    world.submit(Request::Write { offset: block * 4096, len: 4096, fua: true });
    world.settle();
    assert_eq!(world.missing(), [role]);
}

/// A disk that takes no part any more.
fn aside(disk: &Disk) -> Disk {
    let mut disk = disk.clone();
    (disk.lost, disk.up) = (false, true);
    disk
}

#[test]
fn members_fail_and_are_replaced_as_often_as_it_takes() {
    let mut world = started(1, 3, true);
    fill(&mut world);
    let mut old = Vec::new();
    for round in 0..300_u64 {
        let role = Role((round % 3) as u16);
        let new = round % 2 == 0;
        fail(&mut world, role, new);
        if round < 6 {
            old.push((role, aside(&world.disks[role.index()])));
        }
        assert!(world.volume.as_ref().unwrap().numbers_left() > 0, "round {round}");
        match new {
            true => world.join(role),
            false => world.rejoin(role),
        }
        world.settle();
        assert_eq!(world.missing(), [], "round {round}");
        let tables = world.tables();
        assert!(!tables.iter().flatten().any(|role| *role == ROLE_FAULTY), "round {round}");
        if round % 50 == 49 {
            world.verify();
            assert_eq!(world.torn_rows(), [] as [u64; 0], "round {round}");
        }
    }
    // A device that was a member once, whose number others have had since, is nothing: neither
    // when the array is opened, nor when it is to come back.
    for (role, disk) in old {
        world.crash();
        world.disks[role.index()] = disk;
        world.start().unwrap();
        assert_eq!(world.missing(), [role]);
        world.verify();
        let before = world.stores;
        world.rejoin(role);
        world.settle();
        assert_eq!((world.missing(), world.stores - before), (vec![], world.windows.count));
        world.verify();
    }
    world.disks[0].lost = true;
    world.verify();
}

/// Every number is a failed device's, and a member is missing: one of them is given again. Its
/// device is not taken for a member then.
#[test]
fn a_table_that_is_full_of_failed_devices_has_room() {
    for seed in 0..36 {
        let mut world = started(seed, 5, true);
        fill(&mut world);
        fail(&mut world, Role(1), true);
        let old = aside(&world.disks[1]);
        world.event(Event::Stop);
        world.settle();
        assert!(world.stopped);
        world.crash();
        for disk in [0, 2, 3, 4] {
            world.patch(disk, |superblock| {
                superblock.dev_roles.iter_mut().for_each(|role| {
                    if *role == ROLE_SPARE {
                        *role = ROLE_FAULTY;
                    }
                });
            });
        }
        world.start().unwrap();
        world.join(Role(1));
        world.run_superblocks(seed / 3 % 6);
        if seed % 3 == 0 {
            // The power goes while the superblocks are written, and the old device is there.
            world.crash();
            world.disks[1] = old;
            world.start().unwrap();
            assert_eq!(world.missing(), [Role(1)], "seed {seed}");
            world.verify();
            world.join(Role(1));
        }
        world.settle();
        assert_eq!(world.missing(), [], "seed {seed}");
        world.disks[0].lost = true;
        world.verify();
    }
}

/// Members have no bad-block log, and nothing to list: a device joins all the same.
#[test]
fn a_device_joins_an_array_without_a_bad_block_log() {
    let layout = Some(Layout::LeftSymmetric);
    let setup =
        Setup { level: Level::Raid5, layout, disks: 4, chunk: 4096, stripes: 8, log: false, near: false };
    let mut world = World::new(3, &setup);
    for disk in 0..4 {
        world.patch(disk, |superblock| (superblock.bblog_size, superblock.bblog_offset) = (0, 0));
    }
    world.start().unwrap();
    fill(&mut world);
    for (role, new) in [(Role(2), true), (Role(1), false)] {
        fail(&mut world, role, new);
        match new {
            true => world.join(role),
            false => world.rejoin(role),
        }
        world.settle();
        assert_eq!(world.missing(), []);
        assert_eq!(world.torn_rows(), [] as [u64; 0]);
        world.verify();
    }
}
