//! Division of a command into units of work.
//!
//! The chunks of consecutive stripes lie one after another on a member, so a command that covers
//! whole chunks covers one *linear* range of bytes, the same on every source. It is cut into units
//! of equal length; a unit is read from all sources at once and folded before the next.
//!
//! The best length of a unit depends on the source of the bytes. From the page cache, a processor
//! copies them: units that fit its second-level cache are folded from there at many times the speed
//! of memory. From a device, they arrive in memory, and the device needs many large requests at a
//! time.

use pumice_offload::{ParityCommand, Window};
use std::ops::Range;

/// Bytes of a unit over all sources, where they are copied by the processor: the smallest
/// second-level cache of current servers is 1 MiB; the fold's own tables and accumulators want the
/// rest.
const HOT_UNIT: usize = 640 << 10;
/// Bytes of one request to a device.
const DEVICE_REQUEST: usize = 256 << 10;
/// Bytes of a unit over all sources, read from devices.
const DEVICE_UNIT: usize = 8 << 20;
/// Bytes by which a source's place in a unit's buffer is shifted against the last one's, beyond
/// whole pages: the smallest border that direct I/O takes.
const SKEW: usize = 512;
/// Bytes of each source that a worker takes at a time, where the processor copies them: tags of
/// consecutive blocks lie together, and are read once if one worker has these blocks.
const HOT_RUN: u64 = 2 << 20;
/// A unit's length is a multiple of this: the alignment of direct I/O and of the kernels' lines.
const GRAIN: usize = 4096;

/// The units of a command.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shape {
    first_stripe: u64,
    chunk: u64,
    window: Window,
    /// Bytes to cover on each source: whole chunks laid end to end, or windows laid end to end.
    total: u64,
    /// Bytes of a unit on each source.
    unit: u64,
    /// Units that a worker keeps in flight.
    pub(crate) depth: usize,
    /// Consecutive units that a worker takes at a time.
    pub(crate) run: u64,
}

/// One unit: a range of the linear bytes of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Unit {
    range: Range<u64>,
}

/// Part of a unit that lies in one stripe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Part {
    /// The stripe.
    pub(crate) stripe: u64,
    /// Offset within the window.
    pub(crate) start: u32,
    /// Bytes.
    pub(crate) len: u32,
    /// Offset within the unit.
    pub(crate) at: usize,
}

impl Shape {
    /// Shapes a command over its sources; `direct` where they are devices rather than page cache.
    pub(crate) fn new(command: &ParityCommand, direct: bool) -> Self {
        let sources = command.sources.len();
        if direct {
            Self::with(command, (DEVICE_UNIT / sources).min(DEVICE_REQUEST), 4)
        } else {
            let shape = Self::with(command, HOT_UNIT / sources, 1);
            Self { run: (HOT_RUN / shape.unit).max(1), ..shape }
        }
    }

    /// Units of about `per_source` bytes of each source, `depth` of them in flight.
    pub(crate) fn with(command: &ParityCommand, per_source: usize, depth: usize) -> Self {
        let mut unit = (per_source / GRAIN * GRAIN).max(GRAIN) as u64;
        let window = u64::from(command.window.len);
        let whole = command.window.len == command.chunk;
        if !whole || unit > window {
            // Parts of chunks are not contiguous on the medium: a unit stays within one.
            unit = if whole { unit / window * window } else { unit.min(window) };
        } else {
            // Equal units within a chunk, so that no chunk leaves a stub behind.
            let pieces = window.div_ceil(unit);
            unit = window.div_ceil(pieces).next_multiple_of(GRAIN as u64);
        }
        Self {
            first_stripe: command.stripes.start,
            chunk: u64::from(command.chunk),
            window: command.window,
            total: window * command.count(),
            unit,
            depth,
            run: 1,
        }
    }

    /// Bytes of a unit on each source, at most.
    pub(crate) fn unit_bytes(&self) -> usize {
        usize::try_from(self.unit.min(self.total)).expect("a unit fits memory")
    }

    /// Bytes between the sources' places in a unit's buffer. Not a power of two: sources that are
    /// folded side by side would share a few sets of the caches and push each other out.
    pub(crate) fn pitch(&self) -> usize {
        self.unit_bytes().next_multiple_of(GRAIN) + SKEW
    }

    /// The number of units.
    pub(crate) fn units(&self) -> u64 {
        if self.contiguous() {
            self.total.div_ceil(self.unit)
        } else {
            let window = u64::from(self.window.len);
            window.div_ceil(self.unit) * (self.total / window)
        }
    }

    fn contiguous(&self) -> bool {
        u64::from(self.window.len) == self.chunk
    }

    /// Unit `index`.
    pub(crate) fn unit(&self, index: u64) -> Unit {
        let range = if self.contiguous() {
            let start = index * self.unit;
            start..(start + self.unit).min(self.total)
        } else {
            let window = u64::from(self.window.len);
            let per_window = window.div_ceil(self.unit);
            let base = index / per_window * window;
            let start = index % per_window * self.unit;
            base + start..base + (start + self.unit).min(window)
        };
        Unit { range }
    }

    /// Offset of a unit on a source whose stripe 0 is at byte `base` of its medium.
    pub(crate) fn medium_offset(&self, unit: &Unit, base: u64) -> u64 {
        let window = u64::from(self.window.len);
        let stripe = self.first_stripe + unit.range.start / window;
        base + stripe * self.chunk + u64::from(self.window.start) + unit.range.start % window
    }

    /// The parts of a unit, one for each stripe that it touches.
    pub(crate) fn parts(&self, unit: &Unit) -> impl Iterator<Item = Part> + use<> {
        let window = u64::from(self.window.len);
        let first_stripe = self.first_stripe;
        let range = unit.range.clone();
        let mut at = range.start;
        std::iter::from_fn(move || {
            if at >= range.end {
                return None;
            }
            let start = at % window;
            let len = (window - start).min(range.end - at);
            let part = Part {
                stripe: first_stripe + at / window,
                start: start as u32,
                len: len as u32,
                at: (at - range.start) as usize,
            };
            at += len;
            Some(part)
        })
    }
}

impl Unit {
    /// Bytes on each source.
    pub(crate) fn len(&self) -> usize {
        (self.range.end - self.range.start) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pumice_offload::{DriveId, Mode, Rule, Source};

    /// The bound in `docs/design/node.md`: of every number of sources, with short chunks and long
    /// ones.
    #[test]
    fn what_a_thread_reads_into_is_bounded() {
        let mut most = [0; 2];
        for sources in [1, 2, 3, 16, 255, 256, 1000, 1919, 1920] {
            for chunk in [64, 512, 4096, 65_536, 1 << 20, 64 << 20] {
                for len in [64, chunk / 2 + 32, chunk] {
                    let command = ParityCommand {
                        unpaced: false,
                        sources: vec![Source::Media { drive: DriveId(1), base: 0 }; sources],
                        chunk,
                        window: Window { start: 0, len },
                        stripes: 0..1 << 20,
                        rule: Rule::sum(sources),
                        mode: Mode::Check,
                    };
                    for direct in [false, true] {
                        let shape = Shape::new(&command, direct);
                        let bytes = shape.depth * sources * shape.pitch();
                        most[usize::from(direct)] = bytes.max(most[usize::from(direct)]);
                    }
                }
            }
        }
        let [hot, direct] = most.map(|bytes| bytes as f64 / f64::from(1 << 20));
        assert!((8.0..8.5).contains(&hot) && (33.0..34.0).contains(&direct), "{hot} and {direct} MiB");
    }
}
