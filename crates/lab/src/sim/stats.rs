//! `pumice-lab sim trace-stats`: idle times of a traced drive.

use super::shared::{ShowArgs, TraceArgs, file_name};
use clap::Args;
use pumice::text::table;
use pumice_lab::study::plot::{Axis, Division, Figure, Series};
use pumice_lab::study::stats::{TraceStats, trace_stats};
use pumice_service::failure::Failure;
use std::process::ExitCode;

/// Shows how idle a traced drive is.
#[derive(Debug, Args)]
pub(crate) struct TraceStatsArgs {
    #[command(flatten)]
    trace: TraceArgs,
    #[command(flatten)]
    show: ShowArgs,
}

/// Runs the command.
pub(crate) fn run(args: &TraceStatsArgs) -> Result<ExitCode, Failure> {
    let from = &args.trace;
    let stats = trace_stats(&from.trace, from.format, from.device.as_deref(), from.drive)?;
    args.show.show(&stats, |stats| figure(stats).svg(), human)
}

fn figure(stats: &TraceStats) -> Figure {
    let axis = |label: &str| Axis { label: label.to_owned(), division: Division::Log };
    let remaining = stats.remaining.iter().map(|r| (r.waited_s, r.mean_remaining_s)).collect();
    let hazard = stats.hazard.iter().map(|h| (h.age_s, h.per_s)).collect();
    Figure {
        title: format!("{}, device {}: idle times", file_name(&stats.trace), stats.device),
        x: axis("idle for (s)"),
        y: axis("hazard rate (1/s), mean remaining idle time (s)"),
        series: vec![
            Series { name: "hazard rate".to_owned(), points: hazard, line: true },
            Series { name: "remaining time".to_owned(), points: remaining, line: true },
        ],
    }
}

fn human(stats: &TraceStats) -> String {
    let source = if stats.recorded_times { "recorded" } else { stats.drive };
    let mut out = format!(
        "{}, format {}, device {} of {}, completion times: {source}\n\n",
        stats.trace,
        stats.format,
        stats.device,
        stats.devices.len(),
    );
    let [one, five, fifteen] = stats.longest.map(|l| format!("{:.1} %", l * 100.0));
    let rows = [
        ("requests", stats.requests.to_string()),
        ("span", format!("{:.1} s", stats.span_s)),
        ("rate", format!("{:.2} /s", stats.per_s)),
        ("reads", format!("{:.1} %", stats.reads * 100.0)),
        ("mean length", format!("{:.1} KiB", stats.mean_bytes / 1024.0)),
        ("idle", format!("{:.1} %", stats.idle_share * 100.0)),
        ("idle intervals", stats.intervals.to_string()),
        ("mean, median", format!("{:.4} s, {:.4} s", stats.mean_idle_s, stats.median_idle_s)),
        ("coefficient of variation", format!("{:.2}", stats.cv)),
        ("autocorrelation of the logarithm", format!("{:.2}", stats.autocorrelation)),
        ("idle time in the longest 1, 5, 15 %", format!("{one}, {five}, {fifteen}")),
        ("advice", stats.advice.replace('_', " ")),
    ];
    out.push_str(&table(&rows.map(|(name, value)| vec![name.to_owned(), value])));
    out.push('\n');
    let heads = ["waited", "still idle", "mean rest"].map(str::to_owned).to_vec();
    let mut rows = vec![heads];
    for r in &stats.remaining {
        rows.push(vec![
            format!("{} s", r.waited_s),
            format!("{:.2} %", r.share * 100.0),
            format!("{:.3} s", r.mean_remaining_s),
        ]);
    }
    out.push_str(&table(&rows));
    out.push('\n');
    let mut rows = vec![vec!["idle for".to_owned(), "ends".to_owned()]];
    for h in &stats.hazard {
        rows.push(vec![format!("{} s", h.age_s), format!("{:.4} /s", h.per_s)]);
    }
    out.push_str(&table(&rows));
    out
}
