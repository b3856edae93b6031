//! `pumice history`, `report`, `health` and `backup`: what the database of the monitor says. It is
//! opened to be read alone; `docs/reference/on-disk/history.md` has it.

mod show;

use crate::page::Page;
use crate::status::{HistoryFile, uuid_of_running};
use crate::text::{print, print_json};
use clap::Args;
use pumice_monitor::history::{ArrayRow, ArrayUuid, Count, DriveState, Limit, PassRow, Reader, Text, Time};
use pumice_service::failure::Failure;
use serde::Serialize;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::SystemTime;

/// Fewest digits of a pass that are taken for one.
const DIGITS: usize = 4;
/// Passes that are looked through for one that begins with given digits.
const LOOKED: usize = 100_000;

/// Lists passes, the last one first.
#[derive(Debug, Args)]
pub(crate) struct HistoryArgs {
    /// Only passes of this array: name, UUID or /dev/mdX
    #[arg(value_name = "ARRAY")]
    array: Option<String>,
    /// Number of passes
    #[arg(short = 'n', long, value_name = "NUMBER", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    last: u32,
    #[command(flatten)]
    history: HistoryFile,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

/// Shows what a pass found: each place, and what else it could be.
#[derive(Debug, Args)]
pub(crate) struct ReportArgs {
    /// An array (name, UUID or /dev/mdX), whose last pass is shown; or a pass, by the first digits
    /// of its number in `pumice history` [default: the last pass of all]
    #[arg(value_name = "ARRAY|PASS")]
    subject: Option<String>,
    #[command(flatten)]
    history: HistoryFile,
    /// Print the document of the scrub as it was kept
    #[arg(long)]
    json: bool,
}

/// Shows drives and how they were when they were last asked.
#[derive(Debug, Args)]
pub(crate) struct HealthArgs {
    #[command(flatten)]
    history: HistoryFile,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

/// Copies the history to a folder, and checks the copy. The monitor may write meanwhile.
#[derive(Debug, Args)]
pub(crate) struct BackupArgs {
    /// The folder, which must be there; the copy is named after the time
    #[arg(value_name = "DIR", value_parser = crate::access::folder())]
    folder: PathBuf,
    #[command(flatten)]
    history: HistoryFile,
}

/// A pass of the list. Times are seconds since 1970.
#[derive(Debug, Clone, PartialEq, Serialize)]
struct Pass {
    pass: String,
    array: Option<String>,
    name: Option<String>,
    by: String,
    begun: u64,
    ended: u64,
    method: String,
    result: String,
    stopped: Option<String>,
    range: Range,
    complete: bool,
    degraded: bool,
    stripes_checked: u64,
    stripes_skipped: u64,
    bytes_checked: u64,
    seconds: f64,
    findings: u64,
    busy: u64,
    repaired: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct Range {
    start: u64,
    end: u64,
}

/// A drive. Times are seconds since 1970.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct Drive {
    drive: String,
    device: String,
    model: String,
    serial: String,
    seen: u64,
    state: &'static str,
    /// Time of the last sample; null if there is none.
    sampled: Option<u64>,
    celsius: Option<i16>,
    media_errors: Option<u64>,
    worn_percent: Option<u8>,
    power_on_hours: Option<u64>,
}

const fn seconds(time: Time) -> u64 {
    time.micros().unsigned_abs() / 1_000_000
}

fn pass(row: &PassRow, array: Option<&ArrayRow>) -> Pass {
    Pass {
        pass: row.pass.to_string(),
        array: array.map(|array| array.uuid.to_string()),
        name: array.map(|array| array.name.to_string()),
        by: row.by.to_string(),
        begun: seconds(row.begun),
        ended: seconds(row.ended),
        method: row.method.to_string(),
        result: row.result.to_string(),
        stopped: row.stopped.as_ref().map(ToString::to_string),
        range: Range { start: row.first_stripe.get(), end: row.end_stripe.get() },
        complete: row.complete,
        degraded: row.degraded,
        stripes_checked: row.stripes_checked.get(),
        stripes_skipped: row.stripes_skipped.get(),
        bytes_checked: row.bytes_checked.get(),
        seconds: row.reading_us.get() as f64 / 1e6,
        findings: row.findings.get(),
        busy: row.busy.get(),
        repaired: row.repaired.get(),
    }
}

/// All arrays.
fn arrays(reader: &Reader) -> Result<Vec<ArrayRow>, Failure> {
    let mut all: Vec<ArrayRow> = Vec::new();
    loop {
        let page = reader.arrays(all.last().map(|last| &last.uuid), Limit::MAX)?;
        if page.is_empty() {
            return Ok(all);
        }
        all.extend(page);
    }
}

/// The array of a name or UUID; `None` if no pass of such an array is known.
fn named(reader: &Reader, name: &str) -> Result<Option<ArrayRow>, Failure> {
    let uuid = uuid_of_running(name).unwrap_or_else(|| name.to_owned());
    if let Ok(uuid) = ArrayUuid::try_from(uuid) {
        return Ok(reader.array(&uuid)?);
    }
    let mut of_name: Vec<ArrayRow> =
        arrays(reader)?.into_iter().filter(|array| array.name.as_str() == name).collect();
    match of_name.len() {
        0 => Ok(None),
        1 => Ok(Some(of_name.remove(0))),
        n => Err(Failure::new(format!("{name}: {n} arrays have that name; give the UUID"))),
    }
}

fn unknown(reader: &Reader, name: &str) -> Failure {
    Failure::new(format!("{name}: no pass of such an array is in {}", reader.path().display()))
}

/// Passes, the last one first.
fn passes(reader: &Reader, array: Option<&ArrayRow>, most: usize) -> Result<Vec<PassRow>, Failure> {
    let mut all: Vec<PassRow> = Vec::new();
    while all.len() < most {
        let limit = Limit::nearest((most - all.len()).min(1000));
        let page = reader.passes(array, all.last().map(PassRow::cursor), limit)?;
        if page.is_empty() {
            break;
        }
        all.extend(page);
    }
    Ok(all)
}

/// Runs `pumice history`.
pub(crate) fn list(args: &HistoryArgs) -> Result<ExitCode, Failure> {
    let reader = Reader::open(&args.history.path())?;
    let of = match &args.array {
        Some(name) => Some(named(&reader, name)?.ok_or_else(|| unknown(&reader, name))?),
        None => None,
    };
    let rows = passes(&reader, of.as_ref(), args.last as usize)?;
    let known = arrays(&reader)?;
    let mut all = Vec::with_capacity(rows.len());
    for row in &rows {
        let array = reader.array_of(row)?;
        all.push(pass(row, known.iter().find(|known| array.as_ref().is_some_and(|a| a.uuid == known.uuid))));
    }
    if args.json {
        print_json(&serde_json::json!({ "passes": all }));
    } else {
        let mut page = Page::new();
        show::passes(&mut page, &all);
        page.print();
    }
    Ok(ExitCode::SUCCESS)
}

/// The pass that `pumice report` is asked for.
fn wanted(reader: &Reader, subject: Option<&str>) -> Result<PassRow, Failure> {
    let Some(subject) = subject else {
        let last = passes(reader, None, 1)?.pop();
        return last.ok_or_else(|| Failure::new(format!("{}: it has no passes", reader.path().display())));
    };
    if let Some(array) = named(reader, subject)? {
        return passes(reader, Some(&array), 1)?.pop().ok_or_else(|| unknown(reader, subject));
    }
    let is_number = |c: char| c.is_ascii_digit() || matches!(c, 'a'..='f');
    if subject.len() < DIGITS || subject.len() > 32 || !subject.chars().all(is_number) {
        return Err(unknown(reader, subject));
    }
    let mut found = passes(reader, None, LOOKED)?;
    found.retain(|row| row.pass.as_str().starts_with(subject));
    match found.len() {
        1 => Ok(found.remove(0)),
        0 => Err(Failure::new(format!("{subject}: no array and no pass of that name or number is known"))),
        n => Err(Failure::new(format!("{subject}: {n} passes begin with these digits; give more"))),
    }
}

/// Runs `pumice report`.
pub(crate) fn report(args: &ReportArgs) -> Result<ExitCode, Failure> {
    let reader = Reader::open(&args.history.path())?;
    let row = wanted(&reader, args.subject.as_deref())?;
    let kept = reader.report(&row)?;
    if args.json {
        let kept = kept.ok_or_else(|| {
            Failure::new(format!("the document of pass {} is no longer kept; without --json", row.pass))
        })?;
        let document: serde_json::Value = serde_json::from_slice(&kept)?;
        print_json(&document);
        return Ok(ExitCode::SUCCESS);
    }
    let array = reader.array_of(&row)?;
    let findings = match kept.as_deref().and_then(show::findings_of) {
        Some(findings) => show::Findings::Whole(findings),
        None => {
            let mut rows = Vec::new();
            loop {
                let page = reader.findings(&row, rows.len() as u32, Limit::MAX)?;
                if page.is_empty() {
                    break show::Findings::Rows(rows);
                }
                rows.extend(page);
            }
        }
    };
    show::report(&pass(&row, array.as_ref()), &findings);
    Ok(ExitCode::SUCCESS)
}

/// Runs `pumice health`.
pub(crate) fn health(args: &HealthArgs) -> Result<ExitCode, Failure> {
    let reader = Reader::open(&args.history.path())?;
    let mut all: Vec<Drive> = Vec::new();
    let mut after: Option<Text> = None;
    loop {
        let page = reader.drives(after.as_ref(), Limit::MAX)?;
        for (drive, seen) in &page {
            let last = reader.health(&drive.drive, Time::MAX, Limit::nearest(1))?.pop();
            all.push(Drive {
                drive: drive.drive.to_string(),
                device: drive.device.to_string(),
                model: drive.model.to_string(),
                serial: drive.serial.to_string(),
                seen: seconds(*seen),
                state: last.as_ref().map_or(DriveState::Unknown, |sample| sample.state).as_str(),
                sampled: last.as_ref().map(|sample| seconds(sample.at)),
                celsius: last.as_ref().and_then(|sample| sample.celsius),
                media_errors: last.as_ref().and_then(|sample| sample.media_errors).map(Count::get),
                worn_percent: last.as_ref().and_then(|sample| sample.worn_percent),
                power_on_hours: last.as_ref().and_then(|sample| sample.power_on_hours).map(Count::get),
            });
        }
        match page.into_iter().last() {
            Some((last, _)) => after = Some(last.drive),
            None => break,
        }
    }
    if args.json {
        print_json(&serde_json::json!({ "drives": all }));
    } else {
        let mut page = Page::new();
        show::drives(&mut page, &all);
        page.print();
    }
    Ok(ExitCode::SUCCESS)
}

/// Runs `pumice backup`.
pub(crate) fn backup(args: &BackupArgs) -> Result<ExitCode, Failure> {
    let reader = Reader::open(&args.history.path())?;
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let now = Time::try_from(u64::try_from(now.as_micros()).unwrap_or(u64::MAX))?;
    let made = reader.backup(&args.folder, now)?;
    print(&format!("{}\n", made.display()));
    Ok(ExitCode::SUCCESS)
}
