//! Connections to data nodes.

use crate::failure::Failure;
use crate::identity::{host_id, host_nqn};
use crate::name::SCHEME;
use crate::probed::{Probed, nodes_of};
use crate::say::say;
use pumice_offload::{ErrorKind, Hosts, Presence};
use pumice_remote::initiator::DigestPolicy;
use pumice_remote::{Dial, RemoteNode, is_kept_out, log_silence};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Time for which a node may be silent before a keep alive is sent, and time that it has to answer.
pub const DEADLINE: Duration = Duration::from_secs(10);
/// A host that was silent for this many milliseconds may be gone: by default Linux sends a keep
/// alive every 2.5 s.
const ALIVE_MS: u32 = 10_000;

/// Tells the operator for which node a command waits.
fn silent(node: SocketAddr, silent: Duration) {
    if tracing::dispatcher::has_been_set() {
        return log_silence(node, silent);
    }
    let seconds = silent.as_secs();
    say(&format!("{SCHEME}{node}: the node does not answer for {seconds} s; waiting for it"));
}

/// Connects to a node.
///
/// # Errors
/// If it cannot be reached, or refuses.
pub fn connect(address: SocketAddr, digests: DigestPolicy) -> Result<Arc<RemoteNode>, Failure> {
    let (host, hostid) = (host_nqn(), host_id());
    let dial = Dial { address, nqn: None, host, hostid, digests, deadline: DEADLINE, silent };
    let until = Instant::now() + LEAVING;
    let node = loop {
        match RemoteNode::connect(dial.clone()) {
            // Writes of an earlier process of this machine may have to end first.
            Err(error) if is_kept_out(&error) && Instant::now() < until => {
                std::thread::sleep(Duration::from_millis(100));
            }
            node => break node.map_err(|error| Failure::new(format!("{SCHEME}{address}: {error}")))?,
        }
    };
    if node.lacks_digests() {
        say(&format!(
            "{SCHEME}{address}: the node offers no digests: its data is protected only by TCP's checksum"
        ));
    }
    Ok(Arc::new(node))
}

/// Refuses nodes that share a name and are not the same: Linux would take their drives for one, and
/// so may whoever reads our reports.
pub(crate) fn told_apart<'n>(nodes: impl IntoIterator<Item = &'n Arc<RemoteNode>>) -> Result<(), Failure> {
    let mut known: BTreeMap<String, &RemoteNode> = BTreeMap::new();
    for node in nodes {
        let (nqn, serial) = node.identity();
        match known.get(&nqn) {
            Some(other) if other.identity().1 != serial => {
                let (one, two) = (other.name(), node.name());
                return Err(Failure::new(format!(
                    "{SCHEME}{one} and {SCHEME}{two} are two nodes with one name, {nqn}: a Linux host may take their drives for one drive and mix its data; give one of them another name (--nqn), and connect hosts anew"
                )));
            }
            Some(_) => {}
            None => {
                known.insert(nqn, node);
            }
        }
    }
    Ok(())
}

/// Time to keep asking for a hold while no other host is connected: commands of a host that has
/// left end soon.
const LEAVING: Duration = Duration::from_secs(5);

/// Keeps other hosts away from a node's drives while this process runs.
pub(crate) fn hold(node: &RemoteNode, who_asks: &str) -> Result<(), Failure> {
    let until = Instant::now() + LEAVING;
    loop {
        match node.hold() {
            Ok(()) => return Ok(()),
            Err(error) if error.kind() == ErrorKind::Busy => {
                let others = node.hosts()?.hosts.len();
                if others > 0 || Instant::now() >= until {
                    let who = match others {
                        0 => "commands of another host are still under way".to_owned(),
                        _ => format!("{} connected", are(others)),
                    };
                    let name = node.name();
                    let what =
                        format!("{SCHEME}{name}: {who_asks} needs exclusive use of the drives, but {who}");
                    return Err(Failure::new(what));
                }
                std::thread::sleep(Duration::from_millis(100));
            }
            Err(error) => return Err(Failure::new(format!("{SCHEME}{}: {error}", node.name()))),
        }
    }
}

/// The number of other hosts, with its verb.
fn are(hosts: usize) -> String {
    if hosts == 1 { "another host is".to_owned() } else { format!("{hosts} other hosts are") }
}

/// The number of hosts that may run an array over these devices, with its verb: live hosts that are
/// connected to the nodes of all devices. `None` if there is none, if the hosts differ from node to
/// node, or if a device is of this machine. Other scrubs and inspections do not count: they run no
/// array.
///
/// # Errors
/// If a node does not answer.
pub fn hosts_of(devices: &[Probed]) -> Result<Option<String>, Failure> {
    if devices.iter().any(|device| device.here().is_some()) {
        return Ok(None);
    }
    let mut common: Option<Hosts> = None;
    for node in nodes_of(devices) {
        let mut hosts = node.hosts()?;
        hosts.hosts.retain(|host| !host.observer);
        let alive = hosts.hosts.iter().all(|host| host.silent_ms < ALIVE_MS);
        if hosts.hosts.is_empty() || !alive || common.as_ref().is_some_and(|known| !known.same_hosts(&hosts))
        {
            return Ok(None);
        }
        common = Some(hosts);
    }
    Ok(common.map(|hosts| are(hosts.hosts.len())))
}
