//! Node processes of this machine, started by this program for a while.

use crate::leaving::ChildProcess;
use pumice_service::failure::Failure;
use std::ffi::OsString;
use std::io::{BufRead, BufReader};
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::process::{Command, Stdio};

/// A node process; ends with this value.
pub struct NodeProcess {
    _child: ChildProcess,
    /// The address at which it listens.
    pub address: SocketAddr,
}

/// The place where nodes are started, and the speed of their drives.
#[derive(Debug, Default)]
pub struct NodePlace {
    /// A network namespace, and this machine's address there.
    pub namespace: Option<(String, IpAddr)>,
    /// Bytes a second of each drive.
    pub rate: Option<u64>,
}

/// The first port of nodes in a network namespace.
const PORT: u16 = 14_420;

/// Starts a node for each list of drives, as `pumice node --drive` takes them. Each may send to the
/// others.
pub(crate) fn start_nodes(drives: &[Vec<OsString>]) -> Result<Vec<NodeProcess>, Failure> {
    start_nodes_at(drives, &NodePlace::default())
}

/// The same, at a place.
///
/// # Errors
/// If a node does not start.
pub fn start_nodes_at(drives: &[Vec<OsString>], place: &NodePlace) -> Result<Vec<NodeProcess>, Failure> {
    // Ports that are free now; the nodes have to know each other's before they start.
    let held = drives.iter().map(|_| TcpListener::bind("127.0.0.1:0")).collect::<Result<Vec<_>, _>>()?;
    let mut addresses = held.iter().map(TcpListener::local_addr).collect::<Result<Vec<_>, _>>()?;
    drop(held);
    if let Some((_, address)) = &place.namespace {
        addresses = (PORT..).take(drives.len()).map(|port| SocketAddr::new(*address, port)).collect();
    }
    let mut nodes = Vec::new();
    for (address, drives) in addresses.iter().zip(drives) {
        let program = std::env::current_exe()?;
        let mut command = match &place.namespace {
            Some((namespace, _)) => {
                let mut command = Command::new("ip");
                command.args(["netns", "exec", namespace]).arg(program);
                command
            }
            None => Command::new(program),
        };
        command.args(["node", "--log-level", "warn", "--listen"]).arg(address.to_string());
        // Two nodes of one machine may have the same drives by name, such as memory.
        command.arg("--nqn").arg(format!(
            "nqn.2026-01.example.pumice:{}.{}",
            std::process::id(),
            address.port()
        ));
        for drive in drives {
            command.arg("--drive").arg(drive);
        }
        if let Some(rate) = place.rate {
            command.arg("--drive-rate").arg(rate.to_string());
        }
        for peer in addresses.iter().filter(|peer| *peer != address) {
            command.arg("--peer").arg(peer.to_string());
        }
        let child = ChildProcess::spawn(command.stdin(Stdio::null()).stdout(Stdio::piped()))?;
        let out = child.with(|child| child.stdout.take());
        let out = out.ok_or_else(|| Failure::new("a node has no output"))?;
        nodes.push(NodeProcess { _child: child, address: *address });
        let mut line = String::new();
        BufReader::new(out).read_line(&mut line)?;
        if !line.starts_with("listening on ") {
            return Err(Failure::new(format!("the node at {address} did not start")));
        }
    }
    Ok(nodes)
}
