//! Reads superblocks through a node, so that remote members are found in the same way as local
//! ones.

use pumice_offload::{DriveId, Drives, Piece};
use pumice_raid::ReadAt;
use std::io;
use std::ops::Range;

/// A drive of a node, as the parser of superblocks reads it.
pub struct DriveReader<'n> {
    node: &'n dyn Drives,
    drive: DriveId,
    size: u64,
    /// The bytes that were read ahead, with their offset.
    ahead: Vec<(u64, Vec<u8>)>,
}

impl<'n> DriveReader<'n> {
    /// A drive of `size` bytes.
    #[must_use]
    pub fn new(node: &'n dyn Drives, drive: DriveId, size: u64) -> Self {
        Self { node, drive, size, ahead: Vec::new() }
    }

    /// Drives of one node, with their sizes. `spans` returns, for a drive's size, the ranges that
    /// will certainly be read: they are read at once from all drives of a remote node.
    #[must_use]
    pub fn ahead(
        node: &'n dyn Drives,
        drives: &[(DriveId, u64)],
        spans: impl Fn(u64) -> Vec<Range<u64>>,
    ) -> Vec<Self> {
        let mut readers: Vec<Self> =
            drives.iter().map(|(drive, size)| Self::new(node, *drive, *size)).collect();
        let (mut pieces, mut of, mut at) = (Vec::new(), Vec::new(), 0);
        for (i, (drive, size)) in drives.iter().enumerate() {
            for span in spans(*size) {
                let len = (span.end - span.start) as usize;
                pieces.push(Piece { drive: *drive, offset: span.start, at, len });
                of.push(i);
                at += len;
            }
        }
        let mut buffer = vec![0; at];
        for read in node.read_ahead(&pieces, &mut buffer) {
            let piece = &pieces[read];
            let bytes = buffer[piece.at..piece.at + piece.len].to_vec();
            readers[of[read]].ahead.push((piece.offset, bytes));
        }
        readers
    }
}

impl ReadAt for DriveReader<'_> {
    fn size_bytes(&self) -> u64 {
        self.size
    }

    fn read_exact_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        for (start, bytes) in &self.ahead {
            let from = offset.checked_sub(*start).and_then(|from| usize::try_from(from).ok());
            if let Some(known) = from.and_then(|from| bytes.get(from..from.checked_add(buf.len())?)) {
                buf.copy_from_slice(known);
                return Ok(());
            }
        }
        self.node.read(self.drive, offset, buf).map_err(io::Error::other)
    }
}
