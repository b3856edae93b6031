//! An array that mdadm made, served by us: stopped, and killed under load. Linux takes it, and is
//! killed in turn; then we have it again, over a node, are killed, and Linux takes it there.

use super::{Bench, MIB, Node};
use crate::e2e::damage::dirty_bytes;
use crate::e2e::protocol::Report;
use crate::e2e::served::{Served, Setting};
use crate::run::Failed;
use std::process::Command;
use std::time::Duration;

const MAKE: &str = include_str!("../../../guest/volume-make.sh");
const BUSY: &str = include_str!("../../../guest/volume-busy.sh");
const LOAD: &str = include_str!("../../../guest/volume-load.sh");
const TAKEN: &str = include_str!("../../../guest/volume-taken.sh");
const DRIVES: usize = 4;
const UUID: &str = "5a1b0c9d:8e7f6a5b:4c3d2e1f:00112233";
/// Of load before a kill.
const LOADING: Duration = Duration::from_secs(6);
/// Bytes that mdadm and the kernel read of a member in addition to those that they resync:
/// superblocks, bitmaps, the places where partition tables would be.
const LOOKING: u64 = MIB / 2;
/// Time in which a node must notice that a dead host is gone.
const FORGETTING: Duration = Duration::from_secs(60);

/// The state in which Linux must find the array, and its content.
pub(super) struct Taken<'a> {
    /// `clean`, `resync`, `recovery` or `refused`.
    pub(super) expect: &'a str,
    /// Of the whole array.
    pub(super) sum: Option<&'a str>,
    /// The last file that was written with fsync.
    pub(super) synced: Option<u64>,
}

/// Runs it.
pub(crate) fn run(bench: &Bench<'_>) -> Result<(), Failed> {
    let drives: Vec<String> =
        (0..DRIVES).map(|n| bench.drive(&format!("member{n}"), 52 * MIB)).collect::<Result<_, _>>()?;
    let node = bench.counting_node("drives", 512, drives.clone())?;
    let variables = [
        ("port", node.port.to_string()),
        ("nqn", Bench::nqn("drives")),
        ("each", DRIVES.to_string()),
        ("uuid", UUID.to_owned()),
    ];
    bench.guest(&bench.machine(false, 300), MAKE, &variables)?.finish()?;
    node.stop()?;

    served_and_given_back(bench, &drives)?;
    let synced = killed_under_load(bench, &drives, 0)?;
    let synced = linux_resyncs_and_is_killed(bench, &drives, synced)?;
    ours_again(bench, &drives, synced)?;
    let synced = over_nodes(bench, &drives, synced)?;
    let taken = Taken { expect: "clean", sum: None, synced: Some(synced) };
    let node = bench.counting_node("drives", 512, drives)?;
    take(bench, &node, DRIVES, &taken)?;
    node.stop()
}

/// We serve the array, and stop: Linux finds it clean, with what was written.
fn served_and_given_back(bench: &Bench<'_>, drives: &[String]) -> Result<(), Failed> {
    let served = bench.volume("volume", &[]).start(drives, 0)?;
    let variables =
        [("port", served.port.to_string()), ("nqn", Bench::nqn("volume")), ("sum", "yes".to_owned())];
    let mut guest = bench.guest(&bench.machine(true, 300), BUSY, &variables)?;
    guest.reach("loading")?;
    guest.go()?;
    let sum = guest.finish()?.get("sum")?.to_owned();
    served.stop()?;
    let node = bench.counting_node("drives", 512, drives.to_vec())?;
    take(bench, &node, DRIVES, &Taken { expect: "clean", sum: Some(&sum), synced: None })?;
    node.stop()
}

/// We serve the array to a guest that writes; both are killed. Returns the last file that was
/// written with fsync.
fn killed_under_load(bench: &Bench<'_>, devices: &[String], first: u64) -> Result<u64, Failed> {
    killed_under_load_by(bench, &bench.volume("volume", &[]), devices, first, |_| Ok(()))
}

/// The same; before the kill, but under load, something else happens.
pub(super) fn killed_under_load_by(
    bench: &Bench<'_>,
    setting: &Setting,
    devices: &[String],
    first: u64,
    happens: impl FnOnce(&Served) -> Result<(), Failed>,
) -> Result<u64, Failed> {
    let mut served = setting.start(devices, 0)?;
    let variables =
        [("port", served.port.to_string()), ("nqn", setting.nqn.clone()), ("first", first.to_string())];
    let mut guest = bench.guest(&bench.machine(true, 300), LOAD, &variables)?;
    guest.reach("loading")?;
    guest.listen(LOADING, "nothing")?;
    happens(&served)?;
    guest.listen(LOADING, "nothing")?;
    served.kill();
    // What it has said meanwhile.
    guest.listen(Duration::from_millis(200), "nothing")?;
    let synced = guest.number("synced")?;
    drop(guest);
    bench.steps.done(&format!("served, and killed under load after {} files", synced + 1 - first));
    Ok(synced)
}

