//! The room: nodes with one member each, the process that serves the volume, and commands beside
//! them. All are processes of the binary under test.

use crate::pairs::Failed;
use crate::pairs::feature::{Feature, Pair};
use crate::pairs::load::Shared;
use crate::pairs::process::{Log, PATIENCE, Process};
use std::fs::File;
use std::net::SocketAddr;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Members of the volume: RAID-6, so any two may be missing.
pub(crate) const MEMBERS: usize = 5;
/// The node of drives that are not members yet.
pub(crate) const SPARE: usize = 5;
/// The node of a drive that holds data.
pub(crate) const FOREIGN: usize = 6;
const NODES: usize = 7;
/// Bytes of each drive.
pub(crate) const DRIVE: u64 = 16 << 20;
/// Bytes of the file system that is filled: a drive, tag files, states.
const SMALL: &str = "96m";
/// Bytes a second of a slow drive.
const SLOW: &str = "2MB";
/// Time for anything to start.
pub(crate) const TO_START: Duration = Duration::from_secs(20);
/// The name of the volume.
pub(crate) const VOLUME: &str = "vault";

/// A command under way, or done.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) what: String,
    pub(crate) began: Instant,
    pub(crate) log: Arc<Log>,
    /// Time of its end.
    pub(crate) ended: Mutex<Option<Instant>>,
}

/// A room for one cell.
pub(crate) struct World {
    pub(crate) binary: PathBuf,
    pub(crate) folder: PathBuf,
    pub(crate) pair: Pair,
    pub(crate) seed: u64,
    ports: u16,
    nodes: Vec<Mutex<Option<Process>>>,
    served: Mutex<Option<Process>>,
    /// Held while the volume is being opened: one process serves it.
    pub(crate) opening: Mutex<()>,
    /// Everything that was said, by all processes of the cell.
    pub(crate) logs: Mutex<Vec<Arc<Log>>>,
    /// Faults that were seen.
    pub(crate) troubles: Mutex<Vec<String>>,
    /// Requests that one feature did not get through because of the other, with the reasons.
    pub(crate) notes: Mutex<Vec<String>>,
    pub(crate) calls: Mutex<Vec<Arc<Call>>>,
    pub(crate) load: Shared,
    /// Bytes of members that the cell itself has damaged: role, place, whether repaired.
    pub(crate) damage: Mutex<Vec<(usize, u64)>>,
    /// The file system that is filled is one of its own.
    pub(crate) is_small: bool,
    /// The nodes keep the pace of the pair.
    paced: Mutex<bool>,
    numbers: AtomicUsize,
}

pub(crate) fn held<T>(lock: &Mutex<T>) -> MutexGuard<'_, T> {
    lock.lock().unwrap_or_else(PoisonError::into_inner)
}

fn strings(args: &[&str]) -> Vec<String> {
    args.iter().map(|&arg| arg.to_owned()).collect()
}

