//! The tagged blocks, and the place of their tags in the tag file.

use crate::sum::{self, Sum, Sums};
use pumice_protect::command::Tags;
use pumice_protect::digest::crc32c;
use pumice_protect::format::{Format, InvalidFormat, Type};
use pumice_protect::guard::Crc;
use pumice_protect::kernels::{Kernels, Spacing};
use pumice_protect::metadata::MetadataFormat;
use pumice_protect::tuple::Tuple;
use std::ops::Range;
use thiserror::Error;

/// Bytes of a page: a sector.
pub const PAGE_BYTES: usize = 512;
/// Pages that are read and kept together: 4 KiB of the tag file, which cost no more to read than a
/// sector.
pub const GROUP_PAGES: u64 = 8;
/// Bytes of a slot of the header; there are two.
pub const HEADER_SLOT: u32 = 4096;
/// The start of the log.
pub const LOG_AT: u64 = 2 * HEADER_SLOT as u64;
/// The least bytes of a log.
pub const MIN_LOG: u64 = 64 << 10;
/// The most bytes of a log.
pub const MAX_LOG: u64 = 1 << 30;
/// Bytes of the head of a kept block: a sector.
pub const KEPT_HEAD: usize = 512;
/// More zeros than a block has other metadata.
const ZEROS: [u8; 64] = [0; 64];
/// Runs that a block is cut into to see whether it is torn.
const RUNS: usize = 8;

/// A drive that cannot be tagged so.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("{field}: {value} {problem}")]
pub struct InvalidGeometry {
    /// The field that is wrong.
    pub field: &'static str,
    /// Its value.
    pub value: u64,
    /// The problem with that.
    pub problem: &'static str,
}

/// Blocks of a range whose tags are in one page.
#[derive(Debug, Clone)]
pub(crate) struct Part {
    pub(crate) page: u64,
    /// The place of the first in the page.
    pub(crate) place: usize,
    /// Their numbers, counted from the first block of the range.
    pub(crate) at: Range<usize>,
}

/// Sizes of a drive and of its tags.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Geometry {
    format: Format,
    blocks: u64,
    log_bytes: u64,
    carries_data: bool,
    /// The secret that the sums of blocks depend on: the identity of the tag file.
    secret: u64,
}

impl Geometry {
    /// A drive of `size` bytes, in blocks of `block` bytes, with tuples of type 1. A guard
    /// stands for metadata that are only its tuple.
    ///
    /// `unit` is what the drive writes all or nothing, in bytes: if it is less than a block, the
    /// log carries the data.
    ///
    /// # Errors
    /// If the block is not of 512 or 4096 bytes, the metadata are not only the tuple, or 16 or 64
    /// bytes of a block of 4096, the size is no whole number of blocks (one at least), or
    /// `log_bytes` is no multiple of 512 from [`MIN_LOG`] to [`MAX_LOG`].
    pub fn new(
        size: u64,
        block: u32,
        unit: u32,
        metadata: impl Into<MetadataFormat>,
        log_bytes: u64,
    ) -> Result<Self, InvalidGeometry> {
        let metadata = metadata.into();
        let wrong = |field, value, problem| Err(InvalidGeometry { field, value, problem });
        if block != 512 && block != 4096 {
            return wrong("block size", block.into(), "is neither 512 nor 4096");
        }
        if size == 0 || !size.is_multiple_of(block.into()) {
            return wrong("drive size", size, "bytes are not a whole number of blocks");
        }
        if !(MIN_LOG..=MAX_LOG).contains(&log_bytes) || !log_bytes.is_multiple_of(512) {
            return wrong("log size", log_bytes, "is not a multiple of 512 from 64 KiB to 1 GiB");
        }
        let bytes = metadata.bytes() as u64;
        if !metadata.is_tuple() && block != 4096 {
            return wrong("metadata", bytes, "bytes need blocks of 4096 bytes");
        }
        if !matches!(bytes, 8 | 16 | 64) {
            return wrong("metadata", bytes, "bytes are neither the tuple nor 16 or 64");
        }
        // Which bits a host compares is not kept: nothing here depends on it.
        let format = metadata.with_data(block as usize, Type::One, 0);
        let format = format.map_err(|InvalidFormat { field, value, problem }| InvalidGeometry {
            field,
            value,
            problem,
        })?;
        let carries_data = unit < block;
        Ok(Self { format, blocks: size / u64::from(block), log_bytes, carries_data, secret: 0 })
    }

    /// Sizes of block and metadata, and the tuple.
    #[must_use]
    pub const fn format(&self) -> &Format {
        &self.format
    }

    /// Returns whether the metadata are only the tuple.
    #[must_use]
    pub const fn is_tuple_only(&self) -> bool {
        self.format.metadata_bytes() == self.format.tuple_bytes()
    }

