//! Crashes and failures at chosen steps of the updates of heads and superblocks.

use crate::harness::{Put, Setup, World};
use pumice_raid::layout::{Layout, Level};
use pumice_units::Role;
use pumice_volume::{Command, Request};

fn setup(level: Level, disks: u16) -> Setup {
    let layout = Some(Layout::LeftSymmetric);
    Setup { level, layout, disks, chunk: 16384, stripes: 4, log: true, near: false }
}

/// A started RAID-5 array of four members that nobody wrote to yet.
fn started(seed: u64) -> World {
    let mut world = World::new(seed, &setup(Level::Raid5, 4));
    world.start().unwrap();
    world
}

fn write(world: &mut World, block: u64) {
    world.submit(Request::Write { offset: block * 4096, len: 4096, fua: false });
}

/// The power goes. What was on its way is lost as well if `lost`, and arrives in part otherwise.
fn cut(world: &mut World, lost: bool) {
    if lost {
        world.late_actions();
    }
    world.crash();
}

fn recovers(world: &mut World, seed: u64) {
    world.start().unwrap_or_else(|refusal| panic!("seed {seed}: {refusal}"));
    assert!(!world.report.discarded, "seed {seed}: {:?}", world.report);
    world.verify();
}

#[test]
fn a_log_whose_first_heads_were_cut_short_begins_again() {
    for seed in 0..40 {
        let mut world = World::new(seed, &setup(Level::Raid5, 4));
        world.begin().unwrap();
        let is_head = |command: &Command| Put::of(command) == Some(Put::Head);
        for _ in 0..1 + seed % 3 {
            while !world.execute_one(is_head) {
                world.execute();
            }
        }
        cut(&mut world, seed % 2 == 0);
        recovers(&mut world, seed);
        assert_eq!(world.missing(), [], "seed {seed}");
        world.run(200);
        world.crash();
        recovers(&mut world, seed);
    }
}

/// The superblocks of an update are on some members, another member fails, and the heads announce
/// the update that says so: what they call the last superblock is the one that is there.
#[test]
fn a_crash_after_a_failed_superblock_step_keeps_the_log() {
    for seed in 0..40 {
        let mut world = started(seed);
        let role = (seed % 4) as usize;
        world.fail_next(Role(role as u16), Put::Superblock, seed % 3 == 0);
        write(&mut world, seed % 12);
        assert_eq!(world.run_superblocks(4), 4);
        assert!(world.all_failed());
        world.disks[role].lost = true;
        cut(&mut world, seed % 2 == 0);
        recovers(&mut world, seed);
        assert_eq!(world.missing(), [Role(role as u16)], "seed {seed}");
    }
}

/// The second device is looked at before the superblocks that give the first its number are
/// written.
#[test]
fn devices_that_are_added_one_right_after_the_other_get_numbers_of_their_own() {
    for seed in 0..20 {
        let mut world = World::new(seed, &setup(Level::Raid6, 5));
        world.start().unwrap();
        world.run(100);
        world.settle();
        for role in [1, 3] {
            world.disks[role].lost = true;
        }
        world.submit(Request::Flush);
        world.settle();
        world.join(Role(1));
        world.join(Role(3));
        world.settle();
        assert_eq!(world.missing(), [], "seed {seed}: rebuilt");
        world.run(100);
        world.crash();
        recovers(&mut world, seed);
        assert_eq!(world.missing(), [], "seed {seed}");
    }
}
