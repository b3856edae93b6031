//! The bitmap alone beside a stripe log of somebody else's, and bitmaps that are out of date.

use crate::harness::{Setup, World};
use pumice_base::units::Role;
use pumice_raid::layout::{Layout, Level};
use pumice_volume::token::Token;
use pumice_volume::{Event, Refusal, Request};

const AWAY: Role = Role(2);
const BITMAP: u64 = 8192;

fn started(seed: u64, log: bool) -> World {
    let (level, layout) = (Level::Raid5, Some(Layout::LeftSymmetric));
    let setup = Setup { level, layout, disks: 4, chunk: 16384, stripes: 40, log, near: false };
    let mut world = World::new(seed, &setup);
    world.start().unwrap();
    world
}

fn fill(world: &mut World) {
    let len = world.geometry.array_bytes();
    world.submit(Request::Write { offset: 0, len, fua: true });
    world.settle();
}

fn stop(world: &mut World) {
    world.event(Event::Stop);
    world.settle();
    assert!(world.stopped);
    world.crash();
}

/// A machine opens it, with the log or without.
fn open(world: &mut World, host: u128, log: bool) -> Result<(), Refusal> {
    world.log = log;
    world.token = Token { number: world.token.number + 1, host };
    world.take_tokens();
    world.start()
}

/// Requests are under way when the power goes, and nothing will replay them.
fn run_and_crash(world: &mut World) {
    world.run(100);
    world.crash();
    world.model.no_replay = true;
}

#[test]
fn a_volume_without_its_log_is_refused_while_another_machine_has_it() {
    for seed in 0..8 {
        let mut world = started(seed, true);
        fill(&mut world);
        world.run(seed * 20);
        let clean = seed % 4 == 3;
        if clean {
            // Idle, and open all the same.
            world.settle();
            for _ in 0..4 {
                world.tick();
                world.settle();
            }
        }
        world.crash();
        let held = open(&mut world, 2, false);
        assert!(matches!(held, Err(Refusal::Held { writer: 1, .. })), "seed {seed}: {held:?}");
        if !clean {
            // What is in the log is not left there.
            let waits = open(&mut world, 1, false);
            assert!(matches!(waits, Err(Refusal::LogWaits { .. })), "seed {seed}: {waits:?}");
        }
        open(&mut world, 1, true).unwrap();
        world.verify();
        stop(&mut world);
        // It was stopped: anybody may open it, with the log or without.
        open(&mut world, 2, false).unwrap();
        run_and_crash(&mut world);
        // The log that lies there is of before, and says nothing.
        open(&mut world, 2 + u128::from(seed % 2), false).unwrap();
        world.verify();
        run_and_crash(&mut world);
        open(&mut world, 4, true).unwrap();
        assert!(world.report.discarded, "seed {seed}");
        world.verify();
        assert_eq!(world.torn_rows(), [] as [u64; 0], "seed {seed}");
    }
}

/// Linux has run the array since: the mark of the machine that had it before says nothing.
#[test]
fn a_log_of_before_linux_ran_holds_nobody_off() {
    let mut world = started(1, true);
    fill(&mut world);
    world.crash();
    world.linux_runs();
    open(&mut world, 2, false).unwrap();
    world.verify();
}

/// The bits of a degraded array are lost, or its bitmap says that they do not count.
fn bitmaps_are_out_of_date(seed: u64, spoil: impl Fn(&mut World, usize)) {
    let mut world = started(seed, seed.is_multiple_of(2));
    fill(&mut world);
    for _ in 0..8 {
        world.submit(Request::Flush);
        world.tick();
        world.settle();
    }
    world.disks[AWAY.index()].up = false;
    for i in 0..6 {
        let blocks = world.geometry.array_bytes() / 4096;
        world.submit(Request::Write { offset: (seed * 31 + i * 17) % blocks * 4096, len: 4096, fua: true });
        world.settle();
    }
    assert_eq!(world.missing(), [AWAY]);
    stop(&mut world);
    for disk in [0, 1, 3] {
        world.disks[disk].put(BITMAP + 256, &[0; 256]);
        if seed % 3 != 2 || disk == 0 {
            spoil(&mut world, disk);
        }
    }
    world.start().unwrap();
    if seed % 4 == 3 {
        // As after a crash before anything was written.
        world.crash();
        world.start().unwrap();
    }
    for disk in [0, 1, 3] {
        let record = pumice_raid::probe(&world.disks[disk].now).unwrap().unwrap();
        assert_eq!(record.bitmap.unwrap().overridden(), None, "seed {seed}");
    }
    let before = world.stores;
    world.rejoin(AWAY);
    world.settle();
    assert_eq!(world.missing(), []);
    assert_eq!(world.torn_rows(), [] as [u64; 0], "seed {seed}");
    assert_eq!(world.stores - before, world.windows.count, "seed {seed}: all of it");
    world.disks[0].lost = true;
    world.verify();
}

#[test]
fn a_member_comes_back_to_an_array_whose_bitmap_is_older_than_its_superblocks() {
    for seed in 0..12 {
        bitmaps_are_out_of_date(seed, |world, disk| world.disks[disk].put(BITMAP + 24, &[0; 8]));
    }
}

#[test]
fn a_member_comes_back_to_an_array_whose_bitmap_is_stale_or_was_not_written() {
    for (seed, state) in (0..12).flat_map(|seed| [2_u32, 4, 6].map(|state| (seed, state))) {
        bitmaps_are_out_of_date(seed, |world, disk| {
            world.disks[disk].put(BITMAP + 48, &state.to_le_bytes());
        });
    }
}
