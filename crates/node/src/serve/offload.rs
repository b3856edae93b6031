//! Carries out the parity command set. Byte tables: `docs/reference/wire-format/offload.md`.

mod memory;
mod shown;
mod together;

use super::SharedSubsystem;
use super::config::Peer;
use super::leases::{Active, LeasedMemory};
use super::metrics::ParityCounts;
use super::peers::{MAX_MOVE, PeerLinks, Sending};
use super::results::{NotTaken, QueueId, Results, ResultsUse, Sender};
use super::updates::{self, Paths, SendTo};
use crate::engine::Permit;
use crate::pace::Pacing;
use crate::superblocks::Superblocks;
use crate::update::Failed;
use crate::watch::WriteWatch;
use crate::{LocalNode, NodeOptions, Peers};
use memory::of_memory;
use pumice_blockdev::BlockDevice;
use pumice_nvme::controller::{Access, VendorSet};
use pumice_nvme::spec::command::{Direction, Effect};
use pumice_nvme::spec::{Sqe, Status, effects};
use pumice_offload::wire::{self, Length, SocketBytes, opcode};
use pumice_offload::{
    AssociatedHost, DriveId, ErrorKind, Grant, Hosts, MemoryAddress, NodeError, SuperblockSeen, TaggedBlocks,
    TaggedDrives,
};
use pumice_protect::origin::RestoredTag;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Flags that this node announces beyond the version.
const FLAGS: u8 = wire::HAS_UPDATES | wire::HAS_TAGGED_WRITE | wire::HAS_UNPACED;

/// The outcome of a command.
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

/// The engines behind the command set.
pub(super) struct Offload {
    node: LocalNode,
    watch: Arc<WriteWatch>,
    memory_bytes: u64,
    leases: LeasedMemory,
    results: Results,
    traffic: Arc<Traffic>,
    counts: ParityCounts,
    pub(super) peers: PeerLinks,
    paths: Paths,
}

impl Offload {
    pub(super) fn new(
        nqn: &str,
        devices: Vec<Arc<dyn BlockDevice>>,
        options: NodeOptions,
        peers: Vec<Peer>,
        watch: Arc<WriteWatch>,
    ) -> Self {
        let (count, memory_bytes) = (devices.len(), options.memory_bytes);
        let node = LocalNode::new(nqn, devices, &Peers::new(), options).with_watch(Arc::clone(&watch));
        Self {
            leases: LeasedMemory::new(count, Arc::clone(node.memory())),
            node,
            watch,
            memory_bytes,
            results: Results::default(),
            traffic: Arc::default(),
            counts: ParityCounts::default(),
            peers: PeerLinks::new(nqn, peers),
            paths: Paths::default(),
        }
    }

    /// The part of Identify that announces it.
    pub(super) fn announcement(&self) -> VendorSet {
        let mut identify = wire::SIGNATURE.to_vec();
        identify.extend_from_slice(&[wire::VERSION, 0, FLAGS, 0]);
        identify.extend_from_slice(&((self.memory_bytes / 4096) as u32).to_le_bytes());
        let entry = |command: &wire::Command| {
            effects::word(if command.changes { Effect::ChangesData } else { Effect::Nothing })
        };
        let commands = wire::COMMANDS.iter().map(|command| (command.opcode, entry(command))).collect();
        VendorSet { identify, commands, helper: Some(wire::NODE_HOST_ID) }
    }

    /// The counters of parity commands.
    pub(super) fn counts(&self) -> &ParityCounts {
        &self.counts
    }

    /// The used part of the bounds of results.
    pub(super) fn results_used(&self) -> ResultsUse {
        self.results.used()
    }

    /// The number of grants, and of those of the controller that has most.
    pub(super) fn granted(&self) -> (usize, usize) {
        self.leases.granted()
    }

    /// Threads that read for parity commands beyond the first of each, and how many there may be.
    pub(super) fn readers(&self) -> (usize, usize) {
        self.node.readers()
    }

    /// The counters of the bytes of sockets.
    pub(super) fn traffic(&self) -> &Arc<Traffic> {
        &self.traffic
    }

    /// A queue is gone, and its results with it.
    pub(super) fn forget(&self, queue: QueueId) {
        self.results.forget(queue);
    }

    /// The pace of the drives.
    pub(super) fn pacing(&self) -> &Arc<Pacing> {
        self.node.pacing()
    }

