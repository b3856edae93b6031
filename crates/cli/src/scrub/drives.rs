//! `pumice scrub --drives`: checks drives by their tags alone.

use super::ScrubArgs;
use crate::text::{count, print, print_json};
use pumice_base::units::format_decimal;
use pumice_host::stop::Stop;
use pumice_node::{LocalNode, NodeOptions, Peers};
use pumice_offload::{
    DataNode, DriveId, ErrorKind, MAX_UNREADABLE, Mode, NodeError, ParityCommand, ParityResult, Rule, Source,
    TagFault, TagFormat, TagReport, Unread, Window,
};
use pumice_protect::misdirected::{Differing, Misdirected, misdirected, tells};
use pumice_protect::origin::{Judged, Opinion, Origin};
use pumice_service::access::Access;
use pumice_service::failure::Failure;
use pumice_service::name::RemoteName;
use pumice_service::opening::open_here;
use pumice_service::place::RemotePlace;
use pumice_service::remote::connect;
use pumice_service::tagged;
use serde::Serialize;
use std::ops::Range;
use std::process::ExitCode;
use std::sync::Arc;

/// Bytes of one repetition of a parity command.
const CHUNK: u64 = 256 << 10;
/// Repetitions of a command.
const AT_ONCE: u64 = 1024;
/// Most findings of a drive in the document.
const MOST_FINDINGS: usize = 100_000;
/// Most blocks with differing tags that are compared with each other, to find misdirected writes.
const MOST_COMPARED: usize = 1024;
/// Findings of a drive that are printed.
const LISTED: usize = 40;

/// A drive to check.
struct Drive {
    node: Arc<dyn DataNode>,
    id: DriveId,
    name: String,
    size: u64,
}

#[derive(Debug, Serialize)]
struct Document {
    result: &'static str,
    drives: Vec<Checked>,
}

#[derive(Debug, Serialize)]
struct Checked {
    device: String,
    size_bytes: u64,
    /// Of a block with a tag; `None` without tags.
    block_bytes: Option<u32>,
    guard_bits: Option<u32>,
    checked_bytes: u64,
    tags: Option<Fit>,
    findings: Vec<Finding>,
    /// Findings beyond those that are told.
    more_findings: u64,
    /// Blocks whose content belongs at another place of the drive.
    misdirected: Vec<Astray>,
}

/// Blocks that were written to the wrong place.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct Astray {
    offset: u64,
    length: u64,
    belongs_at: u64,
}

/// Counts of blocks that match their tags, by origin, and of blocks without a tag.
#[derive(Debug, Default, Serialize)]
struct Fit {
    written: u64,
    vouched: u64,
    adopted: u64,
    unchecked: u64,
}

#[derive(Debug, PartialEq, Eq, Serialize)]
struct Finding {
    fault: &'static str,
    /// Of the tag that differs.
    origin: Option<&'static str>,
    offset: u64,
    length: u64,
}

/// Runs the command.
pub(super) fn run(args: &ScrubArgs) -> Result<ExitCode, Failure> {
    let drives = drives(args)?;
    let pace = args.pace()?;
    let stop = super::stop_on_signal()?;
    let mut out = Vec::new();
    for drive in &drives {
        if !pace.is_empty() {
            drive.node.pace(&pace)?;
        }
        let node = Arc::clone(&drive.node);
        let _listening = stop.listen(move || node.give_up());
        out.push(check(drive, &stop)?);
        if stop.is_raised() {
            break;
        }
    }
    let complete = out.len() == drives.len() && !stop.is_raised();
    let unasked = out.iter().flat_map(|drive| &drive.findings).any(|finding| finding.fault == "not_asked");
    let (result, code) = match (complete && !unasked, out.iter().all(|drive| drive.findings.is_empty())) {
        (false, _) => ("incomplete", 3),
        (true, true) => ("clean", 0),
        (true, false) => ("findings", 1),
    };
    let document = Document { result, drives: out };
    if args.json {
        print_json(&document);
    } else {
        print(&text(&document));
    }
    Ok(ExitCode::from(code))
}

