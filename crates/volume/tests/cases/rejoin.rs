//! A device that was a member takes its role again, and is restored where it has missed writes.

use crate::harness::{Setup, World, first_wrong};
use pumice_base::units::Role;
use pumice_raid::layout::{Layout, Level};
use pumice_volume::assemble::Rule;
use pumice_volume::{Command, Request};

const AWAY: Role = Role(2);

/// A member is away while some blocks are written, and comes back; then another one is lost.
/// Returns how many windows were restored, of how many.
fn away_and_back(seed: u64, omit: Option<Rule>) -> (u64, u64) {
    let (level, layout) = (Level::Raid5, Some(Layout::LeftSymmetric));
    let near = seed % 2 == 1;
    let mut world =
        World::new(seed, &Setup { level, layout, disks: 4, chunk: 16384, stripes: 40, log: true, near });
    world.omit = omit;
    world.start().unwrap();
    let bytes = world.geometry.array_bytes();
    world.submit(Request::Write { offset: 0, len: bytes, fua: false });
    world.settle();
    // All bits are cleared, and some are set again that no flush covers.
    for _ in 0..8 {
        world.submit(Request::Flush);
        world.settle();
        world.tick();
        world.settle();
    }
    let write = |world: &mut World, offset: u64| {
        world.submit(Request::Write { offset: offset % (bytes / 4096) * 4096, len: 4096, fua: false });
    };
    for i in 0..3 {
        write(&mut world, seed * 7 + i);
    }
    if seed.is_multiple_of(3) {
        world.settle();
    } else {
        let steps = world.random.next(20);
        world.run_some(steps);
    }
    world.disks[AWAY.index()].up = false;
    for i in 0..4 {
        write(&mut world, seed * 13 + i * 5);
    }
    world.submit(Request::Flush);
    world.settle();
    assert_eq!(world.missing(), [AWAY], "seed {seed}");
    if seed % 4 == 3 {
        // The process that serves the volume dies meanwhile.
        world.crash();
        world.disks[AWAY.index()].up = false;
        world.start().unwrap();
        world.verify();
        world.disks[AWAY.index()].up = false;
    }
    let before = world.stores;
    world.rejoin(AWAY);
    // Some writes come in the middle.
    if seed % 5 == 4 {
        let steps = world.random.next(60);
        world.run_some(steps);
        write(&mut world, seed);
    }
    world.settle();
    let restored = world.stores - before;
    assert_eq!(world.missing(), [], "seed {seed}");
    assert_eq!(world.torn_rows(), [] as [u64; 0], "seed {seed}");
    world.run(100);
    world.settle();
    world.submit(Request::Flush);
    world.settle();
    world.disks[0].lost = true;
    world.verify();
    (restored, world.windows.count)
}

#[test]
fn a_member_that_comes_back_is_restored_where_it_has_missed_writes_and_only_there() {
    let (mut few, mut all) = (0, 0);
    for seed in 0..80 {
        let (restored, windows) = away_and_back(seed, None);
        (few, all) = (few + restored, all + windows);
    }
    println!("{few} of {all} windows restored");
    assert!(few > 80 && few < all / 2, "{few} of {all}");
    let found = first_wrong(0..40, |seed| _ = away_and_back(seed, Some(Rule::MissedHasBits)));
    assert!(found.is_some(), "the rule is not needed?");
}

