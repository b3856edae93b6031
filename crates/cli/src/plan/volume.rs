//! `pumice plan --write`: the bytes that a volume moves over links.

use super::PlanArgs;
use crate::text::{count, print, print_json, table};
use clap::ValueEnum;
use pumice_base::units::format_binary;
use pumice_executor::{Links, PlanSpec, Work, plan};
use pumice_raid::layout::{Layout, Level};
use pumice_service::failure::Failure;
use serde::Serialize;
use std::process::ExitCode;

/// Protection of rows against a crash.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Consistency {
    Log,
    Bitmap,
}

#[derive(Debug, Serialize)]
struct Document {
    members: u64,
    parity: u64,
    nodes: u64,
    chunk_bytes: u64,
    consistency: Consistency,
    work: Vec<Line>,
}

#[derive(Debug, Serialize)]
struct Line {
    work: &'static str,
    offload: bool,
    /// For each byte of the user, or restored.
    host_sends: Bytes,
    host_receives: Bytes,
    node_to_node: f64,
}

#[derive(Debug, Serialize)]
struct Bytes {
    payload: f64,
    protocol: f64,
}

const fn name(work: Work) -> &'static str {
    match work {
        Work::FullStripes => "full stripe write",
        Work::Blocks => "write of 4096 bytes",
        Work::DegradedReads => "read of 4096 bytes of a lost drive",
        Work::Rebuild => "rebuild",
    }
}

fn line(work: Work, offload: bool, links: &Links) -> Line {
    let each = |bytes: u64| bytes as f64 / links.user.max(1) as f64;
    let both = |moved: pumice_executor::Moved| Bytes {
        payload: each(moved.payload),
        protocol: each(moved.protocol),
    };
    Line {
        work: name(work),
        offload,
        host_sends: both(links.sent),
        host_receives: both(links.received),
        node_to_node: each(links.between),
    }
}

/// Runs the command.
pub(super) fn run(args: &PlanArgs) -> Result<ExitCode, Failure> {
    let level = match args.parity {
        1 => Level::Raid5,
        2 => Level::Raid6,
        other => return Err(Failure::new(format!("--parity is {other}: volumes have 1 or 2"))),
    };
    if args.nodes > args.members {
        let members = args.members;
        return Err(Failure::new(format!(
            "--nodes is {}: it must be at most --members, {members}",
            args.nodes
        )));
    }
    // Both are at most 1920.
    let (members, nodes) = (args.members as u16, args.nodes as u16);
    let mut work = Vec::new();
    for kind in Work::ALL {
        for offload in [true, false] {
            let spec = PlanSpec {
                level,
                layout: Some(Layout::LeftSymmetric),
                members,
                nodes,
                chunk_bytes: args.chunk,
                log: args.consistency == Consistency::Log,
                offload,
            };
            work.push(line(kind, offload, &plan(&spec, kind)?));
        }
    }
    let document = Document {
        members: args.members,
        parity: args.parity,
        nodes: args.nodes,
        chunk_bytes: args.chunk,
        consistency: args.consistency,
        work,
    };
    if args.json {
        print_json(&document);
    } else {
        print(&human(&document));
    }
    Ok(ExitCode::SUCCESS)
}

fn human(document: &Document) -> String {
    let consistency = match document.consistency {
        Consistency::Log => "the stripe log",
        Consistency::Bitmap => "the bitmap",
    };
    let mut out = format!(
        "A volume of {}+{} drives on {}, chunks of {}, consistency by {consistency}\nBytes over links, for each byte of the user or rebuilt; headers and commands are counted apart\n\n",
        document.members - document.parity,
        document.parity,
        count(document.nodes, "node"),
        format_binary(document.chunk_bytes),
    );
    let head = ["", "offload", "host sends", "protocol", "host receives", "protocol", "node to node"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    for line in &document.work {
        rows.push(vec![
            line.work.to_owned(),
            if line.offload { "on" } else { "off" }.to_owned(),
            format!("{:.4}", line.host_sends.payload),
            format!("{:.4}", line.host_sends.protocol),
            format!("{:.4}", line.host_receives.payload),
            format!("{:.4}", line.host_receives.protocol),
            format!("{:.4}", line.node_to_node),
        ]);
    }
    out.push_str(&table(&rows));
    out
}
