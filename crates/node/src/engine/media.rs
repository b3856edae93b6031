//! Commands whose sources are media: workers that gather units and fold them.

mod sum;

use super::shape::{Part, Unit};
use super::tags::TagSums;
use super::unreadable::{ErrorTime, Probe};
use super::{Fold, Permit, Section, Shape};
use crate::engine::fold::Partial;
use pumice_base::buffer::AlignedBuffer;
use pumice_base::telemetry::Ledger;
use pumice_blockdev::{BlockDevice, Gather, Gathered, Gatherer, IoError, Judgement};
use pumice_offload::{MAX_UNREADABLE, NodeError, ParityCommand, ParityResult, Unreadable};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Bytes of the sums that the workers of one command keep until they are brought together, at most.
const SUMS: usize = 64 << 20;

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
    /// The first unit that nobody has taken yet.
    next: AtomicU64,
    /// Units that were taken and given back.
    left: Mutex<Vec<Range<u64>>>,
    /// By source.
    error_time: Vec<ErrorTime>,
    permit: &'c dyn Permit,
}

/// Results of one worker.
pub(crate) struct Share {
    partial: Partial,
    /// The first ones that were met, by stripe: about [`MAX_UNREADABLE`] of them.
    unreadable: Vec<Unreadable>,
    /// Stripes of the unit in hand that have an unreadable place, and are not folded.
    bad: Vec<Range<u64>>,
    /// Bytes that media gave.
    pub(super) read: u64,
    /// Result of the check of their tags.
    pub(super) tags: TagSums,
}

impl Share {
    /// Lists a place. Of too many the last ones, by stripe, are let go.
    fn list(&mut self, place: Unreadable) {
        let next = place.stripe..place.stripe + 1;
        match self.bad.last_mut() {
            Some(last) if (last.start..=last.end).contains(&next.start) => last.end = last.end.max(next.end),
            _ => self.bad.push(next),
        }
        self.unreadable.push(place);
        if self.unreadable.len() >= 2 * MAX_UNREADABLE {
            self.unreadable = first_places(std::mem::take(&mut self.unreadable)).0;
        }
    }

    /// The stripes of the unit in hand that are not folded, in order; none any more after this.
    pub(super) fn take_bad(&mut self) -> Vec<Range<u64>> {
        let mut bad = std::mem::take(&mut self.bad);
        bad.sort_by_key(|stripes| stripes.start);
        bad.dedup_by(|next, last| {
            let joins = next.start <= last.end;
            if joins {
                last.end = last.end.max(next.end);
            }
            joins
        });
        bad
    }
}

impl<'c> MediaJob<'c> {
    pub(crate) fn new(
        command: &'c ParityCommand,
        devices: &'c [Arc<dyn BlockDevice>],
        sources: Vec<MediaSource>,
        fold: Fold<'c>,
        error_time: Duration,
        permit: &'c dyn Permit,
    ) -> Self {
        let direct = sources.iter().any(|source| devices[source.device].direct_fd().is_some());
        let shape = Shape::new(command, direct);
        let error_time = sources.iter().map(|_| ErrorTime::new(error_time)).collect();
        let (next, left) = (AtomicU64::new(0), Mutex::default());
        Self { command, devices, sources, shape, fold, folding: true, next, left, error_time, permit }
    }

    /// The same reads, with nothing folded: what a command could be at best.
    pub(crate) fn reading_only(self) -> Self {
        Self { folding: false, ..self }
    }

    /// Workers that can be of use, at most.
    pub(crate) fn useful_workers(&self) -> u64 {
        self.shape.units()
    }

    /// Workers whose own sums take no more than [`SUMS`] together.
    pub(crate) fn workers_that_fit(&self) -> usize {
        SUMS / self.fold.sum_bytes().max(1)
    }

    /// Returns whether every unit was taken.
    pub(crate) fn is_done(&self) -> bool {
        self.next.load(Ordering::Relaxed) >= self.shape.units() && self.left().is_empty()
    }

