//! Tags beside the blocks of a device.

use crate::IoError;
use crate::judgement::Judgement;
use pumice_protect::metadata::MetadataFormat;
use pumice_protect::origin::{Judged, RestoredTag};
use std::any::Any;
use std::fmt;

/// The format of a device's tags.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TagFormat {
    /// The metadata of each block.
    pub metadata: MetadataFormat,
    /// Bytes of the data of a block.
    pub block_bytes: u32,
}

/// Counters of a device's tags since it was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TagCounts {
    /// Reads that were refused because of a block.
    pub refused: u64,
    /// Blocks that were served although they differ, counted each time.
    pub served: u64,
    /// Pages that were found lost.
    pub lost_pages: u64,
    /// True if the tags are stale, so that nothing is refused.
    pub stale: bool,
}

/// State that a device keeps for one reader of most of it in order, from read to read. It belongs
/// to one device: with another one it counts for nothing.
#[derive(Default)]
pub struct Reader(Option<Box<dyn Any + Send>>);

impl Reader {
    /// The state, of whatever type the device keeps.
    pub fn state<T: Any + Send + Default>(&mut self) -> &mut T {
        if self.0.as_ref().is_none_or(|state| !state.is::<T>()) {
            self.0 = Some(Box::new(T::default()));
        }
        self.0.as_mut().and_then(|state| state.downcast_mut()).expect("it is of this type now")
    }
}

impl fmt::Debug for Reader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Reader").field(&self.0.is_some()).finish()
    }
}

/// Tags beside the blocks of a device.
pub trait Tagged: Send + Sync {
    /// Format of the tags.
    fn format(&self) -> TagFormat;

    /// Their counters.
    fn counts(&self) -> TagCounts;

    /// Reads whole blocks, even if they differ from their tags, with the result of checking each.
    /// Data and tags are of the same version.
    ///
    /// # Errors
    /// If the range is not of whole blocks of the device, or the medium fails.
    fn read_judged(&self, offset: u64, buf: &mut [u8]) -> Result<Vec<Judged>, IoError>;

    /// [`read_judged`](Self::read_judged) for callers that read most of the device in order: the
    /// results are combined, and less is kept in memory.
    ///
    /// # Errors
    /// As [`read_judged`](Self::read_judged).
    fn read_checked(&self, offset: u64, buf: &mut [u8], _reader: &mut Reader) -> Result<Judgement, IoError> {
        let mut judgement = Judgement::default();
        judgement.take(&self.read_judged(offset, buf)?, 0, self.format().block_bytes as usize);
        Ok(judgement)
    }

    /// The guards of the data that the last [`read_checked`](Self::read_checked) with this state
    /// left in its buffer, if it read exactly this range and they are still known.
    fn guards<'r>(&self, _offset: u64, _len: usize, _reader: &'r mut Reader) -> Option<&'r [u64]> {
        None
    }

    /// [`read_checked`](Self::read_checked) for a caller who knows the guards of the blocks without
    /// computing them: the result holds if the bytes in `buf` have these. `None` if they do not all
    /// fit, or if that cannot be told; `buf` is undefined then.
    ///
    /// # Errors
    /// As [`read_judged`](Self::read_judged).
    fn read_expecting(
        &self,
        _offset: u64,
        _buf: &mut [u8],
        _guards: &[u64],
        _reader: &mut Reader,
    ) -> Result<Option<Judgement>, IoError> {
        Ok(None)
    }

    /// Reads whole blocks with their metadata and checks nothing. Data and metadata are of one
    /// version. The metadata of a block that has none are all FFh, an escape.
    ///
    /// # Errors
    /// If the range is not of whole blocks of the device, or the medium fails.
    ///
    /// # Panics
    /// If the length of `metadata` is not that of the metadata of so many blocks.
    fn read_with_metadata(&self, offset: u64, data: &mut [u8], metadata: &mut [u8]) -> Result<(), IoError>;

    /// Writes whole blocks and stores their metadata as they are. In all else the tags are those of
    /// `BlockDevice::write_at`.
    ///
    /// # Errors
    /// As `BlockDevice::write_at`, and if the range is not of whole blocks of the device.
    ///
    /// # Panics
    /// If the length of `metadata` is not that of the metadata of so many blocks.
    fn write_with_metadata(&self, offset: u64, data: &[u8], metadata: &[u8]) -> Result<(), IoError>;

    /// Fills as many blocks with zeros as there are metadata of, and stores these as they are. With
    /// `frees_room` the blocks' room is given back, as by `BlockDevice::discard`; otherwise it is
    /// kept, as by `BlockDevice::zero`.
    ///
    /// # Errors
    /// As those two, and if the range is not of whole blocks of the device.
    ///
    /// # Panics
    /// If `metadata` are not those of whole blocks.
    fn zero_with_metadata(&self, offset: u64, metadata: &[u8], frees_room: bool) -> Result<(), IoError>;

    /// Turns adopted tags of whole blocks into vouched ones, and returns their number. No tuple
    /// changes.
    ///
    /// # Errors
    /// If the range is not of whole blocks of the device, or the tags cannot be written.
    fn vouch(&self, offset: u64, len: u64) -> Result<u64, IoError>;

    /// Writes whole blocks whose bytes come from no host's present write, with such a tag.
    /// In all else as `BlockDevice::write_at`.
    ///
    /// # Errors
    /// As `BlockDevice::write_at`, and if the range is not of whole blocks of the device.
    fn restore(&self, offset: u64, data: &[u8], tag: RestoredTag) -> Result<(), IoError>;
}