/// It fails while the bitmap's header is written with the count of an update, which is given up for
/// it: its events_cleared as well.
#[test]
fn a_member_that_fails_while_an_update_is_written_comes_back_as_it_is() {
    let (level, layout) = (Level::Raid5, Some(Layout::LeftSymmetric));
    for seed in 0..40 {
        let near = seed % 2 == 1;
        let setup = Setup { level, layout, disks: 4, chunk: 16384, stripes: 12, log: seed % 4 < 2, near };
        let mut world = World::new(seed, &setup);
        world.start().unwrap();
        let write = |world: &mut World, at: u64| {
            world.submit(Request::Write { offset: at * 4096, len: 4096, fua: false });
        };
        // The first write makes the superblocks dirty; after it, quiet periods make them clean.
        write(&mut world, seed);
        if seed % 3 > 0 {
            world.settle();
            world.submit(Request::Flush);
            world.settle();
            (0..3).for_each(|_| world.tick());
        }
        assert!(world.run_to_bitmap_header().is_some(), "seed {seed}");
        let steps = world.random.next(3);
        (0..steps).for_each(|_| _ = world.execute_one(|command| command.role() != Some(AWAY)));
        world.disks[AWAY.index()].up = false;
        write(&mut world, seed + 9);
        world.submit(Request::Flush);
        world.settle();
        assert_eq!(world.missing(), [AWAY], "seed {seed}");
        let superblock = world.superblock(AWAY);
        let role = world.volume.as_ref().and_then(|volume| volume.former_role(&superblock));
        assert_eq!(role, Some(AWAY), "seed {seed}");
        world.rejoin(AWAY);
        world.settle();
        assert_eq!((world.missing(), world.torn_rows()), (Vec::new(), Vec::new()), "seed {seed}");
        world.disks[0].lost = true;
        world.verify();
    }
}

/// Its role was another device's meanwhile, and bits were cleared then: nothing on it counts.
#[test]
fn a_device_that_was_away_while_bits_were_cleared_is_restored_as_a_whole() {
    let (level, layout) = (Level::Raid5, Some(Layout::LeftSymmetric));
    for seed in 0..20 {
        let near = seed % 2 == 1;
        let setup = Setup { level, layout, disks: 4, chunk: 16384, stripes: 12, log: true, near };
        let mut world = World::new(seed, &setup);
        world.start().unwrap();
        world.run(200);
        world.settle();
        let old = world.disks[AWAY.index()].clone();
        world.disks[AWAY.index()].lost = true;
        world.submit(Request::Flush);
        world.settle();
        world.join(AWAY);
        world.run(200);
        world.settle();
        for _ in 0..8 {
            world.submit(Request::Flush);
            world.tick();
            world.settle();
        }
        world.disks[AWAY.index()].lost = true;
        world.submit(Request::Flush);
        world.settle();
        assert_eq!(world.missing(), [AWAY], "seed {seed}");
        world.disks[AWAY.index()] = old;
        let before = world.stores;
        world.rejoin(AWAY);
        world.settle();
        assert_eq!((world.missing(), world.stores - before), (vec![], world.windows.count), "seed {seed}");
        assert_eq!(world.torn_rows(), [] as [u64; 0], "seed {seed}");
        world.verify();
    }
}

/// Windows of a member that are restored.
fn restored(world: &World) -> u64 {
    let rebuilding = world.volume.as_ref().unwrap().rebuilding();
    rebuilding.first().map_or(0, |(_, windows, _)| *windows)
}

/// A new device is rebuilt in the place of one that is away, and the flush before the superblocks
/// that say so takes long. The power goes, the new one is lost, and the old one comes back: what it
/// has missed still has its bits.
#[test]
fn bits_are_kept_until_nothing_can_come_back_that_needs_them() {
    let (level, layout) = (Level::Raid6, Some(Layout::LeftSymmetric));
    for seed in 0..20 {
        let near = seed % 2 == 1;
        let setup = Setup { level, layout, disks: 5, chunk: 16384, stripes: 12, log: true, near };
        let mut world = World::new(seed, &setup);
        world.start().unwrap();
        world.run(200);
        world.settle();
        let old = world.disks[AWAY.index()].clone();
        world.disks[AWAY.index()].lost = true;
        let bytes = world.geometry.array_bytes();
        world.submit(Request::Write { offset: seed * 4096 % bytes, len: 4096, fua: true });
        world.settle();
        world.join(AWAY);
        let rebuilt = |world: &World| world.volume.as_ref().unwrap().missing().is_empty();
        while !rebuilt(&world) {
            assert!(world.step(), "seed {seed}: the rebuild stands still");
        }
        // Its flushes are not answered yet.
        for _ in 0..6 {
            world.tick();
            while world.execute_one(|command| matches!(command, Command::Put { .. })) {}
        }
        world.late_actions();
        world.crash();
        world.disks[AWAY.index()].lost = true;
        world.start().unwrap();
        assert_eq!(world.missing(), [AWAY], "seed {seed}");
        world.disks[AWAY.index()] = old;
        world.rejoin(AWAY);
        world.settle();
        assert_eq!(world.missing(), [], "seed {seed}");
        assert_eq!(world.torn_rows(), [] as [u64; 0], "seed {seed}");
        world.verify();
    }
}

