//! The same trace on equal drives that differ in the scheme.

use super::trace::{ContentOp, ContentTrace};
use crate::error::StudyError;
use pumice_flash::{Geometry, MemoryNand, Nanos, Timing};
use pumice_ftl::{Config, ContentId, Ftl, FtlError, HashTimes, NoJournal, Scheme, Tag, VictimPolicy};
use serde::Serialize;
use std::path::PathBuf;

const PAGES_PER_BLOCK: u32 = 64;
const PAGE_BYTES: u32 = 4_096;
const MICROSECOND: u64 = 1_000;

/// What to study.
#[derive(Debug, Clone)]
pub struct Study {
    /// The trace.
    pub trace: PathBuf,
    /// Which schemes.
    pub schemes: Vec<Scheme>,
    /// Over-provisioning: physical pages beyond the logical ones, as a share of them.
    pub op: f64,
    /// Whether the trims of the trace are played.
    pub trim: bool,
    /// The drive may use every so manieth idle time.
    pub gap_every: u32,
    /// Which block garbage collection takes.
    pub victim: VictimPolicy,
    /// Logical pages; without, as many as the trace has.
    pub drive_pages: Option<u32>,
    /// Hash times, and a second set to compare with.
    pub hash: [HashTimes; 2],
}

/// What a figure depends on.
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
    /// Whether trims are played.
    pub trim: bool,
    /// Which idle times are used.
    pub gap_every: u32,
    /// The victim policy.
    pub victim: String,
    /// Free blocks that garbage collection keeps beside its own.
    pub reserve_blocks: u32,
    /// Times of read, program and erase, in microseconds.
    pub flash_us: [u64; 3],
    /// Times of the weak and the strong hash, in microseconds: those of the published scheme, and this machine's.
    pub hash_us: [[f64; 2]; 2],
    /// How the streams and latencies are to be understood.
    pub notes: &'static str,
}

/// A scheme's result.
#[derive(Debug, Clone, Serialize)]
pub struct Row {
    /// Its name.
    pub scheme: &'static str,
    /// Pages that garbage collection moved.
    pub page_copies: u64,
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
    /// What the figures depend on.
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
/// If the trace cannot be read, or the drive is too small for it.
pub fn study(study: &Study) -> Result<Report, StudyError> {
    let trace = ContentTrace::open(&study.trace)?;
    let logical = study.drive_pages.unwrap_or(trace.pages);
    if logical < trace.pages {
        let (have, need) = (logical, trace.pages);
        return Err(StudyError::Drive(format!("{have} pages are too few: the trace uses {need}")));
    }
    let mut rows = Vec::new();
    for &scheme in &study.schemes {
        let row = play(study, &trace, scheme, logical);
        rows.push(row.map_err(|error| StudyError::Drive(error.to_string()))?);
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
    Ok(Report { trace: study.trace.display().to_string(), writes, schemes: rows })
}

fn play(study: &Study, trace: &ContentTrace, scheme: Scheme, logical: u32) -> Result<Row, FtlError> {
    let physical = (f64::from(logical) * (1.0 + study.op)).ceil() as u32;
    let blocks = physical.div_ceil(PAGES_PER_BLOCK);
    let geometry = Geometry {
        blocks,
        pages_per_block: PAGES_PER_BLOCK,
        channels: 8,
        page_bytes: PAGE_BYTES,
        oob_bytes: 128,
    };
    let timing = Timing::DISKSIM;
    let config =
        Config { victim: study.victim, hash: study.hash[0], reserve: 1, ..Config::new(logical, scheme) };
    let nand = MemoryNand::<ContentId, Tag>::new(geometry, timing);
    let mut drive = Ftl::format(nand, NoJournal, config)?;
    let (mut now, mut gaps, mut times) = (0, 0, Vec::new());
    for op in &trace.ops {
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
    let stats = drive.stats();
    let mean = times.iter().map(|&t| f64::from(t)).sum::<f64>() / times.len().max(1) as f64;
    let at = (times.len() * 99 / 100).min(times.len().saturating_sub(1));
    let p99 = if times.is_empty() { 0 } else { *times.select_nth_unstable(at).1 };
    let plan = scheme.plan();
    // The hashes of a write are made one after the other before it is programmed.
    let cost = |hash: HashTimes| {
        let weak = if plan.uses_weak() { hash.weak } else { 0 };
        (weak + if plan.inline { hash.strong } else { 0 }) as f64
    };
    let us = |hash: HashTimes| [hash.weak as f64 / 1e3, hash.strong as f64 / 1e3];
    Ok(Row {
        scheme: scheme.name(),
        page_copies: stats.copies,
        vs_none: None,
        vs_offline: None,
        waf: stats.write_amplification(),
        mean_write_us: mean / 1e3,
        p99_write_us: f64::from(p99) / 1e3,
        mean_write_here_us: (mean - cost(study.hash[0]) + cost(study.hash[1])) / 1e3,
        erases: stats.erases,
        index_bytes: stats.scheme_bytes,
        false_nd: if plan.uses_weak() { stats.false_undetermined } else { 0 },
        settings: Settings {
            logical_pages: logical,
            blocks,
            pages_per_block: PAGES_PER_BLOCK,
            op: study.op,
            trim: study.trim,
            gap_every: study.gap_every,
            victim: format!("{:?}", study.victim),
            reserve_blocks: config.reserve,
            flash_us: [timing.read, timing.program, timing.erase].map(|t| t / MICROSECOND),
            hash_us: study.hash.map(us),
            notes: "writes one at a time; 8 channels; pages of a block go round the channels; open blocks and \
                    reserve are part of the over-provisioning; places are those of the trace",
        },
    })
}
