//! `pumice-lab sim offload`: scrubbing by drives, as published and on drives of today.

use super::shared::ShowArgs;
use clap::{Args, ValueEnum};
use pumice::text::table;
use pumice_base::units::{format_binary, format_decimal, parse_size};
use pumice_lab::study::offload::{Basis, Cell, Method, Outcome, Platform, Report, study};
use pumice_lab::study::plot::{Axis, Division, Figure, Series};
use pumice_service::failure::Failure;
use std::process::ExitCode;

/// Drives of an array: as many as md has.
const MOST: u64 = 1_920;
/// Bytes of a drive: more than any has.
const LARGEST: u64 = 1_000_000_000_000_000_000;
/// Bytes a second: more than any line has.
const FASTEST: u64 = 1_000_000_000_000_000;

/// Predicts scrubs by drives with a parity engine, beside the published figures.
#[derive(Debug, Args)]
pub(crate) struct OffloadArgs {
    /// Numbers of drives of today, comma-separated
    #[arg(long, value_delimiter = ',', default_value = "4,8,16,24,32,48,64", value_parser = clap::value_parser!(u64).range(2..=MOST))]
    drives: Vec<u64>,
    /// Methods, comma-separated; without it, all of them
    #[arg(long, value_enum, value_delimiter = ',')]
    method: Vec<MethodName>,
    /// Drives of a node; 0: all drives are in the host
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u64).range(0..=MOST))]
    drives_per_node: u64,
    /// Bytes of a drive
    #[arg(long, value_parser = drive)]
    drive: Option<u64>,
    /// Bytes of a stripe on one drive
    #[arg(long, value_parser = bytes)]
    segment: Option<u64>,
    /// Parities that are checked
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=8))]
    parity: Option<u64>,
    /// Stripes of a batch
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=1_000))]
    batch: Option<u64>,
    /// Bytes a second that a parity engine folds
    #[arg(long, value_parser = rate)]
    engine: Option<u64>,
    /// Requests that a drive has in progress
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=1_024))]
    requests: Option<u64>,
    /// Bytes of a drive's memory buffer
    #[arg(long, value_parser = bytes)]
    cmb: Option<u64>,
    /// Bytes a second of a drive's medium
    #[arg(long, value_parser = rate)]
    medium: Option<u64>,
    /// Bytes a second of a drive's PCIe port
    #[arg(long, value_parser = rate)]
    pcie: Option<u64>,
    /// Bytes a second of a node's network port
    #[arg(long, value_parser = rate)]
    network: Option<u64>,
    /// Bytes a second of the host's network port
    #[arg(long, value_parser = rate)]
    host_network: Option<u64>,
    /// Bytes a second of host memory
    #[arg(long, value_parser = rate)]
    memory: Option<u64>,
    /// Threads of the host that check
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=4_096))]
    threads: Option<u64>,
    #[command(flatten)]
    show: ShowArgs,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum MethodName {
    Host,
    Stripe,
    Aggregate,
}

fn drive(text: &str) -> Result<u64, String> {
    let value = parse_size(text).map_err(|error| error.to_string())?;
    match value {
        512..=LARGEST => Ok(value),
        _ => Err(format!("'{text}' is out of range: from 512 bytes to 1000PB")),
    }
}

fn rate(text: &str) -> Result<u64, String> {
    let value = parse_size(text).map_err(|error| error.to_string())?;
    match value {
        1..=FASTEST => Ok(value),
        _ => Err(format!("'{text}' is not a rate: give bytes a second, such as 14GB, from 1 to 1000TB")),
    }
}

fn bytes(text: &str) -> Result<u64, String> {
    let value = parse_size(text).map_err(|error| error.to_string())?;
    match value {
        512..=0x1_0000_0000 => Ok(value),
        _ => Err(format!("'{text}' is out of range: from 512 bytes to 4GiB")),
    }
}

