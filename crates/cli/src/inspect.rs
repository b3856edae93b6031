//! `pumice inspect`.

use crate::access::metadata;
use crate::running::{Running, running};
use crate::text::{print, print_json, table};
use clap::Args;
use pumice_base::units::{format_binary, format_decimal};
use pumice_raid::assembly::{Note, State};
use pumice_raid::{InspectReport, Metadata, Uuid};
use pumice_service::access::Access;
use pumice_service::failure::Failure;
use pumice_service::opening::expand;
use pumice_service::probed::Probed;
use pumice_service::probing::probe_each;
use pumice_service::remote::hosts_of;
use pumice_service::say::say;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Shows the arrays that devices belong to: geometry, state, members, and the reason if an array
/// cannot be checked.
#[derive(Debug, Args)]
#[command(
    after_help = "Exit codes: 0 every array can be checked, 1 an array cannot be checked, 2 a device has no valid superblock, or\nthe report could not be written."
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
}

impl From<&InspectReport> for ArrayDocument {
    fn from(report: &InspectReport) -> Self {
        let members = report.members.iter().map(|member| MemberDocument {
            role: member.role.map(|role| role.0),
            device: member.device.clone(),
            events: member.events,
            state: member.state.to_string(),
            data_offset_bytes: member.data_offset_bytes,
        });
        Self {
            uuid: report.uuid.to_string(),
            name: report.name.clone(),
            level: report.level.number(),
            layout: report.layout.map(|layout| layout.to_string()),
            metadata: report.metadata.to_string(),
            chunk_bytes: report.chunk_bytes,
            raid_disks: report.raid_disks,
            size_bytes: report.size_bytes,
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
    let mut arrays: BTreeMap<Uuid, Vec<Probed>> = BTreeMap::new();
    let mut problems = Vec::new();
    let access = Access { allow_in_use: true, metadata: args.metadata, ..Access::default() };
    for device in probe_each(&expand(&args.devices, Path::new("/sys"))?, access)? {
        match device {
            Ok(Probed { record: Some(ref record), .. }) => {
                arrays.entry(record.superblock.array_uuid).or_default().push(device?);
            }
            Ok(Probed { path, holds, .. }) => problems.push(format!("{path}: no md superblock{holds}")),
            Err(failure) => problems.push(failure.to_string()),
        }
    }
    let mut reports = Vec::with_capacity(arrays.len());
    for devices in arrays.into_values() {
        // If the node has disappeared since, the records that were read remain valid.
        let hosts = hosts_of(&devices).unwrap_or_else(|failure| {
            problems.push(failure.to_string());
            None
        });
        let set = devices.into_iter().map(|device| (device.path, Ok(device.record)));
        let mut report = InspectReport::new(set.collect())?;
        ask_who_runs(&mut report, hosts.as_deref());
        reports.push(report);
    }
    if args.json {
        let arrays = reports.iter().map(ArrayDocument::from).collect();
        print_json(&Document { arrays, problems: problems.clone() });
    } else {
        print(&reports.iter().map(human).collect::<Vec<_>>().join("\n"));
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

fn human(report: &InspectReport) -> String {
    let mut out = String::new();
    let missing = report.members.iter().filter(|m| m.role.is_some() && m.device.is_none()).count();
    let _ = write!(out, "RAID-{}", report.level.number());
    if let Some(layout) = report.layout {
        let _ = write!(out, " {layout}");
    }
    let _ = writeln!(
        out,
        ", {}, {} of {} members: {}",
        format_decimal(report.size_bytes),
        usize::from(report.raid_disks) - missing.min(usize::from(report.raid_disks)),
        report.raid_disks,
        report.state,
    );
    if !report.name.is_empty() {
        let _ = writeln!(out, "name      {}", report.name);
    }
    let _ = writeln!(out, "uuid      {}", report.uuid);
    let _ = writeln!(out, "metadata  {}, {} events", report.metadata, report.events);
    if report.chunk_bytes > 0 {
        let _ = writeln!(out, "chunk     {}", format_binary(report.chunk_bytes));
    }
    let mut rows: Vec<Vec<String>> =
        vec![["member", "state", "events", "data at", "device"].map(str::to_owned).to_vec()];
    for member in &report.members {
        let dash = || "-".to_owned();
        rows.push(vec![
            member.role.map_or_else(dash, |role| role.to_string()),
            member.state.to_string(),
            member.events.map_or_else(dash, |e| e.to_string()),
            member.data_offset_bytes.map_or_else(dash, format_binary),
            member.device.clone().unwrap_or_else(dash),
        ]);
    }
    out.push('\n');
    out.push_str(&table(&rows));
    for problem in &report.problems {
        let _ = writeln!(out, "problem: {problem}");
    }
    for note in &report.notes {
        let _ = writeln!(out, "note: {note}");
    }
    out
}
