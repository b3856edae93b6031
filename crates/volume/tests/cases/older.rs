//! Copies of members that were taken while the array was in service, and come in their place later.

use crate::harness::{Setup, World};
use pumice_base::units::Role;
use pumice_raid::layout::{Layout, Level};
use pumice_volume::{Event, Request};

/// A member is copied, the array is written and flushed, and stopped or not; then the copy is there
/// instead of the member.
fn copied(seed: u64, stops: bool) -> (World, Role) {
    let (level, layout) = (Level::Raid5, Some(Layout::LeftSymmetric));
    let setup = Setup { level, layout, disks: 4, chunk: 16384, stripes: 8, log: true, near: seed % 2 == 1 };
    let mut world = World::new(seed, &setup);
    world.start().unwrap();
    world.run(200);
    world.settle();
    let role = Role((seed % 4) as u16);
    let copy = world.disks[role.index()].clone();
    let bytes = world.geometry.array_bytes();
    for i in 0..3 {
        world.submit(Request::Write { offset: (seed + 5 * i) * 4096 % bytes, len: 4096, fua: false });
        world.submit(Request::Write { offset: 0, len: world.geometry.stripe_bytes(), fua: false });
        world.settle();
        world.submit(Request::Flush);
        world.settle();
    }
    world.submit(Request::Write { offset: 4096, len: 4096, fua: false });
    world.settle();
    if stops {
        world.event(Event::Stop);
        world.settle();
        assert!(world.stopped);
    }
    world.crash();
    world.disks[role.index()] = copy;
    (world, role)
}

#[test]
fn a_member_that_is_older_is_failed_and_restored_as_a_whole() {
    for seed in 0..40 {
        let (mut world, role) = copied(seed, seed % 3 > 0);
        world.start().unwrap_or_else(|refusal| panic!("seed {seed}: {refusal}"));
        assert_eq!((&world.report.older, &world.report.failed), (&vec![role], &vec![role]), "seed {seed}");
        world.verify();
        assert_eq!(world.missing(), [role], "seed {seed}");
        let before = world.stores;
        world.rejoin(role);
        world.settle();
        // What it has missed has no bit of its own time.
        assert_eq!((world.missing(), world.stores - before), (vec![], world.windows.count), "seed {seed}");
        assert_eq!(world.torn_rows(), [] as [u64; 0], "seed {seed}");
        world.verify();
    }
}

/// No crash leaves a member that is taken for an older one.
#[test]
fn a_crash_makes_no_member_older() {
    for seed in 0..60 {
        let setup = crate::crash::setup(seed, true);
        let mut world = World::new(seed, &setup);
        world.start().unwrap();
        for round in 0..4 {
            let steps = 20 + world.random.next(300);
            world.run(steps);
            if round == 2 {
                world.event(Event::Stop);
                let steps = world.random.next(80);
                world.run_some(steps);
            }
            world.crash();
            world.start().unwrap();
            assert!(world.report.older.is_empty(), "seed {seed}: {:?}", world.report);
            world.verify();
        }
    }
}
