//! `pumice flash`: flash drives in files or on devices that no node serves.

use crate::leaving;
use crate::text::{count, print, print_json};
use clap::{Args, Subcommand};
use pumice_base::units::format_binary;
use pumice_flash::device::{
    Examined, FlashError, FlashSpec, PAGE_BYTES, Superblock, bare, check_place, examine, format, format_op,
    plan, repair,
};
use pumice_flash::ftl::FtlError;
use pumice_service::failure::Failure;
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// The exit code if something is wrong with the drive, or was until this check repaired it.
const FINDINGS: u8 = 1;
/// Most damaged pages, and most losses, that are listed.
const NAMED: usize = 100;
/// The streams by their numbers.
const STREAMS: [&str; 8] = [
    "unique",
    "undetermined",
    "short-lived",
    "long-lived",
    "collected",
    "collected, older",
    "collected, oldest",
    "unused",
];

#[derive(Debug, Subcommand)]
pub(crate) enum FlashCommand {
    /// Create a flash drive in a file or on a device
    ///
    /// `pumice node --drive flash:PATH,capacity=SIZE` also creates one, if the file does not exist.
    Format(FormatArgs),
    /// Show the state of a drive; nothing is written
    Status(StatusArgs),
    /// Read every page of a drive, and report damage; nothing is written without --repair
    #[command(after_help = "Exit codes: 0 sound, 1 something is damaged, repaired or not, 2 could not run.")]
    Check(CheckArgs),
}

