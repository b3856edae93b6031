//! Makes an association with the node at an address.

use crate::answer::{refused, unreachable};
use crate::blocks::Geometry;
use crate::initiator::{ConnectOptions, Controller, DigestPolicy, InitiatorError, Queue, discover};
use crate::pool;
use pumice_nvme::pdu::Digests;
use pumice_nvme::spec::log::DiscoveryEntry;
use pumice_nvme::spec::{Nqn, Sqe};
use pumice_offload::wire::{self, opcode};
use pumice_offload::{DriveDescription, NodeError};
use std::net::SocketAddr;
use std::time::Duration;

/// Parameters of a connection to a node.
#[derive(Debug, Clone)]
pub struct Dial {
    /// Its address.
    pub address: SocketAddr,
    /// Its subsystem; `None` for the one that its discovery service lists.
    pub nqn: Option<Nqn>,
    /// The name of the host that connects.
    pub host: Nqn,
    /// Its identifier, not all zeros.
    pub hostid: [u8; 16],
    /// The policy for digests of headers and data.
    pub digests: DigestPolicy,
    /// Half of the time that the node may be silent before it counts as lost; after a quarter of
    /// the deadline it is sent a Keep Alive.
    pub deadline: Duration,
    /// Told that the node has been silent for so long while a call waits for it: after half of the
    /// deadline, and again each time as long has passed.
    pub silent: fn(SocketAddr, Duration),
}

/// Logs that a node is silent.
pub fn log_silence(node: SocketAddr, silent: Duration) {
    let seconds = silent.as_secs();
    tracing::warn!(%node, seconds, "the node does not answer: it is waited for");
}

/// An association, and the node's description of itself.
pub(crate) struct Association {
    pub(crate) controller: Controller,
    pub(crate) queue: Queue,
    pub(crate) nqn: Nqn,
    /// Its serial number.
    pub(crate) serial: String,
    pub(crate) digests: Digests,
    pub(crate) drives: Vec<DriveDescription>,
    pub(crate) geometry: Vec<Geometry>,
    /// It has updates.
    pub(crate) updates: bool,
    /// It puts bytes back beside tags.
    pub(crate) restores: bool,
    /// It knows commands without a pace.
    pub(crate) unpaced: bool,
}

impl Dial {
    /// Connects, and asks for the drives.
    pub(crate) fn associate(&self) -> Result<Association, NodeError> {
        let address = self.address;
        let connect = |digests| {
            let mut options = ConnectOptions {
                subsystem: Nqn::discovery(),
                host: self.host.clone(),
                hostid: self.hostid,
                digests,
                flow_control: true,
                deadline: self.deadline,
            };
            let listed = match &self.nqn {
                Some(nqn) => Some(nqn.clone()),
                None => ask(address, &options)?,
            };
            let Some(nqn) = listed else { return Ok(None) };
            options.subsystem = nqn.clone();
            Ok(Some((Controller::connect(address, options)?, nqn)))
        };
        let (connected, digests) =
            self.digests.connect(address, connect).map_err(|error| unreachable(&error))?;
        let Some((mut controller, nqn)) = connected else {
            let what = format!("{address}: its discovery service lists no subsystem");
            return Err(NodeError::invalid("node", what));
        };
        let vendor = controller.vendor();
        if vendor[..8] != wire::SIGNATURE || vendor[8] != wire::VERSION {
            let version = wire::VERSION;
            let what =
                format!("{address}: serves drives, but has no parity command set of version {version}");
            return Err(NodeError::invalid("node", what));
        }
        let updates = wire::makes_parity(vendor[10]);
        let restores = vendor[10] & wire::HAS_TAGGED_WRITE != 0;
        let unpaced = vendor[10] & wire::HAS_UNPACED != 0;
        let mut queue = controller.queue(1, pool::DEPTH).map_err(|error| unreachable(&error))?;
        let mut drives = describe(&address.to_string(), &mut queue)?;
        let mut geometry = Vec::with_capacity(drives.len());
        for drive in &mut drives {
            let namespace = controller.namespace(drive.id.0).map_err(|error| unreachable(&error))?;
            let none = || NodeError::invalid("drive", format!("{address}: {} is not a namespace", drive.id));
            let namespace = namespace.ok_or_else(none)?;
            // What is read and written here is the namespace.
            drive.block_bytes = namespace.format.data_bytes();
            geometry.push(Geometry::of(&namespace));
        }
        let serial = controller.identity().serial.clone();
        Ok(Association {
            serial,
            controller,
            queue,
            nqn,
            digests,
            drives,
            geometry,
            updates,
            restores,
            unpaced,
        })
    }
}

/// The first subsystem that a discovery service lists.
fn ask(address: SocketAddr, options: &ConnectOptions) -> Result<Option<Nqn>, InitiatorError> {
    let entries = discover(address, options)?;
    let found = entries.iter().filter(|entry| entry.subtype == DiscoveryEntry::NVM);
    Ok(found.filter_map(|entry| entry.subnqn.parse().ok()).next())
}

/// Describe: a page of a node's drives.
pub(crate) fn describe_page(page: u32, len: usize) -> Sqe {
    let mut sqe = Sqe::new(opcode::DESCRIBE, 0);
    sqe.set_dword(10, page);
    sqe.set_dword(12, len as u32);
    sqe
}

/// The node's drives, page by page.
fn describe(node: &str, queue: &mut Queue) -> Result<Vec<DriveDescription>, NodeError> {
    let mut drives = Vec::new();
    for page in 0.. {
        let mut buffer = vec![0; wire::DESCRIPTION_HEADER + 128 * wire::DRIVES_PER_PAGE as usize];
        let sqe = describe_page(page, buffer.len());
        let outcome = queue.execute(sqe, &[], &mut buffer).map_err(|e| unreachable(&e))?;
        if !outcome.status.is_success() {
            return Err(refused(node, opcode::name(opcode::DESCRIBE), outcome.status, ""));
        }
        buffer.truncate(outcome.received as usize);
        let (all, part) = wire::decode_drives(&buffer, page)
            .map_err(|e| NodeError::invalid("description", format!("{node}: {e}")))?;
        let empty = part.is_empty();
        drives.extend(part);
        if empty || drives.len() >= all as usize {
            break;
        }
    }
    Ok(drives)
}
