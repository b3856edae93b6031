//! A data node over block devices of this machine.

mod media;
mod tags;

use crate::engine::{Fold, MediaJob, Permit, Worker, fold_memory};
use crate::memory::{LocalMemory, MemoryAccess, Peers};
use crate::operations::{LocalQueue, io_error};
use crate::pace::Pacing;
use crate::spare::Spare;
use crate::watch::WriteWatch;
use pumice_base::buffer::AlignedBuffer;
use pumice_base::telemetry::Ledger;
use pumice_blockdev::{BlockDevice, Engine, Gather, Gatherer, Judgement, Part};
use pumice_offload::{
    Activity, DataNode, DriveDescription, DriveId, DriveMemory, DriveRange, Drives, Ended, ErrorKind,
    MemoryAddress, Mode, NodeDescription, NodeError, OperationQueue, PaceFigures, PaceRequest, Paced,
    ParityCommand, ParityEngine, ParityResult, Piece, PieceFailure, Source, TaggedDrives, Transfer,
    TransferResult,
};
use pumice_parity::kernels::Kernels;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Resources of a node.
#[derive(Debug, Clone)]
pub struct NodeOptions {
    /// Threads that read and fold.
    pub workers: usize,
    /// Bytes of local memory of each drive.
    pub memory_bytes: u64,
    /// The engine that issues reads.
    pub engine: Engine,
    /// The kernels that fold.
    pub kernels: Kernels,
    /// The time that refused reads of one source may take in one parity command. Beyond it the rest
    /// of a failed read is reported as not asked for.
    pub error_time: Duration,
}

impl Default for NodeOptions {
    fn default() -> Self {
        Self {
            workers: std::thread::available_parallelism().map_or(1, usize::from).min(16),
            memory_bytes: 32 << 20,
            engine: Engine::Auto,
            kernels: Kernels::best(),
            error_time: ERROR_TIME,
        }
    }
}

/// A drive with limited error recovery gives a sector up after 7 s, others after a minute or more:
/// a few bad sectors are told one by one, and a drive that fails everywhere holds up a command no
/// longer.
const ERROR_TIME: Duration = Duration::from_secs(30);

/// Reads in flight of one worker, at most.
const DEPTH: u32 = 256;

/// Workers of all commands together, for each of [`NodeOptions::workers`]; a command has one in any
/// case.
const WORKERS_A_THREAD: usize = 2;

/// Workers that no command has, and how many commands have.
#[derive(Default)]
struct Store {
    idle: Vec<Worker>,
    lent: usize,
}

/// Workers that a command has for a while.
struct Lent<'n> {
    node: &'n LocalNode,
    workers: Vec<Worker>,
    count: usize,
}

impl Drop for Lent<'_> {
    fn drop(&mut self) {
        let mut store = locked(&self.node.workers);
        store.lent -= self.count;
        // After a panic reads may still be under way: those workers end, and wait for them.
        if !std::thread::panicking() {
            store.idle.append(&mut self.workers);
            store.idle.truncate(WORKERS_A_THREAD * self.node.options.workers);
        }
    }
}

fn locked(store: &Mutex<Store>) -> MutexGuard<'_, Store> {
    store.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Drives of this machine, served in this process.
pub struct LocalNode {
    name: String,
    drives: Vec<Arc<dyn BlockDevice>>,
    memory: Arc<LocalMemory>,
    peers: Peers,
    options: NodeOptions,
    workers: Mutex<Store>,
    watch: Option<Arc<WriteWatch>>,
    pacing: Arc<Pacing>,
    spare: Spare,
}

impl LocalNode {
    /// A node with the drives in the order given; drive 1 is the first.
    #[must_use]
    pub fn new(
        name: impl Into<String>,
        drives: Vec<Arc<dyn BlockDevice>>,
        peers: &Peers,
        options: NodeOptions,
    ) -> Self {
        let name = name.into();
        let memory = Arc::new(LocalMemory::new(drives.len(), options.memory_bytes));
        peers.announce(&name, &memory);
        let pacing = Arc::new(Pacing::new(drives.iter().map(|drive| (drive.size_bytes(), drive.disks()))));
        Self {
            name,
            drives,
            memory,
            peers: peers.clone(),
            options,
            workers: Mutex::default(),
            watch: None,
            pacing,
            spare: Spare::default(),
        }
    }

    /// Reports the counters of `watch`, which those raise who write the drives.
    #[must_use]
    pub fn with_watch(mut self, watch: Arc<WriteWatch>) -> Self {
        self.watch = Some(watch);
        self
    }

