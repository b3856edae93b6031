//! A disk or partition, read where formats have their marks.

use std::ops::Range;

use crate::read_at::ReadAt;

/// Bytes of one read.
const PIECE: u64 = 4096;
/// Bytes at the start that most formats begin with.
const HEAD: u64 = 2 * PIECE;

/// Some of the bytes of a disk or partition. Bytes that cannot be read, or lie outside, are zero.
pub(super) struct Disk<'d> {
    device: &'d dyn ReadAt,
    range: Range<u64>,
    head: Vec<u8>,
}

impl<'d> Disk<'d> {
    pub(super) fn new(device: &'d dyn ReadAt, range: Range<u64>) -> Self {
        let mut disk = Self { device, range, head: Vec::new() };
        // In pieces as superblocks are read, which may be there already.
        disk.head = [0, PIECE].into_iter().flat_map(|at| disk.read(at, PIECE as usize)).collect();
        disk
    }

    /// A part of it.
    pub(super) fn part(&self, range: &Range<u64>) -> Self {
        let start = self.range.start.saturating_add(range.start).min(self.range.end);
        let end = self.range.start.saturating_add(range.end).min(self.range.end);
        Self::new(self.device, start..end.max(start))
    }

    pub(super) const fn bytes(&self) -> u64 {
        self.range.end - self.range.start
    }

    /// The first 8 KiB.
    pub(super) fn head(&self) -> &[u8] {
        &self.head
    }

    /// `len` bytes from `offset` on.
    pub(super) fn read(&self, offset: u64, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        let left = self.bytes().saturating_sub(offset).min(len as u64) as usize;
        if left > 0 && self.device.read_exact_at(self.range.start + offset, &mut bytes[..left]).is_err() {
            bytes.fill(0);
        }
        bytes
    }

    /// The last 8 KiB.
    pub(super) fn tail(&self) -> Tail {
        let len = self.bytes().min(HEAD);
        Tail(self.read(self.bytes() - len, len as usize))
    }
}

/// The last bytes of a disk.
pub(super) struct Tail(Vec<u8>);

impl Tail {
    /// The bytes from `from_end` bytes before the end on.
    pub(super) fn at(&self, from_end: usize) -> &[u8] {
        self.0.len().checked_sub(from_end).map_or(&[], |at| &self.0[at..])
    }

    /// Returns whether `mark` stands at one of these places, in bytes before the end.
    pub(super) fn has(&self, mark: &[u8], places: &[usize]) -> bool {
        places.iter().any(|from_end| self.at(*from_end).starts_with(mark))
    }
}
