//! Findings on drives that others may be writing: what is read again before they count, and what
//! becomes of them where the array has changed.

use crate::world::{Kind, RAID6, UUID, World, options, pass, patch};
use pumice_base::units::Role;
use pumice_blockdev::{BlockDevice, HookedDevice};
use pumice_host::finding::{Unsettled, Verdict};
use pumice_host::pass::StopReason;
use pumice_host::repair::RepairPolicy;
use pumice_host::scrub::{Options, Outcome};
use pumice_host::state::StateFiles;
use pumice_raid::plan::SkipReason;
use pumice_raid::superblock::features::Features;
use pumice_raid::superblock::v1::V1;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// Drives that others may be writing, and no patience.
fn in_use() -> Options {
    Options { in_use: true, settle: Duration::from_millis(1), ..options(1) }
}

fn damaged(kind: Kind, stripes: u64) -> World {
    let world = World::new(kind, 3);
    (0..stripes).for_each(|stripe| world.damage(Role(1), stripe, 100, 30, 0x5A));
    world
}

#[test]
fn a_round_reads_each_superblock_once_however_many_findings_it_has() {
    for stripes in [1, 8] {
        let world = damaged(Kind { bitmap: true, ..RAID6 }, stripes);
        let before_data = world.data_offset;
        let reads: Vec<Arc<AtomicUsize>> = world.devices.iter().map(|_| Arc::default()).collect();
        let devices: Vec<Arc<dyn BlockDevice>> = world
            .devices
            .iter()
            .zip(&reads)
            .map(|(device, reads)| {
                let reads = Arc::clone(reads);
                let hooked = HookedDevice::over(Arc::clone(device) as _).at_reads(move |offset, _| {
                    reads.fetch_add(usize::from(offset < before_data), Ordering::Relaxed);
                });
                Arc::new(hooked) as _
            })
            .collect();
        let outcome = pass(&world.target_over(&devices, 2, &[]), None, &in_use());
        assert_eq!(outcome.findings.len() as u64, stripes);
        assert!(outcome.is_complete(), "{:?}", outcome.findings);
        for (device, reads) in reads.iter().enumerate() {
            // Once between the looks, and once at the end of the pass.
            assert_eq!(reads.load(Ordering::Relaxed), 2, "{stripes} stripes, device {device}");
        }
    }
}

#[test]
fn what_has_changed_meanwhile_leaves_its_findings_busy() {
    type Change = fn(&mut V1);
    let changes: [(&str, Change); 4] = [
        ("the first write", |s| s.resync_offset = 0),
        ("a member fails", |s| s.dev_roles[2] = 0xFFFE),
        ("a member is rebuilt", |s| {
            if s.dev_number == 2 {
                s.feature_map |= Features::RECOVERY_OFFSET;
                s.recovery_offset = 8;
            }
        }),
        ("another array", |s| s.set_uuid[0] ^= 1),
    ];
    for (what, change) in changes {
        let world = damaged(RAID6, 2);
        let target = world.target(2, &[]);
        for device in &world.devices {
            patch(device, change);
        }
        let outcome = pass(&target, None, &in_use());
        assert_eq!(outcome.findings.len(), 2, "{what}");
        assert!(outcome.findings.iter().all(pumice_host::finding::Finding::is_busy), "{what}");
        assert!(outcome.findings.iter().all(|f| f.unsettled == Some(Unsettled::ArrayChanged)), "{what}");
        assert!(!outcome.is_complete());
    }
}

/// A pass over an array that another host runs, all in one batch: `written` stripes from the first
/// on look otherwise at each look, and as many as `broken` after them are inconsistent.
fn under_writes(world: &World, written: u64, broken: u64) -> Outcome {
    (written..written + broken).for_each(|stripe| world.damage(Role(1), stripe, 100, 30, 0x5A));
    let places: Vec<u64> = (0..written).map(|stripe| world.place(stripe, 0)).collect();
    let looks = AtomicUsize::new(0);
    let restless = HookedDevice::over(Arc::clone(&world.devices[2]) as _).at_reads(move |offset, bytes| {
        let at = looks.fetch_add(1, Ordering::Relaxed) as u64 % 4000;
        let inside = |place: &u64| place.checked_add(at)?.checked_sub(offset);
        for at in places.iter().filter_map(inside) {
            if let Some(byte) = bytes.get_mut(at as usize) {
                *byte ^= 0x11;
            }
        }
    });
    let mut devices: Vec<Arc<dyn BlockDevice>> =
        world.devices.iter().map(|device| Arc::clone(device) as _).collect();
    devices[2] = Arc::new(restless);
    let options = Options { batch: None, running_elsewhere: true, ..in_use() };
    pass(&world.target_over(&devices, 1, &[]), None, &options)
}

