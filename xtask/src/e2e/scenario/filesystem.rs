//! ext4 on a drive of a node: made, filled, unmounted, and the same after the drive was away.

use super::{Bench, MIB};
use crate::run::Failed;

const SCRIPT: &str = include_str!("../../../guest/filesystem.sh");

/// Runs it.
pub(crate) fn run(bench: &Bench<'_>) -> Result<(), Failed> {
    let mut node = bench.node("ext4", 4096, vec![bench.drive("ext4", 96 * MIB)?])?;
    let variables = [("port", node.port.to_string()), ("nqn", Bench::nqn("ext4"))];
    let mut guest = bench.guest(&bench.machine(false, 180), SCRIPT, &variables)?;
    // Away and back: what was unmounted must be in the file, not in the process.
    guest.reach("disconnected")?;
    node.kill();
    node.restart()?;
    guest.go()?;
    guest.finish()?;
    node.stop()
}
