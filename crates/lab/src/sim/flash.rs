//! `pumice-lab sim flash`: schemes of deduplication side by side on a trace of contents.

use super::shared::{ShowArgs, file_name};
use clap::Args;
use pumice::text::table;
use pumice_base::units::parse_size;
use pumice_blockdev::memory_available;
use pumice_flash::ftl::{Content, Fingerprint, HashTimes, Scheme};
use pumice_lab::study::flash::{Fdp, Load, Report, Row, Settings, Source, Study, VictimPolicy, study};
use pumice_lab::study::plot::{Column, Marks, Panel, Rows, grouped};
use pumice_service::failure::Failure;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

/// The published times of CRC-32 and SHA-1, in nanoseconds.
const PUBLISHED: HashTimes = HashTimes { weak: 6_000, strong: 75_000 };
/// Pages of a reclaim unit, unless they are given.
const UNIT_PAGES: u32 = 256;
/// Pages that are hashed to time this machine.
const TIMED: u32 = 256;

/// Heading of the two options of which one is needed.
const INPUT: &str = "Input (one of them)";

/// Compares schemes of deduplication.
#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("input").args(["trace", "load"]).required(true))]
pub(crate) struct FlashArgs {
    /// A trace with contents: CSV with crc32 and sha1_64, or FIU with md5; plain, gzip or zstd
    #[arg(long, help_heading = INPUT)]
    trace: Option<PathBuf>,
    /// A generated trace instead: builds, mail, releases or images, with a seed: mail:7
    #[arg(long, value_parser = parse_load, help_heading = INPUT)]
    load: Option<(Load, u64)>,
    /// Schemes, comma-separated, or all of them
    #[arg(long, default_value = "all")]
    scheme: String,
    /// Over-provisioning
    #[arg(long, default_value = "7%", value_parser = parse_share)]
    op: f64,
    /// Play the trims of the trace
    #[arg(long)]
    trim: bool,
    /// Deduplicate in every N-th idle time
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    gap_every: u32,
    /// Rule by which garbage collection picks a block: greedy, greedy-random, fifo, cost-benefit,
    /// d-choices:N
    #[arg(long, default_value = "greedy")]
    victim: VictimPolicy,
    /// Logical pages of the drive; without it, the highest page of the trace plus 1
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..1 << 30))]
    drive_pages: Option<u32>,
    /// The most memory that the model of the drive may take, trace and shared pages not counted
    #[arg(long, default_value = "8GiB", value_parser = parse_size)]
    memory: u64,
    /// Runs of each scheme, which differ in the choice between equal victims; the run with the
    /// median number of copies is shown
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=101))]
    seeds: u32,
    /// Free blocks that are kept beside those that garbage collection needs
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1 << 20))]
    reserve: u32,
    /// Treatment of pages of open blocks in idle time: examined, or left until their block is
    /// closed
    #[arg(long, value_enum, default_value_t = OpenBlocks::Examine)]
    open_blocks: OpenBlocks,
    /// Layer that moves pages: the translation layer of the study, or a model of a drive that takes
    /// streams as placement handles
    #[arg(long, value_enum, default_value_t = PlacementArg::Own)]
    placement: PlacementArg,
    /// With --placement fdp: pages of a reclaim unit [default: 256]
    #[arg(long, value_parser = clap::value_parser!(u32).range(8..=1 << 20))]
    unit_pages: Option<u32>,
    /// With --placement fdp: whether the drive keeps handles apart when it moves pages [default:
    /// initial]
    #[arg(long, value_enum)]
    isolation: Option<Isolation>,
    #[command(flatten)]
    show: ShowArgs,
}

/// Treatment of pages of open blocks in idle time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum OpenBlocks {
    /// They are examined.
    Examine,
    /// They wait until their block is closed.
    Wait,
}

/// The layer that moves pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum PlacementArg {
    /// The translation layer.
    Own,
    /// The drive below.
    Fdp,
}

/// Pages that a drive mixes when it moves them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Isolation {
    /// Pages of all handles.
    Initial,
    /// Never pages of different handles.
    Persistent,
}