#[derive(Debug, Args)]
pub(crate) struct FormatArgs {
    /// `PATH,capacity=SIZE[,op=PERCENT%][,dedup=SCHEME]`; a block device may go without a
    /// capacity. The defaults are 7% and `none`
    #[arg(value_name = "DRIVE")]
    drive: FlashSpec,
    /// Overwrite the file or device, whatever it holds
    #[arg(long)]
    overwrite: bool,
    /// Only show what would be created; fails as the command itself would, if the place is not
    /// empty, in use or too small
    #[arg(long)]
    dry_run: bool,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct StatusArgs {
    /// The file or device
    #[arg(value_name = "PATH", value_parser = path)]
    path: PathBuf,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct CheckArgs {
    /// The file or device
    #[arg(value_name = "PATH", value_parser = path)]
    path: PathBuf,
    /// Write damaged superblocks again
    #[arg(long)]
    repair: bool,
    /// With --repair: give up durable pages whose tags or contents are lost. Where a tag is lost,
    /// an older version of its logical page becomes current, and nothing shows which page that is;
    /// where contents are lost, reads of the page fail until it is written again
    #[arg(long, requires = "repair")]
    accept_lost_tags: bool,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

fn path(text: &str) -> Result<PathBuf, std::convert::Infallible> {
    Ok(bare(text).into())
}

/// Fixed properties of a drive.
#[derive(Debug, Serialize)]
struct Shape {
    path: String,
    capacity_bytes: u64,
    file_bytes: u64,
    op_percent: f64,
    blocks: u32,
    pages_per_block: u32,
    dedup: &'static str,
    /// Memory that a node needs to serve it, about.
    memory_bytes: u64,
}

impl Shape {
    fn of(path: &Path, superblock: &Superblock) -> Self {
        let geometry = superblock.layout.geometry();
        Self {
            path: path.display().to_string(),
            capacity_bytes: superblock.capacity(),
            file_bytes: superblock.layout.file_bytes(),
            op_percent: f64::from(superblock.op) / 100.0,
            blocks: geometry.blocks,
            pages_per_block: geometry.pages_per_block,
            dedup: superblock.scheme.name(),
            memory_bytes: superblock.memory_bytes(),
        }
    }

    fn text(&self, superblock: &Superblock) -> String {
        format!(
            "{}: {} in {} blocks of {}, op {}, dedup {}\n  {} on the medium, about {} of memory while it is served\n",
            self.path,
            format_binary(self.capacity_bytes),
            self.blocks,
            format_binary(u64::from(self.pages_per_block) * u64::from(PAGE_BYTES)),
            format_op(superblock.op),
            self.dedup,
            format_binary(self.file_bytes),
            format_binary(self.memory_bytes),
        )
    }
}

#[derive(Debug, Serialize)]
struct StreamUse {
    stream: &'static str,
    blocks: u32,
    live_pages: u32,
}

#[derive(Debug, Serialize)]
struct Wear {
    fewest_erases: u32,
    mean_erases: f64,
    most_erases: u32,
}

#[derive(Debug, Serialize)]
struct Damage {
    logical_page: u32,
    offset_bytes: u64,
    error: String,
}

/// A durable tag, by its page on the flash, or the contents of a logical page, that are lost.
#[derive(Debug, Serialize)]
struct Loss {
    flash_page: Option<u32>,
    logical_page: Option<u32>,
    error: String,
}

impl Loss {
    fn of(error: &FtlError) -> Self {
        let (flash_page, logical_page) = match error {
            FtlError::TagLost(page) => (Some(page.0), None),
            FtlError::ContentLost(lpn) => (None, Some(*lpn)),
            _ => (None, None),
        };
        Self { flash_page, logical_page, error: error.to_string() }
    }
}

/// Contents of a drive.
#[derive(Debug, Serialize)]
struct Document {
    #[serde(flatten)]
    shape: Shape,
    mapped_pages: u32,
    live_pages: u32,
    unique_pages: u32,
    shared_pages: u32,
    dedup_ratio: f64,
    free_blocks: u32,
    journal_blocks: u32,
    retired_blocks: u32,
    streams: Vec<StreamUse>,
    host_writes: u64,
    copies: u64,
    merges: u64,
    write_amplification: f64,
    wear: Wear,
    /// Two at the start, two at the end.
    damaged_superblocks: [bool; 4],
    #[serde(skip_serializing_if = "Option::is_none")]
    check: Option<Check>,
}

#[derive(Debug, Serialize)]
struct Check {
    result: &'static str,
    pages_read: u32,
    /// It was closed. If not, nothing shows whether what was written last is older than what was
    /// flushed.
    was_closed: bool,
    damaged: Vec<Damage>,
    damaged_pages: usize,
    contradictions: Vec<String>,
    /// Durable tags and contents that are lost.
    lost: Vec<Loss>,
    lost_pages: usize,
    repaired_superblocks: usize,
    accepted_lost_tags: bool,
}

fn document(path: &Path, found: &Examined, check: Option<Check>) -> Document {
    let (census, stats) = (&found.census, &found.stats);
    let stream = |(name, count): (&&'static str, &pumice_flash::ftl::BlockCount)| StreamUse {
        stream: name,
        blocks: count.blocks,
        live_pages: count.live_pages,
    };
    let streams = STREAMS.iter().zip(&census.streams).filter(|(_, count)| count.blocks > 0);
    let (fewest_erases, mean_erases, most_erases) = found.wear;
    Document {
        shape: Shape::of(path, &found.superblock),
        mapped_pages: census.mapped,
        live_pages: census.live,
        unique_pages: census.live - census.shared,
        shared_pages: census.shared,
        dedup_ratio: if census.live == 0 { 1.0 } else { f64::from(census.mapped) / f64::from(census.live) },
        free_blocks: census.free,
        journal_blocks: census.journal,
        retired_blocks: census.retired,
        streams: streams.map(stream).collect(),
        host_writes: stats.host_writes,
        copies: stats.copies,
        merges: stats.idle_merges + stats.gc_merges + stats.inline_hits,
        write_amplification: stats.write_amplification(),
        wear: Wear { fewest_erases, mean_erases, most_erases },
        damaged_superblocks: found.damaged_slots,
        check,
    }
}

fn human(document: &Document, found: &Examined) -> String {
    let mut text = document.shape.text(&found.superblock);
    text += &format!(
        "  pages: {} mapped, {} live ({} unique, {} shared), dedup ratio {:.2}\n",
        document.mapped_pages,
        document.live_pages,
        document.unique_pages,
        document.shared_pages,
        document.dedup_ratio
    );
    text += &format!(
        "  blocks: {} free, {} of the journal, {} retired\n",
        document.free_blocks, document.journal_blocks, document.retired_blocks
    );
    for stream in &document.streams {
        let blocks = count(u64::from(stream.blocks), "block");
        text += &format!("    {}: {blocks}, {} live pages\n", stream.stream, stream.live_pages);
    }
    text += &format!(
        "  since the format: {} pages written by hosts, {} copied, {} merged, write amplification {:.3}\n",
        document.host_writes, document.copies, document.merges, document.write_amplification
    );
    let wear = &document.wear;
    text += &format!(
        "  erases of a block: {} to {}, {:.1} on average\n",
        wear.fewest_erases, wear.most_erases, wear.mean_erases
    );
    let names = [
        "the first at the start",
        "the second at the start",
        "the first at the end",
        "the second at the end",
    ];
    let repaired = document.check.as_ref().is_some_and(|check| check.repaired_superblocks > 0);
    for (name, _) in names.iter().zip(document.damaged_superblocks).filter(|(_, damaged)| *damaged) {
        text += &if repaired {
            format!("  superblock: {name} was damaged\n")
        } else {
            format!("  superblock: {name} is damaged; pumice flash check --repair rewrites it\n")
        };
    }
    if let Some(check) = &document.check {
        text += &check_text(check);
    }
    text
}

fn check_text(check: &Check) -> String {
    let mut text = format!("  {} read", count(u64::from(check.pages_read), "page"));
    text += &format!(", {} damaged\n", check.damaged_pages);
    for damage in &check.damaged {
        text += &format!("    at {}: {}\n", damage.offset_bytes, damage.error);
    }
    if check.damaged_pages > check.damaged.len() {
        text += &format!("    and {} more\n", check.damaged_pages - check.damaged.len());
    }
    for contradiction in &check.contradictions {
        text += &format!("  tables: {contradiction}\n");
    }
    if !check.was_closed {
        text += "  it was not closed: if tags of the last pages before that are lost, nothing shows whether \
                 they were flushed, and older versions stand\n";
    }
    for loss in &check.lost {
        text += &format!("  lost: {}\n", loss.error);
    }
    if check.lost_pages > check.lost.len() {
        text += &format!("  lost: {} more\n", check.lost_pages - check.lost.len());
    }
    if check.lost_pages > 0 && !check.accepted_lost_tags {
        text += "  no node can serve the drive while this is lost; pumice flash check --repair \
                 --accept-lost-tags gives it up\n";
    }
    if check.repaired_superblocks > 0 {
        let slots = count(check.repaired_superblocks as u64, "slot");
        text += &format!("  {slots} of superblocks written again\n");
    }
    if check.accepted_lost_tags {
        text += "  what is lost is given up: it is passed over from now on\n";
    }
    text
}

/// Runs the command.
pub(crate) fn run(command: &FlashCommand) -> Result<ExitCode, Failure> {
    match command {
        FlashCommand::Format(args) => make(args),
        FlashCommand::Status(args) => {
            let found = examine(&args.path, false, false)?;
            show(&document(&args.path, &found, None), &found, args.json);
            Ok(ExitCode::SUCCESS)
        }
        FlashCommand::Check(args) => check(args),
    }
}

fn show(document: &Document, found: &Examined, json: bool) {
    if json {
        print_json(document);
    } else {
        print(&human(document, found));
    }
}

fn make(args: &FormatArgs) -> Result<ExitCode, Failure> {
    let superblock = plan(&args.drive)?;
    let shape = Shape::of(&args.drive.path, &superblock);
    if !args.json {
        // Before it is made: what it takes is seen in time.
        print(&shape.text(&superblock));
    }
    if args.dry_run {
        check_place(&args.drive, &superblock, args.overwrite)?;
    } else {
        leaving::on_signal()?;
        format(&args.drive, &superblock, args.overwrite)?;
    }
    if args.json {
        print_json(&shape);
    } else {
        print(if args.dry_run { "  nothing was written\n" } else { "  made\n" });
    }
    Ok(ExitCode::SUCCESS)
}

/// Looks at every page of a drive. What was durable and is lost is passed over and named.
fn look(path: &Path) -> Result<Examined, FlashError> {
    match examine(path, true, false) {
        Err(FlashError::Ftl { source: FtlError::TagLost(_) | FtlError::ContentLost(_), .. }) => {
            examine(path, true, true)
        }
        other => other,
    }
}

fn check(args: &CheckArgs) -> Result<ExitCode, Failure> {
    let found = look(&args.path)?;
    let give_up = args.accept_lost_tags && !found.lost.is_empty();
    let (mut repaired_superblocks, mut left) = (0, found.damaged_slots);
    if args.repair && (give_up || found.damaged_slots.contains(&true)) {
        repaired_superblocks = repair(&args.path, give_up)?.slots;
        // What is written now is looked at again, but for the pages: nothing was done to them.
        left = examine(&args.path, false, true)?.damaged_slots;
    }
    let nothing_found = found.is_sound();
    let lost = found.lost.iter().take(NAMED).map(Loss::of).collect();
    let lost_pages = found.lost.len();
    let is_mended = found.damaged.is_empty()
        && found.contradictions.is_empty()
        && left == [false; 4]
        && (give_up || lost_pages == 0);
    let damaged = found.damaged.iter().take(NAMED).map(|damaged| Damage {
        logical_page: damaged.lpn,
        offset_bytes: u64::from(damaged.lpn) * u64::from(PAGE_BYTES),
        error: damaged.error.to_string(),
    });
    let check = Check {
        result: match (nothing_found, is_mended) {
            (true, _) => "sound",
            (false, true) => "repaired",
            (false, false) => "damaged",
        },
        pages_read: found.pages_read,
        was_closed: found.was_closed,
        damaged: damaged.collect(),
        damaged_pages: found.damaged.len(),
        contradictions: found.contradictions.clone(),
        lost,
        lost_pages,
        repaired_superblocks,
        accepted_lost_tags: give_up,
    };
    show(&document(&args.path, &found, Some(check)), &found, args.json);
    Ok(if nothing_found { ExitCode::SUCCESS } else { ExitCode::from(FINDINGS) })
}