    /// Carries out a command. `now` is on the clock of the connections; `permit` says whether
    /// anybody waits for the outcome.
    pub(super) fn execute(
        &self,
        sender: Sender,
        sqe: &Sqe,
        data: &[u8],
        subsystem: &SharedSubsystem,
        now: u64,
        permit: &dyn Permit,
    ) -> Answered {
        let send_to = |range, offset, bytes: &[u8]| {
            let one = [Sending { range, offset, bytes: bytes.to_vec() }];
            self.peers.send_all(&one, permit).remove(0)
        };
        self.execute_with(sender, sqe, data, (subsystem, now), permit, &send_to)
    }

    fn execute_with(
        &self,
        sender: Sender,
        sqe: &Sqe,
        data: &[u8],
        (subsystem, now): (&SharedSubsystem, u64),
        permit: &dyn Permit,
        send_to: &SendTo<'_>,
    ) -> Answered {
        let Sender { queue, cntlid } = sender;
        let (tag, len) = (sqe.dword(10), u64::from(sqe.dword(12)));
        let Some(command) = wire::command(sqe.opcode()) else {
            return Answered::refused(Status::INVALID_OPCODE.dnr());
        };
        if let Some(status) = wrong_length(sqe, command.length, data.len() as u64) {
            return Answered::refused(status);
        }
        let offset = u64::from(sqe.dword(10)) | u64::from(sqe.dword(11)) << 32;
        let address = MemoryAddress { drive: DriveId(sqe.nsid()), offset };
        let stands = |cntlid| subsystem.with(|s| s.stands(cntlid));
        if subsystem.with(|s| s.is_helper(cntlid)) {
            if command.sender == wire::Sender::Hosts {
                return Answered::refused(Status::ACCESS_DENIED.dnr());
            }
            return match sqe.opcode() {
                opcode::MEMORY_WRITE => {
                    plain(self.leases.write_granted(&grant_of(sqe), address, data, stands))
                }
                _ => Answered::refused(Status::INVALID_OPCODE.dnr()),
            };
        }
        if command.changes && subsystem.with(|s| s.is_observer(cntlid)) {
            return Answered::refused(Status::WRITE_PROTECTED.dnr());
        }
        // What a controller has leased stays its own while a command of it is under way.
        let active = self.leases.begin(cntlid);
        match sqe.opcode() {
            opcode::PARITY_EXECUTE => self.kept(sender, tag, permit, || self.parity(&active, data, permit)),
            opcode::TRANSFER => self.kept(sender, tag, permit, || self.peers.transfer(&active, data, permit)),
            opcode::UPDATE => {
                let ways = (&self.paths, send_to);
                changed(updates::update(&self.node, (cntlid, sqe, data), &active, ways, permit))
            }
            opcode::STORE => changed(updates::store(&self.node, sqe, &active, permit).map(|()| 0)),
            opcode::PATH => plain(self.paths.set(cntlid, tag, data, &self.peers)),
            opcode::RESULT_READ => self.take(queue, tag, len),
            opcode::PACE => plain(self.pace(cntlid, data, stands)),
            opcode::PACE_READ => self.shown_pace(subsystem, cntlid, tag, len),
            opcode::HOLD => hold(subsystem, cntlid, sqe.dword(10)),
            opcode::HOSTS_READ => {
                let hosts = self.hosts(subsystem, cntlid, &nonce_of(sqe), now);
                Answered::data(wire::encode_hosts(&hosts), len)
            }
            opcode::SUPERBLOCKS_READ => self.shown_superblocks(subsystem, cntlid, tag, len),
            opcode::TAGGED_READ => match self.tagged(sqe, address) {
                Ok(bytes) if bytes.len() as u64 == len => Answered::data(bytes, len),
                Ok(_) => Answered::refused(Status::INVALID_FIELD.dnr()),
                Err(error) => plain(Err(error)),
            },
            opcode::TAGGED_WRITE => plain(self.restore(sqe, address, data)),
            opcode::TAGS_VOUCH => self.vouch(sqe, address, permit),
            opcode::MEMORY_LEASE
            | opcode::MEMORY_GRANT
            | opcode::MEMORY_WRITE
            | opcode::MEMORY_FILL
            | opcode::MEMORY_READ => of_memory(&active, (sqe, address, data), (subsystem, cntlid)),
            opcode::DESCRIBE => self.shown_drives(subsystem, cntlid, tag, len),
            _ => Answered::refused(Status::INVALID_OPCODE.dnr()),
        }
    }