    fn index(&self, drive: DriveId) -> Result<usize, NodeError> {
        let index = (drive.0 as usize).wrapping_sub(1);
        if index < self.drives.len() {
            Ok(index)
        } else {
            Err(NodeError::invalid("drive", format!("node '{}' has no {drive}", self.name)))
        }
    }

    /// A drive with a range of bytes on it.
    pub(crate) fn checked(
        &self,
        drive: DriveId,
        offset: u64,
        len: u64,
    ) -> Result<&dyn BlockDevice, NodeError> {
        let device = &*self.drives[self.index(drive)?];
        if offset.checked_add(len).is_none_or(|end| end > device.size_bytes()) {
            let size = device.size_bytes();
            let name = device.name();
            return Err(NodeError::invalid(
                "offset",
                format!("{offset}+{len} is outside the {size} bytes of {name}"),
            ));
        }
        Ok(device)
    }

    /// The same for a change of the medium.
    pub(crate) fn writable(
        &self,
        drive: DriveId,
        offset: u64,
        len: u64,
    ) -> Result<&dyn BlockDevice, NodeError> {
        let device = self.checked(drive, offset, len)?;
        if device.read_only() {
            let what = format!("{} is open read-only", device.name());
            return Err(NodeError::new(ErrorKind::ReadOnly, what));
        }
        Ok(device)
    }

    /// The same for whole logical blocks.
    pub(crate) fn whole_blocks(&self, drive: DriveId, bytes: &Range<u64>) -> Result<(), NodeError> {
        let device = self.writable(drive, bytes.start, bytes.end - bytes.start)?;
        let block = device.logical_block();
        if bytes.is_empty() || (bytes.start | bytes.end) & u64::from(block - 1) != 0 {
            let what = format!("{}..{} is not made of whole blocks of {block} bytes", bytes.start, bytes.end);
            return Err(NodeError::invalid("offset", what));
        }
        Ok(())
    }

    /// Buffers of updates.
    pub(crate) fn spare(&self) -> &Spare {
        &self.spare
    }

    /// The kernels that fold.
    pub(crate) fn kernels(&self) -> Kernels {
        self.options.kernels
    }

