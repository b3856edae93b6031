//! Against a plain model: contents equal after any sequence of reads and writes of any place and
//! length, flushes, failures, replacements, restarts; all equations hold when it has stopped.

use crate::world::{Random, World, stop, wait_for};
use pumice_base::buffer::SharedBuffer;
use pumice_base::units::Role;
use pumice_blockdev::BlockDevice;
use pumice_executor::{Consistency, ControlError, ServedVolume};
use pumice_raid::layout::{Layout, Level};
use std::time::Instant;

fn layouts() -> Vec<(Level, Option<Layout>, u16)> {
    let mut out = vec![(Level::Raid4, None, 3)];
    for level in [Level::Raid5, Level::Raid6] {
        for layout in Layout::ALL.into_iter().filter(|layout| layout.is_of(level)) {
            out.push((level, Some(layout), 5));
        }
    }
    out.push((Level::Raid5, Some(Layout::LeftSymmetric), 3));
    out.push((Level::Raid6, Some(Layout::LeftSymmetric), 8));
    out
}

/// A range of the volume: small or large, on borders or not.
fn range(random: &mut Random, bytes: u64, stripe: u64) -> (u64, usize) {
    let (offset, len) = match random.next(5) {
        0 => (random.next(bytes), 1 + random.next(700)),
        1 => (random.next(bytes / 4096) * 4096, 4096),
        2 => (random.next(bytes / 512) * 512, 512 * (1 + random.next(40))),
        3 => (random.next(bytes), 1 + random.next(stripe * 2)),
        _ => (random.next(bytes / stripe) * stripe, stripe * (1 + random.next(2))),
    };
    (offset, len.min(bytes - offset) as usize)
}

fn lose_one(random: &mut Random, volume: &ServedVolume, members: u64) -> Option<Role> {
    let role = Role(random.next(members) as u16);
    match volume.control().fail(role) {
        Ok(()) => {
            wait_for("the failure", || volume.status().unwrap().missing.contains(&role));
            Some(role)
        }
        Err(ControlError::TooFew | ControlError::Missing(_)) => None,
        Err(other) => panic!("{other}"),
    }
}

fn one(seed: u64, shape: (Level, Option<Layout>, u16), chunk: u64, consistency: Consistency) -> u32 {
    println!("seed {seed} {shape:?} chunk {chunk} {consistency:?}");
    let mut random = Random(seed);
    let stripes = (12 * 4096 / chunk).max(2) + 2;
    let mut world = World::new(seed, shape, chunk, stripes, consistency);
    let mut volume = world.open();
    let mut device = volume.device();
    let (bytes, stripe) = (device.size_bytes(), world.geometry.stripe_bytes());
    let mut model = vec![0; bytes as usize];
    let mut degraded = 0;
    for _ in 0..120 {
        let (offset, len) = range(&mut random, bytes, stripe);
        let place = offset as usize..offset as usize + len;
        match random.next(40) {
            0..16 => {
                random.fill(&mut model[place.clone()]);
                if random.chance(50) {
                    device.write_at(offset, &model[place]).unwrap();
                } else {
                    // The bytes may begin anywhere in their memory, so also off all borders.
                    let skip = [0, 0, 512, 7][random.next(4) as usize];
                    let memory = [&vec![0x77; skip][..], &model[place]].concat();
                    device
                        .write_shared(offset, &SharedBuffer::copy_of(&memory).part(skip..skip + len))
                        .unwrap();
                }
            }
            16..25 => {
                let mut read = vec![0xEE; len];
                device.read_at(offset, &mut read).unwrap();
                assert!(read == model[place], "{offset}+{len}");
            }
            25..34 => {
                let read = device.read_shared(offset, len).unwrap();
                assert!(read[..] == model[place], "{offset}+{len}");
                assert!(read.memory() <= len.next_multiple_of(4096));
            }
            34 => device.flush().unwrap(),
            35 => {
                device.zero(offset, len as u64).unwrap();
                model[place].fill(0);
            }
            36 if random.chance(50) => {
                degraded += u32::from(lose_one(&mut random, &volume, u64::from(shape.2)).is_some());
            }
            37 => {
                let missing = volume.status().unwrap().missing;
                if let Some(role) = missing.first() {
                    let new = world.replace(*role);
                    assert_eq!(volume.control().add(new, true).unwrap(), *role);
                    wait_for("the rebuild", || !volume.status().unwrap().missing.contains(role));
                }
            }
            38 => {
                let missing = volume.status().unwrap().missing;
                stop(volume);
                let here: Vec<usize> =
                    (0..world.disks.len()).filter(|i| !missing.contains(&Role(*i as u16))).collect();
                volume = world.try_open(&here).unwrap();
                device = volume.device();
            }
            _ => {}
        }
    }
    for role in volume.status().unwrap().missing {
        let new = world.replace(role);
        volume.control().add(new, true).unwrap();
        wait_for("the rebuild", || !volume.status().unwrap().missing.contains(&role));
    }
    let mut read = vec![0; model.len()];
    device.read_at(0, &mut read).unwrap();
    assert!(read == model, "the whole volume");
    stop(volume);
    assert_eq!(world.torn(), [] as [u64; 0], "seed {seed}");
    degraded
}

