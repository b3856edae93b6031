//! Interruption and resumption.

use crate::world::{Notes, RAID6, UUID, World, options, pass};
use pumice_base::durable::{Envelope, FaultyStore, Store};
use pumice_base::units::Role;
use pumice_host::Method;
use pumice_host::error::HostError;
use pumice_host::finding::Finding;
use pumice_host::order::Order;
use pumice_host::pass::{Observer, Progress, StopReason};
use pumice_host::repair::RepairPolicy;
use pumice_host::report::{ArrayResult, Report};
use pumice_host::scrub::{Options, run};
use pumice_host::state::StateFiles;
use pumice_host::stop::Stop;
use pumice_raid::Uuid;
use pumice_raid::plan::SkipReason;
use serde_json::Value;
use std::path::Path;
use std::sync::Arc;
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
fn what_a_dry_run_would_have_rewritten_is_not_told_by_the_pass_that_goes_on() {
    let world = World::new(RAID6, 8);
    world.damage(Role(1), 0, 0, 1, 1);
    let (folder, state) = interrupted(&world);
    let mut document = saved(folder.path());
    assert_eq!(document["findings"][0]["would_repair"], false);
    document["findings"][0]["would_repair"] = true.into();
    save(folder.path(), &document);
    let resumed = pass(&world.target(1, &[]), Some(&state), &resume());
    assert_eq!(resumed.findings.iter().map(|f| f.would_repair).collect::<Vec<_>>(), [false]);
}

#[test]
fn a_look_at_a_few_stripes_leaves_the_progress_of_a_complete_pass_alone() {
    let folder = tempfile::tempdir().unwrap();
    let state = StateFiles::open(folder.path(), UUID).unwrap();
    let world = World::new(RAID6, 8);
    let target = world.target(3, &[]);
    let stopped = |options: &Options, after| {
        let flag = Stop::new();
        let mut stopper = Stopper { after, flag: &flag };
        run(&target, Some(&state), options, &mut stopper, &flag).unwrap()
    };
    let base = Options { batch: Some(3), ..options(4) };
    let first = stopped(&base, 9);
    assert!((1..20).contains(&first.stripes_checked));
    // One that ends, and one that is stopped itself.
    let part = Options { range: Some(5..9), batch: Some(1), ..options(5) };
    assert_eq!(pass(&target, Some(&state), &part).stripes_checked, 4);
    let stopped_part = stopped(&part, 2);
    assert!((1..4).contains(&stopped_part.stripes_checked));
    let mut notes = Notes(Vec::new());
    let rest = Options { resume: true, batch: None, order: None, method: None, ..options(6) };
    let whole = run(&target, Some(&state), &rest, &mut notes, &Stop::new());
    let after = format!("after {} of 20 stripes", first.stripes_checked);
    assert!(notes.0.iter().any(|note| note.contains(&after)), "{:?}", notes.0);
    assert_eq!(whole.unwrap().stripes_checked, 20);
    // The part is there still.
    let mut notes = Notes(Vec::new());
    let rest = Options { range: Some(5..9), ..rest };
    assert_eq!(run(&target, Some(&state), &rest, &mut notes, &Stop::new()).unwrap().stripes_checked, 4);
    let after = format!("after {} of 4 stripes", stopped_part.stripes_checked);
    assert!(notes.0.iter().any(|note| note.contains(&after)), "{:?}", notes.0);
    assert!(!folder.path().join(format!("{UUID}.range")).exists());
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
            Err(HostError::Resume { option, .. }) => option,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(refused(&|o| o.batch = Some(9)), "--batch");
    assert_eq!(refused(&|o| o.method = Some(Method::Host)), "--method");
    assert_eq!(refused(&|o| o.accumulators = Some(2)), "--accumulators");
    assert_eq!(refused(&|o| o.order = Some(Order::Staggered)), "--order");
    let part = Options { range: Some(0..3), ..options(1) };
    run(&target, Some(&state), &part, &mut Notes(Vec::new()), &flag).unwrap();
    assert_eq!(refused(&|o| o.range = Some(0..4)), "--range");
}