/// Linux resyncs what may be torn, and no more; it writes on, and is killed.
fn linux_resyncs_and_is_killed(bench: &Bench<'_>, drives: &[String], synced: u64) -> Result<u64, Failed> {
    let dirty = dirty_bytes(drives)?;
    let node = bench.counting_node("drives", 512, drives.to_vec())?;
    let mut guest = bench.guest(
        &bench.machine(false, 400),
        TAKEN,
        &taken_variables(&node, DRIVES, &Taken { expect: "resync", sum: None, synced: Some(synced) }, true),
    )?;
    guest.reach("connected")?;
    let before = bytes_read(&node)?;
    guest.go()?;
    guest.reach("whole")?;
    let read = bytes_read(&node)? - before;
    let most = dirty * 12 / 10 + LOOKING * DRIVES as u64;
    if dirty == 0 || read > most {
        return Err(Failed(format!("the resync read {read} bytes; {dirty} are in dirty regions")));
    }
    bench.steps.done(&format!("resynced: {read} bytes read, {dirty} in dirty regions"));
    guest.go()?;
    guest.reach("writing")?;
    guest.listen(LOADING, "nothing")?;
    if guest.number("mismatches")? != 0 {
        return Err(Failed("the kernel counts sectors that do not match".to_owned()));
    }
    let written = guest.number("synced")?;
    drop(guest);
    node.stop()?;
    bench.steps.done(&format!("Linux wrote {} files more, and was killed", written - synced));
    Ok(written)
}

/// The log of before is stale: it must not lie over what Linux wrote.
fn ours_again(bench: &Bench<'_>, drives: &[String], synced: u64) -> Result<(), Failed> {
    let mut assemble = Command::new(bench.binary);
    assemble.args(["volume", "assemble", "--json"]).args(drives);
    let said = crate::run::output(&mut assemble)?;
    let said = String::from_utf8_lossy(&said);
    if !said.contains("\"log_discarded\": true") {
        return Err(Failed(format!("the stale log was not discarded: {said}")));
    }
    bench.steps.done("assembled by us, the stale log discarded");
    let node = bench.counting_node("drives", 512, drives.to_vec())?;
    take(bench, &node, DRIVES, &Taken { expect: "clean", sum: None, synced: Some(synced) })?;
    node.stop()
}

/// The same over nodes: we are killed, the volume is released, another machine takes it.
fn over_nodes(bench: &Bench<'_>, drives: &[String], synced: u64) -> Result<u64, Failed> {
    let node = bench.counting_node("drives", 512, drives.to_vec())?;
    let urls: Vec<String> =
        (1..=DRIVES).map(|nsid| format!("nvme://127.0.0.1:{}/{nsid}", node.port)).collect();
    let synced = killed_under_load(bench, &urls, synced + 1)?;
    let until = std::time::Instant::now() + FORGETTING;
    let mut release = Command::new(bench.binary);
    release.args(["volume", "release", "--uuid", UUID]).args(&urls);
    while let Err(Failed(why)) = crate::run::output(&mut release) {
        if std::time::Instant::now() > until {
            return Err(Failed(format!("the volume cannot be released: {why}")));
        }
        std::thread::sleep(Duration::from_millis(500));
    }
    bench.steps.done("released");
    take(bench, &node, DRIVES, &Taken { expect: "resync", sum: None, synced: Some(synced) })?;
    node.stop()?;
    Ok(synced)
}

fn bytes_read(node: &Node) -> Result<u64, Failed> {
    (1..=DRIVES)
        .map(|drive| {
            let name = format!("pumice_io_bytes_total{{drive=\"{drive}\",class=\"read\"}}");
            Ok(node.counter(&name)? as u64)
        })
        .sum()
}

fn taken_variables(
    node: &Node,
    members: usize,
    taken: &Taken<'_>,
    more: bool,
) -> Vec<(&'static str, String)> {
    vec![
        ("ports", node.port.to_string()),
        ("nqns", Bench::nqn("drives")),
        ("each", members.to_string()),
        ("expect", taken.expect.to_owned()),
        ("sum", taken.sum.unwrap_or_default().to_owned()),
        ("synced", taken.synced.map_or_else(String::new, |n| n.to_string())),
        ("more", if more { "yes" } else { "no" }.to_owned()),
    ]
}

/// Linux takes the array of a node named `drives`, checks it, and stops it.
pub(super) fn take(
    bench: &Bench<'_>,
    node: &Node,
    members: usize,
    taken: &Taken<'_>,
) -> Result<Report, Failed> {
    let variables = taken_variables(node, members, taken, false);
    let mut guest = bench.guest(&bench.machine(false, 400), TAKEN, &variables)?;
    guest.reach("connected")?;
    guest.go()?;
    if taken.expect == "refused" {
        return guest.finish();
    }
    guest.reach("whole")?;
    guest.go()?;
    let report = guest.finish()?;
    match report.number("mismatches")? {
        0 => Ok(report),
        count => Err(Failed(format!("the kernel counts {count} sectors that do not match"))),
    }
}
