//! Members of a volume that fail and are replaced under load; a rebuild that Linux ends after a
//! stop, and one after a crash, which Linux refuses until we have replayed.

use super::volume_crash::{Taken, killed_under_load_by, take};
use super::{Bench, MIB};
use crate::e2e::served::Status;
use crate::run::Failed;
use std::process::Command;
use std::time::Duration;

const BUSY: &str = include_str!("../../../guest/volume-busy.sh");
const DRIVES: usize = 4;
const NAME: &str = "members";
/// A rebuild takes some ten seconds at this rate.
const RATE: [&str; 2] = ["--rebuild-rate", "3MB"];
/// Per mille of a member that are rebuilt before something happens to the rebuild.
const BEGUN: u64 = 100;
/// Of load beside a rebuild, at least.
const LOADING: Duration = Duration::from_secs(2);

/// Runs it.
pub(crate) fn run(bench: &Bench<'_>) -> Result<(), Failed> {
    let drive = |n: usize| bench.drive(&format!("member{n}"), 52 * MIB);
    let mut drives: Vec<String> = (0..DRIVES).map(drive).collect::<Result<_, _>>()?;
    let mut create = Command::new(bench.binary);
    create.args(["volume", "create", "--level", "5", "--name", NAME]).args(&drives);
    crate::run::output(&mut create)?;

    // Failed and added under load, then failed again; the volume is stopped in the middle.
    let served = bench.volume(NAME, &RATE).start(&drives, 0)?;
    let variables = [("port", served.port.to_string()), ("nqn", Bench::nqn(NAME)), ("sum", "yes".into())];
    let mut guest = bench.guest(&bench.machine(true, 400), BUSY, &variables)?;
    guest.reach("loading")?;
    guest.listen(LOADING, "nothing")?;
    served.ask("fail", &[NAME, "2"])?;
    guest.listen(LOADING, "nothing")?;
    drives[2] = drive(DRIVES)?;
    served.ask("add", &[NAME, &drives[2]])?;
    served.await_status(NAME, "a rebuild under load", Status::is_whole)?;
    bench.steps.done("failed, replaced and rebuilt under load");
    guest.go()?;
    let sum = guest.finish()?.get("sum")?.to_owned();
    drives[0] = drive(DRIVES + 1)?;
    served.ask("replace", &[NAME, "0", &drives[0]])?;
    served.await_status(NAME, "a rebuild", |status| status.has_rebuilt(0, BEGUN))?;
    served.ask("stop", &[NAME])?;
    served.wait_for_end()?;
    bench.steps.done("stopped in the middle of a rebuild");
    let taken = Taken { expect: "recovery", sum: Some(&sum), synced: None };
    let from = finished_by_linux(bench, &drives, &taken)?;
    if from == 0 {
        return Err(Failed("Linux began the rebuild from the start".to_owned()));
    }

    // Killed with writes under way and a member that is being rebuilt.
    let replaced = drive(DRIVES + 2)?;
    let synced = killed_under_load_by(bench, &bench.volume(NAME, &RATE), &drives, 0, |served| {
        served.ask("replace", &[NAME, "1", &replaced])?;
        served.await_status(NAME, "a rebuild", |status| status.has_rebuilt(1, BEGUN))
    })?;
    drives[1] = replaced;
    let node = bench.node("drives", 512, drives.clone())?;
    take(bench, &node, DRIVES, &Taken { expect: "refused", sum: None, synced: None })?;
    node.stop()?;
    let mut assemble = Command::new(bench.binary);
    crate::run::output(assemble.args(["volume", "assemble"]).args(&drives))?;
    bench.steps.done("replayed by us, and clean");
    let taken = Taken { expect: "recovery", sum: None, synced: Some(synced) };
    finished_by_linux(bench, &drives, &taken).map(drop)
}

/// Linux goes on with a rebuild where the superblock says it stopped, and ends it. Returns the
/// sector.
fn finished_by_linux(bench: &Bench<'_>, drives: &[String], taken: &Taken<'_>) -> Result<u64, Failed> {
    let node = bench.node("drives", 512, drives.to_vec())?;
    let report = take(bench, &node, DRIVES, taken)?;
    let from = report.number("recovered_from")?;
    bench.steps.done(&format!("Linux ended the rebuild from sector {from}"));
    node.stop()?;
    Ok(from)
}
