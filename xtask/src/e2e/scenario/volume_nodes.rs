//! A volume over three nodes, one of which is killed and comes back under load: 2+1, where the
//! volume goes on without it, and 22+2, where it has to wait.

use super::{Bench, MIB, Node};
use crate::e2e::served::Status;
use crate::run::Failed;
use std::process::Command;
use std::time::Duration;

const BUSY: &str = include_str!("../../../guest/volume-busy.sh");
const NODES: usize = 3;
/// Of load before something happens.
const LOADING: Duration = Duration::from_secs(3);

/// Runs it.
pub(crate) fn run(bench: &Bench<'_>) -> Result<(), Failed> {
    goes_on(bench)?;
    waits(bench)
}

/// `each` drives on every node.
fn nodes(bench: &Bench<'_>, name: &str, each: usize, bytes: u64) -> Result<Vec<Node>, Failed> {
    let one = |n: usize| {
        let drives = (0..each).map(|drive| bench.drive(&format!("{name}{n}-{drive}"), bytes));
        bench.counting_node(&format!("{name}{n}"), 512, drives.collect::<Result<_, _>>()?)
    };
    (0..NODES).map(one).collect()
}

/// The drives of all nodes, in turn by node.
fn urls(nodes: &[Node], each: usize) -> Vec<String> {
    let url =
        |drive: usize| nodes.iter().map(move |node| format!("nvme://127.0.0.1:{}/{}", node.port, drive + 1));
    (0..each).flat_map(url).collect()
}

fn create(bench: &Bench<'_>, name: &str, level: &str, urls: &[String]) -> Result<(), Failed> {
    let mut create = Command::new(bench.binary);
    create.args(["volume", "create", "--level", level, "--name", name]).args(urls);
    crate::run::output(&mut create).map(drop)
}

/// RAID-5 of three drives on three nodes.
fn goes_on(bench: &Bench<'_>) -> Result<(), Failed> {
    const BYTES: u64 = 512 * MIB;
    /// Of the bitmap, as `pumice volume create` makes it. The load is within one.
    const REGION: u64 = 64 * MIB;
    let mut nodes = nodes(bench, "three", 1, BYTES)?;
    let urls = urls(&nodes, 1);
    create(bench, "three", "5", &urls)?;
    let served = bench.volume("three", &[]).start(&urls, 0)?;
    let variables = [("port", served.port.to_string()), ("nqn", Bench::nqn("three")), ("sum", "no".into())];
    let mut guest = bench.guest(&bench.machine(true, 400), BUSY, &variables)?;
    guest.reach("loading")?;
    guest.listen(LOADING, "nothing")?;
    nodes[1].kill();
    guest.listen(LOADING, "nothing")?;
    nodes[1].restart()?;
    served.await_status("three", "the failure", |status| !status.is_whole())?;
    bench.steps.done("2+1: a node was killed, and is back");
    served.ask("add", &["three", &urls[1]])?;
    served.await_status("three", "the rebuild", Status::is_whole)?;
    // The node counts from its start: the rebuild, and a second of load.
    let written = nodes[1].counter("pumice_io_bytes_total{drive=\"1\",class=\"write\"}")? as u64;
    if written > 2 * REGION {
        return Err(Failed(format!("added again, {written} bytes of {BYTES} were written")));
    }
    bench.steps.done(&format!("added again by the bitmap: {written} bytes of {BYTES} written"));
    guest.listen(LOADING, "nothing")?;
    guest.go()?;
    let report = guest.finish()?;
    if report.number("rounds")? == 0 {
        return Err(Failed("fio wrote nothing".to_owned()));
    }
    served.stop()?;
    nodes.into_iter().try_for_each(Node::stop)
}

/// RAID-6 of 24 drives on three nodes: without one of them nothing can be written.
fn waits(bench: &Bench<'_>) -> Result<(), Failed> {
    const EACH: usize = 8;
    let mut nodes = nodes(bench, "many", EACH, 12 * MIB)?;
    let urls = urls(&nodes, EACH);
    create(bench, "many", "6", &urls)?;
    let served = bench.volume("many", &[]).start(&urls, 0)?;
    let variables = [("port", served.port.to_string()), ("nqn", Bench::nqn("many")), ("sum", "no".into())];
    let mut guest = bench.guest(&bench.machine(true, 400), BUSY, &variables)?;
    guest.reach("loading")?;
    guest.listen(LOADING, "nothing")?;
    nodes[2].kill();
    served.await_status("many", "the hold", |status| status.state == "held")?;
    bench.steps.done("22+2: a node was killed, the volume is held");
    guest.listen(LOADING, "nothing")?;
    nodes[2].restart()?;
    let goes_on = |status: &Status| status.state != "held" && status.is_whole();
    served.await_status("many", "all members", goes_on)?;
    bench.steps.done("the node is back, the volume goes on");
    guest.listen(LOADING, "nothing")?;
    guest.go()?;
    guest.finish()?;
    served.stop()?;
    nodes.into_iter().try_for_each(Node::stop)
}
