//! The price of checksums for md: RAID-5 over plain drives, over dm-integrity in the host (journal,
//! bitmap), and over drives with tags. A measurement: its figures are printed, and not judged.

use super::{Bench, MIB};
use crate::e2e::guest::Machine;
use crate::e2e::programs;
use crate::e2e::protocol::Report;
use crate::run::Failed;

const SCRIPT: &str = include_str!("../../../guest/integrity.sh");
/// Arrays, as the script names them.
const KINDS: [&str; 4] = ["plain", "journal", "bitmap", "tags"];
/// Jobs of fio.
const JOBS: [(&str, &str); 5] = [
    ("seqwrite", "writes of 192 KiB in order, 4 at a time"),
    ("randwrite", "writes of 4 KiB, 8 at a time"),
    ("flushed", "the same with a flush every 32"),
    ("seqread", "reads of 192 KiB in order, 4 at a time"),
    ("randread", "reads of 4 KiB, 8 at a time"),
];
/// Drives of an array.
const MEMBERS: usize = 4;

/// Runs it.
pub(crate) fn run(bench: &Bench<'_>) -> Result<(), Failed> {
    for block in [512, 4096] {
        one(bench, block)?;
    }
    Ok(())
}

fn one(bench: &Bench<'_>, block: u32) -> Result<(), Failed> {
    let (rounds, seconds) = if bench.options.full { (5, 5) } else { (1, 2) };
    let mut drives = Vec::new();
    for kind in KINDS {
        for member in 0..MEMBERS {
            let path = bench.drive(&format!("{kind}{block}-{member}"), 32 * MIB)?;
            drives.push(match kind {
                "tags" => format!("{path},pi=16,tags={path}.tags"),
                _ => path,
            });
        }
    }
    let name = format!("integrity{block}");
    let node = bench.node(&name, block, drives)?;
    let initrd =
        bench.initrd_with(|archive| programs::pack(archive, &["integritysetup"], &mut Vec::new()))?;
    let variables = [
        ("port", node.port.to_string()),
        ("nqn", Bench::nqn(&name)),
        ("rounds", rounds.to_string()),
        ("seconds", seconds.to_string()),
    ];
    let machine = Machine { initrd: &initrd, ..bench.machine(true, 900) };
    let report = bench.guest(&machine, SCRIPT, &variables)?.finish()?;
    node.stop()?;
    table(&report, block, rounds)
}

/// Prints the medians of the rounds: I/O a second of the plain array, and the ratios of the others
/// to it, each taken within its round.
fn table(report: &Report, block: u32, rounds: usize) -> Result<(), Failed> {
    println!("\nblocks of {block} bytes{:>28} {:>9} {:>9} {:>9}", "plain/s", "journal", "bitmap", "tags");
    for (job, what) in JOBS {
        let number = |kind: &str, round: usize| -> Result<f64, Failed> {
            Ok(report.number(&format!("{job}_{kind}_{round}"))? as f64)
        };
        let plain: Vec<f64> = (1..=rounds).map(|round| number("plain", round)).collect::<Result<_, _>>()?;
        let mut line = format!("{what:41} {:>7.0}", median(plain.clone()));
        for kind in &KINDS[1..] {
            let ratios = (1..=rounds).map(|round| Ok(number(kind, round)? / plain[round - 1]));
            line.push_str(&format!(" {:>9.2}", median(ratios.collect::<Result<_, Failed>>()?)));
        }
        println!("{line}");
    }
    Ok(())
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
