//! Puts pairs of features in one room: `docs/design/pairs.md`.

mod acts;
mod call;
mod cell;
mod clock;
mod feature;
mod inside;
mod ledger;
mod load;
mod members;
mod process;
mod random;
mod reasons;
mod table;
mod world;

use cell::{Outcome, Setup, run};
use clap::Parser;
use feature::{Feature, Kind, Pair};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Ports of a cell.
const PORTS: u16 = 10;

/// Failure of a run.
#[derive(Debug)]
pub(crate) struct Failed(pub(crate) String);

/// Runs pairs of features on a volume of real processes, under a load that verifies.
#[derive(Debug, Clone, Parser)]
#[command(name = "cargo xtask pairs")]
struct Options {
    /// Only these two features, in both orders
    #[arg(long, value_name = "A,B", value_delimiter = ',', num_args = 1)]
    only: Vec<String>,
    /// Only cells of volumes, or of images
    #[arg(long, value_name = "volume|images")]
    kind: Option<String>,
    /// Only the pairs of the short form
    #[arg(long)]
    short: bool,
    /// Seconds for which the features of a cell go on [default: 20, or 4 with --short]
    #[arg(long)]
    seconds: Option<u64>,
    /// The seed of the load and of the damage
    #[arg(long, default_value_t = 1)]
    from_seed: u64,
    /// Cells side by side
    #[arg(long, default_value_t = 4)]
    jobs: usize,
    /// The first port
    #[arg(long, default_value_t = 45000)]
    ports: u16,
    /// The program under test
    #[arg(long, default_value = "target/release/pumice")]
    binary: PathBuf,
    /// Folder in which cells have their files, and failed ones leave their logs
    #[arg(long, default_value = "target/pairs")]
    folder: PathBuf,
    /// Write the table of the run here
    #[arg(long)]
    record: Option<PathBuf>,
    /// Keep the files of cells that pass, too
    #[arg(long)]
    keep: bool,
    /// Print the table of pairs that are covered
    #[arg(long)]
    table: bool,
}

/// The cells that were asked for.
fn chosen(options: &Options) -> Result<Vec<Pair>, Failed> {
    let feature = |name: &String| {
        Feature::of(name).ok_or_else(|| {
            let names: Vec<&str> = Feature::ALL.iter().map(|feature| feature.name()).collect();
            Failed(format!("--only: there is no feature '{name}': {}", names.join(", ")))
        })
    };
    let only = options.only.iter().map(feature).collect::<Result<Vec<_>, _>>()?;
    let kind = match options.kind.as_deref() {
        None => None,
        Some("volume") => Some(Kind::Volume),
        Some("images") => Some(Kind::Images),
        Some(other) => return Err(Failed(format!("--kind: '{other}' is not volume or images"))),
    };
    let mut pairs = if options.short { Pair::short() } else { Pair::all() };
    pairs.retain(|pair| only.iter().all(|feature| pair.has(*feature)));
    pairs.retain(|pair| kind.is_none_or(|kind| pair.kind == kind));
    if pairs.is_empty() {
        return Err(Failed("no cell has these features".to_owned()));
    }
    Ok(pairs)
}

/// Says what came of a cell.
fn report(outcome: &Outcome, setup: &Setup) {
    let seconds = outcome.took.as_secs_f64();
    let Outcome { pair, verified, written, told, .. } = outcome;
    let verdict = match (&outcome.skipped, outcome.troubles.is_empty()) {
        (Some(why), _) => format!("SKIPPED: {why}"),
        (None, true) => "ok".to_owned(),
        (None, false) => "FAILED".to_owned(),
    };
    eprintln!(
        "{:<36} {seconds:>5.1} s  {written:>6} written {verified:>6} read {told:>2} told  {verdict}",
        pair.name()
    );
    for trouble in &outcome.troubles {
        eprintln!("    {trouble}");
    }
    if !outcome.troubles.is_empty() {
        let (first, second) = (pair.first.name(), pair.second.name());
        eprintln!(
            "    again: cargo xtask pairs --kind {} --only {first},{second} --seconds {} --from-seed {}; logs: {}",
            pair.kind.name(),
            setup.seconds,
            setup.seed,
            setup.folder.join(pair.name().replace([':', ','], "-")).display()
        );
    }
    for note in outcome.notes.iter().filter(|_| setup.keep) {
        eprintln!("    note: {note}");
    }
}

/// Writes the table of the cells so far.
fn record(options: &Options, outcomes: &[Outcome], seconds: u64) {
    let Some(path) = &options.record else { return };
    if let Err(error) = std::fs::write(path, table::record(outcomes, seconds, options.from_seed)) {
        eprintln!("{}: {error}", path.display());
    }
}

fn all(options: &Options) -> Result<bool, Failed> {
    let pairs = chosen(options)?;
    let absolute = |path: &PathBuf| {
        std::path::absolute(path).map_err(|error| Failed(format!("{}: {error}", path.display())))
    };
    let (binary, folder) = (absolute(&options.binary)?, absolute(&options.folder)?);
    std::fs::create_dir_all(&folder).map_err(|error| Failed(format!("{}: {error}", folder.display())))?;
    let seconds = options.seconds.unwrap_or(if options.short { 4 } else { 20 });
    let (next, outcomes) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for job in 0..options.jobs.max(1) {
            let setup = Setup {
                binary: binary.clone(),
                folder: folder.clone(),
                seconds,
                seed: options.from_seed,
                ports: options.ports + job as u16 * PORTS,
                keep: options.keep,
            };
            let (next, outcomes, pairs) = (&next, &outcomes, &pairs);
            scope.spawn(move || {
                while let Some(pair) = pairs.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let outcome = run(&setup, *pair);
                    report(&outcome, &setup);
                    let mut outcomes = world::held(outcomes);
                    outcomes.push(outcome);
                    // After each cell: a run of all pairs takes hours, and may be cut short.
                    record(options, &outcomes, seconds);
                }
            });
        }
    });
    let mut outcomes = outcomes.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    outcomes.sort_by_key(|outcome| outcome.pair);
    let text = table::record(&outcomes, seconds, options.from_seed);
    println!("{text}");
    let skipped = outcomes.iter().any(|outcome| outcome.skipped.is_some());
    if skipped && std::env::var_os("CI").is_some() {
        return Err(Failed("cells were skipped".to_owned()));
    }
    Ok(outcomes.iter().all(|outcome| outcome.troubles.is_empty()))
}

/// The program.
#[must_use]
pub fn main() -> ExitCode {
    let options = Options::parse();
    if options.table {
        print!("{}", table::covered());
        return ExitCode::SUCCESS;
    }
    inside::enter();
    match all(&options) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(Failed(why)) => {
            eprintln!("pairs: {why}");
            ExitCode::from(2)
        }
    }
}
