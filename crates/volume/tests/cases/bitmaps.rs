//! The bitmap alone, beside a stripe log of somebody else's.

use crate::harness::{Setup, World};
use pumice_raid::layout::{Layout, Level};
use pumice_volume::token::Token;
use pumice_volume::{Event, Refusal, Request};

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
