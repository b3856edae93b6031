//! `pumice plan`: computes how many bytes a scrub moves.

mod volume;

use crate::failure::Failure;
use crate::text::{count, print, print_json, table};
use clap::{Args, ValueEnum};
use pumice_host::Method;
use pumice_host::plan::{Batches, BriefLines, PassShape, actual, brief, brief_batch_for};
use pumice_telemetry::{Ledger, Place};
use pumice_units::{format_decimal, parse_size};
use serde::Serialize;
use std::process::ExitCode;

/// Power sums a row of a fingerprint, as a scrub uses them.
const POWERS: u64 = 8;

/// Computes how many bytes a pass over an array moves, for each method; with --write, how many
/// bytes a volume moves for each byte that is written, read or rebuilt.
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
    #[arg(long, value_parser = parse_size, required_unless_present = "write", default_value = "0", hide_default_value = true)]
    drive: u64,
    /// Instead of a scrub, plan the writes of a volume over the nodes, its reads while a drive is
    /// missing, and a rebuild, with and without offload
    #[arg(long, conflicts_with_all = ["drive", "batch", "accumulators", "accounting"])]
    write: bool,
    /// With --write: how rows are protected against a crash
    #[arg(long, value_enum, default_value = "log", requires = "write")]
    consistency: volume::Consistency,
    /// Bytes of a chunk
    #[arg(long, default_value = "64KiB", value_parser = parse_size)]
    chunk: u64,
    /// Stripes of a batch
    #[arg(long, default_value_t = 255, value_parser = clap::value_parser!(u64).range(1..))]
    batch: u64,
    /// Accumulators of the methods `stripe` (across nodes) and `aggregate`
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=8))]
    accumulators: u64,
    /// How to count: `actual` is what this program moves; `brief` is the accounting of the industry
    /// brief, in which the drives compute
    #[arg(long, value_enum, default_value_t = Accounting::Actual)]
    accounting: Accounting,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
enum Accounting {
    Brief,
    Actual,
}

#[derive(Debug, Serialize)]
struct Document {
    accounting: Accounting,
    members: u64,
    parity: u64,
    nodes: u64,
    drive_bytes: u64,
    chunk_bytes: u64,
    batch: u64,
    methods: Vec<MethodLines>,
    #[serde(skip_serializing_if = "Option::is_none")]
    batch_for_published_figure: Option<u64>,
}

#[derive(Debug, Serialize)]
struct MethodLines {
    method: &'static str,
    cpu_bytes: f64,
    dram_bytes: f64,
    network_bytes: f64,
    pcie_bytes: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    ledger: Option<Ledger>,
}

impl PlanArgs {
    fn shape(&self) -> Result<PassShape, Failure> {
        if self.parity >= self.members {
            return Err(Failure::new(format!(
                "--parity is {}: it must be less than --members, {}",
                self.parity, self.members
            )));
        }
        if self.nodes > self.members {
            return Err(Failure::new(format!(
                "--nodes is {}: it must be at most --members, {}",
                self.nodes, self.members
            )));
        }
        if !self.chunk.is_power_of_two() || self.chunk < 4096 {
            return Err(Failure::new(format!(
                "--chunk is {} bytes: it must be a power of two, at least 4096, as in md",
                self.chunk
            )));
        }
        if self.drive < self.chunk {
            return Err(Failure::new(format!(
                "--drive is {} bytes: less than one chunk of {}",
                self.drive, self.chunk
            )));
        }
        let total = u128::from(self.members) * u128::from(self.drive) * 8 * u128::from(self.accumulators);
        if total > u128::from(u64::MAX) {
            return Err(Failure::new("the array is too large: its byte counts do not fit 64 bits"));
        }
        let spread =
            (0..self.nodes).map(|i| self.members / self.nodes + u64::from(i < self.members % self.nodes));
        Ok(PassShape {
            members_of_node: spread.collect(),
            rows: self.parity,
            chunk: self.chunk,
            batches: Batches::of_run(self.drive / self.chunk, self.batch),
            accumulators: self.accumulators,
            powers: POWERS,
        })
    }