    /// Vouches for the adopted tags of a range.
    fn vouch(&self, sqe: &Sqe, address: MemoryAddress, permit: &dyn Permit) -> Answered {
        let bytes = u64::from(sqe.dword(13)) | u64::from(sqe.dword(14)) << 32;
        match self.node.vouch_while(address.drive, address.offset, bytes, permit) {
            Ok(count) => Answered { result: count, ..Answered::default() },
            Err(error) => plain(Err(error)),
        }
    }

    /// Puts bytes back.
    fn restore(&self, sqe: &Sqe, address: MemoryAddress, data: &[u8]) -> Result<(), NodeError> {
        let tag = match sqe.dword(13) {
            wire::TAGS_ADOPTED => RestoredTag::Adopted,
            wire::TAGS_STAY => RestoredTag::Stays,
            other => return Err(NodeError::invalid("tags", format!("{other}: not known"))),
        };
        self.node.restore(address.drive, address.offset, data, tag)
    }

    /// A controller has ended: what it had of local memory is nobody's any more, and what it wrote
    /// is not known to be clean.
    pub(super) fn sweep(&self, stands: impl Fn(u16) -> bool) {
        self.node.pacing().sweep(&stands);
        self.watch.superblocks().iter().for_each(|drive| drive.sweep(&stands));
        self.paths.sweep(&stands);
        self.leases.sweep(stands);
    }

    /// The hosts but for the one that asks, by their marks; several controllers of one host are
    /// told as one.
    fn hosts(&self, subsystem: &SharedSubsystem, cntlid: u16, nonce: &[u8; 16], now: u64) -> Hosts {
        let own = self.own(subsystem, cntlid);
        let (mut others, changes) = subsystem.with(|s| (s.other_hosts(cntlid), s.changes()));
        others.retain(|host| own.meets(&self.own(subsystem, host.cntlid)));
        let mut hosts: BTreeMap<[u8; 32], AssociatedHost> = BTreeMap::new();
        for host in others {
            let mark: [u8; 32] = Sha256::new().chain_update(nonce).chain_update(host.id).finalize().into();
            let silent_ms = u32::try_from(now.saturating_sub(host.heard) / 1_000_000).unwrap_or(u32::MAX);
            let first = AssociatedHost { mark, silent_ms, observer: host.observer };
            let known = hosts.entry(mark).or_insert(first);
            known.silent_ms = silent_ms.max(known.silent_ms);
            known.observer &= host.observer;
        }
        Hosts { epoch: self.watch.epoch(), changes, hosts: hosts.into_values().collect() }
    }

    /// The records of superblocks on the drives of a page.
    fn superblocks(&self, subsystem: &SharedSubsystem, page: u32) -> Vec<SuperblockSeen> {
        let drives = (1_u32..).zip(self.watch.superblocks());
        let first = page as usize * wire::SUPERBLOCKS_PAGE;
        let page = drives.skip(first).take(wire::SUPERBLOCKS_PAGE);
        let of = |(number, drive): (u32, &Superblocks)| {
            let stands = |cntlid| subsystem.with(|s| s.stands(cntlid));
            let seen = |(offset, writer, array, clean): (u64, u16, [u8; 16], Option<u64>)| SuperblockSeen {
                drive: DriveId(number),
                offset: Some(offset),
                array,
                clean: clean.is_some() && stands(writer),
                events: clean.unwrap_or(0),
            };
            drive.remembered().into_iter().map(seen).collect::<Vec<_>>()
        };
        page.flat_map(of).collect()
    }

    /// Carries out a command whose result, or the explanation of its failure, is kept until it is
    /// read.
    fn kept(
        &self,
        sender: Sender,
        tag: u32,
        permit: &dyn Permit,
        work: impl FnOnce() -> Result<Vec<u8>, NodeError>,
    ) -> Answered {
        let Some(place) = self.results.place(sender, tag) else {
            return Answered::refused(Status::SEQUENCE.dnr());
        };
        let (status, bytes) = match work() {
            Ok(bytes) => (Status::SUCCESS, bytes),
            Err(_) if !permit.is_wanted() => (Status::ABORTED, Vec::new()),
            Err(error) => (status_of(&error), error.to_string().into_bytes()),
        };
        let result = bytes.len() as u64;
        place.keep(bytes, || permit.is_wanted());
        Answered { status, result, data: None }
    }

    fn take(&self, queue: QueueId, tag: u32, len: u64) -> Answered {
        match self.results.take(queue, tag, len) {
            Ok(bytes) => Answered { data: Some(bytes), ..Answered::default() },
            Err(NotTaken::Length) => Answered::refused(Status::INVALID_FIELD.dnr()),
            Err(NotTaken::None) => Answered::refused(Status::SEQUENCE.dnr()),
        }
    }

