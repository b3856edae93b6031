//! The power goes in the middle of a repair: afterwards every chunk is old or new.

use crate::world::{Kind, Notes, RAID6, UUID, World, noise, options, pass};
use pumice_host::repair::{Journal, Recovery, recover};
use pumice_host::scrub::{Options, RepairPolicy, run};
use pumice_host::state::StateFiles;
use pumice_units::Role;
use std::sync::atomic::AtomicBool;

/// Points at which the power goes.
const POINTS: u64 = 1000;

fn damaged(seed: u64) -> (World, Vec<Vec<u8>>, Vec<Vec<u8>>) {
    let kind = Kind { chunk: 8192, stripes: 6, ..RAID6 };
    let world = World::new(kind, seed);
    let good = world.contents();
    world.damage(Role(1), 0, 100, 5000, 0x21);
    world.damage(Role(4), 2, 4096, 4096, 0x42);
    world.damage(Role(1), 3, 0, 8192, 0x63);
    let bad = world.contents();
    (world, good, bad)
}

#[test]
fn at_any_of_a_thousand_points_every_chunk_is_old_or_new() {
    let mut next = noise(17);
    let mut recoveries = std::collections::BTreeMap::new();
    for point in 0..POINTS {
        let (world, good, bad) = damaged(point);
        let folder = tempfile::tempdir().unwrap();
        let repair = Options { repair: Some(RepairPolicy::Locate), ..options(point) };
        let state = StateFiles::open(folder.path(), UUID).unwrap();
        let target = world.target(1 + (point % 3) as usize, &[]);
        // One member dies, or all; anywhere from the first read on.
        let operations = next() % 40;
        for (i, device) in world.devices.iter().enumerate() {
            if point % 4 != 0 || i as u64 == (point / 4) % 6 {
                device.cut_power_after(operations);
            }
        }
        // Whatever the pass says of it.
        let _ = run(&target, Some(&state), &repair, &mut Notes(Vec::new()), &AtomicBool::new(false));
        world.devices.iter().for_each(|device| device.crash());
        let target = world.target(1, &[]);
        let recovery = recover(&target, &Journal::at(state.journal_path())).unwrap();
        *recoveries.entry(format!("{recovery:?}")).or_insert(0) += 1;
        assert!(!matches!(recovery, Recovery::Dropped(_)), "point {point}: {recovery:?}");
        for ((now, good), bad) in world.contents().iter().zip(&good).zip(&bad) {
            let chunks = now.chunks(8192).zip(good.chunks(8192).zip(bad.chunks(8192)));
            for (i, (now, (good, bad))) in chunks.enumerate() {
                assert!(now == good || now == bad, "point {point}: chunk {i} is neither old nor new");
            }
        }
        // And the next run brings it to its end.
        let outcome = pass(&target, Some(&state), &Options { resume: false, ..repair });
        assert!(outcome.stopped.is_none(), "point {point}");
        assert_eq!(world.contents(), good, "point {point}");
    }
    // The points were not all before the first write or after the last.
    for kind in ["Nothing", "Whole", "Finished"] {
        assert!(recoveries.contains_key(kind), "{recoveries:?}");
    }
}

#[test]
fn a_journal_of_another_time_is_dropped() {
    let (world, _, _) = damaged(1);
    let folder = tempfile::tempdir().unwrap();
    let target = world.target(1, &[]);
    let journal = Journal::at(folder.path().join("a.repair"));
    let record = |old: u8, new: u8| pumice_host::repair::Record {
        role: 0,
        device_offset: world.place(1, 0),
        old: vec![old; 512],
        new: vec![new; 512],
    };
    let intent = |events, old, new| pumice_host::repair::Intent {
        array: [7; 16],
        events,
        stripe: 1,
        records: vec![record(old, new)],
    };
    let before = world.contents();
    let events = target.array().events();
    for (intent, why) in [(intent(events + 1, 1, 2), "assembled"), (intent(events, 1, 2), "written there")] {
        journal.begin(&intent).unwrap();
        match recover(&target, &journal).unwrap() {
            Recovery::Dropped(reason) => assert!(reason.contains(why), "{reason}"),
            other => panic!("{other:?}"),
        }
        assert!(!journal.path().exists());
    }
    assert_eq!(world.contents(), before);
}
