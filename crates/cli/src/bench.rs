//! `pumice bench`: the speed of this machine's kernels, and of a drive of a node.

pub mod kernels;
pub mod load;

use crate::leaving;
use crate::text::{fitted, print, print_json};
use clap::Args;
use kernels::Candidate;
use load::{Latency, Shape};
use pumice_parity::kernels::Kernels;
use pumice_protect::guard::Guard;
use pumice_protect::kernels::{Kernels as GuardKernels, Spacing};
use pumice_service::failure::Failure;
use pumice_service::place::RemotePlace;
use serde::Serialize;
use std::hint::black_box;
use std::process::ExitCode;

/// Bytes of a stream, and bytes of it that a turn takes. All streams together fit no cache.
const STREAM: usize = 16 << 20;
const WINDOW: usize = STREAM / 16;
/// Bytes of a protected block.
const BLOCK: usize = 4096;
/// The load on a node's drive.
const LOAD: Shape = Shape { writes: false, fua: false, random: true, bytes: 4096, depth: 32 };

/// Measures the kernels that a scrub uses: GB/s (1e9 bytes) of data on one core, beside a plain
/// read of the same memory. With the address of a node, also random reads of one of its drives,
/// 4096 bytes each and 32 at a time. Writes nothing, and takes 400 MB of memory.
#[derive(Debug, Args)]
pub(crate) struct BenchArgs {
    /// HOST:PORT of a node
    #[arg(value_name = "ADDRESS")]
    address: Option<String>,
    /// The drive of the node
    #[arg(long, default_value_t = 1, requires = "address", value_parser = clap::value_parser!(u32).range(1..))]
    nsid: u32,
    /// Rounds of the kernels, of which the median is shown
    #[arg(long, default_value_t = 11, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
    /// Seconds of the load on the node
    #[arg(long, default_value_t = 1.0, requires = "address")]
    seconds: f64,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Serialize)]
struct Document {
    kernels: Vec<Kernel>,
    node: Option<Node>,
}

#[derive(Debug, Serialize)]
struct Kernel {
    kernel: &'static str,
    isa: String,
    gb_per_s: f64,
    /// To a plain read of the same buffers in the same order, median of the rounds' own ratios.
    ratio_to_read: f64,
}

#[derive(Debug, Serialize)]
struct Node {
    nsid: u32,
    block_bytes: u32,
    queue_depth: u16,
    iops: f64,
    gb_per_s: f64,
    latency_us: Latency,
}

/// Runs the command.
pub(crate) fn run(args: &BenchArgs) -> Result<ExitCode, Failure> {
    leaving::on_signal()?;
    load::check_seconds(args.seconds)?;
    // A node that is not there is said first.
    let node = args.address.as_deref().map(|address| of_node(address, args)).transpose()?;
    let document = Document { kernels: of_kernels(args.rounds), node };
    if args.json {
        print_json(&document);
    } else {
        print(&human(&document));
    }
    Ok(ExitCode::SUCCESS)
}

fn of_node(address: &str, args: &BenchArgs) -> Result<Node, Failure> {
    let address = RemotePlace::parse(address)?.address;
    let mut controller = load::connect(address, false)?;
    let namespace = load::drive(&mut controller, "--nsid", args.nsid)?;
    let mut queue = controller.queue(1, LOAD.depth)?;
    let (iops, mut took) = load::load(&mut queue, (args.nsid, &namespace), &LOAD, args.seconds)?;
    Ok(Node {
        nsid: args.nsid,
        block_bytes: LOAD.bytes,
        queue_depth: LOAD.depth,
        iops,
        gb_per_s: iops * f64::from(LOAD.bytes) / 1e9,
        latency_us: Latency::of(&mut took),
    })
}

fn of_kernels(rounds: u32) -> Vec<Kernel> {
    let memory = kernels::streams(STREAM);
    let mut candidates = kernels::candidates(Kernels::best(), WINDOW);
    candidates.extend(Guard::ALL.map(guard));
    let speeds = kernels::speeds(&mut candidates, &memory, (STREAM, WINDOW), rounds);
    let plain = kernels::Plain::of(&candidates);
    let of = |i: usize| Kernel {
        kernel: candidates[i].kernel,
        isa: candidates[i].isa.clone(),
        gb_per_s: median(speeds[i].clone()),
        ratio_to_read: kernels::ratio(&speeds[i], &speeds[plain.beside(candidates[i].kernel)]),
    };
    (0..candidates.len()).map(of).collect()
}

/// The guards of the blocks of all streams, one stream after another.
fn guard(guard: Guard) -> Candidate<'static> {
    let kernels = GuardKernels::best();
    let blocks = Spacing { len: BLOCK, pitch: BLOCK };
    let mut guards = vec![0; WINDOW / BLOCK];
    Candidate {
        kernel: match guard {
            Guard::Crc16 => "crc16",
            Guard::Crc32c => "crc32c",
            Guard::Crc64 => "crc64",
        },
        isa: kernels.isa().to_string(),
        turn: Box::new(move |streams| {
            for stream in streams {
                kernels.blocks(guard, stream, blocks, &mut guards);
                black_box(&guards);
            }
            streams.iter().map(|stream| stream.len()).sum()
        }),
    }
}

fn human(document: &Document) -> String {
    let mut rows = vec![["kernel", "isa", "GB/s", "of a plain read"].map(str::to_owned).to_vec()];
    for Kernel { kernel, isa, gb_per_s, ratio_to_read } in &document.kernels {
        rows.push(vec![
            (*kernel).to_owned(),
            isa.clone(),
            format!("{gb_per_s:.1}"),
            format!("{:.0} %", ratio_to_read * 100.0),
        ]);
    }
    let mut out = fitted(&rows);
    if let Some(node) = &document.node {
        let head = ["node", "bytes", "depth", "commands/s", "GB/s", "p50 us", "p99 us", "max us"];
        let Latency { p50, p99, max, .. } = node.latency_us;
        out.push('\n');
        out.push_str(&fitted(&[
            head.map(str::to_owned).to_vec(),
            vec![
                "random read".to_owned(),
                node.block_bytes.to_string(),
                node.queue_depth.to_string(),
                format!("{:.0}", node.iops),
                format!("{:.2}", node.gb_per_s),
                format!("{p50:.1}"),
                format!("{p99:.1}"),
                format!("{max:.1}"),
            ],
        ]));
    }
    out
}

/// The median of values; the upper one of the middle two.
///
/// # Panics
/// If there are none.
#[must_use]
pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
