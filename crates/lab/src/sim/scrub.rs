//! `pumice-lab sim scrub`: policies side by side on a trace.

use super::shared::{ShowArgs, TraceArgs, file_name};
use clap::Args;
use pumice::text::table;
use pumice_base::units::parse_duration;
use pumice_lab::study::plot::{Axis, Division, Figure, Series};
use pumice_lab::study::scrub::{PolicyName, Report, Study, study};
use pumice_pacer::{Goal, Percentile};
use pumice_service::failure::Failure;
use std::process::ExitCode;

/// Compares policies on a trace.
#[derive(Debug, Args)]
pub(crate) struct ScrubStudyArgs {
    #[command(flatten)]
    trace: TraceArgs,
    /// A policy, or all of them
    #[arg(long, default_value = "all")]
    policy: String,
    /// Largest mean slowdown of a foreground request
    #[arg(long, default_value = "1ms", value_parser = parse_duration)]
    slowdown: u64,
    /// A limit for a percentile of the slowdowns, such as 99:20ms
    #[arg(long, value_parser = parse_percentile)]
    percentile: Option<Percentile>,
    /// The largest slowdown of any request: no larger background request is made
    #[arg(long, value_parser = parse_duration)]
    maximum: Option<u64>,
    /// Share of the trace used for tuning; the rest is measured. 0: tune and measure on the whole
    /// trace
    #[arg(long, default_value_t = 0.3)]
    train: f64,
    /// Count the requests that queue behind a slowed one as well
    #[arg(long)]
    queued: bool,
    #[command(flatten)]
    show: ShowArgs,
}

fn parse_percentile(text: &str) -> Result<Percentile, String> {
    let wrong = || format!("'{text}' is not a percentile: write one like 99:20ms");
    let (share, limit) = text.split_once(':').ok_or_else(wrong)?;
    let share = share.parse::<f64>().map_err(|_| wrong())? / 100.0;
    if !(share > 0.0 && share < 1.0) {
        return Err(wrong());
    }
    Ok(Percentile { share, limit: parse_duration(limit).map_err(|error| error.to_string())? })
}

/// Runs the command.
pub(crate) fn run(args: &ScrubStudyArgs) -> Result<ExitCode, Failure> {
    if !(0.0..1.0).contains(&args.train) {
        return Err(Failure::new(format!("--train is {}: it must be from 0 to less than 1", args.train)));
    }
    let policies = match args.policy.as_str() {
        "all" => PolicyName::ALL.to_vec(),
        names => {
            let named = names.split(',').map(|name| name.trim().parse::<PolicyName>());
            named.collect::<Result<_, _>>().map_err(|error| Failure::new(format!("--policy: {error}")))?
        }
    };
    let report = study(&Study {
        trace: args.trace.trace.clone(),
        format: args.trace.format,
        device: args.trace.device.clone(),
        goal: Goal { mean: args.slowdown, percentile: args.percentile, maximum: args.maximum },
        curves: args.policy == "all" || args.show.plot.is_some(),
        policies,
        train: args.train,
        drive: args.trace.drive,
        queued: args.queued,
    })?;
    args.show.show(&report, |report| figure(report).svg(), human)
}

fn figure(report: &Report) -> Figure {
    let curve = |policy: &str, name: &str| {
        let points = report.curves.iter().filter(|p| p.policy == policy);
        let points = points.map(|p| (p.mean_slowdown_ms, p.scrub_mb_per_s)).collect();
        Series { name: name.to_owned(), points, line: true }
    };
    let mut series = vec![
        curve("oracle", "oracle"),
        curve("priced", "priced"),
        curve("waiting", "waiting"),
        curve("cfq", "10 ms, 64 KiB to 4 MiB"),
    ];
    // The rows of the part that the curves belong to.
    let in_sample = report.policies.iter().all(|r| r.in_sample);
    for row in report.policies.iter().filter(|r| r.in_sample == in_sample) {
        if series.iter().all(|s| s.name != row.policy) {
            let points = vec![(row.mean_slowdown_ms, row.scrub_mb_per_s)];
            series.push(Series { name: row.policy.to_owned(), points, line: false });
        }
    }
    let part = if in_sample { "in sample" } else { "held-out part" };
    Figure {
        title: format!("{}, device {}, {part}", file_name(&report.trace), report.device),
        x: Axis { label: "mean slowdown of a foreground request (ms)".to_owned(), division: Division::Log },
        y: Axis { label: "scrub throughput (MiB/s)".to_owned(), division: Division::ByValues },
        series,
    }
}

fn seconds(value: Option<f64>) -> String {
    value.map_or_else(
        String::new,
        |s| if s < 1.0 { format!("{:.0} ms", s * 1e3) } else { format!("{s:.1} s") },
    )
}

fn human(report: &Report) -> String {
    let mut out = format!(
        "{}, device {}: {} requests in {:.0} s, idle {:.1} % of the time, squared variation of idle times {:.1}\n\
         drive {}; goal: {} ms mean slowdown ({})\n\n",
        report.trace,
        report.device,
        report.requests,
        report.span_s,
        report.idle_share * 100.0,
        report.variability,
        report.drive,
        report.goal_ms,
        report.accounting,
    );
    let header =
        ["policy", "wait", "request", "MiB/s", "mean ms", "p99 ms", "queued ms", "x cfq", "of oracle", ""];
    let mut rows = vec![header.iter().map(|&h| h.to_owned()).collect::<Vec<_>>()];
    for row in &report.policies {
        let times = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |v| format!("{v:.2}"));
        rows.push(vec![
            row.policy.to_owned(),
            seconds(row.threshold_s),
            row.request_bytes.map_or_else(String::new, |b| format!("{} KiB", b >> 10)),
            format!("{:.1}", row.scrub_mb_per_s),
            format!("{:.3}", row.mean_slowdown_ms),
            format!("{:.2}", row.p99_slowdown_ms),
            format!("{:.3}", row.mean_slowdown_queued_ms),
            times(row.ratio_to_cfq),
            times(row.ratio_to_oracle),
            if row.in_sample { "in sample" } else { "held out" }.to_owned(),
        ]);
    }
    out.push_str(&table(&rows));
    if let Some(equal) = &report.equal_throughput {
        out.push_str(&format!(
            "\nAt cfq's {:.1} MiB/s, {} slows by {:.4} ms instead of {:.3} ms: {:.1} times less.\n",
            equal.scrub_mb_per_s,
            equal.policy,
            equal.mean_slowdown_ms,
            equal.cfq_slowdown_ms,
            equal.times_less
        ));
    }
    for note in &report.notes {
        out.push_str(&format!("note: {note}\n"));
    }
    out
}
