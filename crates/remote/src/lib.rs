//! A data node behind NVMe/TCP.
//!
//! Media are read with standard commands; parity, local memory and transfers with the parity
//! command set (`docs/reference/wire-format/offload.md`). Each call takes a separate queue from a
//! pool, so calls can come from several threads. A call that fails ends the whole association;
//! nothing is repeated here. To continue, a caller asks for a new association
//! ([`reconnect`](Link::reconnect)) and begins its work again: `docs/design/nvme-tcp.md`, *As a
//! host*.

mod admin;
mod answer;
mod blocks;
mod dial;
pub mod initiator;
mod memory;
mod numbers;
mod operations;
mod pace;
mod pool;
mod seen;
mod tags;
pub mod transport;

pub use answer::is_kept_out;
pub use dial::{Dial, log_silence};

use crate::initiator::{Command, Outcome};
use admin::Silence;
use answer::{kept_result, refused, whole};
use blocks::{Geometry, aligned, outcome};
use dial::describe_page;
use memory::Parts;
use operations::RemoteQueue;
use pool::{Lease, Pool};
use pumice_base::buffer::AlignedBuffer;
use pumice_nvme::pdu::Digests;
use pumice_nvme::spec::opcode::io;
use pumice_nvme::spec::{Nqn, Sqe};
use pumice_offload::wire::{self, SocketBytes, opcode};
use pumice_offload::{
    DataNode, DriveDescription, DriveId, DriveMemory, DriveRange, Drives, Ended, ErrorKind, Link,
    LinkFigures, NodeDescription, NodeError, OperationQueue, PaceRequest, Paced, ParityCommand, ParityEngine,
    ParityResult, Piece, PieceFailure, Presence, TaggedDrives, Updates,
};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Bytes of one read or write command.
const PIECE: usize = 256 << 10;
/// Time that a call may take in total while the node answers: a drive may try for a minute to read
/// a bad sector. Parity commands have no such limit.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// Drives of another machine.
pub struct RemoteNode {
    name: String,
    dial: Dial,
    serial: String,
    drives: Vec<DriveDescription>,
    geometry: Vec<Geometry>,
    /// It has updates.
    updates: bool,
    restores: bool,
    /// It knows commands without a pace.
    unpaced: bool,
    /// This host's parts of the drives' local memory.
    parts: Parts,
    pool: Arc<Pool>,
    /// True if every connection had both digests.
    digests: AtomicBool,
    /// True if it was held: only [`retake`](Link::retake) takes a lost hold again.
    held: AtomicBool,
    /// It was held, is connected again, and not held yet.
    to_hold: AtomicBool,
    /// It has promised not to write.
    observes: AtomicBool,
    /// The pace that was set.
    pace: Mutex<PaceRequest>,
}

const BOTH: Digests = Digests { header: true, data: true };

impl RemoteNode {
    /// Connects to a node; if its subsystem is not named, its discovery service is asked.
    ///
    /// # Errors
    /// If the node cannot be reached, does not answer in time, or has no parity command set.
    pub fn connect(dial: Dial) -> Result<Self, NodeError> {
        let made = dial.associate()?;
        let name = dial.address.to_string();
        let Dial { address, deadline, silent: tell, .. } = dial;
        let silence = Silence { address, deadline, tell };
        Ok(Self {
            dial: Dial { nqn: Some(made.nqn), ..dial },
            serial: made.serial,
            parts: Parts::of(&made.drives),
            drives: made.drives,
            geometry: made.geometry,
            updates: made.updates,
            restores: made.restores,
            unpaced: made.unpaced,
            pool: Arc::new(Pool::new(silence, made.controller, made.queue)?),
            digests: AtomicBool::new(made.digests == BOTH),
            held: AtomicBool::new(false),
            to_hold: AtomicBool::new(false),
            observes: AtomicBool::new(false),
            pace: Mutex::default(),
            name,
        })
    }

    /// Returns whether digests were asked for, and the node has none.
    #[must_use]
    pub fn lacks_digests(&self) -> bool {
        self.dial.digests.asked(self.dial.address) == BOTH && !self.digests.load(Ordering::Relaxed)
    }

