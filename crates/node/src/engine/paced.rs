//! Commands whose reads keep a pace: a thread for each drive reads when its pacer allows it, and a
//! unit is folded when all of its parts have been read.

use super::media::{MediaJob, Share};
use super::shape::{Shape, Unit};
use crate::pace::Pacing;
use pumice_base::buffer::AlignedBuffer;
use pumice_blockdev::{IoError, Judgement, Reader, read_in_order, step_back};
use pumice_offload::{ErrorKind, NodeError, ParityResult};
use std::sync::atomic::{AtomicBool, Ordering};
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
    /// The error if it could not be read whole.
    failure: Option<IoError>,
    /// Results of the check of its pieces' tags, with their places.
    judged: Vec<(usize, Judgement)>,
}

/// Channels between the threads.
struct Lines {
    full: Sender<Part>,
    empty: Vec<Receiver<AlignedBuffer>>,
}

/// Bytes of a buffer of each of so many sources.
fn per_source(sources: usize) -> usize {
    (MEMORY / BUFFERS / sources).clamp(SMALLEST, LARGEST)
}

impl MediaJob<'_> {
    /// Executes the command at the drives' pace, as long as it is wanted.
    pub(crate) fn run_paced(&self, pacing: &Pacing) -> Result<ParityResult, NodeError> {
        let shape = Shape::with(self.command(), per_source(self.sources().len()), 1);
        let mut share = self.share();
        let mut next = 0;
        self.permit().enter_paced();
        loop {
            next = self.run_slice(pacing, shape, next, &mut share)?;
            if next == shape.units() {
                return self.finish(share);
            }
            self.permit().check()?;
            if pacing.is_stopping() {
                return Err(NodeError::new(ErrorKind::Unreachable, "given up, because the node stops"));
            }
            self.permit().yield_turn();
        }
    }

    /// Goes on from unit `begin` until the command is done, others are to have their turn, or
    /// nobody wants it any more. Returns the first unit that was not folded; that is a later one
    /// than `begin`, if the command is still wanted.
    fn run_slice(
        &self,
        pacing: &Pacing,
        shape: Shape,
        begin: u64,
        share: &mut Share,
    ) -> Result<u64, NodeError> {
        let sources = self.sources().len();
        let threads = sources.min(THREADS);
        let folded = AtomicBool::new(false);
        // What was read and not folded is read again: a slice has one unit at least.
        let wanted = || {
            let gives_way = folded.load(Ordering::Relaxed) && self.permit().must_yield();
            self.permit().is_wanted() && !gives_way
        };
        let (folded, wanted) = (&folded, &wanted);
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
                let mine: Vec<usize> = (first..sources).step_by(threads).collect();
                scope.spawn(move || self.read_at_pace(&shape, begin, &mine, &lines, pacing, wanted));
            }
            // The fold gives way to everybody. Those who read do not: they wait for drives mostly,
            // and what they wait for longer is taken for the drive's time.
            scope
                .spawn(move || {
                    step_back();
                    self.fold_as_it_comes(&shape, begin, &filled, &back, share, folded)
                })
                .join()
                .expect("a fold does not panic")
        })
    }

    /// Reads the sources `mine`, unit after unit from `begin` on. Ends early where nobody wants it
    /// any more, or nobody folds.
    fn read_at_pace(
        &self,
        shape: &Shape,
        begin: u64,
        mine: &[usize],
        lines: &Lines,
        pacing: &Pacing,
        wanted: &(dyn Fn() -> bool + Sync),
    ) {
        let readers: Vec<_> =
            mine.iter().map(|i| pacing.reader(self.sources()[*i].device, self.permit().asker())).collect();
        let mut states: Vec<Reader> = mine.iter().map(|_| Reader::default()).collect();
        for unit in (begin..shape.units()).map(|index| shape.unit(index)) {
            let all = mine.iter().zip(&readers).zip(&mut states).zip(&lines.empty);
            for (((source, reader), state), empty) in all {
                let Ok(mut buffer) = empty.recv() else { return };
                let from = self.sources()[*source];
                let offset = shape.medium_offset(&unit, from.base);
                let (mut at, mut failure, mut judged) = (0, None, Vec::new());
                while at < unit.len() {
                    let Some(granted) = reader.start((unit.len() - at) as u64, wanted) else { return };
                    let end = at + granted as usize;
                    let device = &*self.devices()[from.device];
                    let read = read_in_order(device, offset + at as u64, &mut buffer[at..end], state);
                    reader.done(granted);
                    // The rest is read all the same: what the drive does not give back is probed
                    // piece by piece.
                    match read {
                        Ok(judgement) => judged.extend(judgement.map(|judgement| (at, judgement))),
                        Err(error) => failure = failure.or(Some(error)),
                    }
                    at = end;
                }
                if lines.full.send(Part { source: *source, buffer, failure, judged }).is_err() {
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
        begin: u64,
        filled: &Receiver<Part>,
        back: &[SyncSender<AlignedBuffer>],
        share: &mut Share,
        folded: &AtomicBool,
    ) -> Result<u64, NodeError> {
        let sources = self.sources().len();
        // Threads run ahead by a buffer: what comes early waits.
        let mut early: Vec<Vec<Part>> = (0..sources).map(|_| Vec::new()).collect();
        for index in begin..shape.units() {
            let unit = shape.unit(index);
            while early.iter().any(Vec::is_empty) {
                let Ok(part) = filled.recv() else { return Ok(index) };
                early[part.source].push(part);
            }
            let mut parts: Vec<Part> = early.iter_mut().map(|waiting| waiting.remove(0)).collect();
            self.fold_unit(shape, share, &unit, &mut parts)?;
            folded.store(true, Ordering::Relaxed);
            for (part, back) in parts.into_iter().zip(back) {
                // A reader that has ended wants no more buffers.
                let _ = back.send(part.buffer);
            }
        }
        Ok(shape.units())
    }

    fn fold_unit(
        &self,
        shape: &Shape,
        share: &mut Share,
        unit: &Unit,
        parts: &mut [Part],
    ) -> Result<(), NodeError> {
        for part in parts.iter_mut() {
            match part.failure.take() {
                None => {
                    share.read += unit.len() as u64;
                    for (at, judgement) in part.judged.drain(..) {
                        self.heard(shape, share, unit, (part.source, at), &judgement);
                    }
                }
                Some(error) => {
                    self.permit().check()?;
                    let len = unit.len();
                    self.probe_part(shape, share, unit, (part.source, error), &mut part.buffer[..len])?;
                }
            }
        }
        let bad = share.take_bad();
        let slices: Vec<&[u8]> = parts.iter().map(|part| &part.buffer[..unit.len()]).collect();
        self.fold_parts(shape, share, unit, &bad, &slices)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bound in `docs/design/node.md`.
    #[test]
    fn the_buffers_of_a_paced_command_are_bounded() {
        for sources in 1..=1920 {
            let bytes = per_source(sources) * BUFFERS * sources;
            assert!(bytes <= MEMORY.max(sources * (128 << 10)), "{sources} sources: {bytes}");
        }
        assert_eq!(per_source(256) * BUFFERS * 256, MEMORY, "the bound is reached");
    }
}
