//! `pumice inspect`.

use crate::devices::{Access, expand, probe_all};
use crate::failure::Failure;
use crate::remote::{RemoteName, look_remote};
use crate::running::{Running, running};
use crate::text::{print, print_json, table};
use clap::Args;
use pumice_raid::assembly::State;
use pumice_raid::inspect::Probed;
use pumice_raid::{InspectReport, Uuid};
use pumice_units::{format_binary, format_decimal};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Shows the arrays that devices belong to: geometry, state, members, and what keeps an array from being checked.
#[derive(Debug, Args)]
#[command(after_help = "Exit codes: 0 every device carries a good superblock, 2 some do not.")]
pub(crate) struct InspectArgs {
    /// Block devices or image files; /dev/mdX, for its members; nvme://HOST:PORT/NSID or nvme://HOST:PORT, drives of a data node
    #[arg(required = true, value_name = "DEVICE")]
    devices: Vec<PathBuf>,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Serialize)]
struct Document {
    arrays: Vec<ArrayDocument>,
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
    let paths = expand(&args.devices, Path::new("/sys"))?;
    let mut arrays: BTreeMap<Uuid, Vec<Probed>> = BTreeMap::new();
    let mut problems = Vec::new();
    for path in &paths {
        // One device that cannot be opened or read says nothing of the others.
        match look(path) {
            Ok(found) => {
                for device in found {
                    match device {
                        Ok((uuid, probed)) => arrays.entry(uuid).or_default().push(probed),
                        Err(failure) => problems.push(failure.to_string()),
                    }
                }
            }
            Err(failure) => problems.push(failure.to_string()),
        }
    }
    let mut reports: Vec<InspectReport> =
        arrays.into_values().map(InspectReport::new).collect::<Result<_, _>>()?;
    reports.iter_mut().for_each(ask_the_kernel);
    if args.json {
        print_json(&Document { arrays: reports.iter().map(ArrayDocument::from).collect() });
    } else {
        print(&reports.iter().map(human).collect::<Vec<_>>().join("\n"));
    }
    for problem in &problems {
        eprintln!("pumice: {problem}");
    }
    Ok(ExitCode::from(if problems.is_empty() { 0 } else { 2 }))
}

/// An array that runs here is active, not unclean, whatever its superblocks leave open.
fn ask_the_kernel(report: &mut InspectReport) {
    let devices: Vec<PathBuf> =
        report.members.iter().filter_map(|member| member.device.as_ref().map(PathBuf::from)).collect();
    if report.state != State::Unclean {
        return;
    }
    if let Some(array) = running(&devices, Path::new("/sys")).filter(Running::is_settled) {
        report.state = State::Active;
        report.notes = vec![format!("assembled and running as {}", array.name)];
    }
}

/// A device that is a member of an array, or why it cannot be told.
type Found = Result<(Uuid, Probed), Failure>;

/// The members behind a name: one, or for a node all of its drives that are members.
fn look(path: &Path) -> Result<Vec<Found>, Failure> {
    let access = Access { write: false, allow_in_use: true };
    let found: Vec<Result<crate::devices::Probed, Failure>> = match RemoteName::of(path)? {
        Some(name) => look_remote(&[name], false)?.into_iter().map(|(_, looked)| looked).collect(),
        None => probe_all(&[path.to_owned()], access)?.into_iter().map(Ok).collect(),
    };
    let member = |device: crate::devices::Probed| match device.record {
        Some(record) => Ok((record.superblock.array_uuid, (device.path, Ok(Some(record))))),
        None => Err(Failure::new(format!("{}: no md superblock", device.path))),
    };
    Ok(found.into_iter().map(|device| device.and_then(member)).collect())
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
    let _ = writeln!(out, "chunk     {}", format_binary(report.chunk_bytes));
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
