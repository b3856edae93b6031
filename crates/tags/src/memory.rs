//! A drive in memory, with its tags in the same memory.
//!
//! Nothing survives the process, so there is neither a tag file nor a log: data and tuples change
//! under one lock, and no command waits for another thread.

use crate::geometry::{Geometry, InvalidGeometry, MIN_LOG};
use crate::page::{Judged, Origin, judge};
use crate::refusals::Refusals;
use pumice_blockdev::{
    BlockDevice, IoError, NoMemory, Operation, TagCounts, TagFormat, Tagged, prefetch, prefetch_far, stream,
    try_zeroed_memory,
};
use pumice_protect::command::{Prchk, Tags};
use pumice_protect::format::Format;
use pumice_protect::kernels::{Kernels, Spacing};
use pumice_protect::metadata::MetadataFormat;
use pumice_protect::origin::RestoredTag;
use pumice_protect::stream::{CheckStream, MakeStream};
use std::io;
use std::ops::Range;
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// Blocks that are checked together.
const TOGETHER: usize = 64;
/// Bytes that are zeroed while other commands wait.
const PIECE: u64 = 256 << 10;

/// A drive in memory whose blocks are checked against tags when they are read.
///
/// It behaves as a [`TaggedDevice`](crate::TaggedDevice) over a
/// [`MemoryDevice`](pumice_blockdev::MemoryDevice): zeroed and without tags at first.
pub struct TaggedMemory {
    name: String,
    geometry: Geometry,
    /// The data; then the metadata of each block, an escape if it has none; then a bit for each:
    /// whether it has been written. (Bits are so few that caches hold them.)
    content: RwLock<Vec<u8>>,
    refusals: Refusals,
}

