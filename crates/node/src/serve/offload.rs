//! The parity command set, as the node carries it out. Byte tables: `docs/wire-format/offload.md`.

use super::SharedSubsystem;
use super::config::Peer;
use super::leases::{self, Active, Leases, NoLease};
use crate::pace::Pacing;
use crate::superblocks::Superblocks;
use crate::watch::WriteWatch;
use crate::{LocalNode, NodeOptions, Peers};
use pumice_blockdev::BlockDevice;
use pumice_initiator::{ConnectOptions, Controller, InitiatorError, Queue, discover};
use pumice_nvme::pdu::Digests;
use pumice_nvme::spec::log::DiscoveryEntry;
use pumice_nvme::spec::{Nqn, Sqe, Status};
use pumice_nvme::target::{Access, VendorSet};
use pumice_offload::wire::{self, SocketBytes, opcode};
use pumice_offload::{
    AssociatedHost, DataNode, DriveId, ErrorKind, Hosts, MemoryAddress, NodeError, SuperblockSeen, Transfer,
};
use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Results of a queue that wait to be read, at most.
const MAX_RESULTS: usize = 16;
/// Bytes that one command moves into or out of local memory, at most: what a queue transfers in one command.
const MAX_MOVE: u64 = 1 << 20;
/// How long a peer may take.
const PEER_DEADLINE: Duration = Duration::from_secs(10);

/// A queue: results belong to the one that asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct QueueId {
    pub(super) core: usize,
    pub(super) connection: usize,
}

/// Who sent a command: the queue, and its controller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Sender {
    pub(super) queue: QueueId,
    pub(super) cntlid: u16,
}

/// What a command ends with.
#[derive(Debug, Default)]
pub(super) struct Answered {
    pub(super) status: Status,
    pub(super) result: u64,
    pub(super) data: Option<Vec<u8>>,
}

impl Answered {
    /// A success with data: as much of it as the host has room for.
    fn data(mut bytes: Vec<u8>, room: u64) -> Self {
        bytes.truncate(room as usize);
        Self { data: Some(bytes), ..Self::default() }
    }

    fn refused(status: Status) -> Self {
        Self { status, ..Self::default() }
    }
}

/// Bytes over the sockets that others have connected.
#[derive(Debug, Default)]
pub(super) struct Traffic {
    received: AtomicU64,
    sent: AtomicU64,
}

impl Traffic {
    /// Counts bytes.
    pub(super) fn count(&self, received: u64, sent: u64) {
        // Relaxed: sums that are read when nothing is under way.
        self.received.fetch_add(received, Ordering::Relaxed);
        self.sent.fetch_add(sent, Ordering::Relaxed);
    }

    fn sum(&self) -> SocketBytes {
        SocketBytes {
            received: self.received.load(Ordering::Relaxed),
            sent: self.sent.load(Ordering::Relaxed),
        }
    }
}

type Results = HashMap<QueueId, HashMap<u32, Vec<u8>>>;

/// A connection to a peer.
struct Link {
    queue: Queue,
    /// The queue's controller: it ends when its admin queue does.
    _controller: Controller,
}

/// The engines behind the command set.
pub(super) struct Offload {
    node: LocalNode,
    watch: Arc<WriteWatch>,
    memory_bytes: u64,
    leases: Mutex<Leases>,
    results: Mutex<Results>,
    traffic: Arc<Traffic>,
    host: Nqn,
    peers: Vec<Peer>,
    /// Connections to peers that are not in use.
    links: Mutex<HashMap<SocketAddr, Vec<Link>>>,
}

impl Offload {
    pub(super) fn new(
        nqn: &str,
        devices: Vec<Arc<dyn BlockDevice>>,
        options: NodeOptions,
        peers: Vec<Peer>,
        watch: Arc<WriteWatch>,
    ) -> Self {
        let memory_bytes = options.memory_bytes;
        Self {
            leases: Mutex::new(Leases::new(devices.len(), memory_bytes)),
            node: LocalNode::new(nqn, devices, &Peers::new(), options).with_watch(Arc::clone(&watch)),
            watch,
            memory_bytes,
            results: Mutex::default(),
            traffic: Arc::default(),
            host: nqn.parse().expect("a subsystem's name is a host's name too"),
            peers,
            links: Mutex::default(),
        }
    }

    /// What the subsystem says of it.
    pub(super) fn announcement(&self) -> VendorSet {
        let mut identify = wire::SIGNATURE.to_vec();
        identify.extend_from_slice(&[wire::VERSION, 0, 0, 0]);
        identify.extend_from_slice(&((self.memory_bytes / 4096) as u32).to_le_bytes());
        // Supported; none changes a namespace's content.
        let commands = opcode::ALL.iter().map(|opcode| (*opcode, 1)).collect();
        VendorSet { identify, commands, helper: Some(wire::NODE_HOST_ID) }
    }

