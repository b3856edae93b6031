//! Making tuples.

use super::{BATCH, Cursor, Region, split_off, split_off_mut};
use crate::command::Tags;
use crate::format::{Format, MAX_METADATA};
use crate::kernels::{Kernels, Spacing};
use crate::tuple::TupleBytes;

/// Metadata that nobody has given.
static ZEROS: [u8; MAX_METADATA] = [0; MAX_METADATA];

/// Makes the tuples of blocks that arrive in pieces.
#[derive(Debug, Clone)]
pub struct MakeStream {
    cursor: Cursor,
}

impl MakeStream {
    /// Before the first block.
    #[must_use]
    pub fn new(format: Format, tags: Tags) -> Self {
        Self { cursor: Cursor::new(format, tags) }
    }

    /// With other kernels than the best.
    #[must_use]
    pub fn with_kernels(mut self, kernels: Kernels) -> Self {
        self.cursor.kernels = kernels;
        self
    }

    /// Blocks that are done.
    #[must_use]
    pub const fn blocks(&self) -> u64 {
        self.cursor.block
    }

    /// Bytes of the block that has begun, data and metadata; 0 between blocks.
    #[must_use]
    pub const fn pending_bytes(&self) -> usize {
        self.cursor.at
    }

    /// Number of bytes of extended blocks that the next `data` bytes of data make. The metadata of
    /// a block comes with its last byte of data.
    ///
    /// # Panics
    /// If the next byte of the stream is one of metadata: an [`overwrite`](Self::overwrite) or
    /// [`fill_separate`](Self::fill_separate) ended there.
    #[must_use]
    pub fn extended_of(&self, data: usize) -> usize {
        let format = &self.cursor.format;
        self.assert_at_data();
        data + (self.cursor.at + data) / format.data_bytes() * format.metadata_bytes()
    }

    /// Makes extended blocks of the next bytes of data, at the start of `out`; metadata beside the
    /// tuple are zeros. Returns how many bytes it wrote.
    ///
    /// # Panics
    /// If `out` is shorter than [`extended_of`](Self::extended_of) says, or that panics.
    pub fn insert(&mut self, mut data: &[u8], out: &mut [u8]) -> usize {
        let written = self.extended_of(data.len());
        let (format, mut out) = (self.cursor.format, &mut out[..written]);
        while !data.is_empty() {
            let blocks = self.insert_blocks(data, out);
            if blocks > 0 {
                split_off(&mut data, blocks * format.data_bytes());
                split_off_mut(&mut out, blocks * format.block_bytes());
                continue;
            }
            let count = (format.data_bytes() - self.cursor.at).min(data.len());
            let part = split_off(&mut data, count);
            let copy = split_off_mut(&mut out, count);
            self.cursor.kernels.update_copy(&mut self.cursor.crc, part, copy);
            self.cursor.at += count;
            if self.cursor.at == format.data_bytes() {
                let metadata = split_off_mut(&mut out, format.metadata_bytes());
                metadata.fill(0);
                let tuple = self.end_of_data();
                metadata[format.tuple_range()].copy_from_slice(tuple.as_slice());
            }
        }
        written
    }

    /// Takes data up to the end of the present block at most. Returns how many bytes it took and,
    /// if the block is complete, its tuple: for a gathered write in which the data stay where they
    /// are. Metadata beside the tuple are taken for zeros.
    ///
    /// # Panics
    /// If the next byte of the stream is one of metadata.
    pub fn tuple_after(&mut self, data: &[u8]) -> (usize, Option<TupleBytes>) {
        self.assert_at_data();
        let size = self.cursor.format.data_bytes();
        let count = (size - self.cursor.at).min(data.len());
        self.cursor.kernels.update(&mut self.cursor.crc, &data[..count]);
        self.cursor.at += count;
        let complete = self.cursor.at == size;
        (count, complete.then(|| self.end_of_data()))
    }

    /// Replaces the tuples in the next bytes of extended blocks; other metadata stay.
    pub fn overwrite(&mut self, mut extended: &mut [u8]) {
        let format = self.cursor.format;
        while !extended.is_empty() {
            let blocks = self.overwrite_blocks(extended);
            if blocks > 0 {
                split_off_mut(&mut extended, blocks * format.block_bytes());
                continue;
            }
            let (region, left) = self.cursor.region();
            let count = left.min(extended.len());
            let part = split_off_mut(&mut extended, count);
            if region == Region::Data {
                self.cursor.kernels.update(&mut self.cursor.crc, part);
                self.cursor.advance(count);
            } else {
                self.metadata(region, part);
            }
        }
    }

    /// Makes the tuples of blocks whose data and metadata are apart; other metadata stay. Copies
    /// the data to `to` if there is such a place. Returns how many bytes of data and of metadata it
    /// took: it stops if the bytes that come next in the block are not there.
    ///
    /// # Panics
    /// If `to` is not as long as `data`.
    pub fn fill_separate(
        &mut self,
        mut data: &[u8],
        mut to: Option<&mut [u8]>,
        mut metadata: &mut [u8],
    ) -> (usize, usize) {
        let had = (data.len(), metadata.len());
        assert!(to.as_ref().is_none_or(|to| to.len() == had.0), "data to copy, and room for them");
        loop {
            let blocks = self.separate_blocks(data, to.as_deref_mut(), metadata);
            if blocks > 0 {
                let bytes = blocks * self.cursor.format.data_bytes();
                split_off(&mut data, bytes);
                to.as_mut().map(|to| split_off_mut(to, bytes));
                split_off_mut(&mut metadata, blocks * self.cursor.format.metadata_bytes());
                continue;
            }
            let (region, left) = self.cursor.region();
            let there = if region == Region::Data { data.len() } else { metadata.len() };
            if there == 0 {
                return (had.0 - data.len(), had.1 - metadata.len());
            }
            let count = left.min(there);
            if region == Region::Data {
                let part = split_off(&mut data, count);
                let Cursor { kernels, crc, .. } = &mut self.cursor;
                match to.as_mut().map(|to| split_off_mut(to, count)) {
                    Some(copy) => kernels.update_copy(crc, part, copy),
                    None => kernels.update(crc, part),
                }
                self.cursor.advance(count);
            } else {
                let part = split_off_mut(&mut metadata, count);
                self.metadata(region, part);
            }
        }
    }

