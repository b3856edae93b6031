//! Orders to a scrub that runs, and the files that it leaves.

use crate::network::PATIENCE;
use crate::signals::{begun, far_window, signal};
use crate::small_array::{Made, RAID6, STRIPES, damage, pumice, run, scrub};
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Time in which an order acts.
const AT_ONCE: Duration = Duration::from_secs(1);

fn pass_files(state: &Path) -> Vec<Value> {
    let files = std::fs::read_dir(state.join("passes")).unwrap();
    let read = |path: PathBuf| serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    files.map(|entry| read(entry.unwrap().path())).collect()
}

fn state() -> tempfile::TempDir {
    let state = tempfile::tempdir().unwrap();
    std::fs::create_dir(state.path().join("passes")).unwrap();
    state
}

/// A scrub in the background, its sockets in the folder of its state.
struct Running {
    child: Child,
    state: tempfile::TempDir,
}

impl Running {
    fn begin(options: &[&str], devices: &[PathBuf]) -> Self {
        let state = state();
        let mut command = pumice();
        command.env("TZ", "UTC0").args(["scrub", "--quiet", "--json", "--by", "a test", "--state-dir"]);
        command.arg(state.path()).arg("--run-dir").arg(state.path()).args(options).args(devices);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let running = Self { child: command.spawn().unwrap(), state };
        let began = Instant::now();
        while !running.socket().exists() {
            assert!(began.elapsed() < PATIENCE, "it makes no socket");
            std::thread::sleep(Duration::from_millis(5));
        }
        running
    }

    fn socket(&self) -> PathBuf {
        let folder = self.state.path().join("scrubs");
        let mut sockets = std::fs::read_dir(folder).into_iter().flatten().map(|entry| entry.unwrap().path());
        sockets.next().unwrap_or_else(|| self.state.path().join("none"))
    }

    fn ask(&self, request: &Value) -> Value {
        let mut stream = UnixStream::connect(self.socket()).unwrap();
        stream.write_all(format!("{request}\n").as_bytes()).unwrap();
        let mut line = String::new();
        stream.read_to_string(&mut line).unwrap();
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"))
    }

    fn phase(&self) -> String {
        let answer = self.ask(&json!({"version": 2, "ask": "status"}));
        answer["scrub"]["state"].as_str().unwrap_or_else(|| panic!("{answer}")).to_owned()
    }