    /// Bytes of metadata beside the tuple of a block.
    #[must_use]
    pub const fn other_bytes(&self) -> usize {
        self.format.metadata_bytes() - self.format.tuple_bytes()
    }

    /// The place of they, in bytes from the start of the metadata: before the tuple or behind it.
    #[must_use]
    pub const fn other_range(&self) -> Range<usize> {
        let tuple = self.format.tuple_range();
        if tuple.start == 0 { tuple.end..self.format.metadata_bytes() } else { 0..tuple.start }
    }

    /// Bytes of a block.
    #[must_use]
    pub const fn block_bytes(&self) -> usize {
        self.format.data_bytes()
    }

    /// Blocks of the drive.
    #[must_use]
    pub const fn blocks(&self) -> u64 {
        self.blocks
    }

    /// Bytes of the drive.
    #[must_use]
    pub const fn size(&self) -> u64 {
        self.blocks * self.block_bytes() as u64
    }

    /// Returns whether records carry the data.
    #[must_use]
    pub const fn carries_data(&self) -> bool {
        self.carries_data
    }

    /// The same, but for whether records carry the data.
    #[must_use]
    pub const fn with_data(self, carries_data: bool) -> Self {
        Self { carries_data, ..self }
    }

    /// The same, with the secret that the [sums](Self::sums) of blocks depend on.
    #[must_use]
    pub const fn with_secret(self, secret: u64) -> Self {
        Self { secret, ..self }
    }

    /// The sum of each block of `data`, by which recovery knows it.
    #[must_use]
    pub fn sums(&self, data: &[u8]) -> Sums {
        let blocks = data.chunks_exact(self.block_bytes());
        Sums::Keyed(blocks.map(|block| sum::keyed(self.secret, block)).collect())
    }

    /// The sums of so many blocks of zeros.
    #[must_use]
    pub fn zero_sums(&self, count: usize) -> Sums {
        Sums::Keyed(vec![sum::keyed(self.secret, &vec![0; self.block_bytes()]); count])
    }

    /// Returns whether a block has a sum.
    pub(crate) fn has_sum(&self, block: &[u8], sum: Sum) -> bool {
        match sum {
            Sum::Plain(sum) => crc32c(block) == sum,
            Sum::Keyed(sum) => sum::keyed(self.secret, block) == sum,
        }
    }

    /// Bytes of the log.
    #[must_use]
    pub const fn log_bytes(&self) -> u64 {
        self.log_bytes
    }

    /// Blocks whose metadata are in one page.
    #[must_use]
    pub const fn blocks_of_page(&self) -> u64 {
        match self.format.metadata_bytes() {
            8 => 60,
            16 => 30,
            _ => 7,
        }
    }

    /// Pages.
    #[must_use]
    pub const fn pages(&self) -> u64 {
        self.blocks.div_ceil(self.blocks_of_page())
    }

    /// The place of a page in the tag file, in bytes.
    #[must_use]
    pub const fn page_at(&self, page: u64) -> u64 {
        LOG_AT + self.log_bytes + page * PAGE_BYTES as u64
    }

    /// The number of blocks that are kept at most: as many as the log can carry.
    #[must_use]
    pub const fn kept_blocks(&self) -> u64 {
        if self.carries_data { self.log_bytes / self.block_bytes() as u64 } else { 0 }
    }

    /// The place of the head of a kept block in the tag file, in bytes.
    #[must_use]
    pub const fn kept_head_at(&self, slot: u64) -> u64 {
        self.page_at(self.pages()) + slot * KEPT_HEAD as u64
    }

    /// The place of the bytes of a kept block in the tag file.
    #[must_use]
    pub const fn kept_bytes_at(&self, slot: u64) -> u64 {
        self.kept_head_at(self.kept_blocks()) + slot * self.block_bytes() as u64
    }

    /// Bytes of the tag file.
    #[must_use]
    pub const fn file_bytes(&self) -> u64 {
        self.kept_bytes_at(self.kept_blocks())
    }

    /// Bytes of a run: what is compared of a block that may be torn.
    #[must_use]
    pub const fn run_bytes(&self) -> usize {
        self.block_bytes() / RUNS
    }

    /// The page of a block, and its place there.
    #[must_use]
    pub const fn place(&self, block: u64) -> (u64, usize) {
        (block / self.blocks_of_page(), (block % self.blocks_of_page()) as usize)
    }

    /// The groups of the pages of a range of blocks, which is not empty.
    #[must_use]
    pub fn groups_of(&self, blocks: &Range<u64>) -> Range<u64> {
        self.place(blocks.start).0 / GROUP_PAGES..self.place(blocks.end - 1).0 / GROUP_PAGES + 1
    }

