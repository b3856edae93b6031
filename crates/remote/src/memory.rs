//! Local memory of a node: the parts that this host has leased, and their way to other nodes.

use crate::RemoteNode;
use crate::answer::{refused, whole};
use crate::numbers::random;
use pumice_base::telemetry::Ledger;
use pumice_nvme::spec::Sqe;
use pumice_offload::wire::{self, LEASE_UNIT, opcode};
use pumice_offload::{
    DriveDescription, DriveId, DriveMemory, Grant, MemoryAddress, Mode, NodeError, ParityCommand, PathId,
    PeerRange, Source, Transfer, TransferResult, Updates,
};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// Bytes of one command that moves local memory.
pub(crate) const MEMORY_PIECE: usize = 1 << 20;
/// Number of hosts that share a drive's memory.
const HOSTS: u64 = 4;
/// The same for a host that has taken more.
const FEW_HOSTS: u64 = 2;

/// Start of this host's part of each drive's memory, leased when it is first needed.
pub(crate) struct Parts {
    /// Of the whole memory.
    all: BTreeMap<DriveId, u64>,
    hosts: AtomicU64,
    starts: Mutex<BTreeMap<DriveId, u64>>,
}

impl Parts {
    /// Parts of a node's drives.
    pub(crate) fn of(drives: &[DriveDescription]) -> Self {
        let all = drives.iter().map(|drive| (drive.id, drive.memory_bytes)).collect();
        Self { all, hosts: AtomicU64::new(HOSTS), starts: Mutex::default() }
    }

    /// Takes half of each drive's memory from the next lease on, or a quarter.
    pub(crate) fn widen(&self, wide: bool) {
        // Relaxed: the number itself is all that threads share.
        self.hosts.store(if wide { FEW_HOSTS } else { HOSTS }, Ordering::Relaxed);
        self.forget();
    }

    /// Forgets the parts, which ended with the association.
    pub(crate) fn forget(&self) {
        self.starts.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// Bytes of this host's part of a drive's memory.
    pub(crate) fn bytes(&self, drive: DriveId) -> u64 {
        let all = self.all.get(&drive).copied().unwrap_or(0);
        let part = all / self.hosts.load(Ordering::Relaxed) / LEASE_UNIT * LEASE_UNIT;
        let part = if part == 0 { all } else { part };
        // A lease's length is told in 32 bits.
        part.min(u64::from(u32::MAX) / LEASE_UNIT * LEASE_UNIT)
    }

    /// Converts an address of this host to one on the drive. `lease` leases bytes of a drive's
    /// memory from the node.
    pub(crate) fn absolute(
        &self,
        address: MemoryAddress,
        lease: impl FnOnce(DriveId, u64) -> Result<u64, NodeError>,
    ) -> Result<MemoryAddress, NodeError> {
        let drive = address.drive;
        let bytes = self.bytes(drive);
        if bytes == 0 {
            return Err(NodeError::invalid("address", format!("{drive} has no local memory")));
        }
        if address.offset > bytes {
            let offset = address.offset;
            return Err(NodeError::invalid(
                "address",
                format!("{offset} is outside the {bytes} bytes of {drive}"),
            ));
        }
        // Held while the node is asked: two leases of one drive would take the first away.
        let mut starts = self.starts.lock().unwrap_or_else(PoisonError::into_inner);
        let start = match starts.get(&drive) {
            Some(start) => *start,
            None => {
                let start = lease(drive, bytes)?;
                starts.insert(drive, start);
                start
            }
        };
        Ok(MemoryAddress { drive, offset: start + address.offset })
    }
}

/// Translates every address in a command.
pub(crate) fn translate(
    command: &mut ParityCommand,
    absolute: impl Fn(MemoryAddress) -> Result<MemoryAddress, NodeError>,
) -> Result<(), NodeError> {
    for source in &mut command.sources {
        if let Source::Memory { address } = source {
            *address = absolute(*address)?;
        }
    }
    match &mut command.mode {
        Mode::Check | Mode::Fingerprint { .. } => {}
        Mode::Generate { into } | Mode::Interims { into, .. } | Mode::Accumulate { into, .. } => {
            *into = absolute(*into)?;
        }
    }
    Ok(())
}

/// Asks for a grant of memory to another node.
pub(crate) fn grant_command(to: MemoryAddress) -> Sqe {
    memory_command(opcode::MEMORY_GRANT, to, 0, wire::GRANT_BYTES)
}

/// A command that moves `len` bytes of piece number `piece` of a range of memory.
pub(crate) fn memory_command(opcode: u8, address: MemoryAddress, piece: usize, len: usize) -> Sqe {
    let offset = address.offset.saturating_add((piece * MEMORY_PIECE) as u64);
    let mut sqe = Sqe::new(opcode, address.drive.0);
    sqe.set_dword(10, offset as u32);
    sqe.set_dword(11, (offset >> 32) as u32);
    sqe.set_dword(12, len as u32);
    sqe
}

impl DriveMemory for RemoteNode {
    fn grant(&self, to: MemoryAddress, len: u64) -> Result<Grant, NodeError> {
        let grant = Grant(random()?);
        self.plain(grant_command(to), &wire::encode_grant(&grant, len))?;
        Ok(grant)
    }

