//! `pumice protect` and `pumice release`.

mod before;
mod off;

use crate::system::on_signals;
use crate::text::{count, print};
use clap::Args;
use pumice_base::units::{format_decimal, parse_size};
use pumice_blockdev::{BlockDevice, FileDevice, OpenMode, Options};
use pumice_node::serve::{Backend, DriveSource};
use pumice_protect::format::Place;
use pumice_protect::metadata::MetadataFormat;
use pumice_service::failure::Failure;
use pumice_service::say::say;
use pumice_tags::adoption::{Adopted, adopt};
use pumice_tags::file::{Census, OnStale, SharedMedium, TagError, TagFile, check_drive};
use pumice_tags::header::Header;
use pumice_tags::page::Origin;
use pumice_tags::{DeviceMedium, TaggedDevice, open_place, serial_of};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Advice for stale tags.
const STALE: &str =
    "; `--off --force` removes them, then adopt the drive again; `--believe` uses them as they are";

/// The exit code if blocks differ from their tags.
const DIFFER: u8 = 1;
/// The exit code if it was stopped before the end.
const STOPPED: u8 = 3;

/// Adopts drives: creates a tag (protection information) for each block as it is now
///
/// A drive is written as for `pumice node`: /dev/sdb,pi=16,tags=PATH. It must not be in use: stop
/// the node or the array first. Blocks that have tags are checked and left as they are. An
/// interrupted adoption continues where it stopped.
#[derive(Debug, Args)]
#[command(after_help = "\
Adopted tags find damage that comes later. They cannot say whether a block was whole when it was
adopted: scrub the array first. Keep other programs off the drives afterwards: what writes to them
past the node (an initramfs that assembles the array on the raw drives, dd) makes tags stale.

Exit codes: 0 done, 1 blocks differ from their tags, 2 could not run, 3 stopped before the end.")]
pub(crate) struct ProtectArgs {
    /// A drive with its tags: DRIVE,pi=BITS,tags=PATH; once for each
    #[arg(value_name = "DRIVE", required = true)]
    drives: Vec<DriveSource>,
    /// Bytes of a block, 512 or 4096; the node must serve the same size
    #[arg(long, default_value = "512", value_parser = ["512", "4096"])]
    block_size: String,
    /// Most bytes to read a second
    #[arg(long, value_name = "SIZE", value_parser = rate)]
    rate: Option<u64>,
    /// Only show how many blocks have which tags; works while a node serves the drive
    #[arg(long, conflicts_with_all = ["off", "rate"])]
    status: bool,
    /// Recover the drive from the log of its tags, then remove the tag file; refused if blocks are
    /// kept or the recovery fails
    #[arg(long, conflicts_with = "rate")]
    off: bool,
    /// With --off: remove it all the same, and say what is lost
    #[arg(long, requires = "off")]
    force: bool,
    /// Use tags although they are stale: the log is recovered, and blocks that differ are refused.
    /// A node looks again when it starts
    #[arg(long, conflicts_with_all = ["off", "status"])]
    believe: bool,
}

/// Accepts one refused block as it is, so that it can be read
///
/// The block is not changed. It gets a new tag for its present contents, which does not show
/// whether they are right.
#[derive(Debug, Args)]
pub(crate) struct ReleaseArgs {
    /// The drive with its tags: DRIVE,pi=BITS,tags=PATH
    #[arg(value_name = "DRIVE")]
    drive: DriveSource,
    /// The number of the block, in blocks of --block-size
    #[arg(long, value_name = "LBA")]
    block: u64,
    /// Bytes of a block: 512 or 4096
    #[arg(long, default_value = "512", value_parser = ["512", "4096"])]
    block_size: String,
}

fn rate(text: &str) -> Result<u64, String> {
    match parse_size(text) {
        Ok(0) => Err("at 0 bytes a second it would never finish".to_owned()),
        Ok(rate) => Ok(rate),
        Err(error) => Err(error.to_string()),
    }
}

/// The paths of a drive and its tags.
pub(crate) struct Places<'s> {
    pub(crate) drive: &'s Path,
    pub(crate) tags: &'s PathBuf,
    metadata: MetadataFormat,
    atomic: Option<u32>,
}

