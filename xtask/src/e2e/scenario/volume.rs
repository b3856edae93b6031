//! A volume that goes from hand to hand: made by us, assembled and written by Linux; served by us
//! to a Linux host, killed in between; assembled by Linux again, whole.

use super::{Bench, MIB};
use crate::run::Failed;
use std::process::Command;

const LINUX: &str = include_str!("../../../guest/volume-linux.sh");
const OURS: &str = include_str!("../../../guest/volume-ours.sh");
const DRIVES: usize = 5;

/// Runs it.
pub(crate) fn run(bench: &Bench<'_>) -> Result<(), Failed> {
    let drives: Vec<String> =
        (0..DRIVES).map(|n| bench.drive(&format!("member{n}"), 24 * MIB)).collect::<Result<_, _>>()?;
    let mut create = Command::new(bench.binary);
    create.args(["volume", "create", "--level", "6", "--name", "hand"]).args(&drives);
    crate::run::run(&mut create)?;
    bench.steps.done("made by pumice volume create");

    let sum = linux(bench, &drives, None)?;
    let setting = bench.volume("hand", &[]);
    let mut served = setting.start(&drives, 0)?;
    let variables = [("port", served.port.to_string()), ("nqn", Bench::nqn("hand")), ("sum", sum)];
    let mut guest = bench.guest(&bench.machine(false, 300), OURS, &variables)?;
    guest.reach("written")?;
    // Mounted, with writes that were not flushed.
    served.kill();
    let port = served.port;
    let served = setting.start(&drives, port)?;
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