impl World {
    /// A room in `folder`, with `ports` and the next ones for its own; nothing runs in it yet.
    ///
    /// # Errors
    /// If its files cannot be made.
    pub(crate) fn new(
        binary: &Path,
        folder: &Path,
        pair: Pair,
        seed: u64,
        ports: u16,
    ) -> Result<Self, Failed> {
        let wrong = |error: std::io::Error| Failed(format!("{}: {error}", folder.display()));
        let small = folder.join("small");
        std::fs::create_dir_all(&small).map_err(wrong)?;
        let mut mount = std::process::Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &format!("size={SMALL},mode=700"), "none"]).arg(&small);
        let is_small =
            crate::pairs::inside::is_inside() && mount.output().is_ok_and(|done| done.status.success());
        let world = Self {
            binary: binary.to_owned(),
            folder: folder.to_owned(),
            pair,
            seed,
            ports,
            nodes: (0..NODES).map(|_| Mutex::new(None)).collect(),
            served: Mutex::new(None),
            opening: Mutex::new(()),
            logs: Mutex::default(),
            troubles: Mutex::default(),
            notes: Mutex::default(),
            calls: Mutex::default(),
            load: Shared::default(),
            damage: Mutex::default(),
            is_small,
            paced: Mutex::new(false),
            numbers: AtomicUsize::new(0),
        };
        for name in ["small/d0", "small/d2", "d3", "d4", "spare1", "spare2", "foreign"] {
            File::create(world.path(name)).and_then(|file| file.set_len(DRIVE)).map_err(wrong)?;
        }
        let foreign = File::options().write(true).open(world.path("foreign")).map_err(wrong)?;
        foreign.write_all_at(&crate::pairs::ledger::content(1, 1), 0).map_err(wrong)?;
        Ok(world)
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    pub(crate) fn trouble(&self, what: String) {
        let mut troubles = held(&self.troubles);
        if troubles.len() < 12 {
            troubles.push(what);
        }
    }

    pub(crate) fn note(&self, what: String) {
        let mut notes = held(&self.notes);
        if notes.len() < 40 && !notes.contains(&what) {
            notes.push(what);
        }
    }

    /// A log of a new name.
    ///
    /// # Errors
    /// If its file cannot be made.
    pub(crate) fn log(&self, name: &str) -> Result<Arc<Log>, Failed> {
        let mut logs = held(&self.logs);
        if let Some(log) = logs.iter().find(|log| log.name == name) {
            return Ok(Arc::clone(log));
        }
        let log = Log::new(&self.folder, name)?;
        logs.push(Arc::clone(&log));
        Ok(log)
    }

    pub(crate) fn next_number(&self) -> usize {
        self.numbers.fetch_add(1, Ordering::Relaxed)
    }

    /// Address on which a node listens. The address is this cell's own: on 127.0.0.1 any connection
    /// that is under way may have the port while a node is down.
    pub(crate) fn address(&self, node: usize) -> SocketAddr {
        let cell = (self.ports / 10 % 250) as u8;
        let run = 64 + (std::process::id() % 128) as u8;
        SocketAddr::from(([127, run, cell, 1], self.ports + node as u16))
    }

    /// The drive of a node, as commands name it.
    pub(crate) fn name(&self, node: usize, drive: u32) -> String {
        format!("nvme://{}/{drive}", self.address(node))
    }

    /// The members as the volume was made of them.
    pub(crate) fn members(&self) -> Vec<String> {
        (0..MEMBERS).map(|role| self.name(role, 1)).collect()
    }

    /// The tagged member, as `pumice protect` names it.
    pub(crate) fn tagged(&self) -> String {
        format!("{0},pi=16,tags={0}.tags", self.path("small/d0").display())
    }

    fn config(&self, node: usize) -> String {
        let path = |name: &str| self.path(name).display().to_string();
        let drive = |backend: String| format!("[[drive]]\nbackend = \"{backend}\"\n");
        let drives = match node {
            0 => {
                let (backend, tags) = (path("small/d0"), path("small/d0.tags"));
                format!("[[drive]]\nbackend = \"{backend}\"\npi = 16\ntags = \"{tags}\"\n")
            }
            1 => drive(format!("flash:{}", path("flash"))),
            2 => drive(path("small/d2")),
            3 | 4 => drive(path(&format!("d{node}"))),
            SPARE => drive(path("spare1")) + &drive(path("spare2")),
            _ => drive(path("foreign")),
        };
        let peers = (0..MEMBERS).filter(|peer| *peer != node);
        let peer = |peer| format!("[[peer]]\naddress = \"{}\"\n", self.address(peer));
        let peers: String = peers.map(peer).collect();
        let pace = match *held(&self.paced) {
            true if self.pair.has(Feature::Window) => {
                let hours = crate::pairs::inside::closed_hours();
                format!("[pacing]\nwindow = [\"{hours}\"]\n")
            }
            true if self.pair.has(Feature::Slowdown) => {
                "[pacing]\nslowdown = \"1ms\"\nrate = \"8MB\"\n".to_owned()
            }
            _ => String::new(),
        };
        let (address, state) = (self.address(node), path(&format!("state{node}")));
        format!(
            "listen = \"{address}\"\nnqn = \"nqn.2026-11.example:n{node}\"\nblock_size = 4096\n\
             state_dir = \"{state}\"\n{drives}{peers}{pace}"
        )
    }

    /// Sets whether the nodes keep the pace of the pair from their next start on.
    pub(crate) fn set_paced(&self, paced: bool) {
        *held(&self.paced) = paced;
    }

    /// The nodes of this pair.
    pub(crate) fn nodes(&self) -> Vec<usize> {
        let is_there = |node: &usize| match *node {
            SPARE => self.pair.has(Feature::Rebuild) || self.pair.has(Feature::Replace),
            FOREIGN => self.pair.has(Feature::AddRefused),
            _ => true,
        };
        (0..NODES).filter(is_there).collect()
    }

    /// Starts a node, again on the same port if it ran before.
    ///
    /// # Errors
    /// If it does not start.
    pub(crate) fn start_node(&self, node: usize) -> Result<(), Failed> {
        let wrong = |error: std::io::Error| Failed(format!("{}: {error}", self.folder.display()));
        let (log, config) = (self.log(&format!("node{node}"))?, self.path(&format!("node{node}.toml")));
        std::fs::write(&config, self.config(node)).map_err(wrong)?;
        let mut args = strings(&["node", "--config", &config.display().to_string()]);
        let is_slow = self.pair.has(Feature::SlowDrive) && node == self.pair.hit(Feature::SlowDrive);
        if is_slow && *held(&self.paced) {
            args.extend(strings(&["--drive-rate", SLOW]));
        }
        let since = Instant::now();
        let mut process = Process::start(&self.binary, &args, &log)?;
        process.wait_line("listening on", since, TO_START)?;
        *held(&self.nodes[node]) = Some(process);
        Ok(())
    }

    /// Starts all nodes of this pair, side by side.
    ///
    /// # Errors
    /// If one does not start.
    pub(crate) fn start_nodes(&self) -> Result<(), Failed> {
        std::thread::scope(|scope| {
            let start = |node| scope.spawn(move || self.start_node(node));
            let threads: Vec<_> = self.nodes().into_iter().map(start).collect();
            threads.into_iter().try_for_each(|thread| thread.join().expect("it does not panic"))
        })
    }

    /// Does something to the process of a node, if it runs.
    pub(crate) fn with_node<T>(&self, node: usize, act: impl FnOnce(&mut Process) -> T) -> Option<T> {
        held(&self.nodes[node]).as_mut().map(act)
    }

    /// Asks a node to end; a trouble if it does not in time, or not well.
    pub(crate) fn stop_node(&self, node: usize) {
        let Some(mut process) = held(&self.nodes[node]).take() else { return };
        match process.terminate() {
            None => self.trouble(format!("node {node}: still there {PATIENCE:?} after SIGTERM")),
            Some(status) if status.code() == Some(0) => {}
            // A drive without room has failed, and the node says so when it ends.
            Some(status) if self.pair.has(Feature::FullDisk) && status.code() == Some(3) => {
                self.note(format!("node {node} ended with 3"));
            }
            Some(status) => self.trouble(format!("node {node} ended with {status}")),
        }
    }

    pub(crate) fn stop_nodes(&self) {
        std::thread::scope(|scope| {
            for node in 0..NODES {
                scope.spawn(move || self.stop_node(node));
            }
        });
    }

    pub(crate) fn kill_node(&self, node: usize) {
        if let Some(mut process) = held(&self.nodes[node]).take() {
            process.kill();
        }
    }

    /// Address and name of the served volume.
    pub(crate) fn volume(&self) -> (SocketAddr, &'static str) {
        (self.address(NODES), "nqn.2026-11.example:vault")
    }

    /// Starts the process that serves the volume over `devices`.
    ///
    /// # Errors
    /// If it does not start.
    pub(crate) fn serve(&self, devices: &[String]) -> Result<(), Failed> {
        let (address, nqn) = self.volume();
        let (address, run) = (address.to_string(), self.path("run").display().to_string());
        let args = ["volume", "serve", "--listen", &address, "--nqn", nqn, "--run-dir", &run];
        let mut args = strings(&args);
        args.extend(strings(&["--hold-timeout", "30s", "--degraded"]));
        if self.pair.any(|feature| matches!(feature, Feature::Rebuild | Feature::Replace)) {
            args.extend(strings(&["--rebuild-rate", "6MB"]));
        }
        args.extend_from_slice(devices);
        let since = Instant::now();
        let mut process = Process::start(&self.binary, &args, &self.log("serve")?)?;
        process.wait_line("listening on", since, TO_START)?;
        *held(&self.served) = Some(process);
        Ok(())
    }

    /// The process that serves the volume, if there is one.
    pub(crate) fn served(&self) -> MutexGuard<'_, Option<Process>> {
        held(&self.served)
    }

    pub(crate) fn is_served(&self) -> bool {
        held(&self.served).is_some()
    }
}
