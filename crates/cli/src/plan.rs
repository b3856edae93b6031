//! `pumice plan`: computes how many bytes a scrub moves.

mod volume;

use crate::text::{count, print, print_json, table};
use clap::Args;
use pumice_base::telemetry::{Ledger, Place};
use pumice_base::units::{format_decimal, parse_size};
use pumice_host::Method;
use pumice_host::plan::{Batches, PassShape, actual};
use pumice_service::failure::Failure;
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
    #[arg(long, conflicts_with_all = ["drive", "batch"])]
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
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

/// A pass over an array, to be planned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Planned {
    /// Drives of the array, parity included; from 2 to 1920.
    pub members: u64,
    /// Drives of parity in a stripe, from 1 to 8.
    pub parity: u64,
    /// Data nodes that the drives are spread over, at least 1.
    pub nodes: u64,
    /// Bytes of a drive.
    pub drive: u64,
    /// Bytes of a chunk.
    pub chunk: u64,
    /// Stripes of a batch, at least 1.
    pub batch: u64,
    /// Accumulators of the methods `stripe` (across nodes) and `aggregate`, from 1 to 8.
    pub accumulators: u64,
}

/// The plan of a pass, as `--json` prints it.
#[derive(Debug, Serialize)]
pub struct Document {
    accounting: &'static str,
    members: u64,
    parity: u64,
    nodes: u64,
    drive_bytes: u64,
    chunk_bytes: u64,
    batch: u64,
    methods: Vec<MethodLines>,
}

/// The bytes that one method moves.
#[derive(Debug, Serialize)]
pub struct MethodLines {
    /// Its name.
    pub method: &'static str,
    /// Bytes that pass the processor of the compute node.
    pub cpu_bytes: f64,
    /// Bytes that pass its memory controller.
    pub dram_bytes: f64,
    /// Bytes that pass the network.
    pub network_bytes: f64,
    /// Bytes that pass PCIe in the data nodes.
    pub pcie_bytes: f64,
    /// The bytes by place, where this program moves them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ledger: Option<Ledger>,
}

impl Planned {
    /// The shape of the pass.
    ///
    /// # Errors
    /// If there is no such array.
    pub fn shape(&self) -> Result<PassShape, Failure> {
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

    /// The plan as a document: the bytes of each method by an accounting.
    #[must_use]
    pub fn document(&self, accounting: &'static str, methods: Vec<MethodLines>) -> Document {
        Document {
            accounting,
            members: self.members,
            parity: self.parity,
            nodes: self.nodes,
            drive_bytes: self.drive,
            chunk_bytes: self.chunk,
            batch: self.batch,
            methods,
        }
    }

    /// The plan as a table for people.
    #[must_use]
    pub fn table(&self, methods: &[MethodLines]) -> String {
        let (data, parity) = (self.members - self.parity, self.parity);
        let mut rows = vec![head(methods)];
        let mut row = |label: &str, value: &dyn Fn(&MethodLines) -> f64| {
            let cells = methods.iter().map(|m| terabytes(value(m)));
            rows.push(std::iter::once(label.to_owned()).chain(cells).collect());
        };
        row("CPU of the compute node", &|m| m.cpu_bytes);
        row("DRAM of the compute node", &|m| m.dram_bytes);
        row("network", &|m| m.network_bytes);
        row("PCIe in the data nodes", &|m| m.pcie_bytes);
        format!(
            "One pass over {}: {data}+{parity} drives of {} on {}, chunks of {}, {} stripes a batch\n\n{}",
            format_decimal(self.members.saturating_mul(self.drive)),
            format_decimal(self.drive),
            count(self.nodes, "data node"),
            pumice_base::units::format_binary(self.chunk),
            self.batch,
            table(&rows),
        )
    }

    /// Prints the bytes that this program moves.
    ///
    /// # Errors
    /// If there is no such array.
    pub fn print_actual(&self, json: bool) -> Result<(), Failure> {
        let shape = self.shape()?;
        let methods: Vec<MethodLines> =
            Method::ALL.into_iter().map(|method| actual_lines(method, &shape)).collect();
        if json {
            print_json(&self.document("actual", methods));
        } else {
            print(&(self.table(&methods) + &by_place(&methods)));
        }
        Ok(())
    }
}

fn actual_lines(method: Method, shape: &PassShape) -> MethodLines {
    let ledger = actual(method, shape);
    MethodLines {
        method: method.name(),
        cpu_bytes: ledger.host_cpu as f64,
        dram_bytes: ledger.host_dram as f64,
        network_bytes: (ledger.to_host + ledger.node_to_node) as f64,
        pcie_bytes: ledger.pcie as f64,
        ledger: Some(ledger),
    }
}

/// The first row of a table: the names of methods.
fn head(methods: &[MethodLines]) -> Vec<String> {
    std::iter::once(String::new()).chain(methods.iter().map(|m| m.method.to_owned())).collect()
}

fn by_place(methods: &[MethodLines]) -> String {
    let mut rows = vec![head(methods)];
    for place in Place::ALL {
        let cells = methods.iter().filter_map(|m| m.ledger.as_ref()).map(|l| terabytes(l[place] as f64));
        rows.push(std::iter::once(place.label().to_owned()).chain(cells).collect());
    }
    format!("\nWhat this program moves, by place:\n\n{}", table(&rows))
}

/// Runs the command.
pub(crate) fn run(args: &PlanArgs) -> Result<ExitCode, Failure> {
    if args.write {
        return volume::run(args);
    }
    let PlanArgs { members, parity, nodes, drive, chunk, batch, json, .. } = *args;
    Planned { members, parity, nodes, drive, chunk, batch, accumulators: 1 }.print_actual(json)?;
    Ok(ExitCode::SUCCESS)
}

/// A number of bytes, in terabytes with one decimal from 0.05 TB on.
#[must_use]
pub fn terabytes(bytes: f64) -> String {
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
