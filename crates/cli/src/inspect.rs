//! `pumice inspect`.

use crate::access::metadata;
use crate::page::Page;
use crate::running::{Running, running};
use crate::table::{Cell, Column, Table};
use crate::text::print_json;
use clap::Args;
use pumice_base::units::{format_binary, format_decimal};
use pumice_raid::assembly::{Note, State};
use pumice_raid::format::is_named;
use pumice_raid::{InspectReport, Metadata};
use pumice_service::access::Access;
use pumice_service::assembling::survey;
use pumice_service::failure::Failure;
use pumice_service::opening::expand;
use pumice_service::probed::Probed;
use pumice_service::probing::probe_each;
use pumice_service::remote::hosts_of;
use pumice_service::say::say;
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Shows the arrays that devices belong to: geometry, state, members, and the reason if an array
/// cannot be checked.
#[derive(Debug, Args)]
#[command(
    after_help = "Exit codes: 0 every array can be checked, 1 an array cannot be checked, 2 a device has no valid superblock, or the report could not be written."
)]
pub(crate) struct InspectArgs {
    /// Block devices or image files; /dev/mdX for all members of a running array;
    /// nvme://HOST:PORT/NSID for one drive of a data node; nvme://HOST:PORT for all drives of the
    /// node that have a superblock
    #[arg(required = true, value_name = "DEVICE")]
    devices: Vec<PathBuf>,
    /// The version of the superblocks that count: 0.90, 1.0, 1.1 or 1.2. Needed if users of the
    /// array have written superblocks of other versions into it, on all members
    #[arg(long, value_name = "VERSION", value_parser = metadata)]
    metadata: Option<Metadata>,
    /// Only this array, by its name or UUID
    #[arg(long, value_name = "NAME|UUID")]
    array: Option<String>,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Serialize)]
struct Document {
    arrays: Vec<ArrayDocument>,
    /// Problems with devices: each is on standard error too.
    problems: Vec<String>,
}

#[derive(Debug, Serialize)]
struct ArrayDocument {
    uuid: String,
    name: String,
    level: i32,
    layout: Option<String>,
    metadata: String,
    chunk_bytes: u64,
    raid_disks: u16,
    size_bytes: u64,
    stripes: u64,
    events: u64,
    state: String,
    members: Vec<MemberDocument>,
    problems: Vec<String>,
    notes: Vec<String>,
}

#[derive(Debug, Serialize)]
struct MemberDocument {
    role: Option<u16>,
    device: Option<String>,
    events: Option<u64>,
    state: String,
    data_offset_bytes: Option<u64>,
    device_uuid: Option<String>,
}

impl From<&InspectReport> for ArrayDocument {
    fn from(report: &InspectReport) -> Self {
        let members = report.members.iter().map(|member| MemberDocument {
            role: member.role.map(|role| role.0),
            device: member.device.clone(),
            events: member.events,
            state: member.state.to_string(),
            data_offset_bytes: member.data_offset_bytes,
            device_uuid: member.device_uuid.map(|uuid| uuid.to_string()),
        });
        Self {
            uuid: report.uuid.to_string(),
            name: report.name.clone(),
            level: report.level.number(),
            layout: report.layout.map(|layout| layout.to_string()),
            metadata: report.metadata.to_owned(),
            chunk_bytes: report.chunk_bytes,
            raid_disks: report.raid_disks,
            size_bytes: report.size_bytes,
            stripes: report.stripes,
            events: report.events,
            state: report.state.to_string(),
            members: members.collect(),
            problems: report.problems.clone(),
            notes: report.notes.clone(),
        }
    }
}

