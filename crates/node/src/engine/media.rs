//! Commands whose sources are media: workers that gather units and fold them.

use super::shape::{Part, Unit};
use super::unreadable::{ErrorTime, Probe};
use super::{Fold, Section, Shape};
use crate::engine::fold::Partial;
use pumice_blockdev::{AlignedBuffer, BlockDevice, Gather, Gathered, Gatherer, IoError};
use pumice_offload::{NodeError, ParityCommand, ParityResult, Unreadable};
use pumice_telemetry::Ledger;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Bytes by which a source's place is shifted against the last one's, beyond whole pages: the smallest border that direct I/O takes.
const SKEW: usize = 512;

/// A thread's own ring and buffers, kept from command to command: both are dear to make.
pub(crate) struct Worker {
    pub(crate) gatherer: Gatherer,
    pub(crate) spare: Vec<AlignedBuffer>,
}

impl Worker {
    /// A buffer of at least `len` bytes.
    pub(crate) fn buffer(&mut self, len: usize) -> AlignedBuffer {
        // A smaller one that lies there belongs to a command of another shape: let it go.
        self.spare.pop().filter(|buffer| buffer.len() >= len).unwrap_or_else(|| AlignedBuffer::new(len))
    }
}

/// One media source: the device's number in the gatherer, and the byte of stripe 0's chunk on it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MediaSource {
    pub(crate) device: usize,
    pub(crate) base: u64,
}

/// A command over media, shared by its workers.
pub(crate) struct MediaJob<'c> {
    command: &'c ParityCommand,
    devices: &'c [Arc<dyn BlockDevice>],
    sources: Vec<MediaSource>,
    shape: Shape,
    fold: Fold<'c>,
    folding: bool,
    next: AtomicU64,
    /// By source.
    error_time: Vec<ErrorTime>,
}

/// What one worker brings back.
pub(super) struct Share {
    partial: Partial,
    pub(super) unreadable: Vec<Unreadable>,
    /// Bytes that media gave.
    pub(super) read: u64,
}

impl<'c> MediaJob<'c> {
    pub(crate) fn new(
        command: &'c ParityCommand,
        devices: &'c [Arc<dyn BlockDevice>],
        sources: Vec<MediaSource>,
        fold: Fold<'c>,
        error_time: Duration,
    ) -> Self {
        let direct = sources.iter().any(|source| devices[source.device].direct_fd().is_some());
        let shape = Shape::new(command, direct);
        let error_time = sources.iter().map(|_| ErrorTime::new(error_time)).collect();
        Self { command, devices, sources, shape, fold, folding: true, next: AtomicU64::new(0), error_time }
    }

    /// The same reads, with nothing folded: what a command could be at best.
    pub(crate) fn reading_only(self) -> Self {
        Self { folding: false, ..self }
    }

    /// Workers that can be of use, at most.
    pub(crate) fn useful_workers(&self) -> u64 {
        self.shape.units()
    }

    /// Executes the command with the given workers, which come back with it.
    pub(crate) fn run(&self, workers: &mut [Worker]) -> Result<ParityResult, NodeError> {
        let shares: Vec<Result<Share, NodeError>> = match workers {
            [one] => vec![self.work(one)],
            many => std::thread::scope(|scope| {
                let threads: Vec<_> = many.iter_mut().map(|w| scope.spawn(|| self.work(w))).collect();
                threads.into_iter().map(|t| t.join().expect("a worker does not panic")).collect()
            }),
        };
        self.finish(shares.into_iter().collect::<Result<_, _>>()?)
    }

    pub(super) fn command(&self) -> &ParityCommand {
        self.command
    }

    pub(super) fn devices(&self) -> &[Arc<dyn BlockDevice>] {
        self.devices
    }

    pub(super) fn sources(&self) -> &[MediaSource] {
        &self.sources
    }

    /// A worker's empty start.
    pub(super) fn share(&self) -> Share {
        Share { partial: self.fold.start(), unreadable: Vec::new(), read: 0 }
    }

