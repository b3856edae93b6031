//! `pumice volume serve` as a process of its own, and the commands that speak to it.

use super::json::Json;
use super::mortal;
use crate::run::Failed;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Time for the process to end well.
const ENDING: Duration = Duration::from_secs(60);
/// Time for a rebuild or a change of state on a busy machine.
const PATIENCE: Duration = Duration::from_secs(240);

/// Settings of a served volume.
#[derive(Clone)]
pub(crate) struct Setting {
    pub(crate) binary: PathBuf,
    pub(crate) nqn: String,
    /// Keeps the log and the folder of the socket.
    pub(crate) folder: PathBuf,
    /// More options of `serve`.
    pub(crate) options: Vec<String>,
}

/// A process that serves a volume. It is killed when it is dropped.
pub(crate) struct Served {
    child: Child,
    setting: Setting,
    pub(crate) port: u16,
}

impl Setting {
    fn log(&self) -> PathBuf {
        self.folder.join("volume.log")
    }

    fn run_dir(&self) -> PathBuf {
        self.folder.join("run")
    }

    /// Starts it at a port of the loopback interface, 0 for a free one.
    pub(crate) fn start(&self, devices: &[String], port: u16) -> Result<Served, Failed> {
        let log = self.log();
        let file = File::options().create(true).append(true).open(&log);
        let file = file.map_err(|error| Failed(format!("{}: {error}", log.display())))?;
        let mut command = mortal(&self.binary);
        command.args(["volume", "serve", "--nqn", &self.nqn]);
        command.args(["--listen", &format!("127.0.0.1:{port}"), "--run-dir"]);
        command.arg(self.run_dir()).args(&self.options).args(devices);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(file);
        let mut child = command.spawn().map_err(|error| Failed(format!("pumice volume: {error}")))?;
        let mut line = String::new();
        if let Some(out) = child.stdout.take() {
            // "listening on ADDRESS nqn NQN", or the end of the file.
            let _ = BufReader::new(out).read_line(&mut line);
        }
        let heard = line.split(' ').nth(2).and_then(|address| address.rsplit(':').next());
        match heard.and_then(|port| port.parse().ok()) {
            Some(port) => Ok(Served { child, setting: self.clone(), port }),
            None => Err(Failed(format!("pumice volume serve did not start: {}", log_text(&log)))),
        }
    }
}

impl Served {
    /// As a power cut for the process.
    pub(crate) fn kill(&mut self) {
        // A child that has ended is no error.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// A command to the process: `pumice volume COMMAND VOLUME ARGUMENT...`.
    pub(crate) fn ask(&self, command: &str, rest: &[&str]) -> Result<(), Failed> {
        let run_dir = self.setting.run_dir();
        let mut asked = Command::new(&self.setting.binary);
        asked.args(["volume", command, "--run-dir"]).arg(run_dir).args(rest);
        crate::run::run(asked.stdout(Stdio::null()))
    }

    /// The state of the volume and of its members.
    pub(crate) fn status(&self, volume: &str) -> Result<Status, Failed> {
        let mut asked = Command::new(&self.setting.binary);
        asked.args(["volume", "status", "--json", "--run-dir"]).arg(self.setting.run_dir()).arg(volume);
        let out = crate::run::output(&mut asked)?;
        let text = String::from_utf8_lossy(&out);
        let json = Json::parse(&text).ok_or_else(|| Failed(format!("no JSON: {text}")))?;
        let member =
            |member: &Json| (member.text("state").unwrap_or_default().to_owned(), member.number("rebuilt"));
        Ok(Status {
            state: json.text("state").unwrap_or_default().to_owned(),
            members: json.list("members").unwrap_or_default().iter().map(member).collect(),
        })
    }

    /// Waits for a state.
    pub(crate) fn await_status(
        &self,
        volume: &str,
        what: &str,
        is_there: impl Fn(&Status) -> bool,
    ) -> Result<(), Failed> {
        let until = Instant::now() + PATIENCE;
        loop {
            let status = self.status(volume)?;
            if is_there(&status) {
                return Ok(());
            }
            if Instant::now() > until {
                return Err(Failed(format!("{what} does not come: {status:?}")));
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// Asks it to stop by a signal, and waits; it must end well.
    pub(crate) fn stop(self) -> Result<(), Failed> {
        crate::run::run(Command::new("kill").args(["-TERM", &self.child.id().to_string()]))?;
        self.wait_for_end()
    }

    /// Waits for its end, which must be a good one.
    pub(crate) fn wait_for_end(mut self) -> Result<(), Failed> {
        let until = Instant::now() + ENDING;
        while Instant::now() < until {
            let ended = self.child.try_wait().map_err(|error| Failed(format!("pumice volume: {error}")))?;
            if let Some(status) = ended {
                let log = log_text(&self.setting.log());
                let failed = || Failed(format!("pumice volume ended with {status}: {log}"));
                return if status.success() { Ok(()) } else { Err(failed()) };
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Err(Failed("pumice volume serve did not end".to_owned()))
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Report of `status`.
#[derive(Debug)]
pub(crate) struct Status {
    pub(crate) state: String,
    /// By role: the state, and how much of it is rebuilt, per mille.
    pub(crate) members: Vec<(String, Option<u64>)>,
}

impl Status {
    /// Returns whether every member is in sync.
    pub(crate) fn is_whole(&self) -> bool {
        self.members.iter().all(|(state, _)| state == "in_sync")
    }

    /// Returns whether a member is being rebuilt, and at least `least` per mille of it are done.
    pub(crate) fn has_rebuilt(&self, role: usize, least: u64) -> bool {
        self.members.get(role).is_some_and(|(_, rebuilt)| rebuilt.is_some_and(|part| part >= least))
    }
}

fn log_text(log: &Path) -> String {
    std::fs::read_to_string(log).unwrap_or_default().trim().to_owned()
}