pub(crate) fn places(source: &DriveSource) -> Result<Places<'_>, Failure> {
    let Backend::Path(drive) = &source.backend else {
        return Err(Failure::new(format!(
            "{}: a drive in memory or of flash exists only in its node",
            source.backend
        )));
    };
    let missing = || Failure::new(format!("{}: pi=BITS and tags=PATH are missing", drive.display()));
    let tagging = source.tagging.as_ref().ok_or_else(missing)?;
    let tags = tagging.place.as_ref().ok_or_else(missing)?;
    Ok(Places { drive, tags, metadata: tagging.metadata, atomic: tagging.atomic })
}

pub(crate) fn open(places: &Places<'_>, block: u32, on_stale: OnStale) -> Result<TaggedDevice, Failure> {
    let drive = FileDevice::open(places.drive, OpenMode::ReadWrite, Options::default())?;
    let drive = Arc::new(match places.atomic {
        Some(unit) => drive.with_atomic_unit(unit),
        None => drive,
    });
    let serial = serial_of(places.drive);
    let (medium, _) = open_place(places.tags, &*drive, block, places.metadata, &serial)?;
    let tags = places.tags.display();
    TaggedDevice::open_as(drive, medium, &serial, on_stale).map_err(|error| {
        let way = if matches!(error, TagError::Stale(_)) { STALE } else { "" };
        Failure::new(format!("{tags}: {error}{way}"))
    })
}

/// A tag file, opened for reading.
pub(crate) fn medium(tags: &Path) -> Result<SharedMedium, Failure> {
    let file = FileDevice::open(tags, OpenMode::ReadOnly, Options::default())?;
    Ok(SharedMedium(Arc::new(DeviceMedium(Arc::new(file)))))
}

/// Reads a tag file without changing it.
/// How often it is said that tags are still being read.
const WORD: Duration = Duration::from_secs(5);

fn look(tags: &Path) -> Result<(Header, Census), Failure> {
    let mut told = Instant::now();
    let mut tell = |done: u64, of: u64| {
        if told.elapsed() >= WORD {
            told = Instant::now();
            say(&format!("{}: {done} of {of} pages of tags are read", tags.display()));
        }
    };
    TagFile::look(medium(tags)?, &mut tell)
        .map_err(|error| Failure::new(format!("{}: {error}", tags.display())))
}

/// Runs `pumice protect`.
pub(crate) fn run(args: &ProtectArgs) -> Result<ExitCode, Failure> {
    let all = args.drives.iter().map(places).collect::<Result<Vec<_>, _>>()?;
    if args.status {
        all.iter().try_for_each(status)?;
        return Ok(ExitCode::SUCCESS);
    }
    before::check_apart(&all)?;
    if args.off {
        off::off(&all, args.force)?;
        return Ok(ExitCode::SUCCESS);
    }
    before::check_open(&all)?;
    let stop = Arc::new(AtomicBool::new(false));
    let raised = Arc::clone(&stop);
    on_signals(move || raised.store(true, Ordering::Relaxed))?;
    let block: u32 = args.block_size.parse().expect("one of two");
    let mut code = 0;
    for places in &all {
        let on_stale = if args.believe { OnStale::Believe } else { OnStale::Fail };
        let device = open(places, block, on_stale)?;
        if args.believe {
            device.set_stale(false)?;
        }
        let found = adopt_paced(&device, args.rate, &stop)?;
        device.close()?;
        report(places, &found, &device);
        if !found.complete {
            return Ok(ExitCode::from(STOPPED));
        }
        if found.differ > 0 {
            code = DIFFER;
        }
    }
    Ok(ExitCode::from(code))
}

fn adopt_paced(device: &TaggedDevice, rate: Option<u64>, stop: &AtomicBool) -> Result<Adopted, Failure> {
    let begun = Instant::now();
    Ok(adopt(device, |bytes| {
        if let Some(rate) = rate {
            let due = Duration::from_secs_f64(bytes as f64 / rate as f64);
            // In short sleeps, so that a signal is not waited for.
            while !stop.load(Ordering::Relaxed) && begun.elapsed() < due {
                std::thread::sleep((due - begun.elapsed().min(due)).min(Duration::from_millis(100)));
            }
        }
        !stop.load(Ordering::Relaxed)
    })?)
}

