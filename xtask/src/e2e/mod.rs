//! `cargo xtask e2e`: a real, unmodified Linux kernel in QEMU against `pumice node` and `pumice
//! scrub`.
//!
//! `docs/testing.md` says what is tested and how.

mod cpio;
mod damage;
mod guest;
mod initrd;
mod json;
mod kernel;
mod modules;
mod node;
mod options;
mod programs;
mod protocol;
mod pulse;
mod scenario;
mod scrub;
mod served;
mod steps;

use crate::run::{Failed, cargo, say};
use crate::setup;
use initrd::Initrd;
use kernel::Unpacked;
use options::Options;
use pulse::Pulse;
use scenario::{Bench, SCENARIOS, Scenario};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};
use steps::Steps;

/// Something that the harness needs, and this machine cannot give.
pub(crate) struct Missing(String);

/// A line of the table at the end.
struct Row {
    name: String,
    steps: usize,
    time: Duration,
    failure: Option<String>,
}

/// Context that all scenarios of a run share.
struct Run<'a> {
    binary: &'a Path,
    options: &'a Options,
    folder: &'a Path,
    pulse: &'a Pulse,
}

/// Runs what the arguments ask for. Where something is missing it is skipped, loudly; in CI that is
/// a failure.
pub(crate) fn e2e(arguments: &[String]) -> Result<(), Failed> {
    let options = Options::parse(arguments)?;
    let folder = target().join("e2e");
    let wrong = |error: std::io::Error| Failed(format!("{}: {error}", folder.display()));
    fs::create_dir_all(&folder).map_err(wrong)?;
    // Another harness in the same folder comes after this one. Released when the file is closed.
    let lock = fs::File::create(folder.join("lock")).map_err(wrong)?;
    lock.lock().map_err(wrong)?;
    let ready = match prepare(&options, &folder) {
        Ok(ready) => ready,
        Err(Missing(why)) if std::env::var_os("CI").is_some() => {
            return Err(Failed(format!("in CI nothing may be missing: {why}")));
        }
        Err(Missing(why)) => {
            say("****************************************************************");
            say(&format!("NOT RUN: the tests against a real Linux kernel. {why}"));
            say("****************************************************************");
            return Ok(());
        }
    };
    let binary = match &options.binary {
        Some(path) => path.clone(),
        None => {
            cargo(&["build", "--release", "--quiet", "--package", "pumice"], &[])?;
            target().join("release/pumice")
        }
    };
    let start = Instant::now();
    let pulse = Pulse::begin();
    let all = Run { binary: &binary, options: &options, folder: &folder, pulse: &pulse };
    let mut rows = Vec::new();
    for round in 1..=options.repeat {
        if options.repeat > 1 {
            say(&format!("round {round} of {}", options.repeat));
        }
        rows.extend(side_by_side(&ready, &all)?);
    }
    table(&rows, start.elapsed());
    let failed = rows.iter().filter(|row| row.failure.is_some()).count();
    if failed == 0 { Ok(()) } else { Err(Failed(format!("{failed} of {} scenarios failed", rows.len()))) }
}

/// A program that the system kills as soon as the thread that started it is gone, however that
/// came.
fn mortal(program: &Path) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", "--"]).arg(program);
    command
}

fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| PathBuf::from("target"), PathBuf::from)
}

/// Kernels and initrds, or what is missing for them.
fn prepare(options: &Options, folder: &Path) -> Result<Vec<(Unpacked, Initrd)>, Missing> {
    if setup::may_install() {
        setup::e2e().map_err(|Failed(why)| Missing(format!("What it takes cannot be installed: {why}.")))?;
    }
    let mut lacking = setup::lacking();
    lacking.extend(
        ["dpkg", "apt-get", "apt-cache", "setpriv"].iter().filter(|name| programs::find(name).is_none()),
    );
    if !lacking.is_empty() {
        let list = lacking.join(", ");
        return Err(Missing(format!(
            "This machine lacks {list}; `cargo xtask setup` as root installs them."
        )));
    }
    let mut ready = Vec::new();
    for kernel in &options.kernels {
        let unpacked = kernel.fetch(folder)?;
        let initrd = initrd::make(&unpacked, folder).map_err(|Failed(why)| Missing(why))?;
        ready.push((unpacked, initrd));
    }
    Ok(ready)
}

