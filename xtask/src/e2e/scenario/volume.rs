//! A volume that goes from hand to hand: made by us, assembled and written by Linux; served by us
//! to a Linux host, killed in between; assembled by Linux again, whole.

use super::{Bench, MIB};
use crate::e2e::mortal;
use crate::run::Failed;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const LINUX: &str = include_str!("../../../guest/volume-linux.sh");
const OURS: &str = include_str!("../../../guest/volume-ours.sh");
const DRIVES: usize = 5;
/// How long the process may take to end well.
const ENDING: Duration = Duration::from_secs(60);

/// Runs it.
pub(crate) fn run(bench: &Bench<'_>) -> Result<(), Failed> {
    let drives: Vec<String> =
        (0..DRIVES).map(|n| bench.drive(&format!("member{n}"), 24 * MIB)).collect::<Result<_, _>>()?;
    let mut create = Command::new(bench.binary);
    create.args(["volume", "create", "--level", "6", "--name", "hand"]).args(&drives);
    crate::run::run(&mut create)?;
    bench.steps.done("made by pumice volume create");

    let sum = linux(bench, &drives, None)?;
    let mut served = Served::start(bench, &drives, 0)?;
    let variables = [("port", served.port.to_string()), ("nqn", Bench::nqn("hand")), ("sum", sum)];
    let mut guest = bench.guest(&bench.machine(false, 300), OURS, &variables)?;
    guest.reach("written")?;
    // Mounted, with writes that were not flushed.
    served.kill();
    let port = served.port;
    let served = Served::start(bench, &drives, port)?;
    bench.steps.done("killed, and replayed");
    guest.go()?;
    let sum = guest.finish()?.get("sum")?.to_owned();
    served.stop()?;
    linux(bench, &drives, Some(sum)).map(drop)
}

/// Linux has the drives: it assembles, and checks; without a sum it fills the array, and gives one.
fn linux(bench: &Bench<'_>, drives: &[String], sum: Option<String>) -> Result<String, Failed> {
    let node = bench.node("drives", 512, drives.to_vec())?;
    let fill = if sum.is_none() { "yes" } else { "no" };
    let variables = [
        ("port", node.port.to_string()),
        ("nqn", Bench::nqn("drives")),
        ("each", DRIVES.to_string()),
        ("sum", sum.unwrap_or_default()),
        ("fill", fill.to_owned()),
    ];
    let report = bench.guest(&bench.machine(false, 300), LINUX, &variables)?.finish()?;
    let mismatches = report.number("mismatches")?;
    if mismatches != 0 {
        return Err(Failed(format!("the kernel counts {mismatches} sectors that do not match")));
    }
    node.stop()?;
    if fill == "yes" { report.get("sum").map(str::to_owned) } else { Ok(String::new()) }
}

/// A process that serves the volume. It is killed when it is dropped.
struct Served {
    child: Child,
    log: PathBuf,
    port: u16,
}

impl Served {
    fn start(bench: &Bench<'_>, drives: &[String], port: u16) -> Result<Self, Failed> {
        let log = bench.folder.join("volume.log");
        let file = File::options().create(true).append(true).open(&log);
        let file = file.map_err(|error| Failed(format!("{}: {error}", log.display())))?;
        let mut command = mortal(bench.binary);
        command.args(["volume", "serve", "--nqn", &Bench::nqn("hand")]);
        command.args(["--listen", &format!("127.0.0.1:{port}"), "--run-dir"]);
        command.arg(bench.folder.join("run")).args(drives);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(file);
        let mut child = command.spawn().map_err(|error| Failed(format!("pumice volume: {error}")))?;
        let mut line = String::new();
        if let Some(out) = child.stdout.take() {
            // "listening on ADDRESS nqn NQN", or the end of the file.
            let _ = BufReader::new(out).read_line(&mut line);
        }
        let heard = line.split(' ').nth(2).and_then(|address| address.rsplit(':').next());
        match heard.and_then(|port| port.parse().ok()) {
            Some(port) => Ok(Self { child, log, port }),
            None => {
                let said = std::fs::read_to_string(&log).unwrap_or_default();
                Err(Failed(format!("pumice volume serve did not start: {}", said.trim())))
            }
        }
    }

    fn kill(&mut self) {
        // A child that has ended is no error.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    fn stop(mut self) -> Result<(), Failed> {
        crate::run::run(Command::new("kill").args(["-TERM", &self.child.id().to_string()]))?;
        let until = Instant::now() + ENDING;
        while Instant::now() < until {
            let ended = self.child.try_wait().map_err(|error| Failed(format!("pumice volume: {error}")))?;
            if let Some(status) = ended {
                let said = std::fs::read_to_string(&self.log).unwrap_or_default();
                let failed = || Failed(format!("pumice volume ended with {status}: {}", said.trim()));
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
