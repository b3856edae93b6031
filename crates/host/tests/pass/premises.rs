//! A result holds for the members that were read, and for no others (`docs/design/premises.md`).

use crate::progress::raised;
use crate::world::{Notes, RAID6, UUID, World, options, patch};
use pumice_base::units::Role;
use pumice_host::finding::Finding;
use pumice_host::pass::{Observer, Progress, StopReason};
use pumice_host::report::{ArrayResult, Report};
use pumice_host::scrub::{Options, run};
use pumice_host::state::StateFiles;
use pumice_host::stop::Stop;
use pumice_raid::superblock::v1::{ROLE_FAULTY, V1};

/// Changes superblocks when some stripes are checked.
struct Meddler<'w> {
    world: &'w World,
    after: u64,
    /// The devices whose superblocks change.
    devices: &'w [usize],
    change: &'w dyn Fn(&mut V1),
    notes: Vec<String>,
}

impl Observer for Meddler<'_> {
    fn progress(&mut self, progress: &Progress) {
        if progress.stripes >= self.after {
            self.after = u64::MAX;
            for device in self.devices {
                patch(&self.world.devices[*device], self.change);
            }
        }
    }
    fn finding(&mut self, _: &Finding) {}
    fn note(&mut self, note: &str) {
        self.notes.push(note.to_owned());
    }
}

/// Runs a pass during which superblocks change; why it ended early, if it did.
fn meddled(devices: &[usize], without: &[u16], change: &dyn Fn(&mut V1)) -> Option<String> {
    let folder = tempfile::tempdir().unwrap();
    let state = StateFiles::open(folder.path(), UUID).unwrap();
    let world = World::new(RAID6, 8);
    let target = world.target(2, without);
    let mut meddler = Meddler { world: &world, after: 8, devices, change, notes: Vec::new() };
    let base = Options { batch: Some(4), accept_degraded: true, ..options(1) };
    let outcome = run(&target, Some(&state), &base, &mut meddler, &Stop::new()).unwrap();
    let report = Report::new(&target, &outcome);
    let why = match outcome.stopped {
        Some(StopReason::ArrayChanged(why)) => Some(why),
        None => None,
        other => panic!("{other:?}"),
    };
    assert_eq!(report.result == ArrayResult::Incomplete, why.is_some(), "{why:?}");
    // Nothing of it is resumed.
    let mut notes = Notes(Vec::new());
    let again = Options { resume: true, batch: None, ..options(1) };
    run(&target, Some(&state), &again, &mut notes, &raised()).unwrap();
    assert!(notes.0.iter().any(|note| note.contains("no interrupted scrub")), "{:?}", notes.0);
    why
}

#[test]
fn a_pass_over_a_member_that_was_thrown_out_is_incomplete() {
    let thrown_out = |superblock: &mut V1| {
        superblock.events += 2;
        superblock.dev_roles[2] = ROLE_FAULTY;
    };
    let why = meddled(&[0, 1, 3, 4, 5], &[], &thrown_out).unwrap();
    assert!(why.contains("member 2 (d2) is no longer in the array"), "{why}");
    // Another device has its role.
    let replaced = |superblock: &mut V1| {
        thrown_out(superblock);
        superblock.dev_roles[9] = 2;
    };
    let why = meddled(&[0, 1, 3, 4, 5], &[], &replaced).unwrap();
    assert!(why.contains("member 2 (d2) is no longer in the array"), "{why}");
}

#[test]
fn a_pass_over_another_device_in_the_same_place_is_incomplete() {
    let why = meddled(&[3], &[], &|superblock| superblock.device_uuid = [0x77; 16]).unwrap();
    assert!(why.contains("member 3"), "{why}");
}

