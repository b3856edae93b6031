//! `pumice demo --network`: three node processes on this machine, and the bytes that crossed their
//! sockets.

use super::damage::plant;
use super::world::World;
use super::{NODES, assemble_world};
use crate::devices::{Placement, assemble_from, place};
use crate::node_processes::start_nodes;
use crate::progress::Silent;
use crate::text::{print, print_json, table};
use pumice_base::units::format_decimal;
use pumice_host::Method;
use pumice_host::finding::Finding;
use pumice_host::scrub::{Options, Outcome, run as run_pass};
use pumice_host::stop::Stop;
use pumice_host::target::Target;
use pumice_node::NodeOptions;
use pumice_remote::RemoteNode;
use pumice_service::access::Access;
use pumice_service::failure::Failure;
use pumice_service::place::RemotePlace;
use pumice_service::probed::nodes_of;
use pumice_service::probing::probe_all;
use pumice_service::state::fresh_seed;
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

/// Stripes: three whole batches, 1.2 GB.
const STRIPES: u64 = 765;

#[derive(Debug, Serialize)]
struct Document {
    network: Vec<Line>,
    /// Every method found over the network what it finds in this process, field by field
    /// but for the names of devices.
    same_findings: bool,
    findings: usize,
}

#[derive(Debug, Serialize)]
struct Line {
    method: Method,
    scrubbed_bytes: u64,
    socket_bytes: u64,
    seconds: f64,
}

/// Runs the demonstration.
pub(super) fn run(folder: &Path, json: bool) -> Result<ExitCode, Failure> {
    let world = World::make(folder, STRIPES)?;
    // Neighbouring roles share a node.
    let share = world.paths().len() / NODES;
    let drives: Vec<Vec<_>> = world
        .paths()
        .chunks(share)
        .take(NODES)
        .map(|paths| paths.iter().map(|path| path.clone().into_os_string()).collect())
        .collect();
    let nodes = start_nodes(&drives)?;
    let names: Vec<PathBuf> =
        nodes.iter().map(|n| RemotePlace { address: n.address, nsid: None }.to_string().into()).collect();
    if !json {
        print(&format!(
            "An array of {} drives behind {NODES} node processes on this machine: {}.\n\
             Each method checks it once; the nodes count every byte that goes over their sockets.\n\n",
            world.members(),
            format_decimal(world.bytes()),
        ));
    }
    let (target, remote) = assemble_remote(&names)?;
    let mut network = Vec::new();
    for method in Method::ALL {
        let before = socket_bytes(&remote)?;
        let outcome = check(&target, method)?;
        let socket_bytes = socket_bytes(&remote)? - before;
        if !outcome.findings.is_empty() || !outcome.is_complete() {
            return Err(Failure::new(format!("{method} found damage in an undamaged array")));
        }
        let (scrubbed_bytes, seconds) = (outcome.bytes_checked, outcome.seconds);
        network.push(Line { method, scrubbed_bytes, socket_bytes, seconds });
    }
    plant(&world)?;
    let far: Vec<Outcome> = Method::ALL.into_iter().map(|m| check(&target, m)).collect::<Result<_, _>>()?;
    drop((target, remote, nodes));
    let local = assemble_world(&world, false)?;
    let near: Vec<Outcome> = Method::ALL.into_iter().map(|m| check(&local, m)).collect::<Result<_, _>>()?;
    let same_findings = far.iter().zip(&near).all(|(far, near)| same(&far.findings, &near.findings));
    let document = Document { network, same_findings, findings: far[0].findings.len() };
    if json {
        print_json(&document);
    } else {
        print(&human(&document));
    }
    if same_findings { Ok(ExitCode::SUCCESS) } else { Err(Failure::new("findings differ over the network")) }
}

fn check(target: &Target, method: Method) -> Result<Outcome, Failure> {
    let options = Options { method: Some(method), ..Options::with_seed(fresh_seed()?) };
    Ok(run_pass(target, None, &options, &mut Silent, &Stop::new())?)
}

/// The same findings, but for the names of devices.
fn same(far: &[Finding], near: &[Finding]) -> bool {
    let nameless = |findings: &[Finding]| -> Vec<Finding> {
        findings.iter().map(|f| Finding { device: None, ..f.clone() }).collect()
    };
    nameless(far) == nameless(near)
}

fn assemble_remote(names: &[PathBuf]) -> Result<(Target, Vec<Arc<RemoteNode>>), Failure> {
    let mut probed = probe_all(names, Access::default())?;
    let array = assemble_from(&mut probed)?;
    let nodes = nodes_of(&probed);
    Ok((place(array, &probed, &Placement::One, &NodeOptions::default())?, nodes))
}

fn socket_bytes(nodes: &[Arc<RemoteNode>]) -> Result<u64, Failure> {
    let mut sum = 0;
    for node in nodes {
        let bytes = node.socket_bytes()?;
        sum += bytes.received + bytes.sent;
    }
    Ok(sum)
}

fn human(document: &Document) -> String {
    let mut rows =
        vec![["method", "scrubbed", "over sockets", "of the data", "seconds"].map(str::to_owned).to_vec()];
    for line in &document.network {
        rows.push(vec![
            line.method.to_string(),
            format_decimal(line.scrubbed_bytes),
            format_decimal(line.socket_bytes),
            format!("{:.5} %", 100.0 * line.socket_bytes as f64 / line.scrubbed_bytes as f64),
            format!("{:.2}", line.seconds),
        ]);
    }
    format!(
        "{}\nTen kinds of damage planted: {} findings by each method over the network, {} as in one process.\n",
        table(&rows),
        document.findings,
        if document.same_findings { "the same" } else { "NOT the same" },
    )
}
