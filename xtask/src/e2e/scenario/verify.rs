//! fio writes, reads back and compares check sums: drives in memory and in files, blocks of 512 and
//! 4096 bytes.

use super::{Bench, MIB};
use crate::run::Failed;

const SCRIPT: &str = include_str!("../../../guest/verify.sh");

/// Runs it.
pub(crate) fn run(bench: &Bench<'_>) -> Result<(), Failed> {
    let small = bench.node("b512", 512, vec!["mem:48MiB".to_owned(), bench.drive("small", 48 * MIB)?])?;
    let large = bench.node("b4096", 4096, vec!["mem:48MiB".to_owned(), bench.drive("large", 48 * MIB)?])?;
    let size = if bench.options.full { 40 } else { 8 };
    let variables = [
        ("ports", format!("{} {}", small.port, large.port)),
        ("nqns", format!("{} {}", Bench::nqn("b512"), Bench::nqn("b4096"))),
        ("size", format!("{size}m")),
        ("full", if bench.options.full { "yes" } else { "" }.to_owned()),
        ("digests", if bench.options.full { "--hdr-digest --data-digest" } else { "" }.to_owned()),
    ];
    bench.guest(&bench.machine(true, 400), SCRIPT, &variables)?.finish()?;
    small.stop()?;
    large.stop()
}
