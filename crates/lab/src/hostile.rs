//! Attacks a node, and measures what that does to others: `docs/testing.md`, *Hostile peers*.

mod attacks;
mod bound;
mod good;
mod many;
mod measure;
mod node;
mod random;
mod trials;
mod wire;

use attacks::CLASSES;
use clap::Parser;
use measure::{RATIO, Row, measure, measure_crowd};
use serde_json::json;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::Duration;
use trials::TRIALS;

/// The name of the part with as many connections as there may be.
const CROWD: &str = "crowd";

/// Failure of a run.
#[derive(Debug)]
pub(crate) struct Failed(pub(crate) String);

/// A line about what is being done.
pub(crate) fn say(line: &str) {
    eprintln!("hostile: {line}");
}

/// Attacks `pumice node` class by class, beside clients that verify every read.
///
/// Exit codes: 0 every bound was kept, 1 one was missed, 2 it could not run.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask hostile")]
struct Args {
    /// A class of attack, a trial, or `crowd` for 4,096 connections; once for each [default: all]
    #[arg(long, value_name = "NAME")]
    class: Vec<String>,
    /// Seconds of each measurement
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=3600))]
    seconds: u64,
    /// Number of times that the attackers go from one node to the other and back
    #[arg(long, default_value_t = 9, value_parser = clap::value_parser!(u32).range(1..=999))]
    alternations: u32,
    /// Number of rounds of each trial
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=9999))]
    rounds: u32,
    /// Hostile connections of the crowd
    #[arg(long, default_value_t = 4096, value_parser = clap::value_parser!(u32).range(1..=4096))]
    connections: u32,
    /// Threads of the node that serve connections
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=16))]
    cores: u16,
    /// One short alternation, few connections, and no judgement of latencies
    #[arg(long)]
    short: bool,
    /// The results as one JSON document on standard output
    #[arg(long)]
    json: bool,
    /// The program under test
    #[arg(long, value_name = "PUMICE", default_value = "target/release/pumice")]
    binary: PathBuf,
}

/// The arguments, in the form in which they are used.
pub(crate) struct Options {
    pub(crate) binary: PathBuf,
    pub(crate) seconds: Duration,
    pub(crate) alternations: u32,
    pub(crate) connections: usize,
    pub(crate) cores: u16,
    /// Number of rounds of each trial.
    pub(crate) rounds: u32,
}

/// Time for a part beyond its measurements and rounds.
const PART: Duration = Duration::from_secs(900);
/// Time for a round of a trial.
const ROUND: Duration = Duration::from_secs(60);

impl Options {
    /// Time after which a part is given up.
    fn limit(&self) -> Duration {
        PART + 4 * self.alternations * self.seconds + self.rounds * ROUND
    }

    fn of(args: &Args) -> Self {
        let seconds = Duration::from_secs(args.seconds);
        Self {
            binary: args.binary.clone(),
            seconds: if args.short { Duration::from_millis(700) } else { seconds },
            alternations: if args.short { 1 } else { args.alternations },
            connections: if args.short { 300 } else { args.connections as usize },
            cores: args.cores,
            rounds: if args.short { 1 } else { args.rounds },
        }
    }
}

/// The program.
#[must_use]
pub fn main() -> ExitCode {
    let args = Args::parse();
    match run(&args) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(Failed(what)) => {
            say(&what);
            ExitCode::from(2)
        }
    }
}

/// Ends this process if a part does not end, such as one with a node that stands still: each
/// message is the beginning of a part.
fn watch(limit: Duration) -> Sender<&'static str> {
    let (begin, parts) = channel();
    std::thread::spawn(move || {
        let mut part = parts.recv().ok();
        while let Some(name) = part {
            part = match parts.recv_timeout(limit) {
                Err(RecvTimeoutError::Timeout) => {
                    say(&format!("{name}: not done after {} s: given up", limit.as_secs()));
                    // The system kills the nodes.
                    std::process::exit(2);
                }
                next => next.ok(),
            };
        }
    });
    begin
}