    /// Waits for a phase; it must come at once.
    fn reaches(&self, phase: &str) {
        let asked = Instant::now();
        while self.phase() != phase {
            assert!(asked.elapsed() < AT_ONCE, "{} is not {phase}", self.phase());
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// `pumice scrub ORDER NAME`.
    fn order(&self, words: &[&str]) -> std::process::Output {
        let folder = self.state.path();
        let output = pumice().arg("scrub").args(words).arg("--run-dir").arg(folder).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
        output
    }

    /// Waits for the end, at once, and returns exit code, report, and pass files.
    fn ended(mut self, within: Duration) -> (i32, Value, Vec<Value>) {
        let asked = Instant::now();
        while self.child.try_wait().unwrap().is_none() {
            if asked.elapsed() > within {
                let state = self.ask(&json!({"version": 2, "ask": "status"}));
                self.child.kill().unwrap();
                panic!("it goes on: {state}");
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        assert!(!self.socket().exists(), "its socket is removed");
        let output = self.child.wait_with_output().unwrap();
        let report = serde_json::from_slice(&output.stdout).unwrap();
        (output.status.code().unwrap(), report, pass_files(self.state.path()))
    }
}

#[test]
fn a_scrub_leaves_a_file_with_its_report() {
    let array = Made::new(RAID6);
    damage(&array, 1, 7, 0, 4096);
    let state = state();
    let (code, report) = run(state.path(), &[], &array.members);
    assert_eq!(code, 1);
    let files = pass_files(state.path());
    assert_eq!(files.len(), 1);
    assert_eq!(files[0]["report"], report);
    let checked = &files[0]["checked"];
    assert_eq!((&checked[0]["start"], &checked[0]["end"]), (&json!(0), &json!(STRIPES)));
    assert!(files[0]["by"].as_str().unwrap().starts_with("user "));
    let named = state.path().join("0123456789abcdef0123456789abcdef.json");
    let output = scrub(state.path())
        .args(["--repair", "--by", "Ann", "--pass-file"])
        .arg(&named)
        .args(&array.members)
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", String::from_utf8_lossy(&output.stderr));
    let file: Value = serde_json::from_slice(&std::fs::read(&named).unwrap()).unwrap();
    assert_eq!(file["pass"], "0123456789abcdef0123456789abcdef");
    assert_eq!((&file["by"], &file["report"]["findings"][0]["repaired"]), (&json!("Ann"), &json!(true)));
    assert_eq!(pass_files(state.path()).len(), 1, "a file that is named is the only one");
}

#[test]
fn a_file_that_cannot_be_written_is_a_failure() {
    let array = Made::new(RAID6);
    let state = tempfile::tempdir().unwrap();
    let output = scrub(state.path())
        .args(["--pass-file", "/nonexistent/f.json"])
        .args(&array.members)
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("the pass file cannot be written"));
}

#[test]
fn several_ranges_are_one_pass_in_the_order_given() {
    let array = Made::new(RAID6);
    damage(&array, 1, 7, 0, 4096);
    damage(&array, 1, 20, 0, 4096);
    damage(&array, 2, 31, 0, 4096);
    let state = tempfile::tempdir().unwrap();
    let ranges = ["--range", "30..35", "--range", "5..10"];
    let (code, report) = run(state.path(), &ranges, &array.members);
    assert_eq!(code, 1);
    let stripes: Vec<u64> =
        report["findings"].as_array().unwrap().iter().map(|f| f["stripe"].as_u64().unwrap()).collect();
    assert_eq!(stripes, [7, 31]);
    assert_eq!(report["stripes_checked"], 10);
    assert_eq!(report["range"], json!({"start": 5, "end": 35}));
    assert_eq!(report["parts"], json!([{"start": 30, "end": 35}, {"start": 5, "end": 10}]));
    assert_eq!(report["checked"], json!([{"start": 5, "end": 10}, {"start": 30, "end": 35}]));
    let twice =
        scrub(state.path()).args(["--range", "0..5", "--range", "4..6"]).args(&array.members).output();
    assert_eq!(twice.unwrap().status.code(), Some(2));
}

/// The order of ranges shows in what a scrub has done when it is told to end.
#[test]
fn a_scrub_that_is_stopped_leaves_what_it_has_read() {
    let array = Made::new(RAID6);
    let slow = ["--batch", "2", "--rate", "100KB", "--range", "20..40", "--range", "0..15"];
    for way in ["signal", "order", "parent"] {
        let mut options = slow.to_vec();
        options.push("--with-parent");
        let mut running = Running::begin(&options, &array.members);
        let asked = Instant::now();
        while running.ask(&json!({"version": 2, "ask": "status"}))["scrub"]["stripes"] == 0 {
            assert!(asked.elapsed() < PATIENCE);
            std::thread::sleep(Duration::from_millis(5));
        }
        match way {
            "signal" => signal(running.child.id(), "-TERM"),
            "order" => drop(running.order(&["stop", "small"])),
            _ => drop(running.child.stdin.take()),
        }
        let (code, report, files) = running.ended(2 * AT_ONCE);
        assert_eq!((code, &report["stopped"]), (3, &json!("interrupted")), "{way}");
        assert_eq!(files.len(), 1, "{way}");
        assert_eq!((&files[0]["report"], &files[0]["by"]), (&report, &json!("a test")));
        let checked = files[0]["checked"].as_array().unwrap();
        // By place: the range that was named first is the last of them, and whole before the other.
        let stripes = |part: &Value| part["end"].as_u64().unwrap() - part["start"].as_u64().unwrap();
        let last = checked.last().unwrap();
        assert_eq!(last["start"], 20, "{way}: {checked:?}");
        assert!(checked.len() == 1 || last["end"] == 40, "{way}: {checked:?}");
        assert!(checked.iter().map(stripes).sum::<u64>() < 35, "{way}: {checked:?}");
    }
}

#[test]
fn a_scrub_that_waits_pauses_and_goes_on() {
    let array = Made::new(RAID6);
    let window = far_window();
    let running = Running::begin(&["--window", &window], &array.members);
    begun(running.state.path());
    running.order(&["pause", "small"]);
    running.reaches("paused");
    let locks = || std::fs::read_dir(running.state.path()).unwrap();
    let held = locks().any(|entry| entry.unwrap().path().extension().is_some_and(|ending| ending == "lock"));
    assert!(!held, "nothing is held in a pause");
    let said = running.order(&["go-on", "test:small"]);
    assert!(String::from_utf8_lossy(&said.stdout).contains("of"), "{said:?}");
    running.reaches("running");
    running.order(&["pace", "small", "--rate", "50MB"]);
    running.reaches("running");
    let status = running.ask(&json!({"version": 2, "ask": "status"}));
    assert_eq!((&status["scrub"]["rate"], &status["scrub"]["by"]), (&json!(50_000_000), &json!("a test")));
    let refused = running.ask(&json!({"version": 2, "ask": "pace", "rate": null, "slowdown_ns": 1_000_000}));
    assert_eq!(refused["error"]["code"], "invalid_request");
    running.order(&["pause", "small"]);
    running.reaches("paused");
    running.order(&["stop", "small"]);
    assert_eq!(running.ended(AT_ONCE).0, 3);
}

#[test]
fn a_scrub_that_was_paused_ends_with_everything_read_once() {
    let array = Made::new(RAID6);
    damage(&array, 1, 7, 0, 4096);
    let running = Running::begin(&["--batch", "2", "--rate", "100KB"], &array.members);
    std::thread::sleep(Duration::from_millis(300));
    running.order(&["pause", "small"]);
    running.reaches("paused");
    running.order(&["go-on", "small"]);
    running.order(&["pace", "small", "--rate", "1GB"]);
    let (code, report, files) = running.ended(PATIENCE);
    assert_eq!((code, &report["stripes_checked"]), (1, &json!(STRIPES)));
    assert_eq!(report["findings"].as_array().unwrap().len(), 1);
    assert_eq!(files.len(), 1);
}

#[test]
fn an_order_to_nobody_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let output = pumice().args(["scrub", "stop", "md9", "--run-dir"]).arg(folder.path()).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("no scrub of an array of that name"));
}

/// The variable that makes this program the client of a socket.
const HOLDS: &str = "PUMICE_TEST_HOLDS";

/// Not a test by itself: holds 16 connections of another user.
#[test]
fn holds_connections_if_told_to() {
    let Some(socket) = std::env::var_os(HOLDS) else { return };
    let held: Vec<UnixStream> = (0..16).map(|_| UnixStream::connect(&socket).unwrap()).collect();
    let mut ours = UnixStream::connect(&socket).unwrap();
    let mut told = String::new();
    ours.read_to_string(&mut told).unwrap();
    println!("held {} {}", held.len(), told.trim());
    std::thread::sleep(Duration::from_secs(60));
}

/// Needs another user, so it runs as root only.
#[test]
fn sixteen_clients_of_others_do_not_delay_an_order() {
    let array = Made::new(RAID6);
    let window = far_window();
    let running = Running::begin(&["--window", &window], &array.members);
    begun(running.state.path());
    let open = |path: &Path, mode| std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode));
    open(running.state.path(), 0o711).unwrap();
    open(&running.socket(), 0o666).unwrap();
    let holder = Command::new("setpriv")
        .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "orders::holds_connections_if_told_to", "--nocapture"])
        .env(HOLDS, running.socket())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn();
    let Ok(mut holder) = holder else { return };
    let mut said = Vec::new();
    let mut byte = [0];
    while !String::from_utf8_lossy(&said).contains("}}\n") {
        if holder.stdout.as_mut().unwrap().read(&mut byte).unwrap() == 0 {
            // Not root, or the program cannot be run by others.
            holder.wait().unwrap();
            return;
        }
        said.push(byte[0]);
    }
    assert!(String::from_utf8_lossy(&said).contains("\"busy\""), "the 17th is told so");
    let asked = Instant::now();
    running.order(&["pause", "small"]);
    running.reaches("paused");
    running.order(&["stop", "small"]);
    let ended = running.ended(AT_ONCE).0;
    let took = asked.elapsed();
    holder.kill().unwrap();
    holder.wait().unwrap();
    assert!(ended == 3 && took < 2 * AT_ONCE, "{took:?}");
}
