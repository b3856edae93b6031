//! A data node behind NVMe/TCP.
//!
//! Media are read with standard commands; parity, local memory and transfers with the parity command set
//! (`docs/wire-format/offload.md`). Calls from several threads each take a queue of their own from a pool; a queue whose connection failed is thrown
//! away, and the next call opens another.

mod blocks;
mod memory;
mod pool;

use blocks::{Geometry, aligned, outcome};
use memory::Parts;
use pool::{Lease, Pool};
use pumice_blockdev::AlignedBuffer;
use pumice_initiator::{Command, ConnectOptions, Controller, InitiatorError, Outcome, Queue, discover};
use pumice_nvme::pdu::Digests;
use pumice_nvme::spec::log::DiscoveryEntry;
use pumice_nvme::spec::opcode::io;
use pumice_nvme::spec::{Nqn, Sqe, Status};
use pumice_offload::wire::{self, SocketBytes, opcode};
use pumice_offload::{
    DataNode, DriveDescription, DriveId, ErrorKind, Hosts, MemoryAddress, NodeDescription, NodeError,
    PaceFigures, PaceRequest, ParityCommand, ParityResult, Piece, PieceFailure, SuperblockSeen, Transfer,
    TransferResult,
};
use pumice_telemetry::Ledger;
use std::net::SocketAddr;
use std::time::Duration;

/// Bytes of one read or write command.
const PIECE: usize = 256 << 10;
/// Bytes of one command that moves local memory.
const MEMORY_PIECE: usize = 1 << 20;

/// Drives of another machine.
pub struct RemoteNode {
    name: String,
    drives: Vec<DriveDescription>,
    geometry: Vec<Geometry>,
    /// This host's parts of the drives' local memory.
    parts: Parts,
    pool: Pool,
}

fn unreachable(error: &InitiatorError) -> NodeError {
    NodeError::new(ErrorKind::Unreachable, error.to_string())
}

/// What a command of a node that failed means: the node, the command, the status by name, and the node's own explanation where it gave one.
fn refused(node: &str, what: &str, status: Status, explanation: &str) -> NodeError {
    const READ_ERROR: u16 = Status::READ_ERROR.code();
    const WRITE_FAULT: u16 = Status::WRITE_FAULT.code();
    const WRITE_PROTECTED: u16 = Status::WRITE_PROTECTED.code();
    let name = match status.code() {
        wire::STATUS_PEER => format!("peer unreachable ({:#05x})", wire::STATUS_PEER),
        wire::STATUS_IN_USE => format!("in use ({:#05x})", wire::STATUS_IN_USE),
        wire::STATUS_NO_MEMORY => format!("no memory ({:#05x})", wire::STATUS_NO_MEMORY),
        _ => status.to_string(),
    };
    let separator = if explanation.is_empty() { "" } else { ": " };
    let text = format!("{node}: {what}: {name}{separator}{explanation}");
    let kind = match status.code() {
        READ_ERROR | WRITE_FAULT => ErrorKind::Media,
        WRITE_PROTECTED => ErrorKind::ReadOnly,
        wire::STATUS_IN_USE | wire::STATUS_NO_MEMORY => ErrorKind::Busy,
        wire::STATUS_PEER => ErrorKind::Unreachable,
        _ => ErrorKind::InvalidField("command"),
    };
    NodeError::new(kind, text)
}

/// What became of a command whose result is kept: the command ended with `status`, and reading the result, where there is one, with `read`. A command that failed is
/// told by its own status, whatever becomes of the explanation.
fn kept_result(
    node: &str,
    what: &str,
    status: Status,
    read: Result<Option<Outcome>, InitiatorError>,
    bytes: Vec<u8>,
) -> Result<Vec<u8>, NodeError> {
    const READ: &str = "Result Read";
    let result = match read {
        Ok(None) => Ok(bytes),
        Ok(Some(read)) if !read.status.is_success() => {
            Err(refused(node, &format!("{what}: {READ}"), read.status, ""))
        }
        Ok(Some(read)) if read.received as usize != bytes.len() => {
            let came = format!("{node}: {what}: {READ}: {} of {} bytes came", read.received, bytes.len());
            Err(NodeError::new(ErrorKind::Unreachable, came))
        }
        Ok(Some(_)) => Ok(bytes),
        Err(error) => Err(NodeError::new(ErrorKind::Unreachable, format!("{node}: {what}: {READ}: {error}"))),
    };
    if status.is_success() {
        return result;
    }
    Err(refused(node, what, status, &String::from_utf8_lossy(&result.unwrap_or_default())))
}