    /// Takes up to `count` workers out of the store, and makes what is missing: one at least, and
    /// more only while all commands together have fewer than [`WORKERS_A_THREAD`] for each thread.
    fn borrow_workers(&self, count: usize) -> Result<Lent<'_>, NodeError> {
        let (mut lent, count) = {
            let mut store = locked(&self.workers);
            let free = (WORKERS_A_THREAD * self.options.workers).saturating_sub(store.lent);
            let count = count.min(free).max(1);
            store.lent += count;
            let keep = store.idle.len().saturating_sub(count);
            (Lent { node: self, workers: store.idle.split_off(keep), count }, count)
        };
        while lent.workers.len() < count {
            let gatherer =
                Gatherer::new(self.drives.clone(), DEPTH, self.options.engine).map_err(|error| {
                    NodeError::new(ErrorKind::Drive, format!("node '{}' cannot set up its reads", self.name))
                        .with_source(error)
                })?;
            lent.workers.push(Worker { gatherer, spare: Vec::new() });
        }
        Ok(lent)
    }

    /// Reads what a command over media would read, in the same way, and folds nothing: the limit
    /// that it is measured against.
    ///
    /// # Errors
    /// As [`parity`](ParityEngine::parity).
    pub fn read_only_pass(&self, command: &ParityCommand) -> Result<Ledger, NodeError> {
        command.validate()?;
        let sources = self.media_sources(command)?;
        let fold = Fold::new(command, self.options.kernels, &*self.memory)?;
        let job = MediaJob::new(command, &self.drives, sources, fold, self.options.error_time, &|| true);
        Ok(self.run_job(&job.reading_only(), &|| true)?.moved)
    }

    /// Vouches for the adopted tags of blocks, while anybody waits for it.
    pub(crate) fn vouch_while(
        &self,
        drive: DriveId,
        offset: u64,
        len: u64,
        permit: &dyn Permit,
    ) -> Result<u64, NodeError> {
        tags::vouch(self.checked(drive, offset, len)?, offset, len, permit)
    }

    /// Workers that commands have, and how many they may have beyond one each.
    pub(crate) fn readers(&self) -> (usize, usize) {
        (locked(&self.workers).lent, WORKERS_A_THREAD * self.options.workers)
    }

    /// The local memory of its drives.
    pub(crate) fn memory(&self) -> &Arc<LocalMemory> {
        &self.memory
    }

    /// The pace of its drives.
    pub(crate) fn pacing(&self) -> &Arc<Pacing> {
        &self.pacing
    }

    /// Executes a command slice by slice. Between two slices it holds what it has folded, and no
    /// buffers.
    fn run_job(&self, job: &MediaJob<'_>, permit: &dyn Permit) -> Result<ParityResult, NodeError> {
        let useful = usize::try_from(job.useful_workers()).unwrap_or(usize::MAX);
        let count = useful.min(self.options.workers).min(job.workers_that_fit()).max(1);
        let mut sum = job.share();
        loop {
            let mut lent = self.borrow_workers(count)?;
            job.run(&mut lent.workers, &mut sum)?;
            drop(lent);
            if job.is_done() {
                return job.finish(sum);
            }
            permit.yield_turn();
        }
    }

    /// Executes a parity command, as long as `permit` says that it is wanted.
    ///
    /// # Errors
    /// As [`parity`](ParityEngine::parity), and if it is not wanted any more.
    pub(crate) fn parity_while(
        &self,
        command: &ParityCommand,
        memory: &dyn MemoryAccess,
        permit: &dyn Permit,
    ) -> Result<ParityResult, NodeError> {
        command.validate()?;
        if let Mode::Fingerprint { .. } = command.mode
            && !command.window.start.is_multiple_of(64)
        {
            return Err(NodeError::invalid("window", "a fingerprint must begin at a multiple of 64 bytes"));
        }
        if let Some((into, len)) = command.output() {
            memory.check("into", into, len)?;
        }
        let addresses: Option<Vec<MemoryAddress>> = command
            .sources
            .iter()
            .map(|source| match source {
                Source::Memory { address } => Some(*address),
                Source::Media { .. } => None,
            })
            .collect();
        // Everything that the command names is there before anything is made for it.
        if let Some(addresses) = addresses {
            let len = u64::from(command.window.len) * command.count();
            addresses.iter().try_for_each(|at| memory.check("sources", *at, len))?;
            let fold = Fold::new(command, self.options.kernels, memory)?;
            return fold_memory(command, &addresses, &fold, memory, permit);
        }
        let sources = self.media_sources(command)?;
        let fold = Fold::new(command, self.options.kernels, memory)?;
        // Whole chunks, whatever the window: what was examined through a window is judged by the
        // same counters as the batch that it came from.
        let chunk = u64::from(command.chunk);
        let ranges: Vec<(usize, Range<u64>)> = sources
            .iter()
            .map(|s| (s.device, s.base + command.stripes.start * chunk..s.base + command.stripes.end * chunk))
            .collect();
        let before = self.watch.as_ref().map(|watch| watch.sum(ranges.iter().cloned()));
        let job = MediaJob::new(command, &self.drives, sources, fold, self.options.error_time, permit);
        let mut result = if self.pacing.is_active() && command.count() > 1 && !command.unpaced {
            job.run_paced(&self.pacing)?
        } else {
            self.run_job(&job, permit)?
        };
        if command.unpaced {
            let read = u64::from(command.window.len) * command.count();
            ranges.iter().for_each(|(index, _)| self.pacing.owe(*index, read));
        }
        if let (Some(watch), Some(before)) = (&self.watch, before) {
            let after = watch.sum(ranges.iter().cloned());
            result.activity = Some(Activity { epoch: watch.epoch(), before, after });
        }
        self.note_checked(command, &ranges);
        Ok(result)
    }
}

impl Drop for LocalNode {
    fn drop(&mut self) {
        self.peers.withdraw(&self.name, &self.memory);
    }
}

impl DataNode for LocalNode {
    fn describe(&self) -> Result<NodeDescription, NodeError> {
        let drives = self.drives.iter().enumerate().map(|(i, drive)| DriveDescription {
            id: DriveId(i as u32 + 1),
            name: drive.name().to_owned(),
            size_bytes: drive.size_bytes(),
            memory_bytes: self.memory.size(),
            block_bytes: drive.logical_block(),
            tags: tags::format_of(&**drive).map(|format| format.guard),
        });
        Ok(NodeDescription { name: self.name.clone(), drives: drives.collect() })
    }

    fn tagged(&self) -> Option<&dyn TaggedDrives> {
        let any = self.drives.iter().any(|drive| drive.tagged().is_some());
        any.then_some(self as &dyn TaggedDrives)
    }
}

impl Drives for LocalNode {
    fn read(&self, drive: DriveId, offset: u64, buf: &mut [u8]) -> Result<(), NodeError> {
        self.checked(drive, offset, buf.len() as u64)?.read_at(offset, buf).map_err(io_error)
    }

