//! The traits of block devices.

use crate::IoError;
use crate::error::Operation;
use pumice_buffer::AlignedBuffer;
use pumice_protect::guard::Guard;
use pumice_protect::origin::Judged;
use std::collections::BTreeSet;
use std::os::fd::RawFd;
use std::sync::RwLockReadGuard;
use std::time::Duration;

/// A file descriptor that takes direct I/O.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DirectFd {
    /// The descriptor; open while the device lives.
    pub fd: RawFd,
    /// Offsets and lengths must be multiples of this. Memory must begin on a page.
    pub grain: u32,
}

/// What a medium likes to be asked for, in bytes: powers of two, no smaller than its logical block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Grains {
    /// Smaller writes are read, changed and written back.
    pub write: u32,
    /// What is given back of a discarded range: whole grains, that begin at a multiple of one.
    pub discard: u32,
}

/// Bytes that zeros are written in at a time.
pub(crate) const PIECE: u64 = 1 << 20;

/// Makes a range zeros by writing them.
pub(crate) fn write_zeros(
    device: &(impl BlockDevice + ?Sized),
    offset: u64,
    len: u64,
) -> Result<(), IoError> {
    if len == 0 {
        return Ok(());
    }
    let zeros = AlignedBuffer::new(len.min(PIECE) as usize);
    let mut done = 0;
    while done < len {
        let piece = (len - done).min(PIECE);
        device.write_at(offset.saturating_add(done), &zeros[..piece as usize])?;
        done += piece;
    }
    Ok(())
}

/// Reads and writes that go past the device, to its descriptor: the medium moves them by DMA.
pub trait DirectIo: Send + Sync {
    /// The descriptor; `None` while reads must go through the device.
    fn descriptor(&self) -> Option<DirectFd>;

    /// Begins a write of whole grains to the descriptor: until
    /// [`end_whole_write`](Self::end_whole_write), parts of a grain, which are read, changed and
    /// written back, have to wait. `end` is the first byte behind the write. False, and nothing
    /// begun, if such a part is under way or waits, or if the device takes no writes any more: then
    /// [`BlockDevice::write_at`] waits, or says why.
    fn begin_whole_write(&self, end: u64) -> bool;

    /// Ends what [`begin_whole_write`](Self::begin_whole_write) began.
    fn end_whole_write(&self);
}

/// Ranges that are made unreadable on purpose, until they are written.
pub trait Marks: Send + Sync {
    /// Whether some of a range is marked: then reads must not go past the device, to its
    /// [descriptor](DirectIo::descriptor).
    fn has_marks(&self, offset: u64, len: u64) -> bool;

    /// Makes a range unreadable until it is written: reads of it fail as those of a bad medium do.
    ///
    /// # Errors
    /// If the range is not all within the device, or there is no room for one range more
    /// ([`IoError::is_full`]).
    fn mark(&self, offset: u64, len: u64) -> Result<(), IoError>;
}

/// Which tags a device has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TagFormat {
    /// The guard of each block.
    pub guard: Guard,
    /// Bytes of a block.
    pub block_bytes: u32,
}

/// What the tags of a device have done since it was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TagCounts {
    /// Reads that were refused because of a block.
    pub refused: u64,
    /// Blocks that were served though they differ, each time.
    pub served: u64,
    /// Pages that were found lost.
    pub lost_pages: u64,
    /// Whether the tags are of other data, so that nothing is refused.
    pub stale: bool,
}

/// Work of its own that a device does while nobody else needs it.
pub trait Background: Send + Sync {
    /// Bytes that the next piece of work reads and writes, about; 0 if there is none.
    fn wanted(&self) -> u64;

    /// For how long no command has come, and none has ended.
    fn quiet(&self) -> Duration;

    /// Does a piece of work, of `most` bytes if it can be cut, and returns the bytes that it read
    /// and wrote. Commands wait meanwhile.
    ///
    /// # Errors
    /// If the medium fails.
    fn work(&self, most: u64) -> Result<u64, IoError>;
}

/// Tags beside the blocks of a device.
pub trait Tagged: Send + Sync {
    /// Which.
    fn format(&self) -> TagFormat;

    /// What they have done.
    fn counts(&self) -> TagCounts;

    /// Reads whole blocks, whatever their tags say, and what they say of each. Data and tags are of
    /// one version.
    ///
    /// # Errors
    /// If the range is not of whole blocks of the device, or the medium fails.
    fn read_judged(&self, offset: u64, buf: &mut [u8]) -> Result<Vec<Judged>, IoError>;

    /// Makes adopted tags of whole blocks vouched ones, and returns how many. No tuple changes.
    ///
    /// # Errors
    /// If the range is not of whole blocks of the device, or the tags cannot be written.
    fn vouch(&self, offset: u64, len: u64) -> Result<u64, IoError>;
}

