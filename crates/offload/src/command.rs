//! The commands: parity over sources, and transfer of local memory.

use crate::{DriveId, NodeError, Rule};
use pumice_parity::seed::Seed;
use pumice_parity::weights::{GuardError, draw_work};
use std::ops::Range;

/// A place in the local memory of a drive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MemoryAddress {
    /// The drive whose memory it is.
    pub drive: DriveId,
    /// Byte offset in it.
    pub offset: u64,
}

/// Most stripes of one command: its result stays within half a MiB.
pub const MAX_STRIPES: u64 = 1 << 22;
/// Most work of one command, as estimated by [`ParityCommand::validate`]. The unit is a byte folded
/// into a row, so this is about eight hours of one processor.
pub const MAX_WORK: u64 = 1 << 47;
/// Work of one read, or of looking up one source of a stripe, whatever its length.
const WORK_OF_A_SOURCE: u64 = 4096;
/// Work of one multiplication of a scalar.
const WORK_OF_A_PRODUCT: u64 = 8;

/// One source of a parity command. Repetition `r` of the command (a stripe, counted from the start
/// of the drive's data area) takes its bytes `r` strides further.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// The chunk of each stripe on a drive's medium. `base` is the byte offset of stripe 0's chunk.
    Media {
        /// The drive.
        drive: DriveId,
        /// Byte offset of stripe 0's chunk.
        base: u64,
    },
    /// Local memory; repetition 0 at `address`.
    Memory {
        /// Address of repetition 0.
        address: MemoryAddress,
    },
}

/// The part of each chunk that a command covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// First byte within the chunk.
    pub start: u32,
    /// Bytes.
    pub len: u32,
}

/// The use of the folded rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Mode {
    /// Reports the repetitions with a non-zero row. Nothing is written.
    Check,
    /// Every row of every repetition into local memory: repetition after repetition, row after row.
    Generate {
        /// Destination of repetition 0's first row.
        into: MemoryAddress,
    },
    /// `accumulators` weighted sums of the rows of each repetition into local memory: repetition
    /// after repetition, accumulator after accumulator. The weights are drawn from the seed for
    /// each stripe and accumulator.
    Interims {
        /// Destination of the first interim.
        into: MemoryAddress,
        /// Seed of the weights.
        seed: Seed,
        /// 1 to 8.
        accumulators: u8,
    },
    /// `accumulators` weighted sums over the rows of *all* repetitions into local memory.
    Accumulate {
        /// Destination of the first accumulator.
        into: MemoryAddress,
        /// Seed of the weights.
        seed: Seed,
        /// 1 to 8.
        accumulators: u8,
    },
    /// The fingerprint of all repetitions: `powers` sums per row.
    Fingerprint {
        /// Seed of the keys.
        seed: Seed,
        /// Power sums a row: even, 2 to 64.
        powers: u8,
    },
}

/// Parity over sources: one command for a run of stripes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParityCommand {
    /// The sources to fold.
    pub sources: Vec<Source>,
    /// The distance in bytes between repetitions of a media source: the chunk, or more if the
    /// chunks of other stripes lie in between. Memory sources are `window.len` apart.
    pub chunk: u32,
    /// The part of each chunk.
    pub window: Window,
    /// The repetitions.
    pub stripes: Range<u64>,
    /// The coefficients.
    pub rule: Rule,
    /// The use of the rows.
    pub mode: Mode,
    /// Its media are read at once, whatever pace the node keeps, because users of the stripes wait
    /// until it ends. What it reads counts against a rate. No effect on memory sources.
    pub unpaced: bool,
}

