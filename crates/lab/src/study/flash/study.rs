//! The same trace on equal drives that differ in the scheme.

use super::load::Load;
use super::trace::{ContentOp, ContentTrace};
use super::victim::VictimPolicy;
use crate::study::error::StudyError;
use crate::study::trace::TraceError;
use pumice_base::units::format_binary;
use pumice_flash::chip::{Geometry, MemoryNand, Nanos, Timing};
use pumice_flash::ftl::{Config, ContentId, Ftl, FtlError, HashTimes, NoJournal, Placement, Scheme, Tag};
use serde::Serialize;
use std::path::PathBuf;

const PAGES_PER_BLOCK: u32 = 64;
const PAGE_BYTES: u32 = 4_096;
const MICROSECOND: u64 = 1_000;
/// Operations of the trace whose table entries are prefetched together.
const AHEAD: usize = 16;

/// Source of the requests that are replayed.
#[derive(Debug, Clone)]
pub enum Source {
    /// A trace in a file.
    File(PathBuf),
    /// A generated trace, from a seed.
    Load(Load, u64),
}

/// A model of a drive that collects its own garbage and takes streams as placement handles.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fdp {
    /// Pages of a reclaim unit.
    pub unit_pages: u32,
    /// True if the drive keeps pages of different handles apart when it moves them.
    pub isolated: bool,
}

/// Settings of a study.
#[derive(Debug, Clone)]
pub struct Study {
    /// The requests to replay.
    pub source: Source,
    /// The schemes to compare.
    pub schemes: Vec<Scheme>,
    /// Over-provisioning: physical pages beyond the logical ones, as a share of them.
    pub op: f64,
    /// True if the trims of the trace are played.
    pub trim: bool,
    /// The drive may use every so manieth idle time.
    pub gap_every: u32,
    /// The rule by which garbage collection picks a block.
    pub victim: VictimPolicy,
    /// Logical pages; without, as many as the trace has.
    pub drive_pages: Option<u32>,
    /// The most memory that the model of the drive may take, in bytes.
    pub memory: u64,
    /// Bytes of memory that the machine has available; `None` if that is not known.
    pub available: Option<u64>,
    /// Free blocks that are kept beside those that garbage collection needs.
    pub reserve: u32,
    /// Pages of open blocks wait for the next idle time.
    pub open_blocks_wait: bool,
    /// A drive that collects its own garbage, instead of one whose flash the schemes manage.
    pub fdp: Option<Fdp>,
    /// Runs of each scheme that differ in what decides between equal victims; the one with the
    /// median of copies is reported. 1: the longest at its count.
    pub seeds: u32,
    /// Hash times, and a second set to compare with.
    pub hash: [HashTimes; 2],
}

/// Settings on which a figure depends.
#[derive(Debug, Clone, Serialize)]
pub struct Settings {
    /// Logical pages.
    pub logical_pages: u32,
    /// Blocks.
    pub blocks: u32,
    /// Pages in a block.
    pub pages_per_block: u32,
    /// Over-provisioning as a share of the logical pages.
    pub op: f64,
    /// True if trims are played.
    pub trim: bool,
    /// Share of idle times that are used: one in so many.
    pub gap_every: u32,
    /// The victim policy.
    pub victim: String,
    /// Runs that differ in the choice between equal victims; the one with the median of copies is
    /// reported.
    pub runs: u32,
    /// True if pages of open blocks wait for the next idle time.
    pub open_blocks_wait: bool,
    /// The layer that places and moves pages.
    pub placement: String,
    /// Free blocks that garbage collection keeps beside its own.
    pub reserve_blocks: u32,
    /// Times of read, program and erase, in microseconds.
    pub flash_us: [u64; 3],
    /// Times of the weak and the strong hash, in microseconds: those of the published scheme, and
    /// this machine's.
    pub hash_us: [[f64; 2]; 2],
    /// Remarks on the streams and the latencies.
    pub notes: &'static str,
}

