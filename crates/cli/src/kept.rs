//! `pumice kept`: lists the blocks that recovery overwrote, and puts them back.

use crate::protect::{Places, medium, open, places};
use crate::text::{count, print};
use clap::{Args, Subcommand};
use pumice_base::units::format_date;
use pumice_node::serve::DriveSource;
use pumice_service::failure::Failure;
use pumice_tags::file::{OnStale, TagFile};
use pumice_tags::kept::Why;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Lists blocks that were overwritten after a crash, saves them to a file, puts them back, or
/// deletes them
///
/// After a crash, blocks that hold a mixture of two writes are written again from the log of the
/// tags. Their contents are first kept in the tag file, in case another program wrote them
/// meanwhile. A drive is written as for `pumice node`: /dev/sdb,pi=16,tags=PATH.
#[derive(Debug, Args)]
#[command(after_help = "Exit codes: 0 done, 2 could not run.")]
pub(crate) struct KeptArgs {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Print one line for each kept block; works while a node serves the drive
    List {
        /// The drive with its tags: DRIVE,pi=BITS,tags=PATH
        #[arg(value_name = "DRIVE")]
        drive: DriveSource,
        /// Bytes of a block, 512 or 4096, as for `pumice protect`; without it those of the tags
        #[arg(long, value_name = "BYTES", value_parser = ["512", "4096"])]
        block_size: Option<String>,
    },
    /// Write the bytes of a kept block to a new file; works while a node serves the drive
    Save {
        /// The drive with its tags: DRIVE,pi=BITS,tags=PATH
        #[arg(value_name = "DRIVE")]
        drive: DriveSource,
        /// Bytes of a block, 512 or 4096, as for `pumice protect`; without it those of the tags
        #[arg(long, value_name = "BYTES", value_parser = ["512", "4096"])]
        block_size: Option<String>,
        /// Its number in the list
        number: u64,
        /// The file, which must not exist
        file: PathBuf,
    },
    /// Put a kept block back in its place; the block that it replaces is kept instead
    PutBack {
        /// The drive with its tags: DRIVE,pi=BITS,tags=PATH; stop its node first
        #[arg(value_name = "DRIVE")]
        drive: DriveSource,
        /// Bytes of a block, 512 or 4096, as for `pumice protect`; without it those of the tags
        #[arg(long, value_name = "BYTES", value_parser = ["512", "4096"])]
        block_size: Option<String>,
        /// Its number in the list
        number: u64,
    },
    /// Delete kept blocks, to make room for others
    Forget {
        /// The drive with its tags: DRIVE,pi=BITS,tags=PATH; stop its node first
        #[arg(value_name = "DRIVE")]
        drive: DriveSource,
        /// Bytes of a block, 512 or 4096, as for `pumice protect`; without it those of the tags
        #[arg(long, value_name = "BYTES", value_parser = ["512", "4096"])]
        block_size: Option<String>,
        /// The number of one in the list
        #[arg(required_unless_present = "all", conflicts_with = "all")]
        number: Option<u64>,
        /// All of them, damaged ones too
        #[arg(long)]
        all: bool,
    },
}

/// Runs the command.
pub(crate) fn run(args: &KeptArgs) -> Result<ExitCode, Failure> {
    let (Action::List { drive, block_size }
    | Action::Save { drive, block_size, .. }
    | Action::PutBack { drive, block_size, .. }
    | Action::Forget { drive, block_size, .. }) = &args.action;
    let places = &places(drive)?;
    check_block_size(places, block_size.as_deref())?;
    match &args.action {
        Action::List { .. } => list(places)?,
        Action::Save { number, file, .. } => save(places, *number, file)?,
        Action::PutBack { number, .. } => put_back(places, *number)?,
        Action::Forget { number, .. } => forget(places, *number)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Refuses a block size that is not that of the tags, if one is given.
fn check_block_size(places: &Places<'_>, given: Option<&str>) -> Result<(), Failure> {
    let Some(given) = given else { return Ok(()) };
    let header = TagFile::peek(&medium(places.tags)?).map_err(|error| fail(places, &error))?;
    match header.geometry.block_bytes() {
        found if found.to_string() == given => Ok(()),
        found => {
            Err(fail(places, &format!("block size: the tags have {found} bytes, but {given} was given")))
        }
    }
}

fn fail(places: &Places<'_>, error: &dyn std::fmt::Display) -> Failure {
    Failure::new(format!("{}: {error}", places.tags.display()))
}

fn list(places: &Places<'_>) -> Result<(), Failure> {
    let contents = TagFile::look_kept(medium(places.tags)?).map_err(|error| fail(places, &error))?;
    let kept = count(contents.kept.len() as u64, "kept block");
    let mut text = format!("{}: {kept}\n", places.drive.display());
    for kept in &contents.kept {
        let why = match kept.why {
            Why::Recovery => "written again after a crash",
            Why::PutBack => "another kept block was put back there",
            Why::Log => "from the log, which was not written over it because the tags were stale",
        };
        let time = format_date(kept.time);
        text += &format!("  {}  {time}  block {}: {why}\n", kept.slot, kept.block);
    }
    for slot in &contents.damaged {
        text += &format!("  {slot}  damaged\n");
    }
    print(&text);
    Ok(())
}

fn save(places: &Places<'_>, number: u64, path: &Path) -> Result<(), Failure> {
    let read = TagFile::read_kept(medium(places.tags)?, number);
    let (kept, bytes) = read.map_err(|error| fail(places, &error))?;
    let write = || -> std::io::Result<()> {
        let mut file = File::create_new(path)?;
        file.write_all(&bytes)?;
        file.sync_all()
    };
    write().map_err(|error| Failure::new(format!("{}: {error}", path.display())))?;
    print(&format!("{}: {} bytes of block {}\n", path.display(), bytes.len(), kept.block));
    Ok(())
}

/// Opens the drive with blocks of the size that its tags are for.
fn open_as_is(places: &Places<'_>) -> Result<pumice_tags::TaggedDevice, Failure> {
    let header = TagFile::peek(&medium(places.tags)?).map_err(|error| fail(places, &error))?;
    open(places, header.geometry.block_bytes() as u32, OnStale::Refuse)
}

fn put_back(places: &Places<'_>, number: u64) -> Result<(), Failure> {
    let device = open_as_is(places)?;
    let block = device.put_back(number).map_err(|error| fail(places, &error))?;
    device.close()?;
    print(&format!("{}: block {block} is as it was kept\n", places.drive.display()));
    Ok(())
}

fn forget(places: &Places<'_>, number: Option<u64>) -> Result<(), Failure> {
    let device = open_as_is(places)?;
    let contents = TagFile::look_kept(medium(places.tags)?).map_err(|error| fail(places, &error))?;
    let all = contents.kept.iter().map(|kept| kept.slot).chain(contents.damaged.iter().copied());
    let numbers: Vec<u64> = number.map_or_else(|| all.collect(), |number| vec![number]);
    for number in &numbers {
        device.forget_kept(*number).map_err(|error| fail(places, &error))?;
    }
    device.close()?;
    let deleted = count(numbers.len() as u64, "kept block");
    print(&format!("{}: deleted {deleted}\n", places.drive.display()));
    Ok(())
}