/// The drives that were named: of nodes, and of this machine.
fn drives(args: &ScrubArgs) -> Result<Vec<Drive>, Failure> {
    let mut out = Vec::new();
    let mut here = Vec::new();
    for name in &args.devices {
        let Some(remote) = RemoteName::of(name)? else {
            here.push(name.clone());
            continue;
        };
        let remote = RemotePlace::of(&remote)?;
        let node = connect(remote.address, args.digest)?;
        let wanted = |id: DriveId| remote.nsid.is_none_or(|nsid| nsid == id.0);
        let found: Vec<Drive> = node
            .drives()
            .iter()
            .filter(|drive| wanted(drive.id))
            .map(|drive| Drive {
                node: Arc::clone(&node) as _,
                id: drive.id,
                name: RemotePlace { nsid: Some(drive.id.0), ..remote }.to_string(),
                size: drive.size_bytes,
            })
            .collect();
        if found.is_empty() {
            return Err(Failure::new(format!("{remote}: the node has no such drive")));
        }
        out.extend(found);
    }
    let devices = open_here(&here, Access::default())?;
    let sizes: Vec<u64> = devices.iter().map(|device| device.size_bytes()).collect();
    let node: Arc<dyn DataNode> =
        Arc::new(LocalNode::new("here", devices, &Peers::new(), NodeOptions::default()));
    for ((id, name), size) in (1..).zip(&here).zip(sizes) {
        let name = tagged::split(name)?.0.display().to_string();
        out.push(Drive { node: Arc::clone(&node), id: DriveId(id), name, size });
    }
    Ok(out)
}

/// A part of a drive: where it begins, and its repetitions.
struct Part {
    base: u64,
    chunk: u64,
    repetitions: Range<u64>,
}

fn check(drive: &Drive, stop: &Stop) -> Result<Checked, Failure> {
    let format = drive.node.tagged().map_or(Ok(None), |drives| drives.tag_format(drive.id))?;
    let mut out = Checked {
        device: drive.name.clone(),
        size_bytes: drive.size,
        block_bytes: format.map(|format| format.block_bytes),
        guard_bits: format.map(|format| format.guard.bits()),
        checked_bytes: 0,
        tags: format.map(|_| Fit::default()),
        findings: Vec::new(),
        more_findings: 0,
        misdirected: Vec::new(),
    };
    let whole = drive.size / CHUNK;
    let ranges = (0..whole).step_by(AT_ONCE as usize).map(|start| start..whole.min(start + AT_ONCE));
    let mut waiting: Vec<Part> =
        ranges.map(|repetitions| Part { base: 0, chunk: CHUNK, repetitions }).collect();
    if !drive.size.is_multiple_of(CHUNK) {
        waiting.push(Part { base: whole * CHUNK, chunk: drive.size % CHUNK, repetitions: 0..1 });
    }
    waiting.reverse();
    while let Some(part) = waiting.pop() {
        let result = match part_of(drive, &part) {
            // The wait was interrupted.
            Err(_) if stop.is_raised() => return Ok(out),
            result => result?,
        };
        let Range { start, end } = part.repetitions;
        if end - start > 1 && is_cut(&result) {
            let middle = start.midpoint(end);
            waiting.push(Part { repetitions: middle..end, ..part });
            waiting.push(Part { repetitions: start..middle, ..part });
            continue;
        }
        take(&mut out, &part, &result);
        if stop.is_raised() {
            break;
        }
    }
    if let Some(format) = format {
        match misdirected_on(drive, format, &out.findings) {
            // The wait was interrupted.
            Err(_) if stop.is_raised() => {}
            found => out.misdirected = found?,
        }
    }
    Ok(out)
}

/// Reads blocks that differ from their tags again, and says which of them hold what belongs to
/// another of them.
fn misdirected_on(drive: &Drive, format: TagFormat, findings: &[Finding]) -> Result<Vec<Astray>, Failure> {
    let size = u64::from(format.block_bytes);
    let differ = findings.iter().filter(|finding| finding.fault == "differs");
    let places =
        differ.flat_map(|finding| (finding.offset..finding.offset + finding.length).step_by(size as usize));
    let mut differing = Vec::new();
    for offset in places.take(MOST_COMPARED) {
        let mut data = vec![0; size as usize];
        let judged = match drive.node.tagged_drives()?.read_tagged(drive.id, offset, &mut data) {
            Ok(judged) => judged,
            Err(error) if error.kind() == ErrorKind::Media => continue,
            Err(error) => return Err(error.into()),
        };
        // It may have been written meanwhile.
        let [Judged { opinion: Opinion::Differs(_), guard }] = judged[..] else { continue };
        let found = tells(&data).then(|| format.guard.of(&data));
        differing.push(Differing { place: offset / size, found, wanted: guard });
    }
    let runs = misdirected(&differing, format.guard.bits()).into_iter();
    let astray = |run: Misdirected| Astray {
        offset: run.place * size,
        length: run.blocks * size,
        belongs_at: run.belongs * size,
    };
    Ok(runs.map(astray).collect())
}