    /// The node's name: its address.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The NQN of its subsystem, and its serial number: two nodes may share the first by mistake.
    #[must_use]
    pub fn identity(&self) -> (String, &str) {
        (self.dial.nqn.as_ref().map_or_else(String::new, Nqn::to_string), &self.serial)
    }

    /// Its drives.
    #[must_use]
    pub fn drives(&self) -> &[DriveDescription] {
        &self.drives
    }

    /// Bytes over the node's sockets since it started: to and from all hosts and nodes that have
    /// connected to it.
    ///
    /// # Errors
    /// If the node does not answer.
    pub fn socket_bytes(&self) -> Result<SocketBytes, NodeError> {
        let mut header = [0; wire::DESCRIPTION_HEADER];
        let sqe = describe_page(u32::MAX, header.len());
        let done = self.ask(sqe, &[], &mut header)?;
        whole(&self.name, opcode::name(opcode::DESCRIBE), &done, header.len())?;
        wire::decode_sockets(&header).ok_or_else(|| NodeError::invalid("description", self.name.clone()))
    }

    /// Connects again, after the connections were lost.
    fn renew(&self) -> Result<(), NodeError> {
        let made = self.dial.associate()?;
        if made.serial != self.serial {
            let what = format!("{}: another node answers there now, under the same name", self.name);
            return Err(NodeError::invalid("node", what));
        }
        if made.drives != self.drives || made.geometry != self.geometry {
            return Err(NodeError::invalid("node", format!("{}: it now serves other drives", self.name)));
        }
        if made.digests != BOTH {
            self.digests.store(false, Ordering::Relaxed);
        }
        self.parts.forget();
        self.pool.renew(made.controller, made.queue)
    }

    /// Carries out a command without a result.
    fn plain(&self, sqe: Sqe, data: &[u8]) -> Result<(), NodeError> {
        let status = self.ask(sqe, data, &mut [])?.status;
        if status.is_success() {
            return Ok(());
        }
        Err(refused(&self.name, opcode::name(sqe.opcode()), status, ""))
    }

