//! A signal in the middle: what a benchmark made for itself is removed.

use crate::nodes::PATIENCE;
use crate::program::pumice;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;
use std::time::Instant;

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
    assert!(Command::new("kill").args([name, &pid.to_string()]).status().unwrap().success());
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
fn a_signal_removes_files_and_node_processes() {
    let folder = tempfile::tempdir().unwrap();
    let bench = ["bench", "flash", "--capacity", "64MiB", "--seconds", "60"];
    leaves_nothing("-INT", pumice().args(bench).arg(folder.path()), folder.path(), 0);
    let bench = ["bench", "volume", "--nodes", "2", "--drive", "32MiB", "--seconds", "60"];
    leaves_nothing("-TERM", pumice().args(bench), folder.path(), 2);
}
