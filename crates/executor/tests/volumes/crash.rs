//! The power goes: what was flushed is there, every other block is old or new.

use crate::world::{BLOCK, Random, World, stop, wait_for};
use pumice_base::units::Role;
use pumice_blockdev::BlockDevice;
use pumice_executor::Consistency;
use pumice_raid::layout::{Layout, Level};
use std::collections::BTreeMap;

const SHAPE: (Level, Option<Layout>, u16) = (Level::Raid6, Some(Layout::LeftSymmetric), 5);
const THREADS: u64 = 4;

/// Contents that a block may have, oldest first; the first is durable.
type Versions = BTreeMap<u64, Vec<u64>>;

fn block(tag: u64) -> Vec<u8> {
    tag.to_le_bytes().repeat(BLOCK as usize / 8)
}

/// Writes blocks of its own until a call fails. Every fourth block is one thread's, so all of them
/// meet in windows and rows.
fn writer(device: &dyn BlockDevice, thread: u64, seed: u64, versions: &mut Versions) {
    let mut random = Random(seed * 31 + thread);
    let blocks = device.size_bytes() / BLOCK / THREADS;
    for step in 1.. {
        if random.chance(8) {
            if device.flush().is_err() {
                return;
            }
            versions.values_mut().for_each(|of| drop(of.drain(..of.len() - 1)));
            continue;
        }
        let at = random.next(blocks) * THREADS + thread;
        let tag = (thread + 1) << 32 | step;
        versions.entry(at).or_insert_with(|| vec![0]).push(tag);
        if device.write_at(at * BLOCK, &block(tag)).is_err() {
            return;
        }
    }
}

fn verify(device: &dyn BlockDevice, versions: &Versions, torn_sectors: bool) {
    for (at, may) in versions {
        let mut read = vec![0; BLOCK as usize];
        device.read_at(at * BLOCK, &mut read).unwrap();
        let whole = may.iter().any(|tag| read == block(*tag));
        let by_sector = || read.chunks(512).all(|sector| may.iter().any(|tag| sector == &block(*tag)[..512]));
        assert!(whole || torn_sectors && by_sector(), "block {at}: {:?} is none of {may:?}", &read[..8]);
    }
}

/// One life: writes, and the power goes. Returns what may be there.
fn life(world: &World, here: &[usize], seed: u64, mut versions: Vec<Versions>) -> Vec<Versions> {
    let volume = world.try_open(here).unwrap();
    let mut random = Random(seed);
    let threads: Vec<_> = (0..THREADS)
        .zip(versions.drain(..))
        .map(|(thread, mut of)| {
            let device = volume.device();
            std::thread::spawn(move || {
                writer(&*device, thread, seed, &mut of);
                of
            })
        })
        .collect();
    let enough = 30 + random.next(400);
    wait_for("writes", || here.iter().map(|i| world.disks[*i].counts().writes).max().unwrap_or(0) > enough);
    for i in here {
        world.disks[*i].cut_power_after(0);
    }
    let versions = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
    volume.abandon();
    for i in here {
        world.disks[*i].crash();
    }
    versions
}

fn check(world: &World, here: &[usize], versions: &mut [Versions], torn_sectors: bool) {
    let volume = world.try_open(here).unwrap();
    for of in versions.iter_mut() {
        verify(&*volume.device(), of, torn_sectors);
        // From now on it holds what was read.
        for (at, may) in of.iter_mut() {
            let mut read = vec![0; BLOCK as usize];
            volume.device().read_at(at * BLOCK, &mut read).unwrap();
            let tag = u64::from_le_bytes(read[..8].try_into().unwrap());
            *may = vec![tag];
            if torn_sectors {
                volume.device().write_at(at * BLOCK, &block(tag)).unwrap();
            }
        }
    }
    stop(volume);
}

fn seeds() -> u64 {
    std::env::var("PUMICE_SEEDS").ok().and_then(|seeds| seeds.parse().ok()).unwrap_or(12)
}

#[test]
fn what_was_flushed_is_there_and_every_row_fits() {
    for seed in 0..seeds() {
        println!("seed {seed}");
        let consistency = if seed % 4 == 3 { Consistency::Bitmap } else { Consistency::Log };
        let world = World::new(seed, SHAPE, 16384, 6, consistency);
        let mut versions = vec![Versions::new(); THREADS as usize];
        for crash in 0..3 {
            let all: Vec<usize> = (0..5).collect();
            versions = life(&world, &all, seed * 10 + crash, versions);
            // Nothing is logged then: a block may be torn between sectors.
            check(&world, &all, &mut versions, consistency == Consistency::Bitmap);
            assert_eq!(world.torn(), [] as [u64; 0], "seed {seed}");
        }
    }
}

#[test]
fn a_degraded_volume_loses_nothing_in_a_crash_with_the_log() {
    for seed in 100..100 + seeds() {
        println!("seed {seed}");
        let mut world = World::new(seed, SHAPE, 16384, 6, Consistency::Log);
        let volume = world.open();
        for role in [Role(1), Role(3)] {
            volume.control().fail(role).unwrap();
            wait_for("the failure", || volume.status().unwrap().missing.contains(&role));
        }
        stop(volume);
        let here = [0, 2, 4];
        let mut versions = vec![Versions::new(); THREADS as usize];
        versions = life(&world, &here, seed, versions);
        check(&world, &here, &mut versions, false);
        let volume = world.try_open(&here).unwrap();
        for role in [Role(1), Role(3)] {
            let new = world.replace(role);
            volume.control().add(new, true).unwrap();
            wait_for("the rebuild", || !volume.status().unwrap().missing.contains(&role));
        }
        stop(volume);
        assert_eq!(world.torn(), [] as [u64; 0], "seed {seed}");
        let all: Vec<usize> = (0..5).collect();
        check(&world, &all, &mut versions, false);
    }
}

/// With md's bitmap alone the same crash leaves an array that is refused, as Linux refuses it.
#[test]
fn a_degraded_volume_without_the_log_is_refused_after_a_crash() {
    let world = World::new(9, SHAPE, 16384, 6, Consistency::Bitmap);
    let volume = world.open();
    volume.control().fail(Role(1)).unwrap();
    wait_for("the failure", || volume.status().unwrap().missing.contains(&Role(1)));
    stop(volume);
    let here = [0, 2, 3, 4];
    life(&world, &here, 9, vec![Versions::new(); THREADS as usize]);
    let before: Vec<Vec<u8>> = world.disks.iter().map(|disk| disk.content()).collect();
    let refused = world.try_open(&here).unwrap_err().to_string();
    assert!(refused.contains("dirty and degraded"), "{refused}");
    assert!(world.disks.iter().zip(before).all(|(disk, before)| disk.content() == before));
}

/// A member goes with the power and does not come back.
#[test]
fn a_member_that_is_lost_in_the_crash_takes_nothing_with_it() {
    for seed in 200..200 + seeds() {
        println!("seed {seed}");
        let mut world = World::new(seed, SHAPE, 16384, 6, Consistency::Log);
        let all: Vec<usize> = (0..5).collect();
        // Single blocks only: full stripes are not logged.
        let mut versions = life(&world, &all, seed, vec![Versions::new(); THREADS as usize]);
        let lost = seed as usize % 5;
        let here: Vec<usize> = all.into_iter().filter(|i| *i != lost).collect();
        let refused = world.try_open(&here).unwrap_err().to_string();
        assert!(refused.contains(&format!("role {lost}")) && refused.contains("--degraded"), "{refused}");
        world.options.degraded = true;
        check(&world, &here, &mut versions, false);
    }
}