/// The scenarios, one after another on each kernel, and the kernels at the same time: a guest has
/// one processor, and waits a good part of its time.
fn side_by_side(ready: &[(Unpacked, Initrd)], all: &Run<'_>) -> Result<Vec<Row>, Failed> {
    let wanted: Vec<&Scenario> =
        SCENARIOS.iter().filter(|scenario| scenario.is_wanted(all.options)).collect();
    let column = |kernel: &Unpacked, initrd: &Initrd| -> Result<Vec<Row>, Failed> {
        wanted.iter().map(|scenario| run(scenario, kernel, initrd, all)).collect()
    };
    let columns: Vec<Result<Vec<Row>, Failed>> = std::thread::scope(|scope| {
        let threads: Vec<_> =
            ready.iter().map(|(kernel, initrd)| scope.spawn(|| column(kernel, initrd))).collect();
        let ended = |thread: std::thread::ScopedJoinHandle<'_, _>| match thread.join() {
            Ok(column) => column,
            Err(_) => Err(Failed("a thread of the harness panicked".to_owned())),
        };
        threads.into_iter().map(ended).collect()
    });
    let mut rows = Vec::new();
    for column in columns {
        rows.extend(column?);
    }
    Ok(rows)
}

/// One scenario on one kernel. Where it failed while this machine stood still, it has one more
/// chance.
fn run(scenario: &Scenario, kernel: &Unpacked, initrd: &Initrd, run: &Run<'_>) -> Result<Row, Failed> {
    let start = Instant::now();
    let row = once(scenario, kernel, initrd, run)?;
    match run.pulse.longest_since(start) {
        Some(still) if row.failure.is_some() => {
            let seconds = still.as_secs_f64();
            println!("{:22} again: this machine stood still for {seconds:.0} s", row.name);
            once(scenario, kernel, initrd, run)
        }
        _ => Ok(row),
    }
}

fn once(scenario: &Scenario, kernel: &Unpacked, initrd: &Initrd, run: &Run<'_>) -> Result<Row, Failed> {
    let name = format!("{}-{}", scenario.name, kernel.kernel.name);
    let own = run.folder.join(&name);
    // Consoles and drives of the run before.
    let _ = fs::remove_dir_all(&own);
    fs::create_dir_all(&own).map_err(|error| Failed(format!("{}: {error}", own.display())))?;
    let steps = Steps::begin(&name);
    let (binary, options) = (run.binary, run.options);
    let bench = Bench { kernel, initrd, binary, options, folder: &own, steps: steps.clone() };
    let failure = (scenario.run)(&bench).err().map(|Failed(why)| why);
    if let Some(why) = &failure {
        println!("{name:22} FAILED  {why}");
    } else {
        // Consoles stay; drives are large.
        for entry in fs::read_dir(&own).into_iter().flatten().flatten() {
            if entry.path().extension().is_some_and(|e| e == "drive") {
                let _ = fs::remove_file(entry.path());
            }
        }
    }
    let (steps, time) = steps.total();
    Ok(Row { name, steps, time, failure })
}

fn table(rows: &[Row], all: Duration) {
    println!("\n{:24} {:>6} {:>9}  result", "scenario", "steps", "seconds");
    for row in rows {
        let result = row.failure.as_deref().map_or("passed", |why| why.lines().next().unwrap_or("FAILED"));
        let mark = if row.failure.is_some() { "FAILED: " } else { "" };
        println!("{:24} {:>6} {:>9.1}  {mark}{result}", row.name, row.steps, row.time.as_secs_f64());
    }
    println!("{:24} {:>6} {:>9.1}", "all", "", all.as_secs_f64());
}
