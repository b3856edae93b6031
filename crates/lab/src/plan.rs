//! `pumice-lab plan`: the bytes that a scrub moves, also by the accounting of the brief.

mod brief;

use brief::{Lines, batch_for, lines};
use clap::{Args, ValueEnum};
use pumice::plan::{Document, MethodLines, Planned, terabytes};
use pumice::text::{print, print_json};
use pumice_base::units::parse_size;
use pumice_host::Method;
use pumice_host::plan::PassShape;
use pumice_service::failure::Failure;
use serde::Serialize;
use std::process::ExitCode;

/// Computes how many bytes a pass over an array moves, for each method.
#[derive(Debug, Args)]
pub(crate) struct PlanArgs {
    /// Drives of the array, parity included
    #[arg(long, value_parser = clap::value_parser!(u64).range(2..=1920))]
    members: u64,
    /// Drives of parity in a stripe
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=8))]
    parity: u64,
    /// Data nodes that the drives are spread over
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    nodes: u64,
    /// Bytes of a drive, such as 4TB
    #[arg(long, value_parser = parse_size)]
    drive: u64,
    /// Bytes of a chunk
    #[arg(long, default_value = "64KiB", value_parser = parse_size)]
    chunk: u64,
    /// Stripes of a batch
    #[arg(long, default_value_t = 255, value_parser = clap::value_parser!(u64).range(1..))]
    batch: u64,
    /// Accumulators of the methods `stripe` (across nodes) and `aggregate`
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=8))]
    accumulators: u64,
    /// Way of counting: `actual` counts the bytes that Pumice moves; `brief` is the accounting of
    /// the industry brief, in which the drives compute
    #[arg(long, value_enum, default_value_t = Accounting::Actual)]
    accounting: Accounting,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Accounting {
    Brief,
    Actual,
}

/// The plan by the accounting of the brief.
#[derive(Debug, Serialize)]
struct Brief {
    #[serde(flatten)]
    plan: Document,
    #[serde(skip_serializing_if = "Option::is_none")]
    batch_for_published_figure: Option<u64>,
}

/// Runs the command.
pub(crate) fn run(args: &PlanArgs) -> Result<ExitCode, Failure> {
    let PlanArgs { members, parity, nodes, drive, chunk, batch, accumulators, .. } = *args;
    let planned = Planned { members, parity, nodes, drive, chunk, batch, accumulators };
    match args.accounting {
        Accounting::Actual => planned.print_actual(args.json)?,
        Accounting::Brief => print_brief(&planned, args.json)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn print_brief(planned: &Planned, json: bool) -> Result<(), Failure> {
    let shape = planned.shape()?;
    let methods: Vec<MethodLines> =
        Method::ALL.into_iter().map(|method| of_method(method, planned, &shape)).collect();
    let published = published_batch(planned, &methods);
    if json {
        let plan = planned.document("brief", methods);
        print_json(&Brief { plan, batch_for_published_figure: published });
    } else {
        print(&human(planned, &methods, published));
    }
    Ok(())
}

fn of_method(method: Method, planned: &Planned, shape: &PassShape) -> MethodLines {
    let Lines { cpu, dram, network, pcie } = lines(method, shape, planned.drive, planned.batch);
    MethodLines {
        method: method.name(),
        cpu_bytes: cpu,
        dram_bytes: dram,
        network_bytes: network,
        pcie_bytes: pcie,
        ledger: None,
    }
}

/// The batch that gives the across-stripe figure exactly as a table with one decimal prints it.
fn published_batch(planned: &Planned, methods: &[MethodLines]) -> Option<u64> {
    let rounded = rounded(aggregate(methods));
    (rounded > 0.0).then(|| batch_for(planned.members, planned.drive, rounded))
}

/// Bytes of the network line of `aggregate`.
fn aggregate(methods: &[MethodLines]) -> f64 {
    let lines = methods.iter().find(|lines| lines.method == Method::Aggregate.name());
    lines.expect("every method has its lines").network_bytes
}

/// To a tenth of a terabyte, as tables print it.
fn rounded(bytes: f64) -> f64 {
    (bytes / 1e11).round() * 1e11
}

fn human(planned: &Planned, methods: &[MethodLines], published: Option<u64>) -> String {
    let mut out = planned.table(methods);
    out.push_str("\nAccounting of the brief: the drives compute; interims move between their memories.\n");
    if let Some(batch) = published {
        let bytes = aggregate(methods);
        out.push_str(&format!(
            "aggregate: {:.2} TB with batches of {}; exactly {} with batches of {batch}.\n",
            bytes / 1e12,
            planned.batch,
            terabytes(rounded(bytes)),
        ));
    }
    out.push_str("host is the brief's conventional method, stripe its per-stripe and aggregate its across-stripe offload;\nfingerprint is Pumice's own.\n");
    out
}