#[test]
fn two_scrubs_of_one_array_do_not_meet() {
    let folder = tempfile::tempdir().unwrap();
    let _first = StateFiles::open(folder.path(), UUID).unwrap();
    assert!(matches!(StateFiles::open(folder.path(), UUID), Err(HostError::Locked(_))));
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
    assert!(matches!(result, Err(HostError::Range { .. })));
}

/// Takes the state directory away once something was found, and then takes its time.
struct Remover<'f> {
    folder: &'f Path,
    findings: usize,
    notes: Vec<String>,
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
    fn note(&mut self, note: &str) {
        self.notes.push(note.to_owned());
    }
}

/// The state directory goes away in the middle: a scrub that only reads says so once, and goes to
/// its end.
#[test]
fn a_scrub_that_only_reads_outlives_the_state_directory() {
    let world = World::new(RAID6, 8);
    world.damage(Role(1), 2, 0, 1, 1);
    world.damage(Role(5), 17, 300, 9, 1);
    let folder = tempfile::tempdir().unwrap();
    let state_folder = folder.path().join("state");
    let state = StateFiles::open(&state_folder, UUID).unwrap();
    let base = Options { batch: Some(3), ..options(4) };
    let mut remover = Remover { folder: &state_folder, findings: 1, notes: Vec::new() };
    let outcome = run(&world.target(1, &[]), Some(&state), &base, &mut remover, &Stop::new()).unwrap();
    assert_eq!((outcome.findings.len(), outcome.stripes_checked, outcome.stopped), (2, 20, None));
    assert_eq!(remover.notes.len(), 1, "{:?}", remover.notes);
    assert!(remover.notes[0].contains("progress is not saved"), "{:?}", remover.notes);
    assert!(remover.notes[0].contains(state_folder.to_str().unwrap()), "{:?}", remover.notes);
}

/// A full or read-only state directory does not stop a scrub that only reads; it refuses a repair.
#[test]
fn a_full_or_read_only_state_directory_stops_no_scrub_and_every_repair() {
    let faults: [fn(&FaultyStore); 2] =
        [|store| store.set_free_bytes(Some(0)), |store| store.set_read_only(true)];
    for fault in faults {
        let world = World::new(RAID6, 8);
        world.damage(Role(1), 2, 0, 600, 1);
        let before = world.contents();
        let store = FaultyStore::new(1);
        let state = StateFiles::over(Arc::new(store.clone()), UUID);
        fault(&store);
        let target = world.target(1, &[]);
        let mut notes = Notes(Vec::new());
        let outcome = run(&target, Some(&state), &options(1), &mut notes, &Stop::new()).unwrap();
        assert_eq!((outcome.stopped, outcome.stripes_checked, outcome.findings.len()), (None, 20, 1));
        assert_eq!(notes.0.len(), 1, "{notes:?}");
        let repair = Options { repair: Some(RepairPolicy::Likely), ..options(1) };
        let refused = run(&target, Some(&state), &repair, &mut Notes(Vec::new()), &Stop::new());
        assert!(refused.is_err());
        assert_eq!(world.contents(), before);
        assert_eq!(store.names().unwrap(), Vec::<String>::new(), "nothing temporary is left");
    }
}

const FILE: Envelope = Envelope { magic: *b"PUMSCRUB", version: 4 };

/// The document in the state directory.
fn saved(folder: &Path) -> Value {
    let file = std::fs::read(folder.join(format!("{UUID}.scrub"))).unwrap();
    serde_json::from_slice(FILE.open(&file).unwrap()).unwrap()
}

/// Puts a document there, with a checksum that fits.
fn save(folder: &Path, document: &Value) {
    let bytes = FILE.seal(document.to_string().as_bytes());
    std::fs::write(folder.join(format!("{UUID}.scrub")), bytes).unwrap();
}

