//! Checking.

use super::{BATCH, Cursor, Region, split_off, split_off_mut};
use crate::command::{Prchk, Tags};
use crate::format::{Format, MAX_TUPLE};
use crate::kernels::{Kernels, Spacing};
use crate::tuple::Tuple;
use crate::verdict::Fault;

/// Checks the tuples of blocks that arrive in pieces, and may copy the blocks or only their data.
///
/// After the first fault bytes are still copied, and nothing is checked any more.
#[derive(Debug, Clone)]
pub struct CheckStream {
    cursor: Cursor,
    checks: Prchk,
    /// The part of the tuple that has come.
    found: [u8; MAX_TUPLE],
    fault: Option<Fault>,
}

/// The part of an extended block that is copied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Copied {
    Nothing,
    Everything,
    Data,
}

impl CheckStream {
    /// Before the first block. `tags` are those expected.
    #[must_use]
    pub fn new(format: Format, tags: Tags, checks: Prchk) -> Self {
        Self { cursor: Cursor::new(format, tags), checks, found: [0; MAX_TUPLE], fault: None }
    }

    /// With other kernels than the best.
    #[must_use]
    pub fn with_kernels(mut self, kernels: Kernels) -> Self {
        self.cursor.kernels = kernels;
        self
    }

    /// The first bad block, of those whose tuple has come.
    #[must_use]
    pub const fn fault(&self) -> Option<Fault> {
        self.fault
    }

    /// Blocks that have come whole.
    #[must_use]
    pub const fn blocks(&self) -> u64 {
        self.cursor.block
    }

    /// Bytes of the block that has begun to come, data and metadata; 0 between blocks.
    #[must_use]
    pub const fn pending_bytes(&self) -> usize {
        self.cursor.at
    }

    /// Number of data bytes in the next `extended` bytes of extended blocks.
    #[must_use]
    pub fn data_in(&self, extended: usize) -> usize {
        self.cursor.data_in(extended)
    }

    /// Checks the next bytes of extended blocks.
    pub fn verify(&mut self, extended: &[u8]) {
        self.extended(extended, Copied::Nothing, &mut []);
    }

    /// Checks the next bytes of extended blocks, and copies them to `out`.
    ///
    /// # Panics
    /// If the lengths differ.
    pub fn verify_copy(&mut self, extended: &[u8], out: &mut [u8]) {
        assert_eq!(extended.len(), out.len(), "bytes to copy, and room for them");
        self.extended(extended, Copied::Everything, out);
    }

    /// Checks the next bytes of extended blocks, and copies their data to the start of `out`.
    /// Returns how many bytes that are.
    ///
    /// # Panics
    /// If `out` is shorter than [`data_in`](Self::data_in) says.
    pub fn strip(&mut self, extended: &[u8], out: &mut [u8]) -> usize {
        let count = self.data_in(extended.len());
        self.extended(extended, Copied::Data, &mut out[..count]);
        count
    }