/// Reasons why there is no drive in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NewMemoryError {
    /// It cannot have tags.
    #[error(transparent)]
    Geometry(#[from] InvalidGeometry),
    /// There is no memory for it.
    #[error(transparent)]
    NoMemory(#[from] NoMemory),
}

/// The place of the data and metadata of some blocks.
struct Places {
    data: Range<usize>,
    metadata: Range<usize>,
}

impl TaggedMemory {
    /// A drive of `size` bytes in blocks of `block` bytes. The system provides the memory now.
    ///
    /// # Errors
    /// As [`Geometry::new`], or if this machine does not have the memory for data and metadata.
    pub fn new(
        name: &str,
        size: u64,
        block: u32,
        metadata: impl Into<MetadataFormat>,
    ) -> Result<Self, NewMemoryError> {
        let geometry = Geometry::new(size, block, block, metadata, MIN_LOG)?;
        let metadata = geometry.blocks().saturating_mul(geometry.format().metadata_bytes() as u64);
        let beside = metadata.saturating_add(geometry.blocks().div_ceil(8));
        let mut content = try_zeroed_memory(size.saturating_add(beside))?;
        content[places(&geometry, 0..geometry.blocks()).metadata].fill(0xFF);
        Ok(Self {
            name: name.to_owned(),
            geometry,
            content: RwLock::new(content),
            refusals: Refusals::new(false),
        })
    }

    /// The same drive with other bytes in a block, and the old tag: damage.
    #[cfg(test)]
    pub(crate) fn damage(&self, at: usize, byte: u8) {
        self.write_lock()[at] = byte;
    }

    const fn format(&self) -> &Format {
        self.geometry.format()
    }

    fn read_lock(&self) -> RwLockReadGuard<'_, Vec<u8>> {
        self.content.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write_lock(&self) -> RwLockWriteGuard<'_, Vec<u8>> {
        self.content.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// The range of whole blocks.
    fn whole_blocks(&self, operation: Operation, offset: u64, len: u64) -> Result<Range<u64>, IoError> {
        self.geometry.whole_blocks(offset, len).map_err(|why| {
            let source = io::Error::new(io::ErrorKind::InvalidInput, why);
            IoError::new(&self.name, operation, offset, usize::try_from(len).unwrap_or(usize::MAX), source)
        })
    }

    /// Checks blocks, and copies them to `to` if it is given. The first block that is refused.
    fn refused(&self, content: &[u8], blocks: Range<u64>, mut to: Option<&mut [u8]>) -> Option<u64> {
        if !self.geometry.is_tuple_only() {
            return self.refused_one_by_one(content, blocks, to);
        }
        let size = self.geometry.block_bytes();
        let (kernels, guard) = (Kernels::best(), self.format().guard());
        let mut guards = [0; TOGETHER];
        for first in blocks.clone().step_by(TOGETHER) {
            let piece = first..blocks.end.min(first + TOGETHER as u64);
            let places = places(&self.geometry, piece.clone());
            let guards = &mut guards[..(piece.end - first) as usize];
            let (data, spacing) = (&content[places.data], Spacing { len: size, pitch: size });
            match to.as_deref_mut() {
                Some(to) => {
                    let to = &mut to[(first - blocks.start) as usize * size..][..data.len()];
                    kernels.blocks_copy(guard, data, spacing, to, size, guards);
                }
                None => kernels.blocks(guard, data, spacing, guards),
            }
            if kernels.compare(guard, guards, &content[places.metadata]).differ {
                let to = to.map(|to| &mut to[(first - blocks.start) as usize * size..]);
                return self.refused_one_by_one(content, first..blocks.end, to);
            }
        }
        None
    }

    /// The same, with a ruling for each block that differs.
    fn refused_one_by_one(
        &self,
        content: &[u8],
        blocks: Range<u64>,
        mut to: Option<&mut [u8]>,
    ) -> Option<u64> {
        let (mut first, mut end) = (blocks.start, blocks.end);
        while first < blocks.end {
            let places = places(&self.geometry, first..end);
            let bytes = |block: u64| (block - blocks.start) as usize * self.geometry.block_bytes();
            let to = to.as_deref_mut().map(|to| &mut to[bytes(first)..bytes(end)]);
            let mut stream = CheckStream::new(*self.format(), Tags::at(self.format(), 0), Prchk::GUARD);
            stream.verify_separate(&content[places.data], to, &content[places.metadata]);
            if let Some(fault) = stream.fault() {
                let block = first + fault.block;
                if self.refusals.refuses() {
                    return Some(block);
                }
                // Block after block from here on: none is checked more than twice.
                (first, end) = (block + 1, block + 1);
            } else {
                first = end;
            }
            end = blocks.end.min(end + 1);
        }
        None
    }

    fn refusal(&self, block: u64) -> IoError {
        let size = self.geometry.block_bytes();
        IoError::protection(&self.name, Operation::Read, block * size as u64, size)
    }

    /// Stores data with metadata that `fill` puts into their place.
    fn store(&self, blocks: Range<u64>, fill: impl FnOnce(&mut [u8], &mut [u8])) {
        let places = places(&self.geometry, blocks.clone());
        let mut content = self.write_lock();
        let (data, rest) = content.split_at_mut(self.geometry.size() as usize);
        let begin = data.len();
        fill(&mut data[places.data], &mut rest[places.metadata.start - begin..places.metadata.end - begin]);
        set_bits(&mut content[self.bits_at()..], blocks.start as usize..blocks.end as usize);
    }

    /// The start of the bits of the blocks.
    fn bits_at(&self) -> usize {
        places(&self.geometry, 0..self.geometry.blocks()).metadata.end
    }

    /// Zeros blocks with metadata that `fill` puts into their place by number, piece after piece.
    fn clear(&self, blocks: Range<u64>, fill: impl Fn(u64, &mut [u8])) {
        let (size, each) = (self.geometry.block_bytes() as u64, self.format().metadata_bytes());
        for first in blocks.clone().step_by((PIECE / size) as usize) {
            let piece = first..blocks.end.min(first + PIECE / size);
            self.store(piece, |data, metadata| {
                data.fill(0);
                for (block, to) in (first..).zip(metadata.chunks_exact_mut(each)) {
                    fill(block, to);
                }
            });
        }
    }
}

/// The places of blocks in the memory of a drive.
fn places(geometry: &Geometry, blocks: Range<u64>) -> Places {
    let range = |begin: u64, each: usize| {
        let at = |block: u64| (begin + block * each as u64) as usize;
        at(blocks.start)..at(blocks.end)
    };
    Places {
        data: range(0, geometry.block_bytes()),
        metadata: range(geometry.size(), geometry.format().metadata_bytes()),
    }
}

/// Sets the bits of a range.
fn set_bits(bits: &mut [u8], range: Range<usize>) {
    let (first, end) = (range.start.div_ceil(8), range.end / 8);
    if first < end {
        bits[first..end].fill(0xFF);
    }
    let before = range.start..range.end.min(8 * first);
    let after = range.start.max(8 * end.max(first))..range.end;
    before.chain(after).for_each(|bit| bits[bit / 8] |= 1 << (bit % 8));
}

impl Tagged for TaggedMemory {
    fn format(&self) -> TagFormat {
        let metadata = self.format().metadata();
        TagFormat { metadata, block_bytes: self.geometry.block_bytes() as u32 }
    }

    fn counts(&self) -> TagCounts {
        let (refused, served) = self.refusals.counts();
        TagCounts { refused, served, lost_pages: 0, stale: self.refusals.is_stale() }
    }

    fn read_judged(&self, offset: u64, buf: &mut [u8]) -> Result<Vec<Judged>, IoError> {
        let blocks = self.whole_blocks(Operation::Read, offset, buf.len() as u64)?;
        let places = places(&self.geometry, blocks.clone());
        let content = self.read_lock();
        buf.copy_from_slice(&content[places.data]);
        let metadata = content[places.metadata].chunks_exact(self.format().metadata_bytes());
        let bits = &content[self.bits_at()..];
        let origin = |block: usize| match bits[block / 8] >> (block % 8) & 1 {
            0 => Origin::Unknown,
            _ => Origin::Written,
        };
        let origins = (blocks.start as usize..blocks.end as usize).map(origin);
        let blocks = metadata.zip(origins).zip(self.geometry.guards(buf));
        let judge = |((metadata, origin), guard)| judge(&self.geometry, origin, metadata, guard);
        Ok(blocks.map(judge).collect())
    }

    fn read_with_metadata(&self, offset: u64, data: &mut [u8], metadata: &mut [u8]) -> Result<(), IoError> {
        let blocks = self.whole_blocks(Operation::Read, offset, data.len() as u64)?;
        let places = places(&self.geometry, blocks);
        assert_eq!(metadata.len(), places.metadata.len(), "metadata of each block");
        let content = self.read_lock();
        data.copy_from_slice(&content[places.data]);
        metadata.copy_from_slice(&content[places.metadata]);
        Ok(())
    }

    fn write_with_metadata(&self, offset: u64, data: &[u8], metadata: &[u8]) -> Result<(), IoError> {
        let blocks = self.whole_blocks(Operation::Write, offset, data.len() as u64)?;
        let places = places(&self.geometry, blocks.clone());
        assert_eq!(metadata.len(), places.metadata.len(), "metadata of each block");
        self.store(blocks, |to_data, to_metadata| {
            to_data.copy_from_slice(data);
            to_metadata.copy_from_slice(metadata);
        });
        Ok(())
    }

    fn zero_with_metadata(&self, offset: u64, metadata: &[u8], _frees_room: bool) -> Result<(), IoError> {
        let each = self.format().metadata_bytes();
        assert!(metadata.len().is_multiple_of(each), "metadata of whole blocks");
        let len = (metadata.len() / each * self.geometry.block_bytes()) as u64;
        let blocks = self.whole_blocks(Operation::Zero, offset, len)?;
        let first = blocks.start;
        self.clear(blocks, |block, to| {
            to.copy_from_slice(&metadata[(block - first) as usize * each..][..each]);
        });
        Ok(())
    }

    fn restore(&self, offset: u64, data: &[u8], tag: RestoredTag) -> Result<(), IoError> {
        let blocks = self.whole_blocks(Operation::Write, offset, data.len() as u64)?;
        let places = places(&self.geometry, blocks.clone());
        let at = self.bits_at();
        let mut content = self.write_lock();
        content[places.data].copy_from_slice(data);
        if tag == RestoredTag::Adopted {
            // Memory has no adopted tags: the blocks have none then.
            content[places.metadata].fill(0xFF);
            let bits = &mut content[at..];
            blocks.for_each(|block| bits[block as usize / 8] &= !(1 << (block % 8)));
        }
        Ok(())
    }

    fn vouch(&self, offset: u64, len: u64) -> Result<u64, IoError> {
        // No block has an adopted tag: memory is not adopted.
        self.whole_blocks(Operation::Write, offset, len).map(|_| 0)
    }
}

impl BlockDevice for TaggedMemory {
    fn name(&self) -> &str {
        &self.name
    }

    fn size_bytes(&self) -> u64 {
        self.geometry.size()
    }

    fn logical_block(&self) -> u32 {
        self.geometry.block_bytes() as u32
    }

    fn read_only(&self) -> bool {
        false
    }

    fn clears_at_once(&self) -> u64 {
        8 << 20
    }

    fn is_immediate(&self) -> bool {
        true
    }

    fn resident(&self) -> Option<RwLockReadGuard<'_, Vec<u8>>> {
        Some(self.read_lock())
    }

    fn check_resident(&self, offset: u64, len: u64) -> Result<(), IoError> {
        let blocks = self.whole_blocks(Operation::Read, offset, len)?;
        let refused = self.refused(&self.read_lock(), blocks, None);
        refused.map_or(Ok(()), |block| Err(self.refusal(block)))
    }

    fn prepare(&self, offset: u64, len: u64) {
        let Ok(blocks) = self.geometry.whole_blocks(offset, len) else { return };
        let places = places(&self.geometry, blocks);
        let content = self.read_lock();
        prefetch(&content[places.metadata]);
        prefetch_far(&content[places.data]);
    }

    fn tagged(&self) -> Option<&dyn Tagged> {
        Some(self)
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), IoError> {
        if buf.is_empty() {
            return Ok(());
        }
        let size = self.geometry.block_bytes() as u64;
        let (skip, len) = ((offset % size) as usize, buf.len());
        let end = offset.checked_add(len as u64).and_then(|end| end.checked_next_multiple_of(size));
        let whole = end.map_or(u64::MAX, |end| end - (offset - skip as u64));
        let blocks = self.whole_blocks(Operation::Read, offset - skip as u64, whole)?;
        let refused = if whole == len as u64 {
            self.refused(&self.read_lock(), blocks, Some(&mut *buf))
        } else {
            let mut bytes = vec![0; whole as usize];
            let refused = self.refused(&self.read_lock(), blocks, Some(&mut bytes[..]));
            buf.copy_from_slice(&bytes[skip..skip + len]);
            refused
        };
        match refused {
            None => Ok(()),
            Some(block) => {
                buf.fill(0);
                Err(self.refusal(block))
            }
        }
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> Result<(), IoError> {
        let blocks = self.whole_blocks(Operation::Write, offset, data.len() as u64)?;
        let mut make = MakeStream::new(*self.format(), Tags::at(self.format(), blocks.start));
        self.store(blocks, |to, metadata| {
            if !self.geometry.is_tuple_only() {
                metadata.fill(0);
            }
            if data.len() < stream::LARGE {
                make.fill_separate(data, Some(to), metadata);
            } else {
                make.fill_separate(data, None, metadata);
                stream::copy(to, data);
            }
        });
        Ok(())
    }

    fn zero(&self, offset: u64, len: u64) -> Result<(), IoError> {
        let blocks = self.whole_blocks(Operation::Zero, offset, len)?;
        let guard = self.geometry.zero_guard();
        self.clear(blocks, |block, to| {
            to.fill(0);
            let tuple = self.geometry.tuple(block, guard).encode(self.format());
            to[self.format().tuple_range()].copy_from_slice(tuple.as_slice());
        });
        Ok(())
    }

    fn flush(&self) -> Result<(), IoError> {
        Ok(())
    }
}

#[cfg(test)]
mod tests;
