//! Transfers of local memory to other nodes: only to nodes on the list of peers, and under a grant
//! of the host that leases the memory there.

use super::config::Peer;
use crate::engine::Permit;
use crate::memory::MemoryAccess;
use pumice_nvme::pdu::Digests;
use pumice_nvme::spec::log::DiscoveryEntry;
use pumice_nvme::spec::{Nqn, Sqe, Status};
use pumice_offload::wire::{self, opcode};
use pumice_offload::{ErrorKind, Grant, MemoryAddress, NodeError, PeerRange, Transfer};
use pumice_remote::initiator::{
    Command, ConnectOptions, Controller, Cut, InitiatorError, Queue, discover_with,
};
use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tracing::warn;

/// Bytes that one command moves into or out of local memory, at most: what a queue transfers in one
/// command.
pub(super) const MAX_MOVE: u64 = 1 << 20;
/// Time that a peer may take.
const PEER_DEADLINE: Duration = Duration::from_secs(10);
/// Connections to a peer that are kept when they are not in use, at most.
const IDLE_LINKS: usize = 8;

/// A connection to a peer.
struct Link {
    queue: Queue,
    /// The queue's controller: it ends when its admin queue does.
    _controller: Controller,
}

/// Bytes for a range of a peer's local memory, from byte `offset` of it on.
pub(super) struct Sending {
    pub(super) range: PeerRange,
    pub(super) offset: u64,
    pub(super) bytes: Vec<u8>,
}

/// The nodes that local memory may be sent to.
pub(super) struct PeerLinks {
    host: Nqn,
    peers: Vec<Peer>,
    /// Connections that are not in use.
    idle: Mutex<HashMap<SocketAddr, Vec<Link>>>,
    /// Ends every connection, also those that are being made.
    cut: Arc<Cut>,
}

impl PeerLinks {
    /// Peers of the node with this name.
    pub(super) fn new(nqn: &str, peers: Vec<Peer>) -> Self {
        let host = nqn.parse().expect("a subsystem's name is a host's name too");
        Self { host, peers, idle: Mutex::default(), cut: Arc::default() }
    }

    /// Ends all connections to peers, for good: who waits for one of them waits no longer.
    pub(super) fn cut(&self) {
        self.cut.cut();
    }

    /// Sends local memory to a peer: to nobody who is not on the list.
    pub(super) fn transfer(
        &self,
        memory: &dyn MemoryAccess,
        descriptor: &[u8],
        permit: &dyn Permit,
    ) -> Result<Vec<u8>, NodeError> {
        let transfer =
            wire::decode_transfer(descriptor).map_err(|e| NodeError::invalid(e.field, e.to_string()))?;
        memory.check("from", transfer.from, transfer.len)?;
        let peer = self.find(&transfer.peer)?;
        let status = self.deliver(peer, permit, |link| send(link, memory, &transfer, permit))?;
        refused(peer.address, status).map(|()| Vec::new())
    }

    /// Sends bytes together: those for one peer go in one message as far as they fit, and are
    /// waited for together. The results are in their order.
    pub(super) fn send_all(&self, all: &[Sending], permit: &dyn Permit) -> Vec<Result<(), NodeError>> {
        let mut results: Vec<Result<(), NodeError>> = all.iter().map(|_| Ok(())).collect();
        let mut of_peer: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        for (i, Sending { range, offset, bytes }) in all.iter().enumerate() {
            let end = offset.checked_add(bytes.len() as u64);
            if bytes.len() as u64 > MAX_MOVE || end.is_none_or(|end| end > range.len) {
                let what = format!("{offset}+{} is outside the {} bytes of the path", bytes.len(), range.len);
                results[i] = Err(NodeError::invalid("offset", what));
            } else {
                of_peer.entry(&range.peer).or_default().push(i);
            }
        }
        for (name, which) in of_peer {
            let sent = self.find(name).and_then(|peer| {
                let work = |link: &mut Queue| {
                    let command = |i: &usize| {
                        let Sending { range, offset, bytes } = &all[*i];
                        let offset = range.to.offset.saturating_add(*offset);
                        let to = MemoryAddress { offset, ..range.to };
                        Command { sqe: memory_write(to, &range.grant, bytes), send: bytes, receive: &mut [] }
                    };
                    let mut commands: Vec<Command<'_>> = which.iter().map(command).collect();
                    link.run(&mut commands).map_err(|error| unreachable(&error))
                };
                self.deliver(peer, permit, work).map(|outcomes| (peer.address, outcomes))
            });
            match sent {
                Ok((address, outcomes)) => {
                    for (i, outcome) in which.iter().zip(outcomes) {
                        results[*i] = refused(address, outcome.status);
                    }
                }
                Err(error) => {
                    let again = |_: &usize| NodeError::new(error.kind(), error.to_string());
                    which.iter().for_each(|i| results[*i] = Err(again(i)));
                }
            }
        }
        results
    }