    /// Checks blocks whose data and metadata are apart; copies the data to `to` if there is such a
    /// place. Returns how many bytes of data and of metadata it took: it stops if the bytes that
    /// come next in the block are not there.
    ///
    /// # Panics
    /// If `to` is not as long as `data`.
    pub fn verify_separate<'a>(
        &mut self,
        mut data: &'a [u8],
        mut to: Option<&mut [u8]>,
        mut metadata: &'a [u8],
    ) -> (usize, usize) {
        let had = (data.len(), metadata.len());
        assert!(to.as_ref().is_none_or(|to| to.len() == had.0), "data to copy, and room for them");
        loop {
            let blocks = self.separate_blocks(data, to.as_deref_mut(), metadata);
            if blocks > 0 {
                let bytes = blocks * self.cursor.format.data_bytes();
                split_off(&mut data, bytes);
                to.as_mut().map(|to| split_off_mut(to, bytes));
                split_off(&mut metadata, blocks * self.cursor.format.metadata_bytes());
                continue;
            }
            let (region, left) = self.cursor.region();
            let there = if region == Region::Data { data.len() } else { metadata.len() };
            if there == 0 {
                return (had.0 - data.len(), had.1 - metadata.len());
            }
            let count = left.min(there);
            let source = if region == Region::Data { &mut data } else { &mut metadata };
            let part = split_off(source, count);
            let copy = to.as_mut().filter(|_| region == Region::Data);
            let copy = copy.map(|to| split_off_mut(to, count));
            self.take(region, part, copy);
        }
    }

    /// Returns whether the guard of the present block will be checked.
    fn wants_guard(&self) -> bool {
        self.checks.guard && self.fault.is_none()
    }

    fn extended(&mut self, mut bytes: &[u8], copied: Copied, mut out: &mut [u8]) {
        let format = self.cursor.format;
        while !bytes.is_empty() {
            let blocks = self.extended_blocks(bytes, copied, out);
            if blocks > 0 {
                split_off(&mut bytes, blocks * format.block_bytes());
                match copied {
                    Copied::Nothing => {}
                    Copied::Everything => drop(split_off_mut(&mut out, blocks * format.block_bytes())),
                    Copied::Data => drop(split_off_mut(&mut out, blocks * format.data_bytes())),
                }
                continue;
            }
            let (region, left) = self.cursor.region();
            let count = left.min(bytes.len());
            let part = split_off(&mut bytes, count);
            let goes_on = copied == Copied::Everything || (copied == Copied::Data && region == Region::Data);
            let copy = goes_on.then(|| split_off_mut(&mut out, part.len()));
            self.take(region, part, copy);
        }
    }

    /// Takes bytes of one region.
    fn take(&mut self, region: Region, bytes: &[u8], copy: Option<&mut [u8]>) {
        let sums = self.wants_guard() && matches!(region, Region::Data | Region::Covered);
        let Cursor { kernels, crc, .. } = &mut self.cursor;
        match copy {
            Some(copy) if sums => kernels.update_copy(crc, bytes, copy),
            Some(copy) => copy.copy_from_slice(bytes),
            None if sums => kernels.update(crc, bytes),
            None => {}
        }
        if region == Region::Tuple {
            let format = self.cursor.format;
            let from = self.cursor.at - format.covered_bytes();
            self.found[from..from + bytes.len()].copy_from_slice(bytes);
            if from + bytes.len() == format.tuple_bytes() {
                let (block, guard, found) = (self.cursor.block, self.cursor.crc.value(), self.found);
                self.judge(block, guard, &found[..format.tuple_bytes()]);
            }
        }
        self.cursor.advance(bytes.len());
    }

    fn judge(&mut self, block: u64, guard: u64, tuple: &[u8]) {
        if self.fault.is_none() {
            let Cursor { format, tags, .. } = &self.cursor;
            self.fault = tags.judge(format, self.checks, block, guard, &Tuple::decode(format, tuple));
        }
    }

    /// Whole extended blocks at a block's start, in one call of the kernels: how many. 0 if it must
    /// go region by region.
    fn extended_blocks(&mut self, bytes: &[u8], copied: Copied, out: &mut [u8]) -> usize {
        let format = self.cursor.format;
        let (covered, block) = (format.covered_bytes(), format.block_bytes());
        let count = (bytes.len() / block).min(BATCH);
        // Data go on without the covered metadata: two lengths, which the kernels cannot do in one
        // pass.
        let apart = copied == Copied::Data && covered != format.data_bytes();
        if self.cursor.at != 0 || count == 0 || apart || !self.wants_guard() {
            return 0;
        }
        let mut guards = [0; BATCH];
        let guards = &mut guards[..count];
        let (kernels, spacing) = (self.cursor.kernels, Spacing { len: covered, pitch: block });
        match copied {
            Copied::Nothing => kernels.blocks(format.guard(), bytes, spacing, guards),
            Copied::Everything => {
                kernels.blocks_copy(format.guard(), bytes, spacing, out, block, guards);
                for (copy, bytes) in out.chunks_exact_mut(block).zip(bytes.chunks_exact(block)).take(count) {
                    copy[covered..].copy_from_slice(&bytes[covered..]);
                }
            }
            Copied::Data => kernels.blocks_copy(format.guard(), bytes, spacing, out, covered, guards),
        }
        let first = self.cursor.block;
        for (i, guard) in guards.iter().enumerate() {
            let tuple = &bytes[i * block + covered..][..format.tuple_bytes()];
            self.judge(first + i as u64, *guard, tuple);
        }
        self.cursor.skip_blocks(count);
        count
    }

    /// Whole blocks with data and metadata apart, in one call of the kernels: how many.
    fn separate_blocks(&mut self, data: &[u8], to: Option<&mut [u8]>, metadata: &[u8]) -> usize {
        let format = self.cursor.format;
        let (len, pitch) = (format.data_bytes(), format.metadata_bytes());
        let count = (data.len() / len).min(metadata.len() / pitch).min(BATCH);
        let apart = format.covered_bytes() != len;
        if self.cursor.at != 0 || count == 0 || apart || !self.wants_guard() {
            return 0;
        }
        let mut guards = [0; BATCH];
        let guards = &mut guards[..count];
        let (kernels, spacing) = (self.cursor.kernels, Spacing { len, pitch: len });
        match to {
            Some(to) => kernels.blocks_copy(format.guard(), data, spacing, to, len, guards),
            None => kernels.blocks(format.guard(), data, spacing, guards),
        }
        let first = self.cursor.block;
        for (i, (guard, metadata)) in guards.iter().zip(metadata.chunks_exact(pitch)).enumerate() {
            self.judge(first + i as u64, *guard, &metadata[format.tuple_range()]);
        }
        self.cursor.skip_blocks(count);
        count
    }
}