    fn gather(
        &self,
        pieces: &[Piece],
        buffer: AlignedBuffer,
    ) -> Result<(AlignedBuffer, Vec<PieceFailure>), NodeError> {
        let mut parts = Vec::with_capacity(pieces.len());
        for piece in pieces {
            self.checked(piece.drive, piece.offset, piece.len as u64)?;
            if piece.at.checked_add(piece.len).is_none_or(|end| end > buffer.len()) {
                let what = format!("{}+{} is outside the buffer", piece.at, piece.len);
                return Err(NodeError::invalid("at", what));
            }
            let device = self.index(piece.drive)?;
            parts.push(Part { device, offset: piece.offset, at: piece.at, len: piece.len });
        }
        let mut lent = self.borrow_workers(1)?;
        lent.workers[0].gatherer.submit(Gather { tag: 0, buffer, parts, sum: None });
        let done = lent.workers[0].gatherer.next(true).expect("one gather was submitted");
        drop(lent);
        let mut failures = Vec::with_capacity(done.failures.len());
        for (piece, error) in done.failures {
            // A sector that cannot be read is a finding; a drive that is gone is not.
            if !error.is_media_error() {
                return Err(io_error(error));
            }
            failures.push(PieceFailure { piece, reason: error.to_string() });
        }
        // As a plain read would.
        let refused = |(piece, judgement): &(usize, Judgement)| {
            let device = &*self.drives[done.parts[*piece].device];
            tags::refuses(device, judgement)
                .then(|| PieceFailure { piece: *piece, reason: "a block differs from its tag".to_owned() })
        };
        failures.extend(done.judged.iter().filter_map(refused));
        failures.sort_by_key(|failure| failure.piece);
        Ok((done.buffer, failures))
    }

    fn write(&self, drive: DriveId, offset: u64, data: &[u8]) -> Result<(), NodeError> {
        self.writable(drive, offset, data.len() as u64)?.write_at(offset, data).map_err(io_error)
    }

    fn zero(&self, drive: DriveId, offset: u64, len: u64) -> Result<(), NodeError> {
        self.writable(drive, offset, len)?.zero(offset, len).map_err(io_error)
    }

    fn zero_ranges(&self, ranges: &[DriveRange]) -> Result<(), (usize, NodeError)> {
        media::zero_ranges(self, ranges)
    }

    fn flush(&self, drive: DriveId) -> Result<(), NodeError> {
        self.drives[self.index(drive)?].flush().map_err(io_error)
    }

    fn operations(&self, depth: usize, ended: Ended) -> Result<Box<dyn OperationQueue>, NodeError> {
        let queue = LocalQueue::open(&self.name, self.drives.clone(), depth, ended).map_err(|error| {
            let what = format!("node '{}' cannot open a queue of operations", self.name);
            NodeError::new(ErrorKind::Drive, what).with_source(error)
        })?;
        Ok(Box::new(queue))
    }
}

impl ParityEngine for LocalNode {
    fn parity(&self, command: &ParityCommand) -> Result<ParityResult, NodeError> {
        self.parity_while(command, &*self.memory, &|| true)
    }

    fn give_up(&self) {
        self.pacing.stop();
    }

    fn reads_unpaced(&self) -> bool {
        true
    }
}

impl DriveMemory for LocalNode {
    fn transfer(&self, transfer: &Transfer) -> Result<TransferResult, NodeError> {
        self.memory.range("from", transfer.from, transfer.len)?;
        let peer = self.peers.find(&transfer.peer)?;
        peer.range("to", transfer.to, transfer.len)?;
        let mut data = vec![0; usize::try_from(transfer.len).expect("the range was checked")];
        self.memory.read(transfer.from, &mut data)?;
        peer.write(transfer.to, &data)?;
        Ok(TransferResult { moved: Ledger { node_to_node: transfer.len, ..Ledger::default() } })
    }

    fn memory_write(&self, address: MemoryAddress, data: &[u8]) -> Result<(), NodeError> {
        self.memory.write(address, data)
    }

    fn memory_read(&self, address: MemoryAddress, buf: &mut [u8]) -> Result<(), NodeError> {
        self.memory.read(address, buf)
    }
}

impl Paced for LocalNode {
    fn pace(&self, request: &PaceRequest) -> Result<(), NodeError> {
        self.pacing.ask(0, request.clone())
    }

    fn pace_figures(&self) -> Result<Vec<PaceFigures>, NodeError> {
        Ok(self.pacing.figures(0))
    }
}

#[cfg(test)]
mod tests;