impl RemoteNode {
    /// Connects to the node at `address` as the host `host` with the identifier `hostid`; its subsystem is asked for where it is not named. No call takes longer than `deadline` without any
    /// answer.
    ///
    /// # Errors
    /// Where the node cannot be reached, does not answer in time, or has no parity command set.
    pub fn connect(
        address: SocketAddr,
        nqn: Option<Nqn>,
        host: Nqn,
        hostid: [u8; 16],
        deadline: Duration,
    ) -> Result<Self, NodeError> {
        let mut options = ConnectOptions {
            subsystem: Nqn::discovery(),
            host,
            hostid,
            digests: Digests::default(),
            flow_control: true,
            deadline,
        };
        options.subsystem = match nqn {
            Some(nqn) => nqn,
            None => Self::ask(address, &options)?,
        };
        let mut controller = Controller::connect(address, options).map_err(|e| unreachable(&e))?;
        let vendor = controller.vendor();
        if vendor[..8] != wire::SIGNATURE || vendor[8] != wire::VERSION {
            let what = format!(
                "{address}: serves drives, but has no parity command set of version {}",
                wire::VERSION
            );
            return Err(NodeError::invalid("node", what));
        }
        let mut queue = controller.queue(1, pool::DEPTH).map_err(|e| unreachable(&e))?;
        let name = address.to_string();
        let drives = describe(&name, &mut queue)?;
        let parts = Parts::of(&drives);
        let mut geometry = Vec::with_capacity(drives.len());
        for drive in &drives {
            let namespace =
                controller.namespace(drive.id.0).map_err(|e| unreachable(&e))?.ok_or_else(|| {
                    NodeError::invalid("drive", format!("{address}: {} is no namespace", drive.id))
                })?;
            geometry.push(Geometry::of(&namespace));
        }
        Ok(Self { name, drives, geometry, parts, pool: Pool::new(controller, queue) })
    }

    fn ask(address: SocketAddr, options: &ConnectOptions) -> Result<Nqn, NodeError> {
        let entries = discover(address, options).map_err(|e| unreachable(&e))?;
        let found = entries.iter().filter(|entry| entry.subtype == DiscoveryEntry::NVM);
        found.filter_map(|entry| entry.subnqn.parse().ok()).next().ok_or_else(|| {
            NodeError::invalid("node", format!("{address}: its discovery service lists no subsystem"))
        })
    }

    /// The node's name: its address.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its drives.
    #[must_use]
    pub fn drives(&self) -> &[DriveDescription] {
        &self.drives
    }

    /// Bytes that went over the node's sockets since it started: to and from all that have connected to it, other nodes among them.
    ///
    /// # Errors
    /// Where the node does not answer.
    pub fn socket_bytes(&self) -> Result<SocketBytes, NodeError> {
        let mut header = [0; wire::DESCRIPTION_HEADER];
        let done =
            self.lease()?.run(|queue| queue.execute(describe_page(u32::MAX, header.len()), &[], &mut header));
        let done = done.map_err(|e| unreachable(&e))?;
        let sockets = wire::decode_sockets(&header).filter(|_| done.status.is_success());
        sockets.ok_or_else(|| refused(&self.name, "Describe", done.status, ""))
    }