    /// What counts the bytes of sockets.
    pub(super) fn traffic(&self) -> &Arc<Traffic> {
        &self.traffic
    }

    /// A queue is gone, and its results with it.
    pub(super) fn forget(&self, queue: QueueId) {
        self.results().remove(&queue);
    }

    fn results(&self) -> std::sync::MutexGuard<'_, Results> {
        self.results.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The pace of the drives.
    pub(super) fn pacing(&self) -> &Arc<Pacing> {
        self.node.pacing()
    }

    fn leases(&self) -> std::sync::MutexGuard<'_, Leases> {
        leases::locked(&self.leases)
    }

    /// Carries out a command. `now` is on the clock of the connections; `wanted` says whether anybody waits for the outcome.
    pub(super) fn execute(
        &self,
        sender: Sender,
        sqe: &Sqe,
        data: &[u8],
        subsystem: &SharedSubsystem,
        now: u64,
        wanted: &(dyn Fn() -> bool + Sync),
    ) -> Answered {
        let Sender { queue, cntlid } = sender;
        // What a controller has leased stays its own while a command of it is under way.
        let _active = Active::begin(&self.leases, cntlid);
        let (tag, len) = (sqe.dword(10), u64::from(sqe.dword(12)));
        let to_controller = sqe.opcode() & 0b11 == 0b01;
        if to_controller && len != data.len() as u64 {
            return Answered::refused(Status::SGL_LENGTH.dnr());
        }
        if len > MAX_MOVE && !matches!(sqe.opcode(), opcode::MEMORY_FILL | opcode::MEMORY_LEASE) {
            return Answered::refused(Status::INVALID_FIELD.dnr());
        }
        let offset = u64::from(sqe.dword(10)) | u64::from(sqe.dword(11)) << 32;
        let address = MemoryAddress { drive: DriveId(sqe.nsid()), offset };
        match sqe.opcode() {
            opcode::PARITY_EXECUTE => {
                self.kept(queue, tag, wanted, || self.parity(cntlid, data, subsystem, wanted))
            }
            opcode::TRANSFER => self.kept(queue, tag, wanted, || self.transfer(data)),
            opcode::RESULT_READ => self.take(queue, tag, len),
            opcode::PACE => plain(self.pace(cntlid, data)),
            opcode::PACE_READ => {
                Answered::data(wire::encode_figures(&self.node.pacing().figures(), tag), len)
            }
            opcode::HOLD => hold(subsystem, cntlid, sqe.dword(10)),
            opcode::HOSTS_READ => {
                Answered::data(wire::encode_hosts(&self.hosts(subsystem, cntlid, now)), len)
            }
            opcode::SUPERBLOCKS_READ => {
                let (seen, drives) = (self.superblocks(subsystem, tag), self.watch.superblocks().len());
                Answered::data(wire::encode_superblocks(&seen, drives as u32), len)
            }
            opcode::MEMORY_LEASE => {
                let stands = |cntlid| subsystem.with(|s| s.stands(cntlid));
                match self.leases().lease(sqe.nsid(), len, cntlid, stands) {
                    Ok(start) => Answered { result: start / wire::LEASE_UNIT, ..Answered::default() },
                    Err(NoLease::Senseless) => Answered::refused(Status::INVALID_FIELD.dnr()),
                    Err(NoLease::Full) => Answered::refused(Status(wire::STATUS_NO_MEMORY)),
                }
            }
            opcode::MEMORY_WRITE => plain(
                self.may_write(cntlid, address, len, subsystem)
                    .and_then(|()| self.node.memory_write(address, data)),
            ),
            opcode::MEMORY_FILL => plain(
                self.may_write(cntlid, address, len, subsystem)
                    .and_then(|()| self.fill(address, len, sqe.dword(13) as u8)),
            ),
            opcode::MEMORY_READ => {
                let mut out = vec![0; len as usize];
                match self.node.memory_read(address, &mut out) {
                    Ok(()) => Answered::data(out, len),
                    Err(error) => plain(Err(error)),
                }
            }
            opcode::DESCRIBE => match self.node.describe() {
                Ok(description) => {
                    Answered::data(wire::encode_drives(&description.drives, tag, self.traffic.sum()), len)
                }
                Err(error) => plain(Err(error)),
            },
            _ => Answered::refused(Status::INVALID_OPCODE.dnr()),
        }
    }

    /// The hosts but for the one that asks; several controllers of one host are told as one.
    fn hosts(&self, subsystem: &SharedSubsystem, cntlid: u16, now: u64) -> Hosts {
        let (others, changes) = subsystem.with(|s| (s.other_hosts(cntlid), s.changes()));
        let mut hosts: BTreeMap<(String, [u8; 16]), u32> = BTreeMap::new();
        for host in others {
            let silent = u32::try_from(now.saturating_sub(host.heard) / 1_000_000).unwrap_or(u32::MAX);
            let longest = hosts.entry((host.nqn, host.id)).or_default();
            *longest = silent.max(*longest);
        }
        let hosts = hosts.into_iter().map(|((nqn, id), silent_ms)| AssociatedHost { nqn, id, silent_ms });
        Hosts { epoch: self.watch.epoch(), changes, hosts: hosts.collect() }
    }

    /// What is remembered of the superblocks on the drives of a page.
    fn superblocks(&self, subsystem: &SharedSubsystem, page: u32) -> Vec<SuperblockSeen> {
        let drives = (1_u32..).zip(self.watch.superblocks());
        let first = page as usize * wire::SUPERBLOCKS_PAGE;
        let page = drives.skip(first).take(wire::SUPERBLOCKS_PAGE);
        let of = |(number, drive): (u32, &Superblocks)| {
            let stands = |cntlid| subsystem.with(|s| s.stands(cntlid));
            let seen = |(writer, array, clean): (u16, [u8; 16], Option<u64>)| SuperblockSeen {
                drive: DriveId(number),
                array,
                clean: clean.is_some() && stands(writer),
                events: clean.unwrap_or(0),
            };
            drive.remembered().into_iter().map(seen).collect::<Vec<_>>()
        };
        page.flat_map(of).collect()
    }

    /// Carries out a command whose result, or the explanation of its failure, is kept until it is read.
    fn kept(
        &self,
        queue: QueueId,
        tag: u32,
        wanted: &dyn Fn() -> bool,
        work: impl FnOnce() -> Result<Vec<u8>, NodeError>,
    ) -> Answered {
        if self.results().get(&queue).is_some_and(|of| of.len() >= MAX_RESULTS && !of.contains_key(&tag)) {
            return Answered::refused(Status::SEQUENCE.dnr());
        }
        let (status, bytes) = match work() {
            Ok(bytes) => (Status::SUCCESS, bytes),
            Err(_) if !wanted() => (Status::ABORTED, Vec::new()),
            Err(error) => (status_of(&error), error.to_string().into_bytes()),
        };
        let result = bytes.len() as u64;
        let mut results = self.results();
        // Asked with the results in hand: a queue that is gone was so before it was forgotten, and is not forgotten twice.
        if !bytes.is_empty() && wanted() {
            results.entry(queue).or_default().insert(tag, bytes);
        }
        Answered { status, result, data: None }
    }

    fn take(&self, queue: QueueId, tag: u32, len: u64) -> Answered {
        let mut results = self.results();
        let Some(of) = results.get_mut(&queue) else { return Answered::refused(Status::SEQUENCE.dnr()) };
        match of.get(&tag).map(|bytes| bytes.len() as u64) {
            Some(has) if has == len => Answered { data: of.remove(&tag), ..Answered::default() },
            Some(_) => Answered::refused(Status::INVALID_FIELD.dnr()),
            None => Answered::refused(Status::SEQUENCE.dnr()),
        }
    }

    fn pace(&self, cntlid: u16, bytes: &[u8]) -> Result<(), NodeError> {
        let request = wire::decode_pace(bytes).map_err(|e| NodeError::invalid(e.field, e.to_string()))?;
        self.node.pacing().ask(cntlid, request)
    }

    fn parity(
        &self,
        cntlid: u16,
        descriptor: &[u8],
        subsystem: &SharedSubsystem,
        wanted: &(dyn Fn() -> bool + Sync),
    ) -> Result<Vec<u8>, NodeError> {
        let command =
            wire::decode_command(descriptor).map_err(|e| NodeError::invalid(e.field, e.to_string()))?;
        command.validate()?;
        if let Some((into, len)) = command.output() {
            self.may_write(cntlid, into, len, subsystem)?;
        }
        let result = self.node.parity_while(&command, wanted)?;
        Ok(wire::encode_result(&result))
    }

    /// Refuses to write local memory that another host has leased. Nodes that send to this one write where the hosts have agreed.
    fn may_write(
        &self,
        cntlid: u16,
        to: MemoryAddress,
        len: u64,
        subsystem: &SharedSubsystem,
    ) -> Result<(), NodeError> {
        let range = to.offset..to.offset.saturating_add(len);
        let stands = |cntlid| subsystem.with(|s| s.stands(cntlid));
        if !self.leases().is_anothers(to.drive.0, &range, cntlid, stands) {
            return Ok(());
        }
        // 0 is no controller: all hosts.
        let is_node =
            subsystem.with(|s| s.stands(cntlid) && s.other_hosts(0).iter().all(|h| h.cntlid != cntlid));
        if is_node {
            return Ok(());
        }
        let what = format!("another host has leased what is written of the memory of {}", to.drive);
        Err(NodeError::new(ErrorKind::Busy, what))
    }

    /// Refuses what ends past the memory before a part of it is done.
    fn in_memory(&self, field: &'static str, from: MemoryAddress, len: u64) -> Result<(), NodeError> {
        let fits = from.offset.checked_add(len).is_some_and(|end| end <= self.memory_bytes);
        let MemoryAddress { drive, offset } = from;
        let outside =
            || format!("{offset}+{len} is outside the {} bytes of memory of {drive}", self.memory_bytes);
        if fits { Ok(()) } else { Err(NodeError::invalid(field, outside())) }
    }

    fn fill(&self, address: MemoryAddress, len: u64, value: u8) -> Result<(), NodeError> {
        self.in_memory("address", address, len)?;
        let piece = vec![value; len.min(MAX_MOVE) as usize];
        let mut done = 0;
        while done < len {
            let part = (len - done).min(MAX_MOVE) as usize;
            let at = MemoryAddress { offset: address.offset.saturating_add(done), ..address };
            self.node.memory_write(at, &piece[..part])?;
            done += part as u64;
        }
        Ok(())
    }

    /// Sends local memory to a peer: to nobody who is not on the list.
    fn transfer(&self, descriptor: &[u8]) -> Result<Vec<u8>, NodeError> {
        let transfer =
            wire::decode_transfer(descriptor).map_err(|e| NodeError::invalid(e.field, e.to_string()))?;
        self.in_memory("from", transfer.from, transfer.len)?;
        let unknown =
            || NodeError::new(ErrorKind::Unreachable, format!("'{}' is no peer of this node", transfer.peer));
        let address: SocketAddr = transfer.peer.parse().map_err(|_| unknown())?;
        let peer = self.peers.iter().find(|peer| peer.address == address).ok_or_else(unknown)?;
        // A connection that was idle may have died with the peer; a new one tells.
        if let Some(mut link) = self.idle(address)
            && let Ok(done) = self.send(&mut link.queue, &transfer)
        {
            return self.sent(address, link, done);
        }
        let mut link = self.connect(peer).map_err(|error| unreachable(&error))?;
        let done = self.send(&mut link.queue, &transfer)?;
        self.sent(address, link, done)
    }

    fn sent(&self, address: SocketAddr, link: Link, status: Status) -> Result<Vec<u8>, NodeError> {
        self.links.lock().unwrap_or_else(PoisonError::into_inner).entry(address).or_default().push(link);
        if status.is_success() {
            return Ok(Vec::new());
        }
        Err(NodeError::new(ErrorKind::Unreachable, format!("peer {address}: memory write: {status}")))
    }

    fn idle(&self, address: SocketAddr) -> Option<Link> {
        self.links.lock().unwrap_or_else(PoisonError::into_inner).get_mut(&address)?.pop()
    }

    fn send(&self, link: &mut Queue, transfer: &Transfer) -> Result<Status, NodeError> {
        let mut done = 0;
        while done < transfer.len {
            let len = (transfer.len - done).min(MAX_MOVE);
            let mut data = vec![0; len as usize];
            let from = MemoryAddress { offset: transfer.from.offset.saturating_add(done), ..transfer.from };
            self.node.memory_read(from, &mut data)?;
            let to = transfer.to.offset.saturating_add(done);
            let mut sqe = Sqe::new(opcode::MEMORY_WRITE, transfer.to.drive.0);
            sqe.set_dword(10, to as u32);
            sqe.set_dword(11, (to >> 32) as u32);
            sqe.set_dword(12, len as u32);
            let outcome = link.execute(sqe, &data, &mut []).map_err(|error| unreachable(&error))?;
            if !outcome.status.is_success() {
                return Ok(outcome.status);
            }
            done += len;
        }
        Ok(Status::SUCCESS)
    }

    /// A new connection to a peer, with a controller of its own.
    fn connect(&self, peer: &Peer) -> Result<Link, InitiatorError> {
        let (link, digests) =
            peer.digests.connect(peer.address, |digests| self.connect_with(peer, digests))?;
        if digests != peer.digests.asked(peer.address) {
            eprintln!("pumice node: peer {} has no digests: what is sent to it goes without", peer.address);
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
            None => discover(peer.address, &options)?
                .iter()
                .filter(|entry| entry.subtype == DiscoveryEntry::NVM)
                .find_map(|entry| entry.subnqn.parse().ok())
                .unwrap_or_else(Nqn::discovery),
        };
        let controller = Controller::connect(peer.address, options)?;
        Ok(Link { queue: controller.queue(1, 16)?, _controller: controller })
    }
}

