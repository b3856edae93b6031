//! The tests: each scenario starts its nodes and guests, and judges their reports.

mod admin;
mod array;
mod change;
mod changes_under;
mod connect;
mod cut;
mod discard;
mod filesystem;
mod flash;
mod heals;
mod integrity;
mod mirrors;
mod multipath;
mod restart;
mod verify;
mod visible;
mod volume;
mod volume_crash;
mod volume_members;
mod volume_nodes;

use super::cpio::Archive;
use super::guest::{Guest, Machine};
use super::initrd::Initrd;
use super::kernel::Unpacked;
use super::node::{Node, Serves, Setting, file_drive, free_port};
use super::options::Options;
use super::served;
use super::steps::Steps;
use crate::run::Failed;
use std::path::Path;
use std::time::Duration;

/// A scenario.
pub(crate) struct Scenario {
    pub(crate) name: &'static str,
    /// Part of the short form.
    pub(crate) short: bool,
    pub(crate) run: fn(&Bench<'_>) -> Result<(), Failed>,
}

impl Scenario {
    /// Returns whether it is part of what was asked for.
    pub(crate) fn is_wanted(&self, options: &Options) -> bool {
        match &options.only {
            Some(name) => self.name == name,
            None => options.full || self.short,
        }
    }
}

/// All, in order.
pub(crate) const SCENARIOS: [Scenario; 23] = [
    Scenario { name: "connect", short: true, run: connect::one_queue },
    Scenario { name: "queues", short: true, run: connect::several_queues },
    Scenario { name: "verify", short: true, run: verify::run },
    Scenario { name: "filesystem", short: true, run: filesystem::run },
    Scenario { name: "discard", short: true, run: discard::run },
    Scenario { name: "flash", short: false, run: flash::run },
    Scenario { name: "multipath", short: false, run: multipath::run },
    Scenario { name: "admin", short: true, run: admin::run },
    Scenario { name: "restart", short: true, run: restart::run },
    Scenario { name: "raid6", short: true, run: array::raid6 },
    Scenario { name: "heals", short: true, run: heals::run },
    Scenario { name: "visible", short: true, run: visible::run },
    Scenario { name: "integrity", short: false, run: integrity::run },
    Scenario { name: "raid5", short: false, run: array::raid5 },
    Scenario { name: "cut", short: false, run: cut::bare },
    Scenario { name: "cut-bitmap", short: false, run: cut::with_bitmap },
    Scenario { name: "change", short: false, run: change::run },
    Scenario { name: "changes-under", short: true, run: changes_under::run },
    Scenario { name: "mirrors", short: false, run: mirrors::run },
    Scenario { name: "volume", short: false, run: volume::run },
    Scenario { name: "volume-crash", short: false, run: volume_crash::run },
    Scenario { name: "volume-members", short: false, run: volume_members::run },
    Scenario { name: "volume-nodes", short: false, run: volume_nodes::run },
];

/// Context of a scenario.
pub(crate) struct Bench<'a> {
    pub(crate) kernel: &'a Unpacked,
    pub(crate) initrd: &'a Initrd,
    pub(crate) binary: &'a Path,
    pub(crate) options: &'a Options,
    /// Its own, empty at the start.
    pub(crate) folder: &'a Path,
    pub(crate) steps: Steps,
}

/// A guest is given up after so many times its limit, which is what it takes on two idle cores with
/// room to spare: only a guest that hangs is to be stopped.
const PATIENCE: u32 = 4;
/// One mebibyte.
const MIB: u64 = 1 << 20;

impl Bench<'_> {
    /// A guest with one processor. `limit`: seconds on an idle machine.
    fn machine(&self, fio: bool, limit: u64) -> Machine<'_> {
        let image = &self.kernel.image;
        Machine { image, initrd: self.initrd, cpus: 1, fio, limit: Duration::from_secs(limit) * PATIENCE }
    }

    fn guest(
        &self,
        machine: &Machine<'_>,
        script: &str,
        variables: &[(&str, String)],
    ) -> Result<Guest, Failed> {
        Guest::start(machine, script, variables, self.folder, self.steps.clone())
    }

    /// A node's name, fit for one host to know several.
    fn nqn(name: &str) -> String {
        format!("nqn.2026-11.example.pumice:{name}")
    }

    fn node(&self, name: &str, block: u32, drives: Vec<String>) -> Result<Node, Failed> {
        Node::start(self.setting(name, Serves::Drives { block, drives }))
    }

    /// A node that shows its counters.
    fn counting_node(&self, name: &str, block: u32, drives: Vec<String>) -> Result<Node, Failed> {
        let serves = Serves::Drives { block, drives };
        Node::start(Setting { metrics: Some(free_port()?), ..self.setting(name, serves) })
    }

    /// A node whose drives and hosts are the tables of a configuration file.
    fn configured_node(&self, name: &str, tables: String) -> Result<Node, Failed> {
        Node::start(self.setting(name, Serves::Configured(tables)))
    }

    /// A volume by its name as a subsystem, with more options of `pumice volume serve`.
    fn volume(&self, name: &str, options: &[&str]) -> served::Setting {
        served::Setting {
            binary: self.binary.to_owned(),
            nqn: Self::nqn(name),
            folder: self.folder.to_owned(),
            options: options.iter().map(|&option| option.to_owned()).collect(),
        }
    }

    fn setting(&self, name: &str, serves: Serves) -> Setting {
        Setting {
            binary: self.binary.to_owned(),
            nqn: Self::nqn(name),
            serves,
            log: self.folder.join(format!("node-{name}.log")),
            second: None,
            metrics: None,
        }
    }

    /// The guest's file system with fio and more files.
    fn initrd_with(&self, fill: impl FnOnce(&mut Archive) -> Result<(), Failed>) -> Result<Initrd, Failed> {
        let wrong = |path: &Path, error: std::io::Error| Failed(format!("{}: {error}", path.display()));
        let base = &self.initrd.with_fio;
        let mut bytes = std::fs::read(base).map_err(|error| wrong(base, error))?;
        let mut archive = Archive::default();
        fill(&mut archive)?;
        bytes.extend(archive.finish());
        let path = self.folder.join("initrd.cpio");
        std::fs::write(&path, &bytes).map_err(|error| wrong(&path, error))?;
        Ok(Initrd { small: path.clone(), with_fio: path })
    }

    /// A file to serve.
    fn drive(&self, name: &str, bytes: u64) -> Result<String, Failed> {
        let path = file_drive(self.folder, &format!("{name}.drive"), bytes)?;
        Ok(path.to_string_lossy().into_owned())
    }
}