/// A state directory with a pass that was interrupted after three batches of three stripes.
fn interrupted(world: &World) -> (tempfile::TempDir, StateFiles) {
    let folder = tempfile::tempdir().unwrap();
    let state = StateFiles::open(folder.path(), UUID).unwrap();
    let flag = Stop::new();
    let mut stopper = Stopper { after: 9, flag: &flag };
    let base = Options { batch: Some(3), ..options(4) };
    run(&world.target(1, &[]), Some(&state), &base, &mut stopper, &flag).unwrap();
    (folder, state)
}

fn resume() -> Options {
    Options { resume: true, batch: None, ..options(9) }
}

#[test]
fn the_file_names_what_a_pass_relies_on() {
    let world = World::new(RAID6, 8);
    let (folder, state) = interrupted(&world);
    let file = saved(folder.path());
    let shape = serde_json::json!({
        "level": 6, "layout": "left-symmetric", "chunk_bytes": 16384, "raid_disks": 6, "stripes": 20,
    });
    assert_eq!(file["geometry"], shape);
    assert!(file["begun"].as_u64().unwrap() <= file["saved"].as_u64().unwrap());
    // Of an array that is another by now.
    let mut changed = file;
    changed["geometry"]["chunk_bytes"] = 32768.into();
    save(folder.path(), &changed);
    let mut notes = Notes(Vec::new());
    let target = world.target(1, &[]);
    let outcome = run(&target, Some(&state), &resume(), &mut notes, &Stop::new()).unwrap();
    assert_eq!((outcome.stopped, outcome.stripes_checked), (None, 20));
    assert!(notes.0.iter().any(|note| note.contains("the array has changed")), "{:?}", notes.0);
}

/// A progress file that cannot be resumed: `--resume` is refused and leaves it, without it the pass
/// says so, begins at its start, and checks everything.
fn assert_not_used(world: &World, folder: &Path, state: &StateFiles, word: &str) {
    let path = folder.join(format!("{UUID}.scrub"));
    let before = std::fs::read(&path).unwrap();
    let target = world.target(1, &[]);
    match run(&target, Some(state), &resume(), &mut Notes(Vec::new()), &Stop::new()) {
        Err(HostError::State { context, .. }) => assert!(context.contains(word), "{word}: {context}"),
        other => panic!("{word}: {other:?}"),
    }
    assert_eq!(std::fs::read(&path).unwrap(), before, "{word}");
    let mut notes = Notes(Vec::new());
    let outcome = run(&target, Some(state), &options(1), &mut notes, &Stop::new()).unwrap();
    assert_eq!((outcome.stopped, outcome.stripes_checked), (None, 20), "{word}");
    assert_eq!(notes.0.len(), 1, "{word}: {:?}", notes.0);
    assert!(!path.exists(), "{word}: it has come to its end");
}

#[test]
fn a_state_that_contradicts_the_plan_is_never_used() {
    let world = World::new(RAID6, 8);
    world.damage(Role(1), 2, 0, 600, 1);
    type Change = fn(&mut Value);
    let changes: [(&str, Change); 12] = [
        ("batches_done", |s| s["batches_done"] = 99_999_999_999_u64.into()),
        ("stripes_checked", |s| s["batches_done"] = 7.into()),
        ("stripes_checked", |s| s["batches_done"] = 0.into()),
        ("stripes_checked", |s| s["stripes_checked"] = 20.into()),
        ("bytes_checked", |s| s["bytes_checked"] = u64::MAX.into()),
        ("findings", |s| s["findings"][0]["stripe"] = 10.into()),
        ("findings", |s| s["findings"][0]["stripe"] = 20.into()),
        ("findings", |s| s["findings"][0]["length"] = 0.into()),
        ("findings", |s| s["findings"][0]["chunk_offset"] = 16_384.into()),
        ("findings", |s| s["findings"][0]["member"] = 6.into()),
        ("'batch'", |s| s["batch"] = 0.into()),
        ("'accumulators'", |s| s["accumulators"] = 0.into()),
    ];
    for (word, change) in changes {
        let (folder, state) = interrupted(&world);
        let mut document = saved(folder.path());
        change(&mut document);
        save(folder.path(), &document);
        assert_not_used(&world, folder.path(), &state, word);
    }
}

