//! An NVMe SSD: requests are cut into pages over channels, and queue at each channel.

use crate::trace::{Op, Request};
use pumice_pacer::Nanos;

const CHANNELS: usize = 8;
/// Bytes that a channel serves at once.
const PAGE: u64 = 16 << 10;
/// Sensing a page, and taking one into the write buffer.
const READ: Nanos = 60_000;
const WRITE: Nanos = 15_000;
/// Moving a page over a channel: 400 MB/s each, 3.2 GB/s together.
const MOVE: Nanos = 40_000;
/// Controller and queue.
const OVERHEAD: Nanos = 8_000;

/// An SSD of 8 channels with 16 KiB pages; sensing overlaps with the moves of the pages before.
#[derive(Debug, Clone, Default)]
pub struct Nvme {
    free: [Nanos; CHANNELS],
}

impl Nvme {
    /// An SSD at rest.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Time of a read of `bytes` on an SSD at rest, in nanoseconds.
    #[must_use]
    pub fn read_time(bytes: u64) -> Nanos {
        let pages = bytes.div_ceil(PAGE).max(1).div_ceil(CHANNELS as u64);
        // A part of a page moves in a part of the time.
        let last = bytes.min(PAGE);
        OVERHEAD + READ + (pages - 1) * MOVE + last * MOVE / PAGE
    }

    /// Time at which a request is done.
    pub fn complete(&mut self, request: &Request) -> Nanos {
        let end = request.offset.saturating_add(request.bytes.max(1));
        let cell = if request.op == Op::Read { READ } else { WRITE };
        let mut done = request.at;
        for page in request.offset / PAGE..=(end - 1) / PAGE {
            let channel = (page % CHANNELS as u64) as usize;
            let from = (page * PAGE).max(request.offset);
            let to = (page + 1).saturating_mul(PAGE).min(end);
            let begin = self.free[channel].max(request.at + OVERHEAD + cell);
            self.free[channel] = begin + (to - from) * MOVE / PAGE;
            done = done.max(self.free[channel]);
        }
        done
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn channels_work_at_once() {
        let read = |offset, bytes| Request { at: 0, device: 0, op: Op::Read, offset, bytes, response: None };
        let mut ssd = Nvme::new();
        let one = ssd.complete(&read(0, PAGE));
        assert_eq!(one, Nvme::read_time(PAGE));
        assert_eq!(Nvme::new().complete(&read(0, 8 * PAGE)), one);
        assert_eq!(ssd.complete(&read(8 * PAGE, PAGE)), one + MOVE, "the same channel again");
        let large = Nvme::read_time(4 << 20);
        assert!(f64::from(4 << 20) / large as f64 > 2.8, "GB/s of a large read");
    }
}