    fn lease(&self) -> Result<Lease<'_>, NodeError> {
        self.pool.lease()
    }

    /// Carries out commands while the node is alive and the time limit is not exceeded.
    fn run(&self, commands: &mut [Command<'_>]) -> Result<Vec<Outcome>, NodeError> {
        let until = Instant::now() + PATIENCE;
        let patient = || Instant::now() < until && self.pool.goes_on();
        self.lease()?.run(|queue| queue.run_while(commands, patient))
    }

    /// The same for one command.
    fn ask(&self, sqe: Sqe, send: &[u8], receive: &mut [u8]) -> Result<Outcome, NodeError> {
        Ok(self.run(&mut [Command { sqe, send, receive }])?[0])
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

    /// Carries out a command whose result is kept by the node, and reads it.
    fn kept(&self, opcode: u8, descriptor: &[u8]) -> Result<Vec<u8>, NodeError> {
        let what = opcode::name(opcode);
        // The queue is ours until the result is read: one tag will do.
        const TAG: u32 = 1;
        let mut lease = self.lease()?;
        let done = lease.run_stoppable(|queue| {
            let mut sqe = Sqe::new(opcode, 0);
            sqe.set_dword(10, TAG);
            sqe.set_dword(12, descriptor.len() as u32);
            // A command that keeps a pace can take as long as it likes, while the node is there.
            let outcome = queue.execute_while(sqe, descriptor, &mut [], || self.pool.goes_on())?;
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
        let lost = |error: NodeError| NodeError::new(error.kind(), format!("{what}: {error}"));
        let (status, read, bytes) = done.map_err(lost)?;
        kept_result(&self.name, what, status, read, bytes)
    }
}

impl DataNode for RemoteNode {
    fn describe(&self) -> Result<NodeDescription, NodeError> {
        let mine = |drive: &DriveDescription| DriveDescription {
            memory_bytes: self.parts.bytes(drive.id),
            ..drive.clone()
        };
        Ok(NodeDescription { name: self.name.clone(), drives: self.drives.iter().map(mine).collect() })
    }

    fn tagged(&self) -> Option<&dyn TaggedDrives> {
        let any = self.drives.iter().any(|drive| drive.tags.is_some());
        any.then_some(self as &dyn TaggedDrives)
    }

    fn updates(&self) -> Option<&dyn Updates> {
        self.updates.then_some(self as &dyn Updates)
    }

    fn presence(&self) -> Option<&dyn Presence> {
        Some(self)
    }

    fn link(&self) -> Option<&dyn Link> {
        Some(self)
    }
}

impl Drives for RemoteNode {
    fn read(&self, drive: DriveId, offset: u64, buf: &mut [u8]) -> Result<(), NodeError> {
        let geometry = self.geometry(drive, offset, buf.len() as u64)?;
        let (start, end) = aligned(geometry, offset, buf.len());
        let skip = (offset - start) as usize;
        if end - start == buf.len() as u64 {
            return blocks::read(self, drive, geometry, offset, buf);
        }
        let mut whole = vec![0; (end - start) as usize];
        blocks::read(self, drive, geometry, start, &mut whole)?;
        buf.copy_from_slice(&whole[skip..skip + buf.len()]);
        Ok(())
    }

    fn read_ahead(&self, pieces: &[Piece], buffer: &mut [u8]) -> Vec<usize> {
        blocks::ahead(self, pieces, buffer)
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
        blocks::write(self, drive, offset, data)
    }

    fn zero(&self, drive: DriveId, offset: u64, len: u64) -> Result<(), NodeError> {
        blocks::zero(self, &[DriveRange { drive, offset, len }]).map_err(|(_, error)| error)
    }

    fn zero_ranges(&self, ranges: &[DriveRange]) -> Result<(), (usize, NodeError)> {
        blocks::zero(self, ranges)
    }

    fn flush(&self, drive: DriveId) -> Result<(), NodeError> {
        let sqe = Sqe::new(io::FLUSH, drive.0);
        outcome(&self.name, drive, "flush", self.ask(sqe, &[], &mut [])?.status)
    }

    fn operations(&self, depth: usize, ended: Ended) -> Result<Box<dyn OperationQueue>, NodeError> {
        let queue = RemoteQueue::open(&self.pool, &self.name, &self.geometry, depth, ended)?;
        Ok(Box::new(queue))
    }
}

impl ParityEngine for RemoteNode {
    fn reads_unpaced(&self) -> bool {
        self.unpaced
    }

    fn give_up(&self) {
        self.pool.give_up();
    }

    fn parity(&self, command: &ParityCommand) -> Result<ParityResult, NodeError> {
        command.validate()?;
        // An older node refuses what it does not know.
        let mut there = ParityCommand { unpaced: command.unpaced && self.unpaced, ..command.clone() };
        memory::translate(&mut there, |address| self.absolute(address))?;
        let bytes = self.kept(opcode::PARITY_EXECUTE, &wire::encode_command(&there))?;
        wire::decode_result(&bytes, command)
            .map_err(|e| NodeError::new(ErrorKind::Unreachable, format!("{}: result: {e}", self.name)))
    }
}

impl Link for RemoteNode {
    fn reconnect(&self) -> Result<bool, NodeError> {
        if !self.pool.is_lost() {
            return Ok(false);
        }
        if self.held.load(Ordering::Relaxed) {
            let what = "the hold on it ended with the connection, and others may have written since; run the scrub again";
            return Err(NodeError::new(ErrorKind::Busy, format!("{}: {what}", self.name)));
        }
        self.renew()?;
        if self.observes.load(Ordering::Relaxed) {
            self.observe()?;
        }
        let pace = self.pace.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if !pace.is_empty() {
            self.pace(&pace)?;
        }
        Ok(true)
    }

    fn retake(&self) -> Result<bool, NodeError> {
        let lost = self.pool.is_lost();
        if lost {
            self.to_hold.store(self.held.load(Ordering::Relaxed), Ordering::Relaxed);
            self.renew()?;
        }
        let holds = self.to_hold.load(Ordering::Relaxed);
        if holds {
            self.hold()?;
        }
        Ok(lost || holds)
    }

    fn link_figures(&self) -> LinkFigures {
        let traffic = self.pool.traffic();
        LinkFigures {
            bytes: traffic.bytes,
            pdus: traffic.pdus,
            digests: self.digests.load(Ordering::Relaxed),
            loopback: self.dial.address.ip().to_canonical().is_loopback(),
        }
    }
}