/// A device that failed while it was being restored lacks more than what was written since.
#[test]
fn a_device_that_failed_while_it_was_rebuilt_is_restored_as_a_whole() {
    let (level, layout) = (Level::Raid5, Some(Layout::LeftSymmetric));
    for seed in 0..20 {
        let near = seed % 2 == 1;
        let setup = Setup { level, layout, disks: 4, chunk: 16384, stripes: 12, log: true, near };
        let mut world = World::new(seed, &setup);
        world.start().unwrap();
        world.run(200);
        world.settle();
        world.disks[AWAY.index()].lost = true;
        world.submit(Request::Flush);
        world.settle();
        world.join(AWAY);
        while restored(&world) < 4 {
            assert!(world.step(), "seed {seed}: it stands still");
        }
        world.disks[AWAY.index()].up = false;
        world.submit(Request::Flush);
        world.settle();
        assert_eq!(world.missing(), [AWAY], "seed {seed}");
        let before = world.stores;
        world.rejoin(AWAY);
        world.settle();
        assert_eq!((world.missing(), world.stores - before), (vec![], world.windows.count), "seed {seed}");
        assert_eq!(world.torn_rows(), [] as [u64; 0], "seed {seed}");
        world.verify();
    }
}

/// A new device is being restored when the volume is stopped, or when the power goes some time
/// after superblocks said how far it was: it goes on from there.
#[test]
fn a_rebuild_that_is_interrupted_goes_on_where_it_was() {
    let (level, layout) = (Level::Raid5, Some(Layout::LeftSymmetric));
    let mut saved = 0;
    for seed in 0..40 {
        let (near, stops) = (seed % 2 == 1, seed % 4 < 2);
        let setup = Setup { level, layout, disks: 4, chunk: 16384, stripes: 80, log: true, near };
        let mut world = World::new(seed, &setup);
        world.start().unwrap();
        let bytes = world.geometry.array_bytes();
        world.submit(Request::Write { offset: 0, len: bytes, fua: false });
        world.settle();
        world.disks[AWAY.index()].lost = true;
        world.submit(Request::Flush);
        world.settle();
        world.join(AWAY);
        while restored(&world) < 40 {
            assert!(world.step(), "seed {seed}: it stands still");
        }
        if stops {
            world.event(pumice_volume::Event::Stop);
            world.settle();
            assert!(world.stopped, "seed {seed}");
        } else {
            for _ in 0..12 {
                world.tick();
            }
            world.run_some(100);
            world.submit(Request::Write { offset: seed * 4096, len: 4096, fua: false });
            world.run_some(20);
        }
        world.crash();
        world.start().unwrap_or_else(|refusal| panic!("seed {seed}: {refusal}"));
        let before = world.stores;
        world.settle();
        let restored = world.stores - before;
        assert!(!stops || restored <= 40, "seed {seed}: {restored} windows");
        saved += u32::from(restored <= 40);
        assert_eq!(world.missing(), [], "seed {seed}");
        assert_eq!(world.torn_rows(), [] as [u64; 0], "seed {seed}");
        world.verify();
        world.disks[0].lost = true;
        world.verify();
    }
    assert!(saved > 30, "{saved}");
}