    /// The answer to a Tagged Read.
    fn tagged(&self, sqe: &Sqe, at: MemoryAddress) -> Result<Vec<u8>, NodeError> {
        let format = self.node.tag_format(at.drive)?;
        let format = format.ok_or_else(|| NodeError::invalid("drive", "it has no tags"))?;
        let blocks = u64::from(sqe.dword(13));
        // What a command takes is held by its own length: nothing is read that does not fit it.
        if wire::tagged_len(format, blocks) != u64::from(sqe.dword(12)) {
            return Err(NodeError::invalid(
                "blocks",
                "the number of blocks does not match the length of the answer",
            ));
        }
        let mut data = vec![0; (blocks * u64::from(format.block_bytes)) as usize];
        let judged = self.node.read_tagged(at.drive, at.offset, &mut data)?;
        Ok(wire::encode_tagged(format, &TaggedBlocks { data: &data, judged }))
    }

    fn pace(&self, cntlid: u16, bytes: &[u8], stands: impl Fn(u16) -> bool) -> Result<(), NodeError> {
        let request = wire::decode_pace(bytes).map_err(|e| NodeError::invalid(e.field, e.to_string()))?;
        let asked = self.node.pacing().ask(cntlid, request);
        if !stands(cntlid) {
            // It has ended meanwhile, and what it had asked for was swept before this.
            self.node.pacing().sweep(stands);
        }
        asked
    }

    fn parity(
        &self,
        memory: &Active<'_>,
        descriptor: &[u8],
        permit: &dyn Permit,
    ) -> Result<Vec<u8>, NodeError> {
        let command =
            wire::decode_command(descriptor).map_err(|e| NodeError::invalid(e.field, e.to_string()))?;
        let result = self.counts.counted(&command, || self.node.parity_while(&command, memory, permit))?;
        Ok(wire::encode_result(&result))
    }
}

/// Takes the hold on the node, gives it back, or promises to write no namespace.
fn hold(subsystem: &SharedSubsystem, cntlid: u16, what: u32) -> Answered {
    match what {
        wire::HOLD_RELEASE => subsystem.with(|s| s.release(cntlid)),
        wire::HOLD_TAKE if subsystem.with(|s| s.hold(cntlid)) => {}
        wire::HOLD_TAKE => return Answered::refused(Status(wire::STATUS_IN_USE)),
        wire::HOLD_OBSERVE => subsystem.with(|s| s.observe(cntlid)),
        _ => return Answered::refused(Status::INVALID_FIELD.dnr()),
    }
    Answered::default()
}

/// The grant that a Memory Write of another node comes with.
fn grant_of(sqe: &Sqe) -> Grant {
    Grant(bytes_of(sqe, [2, 3, 14, 15]))
}

/// The nonce of the marks of hosts.
fn nonce_of(sqe: &Sqe) -> [u8; 16] {
    bytes_of(sqe, [10, 11, 13, 14])
}

fn bytes_of(sqe: &Sqe, dwords: [usize; 4]) -> [u8; 16] {
    std::array::from_fn(|i| sqe.dword(dwords[i / 4]).to_le_bytes()[i % 4])
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

/// The answer to an update or a store.
fn changed(result: Result<u64, Failed>) -> Answered {
    match result {
        Ok(result) => Answered { result, ..Answered::default() },
        Err(Failed::OtherBytes) => Answered::refused(Status(wire::STATUS_OTHER_BYTES)),
        Err(Failed::Write) => Answered::refused(Status::WRITE_FAULT),
        Err(Failed::Other(error)) => Answered::refused(status_of(&error)),
    }
}

fn plain(result: Result<(), NodeError>) -> Answered {
    Answered {
        status: result.map_or_else(|error| status_of(&error), |()| Status::SUCCESS),
        ..Answered::default()
    }
}

/// The status of a command whose length is not that of its data. Nothing is taken away, or made,
/// that the host has no room for.
fn wrong_length(sqe: &Sqe, length: Length, data: u64) -> Option<Status> {
    let len = u64::from(sqe.dword(12));
    let fits = match Direction::of(sqe.opcode()) {
        Direction::ToController => len == data,
        Direction::ToHost => len <= u64::from(sqe.sgl().len),
        _ => true,
    };
    if !fits {
        return Some(Status::SGL_LENGTH.dnr());
    }
    (len > MAX_MOVE && length == Length::Data).then(|| Status::INVALID_FIELD.dnr())
}

#[cfg(test)]
mod tests;