    fn left(&self) -> MutexGuard<'_, Vec<Range<u64>>> {
        self.left.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Goes on with the command until it is done or others are to have their turn, and brings what
    /// that adds into `sum`. Afterwards nothing of the command is under way.
    pub(crate) fn run(&self, workers: &mut [Worker], sum: &mut Share) -> Result<(), NodeError> {
        // Short enough that all workers end at about the same time.
        let run = self.shape.run.min(self.shape.units() / (4 * workers.len() as u64)).max(1);
        let shares: Vec<Result<Share, NodeError>> = match workers {
            [one] => vec![self.work(one, run)],
            many => std::thread::scope(|scope| {
                let work = move |worker| move || self.work(worker, run);
                let threads: Vec<_> = many.iter_mut().map(|worker| scope.spawn(work(worker))).collect();
                threads.into_iter().map(|t| t.join().expect("a worker does not panic")).collect()
            }),
        };
        for share in shares {
            let share = share?;
            self.fold.merge(&mut sum.partial, &share.partial);
            share.unreadable.into_iter().for_each(|place| sum.list(place));
            sum.bad.clear();
            sum.read += share.read;
            sum.tags.merge(share.tags);
        }
        Ok(())
    }

    pub(super) fn permit(&self) -> &'c dyn Permit {
        self.permit
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

    /// An empty start.
    pub(crate) fn share(&self) -> Share {
        Share {
            partial: self.fold.start(),
            unreadable: Vec::new(),
            bad: Vec::new(),
            read: 0,
            tags: TagSums::default(),
        }
    }

    /// The result of all that was folded.
    pub(crate) fn finish(&self, sum: Share) -> Result<ParityResult, NodeError> {
        let mut result = self.fold.finish(sum.partial)?;
        let (unreadable, more) = first_places(sum.unreadable);
        if let Some(last) = unreadable.last().filter(|_| more || unreadable.len() >= MAX_UNREADABLE) {
            // The stripes of the others were not folded either, and must not be taken for good.
            let from = last.stripe - self.command.stripes.start;
            (from..result.nonzero.len()).for_each(|bit| result.nonzero.set(bit));
        }
        result.unreadable = unreadable;
        result.tags = sum.tags.report();
        result.moved = Ledger { node_cpu: sum.read, ..Ledger::read_from_drives(sum.read) };
        Ok(result)
    }

    /// A worker's next unit: of those that it has taken, or else of the next run.
    fn take(&self, mine: &mut Range<u64>, run: u64) -> Option<u64> {
        if mine.is_empty() {
            *mine = self.left().pop().unwrap_or_else(|| {
                // Relaxed: the number itself is all that the workers share; the join orders the
                // rest.
                let first = self.next.fetch_add(run, Ordering::Relaxed);
                first..self.shape.units().min(first.saturating_add(run))
            });
        }
        mine.next()
    }

    fn work(&self, worker: &mut Worker, run: u64) -> Result<Share, NodeError> {
        let mut share = self.share();
        let mut flying: BTreeMap<u64, Unit> = BTreeMap::new();
        let result = self.pump(worker, &mut share, &mut flying, run);
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
        run: u64,
    ) -> Result<(), NodeError> {
        let mut mine = 0..0;
        let result = self.pump_units(worker, share, flying, (&mut mine, run));
        if !mine.is_empty() {
            self.left().push(mine);
        }
        result
    }

