//! Requests of nvme-cli to a controller, and the parts of the answers that must be right.

use super::{Bench, MIB};
use crate::run::Failed;

const SCRIPT: &str = include_str!("../../../guest/admin.sh");
/// Blocks of 512 bytes of the drive that is asked about.
const BLOCKS: u64 = 24 * MIB / 512;

/// Runs it.
pub(crate) fn run(bench: &Bench<'_>) -> Result<(), Failed> {
    let node = bench.node("admin", 512, vec!["mem:24MiB".to_owned(), bench.drive("b", 32 * MIB)?])?;
    let variables = [("port", node.port.to_string()), ("nqn", Bench::nqn("admin"))];
    let report = bench.guest(&bench.machine(false, 120), SCRIPT, &variables)?.finish()?;
    let same = |key: &str, wanted: &str| match report.get(key)? {
        there if there == wanted => Ok(()),
        there => Err(Failed(format!("{key} is {there}, not {wanted}"))),
    };
    same("subnqn", &Bench::nqn("admin"))?;
    same("nsze", &format!("{BLOCKS:#x}"))?;
    // Both drives, and room for no other.
    same("namespaces", "2")?;
    same("critical_warning", "0")?;
    // Bit 0: the controller carries it out.
    same("effects_read", "1")?;
    same("effects_write", "1")?;
    same("ana_state", "optimized")?;
    node.stop()
}