impl dyn BlockDevice + '_ {
    /// The descriptor for direct I/O; `None` if reads must go through the device.
    #[must_use]
    pub fn direct_fd(&self) -> Option<DirectFd> {
        self.direct()?.descriptor()
    }

    /// Whether some of a range is marked as unreadable.
    #[must_use]
    pub fn has_marks(&self, offset: u64, len: u64) -> bool {
        self.marks().is_some_and(|marks| marks.has_marks(offset, len))
    }

    /// Makes a range unreadable until it is written.
    ///
    /// # Errors
    /// If the device has no marks, and as [`Marks::mark`].
    pub fn mark(&self, offset: u64, len: u64) -> Result<(), IoError> {
        if let Some(marks) = self.marks() {
            return marks.mark(offset, len);
        }
        let source = std::io::ErrorKind::Unsupported.into();
        let length = usize::try_from(len).unwrap_or(usize::MAX);
        Err(IoError::new(self.name(), Operation::Mark, offset, length, source))
    }
}

/// A device of fixed size, read and written by byte range.
///
/// Any offset and any length will do; what the medium wants to have aligned, the device aligns.
/// What only some devices can do is a capability, which a device has or has not: a wrapper names
/// each one that it passes on.
pub trait BlockDevice: Send + Sync {
    /// What an operator calls it.
    fn name(&self) -> &str;

    /// Bytes.
    fn size_bytes(&self) -> u64;

    /// Bytes of a block: what the medium writes all or nothing.
    fn logical_block(&self) -> u32;

    /// Whether writes are refused.
    fn read_only(&self) -> bool;

    /// What the medium likes to be asked for.
    fn grains(&self) -> Grains {
        Grains { write: self.logical_block(), discard: self.logical_block() }
    }

    /// Bytes that [`zero`](Self::zero) and [`discard`](Self::discard) are best asked for at a time,
    /// so that nothing else waits long: a power of two.
    fn clears_at_once(&self) -> u64 {
        PIECE
    }

    /// Why it has lost data or takes no more writes, where that is so: a medium that is not what it
    /// was. Looks, so it may take a system call.
    fn failing(&self) -> Option<String> {
        None
    }

    /// Whether reads and writes end at once, without waiting for a medium.
    fn is_immediate(&self) -> bool {
        false
    }

    /// The disks that it lies on, by name: devices that share one slow each other. Empty where
    /// there is none, or none is known.
    fn disks(&self) -> BTreeSet<String> {
        BTreeSet::new()
    }

    /// The device's whole content, where it lies in memory: reads need no copy. Nothing is written
    /// while it is held. What was made unreadable is in it too: ask its [`marks`](Self::marks).
    fn resident(&self) -> Option<RwLockReadGuard<'_, Vec<u8>>> {
        None
    }

    /// Direct I/O, if the device has it.
    fn direct(&self) -> Option<&dyn DirectIo> {
        None
    }

    /// Ranges that can be made unreadable, if the device has them.
    fn marks(&self) -> Option<&dyn Marks> {
        None
    }

    /// Tags beside its blocks, if the device has them.
    fn tagged(&self) -> Option<&dyn Tagged> {
        None
    }

    /// Work of its own, if it has any.
    fn background(&self) -> Option<&dyn Background> {
        None
    }

    /// Bytes of it that hold something, if it knows that and can say so at once.
    fn used_bytes(&self) -> Option<u64> {
        None
    }

    /// Reads `buf.len()` bytes at `offset`.
    ///
    /// # Errors
    /// If the range is not all within the device, or the medium fails.
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), IoError>;

    /// Writes `data` at `offset`. Durable after a [`flush`](Self::flush) that follows.
    ///
    /// # Errors
    /// If the device is read-only, the range is not all within it, or the medium fails.
    fn write_at(&self, offset: u64, data: &[u8]) -> Result<(), IoError>;

    /// Makes `len` bytes at `offset` zeros, and keeps room for them on the medium. Reads see zeros
    /// when it returns; they are durable after a [`flush`](Self::flush) that follows. After a crash
    /// before that, each logical block holds what it held, or zeros. No byte outside of the range
    /// changes.
    ///
    /// # Errors
    /// As [`write_at`](Self::write_at). Some of the range may be zeros then.
    fn zero(&self, offset: u64, len: u64) -> Result<(), IoError> {
        write_zeros(self, offset, len)
    }

    /// The same, and gives the range's room back where the medium can: whole [grains](Self::grains)
    /// of it. The range reads as zeros all the same.
    ///
    /// # Errors
    /// As [`zero`](Self::zero).
    fn discard(&self, offset: u64, len: u64) -> Result<(), IoError> {
        self.zero(offset, len)
    }

    /// Makes every completed write durable.
    ///
    /// # Errors
    /// If the medium cannot promise that.
    fn flush(&self) -> Result<(), IoError>;
}
