//! Crashes and failures at chosen steps of the updates of heads and superblocks.

use crate::harness::{Put, Setup, World};
use pumice_base::units::Role;
use pumice_raid::layout::{Layout, Level};
use pumice_volume::{Command, Event, Refusal, Request};

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

/// The log is full of blocks that are to be copied into place.
#[test]
fn recovery_has_a_bounded_number_of_copies_under_way() {
    let mut world = World::new(3, &Setup { stripes: 40, ..setup(Level::Raid5, 4) });
    world.start().unwrap();
    for block in 0..120 {
        write(&mut world, block * 4);
        world.settle();
    }
    world.crash();
    world.begin().unwrap();
    assert!(world.report.applied > 128, "{:?}", world.report);
    let is_copy = |command: &Command| matches!(command, Command::Copy { .. });
    let (mut most, mut steps) = (0, 0);
    while world.step() {
        (most, steps) = (most.max(world.under_way(is_copy)), steps + 1);
    }
    assert!((32..=64).contains(&most), "{most} at a time, {steps} steps");
    world.verify();
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

/// An update that was given up before any superblock takes no event count: a member one update
/// behind is one event behind.
#[test]
fn an_update_that_was_given_up_before_its_superblocks_takes_no_event_count() {
    for seed in 0..40 {
        let mut world = started(seed);
        let role = Role((seed % 4) as u16);
        world.fail_next(role, Put::Head, false);
        write(&mut world, seed % 12);
        assert_eq!(world.run_superblocks(1), 1);
        assert!(world.all_failed());
        cut(&mut world, seed % 4 != 0);
        recovers(&mut world, seed);
        let missing = world.missing();
        assert!(missing.is_empty() || missing == [role], "seed {seed}: {missing:?}");
    }
}

/// Recovery is cut short among its superblocks, again and again: no member falls two events behind.
#[test]
fn superblocks_that_are_cut_short_again_and_again_leave_no_member_behind() {
    for seed in 0..60 {
        let mut world = started(seed);
        write(&mut world, seed % 12);
        world.run_superblocks(1);
        cut(&mut world, true);
        for round in 0..6 {
            world.begin().unwrap_or_else(|refusal| panic!("seed {seed} round {round}: {refusal}"));
            assert_eq!(world.report.failed, [], "seed {seed} round {round}");
            assert!(!world.report.discarded, "seed {seed} round {round}");
            let count = world.random.next(7);
            world.run_superblocks(count);
            cut(&mut world, true);
        }
        recovers(&mut world, seed);
        assert_eq!(world.missing(), [], "seed {seed}");
    }
}

/// The superblock that calls a member faulty is on one member only: after recovery it is on all.
#[test]
fn recovery_gives_every_member_the_newest_table_of_roles() {
    for seed in 0..40 {
        let mut world = started(seed);
        let role = (seed % 4) as usize;
        world.disks[role].up = false;
        world.submit(Request::Flush);
        assert_eq!(world.run_superblocks(1), 1);
        cut(&mut world, true);
        recovers(&mut world, seed);
        assert_eq!(world.missing(), [Role(role as u16)], "seed {seed}");
        world.disks[role].lost = true;
        let tables = world.tables();
        assert!(tables.iter().all(|table| *table == tables[0]), "seed {seed}: {tables:?}");
    }
}

/// Two members cannot be reached while superblocks are written, and come back: whether the
/// superblock is on them is not known.
#[test]
fn members_that_return_in_a_superblock_step_are_not_left_behind() {
    for seed in 0..80 {
        let mut world = started(seed);
        let away = [Role((seed % 4) as u16), Role(((seed + 1) % 4) as u16)];
        for role in away {
            world.fail_next(role, Put::Superblock, seed / 4 % 2 == 0);
        }
        write(&mut world, seed % 12);
        assert_eq!(world.run_superblocks(4), 4);
        assert!(world.all_failed() && world.held, "seed {seed}");
        for role in away {
            world.event(Event::Returned(role));
        }
        let count = world.random.next(6);
        world.run_superblocks(count);
        cut(&mut world, true);
        recovers(&mut world, seed);
        // When the first of them was back, the code survived the failure of the second.
        let missing = world.missing();
        assert!(missing.is_empty() || missing == away[1..], "seed {seed}: {missing:?}");
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

/// The power goes as soon as a rebuilt member is called in sync: its superblocks say so already.
#[test]
fn a_member_that_is_called_in_sync_is_so_after_a_crash() {
    for seed in 0..40 {
        let mut world = started(seed);
        world.run(60);
        world.settle();
        world.disks[1].lost = true;
        world.submit(Request::Flush);
        world.settle();
        assert_eq!(world.missing(), [Role(1)], "seed {seed}");
        world.join(Role(1));
        let is_whole = |world: &World| {
            let volume = world.volume.as_ref().unwrap();
            volume.missing().is_empty() && volume.rebuilding().is_empty()
        };
        while !is_whole(&world) {
            assert!(world.step(), "seed {seed}: the rebuild goes on");
        }
        cut(&mut world, seed % 2 == 0);
        world.begin().unwrap();
        assert_eq!(world.missing(), [], "seed {seed}");
    }
}

/// Members cannot be reached for a moment while something is done on all of them, and are back
/// before the others have ended: what they missed is done again.
#[test]
fn a_step_that_a_member_missed_is_not_taken_for_done() {
    let mut met = 0;
    for seed in 0..120 {
        let mut world = started(seed);
        world.run(60);
        world.settle();
        write(&mut world, seed % 12);
        world.settle();
        world.submit(Request::Flush);
        let role = Role((seed % 4) as u16);
        let is_its_flush = |command: &Command| matches!(command, Command::Flush { role: of } if *of == role);
        world.disks[role.index()].up = false;
        if !world.execute_one(is_its_flush) {
            continue;
        }
        world.disks[role.index()].up = true;
        world.event(Event::Returned(role));
        met += 1;
        world.settle();
        assert_eq!(world.model.under_way(), 0, "seed {seed}");
        world.crash();
        recovers(&mut world, seed);
        assert_eq!(world.missing(), [], "seed {seed}");
    }
    assert!(met > 60, "{met}");
}

/// The same in recovery: a block that was not copied there is not taken for replayed.
#[test]
fn a_copy_that_a_member_missed_in_recovery_is_made_again() {
    let mut met = 0;
    for seed in 0..120 {
        let mut world = started(seed);
        world.run(200);
        world.crash();
        world.begin().unwrap();
        let mut missed = None;
        for _ in 0..40 {
            let copied = world.next_copy();
            if let Some(role) = copied {
                missed = Some(role);
                break;
            }
            if !world.step() {
                break;
            }
        }
        let Some(role) = missed else { continue };
        world.disks[role.index()].up = false;
        assert!(
            world.execute_one(|command| matches!(command, Command::Copy { role: of, .. } if *of == role))
        );
        world.disks[role.index()].up = true;
        world.event(Event::Returned(role));
        met += 1;
        while !world.again && world.step() {}
        assert!(world.again, "seed {seed}: it went on without the copy");
        recovers(&mut world, seed);
        assert_eq!(world.missing(), [], "seed {seed}");
    }
    assert!(met > 30, "{met}");
}

/// No update of superblocks begins whose counts could not be told from older ones.
#[test]
fn an_array_whose_event_count_is_at_its_end_is_refused() {
    let mut world = started(0);
    world.settle();
    world.crash();
    for events in [u64::MAX, u64::MAX - 1] {
        world.set_events(events);
        assert_eq!(world.begin(), Err(Refusal::Events(events)));
    }
    world.set_events(1 << 40);
    world.begin().unwrap();
}
