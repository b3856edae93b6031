//! Media that do not give some blocks any more.

use crate::harness::{Setup, World, first_wrong};
use pumice_base::units::Role;
use pumice_raid::layout::{Layout, Level};
use pumice_volume::Request;
use pumice_volume::assemble::Rule;

/// Blocks that a read has to recover are written again, and counted; also what a write finds.
#[test]
fn a_block_that_the_medium_does_not_give_is_recovered_and_written_again() {
    for seed in 0..40 {
        let (near, reads) = (seed % 2 == 1, seed % 4 < 2);
        let (level, layout) = (Level::Raid6, Some(Layout::LeftSymmetric));
        let setup = Setup { level, layout, disks: 5, chunk: 16384, stripes: 4, log: true, near };
        let mut world = World::new(seed, &setup);
        world.start().unwrap();
        let bytes = world.geometry.array_bytes();
        world.submit(Request::Write { offset: 0, len: bytes, fua: true });
        world.settle();
        let place = world.geometry.locate(seed * 4096 % bytes).unwrap();
        let block = place.stripe.get() * 4 + place.offset / 4096;
        world.decay(place.role, block);
        let missed = |world: &World| world.disks.iter().map(|disk| disk.unreadable.len()).sum::<usize>();
        assert_eq!(missed(&world), 1);
        let offset = seed * 4096 % bytes;
        match reads {
            true => world.submit(Request::Read { offset, len: 4096 }),
            // Half a block: the other half is recovered, and the whole is stored.
            false => world.submit(Request::Write { offset, len: 2048, fua: false }),
        }
        world.settle();
        assert_eq!((missed(&world), world.model.failures), (0, 0), "seed {seed}");
        let rewritten = world.volume.as_ref().unwrap().rewritten();
        assert_eq!(rewritten, u64::from(reads), "seed {seed}");
        assert_eq!(world.torn_rows(), [] as [u64; 0], "seed {seed}");
        world.disks[usize::from(place.role.get() == 0)].lost = true;
        world.verify();
        assert_ne!(world.missing(), [] as [Role; 0]);
    }
}

/// Blocks that a rebuild has to recover beside those that it restores are written again as well.
#[test]
fn a_block_that_a_rebuild_finds_unreadable_is_written_again() {
    let mut rewritten = 0;
    for seed in 0..20 {
        let (level, layout, near) = (Level::Raid6, Some(Layout::LeftSymmetric), seed % 2 == 1);
        let setup = Setup { level, layout, disks: 5, chunk: 16384, stripes: 4, log: true, near };
        let mut world = World::new(seed, &setup);
        world.start().unwrap();
        let bytes = world.geometry.array_bytes();
        world.submit(Request::Write { offset: 0, len: bytes, fua: true });
        world.settle();
        let lost = Role(seed as u16 % 5);
        world.disks[lost.index()].lost = true;
        world.submit(Request::Flush);
        world.settle();
        assert_eq!(world.missing(), [lost]);
        let other = Role((lost.get() + 1 + seed as u16 / 5 % 4) % 5);
        world.decay(other, seed % 16);
        world.join(lost);
        world.settle();
        assert_eq!(world.missing(), [] as [Role; 0], "seed {seed}");
        // A rebuild reads no more parities than it needs.
        let found = u64::from(world.disks[other.index()].unreadable.is_empty());
        assert_eq!(world.volume.as_ref().unwrap().rewritten(), found, "seed {seed}");
        rewritten += found;
        assert_eq!(world.torn_rows(), [] as [u64; 0], "seed {seed}");
        world.verify();
    }
    assert!(rewritten > 8, "{rewritten}");
}

/// An error that has passed: what reads well is not written over.
#[test]
fn a_block_that_the_medium_gives_again_is_left_as_it_is() {
    let (level, layout) = (Level::Raid5, Some(Layout::LeftSymmetric));
    let history = |seed: u64, omit: Option<Rule>| {
        let near = seed % 2 == 1;
        let mut world =
            World::new(seed, &Setup { level, layout, disks: 4, chunk: 16384, stripes: 4, log: true, near });
        world.omit = omit;
        world.start().unwrap();
        let bytes = world.geometry.array_bytes();
        world.submit(Request::Write { offset: 0, len: bytes, fua: true });
        world.settle();
        let offset = seed * 4096 % bytes;
        let place = world.geometry.locate(offset).unwrap();
        world.decay(place.role, place.stripe.get() * 4 + place.offset / 4096);
        world.submit(Request::Read { offset, len: 4096 });
        while world.model.under_way() > 0 {
            assert!(world.step(), "seed {seed}: a read that is never answered");
        }
        world.disks[place.role.index()].heal();
        let stores = world.stores;
        world.settle();
        let rewritten = world.volume.as_ref().unwrap().rewritten();
        assert_eq!((world.stores - stores, rewritten), (0, 0), "seed {seed}");
        world.verify();
    };
    (0..20).for_each(|seed| history(seed, None));
    let found = first_wrong(0..20, |seed| history(seed, Some(Rule::AsksAgain)));
    println!("{:?}: wrong at {found:?}", Rule::AsksAgain);
    assert!(found.is_some(), "the rule is not needed?");
}

/// A second block of the row is lost before the first is written again: neither is given up.
#[test]
fn a_block_that_cannot_be_recovered_any_more_is_not_listed_as_bad() {
    let (level, layout) = (Level::Raid5, Some(Layout::LeftSymmetric));
    for seed in 0..20 {
        let near = seed % 2 == 1;
        let mut world =
            World::new(seed, &Setup { level, layout, disks: 4, chunk: 16384, stripes: 4, log: true, near });
        world.start().unwrap();
        let bytes = world.geometry.array_bytes();
        world.submit(Request::Write { offset: 0, len: bytes, fua: true });
        world.settle();
        let offset = seed * 4096 % bytes;
        let place = world.geometry.locate(offset).unwrap();
        let block = place.stripe.get() * 4 + place.offset / 4096;
        world.decay(place.role, block);
        world.submit(Request::Read { offset, len: 4096 });
        while world.model.under_way() > 0 {
            assert!(world.step(), "seed {seed}: a read that is never answered");
        }
        world.decay(Role((place.role.get() + 1) % 4), block);
        world.settle();
        // The first can be read again: it is what the other one depends on.
        world.disks[place.role.index()].heal();
        world.submit(Request::Flush);
        world.settle();
        world.verify();
    }
}