fn platform(args: &OffloadArgs) -> Platform {
    let base = Platform::modern();
    let segment = args.segment.unwrap_or(base.segment);
    let base = base.with_segment(segment);
    Platform {
        drive_bytes: args.drive.unwrap_or(base.drive_bytes),
        parity: args.parity.unwrap_or(base.parity),
        batch: args.batch.unwrap_or(base.batch),
        engine: args.engine.unwrap_or(base.engine),
        requests: args.requests.unwrap_or(base.requests),
        cmb: args.cmb.unwrap_or(base.cmb),
        medium: args.medium.unwrap_or(base.medium),
        pcie: args.pcie.unwrap_or(base.pcie),
        drives_per_node: (args.drives_per_node > 0).then_some(args.drives_per_node),
        network: args.network.unwrap_or(base.network),
        host_network: args.host_network.unwrap_or(base.host_network),
        memory: args.memory.unwrap_or(base.memory),
        threads: args.threads.unwrap_or(base.threads),
        ..base
    }
}

/// Runs the command.
pub(crate) fn run(args: &OffloadArgs) -> Result<ExitCode, Failure> {
    let asked = |name| args.method.is_empty() || args.method.contains(&name);
    let named = [MethodName::Host, MethodName::Stripe, MethodName::Aggregate];
    let methods = named.into_iter().zip(Method::ALL).filter(|(name, _)| asked(*name));
    let methods: Vec<Method> = methods.map(|(_, method)| method).collect();
    let mut drives = args.drives.clone();
    drives.sort_unstable();
    drives.dedup();
    let report = study(platform(args), &drives, &methods).map_err(|error| Failure::new(error.to_string()))?;
    args.show.show(&report, |report| figure(report).svg(), human)
}

fn line<'a>(name: String, outcomes: impl Iterator<Item = &'a Outcome>) -> Series {
    let points = outcomes.map(|o| (o.drives as f64, o.checked_per_s / 1e9)).collect();
    Series { name, points, line: true }
}

fn figure(report: &Report) -> Figure {
    let mut series = Vec::new();
    for source in ["brief 2025", "slides 2024"] {
        for method in [Method::Host, Method::Stripe] {
            let cells = report
                .cells
                .iter()
                .filter(|c| c.source == source && c.method == method && c.figure == "seconds");
            let rate = |c: &Cell| {
                let bytes = report.published_platform.drive_bytes as f64 * c.drives as f64;
                (c.drives as f64, bytes / c.published / 1e9)
            };
            let name = format!("{source}, {}", method.name());
            series.push(Series { name, points: cells.map(rate).collect(), line: false });
        }
    }
    for method in [Method::Host, Method::Stripe] {
        let outcomes = report.curve.iter().filter(|o| o.method == method);
        series.push(line(format!("its model, {}", method.name()), outcomes));
    }
    for method in Method::ALL {
        let outcomes = || report.modern.iter().flat_map(|r| &r.methods).filter(move |o| o.method == method);
        if outcomes().next().is_some() {
            series.push(line(format!("today, {}", method.name()), outcomes()));
        }
    }
    Figure {
        title: "Scrubbing by the host and by drives: published, modelled, and drives of today".to_owned(),
        x: Axis { label: "drives".to_owned(), division: Division::Log },
        y: Axis { label: "checked (GB/s)".to_owned(), division: Division::Log },
        series,
    }
}

fn heads<const N: usize>(names: [&str; N]) -> Vec<String> {
    names.map(str::to_owned).to_vec()
}

fn percent(error: f64) -> String {
    format!("{:+.1} %", error * 100.0)
}

fn figure_text(value: f64) -> String {
    if value < 10.0 { format!("{value:.2}") } else { format!("{value:.0}") }
}

