//! Interruption and resumption.

use crate::world::{Notes, RAID6, UUID, World, options, pass};
use pumice_host::Method;
use pumice_host::finding::Finding;
use pumice_host::scrub::{Observer, Options, Order, Progress, ScrubError, StopReason, run};
use pumice_host::state::StateFiles;
use pumice_host::stop::Stop;
use pumice_raid::Uuid;
use pumice_units::Role;
use std::path::Path;
use std::time::Duration;

/// The operator wants the pass to end from the beginning.
pub(crate) fn raised() -> Stop {
    let stop = Stop::new();
    stop.raise();
    stop
}

/// Interrupts after some stripes.
struct Stopper<'f> {
    after: u64,
    flag: &'f Stop,
}

impl Observer for Stopper<'_> {
    fn progress(&mut self, progress: &Progress) {
        if progress.stripes >= self.after {
            self.flag.raise();
        }
    }
    fn finding(&mut self, _: &Finding) {}
    fn note(&mut self, _: &str) {}
}

#[test]
fn a_resumed_pass_ends_as_an_uninterrupted_one_does() {
    for order in [Order::Sequential, Order::Staggered] {
        for method in Method::ALL {
            let folder = tempfile::tempdir().unwrap();
            let state = StateFiles::open(folder.path(), UUID).unwrap();
            let world = World::new(RAID6, 8);
            world.damage(Role(1), 2, 0, 1, 1);
            world.damage(Role(5), 17, 300, 9, 1);
            let target = world.target(3, &[]);
            let base = Options { method: Some(method), order: Some(order), batch: Some(3), ..options(4) };
            let whole = pass(&target, None, &base);
            let flag = Stop::new();
            let mut stopper = Stopper { after: 9, flag: &flag };
            let stopped = run(&target, Some(&state), &base, &mut stopper, &flag).unwrap();
            assert_eq!(stopped.stopped, Some(StopReason::Interrupted));
            assert!(stopped.stripes_checked < 20);
            let rest = Options { resume: true, batch: None, order: None, method: None, ..options(99) };
            let resumed = pass(&target, Some(&state), &rest);
            assert_eq!(resumed.findings, whole.findings, "{order} {method}");
            assert_eq!(resumed.stripes_checked, 20);
            assert_eq!(resumed.bytes_checked, whole.bytes_checked);
            assert_eq!(resumed.method, method);
            assert!(resumed.stopped.is_none());
            // Its state is gone: the next pass begins anew.
            let mut notes = Notes(Vec::new());
            run(&target, Some(&state), &rest, &mut notes, &Stop::new()).unwrap();
            assert!(notes.0.iter().any(|n| n.contains("no interrupted scrub")), "{:?}", notes.0);
        }
    }
}

#[test]
fn options_that_differ_from_the_interrupted_pass_are_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let state = StateFiles::open(folder.path(), UUID).unwrap();
    let world = World::new(RAID6, 8);
    let target = world.target(1, &[]);
    let flag = raised();
    run(&target, Some(&state), &options(1), &mut Notes(Vec::new()), &flag).unwrap();
    let refused = |change: &dyn Fn(&mut Options)| {
        let mut options = Options { resume: true, batch: None, ..options(1) };
        change(&mut options);
        match run(&target, Some(&state), &options, &mut Notes(Vec::new()), &raised()) {
            Err(ScrubError::Resume { option, .. }) => option,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(refused(&|o| o.batch = Some(9)), "--batch");
    assert_eq!(refused(&|o| o.method = Some(Method::Host)), "--method");
    assert_eq!(refused(&|o| o.range = Some(0..4)), "--range");
    assert_eq!(refused(&|o| o.accumulators = Some(2)), "--accumulators");
    assert_eq!(refused(&|o| o.order = Some(Order::Staggered)), "--order");
}

#[test]
fn two_scrubs_of_one_array_do_not_meet() {
    let folder = tempfile::tempdir().unwrap();
    let _first = StateFiles::open(folder.path(), UUID).unwrap();
    assert!(matches!(StateFiles::open(folder.path(), UUID), Err(ScrubError::Locked(_))));
    assert!(StateFiles::open(folder.path(), Uuid([8; 16])).is_ok());
}

#[test]
fn a_range_covers_just_its_stripes() {
    let world = World::new(RAID6, 8);
    world.damage(Role(1), 4, 0, 1, 1);
    world.damage(Role(1), 7, 0, 1, 1);
    let target = world.target(1, &[]);
    let outcome = pass(&target, None, &Options { range: Some(5..9), ..options(1) });
    assert_eq!(outcome.stripes_checked, 4);
    assert_eq!(outcome.findings.iter().map(|f| f.stripe).collect::<Vec<_>>(), [7]);
    let wrong = Options { range: Some(5..21), ..options(1) };
    let result = run(&target, None, &wrong, &mut Notes(Vec::new()), &Stop::new());
    assert!(matches!(result, Err(ScrubError::Range { .. })));
}

/// Takes the state directory away once something was found, and then takes its time.
struct Remover<'f> {
    folder: &'f Path,
    findings: usize,
}

