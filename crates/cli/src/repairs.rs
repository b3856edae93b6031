//! `pumice repairs`: the archive of replaced bytes, and undo.

mod show;

use crate::access::metadata;
use crate::devices::{Placement, assemble_of, place};
use crate::text::{print, print_json};
use clap::{Args, Subcommand};
use pumice_base::units::parse_duration;
use pumice_host::date;
use pumice_host::error::HostError;
use pumice_host::repair::archive::{Entry, EntryId};
use pumice_host::repair::{Archive, Found, Recovery, drop_waiting, recover, undo, written_repairs};
use pumice_host::state::{StateFiles, archives};
use pumice_node::NodeOptions;
use pumice_raid::{Metadata, Uuid};
use pumice_service::access::Access;
use pumice_service::failure::Failure;
use pumice_service::identity::default_state_dir;
use pumice_service::opening::expand;
use pumice_service::say::say;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Lists, shows, undoes or deletes repairs.
///
/// Every repair keeps the bytes that it replaces in the state directory for 90 days.
#[derive(Debug, Args)]
#[command(
    after_help = "Exit codes: 0 done, 1 some repairs could not be undone (each is named), 2 could not run, or the report could not be written."
)]
pub(crate) struct RepairsArgs {
    #[command(subcommand)]
    action: Option<Action>,
    /// Folder of the archive [default: /var/lib/pumice for root, else $XDG_STATE_HOME/pumice]
    #[arg(long, global = true, value_name = "DIR", value_parser = crate::access::folder())]
    state_dir: Option<PathBuf>,
    /// Only this array, by its UUID as mdadm prints it
    #[arg(long, global = true, value_name = "UUID")]
    array: Option<String>,
    /// Print one JSON document
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Print one line for each repair, the newest first (the default)
    List,
    /// Show one repair in full
    Show {
        /// Its number
        id: EntryId,
    },
    /// Put back the bytes that repairs replaced, the newest repair first
    #[command(
        after_help = "An undo is refused, and nothing is written, unless every range still reads as the repair left it, and the other members' bytes of those
rows are what they were. The array must not be assembled; drives of nodes are held meanwhile. Sectors that the drive had
lost keep what the repair wrote. An undo is kept like a repair, and can be undone."
    )]
    Undo {
        /// The number of one repair
        #[arg(long = "id", short = 'i', value_name = "ID", conflicts_with = "all")]
        id: Option<EntryId>,
        /// Undo every repair that was written and not undone
        #[arg(long)]
        all: bool,
        /// The version of the superblocks that count, as for `pumice scrub`
        #[arg(long, value_name = "VERSION", value_parser = metadata)]
        metadata: Option<Metadata>,
        /// The number of one repair, unless --all; then the members of the array, as for `pumice
        /// scrub`
        #[arg(required = true, value_name = "[ID] DEVICE")]
        devices: Vec<PathBuf>,
    },
    /// Delete the bytes that repairs replaced
    Forget {
        /// The number of one repair
        #[arg(required_unless_present_any = ["older_than", "interrupted"])]
        id: Option<EntryId>,
        /// All repairs older than this, such as 30d
        #[arg(long, value_name = "AGE", value_parser = parse_duration, conflicts_with = "id")]
        older_than: Option<u64>,
        /// Give up an interrupted repair that cannot be finished because its member is permanently
        /// gone: its journal moves to the archive and no longer blocks other repairs
        #[arg(long, conflicts_with_all = ["id", "older_than"])]
        interrupted: bool,
    },
}

/// Runs the command.
pub(crate) fn run(args: &RepairsArgs) -> Result<ExitCode, Failure> {
    match args.action.as_ref().unwrap_or(&Action::List) {
        Action::List => list(args),
        Action::Show { id } => show(args, *id),
        Action::Undo { id, all, metadata, devices } => {
            let access = Access { write: true, metadata: *metadata, ..Access::default() };
            put_back(args, *id, *all, access, devices)
        }
        Action::Forget { interrupted: true, .. } => give_up(args),
        Action::Forget { id, older_than, .. } => forget(args, *id, *older_than),
    }
}

fn folder(args: &RepairsArgs) -> Result<PathBuf, Failure> {
    let folder = args.state_dir.clone().or_else(default_state_dir);
    folder.ok_or_else(|| Failure::new("no folder for the archive is known: name one with --state-dir"))
}

/// The arrays that have an archive, or the one named by `--array`.
fn arrays(args: &RepairsArgs) -> Result<Vec<(Uuid, Archive)>, Failure> {
    let folder = folder(args)?;
    let mut all = archives(&folder)?;
    if let Some(wanted) = &args.array {
        all.retain(|(array, _)| array.to_string() == *wanted);
        if all.is_empty() {
            return Err(Failure::new(format!("no repairs of array {wanted} in {}", folder.display())));
        }
    }
    Ok(all)
}

/// The array to whose archive a repair number refers.
fn one_array(args: &RepairsArgs) -> Result<(Uuid, Archive), Failure> {
    let mut all = arrays(args)?;
    match all.len() {
        0 => Err(Failure::new(format!("no repairs in {}", folder(args)?.display()))),
        1 => Ok(all.remove(0)),
        _ => {
            let names: Vec<String> = all.iter().map(|(array, _)| array.to_string()).collect();
            Err(Failure::new(format!(
                "several arrays have repairs: name one with --array: {}",
                names.join(", ")
            )))
        }
    }
}