fn report(places: &Places<'_>, found: &Adopted, device: &TaggedDevice) {
    let mut text = format!(
        "{}: {} blocks adopted, {} fit their tags, {} differ, {} unreadable\n",
        places.drive.display(),
        found.adopted,
        found.fit,
        found.differ,
        found.unreadable
    );
    if let Some(first) = found.first_differs {
        text += &format!("  the first that differs is block {first}; it was left as it is\n");
    }
    if found.unchecked > 0 {
        let count = found.unchecked;
        text += &format!("  {count} are not checked, because the host that wrote them asked for that\n");
    }
    let recovered = device.recovered();
    if !recovered.rewritten.is_empty() {
        let count = recovered.rewritten.len();
        text += &format!(
            "  {count} torn blocks were written again after a crash; `pumice kept` lists their old contents\n"
        );
    }
    if recovered.not_kept > 0 {
        let count = recovered.not_kept;
        text += &format!(
            "  {count} torn blocks were left as they are: there is no room to keep their contents; see `pumice kept`\n"
        );
    }
    if !found.complete {
        text += "  stopped; the same command continues from there\n";
    }
    print(&text);
}

fn status(places: &Places<'_>) -> Result<(), Failure> {
    let (header, census) = look(places.tags)?;
    // A drive that is gone is no reason not to tell what its tags are.
    if let Ok(drive) = FileDevice::open(places.drive, OpenMode::ReadOnly, Options::default()) {
        check_drive(&header, &drive, &serial_of(places.drive))
            .map_err(|error| Failure::new(format!("{}: {error}", places.tags.display())))?;
    }
    let geometry = &header.geometry;
    let counts = Origin::ALL.iter().zip(census.origins);
    let counts: Vec<String> = counts.map(|(origin, count)| format!("{count} {}", origin.name())).collect();
    let size = geometry.block_bytes() as u64;
    let mut text = format!(
        "{}: {} in blocks of {size}, {}\n  blocks: {}\n",
        places.drive.display(),
        format_decimal(geometry.size()),
        geometry.format().guard(),
        counts.join(", ")
    );
    text += &of_metadata(geometry.format().metadata());
    text += &format!("  adopted {} of {}\n", header.adopted, geometry.blocks());
    text += if header.clean { "  closed\n" } else { "  in use, or not closed: the log may hold more\n" };
    if !header.clean {
        text += &before::about_log(places.tags)?;
    }
    text += &before::about_stale(places, &header);
    if census.lost_pages > 0 {
        text += &format!("  {} pages of tags are lost\n", census.lost_pages);
    }
    if geometry.kept_blocks() > 0 {
        let (kept, most) = (census.kept, geometry.kept_blocks());
        text += &format!("  {}, of at most {most}\n", count(kept, "kept block"));
    }
    if census.damaged_kept > 0 {
        text += &format!("  {} kept blocks are damaged\n", census.damaged_kept);
    }
    print(&text);
    Ok(())
}

/// Describes metadata that are more than a tuple without a storage tag.
fn of_metadata(metadata: MetadataFormat) -> String {
    if metadata == MetadataFormat::tuple(metadata.guard()) {
        return String::new();
    }
    let mut text = format!("  metadata: {} bytes", metadata.bytes());
    if !metadata.is_tuple() {
        text += match metadata.place() {
            Place::First => ", the tuple first",
            Place::Last => ", the tuple last",
        };
    }
    if metadata.storage_bits() > 0 {
        text += &format!(", storage tag of {} bits", metadata.storage_bits());
    }
    text + "\n"
}

/// Runs `pumice release`.
pub(crate) fn release(args: &ReleaseArgs) -> Result<ExitCode, Failure> {
    let places = places(&args.drive)?;
    look(places.tags)?;
    let device = open(&places, args.block_size.parse().expect("one of two"), OnStale::Refuse)?;
    let blocks = device.size_bytes() / u64::from(device.logical_block());
    if args.block >= blocks {
        return Err(Failure::new(format!("--block: {} is not below {blocks}", args.block)));
    }
    let differed = device.release(args.block)?;
    device.close()?;
    let what = if differed { "is accepted as it is" } else { "fitted its tag, or has none" };
    print(&format!("{}: block {} {what}\n", places.drive.display(), args.block));
    Ok(ExitCode::SUCCESS)
}
