//! Drives in files, and processes that serve volumes over them.

use pumice_offload::DriveId;
use pumice_remote::initiator::DigestPolicy;
use pumice_remote::{Dial, RemoteNode};
use serde_json::Value;
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

pub(crate) const MIB: usize = 1 << 20;
pub(crate) const DRIVE: usize = 8 * MIB;
pub(crate) const VOLUME: DriveId = DriveId(1);

pub(crate) fn pumice(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pumice"));
    command.args(args);
    command
}

/// Drives in files, and a folder for sockets.
pub(crate) struct World {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) drives: Vec<PathBuf>,
}

impl World {
    pub(crate) fn new(drives: usize) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let drives = (0..drives).map(|i| empty(folder.path(), &format!("drive{i}"), DRIVE)).collect();
        Self { folder, drives }
    }

    pub(crate) fn made(drives: usize, level: &str) -> Self {
        let world = Self::new(drives);
        let (code, text) = world.run(&["create", "--level", level, "--name", "vault"], &world.drives);
        assert_eq!(code, 0, "{text}");
        world
    }

    pub(crate) fn sockets(&self) -> PathBuf {
        self.folder.path().join("run")
    }

    /// Exit code, and both outputs.
    pub(crate) fn run(&self, args: &[&str], devices: &[PathBuf]) -> (i32, String) {
        let output = pumice(&["volume"]).args(args).args(devices).output().unwrap();
        let text = [output.stdout, output.stderr].concat();
        (output.status.code().unwrap(), String::from_utf8(text).unwrap())
    }

    /// Asks the process that serves the volume.
    pub(crate) fn ask(&self, args: &[&str]) -> Value {
        let output = pumice(&["volume"])
            .args(args)
            .arg("--json")
            .arg("--run-dir")
            .arg(self.sockets())
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{args:?}: {said}");
        serde_json::from_slice(&output.stdout).unwrap()
    }

    pub(crate) fn contents(&self) -> Vec<Vec<u8>> {
        self.drives.iter().map(|drive| fs::read(drive).unwrap()).collect()
    }

    /// Checks that a command is refused: code 2, words, and nothing written.
    pub(crate) fn refused(&self, args: &[&str], devices: &[PathBuf], words: &[&str]) {
        let before = self.contents();
        let (code, text) = self.run(args, devices);
        assert_eq!(code, 2, "{args:?}: {text}");
        assert!(words.iter().all(|word| text.contains(word)), "{args:?}: {text}");
        assert!(self.contents() == before, "{args:?}: something was written");
    }
}

pub(crate) fn empty(folder: &Path, name: &str, bytes: usize) -> PathBuf {
    let path = folder.join(name);
    File::create(&path).unwrap().set_len(bytes as u64).unwrap();
    path
}

/// A process that serves; killed when it goes.
pub(crate) struct Served {
    pub(crate) child: Child,
    pub(crate) address: SocketAddr,
}

impl Served {
    pub(crate) fn start(world: &World, options: &[&str], devices: &[PathBuf]) -> Self {
        let mut child = pumice(&["volume", "serve", "--listen", "127.0.0.1:0", "--run-dir"])
            .arg(world.sockets())
            .args(options)
            .args(devices)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let words: Vec<&str> = line.split_whitespace().collect();
        assert_eq!(words.first(), Some(&"listening"), "it does not begin");
        Self { child, address: words[2].parse().unwrap() }
    }

    pub(crate) fn connect(&self) -> RemoteNode {
        let dial = Dial {
            address: self.address,
            nqn: None,
            host: "nqn.2026-11.example:host".parse().unwrap(),
            hostid: [7; 16],
            digests: DigestPolicy::Off,
            deadline: Duration::from_secs(20),
            silent: pumice_remote::log_silence,
        };
        RemoteNode::connect(dial).unwrap()
    }

    pub(crate) fn ended(mut self) -> Option<i32> {
        self.child.wait().unwrap().code()
    }

    pub(crate) fn terminate(self) -> Option<i32> {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
        self.ended()
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) fn pattern(len: usize, seed: u8) -> Vec<u8> {
    (0..len).map(|i| (i / 512 * 7 + i) as u8 ^ seed).collect()
}

pub(crate) fn wait_for(world: &World, what: &str, is: impl Fn(&Value) -> bool) {
    let until = Instant::now() + Duration::from_secs(300);
    while !is(&world.ask(&["status", "vault"])) {
        assert!(Instant::now() < until, "{what} never comes");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Checks by the array's own format: whole, clean, and every equation holds.
pub(crate) fn clean(devices: &[PathBuf]) {
    let state = tempfile::tempdir().unwrap();
    let output =
        pumice(&["scrub", "--json", "--state-dir"]).arg(state.path()).args(devices).output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{text}");
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["result"], "clean");
    if Command::new("mdadm").arg("--version").output().is_ok() {
        for device in devices {
            let examined = Command::new("mdadm").arg("--examine").arg(device).output().unwrap();
            let text = String::from_utf8(examined.stdout).unwrap();
            for words in ["State : clean", "- correct", "Bad Block Log : 512 entries"] {
                assert!(text.contains(words), "{}: no '{words}': {text}", device.display());
            }
        }
    } else {
        eprintln!("SKIPPED: there is no mdadm to look at what was written");
    }
}
