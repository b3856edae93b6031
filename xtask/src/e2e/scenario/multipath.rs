//! Native multipath over both addresses of a node; one path is cut under fio with check sums, and
//! comes back.

use super::{Bench, MIB};
use crate::e2e::node::{Node, Serves, Setting, free_port};
use crate::run::Failed;

const SCRIPT: &str = include_str!("../../../guest/multipath.sh");

/// Runs it.
pub(crate) fn run(bench: &Bench<'_>) -> Result<(), Failed> {
    let second = free_port()?;
    let nqn = Bench::nqn("multipath");
    let node = Node::start(Setting {
        binary: bench.binary.to_owned(),
        nqn: nqn.clone(),
        serves: Serves::Drives { block: 512, drives: vec![bench.drive("multipath", 64 * MIB)?] },
        log: bench.folder.join("node-multipath.log"),
        second: Some(format!("127.0.0.1:{second}")),
        metrics: None,
    })?;
    let seconds = if bench.options.full { 24 } else { 12 };
    let variables = [
        ("port", node.port.to_string()),
        ("second", second.to_string()),
        ("nqn", nqn),
        ("seconds", seconds.to_string()),
    ];
    let report = bench.guest(&bench.machine(true, 240), SCRIPT, &variables)?.finish()?;
    let listed = report.number("listed")?;
    if listed != 2 {
        return Err(Failed(format!("the discovery log lists {listed} paths, not 2")));
    }
    node.stop()
}