fn parse_load(text: &str) -> Result<(Load, u64), String> {
    let (name, seed) = text.split_once(':').unwrap_or((text, "1"));
    let seed = seed.parse().map_err(|_| format!("'{seed}' is not a seed: a whole number is needed"))?;
    Ok((name.parse()?, seed))
}

fn parse_share(text: &str) -> Result<f64, String> {
    let wrong = || format!("'{text}' is not a share: write one like 7%, from 0% to 400%");
    let share = text.strip_suffix('%').ok_or_else(wrong)?.parse::<f64>().map_err(|_| wrong())? / 100.0;
    if (0.0..=4.0).contains(&share) { Ok(share) } else { Err(wrong()) }
}

/// Time that this machine takes to hash a page.
fn measured() -> HashTimes {
    let page = vec![0x5a_u8; 4_096];
    let time = |hash: &dyn Fn() -> u64| {
        let start = Instant::now();
        let sum = (0..TIMED).fold(0, |sum: u64, _| sum ^ std::hint::black_box(hash()));
        std::hint::black_box(sum);
        start.elapsed().as_nanos() as u64 / u64::from(TIMED)
    };
    HashTimes { weak: time(&|| u64::from(page.weak())), strong: time(&|| page.key(Fingerprint::Sha1)) }
}

/// Runs the command.
pub(crate) fn run(args: &FlashArgs) -> Result<ExitCode, Failure> {
    let schemes = match args.scheme.as_str() {
        "all" => Scheme::ALL.to_vec(),
        names => {
            let named = names.split(',').map(|name| name.trim().parse::<Scheme>());
            named.collect::<Result<_, _>>().map_err(|error| Failure::new(format!("--scheme: {error}")))?
        }
    };
    let source = match (&args.trace, args.load) {
        (Some(path), _) => Source::File(path.clone()),
        (None, Some((load, seed))) => Source::Load(load, seed),
        (None, None) => return Err(Failure::new("--trace or --load is needed".to_owned())),
    };
    let fdp = Fdp {
        unit_pages: args.unit_pages.unwrap_or(UNIT_PAGES),
        isolated: args.isolation == Some(Isolation::Persistent),
    };
    if args.placement != PlacementArg::Fdp {
        for (option, is_given) in
            [("--unit-pages", args.unit_pages.is_some()), ("--isolation", args.isolation.is_some())]
        {
            if is_given {
                return Err(Failure::new(format!("{option}: it needs --placement fdp")));
            }
        }
    }
    let report = study(&Study {
        source,
        schemes,
        op: args.op,
        trim: args.trim,
        gap_every: args.gap_every,
        victim: args.victim,
        drive_pages: args.drive_pages,
        memory: args.memory,
        available: memory_available(),
        seeds: args.seeds,
        reserve: args.reserve,
        open_blocks_wait: args.open_blocks == OpenBlocks::Wait,
        fdp: (args.placement == PlacementArg::Fdp).then_some(fdp),
        hash: [PUBLISHED, measured()],
    })?;
    args.show.show(&report, |report| figure(report).svg(), human)
}

fn figure(report: &Report) -> Rows {
    let rows = &report.schemes;
    let marks = |name: &str, value: fn(&Row) -> f64| Marks {
        name: name.to_owned(),
        values: rows.iter().map(value).collect(),
    };
    let column = |head: &str, cell: &dyn Fn(&Row) -> String| Column {
        head: head.to_owned(),
        cells: rows.iter().map(cell).collect(),
    };
    let several = rows.iter().any(|row| row.settings.runs > 1);
    let copies = Panel {
        label: "pages moved by garbage collection".to_owned(),
        marks: vec![marks("", |row| row.page_copies as f64)],
        ranges: rows
            .iter()
            .map(|row| (row.page_copies_range[0] as f64, row.page_copies_range[1] as f64))
            .collect(),
        columns: vec![
            column(if several { "median" } else { "pages" }, &|row| grouped(row.page_copies)),
            column("vs offline", &|row| versus_offline(row)),
        ],
    };
    let times = Panel {
        label: "mean time of a write (us)".to_owned(),
        marks: vec![
            marks("published times of hashes", |row| row.mean_write_us),
            marks("this machine's", |row| row.mean_write_here_us),
        ],
        ranges: Vec::new(),
        columns: vec![
            column("published", &|row| format!("{:.1}", row.mean_write_us)),
            column("here", &|row| format!("{:.1}", row.mean_write_here_us)),
        ],
    };
    Rows {
        title: format!("{}: {} page writes", file_name(&report.trace), grouped(report.writes)),
        names: rows.iter().map(|row| row.scheme.to_owned()).collect(),
        panels: vec![copies, times],
        caption: rows.first().map_or_else(String::new, |row| depends_on(&row.settings)),
    }
}