/// Takes the hold on the node (1), or gives it back (0).
fn hold(subsystem: &SharedSubsystem, cntlid: u16, what: u32) -> Answered {
    match what {
        0 => subsystem.with(|s| s.release(cntlid)),
        1 if subsystem.with(|s| s.hold(cntlid)) => {}
        1 => return Answered::refused(Status(wire::STATUS_IN_USE)),
        _ => return Answered::refused(Status::INVALID_FIELD.dnr()),
    }
    Answered::default()
}

fn unreachable(error: &InitiatorError) -> NodeError {
    NodeError::new(ErrorKind::Unreachable, error.to_string())
}

fn status_of(error: &NodeError) -> Status {
    match error.kind() {
        ErrorKind::Media => Status::READ_ERROR,
        ErrorKind::Drive => Status::INTERNAL,
        ErrorKind::InvalidField(_) => Status::INVALID_FIELD.dnr(),
        ErrorKind::ReadOnly => Status::WRITE_PROTECTED.dnr(),
        ErrorKind::Busy => Status(wire::STATUS_IN_USE),
        ErrorKind::Unreachable => Status(wire::STATUS_PEER),
    }
}

fn plain(result: Result<(), NodeError>) -> Answered {
    Answered {
        status: result.map_or_else(|error| status_of(&error), |()| Status::SUCCESS),
        ..Answered::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pumice_blockdev::MemoryDevice;
    use pumice_nvme::target::{Identity, Limits, Subsystem};

    fn node(memory_bytes: u64) -> (Offload, SharedSubsystem) {
        let name = "nqn.2026-11.example:node";
        let device: Arc<dyn BlockDevice> = Arc::new(MemoryDevice::new("m", 4096));
        let watch = WriteWatch::new([4096], 1);
        let options = NodeOptions { memory_bytes, ..NodeOptions::default() };
        let offload = Offload::new(name, vec![device], options, Vec::new(), watch);
        let (serial, model, firmware) = ("1".to_owned(), "m".to_owned(), "1".to_owned());
        let identity = Identity { nqn: name.parse().unwrap(), serial, model, firmware };
        let subsystem = Subsystem::new(identity, Limits::default(), Vec::new());
        (offload, SharedSubsystem(Arc::new(Mutex::new(subsystem))))
    }

    #[test]
    fn what_does_not_fit_is_not_done_in_part() {
        let (offload, subsystem) = node(2 * MAX_MOVE);
        let sender = Sender { queue: QueueId { core: 0, connection: 7 }, cntlid: 1 };
        let mut sqe = Sqe::new(opcode::MEMORY_FILL, 1);
        sqe.set_dword(13, 7);
        for (len, status, first) in
            [(2 * MAX_MOVE + 1, Status::INVALID_FIELD.dnr(), 0), (2 * MAX_MOVE, Status::SUCCESS, 7)]
        {
            sqe.set_dword(12, len as u32);
            assert_eq!(offload.execute(sender, &sqe, &[], &subsystem, 0, &|| true).status, status);
            let mut there = [1];
            offload.node.memory_read(MemoryAddress { drive: DriveId(1), offset: 0 }, &mut there).unwrap();
            assert_eq!(there, [first]);
        }
    }

    #[test]
    fn no_result_is_kept_for_a_queue_that_is_gone() {
        let (offload, subsystem) = node(4096);
        let queue = QueueId { core: 0, connection: 7 };
        // No descriptor: what is kept is why not.
        let mut sqe = Sqe::new(opcode::PARITY_EXECUTE, 0);
        sqe.set_dword(12, 4);
        for (wanted, kept) in [(true, 1), (false, 0)] {
            let sender = Sender { queue, cntlid: 1 };
            let answered = offload.execute(sender, &sqe, &[0; 4], &subsystem, 0, &|| wanted);
            assert_eq!(answered.status, if wanted { Status::INVALID_FIELD.dnr() } else { Status::ABORTED });
            assert_eq!(offload.results().len(), kept);
            offload.forget(queue);
        }
    }
}