    /// A peer on the list.
    pub(super) fn find(&self, name: &str) -> Result<&Peer, NodeError> {
        let unknown =
            || NodeError::new(ErrorKind::Unreachable, format!("'{name}' is not a peer of this node"));
        let address: SocketAddr = name.parse().map_err(|_| unknown())?;
        self.peers.iter().find(|peer| peer.address == address).ok_or_else(unknown)
    }

    /// Does something on a connection to a peer.
    fn deliver<T>(
        &self,
        peer: &Peer,
        permit: &dyn Permit,
        work: impl Fn(&mut Queue) -> Result<T, NodeError>,
    ) -> Result<T, NodeError> {
        // A connection that was idle may have died with the peer; a new one tells.
        if let Some(mut link) = self.take_idle(peer.address)
            && let Ok(done) = work(&mut link.queue)
        {
            self.keep(peer.address, link);
            return Ok(done);
        }
        // It may have been given up instead: then the peer is not troubled for nothing.
        permit.check()?;
        let mut link = self.connect(peer).map_err(|error| unreachable(&error))?;
        let done = work(&mut link.queue)?;
        self.keep(peer.address, link);
        Ok(done)
    }

    /// Keeps a connection for later.
    fn keep(&self, address: SocketAddr, link: Link) {
        let mut all = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let idle = all.entry(address).or_default();
        if idle.len() < IDLE_LINKS {
            idle.push(link);
        }
    }

    fn take_idle(&self, address: SocketAddr) -> Option<Link> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).get_mut(&address)?.pop()
    }

    /// A new connection to a peer, with a controller of its own.
    fn connect(&self, peer: &Peer) -> Result<Link, InitiatorError> {
        let (link, digests) =
            peer.digests.connect(peer.address, |digests| self.connect_with(peer, digests))?;
        if digests != peer.digests.asked(peer.address) {
            warn!(peer = %peer.address, "a peer offers no digests: data is sent to it without them");
        }
        Ok(link)
    }

    fn connect_with(&self, peer: &Peer, digests: Digests) -> Result<Link, InitiatorError> {
        let mut options = ConnectOptions {
            subsystem: Nqn::discovery(),
            host: self.host.clone(),
            hostid: wire::NODE_HOST_ID,
            digests,
            flow_control: true,
            deadline: PEER_DEADLINE,
        };
        options.subsystem = match &peer.nqn {
            Some(nqn) => nqn.clone(),
            None => discover_with(peer.address, &options, Some(Arc::clone(&self.cut)))?
                .iter()
                .filter(|entry| entry.subtype == DiscoveryEntry::NVM)
                .find_map(|entry| entry.subnqn.parse().ok())
                .unwrap_or_else(Nqn::discovery),
        };
        let controller = Controller::connect_with(peer.address, options, Some(Arc::clone(&self.cut)))?;
        Ok(Link { queue: controller.queue(1, 16)?, _controller: controller })
    }
}