/// A scheme's result.
#[derive(Debug, Clone, Serialize)]
pub struct Row {
    /// Its name.
    pub scheme: &'static str,
    /// Pages that garbage collection moved.
    pub page_copies: u64,
    /// The fewest and the most of all runs.
    pub page_copies_range: [u64; 2],
    /// Relative to no deduplication, -1 to above; null if that was not studied or moved nothing.
    pub vs_none: Option<f64>,
    /// Relative to plain offline deduplication.
    pub vs_offline: Option<f64>,
    /// Programs for each page written.
    pub waf: f64,
    /// Mean time of a write, in microseconds, one at a time, with the published hash times.
    pub mean_write_us: f64,
    /// The time that 99 % of the writes keep to.
    pub p99_write_us: f64,
    /// The mean with this machine's hash times.
    pub mean_write_here_us: f64,
    /// Blocks that were erased.
    pub erases: u64,
    /// The most memory that the scheme needed beside the map, in bytes.
    pub index_bytes: u64,
    /// Pages sent to be looked up that were unique.
    pub false_nd: u64,
    /// The settings of the figures.
    pub settings: Settings,
}

/// The result of a study.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// The trace.
    pub trace: String,
    /// Pages that the trace writes.
    pub writes: u64,
    /// A row for each scheme.
    pub schemes: Vec<Row>,
}

/// Makes a study.
///
/// # Errors
/// If the trace cannot be read, the drive is too small for it, or its model would be too large.
pub fn study(study: &Study) -> Result<Report, StudyError> {
    let trace = match &study.source {
        Source::File(path) => ContentTrace::open(path)?,
        Source::Load(load, seed) => load.trace(*seed),
    };
    let logical = study.drive_pages.unwrap_or(trace.pages);
    if logical < trace.pages {
        let (have, need) = (logical, trace.pages);
        return Err(StudyError::Drive(format!("{have} pages are too few: the trace uses {need}")));
    }
    let geometry = shape(study, &trace, logical)?;
    let mut rows = Vec::new();
    for &scheme in &study.schemes {
        let runs = (0..study.seeds.max(1)).map(|seed| play(study, &trace, scheme, (logical, geometry), seed));
        let mut runs: Vec<Row> = runs
            .collect::<Result<_, _>>()
            .map_err(|error| StudyError::Drive(format!("{scheme}: {error}")))?;
        runs.sort_by_key(|row| row.page_copies);
        let (least, most) = (runs[0].page_copies, runs[runs.len() - 1].page_copies);
        let middle = runs.swap_remove(runs.len() / 2);
        rows.push(Row { page_copies_range: [least, most], ..middle });
    }
    let copies_of = |name| rows.iter().find(|row: &&Row| row.scheme == name).map(|row| row.page_copies);
    let (none, offline) = (copies_of("none"), copies_of("offline"));
    let versus = |copies: u64, base: Option<u64>| {
        base.filter(|base| *base > 0).map(|base| copies as f64 / base as f64 - 1.0)
    };
    for row in &mut rows {
        row.vs_none = versus(row.page_copies, none);
        row.vs_offline = versus(row.page_copies, offline);
    }
    let writes = trace.ops.iter().filter(|op| matches!(op, ContentOp::Write(..))).count() as u64;
    let name = match &study.source {
        Source::File(path) => path.display().to_string(),
        Source::Load(load, seed) => format!("{load}, seed {seed}"),
    };
    Ok(Report { trace: name, writes, schemes: rows })
}

/// The victim policy of a run: equal victims are chosen by chance if there are several runs.
fn victim_of(study: &Study) -> VictimPolicy {
    match study.victim {
        VictimPolicy::Greedy if study.seeds > 1 => VictimPolicy::GreedyRandom,
        other => other,
    }
}

fn physical(study: &Study, logical: u32) -> u64 {
    (f64::from(logical) * (1.0 + study.op)).ceil() as u64
}

