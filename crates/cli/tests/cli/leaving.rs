//! A signal in the middle: what a command made for itself is removed.

use crate::network::PATIENCE;
use crate::signals::signal;
use crate::small_array::pumice;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

fn wait_for(what: &str, mut is: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is() {
        assert!(began.elapsed() < PATIENCE, "{what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn count(folder: &Path) -> usize {
    std::fs::read_dir(folder).unwrap().count()
}

/// The process ids of the children of a process.
fn children(pid: u32) -> Vec<String> {
    let all = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    all.split_whitespace().map(str::to_owned).collect()
}

/// Sends a signal once there is something to remove, and asserts that all of it goes.
fn leaves_nothing(name: &str, command: &mut Command, folder: &Path, nodes: usize) {
    let mut child =
        command.env("TMPDIR", folder).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let pid = child.id();
    if nodes > 0 {
        wait_for("node processes", || children(pid).len() == nodes || count(folder) > 1000);
    } else {
        wait_for("a file", || count(folder) > 0);
    }
    let nodes = children(pid);
    signal(pid, name);
    wait_for("the end", || child.try_wait().unwrap().is_some());
    let done = child.wait_with_output().unwrap();
    assert_eq!(done.status.code(), Some(3), "{}", String::from_utf8_lossy(&done.stderr));
    assert!(done.stderr.is_empty(), "{}", String::from_utf8_lossy(&done.stderr));
    assert_eq!(count(folder), 0, "something is left after {name}");
    for node in nodes {
        assert!(!Path::new(&format!("/proc/{node}")).exists(), "a node process is left after {name}");
    }
}

#[test]
fn a_signal_removes_temporary_files_and_node_processes() {
    let folder = tempfile::tempdir().unwrap();
    // Whoever runs the tests under nohup has SIGHUP ignored in all that they start.
    let hangup = (!ignores_hangup(std::process::id())).then_some("-HUP");
    for name in ["-INT", "-TERM"].into_iter().chain(hangup) {
        leaves_nothing(name, pumice().args(["demo", "--volume"]), folder.path(), 0);
    }
    leaves_nothing("-TERM", pumice().arg("demo"), folder.path(), 0);
}

/// A drive that is being made has a name of its own until it is whole.
#[test]
fn a_signal_removes_a_drive_and_a_tag_file_in_the_making() {
    let folder = tempfile::tempdir().unwrap();
    let files = folder.path().join("files");
    std::fs::create_dir(&files).unwrap();
    let is_new = |entry: std::io::Result<std::fs::DirEntry>| {
        entry.is_ok_and(|entry| entry.path().extension().is_some_and(|extension| extension == "new"))
    };
    let drive = format!("{},capacity=2GiB", files.join("drive").display());
    let mut met = 0;
    for (i, words) in [&["flash", "format"][..], &["node", "--listen", "127.0.0.1:0", "--drive"]]
        .into_iter()
        .cycle()
        .take(20)
        .enumerate()
    {
        let flash = if i % 2 == 0 { drive.clone() } else { format!("flash:{drive}") };
        let mut child =
            pumice().args(words).arg(flash).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let begun = || std::fs::read_dir(&files).unwrap().any(is_new);
        while !begun() && child.try_wait().unwrap().is_none() && !files.join("drive").exists() {}
        met += u32::from(begun());
        signal(child.id(), "-TERM");
        wait_for("the end", || child.try_wait().unwrap().is_some());
        assert!(!begun(), "something is left after {words:?}");
        // It may have been made in time.
        let _ = std::fs::remove_file(files.join("drive"));
    }
    assert!(met > 0, "no drive was met in the making");
}

/// Returns whether a process ignores SIGHUP, as the kernel says.
fn ignores_hangup(pid: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap();
    u64::from_str_radix(mask.trim(), 16).unwrap() & 1 == 1
}

/// Is killed when the test ends, however that comes.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// As under nohup: the terminal goes, and the node stays.
#[test]
fn a_hangup_that_was_ignored_at_the_start_stays_ignored() {
    let inherited = ignores_hangup(std::process::id());
    for (trap, stays) in [("trap '' HUP; ", true), ("", inherited)] {
        let start = format!(r#"{trap}exec "$0" node --listen 127.0.0.1:0 --drive mem:1MiB"#);
        let node = Command::new("sh")
            .args(["-c", &start, env!("CARGO_BIN_EXE_pumice")])
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn();
        let mut killed = Killed(node.unwrap());
        let node = &mut killed.0;
        let mut line = String::new();
        BufReader::new(node.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        assert!(line.starts_with("listening on"), "{line}");
        assert_eq!(ignores_hangup(node.id()), stays);
        signal(node.id(), "-HUP");
        if stays {
            signal(node.id(), "-TERM");
        }
        wait_for("the end", || node.try_wait().unwrap().is_some());
    }
}

/// A limit on the size of files (`ulimit -f`) is an error of the write, as a full file system is.
#[test]
fn a_file_that_is_to_grow_past_its_limit_is_a_failure_and_is_removed() {
    let folder = tempfile::tempdir().unwrap();
    let drive = folder.path().join("drive");
    let output = Command::new("sh")
        .args(["-c", "ulimit -f 100; exec \"$0\" flash format \"$1\"", env!("CARGO_BIN_EXE_pumice")])
        .arg(format!("{},capacity=16MiB", drive.display()))
        .output()
        .unwrap();
    let why = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{why}");
    assert!(why.contains("too large"), "{why}");
    assert_eq!(count(folder.path()), 0);
}