/// Sends what is to be moved, command by command.
fn send(
    link: &mut Queue,
    memory: &dyn MemoryAccess,
    transfer: &Transfer,
    permit: &dyn Permit,
) -> Result<Status, NodeError> {
    let mut done = 0;
    while done < transfer.len {
        permit.check()?;
        let len = (transfer.len - done).min(MAX_MOVE);
        let mut data = vec![0; len as usize];
        let from = MemoryAddress { offset: transfer.from.offset.saturating_add(done), ..transfer.from };
        memory.read(from, &mut data)?;
        let to = MemoryAddress { offset: transfer.to.offset.saturating_add(done), ..transfer.to };
        let status = send_piece(link, to, &transfer.grant, &data)?;
        if !status.is_success() {
            return Ok(status);
        }
        done += len;
    }
    Ok(Status::SUCCESS)
}

/// Sends what one command moves.
fn send_piece(link: &mut Queue, to: MemoryAddress, grant: &Grant, data: &[u8]) -> Result<Status, NodeError> {
    let sqe = memory_write(to, grant, data);
    let outcome = link.execute(sqe, data, &mut []).map_err(|error| unreachable(&error))?;
    Ok(outcome.status)
}

/// The command that moves bytes to a peer's local memory.
fn memory_write(to: MemoryAddress, grant: &Grant, data: &[u8]) -> Sqe {
    let word = |i: usize| u32::from_le_bytes(std::array::from_fn(|byte| grant.0[i * 4 + byte]));
    let mut sqe = Sqe::new(opcode::MEMORY_WRITE, to.drive.0);
    sqe.set_dword(10, to.offset as u32);
    sqe.set_dword(11, (to.offset >> 32) as u32);
    sqe.set_dword(12, data.len() as u32);
    [2, 3, 14, 15].into_iter().enumerate().for_each(|(i, dword)| sqe.set_dword(dword, word(i)));
    sqe
}

/// The error of a write to a peer's memory, by its status.
fn refused(address: SocketAddr, status: Status) -> Result<(), NodeError> {
    if status.is_success() {
        return Ok(());
    }
    Err(NodeError::new(ErrorKind::Unreachable, format!("peer {address}: memory write: {status}")))
}

fn unreachable(error: &InitiatorError) -> NodeError {
    NodeError::new(ErrorKind::Unreachable, error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::LocalMemory;
    use pumice_offload::{DriveId, Grant};
    use pumice_remote::initiator::DigestPolicy;
    use std::io::ErrorKind as IoErrorKind;
    use std::net::{Ipv4Addr, TcpListener};

    /// A peer answers nothing for 10 s, and a transfer that nobody waits for would hold its thread
    /// as long.
    #[test]
    fn nobody_is_connected_to_for_a_transfer_that_nobody_wants() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let peer = Peer { address, nqn: None, digests: DigestPolicy::Off };
        let links = PeerLinks::new("nqn.2026-11.example:node", vec![peer]);
        let at = MemoryAddress { drive: DriveId(1), offset: 0 };
        let transfer =
            Transfer { from: at, len: 512, peer: address.to_string(), to: at, grant: Grant([1; 16]) };
        let descriptor = wire::encode_transfer(&transfer);
        let memory = LocalMemory::new(1, 4096);
        let given_up = links.transfer(&memory, &descriptor, &|| false).unwrap_err();
        assert!(given_up.to_string().contains("given up"), "{given_up}");
        assert_eq!(listener.accept().unwrap_err().kind(), IoErrorKind::WouldBlock);
        listener.set_nonblocking(false).unwrap();
        let wanted = std::thread::scope(|scope| {
            let waiting = scope.spawn(|| links.transfer(&memory, &descriptor, &|| true).unwrap_err());
            let _silent = listener.accept().unwrap();
            links.cut();
            waiting.join().unwrap()
        });
        assert!(!wanted.to_string().contains("no answer"), "it was cut, not waited for: {wanted}");
    }
}
