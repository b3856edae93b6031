//! The power goes in the middle of a repair: afterwards every chunk is old or new.

use crate::progress::raised;
use crate::world::{Kind, Notes, RAID6, UUID, World, noise, options, pass};
use pumice_base::units::Role;
use pumice_host::error::HostError;
use pumice_host::pass::StopReason;
use pumice_host::repair::RepairPolicy;
use pumice_host::repair::{Recovery, recover};
use pumice_host::scrub::{Options, Outcome, run};
use pumice_host::state::StateFiles;
use pumice_host::stop::Stop;

/// Points at which the power goes.
const POINTS: u64 = 1000;

pub(crate) fn damaged(seed: u64) -> (World, Vec<Vec<u8>>, Vec<Vec<u8>>) {
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
        let repair = Options { repair: Some(RepairPolicy::Likely), ..options(point) };
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
        let _ = run(&target, Some(&state), &repair, &mut Notes(Vec::new()), &Stop::new());
        world.devices.iter().for_each(|device| device.crash());
        let target = world.target(1, &[]);
        let (recovery, _) = recover(&target, state.journal().unwrap(), &state.archive()).unwrap();
        *recoveries.entry(format!("{recovery:?}")).or_insert(0) += 1;
        assert!(!matches!(recovery, Recovery::Dropped(..)), "point {point}: {recovery:?}");
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

/// A repair that fails in the middle of a batch: what was repaired before it, and is found by
/// nobody any more, is reported, by this pass and by the one that goes on; and the rest of the
/// batch by both, once.
#[test]
fn a_repair_that_fails_loses_no_finding() {
    let (world, _, _) = damaged(3);
    let folder = tempfile::tempdir().unwrap();
    let state = StateFiles::open(folder.path(), UUID).unwrap();
    let refused = world.place(2, 0);
    world.devices[4].refuse_writes(refused..refused + 8192);
    let repair = Options { repair: Some(RepairPolicy::Likely), ..options(1) };
    let outcome = pass(&world.target(1, &[]), Some(&state), &repair);
    assert!(matches!(outcome.stopped, Some(StopReason::Failed(_))), "{:?}", outcome.stopped);
    let seen = |outcome: &Outcome| -> Vec<(u64, bool)> {
        outcome.findings.iter().map(|finding| (finding.stripe, finding.repaired)).collect()
    };
    assert_eq!(seen(&outcome), [(0, true), (2, false), (3, false)]);
    let resume = Options { resume: true, batch: None, ..options(1) };
    let outcome = pass(&world.target(1, &[]), Some(&state), &resume);
    assert_eq!(seen(&outcome), [(0, true), (2, false), (3, false)]);
}

#[test]
fn what_is_refused_leaves_the_journal_as_it_is() {
    let (world, _, _) = damaged(1);
    let folder = tempfile::tempdir().unwrap();
    let state = StateFiles::open(folder.path(), UUID).unwrap();
    let target = world.target(1, &[]);
    run(&target, Some(&state), &options(1), &mut Notes(Vec::new()), &raised()).unwrap();
    std::fs::write(state.journal_path(), "whatever").unwrap();
    let repair = Options { repair: Some(RepairPolicy::Likely), ..options(1) };
    let cases = [
        Options { resume: true, batch: Some(3), ..repair.clone() },
        // Others may be writing.
        Options { in_use: true, ..repair },
    ];
    for options in cases {
        let result = run(&target, Some(&state), &options, &mut Notes(Vec::new()), &Stop::new());
        assert!(matches!(result, Err(HostError::Resume { .. } | HostError::Option { .. })), "{result:?}");
        assert!(state.journal_path().exists());
    }
}