#[test]
fn stripes_that_are_being_written_say_nothing_of_the_parity_of_the_others() {
    let outcome = under_writes(&World::new(RAID6, 3), 12, 1);
    assert_eq!(outcome.stopped, None);
    let (busy, sure): (Vec<_>, Vec<_>) = outcome.findings.iter().partition(|finding| finding.is_busy());
    assert_eq!((busy.len(), sure.len()), (12, 1));
    assert!(busy.iter().all(|finding| finding.unsettled == Some(Unsettled::Written)));
    assert_eq!((sure[0].stripe, sure[0].verdict, sure[0].unsettled), (12, Verdict::Member, None));
    assert!(!outcome.is_complete());
    let outcome = under_writes(&World::new(RAID6, 3), 14, 6);
    assert_eq!(outcome.stopped, None, "of six stripes nothing can be said");
}

#[test]
fn most_of_the_stripes_that_nobody_writes_do() {
    let outcome = under_writes(&World::new(RAID6, 3), 4, 9);
    let Some(StopReason::Failed(why)) = &outcome.stopped else { panic!("{outcome:?}") };
    assert!(why.contains("resync"), "{why}");
    assert!(outcome.findings.is_empty());
}

#[test]
fn places_that_a_drive_does_not_give_back_are_no_parity_being_built() {
    let world = World::new(RAID6, 3);
    world.devices[0].lose(world.place(0, 0)..world.place(15, 0));
    let outcome = under_writes(&world, 0, 0);
    assert_eq!(outcome.stopped, None);
    assert_eq!(outcome.findings.len(), 15);
    assert!(outcome.findings.iter().all(|finding| finding.verdict == Verdict::Unreadable));
}

#[test]
fn a_finding_counts_where_the_journal_does_not_hold_its_stripe() {
    let mut world = damaged(RAID6, 6);
    world.add_journal();
    world.journal_names(&[]);
    let target = world.target(2, &[]);
    // Since then the host has written.
    world.journal_names(&[2, 4, 19]);
    let outcome = pass(&target, None, &in_use());
    let seen: Vec<_> = outcome.findings.iter().map(|f| (f.stripe, f.is_busy(), f.unsettled)).collect();
    let held = |stripe| [2, 4].contains(&stripe);
    let expected: Vec<_> = (0..6).map(|s| (s, held(s), held(s).then_some(Unsettled::Journal))).collect();
    assert_eq!(seen, expected);
    assert!(!outcome.is_complete());
    world.journal_names(&[19]);
    let outcome = pass(&target, None, &in_use());
    assert!(outcome.is_complete() && outcome.findings.len() == 6, "{:?}", outcome.findings);
}

/// md leaves its last entry in the journal of an array that it stops.
#[test]
fn a_consistent_stripe_that_the_journal_of_a_stopped_array_names_is_checked() {
    let mut world = World::new(RAID6, 6);
    world.add_journal();
    world.journal_names(&[7, 9]);
    let outcome = pass(&world.target(2, &[]), None, &options(1));
    assert!(outcome.is_complete() && outcome.skipped.is_empty(), "{:?}", outcome.skipped);
    assert_eq!((outcome.stripes_checked, outcome.bytes_checked), (20, 20 * 6 * 16384));
    // What the journal may put right is no finding, and is not written.
    world.damage(Role(1), 9, 100, 30, 0x5A);
    let before = world.contents();
    let repairing = Options { repair: Some(RepairPolicy::Likely), ..options(1) };
    let folder = tempfile::tempdir().unwrap();
    let state = StateFiles::open(folder.path(), UUID).unwrap();
    let outcome = pass(&world.target(1, &[]), Some(&state), &repairing);
    assert_eq!(outcome.skipped.get(&SkipReason::JournalPending), Some(&1));
    assert!(outcome.findings.is_empty() && !outcome.is_complete());
    assert_eq!(outcome.stripes_checked, 19);
    assert!(world.contents() == before);
    // Nor is a sector that a drive refuses.
    let mut lost = World::new(RAID6, 6);
    lost.add_journal();
    lost.journal_names(&[9]);
    let at = lost.data_offset + 9 * 16384;
    lost.devices[2].lose(at..at + 512);
    let outcome = pass(&lost.target(1, &[]), None, &options(1));
    assert_eq!((outcome.skipped.get(&SkipReason::JournalPending), outcome.findings.len()), (Some(&1), 0));
}

#[test]
fn a_journal_that_cannot_be_made_out_may_hold_everything() {
    let mut world = damaged(RAID6, 2);
    let journal = world.add_journal();
    world.journal_names(&[]);
    let target = world.target(2, &[]);
    journal.write_at(world.data_offset, &[0; 4096]).unwrap();
    let outcome = pass(&target, None, &in_use());
    assert_eq!(outcome.findings.len(), 2);
    assert!(outcome.findings.iter().all(|f| f.is_busy() && f.unsettled == Some(Unsettled::Journal)));
    journal.lose(0..8192);
    let outcome = pass(&target, None, &in_use());
    assert!(
        outcome.findings.iter().all(|f| f.unsettled == Some(Unsettled::Journal)),
        "not even its superblock"
    );
}
