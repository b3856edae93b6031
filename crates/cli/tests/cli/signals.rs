//! A scrub that waits, and is told to end.

use crate::network::{Node, PATIENCE};
use crate::small_array::{CHUNK, DISKS, Made, RAID6, STRIPES, damage, pumice, run};
use serde_json::Value;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant, SystemTime};

/// A window of a minute that begins in six hours, UTC.
pub(crate) fn far_window() -> String {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
    let minute = (now / 60 + 6 * 60) % (24 * 60 - 2);
    let time = |minute: u64| format!("{:02}:{:02}", minute / 60, minute % 60);
    format!("{}-{}", time(minute), time(minute + 1))
}

pub(crate) fn signal(pid: u32, name: &str) {
    assert!(Command::new("kill").args([name, &pid.to_string()]).status().unwrap().success());
}

/// Waits until a scrub has locked its state: just after that, it heeds signals.
pub(crate) fn begun(state: &Path) {
    let began = Instant::now();
    while std::fs::read_dir(state).unwrap().next().is_none() {
        assert!(began.elapsed() < PATIENCE, "the scrub does not begin");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Waits for the end of a process, at most [`PATIENCE`], and returns its exit code and its
/// report.
fn ended(mut child: Child) -> (Option<i32>, Option<Value>) {
    let began = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if began.elapsed() > PATIENCE {
            child.kill().unwrap();
            child.wait().unwrap();
            panic!("it goes on waiting");
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    let output = child.wait_with_output().unwrap();
    (output.status.code(), serde_json::from_slice(&output.stdout).ok())
}

/// Begins a scrub that waits, sends a signal, and asserts that it ends as one that was interrupted.
fn ends(name: &str, options: &[&str], devices: &[PathBuf], after_begin: impl Fn()) {
    for tries in 1.. {
        let state = tempfile::tempdir().unwrap();
        let child = pumice()
            .env("TZ", "UTC0")
            .args(["scrub", "--quiet", "--json", "--state-dir"])
            .arg(state.path())
            .args(options)
            .args(devices)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        begun(state.path());
        std::thread::sleep(Duration::from_millis(300 * tries));
        after_begin();
        signal(child.id(), name);
        let (code, report) = ended(child);
        if code.is_none() && tries < 10 {
            // It was met before it heeds signals.
            continue;
        }
        assert_eq!(code, Some(3), "{options:?}");
        let report = report.expect("an interrupted scrub reports what it has");
        assert_eq!((&report["result"], &report["stopped"]), (&"incomplete".into(), &"interrupted".into()));
        return;
    }
}

#[test]
fn a_scrub_that_waits_for_its_window_ends_on_sigterm() {
    let array = Made::new(RAID6);
    let window = far_window();
    ends("-TERM", &["--window", &window], &array.members, || {});
    let node = Node::start(&["--listen", "127.0.0.1:0"], &array.members);
    for method in ["stripe", "fingerprint"] {
        ends("-TERM", &["--window", &window, "--method", method], &[node.name()], || {});
    }
}

/// A check of drives has no state folder that tells when it has begun.
#[test]
fn a_check_of_drives_that_waits_for_its_window_ends_on_sigterm() {
    let array = Made::new(RAID6);
    let node = Node::start(&["--listen", "127.0.0.1:0"], &array.members);
    let window = far_window();
    for tries in 1..=10 {
        let child = pumice()
            .env("TZ", "UTC0")
            .args(["scrub", "--drives", "--json", "--window", &window])
            .arg(node.name())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        std::thread::sleep(Duration::from_millis(500 * tries));
        signal(child.id(), "-TERM");
        let (code, report) = ended(child);
        if code.is_none() {
            // The signal came before it had a handler.
            continue;
        }
        assert_eq!(code, Some(3));
        let report = report.expect("an interrupted check reports what it has");
        assert_eq!(
            (&report["result"], &report["drives"][0]["checked_bytes"]),
            (&"incomplete".into(), &0.into())
        );
        return;
    }
    panic!("it has no handler after 5 s");
}

#[test]
fn a_scrub_that_waits_for_its_rate_ends_on_ctrl_c() {
    let array = Made::new(RAID6);
    // A few seconds' worth may be read at once; all of it takes minutes.
    ends("-INT", &["--rate", "4096"], &array.members, || {});
    let node = Node::start(&["--listen", "127.0.0.1:0"], &array.members);
    ends("-INT", &["--rate", "4096"], &[node.name()], || {});
}

/// Nobody had the members when the scrub began, so it looks once at each stripe. If a writer comes
/// meanwhile, a stripe that it was writing looks damaged.
#[test]
fn members_taken_into_use_during_a_scrub_end_it_without_a_verdict() {
    let array = Made::new(RAID6);
    damage(&array, 0, 7, 0, 10);
    let state = tempfile::tempdir().unwrap();
    // Several seconds, so that the lock comes before the end.
    let rate = (DISKS * STRIPES as usize * CHUNK / 8).to_string();
    let child = pumice()
        .args(["scrub", "--quiet", "--json", "--rate", &rate, "--state-dir"])
        .arg(state.path())
        .args(&array.members)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    begun(state.path());
    let writer = File::options().write(true).open(&array.members[2]).unwrap();
    writer.try_lock().unwrap();
    let (code, report) = ended(child);
    let report = report.expect("a report of what was seen");
    assert_eq!((code, &report["result"]), (Some(3), &"incomplete".into()), "{report}");
    let stopped = report["stopped"].as_str().unwrap();
    assert!(stopped.starts_with("taken into use meanwhile: "), "{stopped}");
    assert!(stopped.contains(&array.members[2].display().to_string()), "{stopped}");
    drop(writer);
    assert_eq!(run(state.path(), &[], &array.members).0, 1);
}

#[test]
fn a_scrub_that_looks_twice_ends_on_sigterm() {
    let array = Made::new(RAID6);
    damage(&array, 0, 7, 0, 10);
    ends("-TERM", &["--allow-in-use", "--settle", "1h"], &array.members, || {});
    let state = tempfile::tempdir().unwrap();
    assert_eq!(run(state.path(), &[], &array.members).0, 1);
}

#[test]
fn a_scrub_that_waits_for_a_lost_node_ends_on_sigterm() {
    let array = Made::new(RAID6);
    let window = far_window();
    let node = Node::start(&["--listen", "127.0.0.1:0"], &array.members);
    let options = ["--window", &window, "--reconnect", "10h"];
    ends("-TERM", &options, &[node.name()], || {
        // The node goes, and the scrub is in its back-off when the signal comes.
        signal(node.child.id(), "-KILL");
        std::thread::sleep(Duration::from_secs(1));
    });
}
