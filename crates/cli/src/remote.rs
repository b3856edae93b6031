//! Drives of data nodes: `nvme://HOST:PORT/NSID`, or `nvme://HOST:PORT` for all of them.

use crate::devices::{Place, Probed};
use crate::failure::Failure;
use pumice_host::probe::DriveReader;
use pumice_host::remote::RemoteNode;
use pumice_nvme::spec::Nqn;
use pumice_offload::DriveId;
use pumice_raid::probe;
use std::collections::BTreeMap;
use std::fmt;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// How a name of a node begins.
const SCHEME: &str = "nvme://";
/// How long a node may take without any answer.
pub(crate) const DEADLINE: Duration = Duration::from_secs(30);

/// A drive of a node, or all of its drives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RemoteName {
    pub(crate) address: SocketAddr,
    pub(crate) nsid: Option<u32>,
}

impl RemoteName {
    /// The node that a name names; `None` where it is the path of a device.
    pub(crate) fn of(path: &Path) -> Result<Option<Self>, Failure> {
        let Some(rest) = path.to_str().and_then(|text| text.strip_prefix(SCHEME)) else { return Ok(None) };
        let wrong = |why: &str| Failure::new(format!("{}: {why}", path.display()));
        let (host, nsid) = match rest.split_once('/') {
            None | Some((_, "")) => (rest.trim_end_matches('/'), None),
            Some((host, nsid)) => {
                let number = nsid.parse().ok().filter(|n| (1..u32::MAX).contains(n));
                (host, Some(number.ok_or_else(|| wrong("the drive is a number from 1 on"))?))
            }
        };
        let mut addresses = host
            .to_socket_addrs()
            .map_err(|error| wrong(&format!("write nvme://HOST:PORT or nvme://HOST:PORT/NSID ({error})")))?;
        let address = addresses.next().ok_or_else(|| wrong("the host has no address"))?;
        Ok(Some(Self { address, nsid }))
    }
}

impl fmt::Display for RemoteName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{SCHEME}{}", self.address)?;
        self.nsid.map_or(Ok(()), |nsid| write!(f, "/{nsid}"))
    }
}

/// The name by which this program connects: made from the machine's id.
pub(crate) fn host_nqn() -> Nqn {
    let machine = std::fs::read_to_string("/etc/machine-id").unwrap_or_default();
    let machine: String = machine.trim().chars().filter(char::is_ascii_hexdigit).take(32).collect();
    let name = if machine.is_empty() { "unknown".to_owned() } else { machine };
    format!("nqn.2026-11.invalid.pumice:host:{name}").parse().expect("a name of the right form")
}

/// Connects to a node.
pub(crate) fn connect(address: SocketAddr) -> Result<Arc<RemoteNode>, Failure> {
    RemoteNode::connect(address, None, host_nqn(), DEADLINE)
        .map(Arc::new)
        .map_err(|error| Failure::new(format!("{SCHEME}{address}: {error}")))
}

/// Connects to the nodes, each once, and reads superblocks.
pub(crate) fn probe_remote(names: &[RemoteName]) -> Result<Vec<Probed>, Failure> {
    let mut nodes: BTreeMap<SocketAddr, Arc<RemoteNode>> = BTreeMap::new();
    let mut out = Vec::new();
    for name in names {
        let node = match nodes.get(&name.address) {
            Some(node) => Arc::clone(node),
            None => {
                let node = connect(name.address)?;
                nodes.insert(name.address, Arc::clone(&node));
                node
            }
        };
        for drive in node.drives() {
            if name.nsid.is_some_and(|nsid| drive.id != DriveId(nsid)) {
                continue;
            }
            let path = RemoteName { nsid: Some(drive.id.0), ..*name }.to_string();
            let reader = DriveReader::new(&*node, drive.id, drive.size_bytes);
            let record = probe(&reader).map_err(|error| Failure::new(format!("{path}: {error}")))?;
            // All drives of a node means those that are members of something.
            if record.is_some() || name.nsid.is_some() {
                out.push(Probed { path, place: Place::There(Arc::clone(&node), drive.id), record });
            }
        }
        if let Some(nsid) = name.nsid.filter(|nsid| !node.drives().iter().any(|d| d.id == DriveId(*nsid))) {
            return Err(Failure::new(format!("{name}: the node has no drive {nsid}")));
        }
        if name.nsid.is_none() && !out.iter().any(|probed| probed.path.starts_with(&name.to_string())) {
            return Err(Failure::new(format!("{name}: none of its drives carries an md superblock")));
        }
    }
    Ok(out)
}
