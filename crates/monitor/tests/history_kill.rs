//! `kill -9` of the process that writes: nothing that it reported is lost, nothing is half there.

#[path = "history_common/mod.rs"]
mod common;

use common::{CHILD, compare, file_of, long, take_files};
use pumice_monitor::history::{History, Limit, Opened};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

/// Not a test: what the child does.
#[test]
fn writer() {
    common::write_passes(u64::MAX);
}

/// Runs a child from a pass on, kills it, and returns what it said.
fn killed(folder: &std::path::Path, from: u64, random: &mut ChaCha8Rng) -> Vec<String> {
    let mut command = Command::new(std::env::current_exe().expect("a program"));
    common::child(&mut command, "writer", folder, from);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("starts");
    let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
    let enough = random.next_u32() % 10;
    let mut said = Vec::new();
    if enough == 0 {
        // In the opening, too.
        thread::sleep(Duration::from_micros(u64::from(random.next_u32() % 30_000)));
    }
    while (said.len() as u32) < enough {
        said.push(lines.next().expect("it runs").expect("text"));
    }
    thread::sleep(Duration::from_micros(u64::from(random.next_u32() % 6_000)));
    child.kill().expect("killed");
    child.wait().expect("ended");
    // What the pipe has was said before the kill.
    said.extend(lines.map_while(Result::ok));
    said
}

#[test]
fn what_was_reported_survives_a_kill() {
    if std::env::var_os(CHILD).is_some() {
        return;
    }
    let rounds = if long() { 200 } else { 20 };
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("var/state/history.db");
    let mut random = ChaCha8Rng::seed_from_u64(7);
    let (mut next, mut rolled_back, mut leftovers) = (0, 0, 0);
    for _ in 0..rounds {
        let said = killed(folder.path(), next, &mut random);
        let number =
            |line: &String, word: &str| line.strip_prefix(word).and_then(|number| number.parse().ok());
        let highest = |word: &str| said.iter().filter_map(|line| number(line, word)).max();
        let journal = path.with_file_name("history.db-journal");
        rolled_back += u32::from(journal.metadata().is_ok_and(|file| file.len() > 0));
        let (mut history, opened) = History::open(&path).expect("opens");
        assert!(!matches!(opened, Opened::SetAside { .. }), "{opened:?}");
        let taken: Option<u64> = highest("taken ");
        let filed: Option<u64> = highest("filed ");
        for number in next..=filed.or(taken).unwrap_or(next) + 1 {
            let there = compare(history.reader(), number).is_some();
            assert!(
                there || taken.is_none_or(|taken| number > taken),
                "pass {number} was reported, and is lost"
            );
            let file = file_of(folder.path(), number).exists();
            leftovers += u32::from(file);
            assert!(
                there || file || filed.is_none_or(|filed| number > filed),
                "pass {number} was filed, and is lost"
            );
        }
        take_files(&mut history, folder.path()).expect("taken up");
        while compare(history.reader(), next).is_some() {
            next += 1;
        }
        assert!(filed.is_none_or(|filed| filed < next));
        let last = history.reader().passes(None, None, Limit::nearest(1)).expect("read");
        assert!(last.iter().all(|row| row.pass < common::id(next)), "a gap");
    }
    println!("{rounds} kills, {next} passes, {rolled_back} hot journals, {leftovers} files left");
    assert!(next > u64::from(rounds as u32) && leftovers > 0);
}