    /// Bytes of data are to come next. If they were taken for metadata of the block before, every
    /// later tuple would be of other bytes than its block's.
    fn assert_at_data(&self) {
        let (at, data) = (self.cursor.at, self.cursor.format.data_bytes());
        assert!(at < data, "data at byte {at} of a block with {data} bytes of data");
    }

    /// Sums or replaces metadata of one region.
    fn metadata(&mut self, region: Region, part: &mut [u8]) {
        match region {
            Region::Tuple => {
                let from = self.cursor.at - self.cursor.format.covered_bytes();
                let guard = self.cursor.crc.value();
                let tuple = self.tuple(self.cursor.block, guard);
                part.copy_from_slice(&tuple.as_slice()[from..from + part.len()]);
            }
            Region::Data | Region::Covered => self.cursor.kernels.update(&mut self.cursor.crc, part),
            Region::Rest => {}
        }
        self.cursor.advance(part.len());
    }

    /// The tuple of the present block, whose data are complete and whose other metadata are zeros;
    /// on to the next block.
    fn end_of_data(&mut self) -> TupleBytes {
        let covered = self.cursor.format.covered_bytes() - self.cursor.format.data_bytes();
        self.cursor.kernels.update(&mut self.cursor.crc, &ZEROS[..covered]);
        let tuple = self.tuple(self.cursor.block, self.cursor.crc.value());
        self.cursor.skip_blocks(1);
        tuple
    }

    fn tuple(&self, block: u64, guard: u64) -> TupleBytes {
        let Cursor { format, tags, .. } = &self.cursor;
        tags.tuple(format, block, guard).encode(format)
    }

    /// Number of whole blocks of `data` bytes and `metadata` bytes that the kernels can do in one
    /// call: only at a block's start, and only if data and covered metadata are in one piece.
    fn whole_blocks(&self, blocks: usize, in_one_piece: bool) -> usize {
        if self.cursor.at == 0 && in_one_piece { blocks.min(BATCH) } else { 0 }
    }

    fn insert_blocks(&mut self, data: &[u8], out: &mut [u8]) -> usize {
        let format = self.cursor.format;
        let (len, block) = (format.data_bytes(), format.block_bytes());
        let count = self.whole_blocks(data.len() / len, format.covered_bytes() == len);
        let mut guards = [0; BATCH];
        let guards = &mut guards[..count];
        let spacing = Spacing { len, pitch: len };
        self.cursor.kernels.blocks_copy(format.guard(), data, spacing, out, block, guards);
        for (i, (guard, out)) in guards.iter().zip(out.chunks_exact_mut(block)).enumerate() {
            let tuple = self.tuple(self.cursor.block + i as u64, *guard);
            out[len..].fill(0);
            out[len..][format.tuple_range()].copy_from_slice(tuple.as_slice());
        }
        self.finish_blocks(count)
    }

    fn overwrite_blocks(&mut self, extended: &mut [u8]) -> usize {
        let format = self.cursor.format;
        let (covered, block) = (format.covered_bytes(), format.block_bytes());
        let count = self.whole_blocks(extended.len() / block, true);
        let mut guards = [0; BATCH];
        let guards = &mut guards[..count];
        let spacing = Spacing { len: covered, pitch: block };
        self.cursor.kernels.blocks(format.guard(), extended, spacing, guards);
        for (i, (guard, block)) in guards.iter().zip(extended.chunks_exact_mut(block)).enumerate() {
            let tuple = self.tuple(self.cursor.block + i as u64, *guard);
            block[covered..][..format.tuple_bytes()].copy_from_slice(tuple.as_slice());
        }
        self.finish_blocks(count)
    }

    fn separate_blocks(&mut self, data: &[u8], to: Option<&mut [u8]>, metadata: &mut [u8]) -> usize {
        let format = self.cursor.format;
        let (len, pitch) = (format.data_bytes(), format.metadata_bytes());
        let blocks = (data.len() / len).min(metadata.len() / pitch);
        let count = self.whole_blocks(blocks, format.covered_bytes() == len);
        let mut guards = [0; BATCH];
        let guards = &mut guards[..count];
        let (kernels, spacing) = (self.cursor.kernels, Spacing { len, pitch: len });
        match to {
            Some(to) => kernels.blocks_copy(format.guard(), data, spacing, to, len, guards),
            None => kernels.blocks(format.guard(), data, spacing, guards),
        }
        self.cursor.tags.put(&format, self.cursor.block, guards, metadata);
        self.finish_blocks(count)
    }

    fn finish_blocks(&mut self, count: usize) -> usize {
        if count > 0 {
            self.cursor.skip_blocks(count);
        }
        count
    }
}