#[test]
fn a_member_that_joined_meanwhile_makes_a_pass_incomplete() {
    // Role 4 is missing by the superblocks when the pass begins, and has a member when it ends.
    let world = World::new(RAID6, 8);
    let all = [0, 1, 2, 3, 5];
    for device in all {
        patch(&world.devices[device], |superblock| superblock.dev_roles[4] = ROLE_FAULTY);
    }
    let target = world.target(1, &[4]);
    let join = |superblock: &mut V1| {
        superblock.events += 1;
        superblock.dev_roles[9] = 4;
    };
    let mut meddler = Meddler { world: &world, after: 8, devices: &all, change: &join, notes: Vec::new() };
    let base = Options { batch: Some(4), ..options(1) };
    let outcome = run(&target, None, &base, &mut meddler, &Stop::new()).unwrap();
    match outcome.stopped {
        Some(StopReason::ArrayChanged(why)) => assert!(why.contains("member 4 was missing"), "{why}"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_change_between_clean_and_active_changes_nothing() {
    let active = |superblock: &mut V1| {
        superblock.events += 1;
        superblock.resync_offset = 0;
        superblock.utime -= 86_400;
    };
    assert_eq!(meddled(&[0, 1, 2, 3, 4, 5], &[], &active), None);
    let far = |superblock: &mut V1| superblock.events += 9;
    let why = meddled(&[0, 1, 2, 3, 4, 5], &[], &far).unwrap();
    assert!(why.contains("changed and changed back"), "{why}");
}

#[test]
fn superblocks_that_are_gone_or_of_another_array_make_a_pass_incomplete() {
    let why = meddled(&[1], &[], &|superblock| superblock.set_uuid = [9; 16]).unwrap();
    assert!(why.contains("another array"), "{why}");
    let why = meddled(&[0, 1, 2, 3, 4, 5], &[], &|s| s.set_uuid = [9; 16]).unwrap();
    assert!(why.contains("now belong to array"), "{why}");
}

/// Stops a pass when some stripes are checked.
pub(crate) struct AfterSome<'f>(pub(crate) &'f Stop);

impl Observer for AfterSome<'_> {
    fn progress(&mut self, progress: &Progress) {
        if progress.stripes >= 8 {
            self.0.raise();
        }
    }
    fn finding(&mut self, _: &Finding) {}
    fn note(&mut self, _: &str) {}
}

/// Interrupts a pass, changes the array, and resumes it: the notes of the second run.
fn resumed_after(without: &[u16], change: &dyn Fn(&World)) -> (Vec<String>, u64, usize) {
    let folder = tempfile::tempdir().unwrap();
    let state = StateFiles::open(folder.path(), UUID).unwrap();
    let world = World::new(RAID6, 8);
    let flag = Stop::new();
    // Member 2 is damaged in a stripe of the first part.
    world.damage(Role(2), 1, 0, 9, 1);
    let base = Options { batch: Some(4), accept_degraded: true, ..options(1) };
    let first = world.target(1, without);
    let stopped = run(&first, Some(&state), &base, &mut AfterSome(&flag), &flag).unwrap();
    assert_eq!(stopped.stopped, Some(StopReason::Interrupted));
    change(&world);
    let mut notes = Notes(Vec::new());
    let again = Options { resume: true, batch: None, ..options(1) };
    let second = world.target(1, &[]);
    let outcome = run(&second, Some(&state), &again, &mut notes, &Stop::new()).unwrap();
    assert_eq!(outcome.stopped, None);
    assert_eq!(outcome.read.len(), 6);
    (notes.0, outcome.bytes_checked, outcome.findings.len())
}

#[test]
fn a_pass_that_began_without_a_member_is_not_resumed_with_it() {
    let (notes, bytes, findings) = resumed_after(&[2], &|_| {});
    assert!(notes.iter().any(|note| note.contains("member 2 was absent")), "{notes:?}");
    assert_eq!((bytes, findings), (20 * 6 * 16384, 1), "every member of every stripe is read");
}

#[test]
fn a_pass_is_not_resumed_over_a_device_that_was_replaced() {
    let replaced = |world: &World| {
        patch(&world.devices[3], |superblock| superblock.device_uuid = [0x77; 16]);
    };
    let (notes, bytes, findings) = resumed_after(&[], &replaced);
    assert!(notes.iter().any(|note| note.contains("member 3 (d3) was replaced")), "{notes:?}");
    assert_eq!((bytes, findings), (20 * 6 * 16384, 1));
    // With the same devices it goes on.
    let (notes, _, findings) = resumed_after(&[], &|_| {});
    assert!(notes.iter().any(|note| note.contains("resumed the scrub")), "{notes:?}");
    assert_eq!(findings, 1);
}
