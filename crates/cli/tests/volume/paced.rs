//! Volumes over nodes that keep a pace of their own: a scrub waits for it before it claims stripes,
//! never while users wait for them.

use crate::world::{MIB, Served, VOLUME, World, pattern, pumice};
use pumice_offload::Drives;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Everything that is asked to end does so within this time, whatever it waits for.
const ENDS: Duration = Duration::from_secs(10);

/// A node process with drives in memory; killed when it goes.
struct Node(Child);

impl Drop for Node {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A node of four drives that keeps a pace, and their names.
fn node(folder: &Path, pacing: &str) -> (Node, Vec<PathBuf>) {
    let config = folder.join("node.toml");
    let drives = "[[drive]]\nbackend = 'mem:16MiB'\n".repeat(4);
    let head = format!("listen = '127.0.0.1:0'\nstate_dir = '{}'\n", folder.join("node").display());
    std::fs::write(&config, format!("{head}{drives}[pacing]\n{pacing}\n")).unwrap();
    let mut command = pumice(&["node", "--config"]);
    command.arg(&config);
    let mut child = command.env("TZ", "UTC").stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let address = line.split_whitespace().nth(2).unwrap().to_owned();
    (Node(child), (1..=4).map(|drive| PathBuf::from(format!("nvme://{address}/{drive}"))).collect())
}

/// A window that opens in two hours, of the day in UTC.
fn closed() -> String {
    let minute = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() / 60;
    let at = |minute: u64| format!("{:02}:{:02}", minute / 60 % 24, minute % 60);
    format!("window = ['{}-{}']", at(minute + 120), at(minute + 180))
}

fn scrub(world: &World, names: &[PathBuf]) -> Child {
    let mut command = pumice(&["scrub", "--run-dir"]);
    command.arg(world.sockets()).arg("--state-dir").arg(world.folder.path().join("state")).args(names);
    command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
}

/// Reads what a scrub says until it says what it waits for.
fn waits(child: &mut Child, node: &str) {
    let (tell, told) = mpsc::channel();
    let stderr = child.stderr.take().unwrap();
    std::thread::spawn(move || BufReader::new(stderr).lines().try_for_each(|line| tell.send(line.unwrap())));
    let mut said = String::new();
    while let Ok(line) = told.recv_timeout(ENDS) {
        said += &line;
        if said.contains(&format!("waiting for the pacing window of node {node}, opens at ")) {
            return;
        }
    }
    let _ = child.kill();
    let _ = child.wait();
    panic!("it does not say what it waits for: {said}");
}

fn signal(child: &Child, signal: &str) {
    assert!(Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap().success());
}

/// The exit code of a process that ends soon.
fn ends(mut child: Child, what: &str) -> Option<i32> {
    let until = Instant::now() + ENDS;
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status.code();
        }
        if Instant::now() > until {
            let _ = child.kill();
            let _ = child.wait();
            panic!("{what} has not ended after {ENDS:?}");
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_paced_node_never_holds_a_claim() {
    let world = World::new(0);
    let (_node, names) = node(world.folder.path(), &closed());
    let address = names[0].to_str().unwrap().trim_start_matches("nvme://").trim_end_matches("/1").to_owned();
    let (code, text) = world.run(&["create", "--level", "6", "--name", "vault"], &names);
    assert_eq!(code, 0, "{text}");
    let served = Served::start(&world, &["--offload", "off"], &names);
    let user = served.connect();
    let blocks = pattern(4 * MIB, 3);
    let write = |what: &str| {
        let began = Instant::now();
        user.write(VOLUME, 0, &blocks).unwrap();
        assert!(began.elapsed() < ENDS, "a write took {:?} {what}", began.elapsed());
    };
    // Ctrl-C.
    let mut first = scrub(&world, &names);
    waits(&mut first, &address);
    write("while a scrub waits for the hours of a node");
    signal(&first, "-INT");
    assert_eq!(ends(first, "a scrub after Ctrl-C"), Some(3));
    // The next one is not refused because of the last, and ends with the volume.
    let mut second = scrub(&world, &names);
    waits(&mut second, &address);
    write("while the next one does");
    signal(&second, "-TERM");
    assert_eq!(ends(second, "a scrub after SIGTERM"), Some(3));
    let mut third = scrub(&world, &names);
    waits(&mut third, &address);
    drop(user);
    let began = Instant::now();
    assert_eq!(world.ask(&["stop", "vault"])["state"], "clean");
    assert!(began.elapsed() < ENDS, "the volume took {:?} to stop", began.elapsed());
    assert_eq!(ends(third, "a scrub of a volume that has stopped"), Some(3));
    assert_eq!(served.ended(), Some(0));
    // SIGTERM.
    let served = Served::start(&world, &["--offload", "off"], &names);
    let mut fourth = scrub(&world, &names);
    waits(&mut fourth, &address);
    let began = Instant::now();
    assert_eq!(served.terminate(), Some(0));
    assert!(began.elapsed() < ENDS, "the process took {:?} to end", began.elapsed());
    assert_eq!(ends(fourth, "a scrub of a volume that has ended"), Some(3));
    // A scrub of the stopped array says the same, and ends as well.
    let mut fifth = scrub(&world, &names);
    waits(&mut fifth, &address);
    signal(&fifth, "-TERM");
    assert_eq!(ends(fifth, "a scrub of drives of nodes"), Some(3));
}

#[test]
fn a_scrub_of_a_volume_keeps_the_rate_of_its_nodes_between_claims() {
    let world = World::new(0);
    let (_node, names) = node(world.folder.path(), "rate = '4MB'");
    let (code, text) = world.run(&["create", "--level", "6", "--name", "vault"], &names);
    assert_eq!(code, 0, "{text}");
    let served = Served::start(&world, &["--offload", "off"], &names);
    let began = Instant::now();
    let output = scrub(&world, &names).wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    // The data of a drive, less what is saved up and the last batch, at 4 MB a second.
    assert!(began.elapsed() >= Duration::from_secs(2), "{:?}", began.elapsed());
    assert_eq!(served.terminate(), Some(0));
}

/// The hours of the node and of the scrub have none in common: waiting would never end.
#[test]
fn hours_that_never_come_are_an_error() {
    let world = World::new(0);
    let (_node, names) = node(world.folder.path(), "window = ['01:00-02:00']");
    let (code, text) = world.run(&["create", "--level", "6", "--name", "vault"], &names);
    assert_eq!(code, 0, "{text}");
    let mut command = pumice(&["scrub", "--window", "03:00-04:00", "--state-dir"]);
    command.env("TZ", "UTC").arg(world.folder.path().join("state")).args(&names);
    let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    assert_eq!(ends(child, "a scrub that could never begin"), Some(2));
}
