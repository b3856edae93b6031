//! `pumice volume create` and `destroy`.

use crate::access::metadata;
use crate::text::{count, print, print_json};
use clap::{Args, ValueEnum};
use pumice_base::units::{Role, format_decimal, parse_size};
use pumice_executor::{CreateSpec, MemberDrive, Released, create, erase, opens_without, release};
use pumice_raid::layout::{Layout, Level};
use pumice_raid::{Metadata, Uuid};
use pumice_remote::initiator::DigestPolicy;
use pumice_service::failure::Failure;
use pumice_service::members::{Devices, nodes_survived};
use pumice_service::say::say;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

/// Protection of rows against a crash.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum ConsistencyArg {
    /// The stripe log: a crash loses nothing, even if the volume is degraded
    Log,
    /// md's bitmap alone: a crash makes a degraded volume unusable
    Bitmap,
}

/// Creates a volume: writes zeros to all drives, then md's metadata, version 1.2, with a bitmap, a
/// bad-block log and, unless `--consistency bitmap` is given, room for the stripe log.
#[derive(Debug, Args)]
#[command(after_help = "\
A drive is taken only if it carries no superblock of md and its first and last MiB are zeros, unless
--force says that what is on it does not matter.

Exit codes: 0 created, 2 could not run; nothing is written if an argument or a device is wrong.")]
pub(crate) struct CreateArgs {
    /// Drives in the order of their roles: block devices, image files, nvme://HOST:PORT/DRIVE
    #[arg(value_name = "DEVICE", required = true)]
    devices: Vec<PathBuf>,
    /// RAID level: 4, 5 or 6
    #[arg(long, value_parser = level)]
    level: Level,
    /// The layout, as mdadm calls it [default: left-symmetric; none for level 4]
    #[arg(long)]
    layout: Option<Layout>,
    /// Bytes of a chunk: a power of two from 4 KiB
    #[arg(long, value_name = "SIZE", default_value = "64KiB", value_parser = size)]
    chunk: u64,
    /// A name, at most 32 bytes
    #[arg(long, default_value = "")]
    name: String,
    /// Bytes of each drive to use for data [default: as many as fit, less the last 64 to 128 KiB,
    /// where md looks for superblocks of other versions]
    #[arg(long, value_name = "SIZE", value_parser = size)]
    size: Option<u64>,
    /// Protection of rows against a crash; with `bitmap`, no room is left for the stripe log
    #[arg(long, value_enum, default_value = "log")]
    consistency: ConsistencyArg,
    /// Use the drives even if they hold data or belong to an array; their contents are lost
    #[arg(long)]
    force: bool,
    /// Digests of connections to nodes: auto, on or off
    #[arg(long, default_value = "auto")]
    digest: DigestPolicy,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

/// Removes devices from their array: overwrites their superblocks, bitmaps and logs with zeros.
/// Their data is not touched.
#[derive(Debug, Args)]
pub(crate) struct DestroyArgs {
    /// The devices of one array
    #[arg(value_name = "DEVICE", required = true)]
    devices: Vec<PathBuf>,
    /// UUID of the array, as `pumice inspect` shows it
    #[arg(long)]
    uuid: Uuid,
    /// The version of the superblocks that count: 0.90, 1.0, 1.1 or 1.2. Needed if users of the
    /// array have written superblocks of other versions into it, on all members
    #[arg(long, value_name = "VERSION", value_parser = metadata)]
    metadata: Option<Metadata>,
    /// Digests of connections to nodes: auto, on or off
    #[arg(long, default_value = "auto")]
    digest: DigestPolicy,
}

/// Releases an array that a machine had open when it died. Interrupted writes are replayed when the
/// volume is next opened.
#[derive(Debug, Args)]
#[command(after_help = "\
Refused while the machine is associated with a node of the array. Drives that are not of nodes cannot
say whether anybody uses them elsewhere: be sure that the machine does not run the array any more.

Exit codes: 0 released, 2 could not run.")]
pub(crate) struct ReleaseArgs {
    /// All devices of the array
    #[arg(value_name = "DEVICE", required = true)]
    devices: Vec<PathBuf>,
    /// UUID of the array, as `pumice inspect` shows it
    #[arg(long)]
    uuid: Uuid,
    /// The version of the superblocks that count: 0.90, 1.0, 1.1 or 1.2. Needed if users of the
    /// array have written superblocks of other versions into it, on all members
    #[arg(long, value_name = "VERSION", value_parser = metadata)]
    metadata: Option<Metadata>,
    /// Digests of connections to nodes: auto, on or off
    #[arg(long, default_value = "auto")]
    digest: DigestPolicy,
}

fn level(text: &str) -> Result<Level, String> {
    let level = text.parse().ok().and_then(Level::from_number).filter(|level| !level.is_mirror());
    level.ok_or_else(|| format!("'{text}': 4, 5 or 6"))
}

fn size(text: &str) -> Result<u64, String> {
    parse_size(text).map_err(|error| error.to_string())
}

/// Runs `pumice volume create`.
pub(super) fn run(args: &CreateArgs) -> Result<ExitCode, Failure> {
    let layout = match (args.level, args.layout) {
        (Level::Raid4, None) => None,
        (Level::Raid4, Some(_)) => return Err(Failure::new("layout: level 4 has only one")),
        (level, layout) => {
            let layout = layout.unwrap_or(Layout::LeftSymmetric);
            if !layout.is_of(level) {
                return Err(Failure::new(format!("layout: {layout} is not a layout of {level}")));
            }
            Some(layout)
        }
    };
    let mut devices = Devices::new(args.digest);
    let drives = devices.open(&args.devices, false)?;
    let spec = CreateSpec {
        level: args.level,
        layout,
        chunk_bytes: args.chunk,
        name: args.name.clone(),
        component_bytes: args.size,
        now: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()),
        force: args.force,
        log: args.consistency == ConsistencyArg::Log,
    };
    let uuid = create(&drives, &spec, |_, _| {})?;
    let parities = usize::from(args.level.parities());
    let named = (0..).map(Role).zip(drives.iter().map(|drive| drive.name().to_owned()));
    // Levels 4 to 6 correct any losses of so many members, and no others.
    let count_of = |most: usize| nodes_survived(named.clone(), most, |lost| lost.len() <= most);
    let (survived, nodes) = count_of(parities);
    let (members, is_far) = (drives.len() as u16, devices.any_far());
    let away = usize::from(opens_without(members, members - args.level.parities(), is_far));
    let opens = count_of(away).0;
    if nodes > 1 && survived == 0 {
        say(&format!("the drives are on {nodes} nodes, and the volume would not survive the loss of a node"));
    }
    if args.json {
        print_json(&serde_json::json!({
            "uuid": uuid.to_string(),
            "survives": { "drives": parities, "nodes": survived },
            "opens_without": { "drives": away, "nodes": opens },
        }));
    } else {
        print(&format!(
            "{uuid}: created on {}; survives the loss of {}{}\n",
            count(drives.len() as u64, "drive"),
            count(parities as u64, "drive"),
            if is_far { format!(" or {}", count(survived as u64, "node")) } else { String::new() },
        ));
    }
    if (away, opens) != (parities, survived) {
        say(&format!(
            "it can be opened again without {} or {}; with fewer members here, only by `--without ROLES`",
            count(away as u64, "drive"),
            count(opens as u64, "node"),
        ));
    }
    Ok(ExitCode::SUCCESS)
}

