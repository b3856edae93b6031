//! Node processes of this machine, started by this program for a while.

use crate::failure::Failure;
use std::ffi::OsString;
use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, TcpListener};
use std::process::{Child, Command, Stdio};

/// A node process; ends with this value.
pub(crate) struct NodeProcess {
    child: Child,
    pub(crate) address: SocketAddr,
}

impl Drop for NodeProcess {
    fn drop(&mut self) {
        // It may have ended already; either way it is waited for.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Starts a node for each list of drives, as `pumice node --drive` takes them. Each may send to the
/// others.
pub(crate) fn start_nodes(drives: &[Vec<OsString>]) -> Result<Vec<NodeProcess>, Failure> {
    // Ports that are free now; the nodes have to know each other's before they start.
    let held = drives.iter().map(|_| TcpListener::bind("127.0.0.1:0")).collect::<Result<Vec<_>, _>>()?;
    let addresses = held.iter().map(TcpListener::local_addr).collect::<Result<Vec<_>, _>>()?;
    drop(held);
    let mut nodes = Vec::new();
    for (address, drives) in addresses.iter().zip(drives) {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["node", "--log-level", "warn", "--listen"]).arg(address.to_string());
        for drive in drives {
            command.arg("--drive").arg(drive);
        }
        for peer in addresses.iter().filter(|peer| *peer != address) {
            command.arg("--peer").arg(peer.to_string());
        }
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
        let out = child.stdout.take().ok_or_else(|| Failure::new("a node has no output"))?;
        nodes.push(NodeProcess { child, address: *address });
        let mut line = String::new();
        BufReader::new(out).read_line(&mut line)?;
        if !line.starts_with("listening on ") {
            return Err(Failure::new(format!("the node at {address} did not start")));
        }
    }
    Ok(nodes)
}