/// Runs the command.
pub(crate) fn run(args: &InspectArgs) -> Result<ExitCode, Failure> {
    let mut problems = Vec::new();
    let mut devices = Vec::new();
    let access = Access { allow_in_use: true, metadata: args.metadata, ..Access::default() };
    for device in probe_each(&expand(&args.devices, Path::new("/sys"))?, access)? {
        match device {
            Ok(probed) if probed.found.is_some() => devices.push(probed),
            Ok(Probed { path, holds, .. }) => problems.push(format!("{path}: no md superblock{holds}")),
            Err(failure) => problems.push(failure.to_string()),
        }
    }
    let (mut arrays, of_none) = survey(&devices);
    if let Some(asked) = &args.array {
        let asked = asked.strip_prefix("/dev/").unwrap_or(asked);
        arrays.retain(|array| is_named(asked, &array.report.name, array.report.uuid));
        if arrays.is_empty() {
            return Err(Failure::new(format!("no array on these devices is named '{asked}'")));
        }
    } else {
        problems.extend(of_none);
    }
    let mut reports = Vec::with_capacity(arrays.len());
    for array in arrays {
        // If the node has disappeared since, the structures that were read remain valid.
        let hosts = hosts_of(array.devices.iter().map(|i| &devices[*i])).unwrap_or_else(|failure| {
            problems.push(failure.to_string());
            None
        });
        let mut report = array.report;
        ask_who_runs(&mut report, hosts.as_deref());
        reports.push(report);
    }
    let arrays: Vec<ArrayDocument> = reports.iter().map(ArrayDocument::from).collect();
    if args.json {
        print_json(&Document { arrays, problems: problems.clone() });
    } else {
        let mut page = Page::new();
        for (number, array) in arrays.iter().enumerate() {
            if number > 0 {
                page.blank();
            }
            human(&mut page, array);
        }
        page.print();
    }
    for problem in &problems {
        say(&problem.to_string());
    }
    let code = match (problems.is_empty(), reports.iter().all(InspectReport::is_whole)) {
        (false, _) => 2,
        (true, false) => 1,
        (true, true) => 0,
    };
    Ok(ExitCode::from(code))
}

/// An array that runs, here or on hosts that are connected to all of its drives, is shown as
/// active, even if its superblocks look unclean.
fn ask_who_runs(report: &mut InspectReport, hosts: Option<&str>) {
    if !matches!(report.state, State::Unclean | State::Active) {
        return;
    }
    let devices: Vec<PathBuf> =
        report.members.iter().filter_map(|member| member.device.as_ref().map(PathBuf::from)).collect();
    let here = running(&devices, Path::new("/sys")).filter(Running::is_settled);
    let who = match (here, hosts) {
        (Some(array), _) => format!("assembled and running as {}", array.name),
        (None, Some(hosts)) => format!("in use by another host: {hosts} connected to all of its drives"),
        (None, None) => return,
    };
    report.state = State::Active;
    report.notes.retain(|note| *note != Note::Unclean.to_string());
    report.notes.push(who);
}

fn human(page: &mut Page, array: &ArrayDocument) {
    let missing = array.members.iter().filter(|m| m.role.is_some() && m.device.is_none()).count();
    let layout = array.layout.as_ref().map_or(String::new(), |layout| format!(" {layout}"));
    let members = usize::from(array.raid_disks);
    page.line(&format!(
        "RAID-{}{layout}, {}, {} of {members} members: {}",
        array.level,
        format_decimal(array.size_bytes),
        members - missing.min(members),
        array.state,
    ));
    if !array.name.is_empty() {
        page.field("name", &array.name);
    }
    page.field("uuid", &array.uuid);
    page.field("metadata", &format!("{}, {} events", array.metadata, array.events));
    if array.chunk_bytes > 0 {
        page.field("chunk", &format_binary(array.chunk_bytes));
    }
    let columns = [
        Column::left("member"),
        Column::left("state"),
        Column::right("events"),
        Column::right("data at"),
        Column::left("device").wrapping(1),
    ];
    let mut table = Table::new(columns);
    for member in &array.members {
        let dash = || "-".to_owned();
        let cells = [
            member.role.map_or_else(dash, |role| role.to_string()),
            member.state.clone(),
            member.events.map_or_else(dash, |e| e.to_string()),
            member.data_offset_bytes.map_or_else(dash, format_binary),
            member.device.clone().unwrap_or_else(dash),
        ];
        table.row(cells.map(Cell::from));
    }
    page.blank();
    page.table(&table);
    for problem in &array.problems {
        page.line(&format!("problem: {problem}"));
    }
    for note in &array.notes {
        page.line(&format!("note: {note}"));
    }
}