impl ParityCommand {
    /// Repetitions.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.stripes.end.saturating_sub(self.stripes.start)
    }

    /// Bytes of local memory that the command writes, and where they start.
    #[must_use]
    pub fn output(&self) -> Option<(MemoryAddress, u64)> {
        let len = u64::from(self.window.len);
        match &self.mode {
            Mode::Check | Mode::Fingerprint { .. } => None,
            Mode::Generate { into } => Some((*into, len * self.rule.rows() as u64 * self.count())),
            Mode::Interims { into, accumulators, .. } => {
                Some((*into, len * u64::from(*accumulators) * self.count()))
            }
            Mode::Accumulate { into, accumulators, .. } => Some((*into, len * u64::from(*accumulators))),
        }
    }

    /// Checks all fields that can be checked without the node.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidField`](crate::ErrorKind::InvalidField) names the field.
    pub fn validate(&self) -> Result<(), NodeError> {
        let fail = |field, context: String| Err(NodeError::invalid(field, context));
        if self.sources.len() != self.rule.sources() {
            return fail("rule", format!("{} sources, {} columns", self.sources.len(), self.rule.sources()));
        }
        if self.stripes.start >= self.stripes.end {
            return fail("stripes", format!("{}..{} is empty", self.stripes.start, self.stripes.end));
        }
        if self.count() > MAX_STRIPES {
            return fail("stripes", format!("{} of them, more than {MAX_STRIPES}", self.count()));
        }
        if self.window.len == 0
            || self.window.start.checked_add(self.window.len).is_none_or(|end| end > self.chunk)
        {
            return fail(
                "window",
                format!("{}+{} of a chunk of {} bytes", self.window.start, self.window.len, self.chunk),
            );
        }
        if self.stripes.end.checked_mul(u64::from(self.chunk)).is_none() {
            return fail(
                "stripes",
                format!("stripe {} of {} bytes is past 64 bits", self.stripes.end, self.chunk),
            );
        }
        match self.mode {
            Mode::Check | Mode::Generate { .. } => {}
            Mode::Interims { accumulators, .. } | Mode::Accumulate { accumulators, .. } => {
                if !(1..=8).contains(&accumulators) {
                    return fail("accumulators", format!("{accumulators}, not 1 to 8"));
                }
                if self.rule.guard().is_empty() {
                    return fail("guard", "weights need the columns of the whole code".to_owned());
                }
            }
            Mode::Fingerprint { powers, .. } => {
                if powers % 2 != 0 || !(2..=64).contains(&powers) {
                    return fail("powers", format!("{powers}, not an even number from 2 to 64"));
                }
            }
        }
        match self.work() {
            Err(error) => fail("guard", error.to_string()),
            Ok(work) if work > MAX_WORK => {
                let (count, sources) = (self.count(), self.sources.len());
                fail("stripes", format!("{count} of {sources} sources: more work than one command may take"))
            }
            Ok(_) => Ok(()),
        }
    }

    /// Its estimated work.
    fn work(&self) -> Result<u64, GuardError> {
        let (rows, draws) = match self.mode {
            Mode::Interims { accumulators, .. } | Mode::Accumulate { accumulators, .. } => {
                (u64::from(accumulators), u64::from(accumulators) * draw_work(self.rule.guard())?)
            }
            Mode::Check | Mode::Generate { .. } | Mode::Fingerprint { .. } => (self.rule.rows() as u64, 0),
        };
        let source = u64::from(self.window.len) * rows + WORK_OF_A_SOURCE;
        let stripe =
            source.saturating_mul(self.sources.len() as u64).saturating_add(draws * WORK_OF_A_PRODUCT);
        Ok(stripe.saturating_mul(self.count()))
    }
}

/// The right to write a part of local memory: a random number that the holder of the lease has
/// drawn for one transfer and registered with the node.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Grant(pub [u8; 16]);

impl Grant {
    /// No right; used between nodes of one process, which trust each other.
    pub const NONE: Self = Self([0; 16]);
}

impl std::fmt::Debug for Grant {
    /// The number is not shown, because anyone who knows it has the right.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if *self == Self::NONE { "Grant::NONE" } else { "Grant(..)" })
    }
}

/// A move of local memory to a drive of another node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transfer {
    /// Its place on the node that executes the command.
    pub from: MemoryAddress,
    /// Bytes.
    pub len: u64,
    /// The node that receives it.
    pub peer: String,
    /// Its destination there.
    pub to: MemoryAddress,
    /// The grant that allows this node to write there.
    pub grant: Grant,
}