/// Runs `pumice volume release`.
pub(super) fn release_array(args: &ReleaseArgs) -> Result<ExitCode, Failure> {
    let mut devices = Devices::new(args.digest).with_metadata(args.metadata);
    let drives = devices.open(&args.devices, true)?;
    let Released { writers, left, without_log } = release(&drives, args.uuid, args.metadata)?;
    let names: Vec<String> = writers.iter().map(|writer| format!("{writer:032x}")).collect();
    let held = match (names.is_empty(), without_log) {
        (true, true) => {
            "it has no room for a stripe log, so no machine leaves a mark; open it with --consistency bitmap"
                .to_owned()
        }
        (true, false) => "nobody had it open".to_owned(),
        (false, _) => format!("machine {} no longer has it open", names.join(", ")),
    };
    print(&format!("{}: {held}\n", args.uuid));
    if !left.is_empty() {
        let roles: Vec<String> = left.iter().map(|role| role.get().to_string()).collect();
        say(&format!(
            "members {} were not named: if they are marked, they stay so until they are named as well",
            roles.join(", ")
        ));
    }
    Ok(ExitCode::SUCCESS)
}

/// Runs `pumice volume destroy`.
pub(super) fn destroy(args: &DestroyArgs) -> Result<ExitCode, Failure> {
    let drives = Devices::new(args.digest).open(&args.devices, false)?;
    let members = erase(&drives, args.uuid, args.metadata)?;
    let bytes = drives.iter().map(MemberDrive::bytes).sum();
    let free = format!(
        "{} ({}) {} free",
        count(drives.len() as u64, "drive"),
        format_decimal(bytes),
        if drives.len() == 1 { "is" } else { "are" },
    );
    // Some may have been removed before, or be gone.
    print(&match usize::from(members).saturating_sub(drives.len()) {
        0 => format!("{}: the array is removed; {free}\n", args.uuid),
        _ => format!(
            "{}: {free}; the array has {members} members, others may still be marked as such\n",
            args.uuid
        ),
    });
    Ok(ExitCode::SUCCESS)
}
