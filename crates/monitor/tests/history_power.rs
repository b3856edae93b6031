//! Cuts of the power, on a model of the disk.
//!
//! A child writes passes under `strace`, which records each call that changes files. The model
//! carries the calls out as `docs/reference/on-disk/durable.md` says: what was not synced is kept,
//! dropped or torn, from a seed, and names apart from contents. At each cut the files that such a
//! disk would have are made, and opened.

#[path = "history_common/mod.rs"]
mod common;
#[path = "history_disk/mod.rs"]
mod disk;

use common::{compare, file_of, long, take_files};
use disk::{Call, Disk};
use pumice_monitor::history::{History, Opened};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use std::path::Path;
use std::process::{Command, Stdio};

const PASSES: u64 = 24;

/// Not a test: what the child does.
#[test]
fn writer() {
    common::write_passes(PASSES);
}

/// Runs the child from the first pass on, and returns its calls.
fn record(folder: &Path) -> Vec<Call> {
    let trace = folder.with_extension("trace");
    let mut command = Command::new("strace");
    command.args(["-f", "-y", "-xx", "-s", "100000000", "-e", disk::TRACED, "-o"]).arg(&trace);
    command.arg(std::env::current_exe().expect("a program"));
    common::child(&mut command, "writer", folder, 0);
    let ran =
        command.stdout(Stdio::null()).status().expect("strace is there; `cargo xtask setup` installs it");
    assert!(ran.success(), "{ran}");
    let text = std::fs::read_to_string(&trace).expect("read");
    disk::parse(&text, folder)
}

#[test]
fn what_was_reported_survives_a_cut() {
    if std::env::var_os(common::CHILD).is_some() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let recorded = folder.path().join("recorded");
    std::fs::create_dir(&recorded).expect("made");
    let calls = record(&recorded);
    let cuts = if long() { 1000 } else { 100 };
    let mut random = ChaCha8Rng::seed_from_u64(11);
    let mut at: Vec<usize> = (0..cuts).map(|_| random.next_u64() as usize % (calls.len() + 1)).collect();
    at.sort_unstable();
    // Whole at the end: the model is the disk that was.
    let mut whole = Disk::default();
    calls.iter().for_each(|call| whole.call(call));
    let made = std::fs::read(recorded.join("var/state/history.db")).expect("read");
    assert!(whole.contents("var/state/history.db").is_some_and(|contents| contents == made));

    let memory = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).expect("a folder");
    let mut disk = Disk::default();
    let mut done = 0;
    let (mut taken, mut filed, mut hot, mut lost) = (None::<u64>, None::<u64>, 0, 0);
    for (number, cut) in at.into_iter().enumerate() {
        for call in &calls[done..cut] {
            disk.call(call);
            match call {
                Call::Said(word, number) if word == "taken" => taken = Some(*number),
                Call::Said(_, number) => filed = Some(*number),
                _ => {}
            }
        }
        done = cut;
        let place = memory.path().join(number.to_string());
        let after = disk.cut(&mut random);
        lost += usize::from(after.lost_something);
        after.write(&place);
        let what = format!("cut {number} before call {cut}");
        let path = place.join("var/state/history.db");
        hot +=
            u32::from(path.with_file_name("history.db-journal").metadata().is_ok_and(|file| file.len() > 0));
        let (mut history, opened) = History::open(&path).unwrap_or_else(|error| panic!("{what}: {error}"));
        assert!(!matches!(opened, Opened::SetAside { .. }), "{what}: {opened:?}");
        for number in 0..=filed.unwrap_or(0) + 1 {
            let there = compare_kept(&history, number);
            assert!(
                there || taken.is_none_or(|taken| number > taken),
                "{what}: pass {number} was reported, and is lost"
            );
            let kept = there || file_of(&place, number).exists();
            assert!(
                kept || filed.is_none_or(|filed| number > filed),
                "{what}: pass {number} was filed, and is lost"
            );
        }
        take_files(&mut history, &place).unwrap_or_else(|error| panic!("{what}: {error}"));
        assert!(
            (0..=filed.unwrap_or(0)).all(|number| filed.is_none() || compare_kept(&history, number)),
            "{what}"
        );
        drop(history);
        std::fs::remove_dir_all(&place).expect("removed");
    }
    println!("{cuts} cuts in {} calls: {hot} hot journals, {lost} with something lost", calls.len());
    assert!(hot > cuts / 50 && lost > cuts as usize / 10);
}

/// Compares all that there is of a pass with what was written. Returns whether the pass is there.
fn compare_kept(history: &History, number: u64) -> bool {
    compare(history.reader(), number).is_some()
}