#[test]
fn contents_are_those_of_a_plain_model_at_all_levels_and_layouts() {
    let mut degraded = 0;
    for (i, shape) in (0..).zip(layouts()) {
        let chunk = [4096, 65536, 16384, 131_072][i as usize % 4];
        let consistency = if i % 3 == 0 { Consistency::Bitmap } else { Consistency::Log };
        degraded += one(i, shape, chunk, consistency);
    }
    degraded += one(100, (Level::Raid6, Some(Layout::LeftSymmetric), 6), 1 << 20, Consistency::Log);
    assert!(degraded > 5, "{degraded}");
}

#[test]
fn many_threads_write_at_once() {
    let shape = (Level::Raid6, Some(Layout::LeftSymmetric), 6);
    for consistency in [Consistency::Log, Consistency::Bitmap] {
        let world = World::new(7, shape, 16384, 8, consistency);
        let volume = world.open();
        let bytes = volume.device().size_bytes();
        // Each thread has every eighth sector: they meet in every row.
        let threads: Vec<_> = (0..8_u64)
            .map(|thread| {
                let device = volume.device();
                std::thread::spawn(move || {
                    let mut random = Random(thread);
                    let mut model = vec![0_u8; (bytes / 512 / 8) as usize];
                    for step in 1..150 {
                        let which = random.next(model.len() as u64);
                        let at = (which * 8 + thread) * 512;
                        device.write_at(at, &[step as u8; 512]).unwrap();
                        model[which as usize] = step as u8;
                        if random.chance(5) {
                            device.flush().unwrap();
                        }
                        let which = random.next(model.len() as u64);
                        let mut read = [0xEE; 512];
                        device.read_at((which * 8 + thread) * 512, &mut read).unwrap();
                        assert_eq!(read, [model[which as usize]; 512]);
                    }
                })
            })
            .collect();
        for thread in threads {
            thread.join().unwrap();
        }
        stop(volume);
        assert_eq!(world.torn(), [] as [u64; 0]);
    }
}

#[test]
fn an_unreadable_block_is_recovered_and_a_member_that_cannot_be_written_is_failed() {
    let world = World::new(3, (Level::Raid5, Some(Layout::LeftSymmetric), 4), 16384, 6, Consistency::Log);
    let volume = world.open();
    let device = volume.device();
    let mut model = vec![0; device.size_bytes() as usize];
    Random(3).fill(&mut model);
    device.write_at(0, &model).unwrap();
    let check = |device: &dyn BlockDevice, model: &[u8]| {
        let mut read = vec![0; model.len()];
        device.read_at(0, &mut read).unwrap();
        assert!(read == model);
    };
    let at = world.data_offset;
    world.disks[1].lose(at + 4096..at + 3 * 4096);
    check(&*device, &model);
    assert_eq!(volume.status().unwrap().missing, []);
    assert!(!volume.status().unwrap().errors.is_empty());
    world.disks[2].refuse_writes(at..at + 16384);
    model[..100_000].fill(5);
    device.write_at(0, &model[..100_000]).unwrap();
    assert_eq!(volume.status().unwrap().missing, [Role(2)]);
    device.flush().unwrap();
    check(&*device, &model);
    stop(volume);
    let again = world.try_open(&[0, 1, 3]).unwrap();
    assert_eq!(again.facts().report.failed, [], "the superblocks say that it failed");
    check(&*again.device(), &model);
    stop(again);
}