    /// Brings together what the workers have.
    pub(super) fn finish(&self, shares: Vec<Share>) -> Result<ParityResult, NodeError> {
        let mut shares = shares.into_iter();
        let mut sum = shares.next().expect("at least one worker");
        for share in shares {
            self.fold.merge(&mut sum.partial, &share.partial);
            sum.unreadable.extend(share.unreadable);
            sum.read += share.read;
        }
        sum.unreadable.sort_by_key(|u| (u.stripe, u.source, u.start));
        let mut result = self.fold.finish(sum.partial)?;
        result.unreadable = merge_adjacent(sum.unreadable);
        result.moved = Ledger { node_cpu: sum.read, ..Ledger::read_from_drives(sum.read) };
        Ok(result)
    }

    fn take(&self) -> Option<u64> {
        // Relaxed: the number itself is all that the workers share; the join orders the rest.
        let index = self.next.fetch_add(1, Ordering::Relaxed);
        (index < self.shape.units()).then_some(index)
    }

    fn work(&self, worker: &mut Worker) -> Result<Share, NodeError> {
        let mut share = self.share();
        let mut flying: BTreeMap<u64, Unit> = BTreeMap::new();
        let result = self.pump(worker, &mut share, &mut flying);
        // After an error, too: nothing of this command may be in flight when the next one begins.
        while !flying.is_empty() {
            let Some(done) = worker.gatherer.next(true) else { break };
            flying.remove(&done.tag);
            worker.spare.push(done.buffer);
        }
        result.map(|()| share)
    }

    fn pump(
        &self,
        worker: &mut Worker,
        share: &mut Share,
        flying: &mut BTreeMap<u64, Unit>,
    ) -> Result<(), NodeError> {
        let mut more = true;
        loop {
            while more && flying.len() < self.shape.depth {
                let Some(index) = self.take() else {
                    more = false;
                    break;
                };
                let unit = self.shape.unit(index);
                let gather = self.gather(index, &unit, worker.buffer(self.buffer_bytes()));
                worker.gatherer.submit(gather);
                flying.insert(index, unit);
                // What has arrived at once came from the page cache and is hot now: fold it before anything else.
                if let Some(done) = worker.gatherer.next(false) {
                    self.unit(worker, share, flying, done)?;
                }
            }
            if flying.is_empty() {
                return Ok(());
            }
            if let Some(done) = worker.gatherer.next(true) {
                self.unit(worker, share, flying, done)?;
            }
        }
    }

    /// Bytes between the sources' places in a unit's buffer. Not a power of two: sources that are folded side by side would share a few
    /// sets of the caches and push each other out.
    fn pitch(&self) -> usize {
        self.shape.unit_bytes().next_multiple_of(4096) + SKEW
    }

    fn buffer_bytes(&self) -> usize {
        self.pitch() * self.sources.len()
    }

    fn gather(&self, tag: u64, unit: &Unit, buffer: AlignedBuffer) -> Gather {
        let parts = self
            .sources
            .iter()
            .enumerate()
            .map(|(i, source)| pumice_blockdev::Part {
                device: source.device,
                offset: self.shape.medium_offset(unit, source.base),
                at: i * self.pitch(),
                len: unit.len(),
            })
            .collect();
        Gather { tag, buffer, parts }
    }

    fn unit(
        &self,
        worker: &mut Worker,
        share: &mut Share,
        flying: &mut BTreeMap<u64, Unit>,
        mut done: Gathered,
    ) -> Result<(), NodeError> {
        let unit = flying.remove(&done.tag).expect("a gather of this command");
        share.read += (unit.len() * (self.sources.len() - done.failures.len())) as u64;
        let mut bad_stripes = Vec::new();
        if !done.failures.is_empty() {
            let before = share.unreadable.len();
            self.probe(share, &unit, &mut done)?;
            bad_stripes = share.unreadable[before..].iter().map(|u| u.stripe).collect();
        }
        if !self.folding {
            worker.spare.push(done.buffer);
            return Ok(());
        }
        let (pitch, len) = (self.pitch(), unit.len());
        let sources: Vec<&[u8]> = (0..self.sources.len()).map(|i| &done.buffer[i * pitch..][..len]).collect();
        self.fold_parts(&self.shape, share, &unit, &bad_stripes, &sources)?;
        drop(sources);
        worker.spare.push(done.buffer);
        Ok(())
    }