impl Observer for Remover<'_> {
    fn progress(&mut self, progress: &Progress) {
        if progress.findings == self.findings && self.folder.exists() {
            std::fs::remove_dir_all(self.folder).unwrap();
            // Longer than a pass goes on without saving.
            std::thread::sleep(Duration::from_millis(1100));
        }
    }
    fn finding(&mut self, _: &Finding) {}
    fn note(&mut self, _: &str) {}
}

/// What was found is reported, wherever the state directory fails.
#[test]
fn findings_outlive_the_state_directory() {
    let world = World::new(RAID6, 8);
    world.damage(Role(1), 2, 0, 1, 1);
    world.damage(Role(5), 17, 300, 9, 1);
    // After the first finding the pass stops with what it has; after the last batch, all is there.
    for (findings, checked) in [(1, 3), (2, 20)] {
        let folder = tempfile::tempdir().unwrap();
        let state_folder = folder.path().join("state");
        let state = StateFiles::open(&state_folder, UUID).unwrap();
        let base = Options { batch: Some(if findings == 1 { 3 } else { 20 }), ..options(4) };
        let mut remover = Remover { folder: &state_folder, findings };
        let outcome = run(&world.target(1, &[]), Some(&state), &base, &mut remover, &Stop::new()).unwrap();
        assert_eq!((outcome.findings.len(), outcome.stripes_checked), (findings, checked));
        let Some(StopReason::Failed(why)) = outcome.stopped else { panic!("{:?}", outcome.stopped) };
        assert!(why.contains(state_folder.to_str().unwrap()), "{why}");
    }
}

/// The file in the state directory.
fn saved(folder: &Path) -> serde_json::Value {
    serde_json::from_slice(&std::fs::read(folder.join(format!("{UUID}.scrub"))).unwrap()).unwrap()
}

#[test]
fn the_file_names_what_a_pass_relies_on() {
    let folder = tempfile::tempdir().unwrap();
    let state = StateFiles::open(folder.path(), UUID).unwrap();
    let target = World::new(RAID6, 8).target(1, &[]);
    run(&target, Some(&state), &options(1), &mut Notes(Vec::new()), &raised()).unwrap();
    let file = saved(folder.path());
    let shape = serde_json::json!({
        "level": 6, "layout": "left-symmetric", "chunk_bytes": 16384, "raid_disks": 6, "stripes": 20,
    });
    assert_eq!((&file["version"], &file["geometry"]), (&2.into(), &shape));
    // Of an array that is another by now.
    let mut changed = file.clone();
    changed["geometry"]["chunk_bytes"] = 32768.into();
    std::fs::write(folder.path().join(format!("{UUID}.scrub")), changed.to_string()).unwrap();
    let mut notes = Notes(Vec::new());
    let resume = Options { resume: true, batch: None, ..options(1) };
    let outcome = run(&target, Some(&state), &resume, &mut notes, &Stop::new()).unwrap();
    assert_eq!((outcome.stopped, outcome.stripes_checked), (None, 20));
    assert!(notes.0.iter().any(|note| note.contains("the array has changed")), "{:?}", notes.0);
}

#[test]
fn a_pass_that_another_version_saved_begins_anew_and_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let state = StateFiles::open(folder.path(), UUID).unwrap();
    let target = World::new(RAID6, 8).target(1, &[]);
    let path = folder.path().join(format!("{UUID}.scrub"));
    // As version 1 wrote it.
    let old = format!(
        r#"{{"version":1,"array":"{UUID}","method":"stripe","batch":8,"accumulators":1,"seed":"{}","range":{{"start":0,"end":20}},"order":"sequential","geometry":"Geometry {{ level: Raid6 }}","plan":1,"batches_done":1,"stripes_checked":8,"rechecked":0,"bytes_checked":1,"findings":[],"ledger":{{}},"miss_bound":0.0,"seconds":1.0}}"#,
        "00".repeat(32)
    );
    for (text, resume) in [(&*old, true), (&*old, false), (r#"{"version":3}"#, true)] {
        std::fs::write(&path, text).unwrap();
        let mut notes = Notes(Vec::new());
        let options = Options { resume, ..options(1) };
        let outcome = run(&target, Some(&state), &options, &mut notes, &Stop::new()).unwrap();
        assert_eq!((outcome.stopped, outcome.stripes_checked), (None, 20));
        assert_eq!(notes.0.len(), 1, "{:?}", notes.0);
        assert!(notes.0[0].contains("another version of pumice"), "{:?}", notes.0);
        assert!(!path.exists(), "it has come to its end");
    }
}
