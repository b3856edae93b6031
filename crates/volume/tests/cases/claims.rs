//! Claims: whoever has one sees whole rows that stay as they are, whatever is written beside them.

use crate::harness::{Setup, World};
use pumice_base::units::Role;
use pumice_raid::layout::{Layout, Level};
use pumice_volume::assemble::Rule;
use pumice_volume::{Event, RequestError};

fn world(seed: u64) -> World {
    let (level, disks) = if seed.is_multiple_of(2) { (Level::Raid5, 4) } else { (Level::Raid6, 5) };
    // With two windows a chunk as well.
    let chunk = [4096, 16384, 131_072][seed as usize % 3];
    let (log, near) = (seed % 4 != 3, seed % 5 < 2);
    let layout = Some(Layout::LeftSymmetric);
    let setup = Setup { level, layout, disks, chunk, stripes: 6, log, near };
    World::new(seed, &setup)
}

/// Requests, claims and failures in any order. Returns how many claims saw what they must not.
fn life(world: &mut World) -> u64 {
    for round in 0..60 {
        world.run(20);
        if world.again || world.fenced {
            break;
        }
        let first = world.random.next(6);
        let end = (first + 1 + world.random.next(3)).min(6);
        let alone = world.random.chance(40);
        world.claim(first..end, alone);
        if round == 25 {
            let role = world.random.next(4) as usize;
            world.disks[role].up = false;
        }
        if round == 40 {
            let away = (0..world.disks.len()).map(|i| Role(i as u16)).find(|r| !world.disks[r.index()].up);
            let missing = world.volume.as_ref().unwrap().missing();
            if let Some(role) = away.filter(|role| missing.contains(role)) {
                world.rejoin(role);
            }
        }
        world.run(10);
        while world.random.chance(70) {
            world.give_back();
        }
    }
    // Whoever waits for one that was granted waits no longer.
    for _ in 0..200 {
        world.settle();
        world.give_back();
    }
    world.claims.wrong
}

#[test]
fn rows_of_a_claim_are_whole_and_stay_as_they_are() {
    let (mut whole, mut partial) = (0, 0);
    for seed in 0..24 {
        let mut world = world(seed);
        world.start().unwrap();
        assert_eq!(life(&mut world), 0, "seed {seed}");
        assert_eq!(world.claims.refused, [], "seed {seed}");
        (whole, partial) = (whole + world.claims.whole, partial + world.claims.partial);
        world.verify();
    }
    assert!(whole > 500 && partial > 100, "{whole} {partial}");
}

#[test]
fn claims_that_do_not_wait_see_torn_rows() {
    let mut wrong = 0;
    for seed in 0..6 {
        let mut world = world(seed);
        world.omit = Some(Rule::ClaimsWait);
        world.start().unwrap();
        wrong += life(&mut world);
    }
    assert!(wrong > 10, "{wrong}");
}

#[test]
fn claims_end_with_their_volume_and_name_stripes_that_are_there() {
    let mut world = world(1);
    world.start().unwrap();
    world.run(200);
    world.settle();
    for stripes in [0..7, 3..3, 6..7, u64::MAX - 1..u64::MAX] {
        world.claim(stripes, false);
    }
    assert_eq!(world.claims.refused, [RequestError::Range; 4]);
    world.claims.refused.clear();
    let (first, second) = (world.claim(1..3, true), world.claim(2..4, false));
    assert!(world.is_granted(first) && !world.is_granted(second));
    world.event(Event::Stop);
    world.settle();
    assert_eq!(world.claims.refused, [RequestError::Stopped], "it waited");
    assert!(!world.stopped, "somebody still looks at stripes");
    world.give_back();
    world.settle();
    assert!(world.stopped);
    world.claim(0..1, false);
    assert_eq!(world.claims.refused[1..], [RequestError::Fenced]);
}

/// At most `at_once` windows together, and only when that many are allowed.
#[test]
fn a_paced_rebuild_restores_what_it_is_allowed() {
    for (at_once, steps) in [(1, [1, 2, 5]), (2, [2, 4, 6]), (3, [3, 6, 6])] {
        paced(at_once, &steps);
    }
}

fn paced(at_once: u64, steps: &[u64]) {
    let mut world = world(0);
    world.start().unwrap();
    world.volume.as_mut().unwrap().pace_rebuilds(at_once);
    world.run(300);
    world.settle();
    world.disks[2].lost = true;
    world.run(300);
    world.settle();
    assert_eq!(world.missing(), [Role(2)]);
    world.join(Role(2));
    world.settle();
    let restored = |world: &World| {
        let rebuilding = world.volume.as_ref().unwrap().rebuilding();
        rebuilding.first().map(|(role, done, of)| (*role, *done, *of))
    };
    assert_eq!(restored(&world), Some((Role(2), 0, 6)));
    for upto in steps.iter().copied().filter(|upto| *upto < 6) {
        let (_, done, _) = restored(&world).unwrap();
        for _ in done..upto - 1 {
            // Too few yet, if they are restored together.
            world.event(Event::Restore(1));
            world.settle();
            let now = restored(&world).unwrap().1;
            assert!(now % at_once == 0 && (at_once == 1 || now == done), "{now} after {done}");
        }
        assert_eq!(world.volume.as_ref().unwrap().awaits_pace(), Some(1));
        world.event(Event::Restore(1));
        world.settle();
        assert_eq!(restored(&world), Some((Role(2), upto, 6)));
        world.run(50);
    }
    world.event(Event::Restore(100));
    world.settle();
    assert_eq!((restored(&world), world.missing()), (None, vec![]));
    assert_eq!(world.volume.as_ref().unwrap().awaits_pace(), None);
    world.verify();
    assert_eq!(world.torn_rows(), [] as [u64; 0]);
}