/// The copies beside those of plain offline deduplication; where that is many times as much, as a
/// multiple.
fn versus_offline(row: &Row) -> String {
    match row.vs_offline {
        None => "\u{2013}".to_owned(),
        Some(_) if row.scheme == "offline" => "\u{2013}".to_owned(),
        Some(share) if share >= 9.0 => format!("{:.0} times", share + 1.0),
        Some(share) => format!("{:+.1} %", share * 100.0).replace('-', "\u{2212}"),
    }
}

/// "every idle time", "every 4th idle time".
fn every(number: u32) -> String {
    let ending = match (number % 10, number % 100) {
        (_, 11..=13) => "th",
        (1, _) => "st",
        (2, _) => "nd",
        (3, _) => "rd",
        _ => "th",
    };
    if number == 1 { "every idle time".to_owned() } else { format!("every {number}{ending} idle time") }
}

/// Text of the settings on which the figures of a study depend.
fn depends_on(s: &Settings) -> String {
    let plural = |count: u32, what: &str| {
        format!("{} {what}{}", grouped(count.into()), if count == 1 { "" } else { "s" })
    };
    let hashes = |of: [f64; 2]| format!("{} and {} us", of[0], of[1]);
    format!(
        "{} logical pages, {} of {} pages, over-provisioning {} %, {}, deduplication in {}, victims {}, {}, reserve \
         of {}; pages of open blocks {}. Placement {}. Flash: read {} us, program {} us, erase {} us; hashes, weak and \
         strong: {} (published), {} (this machine).",
        grouped(s.logical_pages.into()),
        plural(s.blocks, "block"),
        s.pages_per_block,
        (s.op * 1e4).round() / 100.0,
        if s.trim { "trims played" } else { "no trims" },
        every(s.gap_every),
        s.victim,
        if s.runs == 1 { "one run".to_owned() } else { format!("median of {} runs", s.runs) },
        plural(s.reserve_blocks, "block"),
        if s.open_blocks_wait { "wait" } else { "are looked at" },
        s.placement,
        s.flash_us[0],
        s.flash_us[1],
        grouped(s.flash_us[2]),
        hashes(s.hash_us[0]),
        hashes(s.hash_us[1]),
    )
}

fn human(report: &Report) -> String {
    let mut out = format!("{}: {} page writes\n\n", report.trace, report.writes);
    let heads = [
        "scheme",
        "copies",
        "vs none",
        "vs offline",
        "WAF",
        "mean us",
        "p99 us",
        "mean us here",
        "erases",
        "MiB",
        "false ND",
    ];
    let mut rows = vec![heads.map(str::to_owned).to_vec()];
    let share = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |v| format!("{:+.1} %", v * 100.0));
    for row in &report.schemes {
        rows.push(vec![
            row.scheme.to_owned(),
            row.page_copies.to_string(),
            share(row.vs_none),
            share(row.vs_offline),
            format!("{:.3}", row.waf),
            format!("{:.1}", row.mean_write_us),
            format!("{:.1}", row.p99_write_us),
            format!("{:.1}", row.mean_write_here_us),
            row.erases.to_string(),
            format!("{:.1}", row.index_bytes as f64 / f64::from(1 << 20)),
            row.false_nd.to_string(),
        ]);
    }
    out.push_str(&table(&rows));
    if let Some(row) = report.schemes.first() {
        let s = &row.settings;
        out.push_str(&format!("\n{}\n{}.\n", depends_on(s), s.notes));
    }
    out
}
