//! `pumice-lab sim stagger`: the costs and gains of staggered order.

use clap::Args;
use pumice::text::{print, print_json, table};
use pumice_lab::study::stagger::{Delay, Throughput, delay, throughput};
use pumice_service::failure::Failure;
use serde::Serialize;
use std::process::ExitCode;

/// Compares staggered with sequential order.
#[derive(Debug, Args)]
pub(crate) struct StaggerArgs {
    /// Regions of the drive, for the detection delay
    #[arg(long, default_value_t = 128, value_parser = clap::value_parser!(u64).range(1..=65_536))]
    regions: u64,
    /// Segments of a region
    #[arg(long, default_value_t = 128, value_parser = clap::value_parser!(u64).range(1..=65_536))]
    segments: u64,
    /// Adjacent bad segments of a burst [default: 1, 5, 10, 20 and 64]
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    burst: Option<u64>,
    /// Bursts that are drawn
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    samples: u64,
    /// Seed of the draws
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Serialize)]
struct Document {
    delays: Vec<Delay>,
    throughput: Vec<Throughput>,
}

/// Runs the command.
pub(crate) fn run(args: &StaggerArgs) -> Result<ExitCode, Failure> {
    if args.regions * args.segments > 1 << 26 {
        return Err(Failure::new("--regions times --segments is more than 67108864"));
    }
    if let Some(burst) = args.burst
        && burst > args.segments
    {
        return Err(Failure::new(format!(
            "--burst is {burst}: it must be at most --segments, {}",
            args.segments
        )));
    }
    let bursts = args.burst.map_or_else(|| vec![1, 5, 10, 20, 64], |burst| vec![burst]);
    let delays = bursts
        .into_iter()
        .filter(|burst| *burst <= args.segments)
        .map(|burst| delay(args.regions, args.segments, burst, args.samples, args.seed))
        .collect();
    let found = Document { delays, throughput: throughput(&[2, 8, 32, 64, 128, 256, 512]) };
    if args.json {
        print_json(&found);
    } else {
        print(&human(args, &found));
    }
    Ok(ExitCode::SUCCESS)
}

fn human(args: &StaggerArgs, found: &Document) -> String {
    let mut out = format!(
        "Mean time until a pass meets a burst, in passes: {} regions of {} segments, {} bursts\n\n",
        args.regions, args.segments, args.samples
    );
    let heads = |names: [&str; 5]| names.map(str::to_owned).to_vec();
    let mut rows = vec![heads(["bad segments", "sequential", "staggered", "closed form", "sooner"])];
    for d in &found.delays {
        rows.push(vec![
            d.burst.to_string(),
            format!("{:.4}", d.sequential),
            format!("{:.4}", d.staggered),
            format!("{:.4}", d.formula),
            format!("{:.1} %", d.gain * 100.0),
        ]);
    }
    out.push_str(&table(&rows));
    out.push_str("\nThroughput back to back, 64 KiB requests, on the disk model:\n\n");
    let mut rows = vec![vec!["regions".to_owned(), "MiB/s".to_owned(), "of sequential".to_owned()]];
    for t in &found.throughput {
        let regions = if t.regions == 1 { "sequential".to_owned() } else { t.regions.to_string() };
        rows.push(vec![regions, format!("{:.2}", t.mb_per_s), format!("{:.2}", t.of_sequential)]);
    }
    out.push_str(&table(&rows));
    out
}
