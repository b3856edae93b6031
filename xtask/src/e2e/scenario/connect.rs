//! The kernel finds the node, connects and disconnects: digests on and off, one queue and several.

use super::{Bench, MIB};
use crate::run::Failed;

const SCRIPT: &str = include_str!("../../../guest/connect.sh");

/// One I/O queue, on one processor.
pub(crate) fn one_queue(bench: &Bench<'_>) -> Result<(), Failed> {
    connect(bench, 1)
}

/// Two I/O queues, on two processors.
pub(crate) fn several_queues(bench: &Bench<'_>) -> Result<(), Failed> {
    connect(bench, 2)
}

fn connect(bench: &Bench<'_>, queues: u32) -> Result<(), Failed> {
    let node = bench.node("connect", 512, vec!["mem:32MiB".to_owned(), bench.drive("a", 32 * MIB)?])?;
    let mut machine = bench.machine(false, 120);
    machine.cpus = queues;
    let variables =
        [("port", node.port.to_string()), ("nqn", Bench::nqn("connect")), ("queues", queues.to_string())];
    let report = bench.guest(&machine, SCRIPT, &variables)?.finish()?;
    // The admin queue is one of them.
    let counted = report.number("queue_count")?;
    if counted != u64::from(queues) + 1 {
        return Err(Failed(format!(
            "the kernel has {counted} queues, with the admin queue, not {}",
            queues + 1
        )));
    }
    node.stop()
}