/// Returns whether every bound was kept.
fn run(args: &Args) -> Result<bool, Failed> {
    let names = || {
        let trials = TRIALS.iter().map(|trial| trial.name);
        CLASSES.iter().map(|class| class.name).chain(trials).chain([CROWD])
    };
    if let Some(name) = args.class.iter().find(|name| names().all(|known| known != **name)) {
        let names: Vec<&str> = names().collect();
        return Err(Failed(format!("there is no class '{name}': {}", names.join(", "))));
    }
    let system = |error: std::io::Error| Failed(error.to_string());
    let descriptors = pumice_blockdev::raise_descriptor_limit().map_err(system)?;
    let options = Options::of(args);
    if descriptors < options.connections as u64 + 500 {
        let why = format!("{} connections, and {descriptors} open descriptors", options.connections);
        return Err(Failed(format!("{why}: see `ulimit -Hn`")));
    }
    let folder = tempfile::tempdir().map_err(system)?;
    let watch = watch(options.limit());
    let begin = |name: &'static str, what: &str| {
        say(&format!("{name}: {what}"));
        // It waits for the end of this process.
        let _ = watch.send(name);
    };
    let wanted = |name: &str| args.class.is_empty() || args.class.iter().any(|class| class == name);
    let mut rows: Vec<Row> = Vec::new();
    for class in CLASSES.iter().filter(|class| wanted(class.name)) {
        begin(class.name, class.what);
        rows.push(measure(class, &options, folder.path())?);
        report_faults(rows.last().expect("just made"), !args.short);
    }
    for trial in TRIALS.iter().filter(|trial| wanted(trial.name)) {
        begin(trial.name, trial.what);
        rows.push((trial.run)(&options, folder.path())?);
        report_faults(rows.last().expect("just made"), !args.short);
    }
    if wanted(CROWD) {
        begin(CROWD, &format!("{} connections", options.connections));
        rows.push(measure_crowd(&options, folder.path())?);
        report_faults(rows.last().expect("just made"), !args.short);
    }
    for (name, why) in rows.iter().filter_map(|row| Some((row.name, row.skipped.as_ref()?))) {
        say(&format!("{name}: NOT DONE: {why}"));
    }
    let kept = rows.iter().all(|row| row.faults(!args.short).is_empty());
    if args.json {
        let rows: Vec<_> = rows.iter().map(|row| row.to_json(!args.short)).collect();
        println!("{:#}", json!({ "classes": rows, "kept": kept, "latency_ratio_bound": RATIO }));
    } else {
        table(&rows, !args.short);
    }
    Ok(kept)
}

fn report_faults(row: &Row, full: bool) {
    for fault in row.faults(full) {
        say(&format!("{}: FAULT: {fault}", row.name));
    }
}

/// Remark behind the figures of a row.
fn verdict(row: &Row, full: bool) -> &'static str {
    match (row.faults(full).is_empty(), &row.skipped) {
        (false, _) => "  FAULT",
        (true, Some(_)) => "  NOT DONE",
        (true, None) => "",
    }
}

fn table(rows: &[Row], full: bool) {
    println!("class       verified  wrong  lost   p99 here  p99 there  ratio  resident    bound    end");
    for row in rows {
        let micros = |which: usize| {
            let times =
                row.pairs.iter().filter_map(|pair| Some(pair[which].times?.p99 as f64 / 1e3)).collect();
            if row.pairs.is_empty() { "-".to_owned() } else { format!("{:.0} us", measure::median(times)) }
        };
        println!(
            "{:<10} {:>9} {:>6} {:>5} {:>10} {:>10} {:>6} {:>5} MiB {:>4} MiB {:>6}{}",
            row.name,
            row.outcome.verified,
            row.outcome.wrong,
            row.outcome.lost,
            micros(0),
            micros(1),
            row.ratio().map_or("-".to_owned(), |ratio| format!("{ratio:.2}")),
            row.largest.map_or("?".to_owned(), |bytes| (bytes >> 20).to_string()),
            row.bound >> 20,
            row.ended.as_ref().map_or("never".to_owned(), |(time, _)| format!("{:.1} s", time.as_secs_f64())),
            verdict(row, full),
        );
    }
}