    /// The parts of a range of blocks that lie in one page each.
    pub(crate) fn parts(&self, blocks: &Range<u64>) -> impl Iterator<Item = Part> + use<> {
        let (geometry, blocks) = (*self, blocks.clone());
        let mut block = blocks.start;
        std::iter::from_fn(move || {
            let (page, place) = geometry.place(block);
            let count = (geometry.blocks_of_page() - place as u64).min(blocks.end - block) as usize;
            let at = (block - blocks.start) as usize;
            block += count as u64;
            (count > 0).then_some(Part { page, place, at: at..at + count })
        })
    }

    /// Groups of pages.
    #[must_use]
    pub const fn groups(&self) -> u64 {
        self.pages().div_ceil(GROUP_PAGES)
    }

    /// The pages of a group: [`GROUP_PAGES`], or less in the last.
    #[must_use]
    pub fn pages_of(&self, group: u64) -> Range<u64> {
        let first = group * GROUP_PAGES;
        first..self.pages().min(first + GROUP_PAGES)
    }

    /// The most blocks of a record with tuples.
    #[must_use]
    pub const fn max_record_blocks(&self) -> u64 {
        let fit = (1 << 20) / self.block_bytes() as u64;
        // A log holds four of the longest at least.
        let data = if self.carries_data { self.block_bytes() as u64 } else { 0 };
        let beside = if self.format.metadata_bytes() > 16 { 80 } else { 32 };
        let share = self.log_bytes / 4 / (data + beside);
        let most = if fit < 2048 { fit } else { 2048 };
        if share < most { share } else { most }
    }

    /// The tuple of a block whose data have this guard, and whose other metadata are zeros.
    #[must_use]
    pub fn tuple(&self, block: u64, guard: u64) -> Tuple {
        self.tuple_over(block, guard, &[])
    }

    /// The tuples of blocks from `first` on, whose data have these guards.
    pub(crate) fn tuples(&self, first: u64, guards: &[u64]) -> impl ExactSizeIterator<Item = Tuple> {
        let tags = Tags::at(&self.format, first);
        let blocks = guards.iter().enumerate();
        blocks.map(move |(at, guard)| tags.tuple(&self.format, at as u64, self.covered_guard(*guard, &[])))
    }

    /// The same with other metadata; `&[]` stands for zeros.
    pub(crate) fn tuple_over(&self, block: u64, guard: u64, others: &[u8]) -> Tuple {
        let guard = self.covered_guard(guard, others);
        Tags::at(&self.format, block).tuple(&self.format, 0, guard)
    }

    /// The guard of a tuple beside data with this guard, and these other metadata; `&[]` stands for
    /// zeros.
    pub(crate) fn covered_guard(&self, guard: u64, others: &[u8]) -> u64 {
        let covered = self.format.covered_bytes() - self.block_bytes();
        if covered == 0 {
            return guard;
        }
        let mut crc = Crc::after(self.format.guard(), guard);
        crc.update(if others.is_empty() { &ZEROS[..covered] } else { others });
        crc.value()
    }

    /// The guard of data beside a tuple with this guard, and these other metadata.
    pub(crate) fn data_guard(&self, guard: u64, others: &[u8]) -> u64 {
        match self.format.covered_bytes() - self.block_bytes() {
            0 => guard,
            _ => self.format.guard().without(guard, others),
        }
    }

    /// The numbers of the blocks of a range of bytes.
    ///
    /// # Errors
    /// The reason, if it does not consist of whole blocks of the drive.
    pub(crate) fn whole_blocks(&self, offset: u64, len: u64) -> Result<Range<u64>, &'static str> {
        let size = self.block_bytes() as u64;
        let end = offset.checked_add(len).filter(|end| *end <= self.size());
        let end = end.ok_or("it is not entirely on the drive")?;
        if !offset.is_multiple_of(size) || !end.is_multiple_of(size) {
            return Err("a drive with tags needs whole blocks");
        }
        Ok(offset / size..end / size)
    }

    /// The guard of each block of `data`.
    pub(crate) fn guards(&self, data: &[u8]) -> Vec<u64> {
        let mut guards = vec![0; data.len() / self.block_bytes()];
        self.guards_into(data, &mut guards);
        guards
    }

    /// The guards of the first blocks of `data`, one for each of `guards`.
    pub(crate) fn guards_into(&self, data: &[u8], guards: &mut [u64]) {
        let size = self.block_bytes();
        let spacing = Spacing { len: size, pitch: size };
        Kernels::best().blocks(self.format.guard(), data, spacing, guards);
    }

    /// The guard of the data of a block of zeros.
    #[must_use]
    pub fn zero_guard(&self) -> u64 {
        self.format.guard().of(&vec![0; self.block_bytes()])
    }
}