    fn lines(&self, method: Method, shape: &PassShape) -> MethodLines {
        let (lines, ledger) = match self.accounting {
            Accounting::Brief => (brief(method, shape, self.drive, self.batch), None),
            Accounting::Actual => {
                let ledger = actual(method, shape);
                let lines = BriefLines {
                    cpu: ledger.host_cpu as f64,
                    dram: ledger.host_dram as f64,
                    network: (ledger.to_host + ledger.node_to_node) as f64,
                    pcie: ledger.pcie as f64,
                };
                (lines, Some(ledger))
            }
        };
        MethodLines {
            method: method.name(),
            cpu_bytes: lines.cpu,
            dram_bytes: lines.dram,
            network_bytes: lines.network,
            pcie_bytes: lines.pcie,
            ledger,
        }
    }
}

/// Runs the command.
pub(crate) fn run(args: &PlanArgs) -> Result<ExitCode, Failure> {
    if args.write {
        return volume::run(args);
    }
    let shape = args.shape()?;
    let methods: Vec<MethodLines> =
        Method::ALL.into_iter().map(|method| args.lines(method, &shape)).collect();
    let published = (args.accounting == Accounting::Brief).then(|| published_batch(args, &methods)).flatten();
    if args.json {
        print_json(&Document {
            accounting: args.accounting,
            members: args.members,
            parity: args.parity,
            nodes: args.nodes,
            drive_bytes: args.drive,
            chunk_bytes: args.chunk,
            batch: args.batch,
            methods,
            batch_for_published_figure: published,
        });
    } else {
        print(&human(args, &methods, published));
    }
    Ok(ExitCode::SUCCESS)
}

/// The batch that gives the across-stripe figure exactly as a table with one decimal prints it.
fn published_batch(args: &PlanArgs, methods: &[MethodLines]) -> Option<u64> {
    let rounded = rounded(aggregate(methods));
    (rounded > 0.0).then(|| brief_batch_for(args.members, args.drive, rounded))
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

fn terabytes(bytes: f64) -> String {
    let tb = bytes / 1e12;
    match bytes {
        0.0 => "0".to_owned(),
        _ if tb >= 0.05 => {
            let text = format!("{tb:.1}");
            format!("{} TB", text.trim_end_matches(".0"))
        }
        _ => format_decimal(bytes as u64),
    }
}

fn human(args: &PlanArgs, methods: &[MethodLines], published: Option<u64>) -> String {
    let (data, parity) = (args.members - args.parity, args.parity);
    let whole = format_decimal(args.members.saturating_mul(args.drive));
    let mut out = format!(
        "One pass over {whole}: {data}+{parity} drives of {} on {}, chunks of {}, {} stripes a batch\n\n",
        format_decimal(args.drive),
        count(args.nodes, "data node"),
        pumice_units::format_binary(args.chunk),
        args.batch,
    );
    let mut rows =
        vec![std::iter::once(String::new()).chain(methods.iter().map(|m| m.method.to_owned())).collect()];
    let mut row = |label: &str, value: &dyn Fn(&MethodLines) -> f64| {
        let cells = methods.iter().map(|m| terabytes(value(m)));
        rows.push(std::iter::once(label.to_owned()).chain(cells).collect());
    };
    row("CPU of the compute node", &|m| m.cpu_bytes);
    row("DRAM of the compute node", &|m| m.dram_bytes);
    row("network", &|m| m.network_bytes);
    row("PCIe in the data nodes", &|m| m.pcie_bytes);
    out.push_str(&table(&rows));
    match args.accounting {
        Accounting::Brief => {
            out.push_str(
                "\nAccounting of the brief: the drives compute; interims move between their memories.\n",
            );
            if let Some(batch) = published {
                let bytes = aggregate(methods);
                out.push_str(&format!(
                    "aggregate: {:.2} TB with batches of {}; exactly {} with batches of {batch}.\n",
                    bytes / 1e12,
                    args.batch,
                    terabytes(rounded(bytes)),
                ));
            }
            out.push_str("host is the brief's conventional method, stripe its per-stripe and aggregate its across-stripe offload;\nfingerprint is Pumice's own.\n");
        }
        Accounting::Actual => {
            out.push_str("\nWhat this program moves, by place:\n\n");
            let mut rows: Vec<Vec<String>> = vec![
                std::iter::once(String::new()).chain(methods.iter().map(|m| m.method.to_owned())).collect(),
            ];
            for place in Place::ALL {
                let cells =
                    methods.iter().filter_map(|m| m.ledger.as_ref()).map(|l| terabytes(l[place] as f64));
                rows.push(std::iter::once(place.label().to_owned()).chain(cells).collect());
            }
            out.push_str(&table(&rows));
        }
    }
    out
}