#[test]
fn a_damaged_state_is_never_used() {
    let world = World::new(RAID6, 8);
    world.damage(Role(1), 2, 0, 600, 1);
    let changes: [fn(Vec<u8>) -> Vec<u8>; 4] = [
        |file| file[..file.len() / 2].to_vec(),
        |_| Vec::new(),
        // What an editor would do.
        |file| file.iter().map(|b| if *b == b'3' { b'4' } else { *b }).collect(),
        |mut file| {
            file[100] ^= 1;
            file
        },
    ];
    for change in changes {
        let (folder, state) = interrupted(&world);
        let path = folder.path().join(format!("{UUID}.scrub"));
        std::fs::write(&path, change(std::fs::read(&path).unwrap())).unwrap();
        assert_not_used(&world, folder.path(), &state, "damaged");
    }
}

#[test]
fn a_state_of_another_version_is_never_used() {
    let world = World::new(RAID6, 8);
    // As version 1 wrote it.
    let old = format!(r#"{{"version":1,"array":"{UUID}","method":"stripe","batch":8,"batches_done":1}}"#);
    let newer = Envelope { version: 5, ..FILE }.seal(b"whatever it has");
    for file in [old.into_bytes(), newer] {
        let (folder, state) = interrupted(&world);
        std::fs::write(folder.path().join(format!("{UUID}.scrub")), file).unwrap();
        assert_not_used(&world, folder.path(), &state, "another version of pumice");
    }
}

/// The report works out for itself whether everything was checked.
#[test]
fn nothing_is_clean_unless_the_whole_range_was_checked() {
    let world = World::new(RAID6, 8);
    let target = world.target(1, &[]);
    let outcome = pass(&target, None, &options(1));
    assert_eq!(Report::new(&target, &outcome).result, ArrayResult::Clean);
    for (checked, never_written, result) in [
        (19, 0, ArrayResult::Incomplete),
        (21, 0, ArrayResult::Incomplete),
        (0, 0, ArrayResult::Incomplete),
        (15, 5, ArrayResult::Clean),
        (15, 4, ArrayResult::Incomplete),
    ] {
        let mut outcome = outcome.clone();
        outcome.stripes_checked = checked;
        outcome.skipped.insert(SkipReason::NeverWritten, never_written);
        assert_eq!(Report::new(&target, &outcome).result, result, "{checked} {never_written}");
    }
}

/// Findings from before the interruption are repaired by the pass that goes on.
#[test]
fn a_resumed_repair_repairs_what_was_found_before() {
    let world = World::new(RAID6, 8);
    let good = world.contents();
    world.damage(Role(1), 2, 0, 600, 1);
    world.damage(Role(5), 17, 300, 900, 1);
    let (_folder, state) = interrupted(&world);
    let target = world.target(1, &[]);
    let repair = Options { repair: Some(RepairPolicy::Likely), ..resume() };
    let outcome = pass(&target, Some(&state), &repair);
    let seen: Vec<_> = outcome.findings.iter().map(|f| (f.stripe, f.repaired)).collect();
    assert_eq!(seen, [(2, true), (17, true)]);
    assert_eq!(world.contents(), good);
}

#[test]
fn what_a_crash_left_in_the_state_directory_is_cleaned_up() {
    let folder = tempfile::tempdir().unwrap();
    let other = format!(".{}.scrub.1-2.tmp", Uuid([8; 16]));
    for name in [format!(".{UUID}.scrub.1-2.tmp"), format!("{UUID}.lock"), other.clone()] {
        std::fs::write(folder.path().join(name), "").unwrap();
    }
    let world = World::new(RAID6, 8);
    let state = StateFiles::open(folder.path(), UUID).unwrap();
    pass(&world.target(1, &[]), Some(&state), &options(1));
    drop(state);
    let left: Vec<_> = std::fs::read_dir(folder.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(left, [other.as_str()], "that of another array is not ours");
}
