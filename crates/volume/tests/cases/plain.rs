//! Volumes without a crash, against a plain model: contents equal after any sequence of requests,
//! failures and replacements, and all equations hold whenever nothing is under way.

use crate::harness::{Setup, World};
use pumice_base::units::Role;
use pumice_raid::layout::{Layout, Level};

fn layouts() -> Vec<(Level, Option<Layout>, u16)> {
    let mut out = vec![(Level::Raid4, None, 3)];
    for level in [Level::Raid5, Level::Raid6] {
        for layout in Layout::ALL.into_iter().filter(|layout| layout.is_of(level)) {
            out.push((level, Some(layout), 5));
        }
    }
    out.push((Level::Raid5, Some(Layout::LeftSymmetric), 3));
    out.push((Level::Raid6, Some(Layout::LeftSymmetric), 4));
    out
}

fn is_away(world: &World, role: Role) -> bool {
    let disk = &world.disks[role.index()];
    disk.lost || !disk.up
}

/// The role gets a new device, or the one that was away.
fn back(world: &mut World, role: Role) {
    match world.disks[role.index()].lost {
        true => world.join(role),
        false => world.rejoin(role),
    }
}

#[test]
fn contents_are_those_of_a_plain_model_at_all_levels_and_layouts() {
    let mut degraded = 0;
    for (i, (level, layout, disks)) in (0_u64..).zip(layouts()) {
        // Every power of two from 4 KiB to 1 MiB, with and without nodes that make parity.
        let mut chunks = vec![4096, 8192 << (i % 5), 8192 << ((i + 3) % 5)];
        if i % 4 == 0 {
            chunks.push((1 << 20) >> (i / 4 % 3));
        }
        for (nth, chunk) in (0..).zip(chunks) {
            let seed = i + 1000 * nth;
            let stripes = 12 * 4096 / chunk + 3;
            let (log, near) = (seed % 3 > 0, (i + i / 4 + nth) % 2 == 1);
            println!("seed {seed} {level} {layout:?} {disks} disks, chunk {chunk}, log {log}, near {near}");
            let mut world = World::new(seed, &Setup { level, layout, disks, chunk, stripes, log, near });
            world.start().unwrap();
            for round in 0..4 {
                world.run(600);
                let survives = level.parities() as usize;
                let missing = world.volume.as_ref().unwrap().missing();
                if round < 3 && missing.len() < survives {
                    let role = world.random.next(u64::from(disks)) as usize;
                    match world.random.chance(50) {
                        true => world.disks[role].lost = true,
                        false => world.disks[role].up = false,
                    }
                    world.run(200);
                }
                world.verify();
                if world.missing().is_empty() {
                    assert_eq!(world.torn_rows(), [] as [u64; 0], "seed {seed} round {round}");
                }
                degraded += world.volume.as_ref().unwrap().missing().len();
                let mut missing = world.volume.as_ref().unwrap().missing();
                missing.retain(|role| is_away(&world, *role));
                if let (true, Some(role)) = (world.random.chance(60), missing.first()) {
                    back(&mut world, *role);
                    world.run(400);
                }
            }
            for role in world.volume.as_ref().unwrap().missing() {
                if is_away(&world, role) {
                    back(&mut world, role);
                    world.settle();
                }
            }
            world.verify();
            assert_eq!(world.volume.as_ref().unwrap().missing(), [], "seed {seed}: rebuilt");
            assert_eq!(world.torn_rows(), [] as [u64; 0], "seed {seed} {level} {layout:?} {chunk}");
            assert_eq!(world.model.failures, 0);
            for _ in 0..3 {
                world.tick();
                world.settle();
            }
            assert!(world.volume.as_ref().unwrap().is_clean());
        }
    }
    assert!(degraded > 20, "{degraded}");
}

#[test]
fn beyond_the_code_everything_is_held_and_goes_on_when_a_member_is_back() {
    let (level, layout) = (Level::Raid5, Some(Layout::LeftSymmetric));
    for seed in 0..20 {
        let setup = Setup {
            level,
            layout,
            disks: 4,
            chunk: 16384,
            stripes: 6,
            log: seed % 2 == 0,
            near: seed % 3 == 1,
        };
        let mut world = World::new(seed, &setup);
        world.start().unwrap();
        world.run(200);
        world.disks[1].up = false;
        world.disks[2].up = false;
        world.run(300);
        world.settle();
        assert!(world.held, "seed {seed}");
        let before: Vec<Vec<u8>> = world.disks.iter().map(|disk| disk.now.clone()).collect();
        world.any_request();
        world.settle();
        assert!(
            world.disks.iter().zip(&before).all(|(disk, before)| disk.now == *before),
            "nothing is written"
        );
        world.disks[1].up = true;
        world.disks[2].up = true;
        for role in [1, 2] {
            world.event(pumice_volume::Event::Returned(Role(role)));
        }
        world.settle();
        assert!(!world.held);
        world.run(200);
        world.verify();
    }
}
