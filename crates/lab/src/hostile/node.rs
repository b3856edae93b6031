//! A real node: `pumice node` as a process of its own.

use crate::hostile::Failed;
use crate::hostile::wire::Target;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::net::SocketAddrV4;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// Bytes of each drive: the first is in memory, the second a file.
pub(crate) const DRIVE: u64 = 64 << 20;
/// Bytes at the beginning of each drive that belong to the clients that verify. Attackers may read
/// them.
pub(crate) const GOOD: u64 = 8 << 20;
/// Drives of a node.
pub(crate) const DRIVES: u32 = 2;
/// Time for a node to end, whatever it is doing.
pub(crate) const TO_END: Duration = Duration::from_secs(10);

/// Setup of a node that may start again and again with the same drive.
#[derive(Debug, Clone)]
pub(crate) struct Setup {
    binary: PathBuf,
    folder: PathBuf,
    name: String,
    cores: u16,
    /// A program that starts the node, with its arguments.
    wrapper: Vec<String>,
}

impl Setup {
    /// A node on a free port of the loopback interface, with a drive in memory and one in a file
    /// of `folder`, which is made here. `name` tells its files apart from others'.
    ///
    /// # Errors
    /// Where the file cannot be made.
    pub(crate) fn new(binary: &Path, folder: &Path, name: &str, cores: u16) -> Result<Self, Failed> {
        let (binary, folder, name) = (binary.to_owned(), folder.to_owned(), name.to_owned());
        let setup = Self { binary, folder, name, cores, wrapper: Vec::new() };
        let made = File::create(setup.drive()).and_then(|file| file.set_len(DRIVE));
        made.map_err(|error| Failed(format!("{}: {error}", setup.folder.display())))?;
        Ok(setup)
    }

    /// The same, started by a program: its arguments end where those of the node begin.
    pub(crate) fn by(mut self, wrapper: &[&str]) -> Self {
        self.wrapper = wrapper.iter().map(|&argument| argument.to_owned()).collect();
        self
    }

    /// The file behind the second drive.
    pub(crate) fn drive(&self) -> PathBuf {
        self.folder.join(format!("{}.drive", self.name))
    }

    /// Folder in which the node keeps the list of unreadable blocks.
    pub(crate) fn state(&self) -> PathBuf {
        self.folder.join(&self.name)
    }

    /// Starts it.
    ///
    /// # Errors
    /// Where it does not start.
    pub(crate) fn start(&self) -> Result<Node, Failed> {
        let wrong = |error: std::io::Error| Failed(format!("{}: {error}", self.folder.display()));
        let log = self.folder.join(format!("{}.log", self.name));
        let nqn = format!("nqn.2026-11.example:{}", self.name);
        // The system kills it if this process is killed.
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL", "--"]).args(&self.wrapper).arg(&self.binary);
        command.args(["node", "--listen", "127.0.0.1:0", "--nqn", &nqn, "--log-level", "error"]);
        command.args(["--cores", &self.cores.to_string(), "--drive", &format!("mem:{DRIVE}")]);
        command.arg("--drive").arg(self.drive()).arg("--state-dir").arg(self.state());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(File::create(&log).map_err(wrong)?);
        let mut child =
            command.spawn().map_err(|error| Failed(format!("{}: {error}", self.binary.display())))?;
        let mut line = String::new();
        if let Some(out) = child.stdout.take() {
            // "listening on ADDRESS nqn NQN", or the end of the file.
            let _ = BufReader::new(out).read_line(&mut line);
        }
        match line.split(' ').nth(2).and_then(|address| address.parse::<SocketAddrV4>().ok()) {
            Some(address) => Ok(Node { child, target: Target { address, nqn }, log }),
            None => {
                let _ = child.kill();
                let _ = child.wait();
                let said = std::fs::read_to_string(&log).unwrap_or_default();
                Err(Failed(format!("the node did not start: {}", said.trim())))
            }
        }
    }
}

/// A node that runs. It is killed (SIGKILL) when it is dropped.
pub(crate) struct Node {
    child: Child,
    pub(crate) target: Target,
    log: PathBuf,
}

impl Node {
    /// Starts a node with a drive of its own.
    ///
    /// # Errors
    /// Where it does not start.
    pub(crate) fn start(binary: &Path, folder: &Path, name: &str, cores: u16) -> Result<Self, Failed> {
        Setup::new(binary, folder, name, cores)?.start()
    }

    /// Its process.
    pub(crate) fn process(&self) -> u32 {
        self.child.id()
    }

    /// Kills it.
    pub(crate) fn kill(&self) {
        self.signal(Signal::SIGKILL);
    }

    /// Has it stand still.
    pub(crate) fn pause(&self) {
        self.signal(Signal::SIGSTOP);
    }

    /// Has it go on.
    pub(crate) fn resume(&self) {
        self.signal(Signal::SIGCONT);
    }

    /// Reason why it does not run any more; `None` while it runs.
    pub(crate) fn has_ended(&mut self) -> Option<String> {
        let ended = self.child.try_wait().ok()??;
        Some(format!("{ended}: {}", self.last_words()))
    }

    /// The end of what it said on standard error.
    fn last_words(&self) -> String {
        let said = std::fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = said.lines().collect();
        lines[lines.len().saturating_sub(5)..].join("; ")
    }

    /// Bytes of memory that it had resident at its largest; `None` if that cannot be read.
    pub(crate) fn largest(&self) -> Option<u64> {
        self.memory("VmHWM:")
    }

    /// Bytes of memory that it has resident; `None` if that cannot be read.
    pub(crate) fn resident(&self) -> Option<u64> {
        self.memory("VmRSS:")
    }

    /// Descriptors that it has open; `None` if they cannot be counted.
    pub(crate) fn descriptors(&self) -> Option<u64> {
        let folder = std::fs::read_dir(format!("/proc/{}/fd", self.child.id())).ok()?;
        Some(folder.count() as u64)
    }

    fn memory(&self, field: &str) -> Option<u64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix(field))?;
        let kib: u64 = line.split_whitespace().next()?.parse().ok()?;
        Some(kib * 1024)
    }

    fn signal(&self, signal: Signal) {
        // A child that was not waited for: the number is still its own.
        let _ = kill(Pid::from_raw(self.child.id() as i32), signal);
    }

    /// Asks it to end, and tells how long that took and how it ended; `None` if it is still there
    /// after a time that is well past what it may take.
    pub(crate) fn stop(mut self) -> Option<(Duration, ExitStatus, String)> {
        let began = Instant::now();
        self.signal(Signal::SIGTERM);
        while began.elapsed() < 3 * TO_END {
            if let Ok(Some(status)) = self.child.try_wait() {
                return Some((began.elapsed(), status, self.last_words()));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        None
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        // A child that has ended is no error.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