    /// Folds a unit, whose bytes of each source are in `sources`, but for the stripes in `without`.
    pub(super) fn fold_parts(
        &self,
        shape: &Shape,
        share: &mut Share,
        unit: &Unit,
        without: &[u64],
        sources: &[&[u8]],
    ) -> Result<(), NodeError> {
        let mut slices: Vec<&[u8]> = Vec::with_capacity(sources.len());
        for Part { stripe, start, len, at } in shape.parts(unit) {
            if without.contains(&stripe) {
                continue;
            }
            slices.clear();
            slices.extend(sources.iter().map(|source| &source[at..][..len as usize]));
            self.fold.section(&mut share.partial, &Section { stripe, start, slices: &slices })?;
        }
        Ok(())
    }

    /// Reads failed parts again in small pieces: what can be read is used, what cannot is listed.
    fn probe(&self, share: &mut Share, unit: &Unit, done: &mut Gathered) -> Result<(), NodeError> {
        for (index, error) in std::mem::take(&mut done.failures) {
            let part = done.parts[index];
            let bytes = &mut done.buffer[part.at..part.at + part.len];
            self.probe_part(&self.shape, share, unit, (index, error), bytes)?;
        }
        Ok(())
    }

    /// Reads a source's part of a unit again, in small pieces, after an error.
    pub(super) fn probe_part(
        &self,
        shape: &Shape,
        share: &mut Share,
        unit: &Unit,
        (index, error): (usize, IoError),
        bytes: &mut [u8],
    ) -> Result<(), NodeError> {
        let source = self.sources[index];
        let device = &*self.devices[source.device];
        let failed = |error: IoError| {
            let context = format!("reading {}: {error}", device.name());
            NodeError::new(pumice_offload::ErrorKind::Drive, context).with_source(error)
        };
        if !error.is_media_error() {
            return Err(failed(error));
        }
        let mut probe = Probe::new(device, &self.error_time[index]);
        probe.read(shape.medium_offset(unit, source.base), bytes, &error.to_string()).map_err(failed)?;
        share.read += probe.bytes_read();
        for hole in probe.holes() {
            self.list(shape, share, index, unit, hole);
        }
        Ok(())
    }

    /// Lists a hole, cut at the borders of stripes.
    fn list(
        &self,
        shape: &Shape,
        share: &mut Share,
        source: usize,
        unit: &Unit,
        hole: &super::unreadable::Hole,
    ) {
        for part in shape.parts(unit) {
            let start = hole.at.max(part.at);
            let end = (hole.at + hole.len).min(part.at + part.len as usize);
            if start < end {
                share.unreadable.push(Unreadable {
                    source,
                    stripe: part.stripe,
                    start: self.command.window.start + part.start + (start - part.at) as u32,
                    len: (end - start) as u32,
                    why: hole.why,
                    reason: hole.reason.clone(),
                });
            }
        }
    }
}

/// Joins holes that touch, of one source and stripe.
fn merge_adjacent(sorted: Vec<Unreadable>) -> Vec<Unreadable> {
    let mut out: Vec<Unreadable> = Vec::new();
    for hole in sorted {
        match out.last_mut() {
            Some(last)
                if (last.stripe, last.source, last.start + last.len, last.why)
                    == (hole.stripe, hole.source, hole.start, hole.why) =>
            {
                last.len += hole.len;
            }
            _ => out.push(hole),
        }
    }
    out
}