/// The shape of the drive, if it can be studied: what is too large is refused by what makes it so,
/// the size that was asked for or a line of the trace.
fn shape(study: &Study, trace: &ContentTrace, logical: u32) -> Result<Geometry, StudyError> {
    let pages_per_block = study.fdp.map_or(PAGES_PER_BLOCK, |fdp| fdp.unit_pages);
    // A u32: at most five times the logical pages, in blocks of at least eight.
    let blocks = physical(study, logical).div_ceil(u64::from(pages_per_block)) as u32;
    let geometry = Geometry { blocks, pages_per_block, channels: 8, page_bytes: PAGE_BYTES, oob_bytes: 128 };
    let pages = u64::from(blocks) * u64::from(pages_per_block);
    let tables = study.schemes.iter().map(|scheme| scheme.memory_bytes(logical.into(), pages)).max();
    let memory = MemoryNand::<ContentId, Tag>::memory_bytes(geometry) + tables.unwrap_or(0);
    let op = (study.op * 1e4).round() / 100.0;
    let with_op = format!("{logical} logical pages with --op {op}%");
    let why = if pages >= 1 << 31 {
        format!("{with_op} are {pages} pages of flash, and at most 2^31 - 1 can be modelled")
    } else if memory > study.memory {
        let (needed, allowed) = (format_binary(memory), format_binary(study.memory));
        format!("{with_op} need {needed} of memory, and --memory allows {allowed}")
    } else if let Some(available) = study.available.filter(|available| memory > *available) {
        let (needed, available) = (format_binary(memory), format_binary(available));
        format!("{with_op} need {needed} of memory, and this machine has {available} available")
    } else {
        return Ok(geometry);
    };
    match (&study.source, study.drive_pages) {
        (_, Some(_)) => Err(StudyError::Drive(format!("--drive-pages: {why}"))),
        (Source::Load(..), None) => Err(StudyError::Drive(why)),
        (Source::File(path), None) => {
            let ((line, field), path) = (trace.highest, path.display().to_string());
            let what = format!("page {} is the highest: {why}", trace.pages - 1);
            Err(TraceError::Field { path, line, field, what }.into())
        }
    }
}

/// The modelled drive: contents are numbers, and nothing is recovered.
type Drive = Ftl<MemoryNand<ContentId, Tag>, NoJournal, ContentId>;

/// Times of flash operations.
const TIMING: Timing = Timing::DISKSIM;

/// Plays the trace on a new drive with a scheme.
fn play(
    study: &Study,
    trace: &ContentTrace,
    scheme: Scheme,
    (logical, geometry): (u32, Geometry),
    seed: u32,
) -> Result<Row, FtlError> {
    let Geometry { blocks, pages_per_block, .. } = geometry;
    let config = config(study, scheme, logical);
    let nand = MemoryNand::<ContentId, Tag>::new(geometry, TIMING);
    let victim = victim_of(study).build(blocks, pages_per_block, u64::from(seed) + 1);
    let mut drive = Ftl::format_choosing(nand, NoJournal, config, victim)?;
    let mut times = replay(&mut drive, study, trace, logical)?;
    let stats = drive.stats();
    let (mean, p99) = mean_and_p99(&mut times);
    let plan = scheme.plan();
    // The hashes of a write are made one after the other before it is programmed.
    let cost = |hash: HashTimes| {
        let weak = if plan.uses_weak() { hash.weak } else { 0 };
        (weak + if plan.inline { hash.strong } else { 0 }) as f64
    };
    Ok(Row {
        scheme: scheme.name(),
        page_copies: stats.copies,
        page_copies_range: [stats.copies; 2],
        vs_none: None,
        vs_offline: None,
        waf: stats.write_amplification(),
        mean_write_us: mean / 1e3,
        p99_write_us: f64::from(p99) / 1e3,
        mean_write_here_us: (mean - cost(study.hash[0]) + cost(study.hash[1])) / 1e3,
        erases: stats.erases,
        index_bytes: stats.scheme_bytes,
        false_nd: if plan.uses_weak() { stats.false_undetermined } else { 0 },
        settings: settings(study, logical, geometry),
    })
}