    fn revoke(&self, to: MemoryAddress, grant: &Grant) -> Result<(), NodeError> {
        self.plain(grant_command(to), &wire::encode_grant(grant, 0))
    }

    fn absolute(&self, address: MemoryAddress) -> Result<MemoryAddress, NodeError> {
        self.parts.absolute(address, |drive, bytes| {
            let mut sqe = Sqe::new(opcode::MEMORY_LEASE, drive.0);
            sqe.set_dword(12, bytes as u32);
            let done = self.ask(sqe, &[], &mut [])?;
            if done.status.is_success() {
                return Ok(done.result * LEASE_UNIT);
            }
            let explanation = match done.status.code() {
                wire::STATUS_NO_MEMORY => "other hosts have leased all of its local memory",
                _ => "",
            };
            Err(refused(
                &self.name,
                &format!("{drive}: {}", opcode::name(opcode::MEMORY_LEASE)),
                done.status,
                explanation,
            ))
        })
    }

    fn transfer(&self, transfer: &Transfer) -> Result<TransferResult, NodeError> {
        let from = self.absolute(transfer.from)?;
        let there = wire::encode_transfer(&Transfer { from, ..transfer.clone() });
        self.kept(opcode::TRANSFER, &there)?;
        Ok(TransferResult { moved: Ledger { node_to_node: transfer.len, ..Ledger::default() } })
    }

    fn memory_read(&self, address: MemoryAddress, buf: &mut [u8]) -> Result<(), NodeError> {
        let address = self.absolute(address)?;
        for (i, piece) in buf.chunks_mut(MEMORY_PIECE).enumerate() {
            let sqe = memory_command(opcode::MEMORY_READ, address, i, piece.len());
            let done = self.ask(sqe, &[], piece)?;
            whole(&self.name, opcode::name(opcode::MEMORY_READ), &done, piece.len())?;
        }
        Ok(())
    }

    fn memory_write(&self, address: MemoryAddress, data: &[u8]) -> Result<(), NodeError> {
        let address = self.absolute(address)?;
        for (i, piece) in data.chunks(MEMORY_PIECE).enumerate() {
            let sqe = memory_command(opcode::MEMORY_WRITE, address, i, piece.len());
            let done = self.ask(sqe, piece, &mut [])?;
            if !done.status.is_success() {
                return Err(refused(&self.name, opcode::name(opcode::MEMORY_WRITE), done.status, ""));
            }
        }
        Ok(())
    }
}

impl Updates for RemoteNode {
    fn widen_memory(&self, wide: bool) {
        self.parts.widen(wide);
    }

    fn set_path(&self, path: PathId, range: &PeerRange) -> Result<(), NodeError> {
        let PeerRange { peer, to, len, grant } = range.clone();
        let from = MemoryAddress { drive: DriveId(0), offset: 0 };
        let bytes = wire::encode_transfer(&Transfer { from, len, peer, to, grant });
        let mut sqe = Sqe::new(opcode::PATH, 0);
        sqe.set_dword(10, u32::from(path.0));
        sqe.set_dword(12, bytes.len() as u32);
        self.plain(sqe, &bytes)
    }
}