    fn pump_units(
        &self,
        worker: &mut Worker,
        share: &mut Share,
        flying: &mut BTreeMap<u64, Unit>,
        (mine, run): (&mut Range<u64>, u64),
    ) -> Result<(), NodeError> {
        let mut more = true;
        loop {
            self.permit.check()?;
            while more && flying.len() < self.shape.depth {
                self.permit.check()?;
                if self.permit.must_yield() {
                    more = false;
                    break;
                }
                let Some(index) = self.take(mine, run) else {
                    more = false;
                    break;
                };
                let unit = self.shape.unit(index);
                let gather = self.gather(index, &unit, worker.buffer(self.buffer_bytes()));
                worker.gatherer.submit(gather);
                flying.insert(index, unit);
                // What has arrived at once came from the page cache and is hot now: fold it before
                // anything else.
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

    fn buffer_bytes(&self) -> usize {
        self.shape.pitch() * self.sources.len()
    }

    fn gather(&self, tag: u64, unit: &Unit, buffer: AlignedBuffer) -> Gather {
        let parts = self
            .sources
            .iter()
            .enumerate()
            .map(|(i, source)| pumice_blockdev::Part {
                device: source.device,
                offset: self.shape.medium_offset(unit, source.base),
                at: i * self.shape.pitch(),
                len: unit.len(),
            })
            .collect();
        Gather { tag, buffer, parts, sum: self.sum(unit) }
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
        for (index, judgement) in std::mem::take(&mut done.judged) {
            self.heard(&self.shape, share, &unit, (index, 0), &judgement);
        }
        if self.is_sum(share, &unit, &mut done) {
            worker.spare.push(done.buffer);
            return Ok(());
        }
        self.probe(share, &unit, &mut done)?;
        let bad_stripes = share.take_bad();
        if !self.folding {
            worker.spare.push(done.buffer);
            return Ok(());
        }
        let (pitch, len) = (self.shape.pitch(), unit.len());
        let sources: Vec<&[u8]> = (0..self.sources.len()).map(|i| &done.buffer[i * pitch..][..len]).collect();
        self.fold_parts(&self.shape, share, &unit, &bad_stripes, &sources)?;
        drop(sources);
        worker.spare.push(done.buffer);
        Ok(())
    }

    /// Folds a unit, whose bytes of each source are in `sources`, but for the stripes in `without`,
    /// which are in order.
    pub(super) fn fold_parts(
        &self,
        shape: &Shape,
        share: &mut Share,
        unit: &Unit,
        without: &[Range<u64>],
        sources: &[&[u8]],
    ) -> Result<(), NodeError> {
        let mut slices: Vec<&[u8]> = Vec::with_capacity(sources.len());
        for Part { stripe, start, len, at } in shape.parts(unit) {
            if without
                .get(without.partition_point(|bad| bad.end <= stripe))
                .is_some_and(|b| b.start <= stripe)
            {
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
            self.permit.check()?;
            let part = done.parts[index];
            let bytes = &mut done.buffer[part.at..part.at + part.len];
            self.probe_part(&self.shape, share, unit, (index, error), bytes)?;
        }
        Ok(())
    }

    /// Takes what tags say of a source's part of a unit, from byte `at` of it on.
    pub(super) fn heard(
        &self,
        shape: &Shape,
        share: &mut Share,
        unit: &Unit,
        (source, at): (usize, usize),
        judgement: &Judgement,
    ) {
        share.tags.take(shape, unit, (source, at, self.command.window.start), judgement);
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
        let mut probe = Probe::new(device, &self.error_time[index], self.permit);
        probe.read(shape.medium_offset(unit, source.base), bytes, &error.to_string()).map_err(failed)?;
        self.permit.check()?;
        share.read += probe.bytes_read();
        for (at, judgement) in probe.judged() {
            self.heard(shape, share, unit, (index, *at), judgement);
        }
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
                share.list(Unreadable {
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

/// The first places, by stripe, with those that touch joined; and whether there were more.
fn first_places(mut places: Vec<Unreadable>) -> (Vec<Unreadable>, bool) {
    places.sort_by_key(|place| (place.stripe, place.source, place.start));
    let mut first = merge_adjacent(places);
    let more = first.len() > MAX_UNREADABLE;
    first.truncate(MAX_UNREADABLE);
    (first, more)
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
