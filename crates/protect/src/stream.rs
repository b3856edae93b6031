//! Blocks whose bytes arrive in pieces of any size.
//!
//! [`CheckStream`] checks tuples and may leave them out; [`MakeStream`] makes them. Both hold the
//! position in the block, one guard under computation and nothing else of the bytes that went
//! through (a check also part of a tuple), so their size is constant. Runs of whole blocks go to
//! the kernels in batches.

mod check;
mod make;

pub use check::CheckStream;
pub use make::MakeStream;

use crate::command::Tags;
use crate::format::Format;
use crate::guard::Crc;
use crate::kernels::Kernels;

/// Blocks that are given to the kernels at a time.
const BATCH: usize = 32;

/// A part of an extended block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Region {
    Data,
    /// Metadata that the guard covers.
    Covered,
    Tuple,
    /// Metadata that it does not cover.
    Rest,
}

/// Position in a stream.
#[derive(Debug, Clone)]
struct Cursor {
    format: Format,
    tags: Tags,
    kernels: Kernels,
    /// The block, from 0.
    block: u64,
    /// Bytes of the extended block that are done: below its size.
    at: usize,
    /// The guard of those that it covers.
    crc: Crc,
}

impl Cursor {
    fn new(format: Format, tags: Tags) -> Self {
        Self { format, tags, kernels: Kernels::best(), block: 0, at: 0, crc: Crc::new(format.guard()) }
    }

    /// The region of the next byte, and how many bytes of it are left: at least one.
    fn region(&self) -> (Region, usize) {
        let format = &self.format;
        let (data, covered) = (format.data_bytes(), format.covered_bytes());
        let tuple = covered + format.tuple_bytes();
        let (region, end) = match self.at {
            at if at < data => (Region::Data, data),
            at if at < covered => (Region::Covered, covered),
            at if at < tuple => (Region::Tuple, tuple),
            _ => (Region::Rest, format.block_bytes()),
        };
        (region, end - self.at)
    }

    /// Goes on by bytes of one region.
    fn advance(&mut self, bytes: usize) {
        self.at += bytes;
        if self.at == self.format.block_bytes() {
            self.skip_blocks(1);
        }
    }

    /// Goes on to the start of a later block.
    fn skip_blocks(&mut self, count: usize) {
        self.block += count as u64;
        self.at = 0;
        self.crc = Crc::new(self.format.guard());
    }

    /// Number of data bytes in the next `extended` bytes.
    fn data_in(&self, extended: usize) -> usize {
        let (data, block) = (self.format.data_bytes(), self.format.block_bytes());
        let before = |at: usize| at / block * data + (at % block).min(data);
        before(self.at + extended) - before(self.at)
    }
}

/// Takes `count` bytes off the front.
fn split_off<'a>(bytes: &mut &'a [u8], count: usize) -> &'a [u8] {
    let (head, tail) = bytes.split_at(count);
    *bytes = tail;
    head
}

/// Takes `count` bytes off the front.
fn split_off_mut<'a>(bytes: &mut &'a mut [u8], count: usize) -> &'a mut [u8] {
    let (head, tail) = std::mem::take(bytes).split_at_mut(count);
    *bytes = tail;
    head
}