#[test]
fn beyond_the_code_requests_fail_after_a_while_and_nothing_is_written() {
    let world = World::new(5, (Level::Raid5, Some(Layout::LeftSymmetric), 4), 16384, 6, Consistency::Log);
    let volume = world.open();
    let device = volume.device();
    device.write_at(0, &[7; 8192]).unwrap();
    device.flush().unwrap();
    for disk in &world.disks[1..3] {
        disk.cut_power_after(0);
    }
    let before: Vec<Vec<u8>> = [0, 3].map(|i| world.disks[i].content()).to_vec();
    assert!(device.write_at(0, &vec![8; 65536]).is_err());
    assert!(device.read_at(0, &mut [0; 512]).is_err(), "what comes later fails at once");
    assert!(volume.status().unwrap().held);
    assert_eq!(volume.control().fail(Role(0)), Err(ControlError::TooFew));
    volume.abandon();
    for (i, before) in [0, 3].into_iter().zip(before) {
        let superblock = |bytes: &[u8]| pumice_raid::probe(&bytes.to_vec()).unwrap().unwrap().superblock;
        let now = superblock(&world.disks[i].content());
        assert_eq!(now, superblock(&before), "no failure is recorded");
    }
}

/// A member whose log has a sector that cannot be read is failed, and only it.
#[test]
fn a_bad_sector_in_the_log_of_a_member_costs_that_member_only() {
    let shape = (Level::Raid6, Some(Layout::LeftSymmetric), 5);
    // From the start of the data area back: both heads, and the last block of the records.
    for (seed, back) in [(1, 4096), (2, 8192), (3, 12288)] {
        let mut world = World::new(seed, shape, 16384, 6, Consistency::Log);
        let volume = world.open();
        let mut model = vec![0; volume.device().size_bytes() as usize];
        Random(seed).fill(&mut model);
        volume.device().write_at(0, &model).unwrap();
        volume.device().flush().unwrap();
        volume.abandon();
        let at = world.data_offset - back;
        world.disks[1].lose(at + 512..at + 1024);
        let all: Vec<usize> = (0..5).collect();
        let before: Vec<Vec<u8>> = world.disks.iter().map(|disk| disk.content()).collect();
        let refused = world.try_open(&all).unwrap_err().to_string();
        assert!(refused.contains("role 1") && refused.contains("--degraded"), "{refused}");
        assert!(world.disks.iter().zip(before).all(|(disk, before)| disk.content() == before));
        world.options.degraded = true;
        let volume = world.try_open(&all).unwrap();
        assert_eq!(volume.facts().report.failed, [Role(1)], "{back}");
        assert_eq!(volume.status().unwrap().missing, [Role(1)]);
        let mut read = vec![0; model.len()];
        volume.device().read_at(0, &mut read).unwrap();
        assert!(read == model, "{back}");
        stop(volume);
    }
}

/// A rate bounds a rebuild from below: it takes its time, whatever the machine can do.
#[test]
fn a_rebuild_keeps_its_rate() {
    let (chunk, stripes, rate) = (65536, 32, 1 << 20);
    let shape = (Level::Raid5, Some(Layout::LeftSymmetric), 4);
    let mut world = World::new(5, shape, chunk, stripes, Consistency::Log);
    world.options.rebuild_rate = Some(rate);
    let volume = world.open();
    let device = volume.device();
    let mut model = vec![0; device.size_bytes() as usize];
    Random(9).fill(&mut model);
    device.write_at(0, &model).unwrap();
    volume.control().fail(Role(1)).unwrap();
    wait_for("the failure", || volume.status().unwrap().missing == [Role(1)]);
    let began = Instant::now();
    volume.control().add(world.replace(Role(1)), true).unwrap();
    wait_for("a part of the rebuild", || {
        let status = volume.status().unwrap();
        status.rebuilding.iter().any(|(_, done, _)| *done > 0)
    });
    // Users do not wait for the pace.
    device.write_at(0, &model[..4096]).unwrap();
    wait_for("the rebuild", || volume.status().unwrap().missing.is_empty());
    // A tenth of a second may be saved up.
    let least = (stripes * chunk) as f64 / rate as f64 - 0.1;
    assert!(began.elapsed().as_secs_f64() >= least, "{:?} for {least} s", began.elapsed());
    let mut read = vec![0; model.len()];
    device.read_at(0, &mut read).unwrap();
    assert!(read == model);
    stop(volume);
    assert_eq!(world.torn(), [] as [u64; 0]);
}
