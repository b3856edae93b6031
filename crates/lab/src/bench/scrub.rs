//! `pumice-lab bench scrub`.

use clap::Args;
use pumice::bench::median;
use pumice::devices::{Placement, assemble_from, place};
use pumice::progress::Silent;
use pumice::text::{print, print_json, table};
use pumice_blockdev::BlockDevice;
use pumice_host::Method;
use pumice_host::scrub::{Options, run as run_pass};
use pumice_host::stop::Stop;
use pumice_node::{LocalNode, NodeOptions, Peers};
use pumice_offload::{DriveId, Mode, ParityCommand, Rule, Source, Window};
use pumice_raid::Array;
use pumice_service::access::Access;
use pumice_service::failure::Failure;
use pumice_service::probed::Probed;
use pumice_service::probing::probe_all;
use pumice_service::state::fresh_seed;
use serde::Serialize;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

/// Measures a scrub of an array against a read of its members with the same engine and no parity,
/// in alternating pairs.
#[derive(Debug, Args)]
pub(crate) struct ScrubArgs {
    /// Members of the array: devices, files, or nvme://HOST:PORT
    #[arg(required = true, value_name = "DEVICE")]
    devices: Vec<PathBuf>,
    /// The same members on this machine, to be read for comparison, if DEVICE names nodes
    #[arg(long, value_name = "DEVICE", num_args = 1..)]
    here: Vec<PathBuf>,
    /// Pairs
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: u32,
    /// Number of data nodes over which the members are spread
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..))]
    nodes: u16,
    /// Method of checking stripes: host, stripe, aggregate or fingerprint
    #[arg(long, default_value = "stripe")]
    method: Method,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Serialize)]
struct Document {
    method: Method,
    bytes: u64,
    read_gb_per_s: f64,
    scrub_gb_per_s: f64,
    /// Median of the pairs' own ratios.
    ratio_to_read: f64,
}

/// Runs the command.
pub(crate) fn run(args: &ScrubArgs) -> Result<ExitCode, Failure> {
    let probed = probe_all(&args.devices, Access::default())?;
    let array = assemble_from(&probed)?;
    let devices = members_here(args, &array, &probed)?;
    let node = LocalNode::new("read", devices, &Peers::new(), NodeOptions::default());
    let commands = read_commands(&array)?;
    let placement = if args.nodes == 1 { Placement::One } else { Placement::Runs(usize::from(args.nodes)) };
    let target = place(array, &probed, &placement, &NodeOptions::default())?;
    let (mut reads, mut scrubs) = (Vec::new(), Vec::new());
    let mut bytes = 0;
    // The first pair fills caches and pools and is not counted.
    for round in 0..=args.rounds {
        let began = Instant::now();
        let mut read = 0;
        for command in &commands {
            read += node.read_only_pass(command)?.media_read;
        }
        let reading = read as f64 / began.elapsed().as_secs_f64() / 1e9;
        let options = Options { method: Some(args.method), ..Options::with_seed(fresh_seed()?) };
        let began = Instant::now();
        let outcome = run_pass(&target, None, &options, &mut Silent, &Stop::new())?;
        let scrubbing = outcome.bytes_checked as f64 / began.elapsed().as_secs_f64() / 1e9;
        bytes = outcome.bytes_checked;
        if round > 0 {
            reads.push(reading);
            scrubs.push(scrubbing);
        }
    }
    let ratios = scrubs.iter().zip(&reads).map(|(s, r)| s / r).collect();
    let document = Document {
        method: args.method,
        bytes,
        read_gb_per_s: median(reads),
        scrub_gb_per_s: median(scrubs),
        ratio_to_read: median(ratios),
    };
    if args.json {
        print_json(&document);
    } else {
        let row = |name: &str, speed: f64, ratio: String| vec![name.to_owned(), format!("{speed:.2}"), ratio];
        print(&table(&[
            ["", "GB/s", "of reading"].map(str::to_owned).to_vec(),
            row("reading", document.read_gb_per_s, "100 %".to_owned()),
            row(
                args.method.name(),
                document.scrub_gb_per_s,
                format!("{:.0} %", document.ratio_to_read * 100.0),
            ),
        ]));
    }
    Ok(ExitCode::SUCCESS)
}

/// The members' devices on this machine, in the array's order.
fn members_here(
    args: &ScrubArgs,
    array: &Array,
    probed: &[Probed],
) -> Result<Vec<Arc<dyn BlockDevice>>, Failure> {
    let find = |array: &Array, probed: &[Probed]| -> Vec<Arc<dyn BlockDevice>> {
        let members = array.members().iter().flatten();
        members.filter_map(|m| probed.iter().find(|p| p.path == m.device)?.here().cloned()).collect()
    };
    let devices = if args.here.is_empty() {
        find(array, probed)
    } else {
        let here = probe_all(&args.here, Access { allow_in_use: true, ..Access::default() })?;
        let same = assemble_from(&here)?;
        if same.uuid() != array.uuid() {
            return Err(Failure::new("--here: these are members of another array"));
        }
        find(&same, &here)
    };
    if devices.len() < array.members().iter().flatten().count() {
        return Err(Failure::new(
            "members of a node cannot be read without it: name the same ones with --here",
        ));
    }
    Ok(devices)
}

/// Commands that cover the whole array, in the batches of a scrub.
fn read_commands(array: &Array) -> Result<Vec<ParityCommand>, Failure> {
    const BATCH: u64 = 255;
    let geometry = array.geometry();
    let chunk = u32::try_from(geometry.chunk_bytes())?;
    let sources: Vec<Source> = array
        .members()
        .iter()
        .flatten()
        .enumerate()
        .map(|(i, m)| Source::Media { drive: DriveId(i as u32 + 1), base: m.data_offset_bytes() })
        .collect();
    let stripes = geometry.stripes();
    Ok((0..stripes.div_ceil(BATCH))
        .map(|batch| ParityCommand {
            unpaced: false,
            sources: sources.clone(),
            chunk,
            window: Window { start: 0, len: chunk },
            stripes: batch * BATCH..(batch * BATCH + BATCH).min(stripes),
            rule: Rule::sum(sources.len()),
            mode: Mode::Check,
        })
        .collect())
}