fn config(study: &Study, scheme: Scheme, logical: u32) -> Config {
    let placement = match study.fdp {
        None => Placement::Own,
        Some(fdp) => Placement::Handles { isolated: fdp.isolated },
    };
    Config {
        hash: study.hash[0],
        open_blocks_wait: study.open_blocks_wait,
        placement,
        reserve: study.reserve,
        ..Config::new(logical, scheme)
    }
}

/// Carries out the operations of the trace, one at a time. Returns the time of each write in
/// nanoseconds.
fn replay(
    drive: &mut Drive,
    study: &Study,
    trace: &ContentTrace,
    logical: u32,
) -> Result<Vec<u32>, FtlError> {
    let (mut now, mut gaps, mut times) = (0, 0, Vec::new());
    for (at, op) in trace.ops.iter().enumerate() {
        if at % AHEAD == 0 {
            let next = trace.ops[at..].iter().take(AHEAD);
            drive.prefetch(next.filter_map(|op| match *op {
                ContentOp::Write(lpn, content) => Some((lpn, content)),
                _ => None,
            }));
        }
        match *op {
            ContentOp::Write(lpn, content) => {
                let done = drive.write(lpn, &content, now)?;
                times.push((done - now).min(u64::from(u32::MAX)) as u32);
                now = done;
            }
            ContentOp::Trim(lpn) if study.trim && lpn < logical => drive.trim(lpn, 1)?,
            ContentOp::Trim(_) => {}
            ContentOp::Idle(us) => {
                gaps += 1;
                let gap: Nanos = us * MICROSECOND;
                if gaps % study.gap_every == 0 {
                    drive.idle(now, gap)?;
                }
                now += gap;
            }
        }
    }
    Ok(times)
}

/// The mean of times and their 99th percentile; zeros of none.
fn mean_and_p99(times: &mut [u32]) -> (f64, u32) {
    let mean = times.iter().map(|&t| f64::from(t)).sum::<f64>() / times.len().max(1) as f64;
    let at = (times.len() * 99 / 100).min(times.len().saturating_sub(1));
    let p99 = if times.is_empty() { 0 } else { *times.select_nth_unstable(at).1 };
    (mean, p99)
}

fn settings(study: &Study, logical: u32, geometry: Geometry) -> Settings {
    let us = |hash: HashTimes| [hash.weak as f64 / 1e3, hash.strong as f64 / 1e3];
    Settings {
        logical_pages: logical,
        blocks: geometry.blocks,
        pages_per_block: geometry.pages_per_block,
        op: study.op,
        trim: study.trim,
        gap_every: study.gap_every,
        victim: victim_of(study).to_string(),
        runs: study.seeds.max(1),
        open_blocks_wait: study.open_blocks_wait,
        placement: study.fdp.map_or_else(
            || "own".to_owned(),
            |fdp| {
                let isolation = if fdp.isolated { "persistently" } else { "initially" };
                let share = 100.0 * f64::from(fdp.unit_pages) / physical(study, logical) as f64;
                format!(
                    "fdp: units of {} pages ({share:.2} % of the drive), {isolation} isolated; the drive moves \
                     pages, so that no scheme sees them",
                    fdp.unit_pages
                )
            },
        ),
        reserve_blocks: study.reserve,
        flash_us: [TIMING.read, TIMING.program, TIMING.erase].map(|t| t / MICROSECOND),
        hash_us: study.hash.map(us),
        notes: "writes one at a time; 8 channels; pages of a block go round the channels; open blocks and \
                reserve are part of the over-provisioning; places are those of the trace",
    }
}