    fn lease(&self) -> Result<Lease<'_>, NodeError> {
        self.pool.lease().map_err(|e| unreachable(&e))
    }

    fn geometry(&self, drive: DriveId, offset: u64, len: u64) -> Result<Geometry, NodeError> {
        let index = (drive.0 as usize).wrapping_sub(1);
        let geometry = self
            .geometry
            .get(index)
            .ok_or_else(|| NodeError::invalid("drive", format!("node {} has no {drive}", self.name)))?;
        if offset.checked_add(len).is_none_or(|end| end > geometry.bytes()) {
            let what = format!(
                "{offset}+{len} is outside the {} bytes of {drive} of {}",
                geometry.bytes(),
                self.name
            );
            return Err(NodeError::invalid("offset", what));
        }
        Ok(*geometry)
    }

    /// Reads whole blocks, in commands side by side.
    fn read_blocks(
        &self,
        drive: DriveId,
        geometry: Geometry,
        offset: u64,
        buf: &mut [u8],
    ) -> Result<(), NodeError> {
        let mut commands: Vec<Command<'_>> = Vec::new();
        for (i, piece) in buf.chunks_mut(PIECE).enumerate() {
            let at = offset + (i * PIECE) as u64;
            commands.push(Command {
                sqe: geometry.command(io::READ, drive, at, piece.len()),
                send: &[],
                receive: piece,
            });
        }
        let outcomes = self.lease()?.run(|queue| queue.run(&mut commands)).map_err(|e| unreachable(&e))?;
        outcomes.iter().try_for_each(|o| outcome(&self.name, drive, "read", o.status))
    }

    /// Carries out a command whose result is kept by the node, and reads it.
    fn kept(&self, what: &'static str, opcode: u8, descriptor: &[u8]) -> Result<Vec<u8>, NodeError> {
        // The queue is ours until the result is read: one tag will do.
        const TAG: u32 = 1;
        let mut lease = self.lease()?;
        let done = lease.run(|queue| {
            let mut sqe = Sqe::new(opcode, 0);
            sqe.set_dword(10, TAG);
            sqe.set_dword(12, descriptor.len() as u32);
            // A command that keeps a pace can take as long as it likes, while the node is there.
            let outcome = queue.execute_while(sqe, descriptor, &mut [], || self.pool.is_alive())?;
            let mut bytes = vec![0; (outcome.result as usize).min(wire::MAX_DESCRIPTOR)];
            if bytes.is_empty() {
                return Ok((outcome.status, Ok(None), bytes));
            }
            let mut sqe = Sqe::new(opcode::RESULT_READ, 0);
            sqe.set_dword(10, TAG);
            sqe.set_dword(12, bytes.len() as u32);
            let read = queue.execute(sqe, &[], &mut bytes).map(Some);
            Ok((outcome.status, read, bytes))
        });
        let lost = |error| NodeError::new(ErrorKind::Unreachable, format!("{what}: {error}"));
        let (status, read, bytes) = done.map_err(lost)?;
        kept_result(&self.name, what, status, read, bytes)
    }
}

