//! Drives of an array that were run apart from each other, each part without the other: a member of
//! one part holds writes of which the bits of the other part know nothing.

use crate::harness::{Setup, World};
use pumice_base::units::Role;
use pumice_raid::layout::{Layout, Level};
use pumice_raid::superblock::v1::ROLE_FAULTY;
use pumice_volume::{Event, Refusal, Request};

/// The only shapes of which two parts can each be run: twice as many members as data members.
const SHAPES: [(Level, u16); 2] = [(Level::Raid6, 4), (Level::Raid5, 2)];

/// A clean array that was stopped, with content and without a bit.
fn stopped(seed: u64, (level, disks): (Level, u16), log: bool) -> World {
    let (layout, near) = (Some(Layout::LeftSymmetric), log && seed % 2 == 1);
    let setup = Setup { level, layout, disks, chunk: 16384, stripes: 12, log, near };
    let mut world = World::new(seed, &setup);
    world.start().unwrap();
    let len = world.geometry.array_bytes();
    world.submit(Request::Write { offset: 0, len, fua: true });
    world.settle();
    for _ in 0..8 {
        world.submit(Request::Flush);
        world.tick();
        world.settle();
    }
    stop(&mut world);
    world
}

fn stop(world: &mut World) {
    world.event(Event::Stop);
    world.settle();
    assert!(world.stopped);
    world.crash();
}

fn roles(range: std::ops::Range<usize>) -> Vec<Role> {
    range.map(|role| Role(role as u16)).collect()
}

/// Half of the drives are gone, and the others are run `rounds` times, written each time.
fn run_half(world: &mut World, gone: std::ops::Range<usize>, rounds: u64) {
    for round in 0..rounds {
        gone.clone().for_each(|disk| world.disks[disk].up = false);
        world.start().unwrap();
        assert_eq!(world.missing(), roles(gone.clone()));
        for i in 0..5 {
            let blocks = world.geometry.array_bytes() / 4096;
            let offset = (world.random.next(1000) + round + i) % blocks * 4096;
            world.submit(Request::Write { offset, len: 4096, fua: true });
            world.settle();
        }
        stop(world);
    }
}

/// Both halves of the same array after they were run: the first for `rounds.0` times.
fn halves(seed: u64, shape: (Level, u16), log: bool, rounds: (u64, u64)) -> (World, World) {
    let half = usize::from(shape.1) / 2;
    let (mut first, mut second) = (stopped(seed, shape, log), stopped(seed, shape, log));
    // What they write differs.
    second.random.next(1);
    run_half(&mut first, half..2 * half, rounds.0);
    run_half(&mut second, 0..half, rounds.1);
    (first, second)
}

#[test]
fn a_drive_that_was_run_apart_is_restored_as_a_whole() {
    for seed in 0..16 {
        let (shape, log) = (SHAPES[seed as usize / 2 % 2], seed / 4 % 2 == 0);
        let (first, mut world) = halves(seed, shape, log, (1, 3));
        world.start().unwrap();
        world.disks[0] = first.disks[0].clone();
        let before = world.stores;
        world.rejoin(Role(0));
        world.settle();
        let restored = world.stores - before;
        world.verify();
        assert_eq!(restored, world.windows.count, "seed {seed}");
        let last = world.disks.len() - 1;
        world.disks[last].lost = true;
        world.verify();
    }
}

/// As before, but the second half has other drives by then: nothing in its table is called faulty
/// by the first half's and is a member.
#[test]
fn a_drive_that_was_run_apart_knows_no_member_of_the_array() {
    for seed in 0..8 {
        let (first, mut world) = halves(seed, SHAPES[0], seed / 2 % 2 == 0, (1, 3));
        world.start().unwrap();
        for role in [0, 2, 3] {
            world.disks[usize::from(role)].lost = true;
            world.submit(Request::Flush);
            world.settle();
            world.join(Role(role));
            world.settle();
            assert_eq!(world.missing(), [Role(1)], "seed {seed}");
        }
        world.disks[1] = first.disks[1].clone();
        let before = world.stores;
        world.rejoin(Role(1));
        world.settle();
        let restored = world.stores - before;
        world.verify();
        assert_eq!(restored, world.windows.count, "seed {seed}");
        world.disks[0].lost = true;
        world.verify();
    }
}

/// As before, but the second half had no numbers left, and gave one of the first half's to another
/// device in the same role.
#[test]
fn a_drive_that_was_run_apart_does_not_know_others_by_their_numbers_alone() {
    for seed in 0..8 {
        let (first, mut world) = halves(seed, SHAPES[0], seed / 2 % 2 == 0, (1, 3));
        for disk in [2, 3] {
            world.patch(disk, |superblock| {
                superblock.dev_roles[4..].fill(ROLE_FAULTY);
            });
        }
        world.start().unwrap();
        world.join(Role(0));
        world.settle();
        assert_eq!((world.missing(), world.tables()[2][0]), (vec![Role(1)], 0), "seed {seed}");
        world.disks[1] = first.disks[1].clone();
        let before = world.stores;
        world.rejoin(Role(1));
        world.settle();
        let restored = world.stores - before;
        world.verify();
        assert_eq!(restored, world.windows.count, "seed {seed}");
        world.disks[0].lost = true;
        world.verify();
    }
}

/// All drives are there again, and both halves have the same event count, or nearly: the table of
/// one of them counts.
#[test]
fn of_two_halves_with_near_counts_one_is_taken() {
    for (seed, difference) in (0..8).flat_map(|seed| [-1, 0, 1].map(|by| (seed, by))) {
        let (shape, log) = (SHAPES[seed as usize % 2], seed / 2 % 2 == 0);
        let half = usize::from(shape.1) / 2;
        let (first, second) = halves(seed, shape, log, (2, 2));
        let (mut world, other, of_first) =
            if difference > 0 { (first, second, true) } else { (second, first, false) };
        let (own, others) = if of_first { (0..half, half..2 * half) } else { (half..2 * half, 0..half) };
        let events = world.events()[own.start];
        for disk in others.clone() {
            world.disks[disk] = other.disks[disk].clone();
            let patched = events - u64::from(difference != 0);
            world.patch(disk, |superblock| superblock.events = patched);
        }
        world.start().unwrap();
        assert_eq!(world.missing(), roles(others), "seed {seed} {difference}");
        world.verify();
    }
}

/// A drive that was run apart has the number of a member by now, and nearly the newest count: it
/// calls the others faulty, so it is refused, whichever of them is newer.
#[test]
fn a_drive_that_calls_a_member_faulty_is_none() {
    for (seed, behind) in (0..8).flat_map(|seed| [0, 1].map(|behind| (seed, behind))) {
        let (first, mut world) = halves(seed, SHAPES[0], seed / 2 % 2 == 0, (2, 2));
        let events = world.events()[2];
        for disk in [2, 3] {
            world.patch(disk, |superblock| superblock.dev_roles[0] = 0);
        }
        world.disks[0] = first.disks[0].clone();
        world.disks[1].lost = true;
        world.patch(0, |superblock| {
            assert_eq!(superblock.dev_roles[2..4], [ROLE_FAULTY; 2]);
            superblock.events = events - behind;
        });
        let before: Vec<Vec<u8>> = world.disks.iter().map(|disk| disk.now.clone()).collect();
        let refusal = world.begin().unwrap_err();
        assert!(matches!(refusal, Refusal::Apart { .. }), "seed {seed}: {refusal}");
        assert!(world.disks.iter().zip(before).all(|(disk, before)| disk.now == before));
    }
}