fn human(report: &Report) -> String {
    let mut out = "Published figures beside the model's\n\n".to_owned();
    let names = ["source", "figure", "method", "drives", "published", "model", "error", "basis", "within"];
    let mut rows = vec![heads(names)];
    for c in &report.cells {
        let basis = match c.basis {
            Basis::Fitted => "fitted",
            Basis::Given => "given",
            Basis::Predicted => "predicted",
            Basis::Reported => "reported",
        };
        let within = c.limit.zip(c.met).map_or_else(
            || "-".to_owned(),
            |(limit, met)| format!("{:.0} %: {}", limit * 100.0, if met { "yes" } else { "NO" }),
        );
        rows.push(vec![
            c.source.to_owned(),
            c.figure.to_owned(),
            c.method.name().to_owned(),
            c.drives.to_string(),
            figure_text(c.published),
            figure_text(c.model),
            percent(c.error),
            basis.to_owned(),
            within,
        ]);
    }
    out.push_str(&table(&rows));
    let mut reasons: Vec<String> = Vec::new();
    for c in &report.cells {
        let reason = c.why.map(|why| format!("* {}, {}: {why}.\n", c.figure, c.method.name()));
        reasons.extend(reason.filter(|reason| !reasons.contains(reason)));
    }
    out.push('\n');
    out.extend(reasons);
    let fits = report.fits;
    out.push_str(&format!(
        "\nFitted: engine {}/s; a thread {:.1} us for a stripe and {:.1} us for a segment; {:.2} bytes of host memory a \
         byte checked,\n{} a segment when offloaded.\n",
        format_decimal(fits.engine),
        fits.thread_per_stripe_ns / 1e3,
        fits.thread_per_segment_ns / 1e3,
        fits.memory_per_byte,
        format_decimal(fits.memory_per_segment_offloaded as u64)
    ));
    out.push_str(&settings(&report.published_platform));
    out.push_str("\nOther assumptions, fitted anew: errors for 3, 5 and 9 drives of the brief, and 9 of the slides\n\n");
    let mut rows = vec![heads(["", "engine, GB/s", "offloaded", "host", "host memory"])];
    for v in &report.variants {
        let errors = |list: [f64; 4]| list.map(|e| format!("{:+.0}", e * 100.0)).join(" ") + " %";
        rows.push(vec![
            v.change.to_owned(),
            format!("{:.2}", v.engine as f64 / 1e9),
            errors(v.offload_errors),
            errors(v.host_errors),
            errors(v.memory_errors),
        ]);
    }
    out.push_str(&table(&rows));
    out.push_str("\nPublished figures that contradict each other\n\n");
    for found in &report.contradictions {
        out.push_str(&format!("* {}.\n  {}\n", found.figures, found.why));
    }
    out.push_str("\nDrives of today\n\n");
    out.push_str(&modern(report));
    out.push_str(&settings(&report.modern_platform));
    out
}

fn modern(report: &Report) -> String {
    let names = [
        "drives",
        "method",
        "hours",
        "GB/s",
        "network TB",
        "PCIe TB",
        "host memory GB/s",
        "threads busy",
        "busiest",
        "engine to match GB/s",
    ];
    let mut rows = vec![heads(names)];
    for row in &report.modern {
        for o in &row.methods {
            rows.push(vec![
                row.drives.to_string(),
                o.method.name().to_owned(),
                format!("{:.2}", o.seconds / 3_600.0),
                format!("{:.1}", o.checked_per_s / 1e9),
                format!("{:.2}", o.network_bytes / 1e12),
                format!("{:.2}", o.pcie_bytes / 1e12),
                format!("{:.2}", o.memory_per_s / 1e9),
                format!("{:.2}", o.threads_busy),
                format!("{} {:.0} %", o.limit, o.limit_load * 100.0),
                format!("{:.2}", row.engine_to_match / 1e9),
            ]);
        }
    }
    table(&rows)
}

/// Everything that the figures depend on.
fn settings(p: &Platform) -> String {
    let rate = |value: u64| format!("{}/s", format_decimal(value));
    let network = p.drives_per_node.map_or_else(
        || "all drives in the host, no network".to_owned(),
        |drives| {
            format!(
                "{drives} drives a node, network {} a node, {} the host, {} us",
                rate(p.network),
                rate(p.host_network),
                p.network_latency_ns as f64 / 1e3
            )
        },
    );
    format!(
        "\nDrive: {} checked, medium {} after {} us, PCIe {} a direction, engine {}, {} requests, CMB {}.\n\
         Stripe: {} a drive, {} parity, batches of {}. {network}.\n\
         Host: {} threads, {:.1} us a stripe and {:.1} us a segment, memory {}, {:.2} bytes a byte checked.\n\
         Nothing else uses the machine; the PCIe switch is as fast as its ports; {} stripes in progress a drive and thread.\n",
        format_decimal(p.drive_bytes),
        rate(p.medium),
        p.medium_latency_ns as f64 / 1e3,
        rate(p.pcie),
        rate(p.engine),
        p.requests,
        format_binary(p.cmb),
        format_binary(p.segment),
        p.parity,
        p.batch,
        p.threads,
        p.thread_per_stripe_ns / 1e3,
        p.thread_per_segment_ns / 1e3,
        rate(p.memory),
        p.memory_per_byte,
        pumice_lab::study::offload::AHEAD
    )
}
