//! `pumice status`: everything on this machine on one page.
//!
//! It asks every process by its socket, the kernel by sysfs, and reads the history, all at once and
//! until a moment. `docs/guide/status.md` has the pages.

mod document;
mod drive;
mod gather;
mod md;
mod past;
mod show;

use self::document::{Array, Document, State};
use self::gather::Places;
use self::show::Asked;
use crate::page::Page;
use crate::table::is_terminal;
use crate::text::{is_undelivered, print_json_line};
use clap::Args;
use pumice_service::failure::Failure;
use pumice_service::identity::default_state_dir;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

/// Name of the database in the state folder.
const HISTORY: &str = "history.db";
/// Folders of all sockets, and of the state: of the machine.
const RUN: &str = "/run/pumice";
const STATE: &str = "/var/lib/pumice";

/// Shows what runs on this machine and how it is: arrays, volumes, scrubs, alerts.
///
/// The first word is the state: OK, UNKNOWN, WARNING, DAMAGE, DEGRADED or HELD. It asks the
/// processes themselves, the kernel and the history; the monitor need not run. A process that does
/// not answer is named; nothing takes longer than 1.2 s.
#[derive(Debug, Args)]
#[command(after_help = "\
Exit codes: 0 nothing needs a person, 1 a person should look, 2 could not run, or something could not \
be asked and nothing else needs a person.")]
pub(crate) struct StatusArgs {
    /// Only these arrays: name, UUID or /dev/mdX
    #[arg(value_name = "NAME")]
    names: Vec<String>,
    /// Only what is not well
    #[arg(short = 'x', long = "only-wrong")]
    only_wrong: bool,
    /// Again every so many seconds, until it is stopped
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=86_400))]
    watch: Option<u64>,
    /// Folder of the sockets of served volumes, as for `pumice volume`, or of all sockets [default:
    /// /run/pumice, and $XDG_RUNTIME_DIR/pumice]
    #[arg(long, value_name = "DIR", value_parser = crate::access::folder())]
    run_dir: Option<PathBuf>,
    #[command(flatten)]
    history: HistoryFile,
    /// Print one JSON document, on one line
    #[arg(long)]
    json: bool,
    /// The root folder, for tests
    #[arg(long, hide = true, default_value = "/", value_name = "DIR")]
    root: PathBuf,
}

/// The file of the history.
#[derive(Debug, Clone, Args)]
pub(crate) struct HistoryFile {
    /// The history, or a backup of it [default: /var/lib/pumice/history.db]
    #[arg(long = "history", value_name = "FILE")]
    file: Option<PathBuf>,
}

impl HistoryFile {
    /// The file that is named, or else that of the machine, or else that of this user.
    pub(crate) fn path(&self) -> PathBuf {
        let of_machine = Path::new(STATE).join(HISTORY);
        match &self.file {
            Some(file) => file.clone(),
            None if of_machine.exists() => of_machine,
            None => default_state_dir().map_or(of_machine, |folder| folder.join(HISTORY)),
        }
    }
}

/// The UUID of an array that the kernel runs, by its name or device.
pub(crate) fn uuid_of_running(name: &str) -> Option<String> {
    md::arrays(Path::new("/")).into_iter().find(|array| is(array, name))?.uuid
}

fn places(args: &StatusArgs) -> Places {
    let of_user = || {
        let folder = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|path| path.is_absolute());
        folder.map(|folder| folder.join("pumice"))
    };
    Places {
        run: match &args.run_dir {
            Some(folder) => vec![folder.clone()],
            None => [Some(PathBuf::from(RUN)), of_user()].into_iter().flatten().collect(),
        },
        volumes: args.run_dir.clone(),
        history: args.history.path(),
        root: args.root.clone(),
    }
}

fn is(array: &Array, name: &str) -> bool {
    let plain = name.strip_prefix("/dev/md/").or_else(|| name.strip_prefix("/dev/")).unwrap_or(name);
    array.name == plain || array.name == name || array.uuid.as_deref() == Some(name)
}

/// Keeps the arrays that were named.
fn only(document: &mut Document, names: &[String]) -> Result<(), Failure> {
    for name in names {
        if !document.arrays.iter().any(|array| is(array, name)) {
            let silent = match document.silent.first() {
                Some(silent) => format!("; {} gave no answer: {}", silent.what, silent.why),
                None => String::new(),
            };
            let what =
                format!("{name}: no array of that name or UUID runs, is served or is known here{silent}");
            return Err(Failure::new(what));
        }
    }
    document.arrays.retain(|array| names.iter().any(|name| is(array, name)));
    let uuids: Vec<Option<String>> = document.arrays.iter().map(|array| array.uuid.clone()).collect();
    document.alerts.retain(|alert| alert.array.is_some() && uuids.contains(&alert.array));
    let state = document.arrays.iter().map(|array| array.state).max();
    document.state = state.unwrap_or(State::Ok);
    Ok(())
}

fn once(args: &StatusArgs, places: &Places) -> Result<State, Failure> {
    let mut document = gather::all(places);
    if !args.names.is_empty() {
        only(&mut document, &args.names)?;
    }
    if args.json {
        print_json_line(&document);
    } else {
        let mut page = Page::new();
        show::page(&mut page, &document, Asked { names: &args.names, only_wrong: args.only_wrong });
        page.print();
    }
    Ok(document.state)
}

/// Runs the command.
pub(crate) fn run(args: &StatusArgs) -> Result<ExitCode, Failure> {
    let places = places(args);
    let Some(seconds) = args.watch else {
        return Ok(ExitCode::from(once(args, &places)?.exit()));
    };
    loop {
        if !args.json && is_terminal() {
            // The cursor to the first line, and everything after it away.
            crate::text::clear();
        }
        let state = once(args, &places)?;
        if is_undelivered() {
            return Ok(ExitCode::from(state.exit()));
        }
        std::thread::sleep(Duration::from_secs(seconds));
        if !args.json && !is_terminal() {
            crate::text::print("\n");
        }
    }
}
