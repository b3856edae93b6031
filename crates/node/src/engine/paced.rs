//! Commands whose reads keep a pace: a thread for each drive reads when its pacer lets it, and what belongs together is folded when all of it is there.

use super::media::{MediaJob, Share};
use super::shape::{Shape, Unit};
use crate::pace::Pacing;
use pumice_blockdev::{AlignedBuffer, IoError, step_back};
use pumice_offload::{ErrorKind, NodeError, ParityResult};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};

/// Bytes of all buffers together, about.
const MEMORY: usize = 64 << 20;
/// Buffers of a source: one is folded while the next is read.
const BUFFERS: usize = 2;
/// The largest request that a pacer grants, and the smallest that is worth one.
const LARGEST: usize = 4 << 20;
const SMALLEST: usize = 64 << 10;
/// Threads of a command, at most: more sources than that share them.
const THREADS: usize = 32;

/// A source's part of a unit.
struct Part {
    source: usize,
    buffer: AlignedBuffer,
    /// Why it could not be read whole.
    failure: Option<IoError>,
}

/// What goes between the threads.
struct Lines {
    full: Sender<Part>,
    empty: Vec<Receiver<AlignedBuffer>>,
}

impl MediaJob<'_> {
    /// Executes the command at the drives' pace, as long as it is wanted.
    pub(crate) fn run_paced(
        &self,
        pacing: &Pacing,
        wanted: &(dyn Fn() -> bool + Sync),
    ) -> Result<ParityResult, NodeError> {
        let sources = self.sources().len();
        let per_source = (MEMORY / BUFFERS / sources).clamp(SMALLEST, LARGEST);
        let shape = Shape::with(self.command(), per_source, 1);
        let threads = sources.min(THREADS);
        std::thread::scope(|scope| {
            let (full, filled) = channel();
            let mut back: Vec<SyncSender<AlignedBuffer>> = Vec::with_capacity(sources);
            let mut lines: Vec<Lines> = Vec::new();
            lines.resize_with(threads, || Lines { full: full.clone(), empty: Vec::new() });
            drop(full);
            for source in 0..sources {
                let (give, take) = sync_channel(BUFFERS);
                for _ in 0..BUFFERS {
                    give.send(pacing.buffer(shape.unit_bytes())).expect("there is room, and the other end");
                }
                back.push(give);
                lines[source % threads].empty.push(take);
            }
            for (first, lines) in lines.into_iter().enumerate() {
                scope.spawn(move || self.read_at_pace(&shape, first, threads, &lines, pacing, wanted));
            }
            // The fold gives way to everybody. Those who read do not: they wait for drives mostly, and what they wait for longer is taken for the drive's time.
            scope
                .spawn(move || {
                    step_back();
                    self.fold_as_it_comes(&shape, &filled, &back)
                })
                .join()
                .expect("a fold does not panic")
        })
    }

    /// Reads the sources `first`, `first + step`, …, unit after unit. Ends early where nobody wants it any more, or nobody folds.
    fn read_at_pace(
        &self,
        shape: &Shape,
        first: usize,
        step: usize,
        lines: &Lines,
        pacing: &Pacing,
        wanted: &(dyn Fn() -> bool + Sync),
    ) {
        let mine: Vec<usize> = (first..self.sources().len()).step_by(step).collect();
        let readers: Vec<_> = mine.iter().map(|i| pacing.reader(self.sources()[*i].device)).collect();
        for unit in (0..shape.units()).map(|index| shape.unit(index)) {
            for ((source, reader), empty) in mine.iter().zip(&readers).zip(&lines.empty) {
                let Ok(mut buffer) = empty.recv() else { return };
                let from = self.sources()[*source];
                let offset = shape.medium_offset(&unit, from.base);
                let (mut at, mut failure) = (0, None);
                while at < unit.len() {
                    let Some(granted) = reader.start((unit.len() - at) as u64, wanted) else { return };
                    let end = at + granted as usize;
                    let read = self.devices()[from.device].read_at(offset + at as u64, &mut buffer[at..end]);
                    reader.done(granted);
                    // The rest is read all the same: what the drive does not give back is probed piece by piece.
                    failure = failure.or(read.err());
                    at = end;
                }
                if lines.full.send(Part { source: *source, buffer, failure }).is_err() {
                    return;
                }
            }
        }
        for empty in &lines.empty {
            // Until the fold has given all of them back.
            empty.iter().for_each(|buffer| pacing.keep(buffer));
        }
    }

    fn fold_as_it_comes(
        &self,
        shape: &Shape,
        filled: &Receiver<Part>,
        back: &[SyncSender<AlignedBuffer>],
    ) -> Result<ParityResult, NodeError> {
        let sources = self.sources().len();
        let mut share = self.share();
        // Threads run ahead by a buffer: what comes early waits.
        let mut early: Vec<Vec<Part>> = (0..sources).map(|_| Vec::new()).collect();
        for unit in (0..shape.units()).map(|index| shape.unit(index)) {
            while early.iter().any(Vec::is_empty) {
                let Ok(part) = filled.recv() else {
                    return Err(NodeError::new(
                        ErrorKind::Unreachable,
                        "given up: nobody waits for it any more",
                    ));
                };
                early[part.source].push(part);
            }
            let mut parts: Vec<Part> = early.iter_mut().map(|waiting| waiting.remove(0)).collect();
            self.fold_unit(shape, &mut share, &unit, &mut parts)?;
            for (part, back) in parts.into_iter().zip(back) {
                // A reader that has ended wants no more buffers.
                let _ = back.send(part.buffer);
            }
        }
        self.finish(vec![share])
    }

    fn fold_unit(
        &self,
        shape: &Shape,
        share: &mut Share,
        unit: &Unit,
        parts: &mut [Part],
    ) -> Result<(), NodeError> {
        let before = share.unreadable.len();
        for part in parts.iter_mut() {
            match part.failure.take() {
                None => share.read += unit.len() as u64,
                Some(error) => {
                    let len = unit.len();
                    self.probe_part(shape, share, unit, (part.source, error), &mut part.buffer[..len])?;
                }
            }
        }
        let bad: Vec<u64> = share.unreadable[before..].iter().map(|place| place.stripe).collect();
        let slices: Vec<&[u8]> = parts.iter().map(|part| &part.buffer[..unit.len()]).collect();
        self.fold_parts(shape, share, unit, &bad, &slices)
    }
}