fn list(args: &RepairsArgs) -> Result<ExitCode, Failure> {
    let mut entries = Vec::new();
    for (array, archive) in arrays(args)? {
        for (id, entry) in archive.list()? {
            entries.push((array, id, entry.map_err(|error| error.to_string())));
        }
    }
    if args.json {
        print_json(&show::document(&entries));
    } else {
        print(&show::lines(&entries));
    }
    Ok(ExitCode::SUCCESS)
}

fn show(args: &RepairsArgs, id: EntryId) -> Result<ExitCode, Failure> {
    let (array, archive) = one_array(args)?;
    let entry = archive.read(id)?.ok_or_else(|| none(id))?;
    if args.json {
        print_json(&show::one(array, &entry));
    } else {
        print(&show::paragraph(array, &entry));
    }
    Ok(ExitCode::SUCCESS)
}

fn none(id: EntryId) -> Failure {
    Failure::new(format!("there is no repair {id}; `pumice repairs` lists them"))
}

fn put_back(
    args: &RepairsArgs,
    id: Option<EntryId>,
    all: bool,
    access: Access,
    devices: &[PathBuf],
) -> Result<ExitCode, Failure> {
    // `undo 7 DEVICE...` as well as `undo --id 7 DEVICE...`.
    let first = devices.first().and_then(|first| first.to_str()?.parse::<EntryId>().ok());
    let (id, devices) = match (id, first) {
        (None, Some(first)) if !all => (Some(first), &devices[1..]),
        (id, _) => (id, devices),
    };
    if id.is_none() && !all {
        return Err(Failure::new("which repair? Give its number before the devices, or --all"));
    }
    if devices.is_empty() {
        return Err(Failure::new("name the members of the array after the number"));
    }
    let paths = expand(devices, Path::new("/sys"))?;
    let (probed, array) = assemble_of(&paths, access)?;
    let target = place(array, &probed, &Placement::One, &NodeOptions::default())?;
    let state = StateFiles::open(&folder(args)?, target.array().uuid())?;
    if let Some(why) = state.read_only() {
        return Err(Failure::new(format!("an undo needs a state directory that can be written: {why}")));
    }
    let archive = state.archive();
    let (recovery, journal) = recover(&target, state.journal()?, &archive)?;
    if recovery != Recovery::Nothing {
        say(&recovery.to_string());
    }
    let ids = match id {
        Some(id) => vec![id],
        None => written_repairs(&archive)?,
    };
    let mut done = Vec::new();
    let mut refused = None;
    for id in ids {
        match undo(&target, &archive, &journal, id, date::now()) {
            Ok(by) => done.push((id, by)),
            Err(error @ HostError::NotUndone { .. }) => {
                refused = Some(error.to_string());
                // An older repair of the same bytes would be refused as well, or worse, would not.
                break;
            }
            Err(error) => return Err(error.into()),
        }
    }
    if args.json {
        print_json(&show::undone(&done, refused.as_deref()));
    } else {
        print(&show::undone_words(&done, refused.as_deref()));
    }
    Ok(if refused.is_some() { ExitCode::from(1) } else { ExitCode::SUCCESS })
}

/// Gives up an interrupted repair.
fn give_up(args: &RepairsArgs) -> Result<ExitCode, Failure> {
    let (array, _) = one_array(args)?;
    let state = StateFiles::open(&folder(args)?, array)?;
    match state.journal()? {
        Found::Settled(_) => Err(Failure::new(format!("no repair of array {array} was interrupted"))),
        Found::Waiting(waiting) => {
            let id = waiting.entry();
            drop_waiting(waiting, &state.archive())?;
            print(&format!("the interrupted repair {id} is given up; its journal is kept in the archive\n"));
            Ok(ExitCode::SUCCESS)
        }
    }
}

fn forget(args: &RepairsArgs, id: Option<EntryId>, older_than: Option<u64>) -> Result<ExitCode, Failure> {
    let chosen = match id {
        Some(_) => vec![one_array(args)?],
        None => arrays(args)?,
    };
    let mut gone = 0;
    for (array, _) in chosen {
        // The lock: no repair is at work, and the journal says which entry it needs.
        let state = StateFiles::open(&folder(args)?, array)?;
        let archive = state.archive();
        let waiting = state.waiting_entry()?;
        let old = |entry: &Entry| {
            older_than.is_some_and(|ns| date::now().saturating_sub(entry.occasion.time) > ns / 1_000_000_000)
        };
        for number in archive.ids()? {
            let wanted = match id {
                Some(id) => id == number,
                None => archive.read(number).ok().flatten().is_some_and(|entry| old(&entry)),
            };
            if !wanted {
                continue;
            }
            if waiting == Some(number) {
                return Err(Failure::new(format!(
                    "repair {number} was interrupted: finish it first, with pumice scrub --repair"
                )));
            }
            archive.forget(number)?;
            gone += 1;
        }
    }
    match id {
        Some(id) if gone == 0 => Err(none(id)),
        _ if args.json => {
            print_json(&serde_json::json!({ "forgotten": gone }));
            Ok(ExitCode::SUCCESS)
        }
        _ => {
            print(&format!("deleted the replaced bytes of {gone} repairs\n"));
            Ok(ExitCode::SUCCESS)
        }
    }
}