/// Has the node read a part. Only the tags are judged, not the result of the equation.
fn part_of(drive: &Drive, part: &Part) -> Result<ParityResult, NodeError> {
    let chunk = part.chunk as u32;
    drive.node.parity(&ParityCommand {
        unpaced: false,
        sources: vec![Source::Media { drive: drive.id, base: part.base }],
        chunk,
        window: Window { start: 0, len: chunk },
        stripes: part.repetitions.clone(),
        rule: Rule::sum(1),
        mode: Mode::Check,
    })
}

/// Returns whether the node cut its list of places short.
fn is_cut(result: &ParityResult) -> bool {
    result.unreadable.len() >= MAX_UNREADABLE || result.tags.as_ref().is_some_and(TagReport::is_cut)
}

fn take(out: &mut Checked, part: &Part, result: &ParityResult) {
    out.checked_bytes += (part.repetitions.end - part.repetitions.start) * part.chunk;
    let place = |stripe: u64, start: u32| part.base + stripe * part.chunk + u64::from(start);
    let mut found: Vec<Finding> = Vec::new();
    for hole in &result.unreadable {
        let fault = if hole.why == Unread::Refused { "unreadable" } else { "not_asked" };
        let (offset, length) = (place(hole.stripe, hole.start), u64::from(hole.len));
        found.push(Finding { fault, origin: None, offset, length });
    }
    if let (Some(report), Some(fit)) = (&result.tags, &mut out.tags) {
        let of = |origin: Origin| report.fit[origin as usize];
        fit.written += of(Origin::Written);
        fit.vouched += of(Origin::Vouched);
        fit.adopted += of(Origin::Adopted);
        fit.unchecked += of(Origin::Unknown);
        for faulty in &report.places {
            let (fault, origin) = match faulty.fault {
                TagFault::Differs(origin) => ("differs", Some(origin.name())),
                TagFault::Lost => ("tag_lost", None),
            };
            let (offset, length) = (place(faulty.stripe, faulty.start), u64::from(faulty.len));
            found.push(Finding { fault, origin, offset, length });
        }
    }
    found.sort_by_key(|finding| finding.offset);
    for finding in found {
        let full = out.findings.len() >= MOST_FINDINGS;
        match out.findings.last_mut() {
            Some(last)
                if (last.offset + last.length, last.fault, last.origin)
                    == (finding.offset, finding.fault, finding.origin) =>
            {
                last.length += finding.length;
            }
            _ if full => out.more_findings += 1,
            _ => out.findings.push(finding),
        }
    }
}

fn text(document: &Document) -> String {
    let mut out = format!("{}\n", document.result.to_uppercase());
    for drive in &document.drives {
        out += &format!("\n{}: {} checked", drive.device, format_decimal(drive.checked_bytes));
        match (&drive.tags, drive.guard_bits) {
            (Some(fit), Some(bits)) => {
                let Fit { written, vouched, adopted, unchecked } = fit;
                out += &format!(
                    ", guards of {bits} bits: {written} written, {vouched} vouched, {adopted} adopted blocks fit, {unchecked} have no tag\n"
                );
            }
            _ => out += "; it has no tags, so only whether it can be read was checked\n",
        }
        for finding in drive.findings.iter().take(LISTED) {
            let what = match (finding.fault, finding.origin) {
                ("differs", Some(origin)) => format!("differs from its tag ({origin})"),
                ("tag_lost", _) => "has lost its tags, and was not checked".to_owned(),
                ("not_asked", _) => "was not read: the drive fails too often".to_owned(),
                _ => "cannot be read".to_owned(),
            };
            out += &format!("    {} at {}: {what}\n", count(finding.length, "byte"), finding.offset);
        }
        for astray in &drive.misdirected {
            out += &format!(
                "    {} at {} belong at {}: the drive wrote them to the wrong place\n",
                count(astray.length, "byte"),
                astray.offset,
                astray.belongs_at
            );
        }
        let more = drive.findings.len().saturating_sub(LISTED) as u64 + drive.more_findings;
        if more > 0 {
            out += &format!("    and {more} more; --json lists them\n");
        }
    }
    out
}