fn describe_page(page: u32, len: usize) -> Sqe {
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
            return Err(refused(node, "Describe", outcome.status, ""));
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

impl DataNode for RemoteNode {
    fn describe(&self) -> Result<NodeDescription, NodeError> {
        let mut drives = self.drives.clone();
        for drive in &mut drives {
            drive.memory_bytes = self.parts.bytes(drive.id);
        }
        Ok(NodeDescription { name: self.name.clone(), drives })
    }

    fn read(&self, drive: DriveId, offset: u64, buf: &mut [u8]) -> Result<(), NodeError> {
        let geometry = self.geometry(drive, offset, buf.len() as u64)?;
        let (start, end) = aligned(geometry, offset, buf.len());
        if start == offset && end == offset + buf.len() as u64 {
            return self.read_blocks(drive, geometry, offset, buf);
        }
        let mut whole = vec![0; (end - start) as usize];
        self.read_blocks(drive, geometry, start, &mut whole)?;
        let skip = (offset - start) as usize;
        buf.copy_from_slice(&whole[skip..skip + buf.len()]);
        Ok(())
    }

    fn gather(
        &self,
        pieces: &[Piece],
        mut buffer: AlignedBuffer,
    ) -> Result<(AlignedBuffer, Vec<PieceFailure>), NodeError> {
        let failures = blocks::gather(self, pieces, &mut buffer)?;
        Ok((buffer, failures))
    }

    fn write(&self, drive: DriveId, offset: u64, data: &[u8]) -> Result<(), NodeError> {
        let geometry = self.geometry(drive, offset, data.len() as u64)?;
        let (start, end) = aligned(geometry, offset, data.len());
        let mut whole = vec![0; (end - start) as usize];
        if start != offset || end != offset + data.len() as u64 {
            self.read_blocks(drive, geometry, start, &mut whole)?;
        }
        let skip = (offset - start) as usize;
        whole[skip..skip + data.len()].copy_from_slice(data);
        let mut commands: Vec<Command<'_>> = Vec::new();
        for (i, piece) in whole.chunks(PIECE).enumerate() {
            let at = start + (i * PIECE) as u64;
            let sqe = geometry.command(io::WRITE, drive, at, piece.len());
            commands.push(Command { sqe, send: piece, receive: &mut [] });
        }
        let outcomes = self.lease()?.run(|queue| queue.run(&mut commands)).map_err(|e| unreachable(&e))?;
        outcomes.iter().try_for_each(|o| outcome(&self.name, drive, "write", o.status))
    }

    fn flush(&self, drive: DriveId) -> Result<(), NodeError> {
        let sqe = Sqe::new(io::FLUSH, drive.0);
        let done = self.lease()?.run(|queue| queue.execute(sqe, &[], &mut []));
        outcome(&self.name, drive, "flush", done.map_err(|e| unreachable(&e))?.status)
    }

    fn hosts(&self) -> Result<Option<Hosts>, NodeError> {
        let mut bytes = vec![0; wire::HOSTS_HEADER + wire::MAX_HOSTS * wire::HOST_BYTES];
        let mut sqe = Sqe::new(opcode::HOSTS_READ, 0);
        sqe.set_dword(12, bytes.len() as u32);
        let done = self.lease()?.run(|queue| queue.execute(sqe, &[], &mut bytes));
        let done = done.map_err(|e| unreachable(&e))?;
        if !done.status.is_success() {
            return Err(refused(&self.name, "Hosts Read", done.status, ""));
        }
        bytes.truncate(done.received as usize);
        let hosts = wire::decode_hosts(&bytes);
        hosts.map(Some).map_err(|e| NodeError::new(ErrorKind::Unreachable, format!("{}: {e}", self.name)))
    }

    fn superblocks(&self) -> Result<Option<Vec<SuperblockSeen>>, NodeError> {
        let mut seen = Vec::new();
        for page in 0.. {
            let mut bytes =
                vec![0; wire::SUPERBLOCKS_HEADER + 4 * wire::SUPERBLOCKS_PAGE * wire::SUPERBLOCK_BYTES];
            let mut sqe = Sqe::new(opcode::SUPERBLOCKS_READ, 0);
            sqe.set_dword(10, page);
            sqe.set_dword(12, bytes.len() as u32);
            let done = self.lease()?.run(|queue| queue.execute(sqe, &[], &mut bytes));
            let done = done.map_err(|e| unreachable(&e))?;
            // A node that is older does not know the command: it remembers nothing.
            if !done.status.is_success() {
                return Ok(None);
            }
            bytes.truncate(done.received as usize);
            let (entries, drives) = wire::decode_superblocks(&bytes)
                .map_err(|e| NodeError::new(ErrorKind::Unreachable, format!("{}: {e}", self.name)))?;
            seen.extend(entries);
            if (u64::from(page) + 1) * wire::SUPERBLOCKS_PAGE as u64 >= u64::from(drives) {
                break;
            }
        }
        Ok(Some(seen))
    }

    fn hold(&self) -> Result<(), NodeError> {
        let mut sqe = Sqe::new(opcode::HOLD, 0);
        sqe.set_dword(10, 1);
        let done = self.lease()?.run(|queue| queue.execute(sqe, &[], &mut []));
        let status = done.map_err(|e| unreachable(&e))?.status;
        if status.is_success() { Ok(()) } else { Err(refused(&self.name, "Hold", status, "")) }
    }

    fn pace(&self, request: &PaceRequest) -> Result<(), NodeError> {
        if !request.is_empty() {
            request.validate().map_err(|(field, why)| NodeError::invalid(field, why))?;
        }
        let bytes = wire::encode_pace(request);
        let mut sqe = Sqe::new(opcode::PACE, 0);
        sqe.set_dword(12, bytes.len() as u32);
        let done = self.lease()?.run(|queue| queue.execute(sqe, &bytes, &mut []));
        let status = done.map_err(|e| unreachable(&e))?.status;
        if status.is_success() { Ok(()) } else { Err(refused(&self.name, "Pace", status, "")) }
    }

    fn pace_figures(&self) -> Result<Vec<PaceFigures>, NodeError> {
        let mut figures = Vec::new();
        for page in 0.. {
            let len = wire::FIGURES_HEADER + wire::FIGURES_BYTES * wire::FIGURES_PER_PAGE as usize;
            let mut bytes = vec![0; len];
            let mut sqe = Sqe::new(opcode::PACE_READ, 0);
            sqe.set_dword(10, page);
            sqe.set_dword(12, len as u32);
            let done = self.lease()?.run(|queue| queue.execute(sqe, &[], &mut bytes));
            let done = done.map_err(|e| unreachable(&e))?;
            if !done.status.is_success() {
                return Err(refused(&self.name, "Pace Read", done.status, ""));
            }
            bytes.truncate(done.received as usize);
            let (all, part) = wire::decode_figures(&bytes)
                .map_err(|e| NodeError::new(ErrorKind::Unreachable, format!("{}: {e}", self.name)))?;
            let empty = part.is_empty();
            figures.extend(part);
            if empty || figures.len() >= all as usize {
                break;
            }
        }
        Ok(figures)
    }

    fn absolute(&self, address: MemoryAddress) -> Result<MemoryAddress, NodeError> {
        self.parts.absolute(address, |drive, bytes| {
            let mut sqe = Sqe::new(opcode::MEMORY_LEASE, drive.0);
            sqe.set_dword(12, bytes as u32);
            let done = self.lease()?.run(|queue| queue.execute(sqe, &[], &mut []));
            let done = done.map_err(|e| unreachable(&e))?;
            if done.status.is_success() {
                return Ok(done.result * wire::LEASE_UNIT);
            }
            let explanation = match done.status.code() {
                wire::STATUS_NO_MEMORY => "other hosts have all of its local memory",
                _ => "",
            };
            Err(refused(&self.name, &format!("{drive}: Memory Lease"), done.status, explanation))
        })
    }

    fn parity(&self, command: &ParityCommand) -> Result<ParityResult, NodeError> {
        command.validate()?;
        let mut there = command.clone();
        memory::translate(&mut there, |address| self.absolute(address))?;
        let bytes = self.kept("Parity Execute", opcode::PARITY_EXECUTE, &wire::encode_command(&there))?;
        wire::decode_result(&bytes, command)
            .map_err(|e| NodeError::new(ErrorKind::Unreachable, format!("{}: result: {e}", self.name)))
    }

    fn transfer(&self, transfer: &Transfer) -> Result<TransferResult, NodeError> {
        let from = self.absolute(transfer.from)?;
        let there = wire::encode_transfer(&Transfer { from, ..transfer.clone() });
        self.kept("Transfer", opcode::TRANSFER, &there)?;
        Ok(TransferResult { moved: Ledger { node_to_node: transfer.len, ..Ledger::default() } })
    }

    fn memory_read(&self, address: MemoryAddress, buf: &mut [u8]) -> Result<(), NodeError> {
        let address = self.absolute(address)?;
        let mut lease = self.lease()?;
        for (i, piece) in buf.chunks_mut(MEMORY_PIECE).enumerate() {
            let sqe = memory_command(opcode::MEMORY_READ, address, i, piece.len());
            let done = lease.run(|queue| queue.execute(sqe, &[], piece)).map_err(|e| unreachable(&e))?;
            if !done.status.is_success() {
                return Err(refused(&self.name, "Memory Read", done.status, ""));
            }
        }
        Ok(())
    }

    fn memory_write(&self, address: MemoryAddress, data: &[u8]) -> Result<(), NodeError> {
        let address = self.absolute(address)?;
        let mut lease = self.lease()?;
        for (i, piece) in data.chunks(MEMORY_PIECE).enumerate() {
            let sqe = memory_command(opcode::MEMORY_WRITE, address, i, piece.len());
            let done = lease.run(|queue| queue.execute(sqe, piece, &mut [])).map_err(|e| unreachable(&e))?;
            if !done.status.is_success() {
                return Err(refused(&self.name, "Memory Write", done.status, ""));
            }
        }
        Ok(())
    }
}

fn memory_command(opcode: u8, address: MemoryAddress, piece: usize, len: usize) -> Sqe {
    let offset = address.offset.saturating_add((piece * MEMORY_PIECE) as u64);
    let mut sqe = Sqe::new(opcode, address.drive.0);
    sqe.set_dword(10, offset as u32);
    sqe.set_dword(11, (offset >> 32) as u32);
    sqe.set_dword(12, len as u32);
    sqe
}

#[cfg(test)]
mod tests {
    use super::*;

    const NODE: &str = "192.0.2.1:4420";

    fn came(status: Status, received: u32) -> Result<Option<Outcome>, InitiatorError> {
        Ok(Some(Outcome { status, result: 0, received }))
    }

    fn gone() -> Result<Option<Outcome>, InitiatorError> {
        Err(InitiatorError::Deadline { address: NODE.parse().unwrap(), seconds: 30 })
    }

    #[test]
    fn a_command_that_failed_is_told_by_its_own_status() {
        let failed = |read, text: &str| {
            let bytes = text.as_bytes().to_vec();
            kept_result(NODE, "Transfer", Status(wire::STATUS_PEER), read, bytes).unwrap_err()
        };
        let own = format!("{NODE}: Transfer: peer unreachable (0x7c0)");
        for read in [came(Status::SEQUENCE, 0), came(Status::SUCCESS, 2), gone()] {
            let error = failed(read, "why");
            assert!(error.to_string().contains(&own), "{error}");
            assert_eq!(error.kind(), ErrorKind::Unreachable);
        }
        let explained = failed(came(Status::SUCCESS, 11), "not a peer!").to_string();
        assert!(explained.contains(&format!("{own}: not a peer!")), "{explained}");
        let silent = kept_result(NODE, "Parity Execute", Status::INVALID_FIELD, Ok(None), Vec::new());
        let silent = silent.unwrap_err().to_string();
        assert!(silent.contains(&format!("{NODE}: Parity Execute: invalid field (0x002)")), "{silent}");
    }

    #[test]
    fn a_result_that_does_not_come_is_told_by_the_status_of_its_reading() {
        let lost = |read| kept_result(NODE, "Parity Execute", Status::SUCCESS, read, vec![0; 96]);
        assert_eq!(lost(came(Status::SUCCESS, 96)).unwrap().len(), 96);
        let cases = [
            (
                came(Status::SEQUENCE.dnr(), 0),
                "192.0.2.1:4420: Parity Execute: Result Read: command sequence error (0x00c)",
            ),
            (came(Status::SUCCESS, 95), "192.0.2.1:4420: Parity Execute: Result Read: 95 of 96 bytes"),
            (gone(), "Parity Execute: Result Read: 192.0.2.1:4420: no answer"),
        ];
        for (read, words) in cases {
            let error = lost(read).unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        }
    }
}
