//! The traits of block devices.

use crate::IoError;
use crate::error::Operation;
use crate::flash_counts::FlashCounts;
use crate::lossy::Lossy;
use crate::tags::Tagged;
use pumice_base::buffer::{AlignedBuffer, SharedBuffer};
use std::collections::BTreeSet;
use std::os::fd::RawFd;
use std::sync::{Arc, RwLockReadGuard};
use std::time::Duration;

/// A file descriptor that takes direct I/O.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DirectFd {
    /// The descriptor; open while the device lives.
    pub fd: RawFd,
    /// Offsets and lengths must be multiples of this. Memory must begin on a page.
    pub grain: u32,
}

/// The preferred units of a medium, in bytes: powers of two, no smaller than its logical block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Grains {
    /// Smaller writes are read, changed and written back.
    pub write: u32,
    /// The unit of released space: only whole, aligned grains of a discarded range are released.
    pub discard: u32,
}

/// Bytes of zeros written at a time.
pub(crate) const PIECE: u64 = 1 << 20;

/// Zeroes a range by writing zeros.
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

/// Reads and writes that bypass the device and use its descriptor: the medium transfers them by
/// DMA.
pub trait DirectIo: Send + Sync {
    /// The descriptor; `None` while reads must go through the device.
    fn descriptor(&self) -> Option<DirectFd>;

    /// Begins a write of whole grains to the descriptor: until
    /// [`end_whole_write`](Self::end_whole_write), parts of a grain, which are read, changed and
    /// written back, have to wait. `end` is the first byte behind the write. Returns false without
    /// beginning a write if such a part is under way or waits, or if the device fails all writes:
    /// then [`BlockDevice::write_at`] waits, or returns the error.
    fn begin_whole_write(&self, end: u64) -> bool;

    /// Ends what [`begin_whole_write`](Self::begin_whole_write) began.
    fn end_whole_write(&self);
}

/// The operation of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DirectOperation {
    /// Reads.
    Read,
    /// Writes.
    Write {
        /// The data is on the medium before it completes.
        durable: bool,
    },
    /// Makes every completed write durable.
    Flush,
}

/// The memory of a request.
#[derive(Debug)]
pub enum DirectMemory {
    /// Of a flush.
    None,
    /// Room for what is read.
    Room(AlignedBuffer),
    /// The data to write.
    Bytes(SharedBuffer),
}

/// A request for a device.
pub struct DirectRequest {
    /// The device.
    pub device: Arc<dyn BlockDevice>,
    /// The operation.
    pub operation: DirectOperation,
    /// First byte.
    pub offset: u64,
    /// Bytes: no more than the memory has.
    pub len: usize,
    /// The data of a write, or room for those of a read.
    pub memory: DirectMemory,
}

/// A command of a [`Stepped`] device.
#[derive(Debug)]
pub enum SteppedCommand {
    /// Writes.
    Write {
        /// First byte.
        offset: u64,
        /// The data to write.
        data: SharedBuffer,
        /// The data is on the medium before it completes.
        durable: bool,
    },
    /// Makes every completed write durable.
    Flush,
}

/// Next task of the user of a [`Stepped`] device.
pub enum Step {
    /// Have the kernel carry a request, or carry it out by a thread; then [`Stepped::carried`] with
    /// this number.
    Carry(u64, DirectRequest),
    /// Have a thread call [`Stepped::aside`] with this number: it waits for media.
    Aside(u64),
    /// A command has ended.
    Done {
        /// The caller's identifier of the command.
        token: u64,
        /// The outcome.
        result: Result<(), IoError>,
    },
}

/// A device whose writes are requests that depend on one another. Its users carry these without
/// waiting for them.
pub trait Stepped: Send + Sync {
    /// Adds a user. `wake` is called, by any thread, when there are [steps](Self::steps) for it
    /// that none of its own calls has caused. `None` if there are too many.
    fn join(&self, wake: Arc<dyn Fn() + Send + Sync>) -> Option<usize>;

    /// Begins a command.
    ///
    /// # Errors
    /// Returns a command that is not for this way: [`BlockDevice::write_at`] is, or says why not.
    fn begin(&self, user: usize, token: u64, command: SteppedCommand) -> Result<(), SteppedCommand>;

    /// Adds what the user is to do now.
    fn steps(&self, user: usize, steps: &mut Vec<Step>);

    /// A request has ended.
    fn carried(&self, user: usize, step: u64, request: DirectRequest, result: Result<(), IoError>);

    /// Carries out a step that waits for media.
    fn aside(&self, user: usize, step: u64);

    /// Returns whether a command, or another step, of the user is under way.
    fn is_busy(&self, user: usize) -> bool;

    /// Removes a user, none of whose commands is under way. Others do what it had to do for all.
    fn leave(&self, user: usize);
}

/// Ranges that are made unreadable on purpose, until they are written.
pub trait Marks: Send + Sync {
    /// Returns whether part of a range is marked: then reads must not bypass the device and use its
    /// [descriptor](DirectIo::descriptor).
    fn has_marks(&self, offset: u64, len: u64) -> bool;

    /// Makes a range unreadable until it is written: reads of it fail as those of a bad medium do.
    ///
    /// # Errors
    /// If part of the range is outside the device, or there is no room for another range
    /// ([`IoError::is_full`]).
    fn mark(&self, offset: u64, len: u64) -> Result<(), IoError>;
}

/// Internal work that a device does while it is otherwise idle.
pub trait Background: Send + Sync {
    /// Approximate bytes that the next piece of work reads and writes; 0 if there is none.
    fn wanted(&self) -> u64;

    /// Time since the last command arrived or ended.
    fn quiet(&self) -> Duration;

    /// Does a piece of work, of at most `most` bytes if it can be divided, and returns the bytes
    /// that it read and wrote. Commands wait meanwhile.
    ///
    /// # Errors
    /// If the medium fails.
    fn work(&self, most: u64) -> Result<u64, IoError>;
}

impl dyn BlockDevice + '_ {
    /// The descriptor for direct I/O; `None` if reads must go through the device.
    #[must_use]
    pub fn direct_fd(&self) -> Option<DirectFd> {
        self.direct()?.descriptor()
    }

    /// Returns whether some of a range is marked as unreadable.
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
/// Any offset and any length are allowed; the device aligns requests as its medium needs. Features
/// of some devices are capabilities; a wrapper names each capability that it passes on.
pub trait BlockDevice: Send + Sync {
    /// Its name for operators.
    fn name(&self) -> &str;

    /// Bytes.
    fn size_bytes(&self) -> u64;

    /// Bytes of a block: the least that the medium writes, and it writes that atomically.
    fn logical_block(&self) -> u32;

    /// Bytes that a power cut leaves old or new, and never mixed, if they begin at a multiple of
    /// this: as far as that is known.
    fn atomic_unit(&self) -> u32 {
        self.logical_block()
    }

    /// Returns whether writes are refused.
    fn read_only(&self) -> bool;

    /// The preferred units of the medium.
    fn grains(&self) -> Grains {
        Grains { write: self.logical_block(), discard: self.logical_block() }
    }

    /// Bytes that [`zero`](Self::zero) and [`discard`](Self::discard) should be given at a time, so
    /// that other requests do not wait long: a power of two.
    fn clears_at_once(&self) -> u64 {
        PIECE
    }

    /// The reason why it has lost data or fails all writes, if so, for example because the file was
    /// changed. It checks the medium, so it may make a system call.
    fn failing(&self) -> Option<String> {
        None
    }

    /// Returns whether reads and writes end at once, without waiting for a medium.
    fn is_immediate(&self) -> bool {
        false
    }

    /// The names of the disks below it: devices that share a disk slow each other. Empty if there
    /// is none, or none is known.
    fn disks(&self) -> BTreeSet<String> {
        BTreeSet::new()
    }

    /// The whole contents of the device, if they are in memory, so that reads need no copy. Nothing
    /// is written while the guard is held. Ranges that were made unreadable are included: check
    /// [`marks`](Self::marks).
    fn resident(&self) -> Option<RwLockReadGuard<'_, Vec<u8>>> {
        None
    }

    /// Checks a range of [`resident`](Self::resident) memory that is about to be sent from there,
    /// as [`read_at`](Self::read_at) would.
    ///
    /// # Errors
    /// As [`read_at`](Self::read_at), if a block differs from its tag.
    fn check_resident(&self, _offset: u64, _len: u64) -> Result<(), IoError> {
        Ok(())
    }

    /// A range will be read or written soon: its memory may be brought nearer meanwhile. Nothing
    /// happens if the range is not on the device.
    fn prepare(&self, _offset: u64, _len: u64) {}

    /// Direct I/O, if the device has it.
    fn direct(&self) -> Option<&dyn DirectIo> {
        None
    }

    /// Its writes in steps, if it has them.
    fn stepped(&self) -> Option<&dyn Stepped> {
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

    /// That it may lose what it has answered, if it may and goes on.
    fn lossy(&self) -> Option<&dyn Lossy> {
        None
    }

    /// Its internal work, if it has any.
    fn background(&self) -> Option<&dyn Background> {
        None
    }

    /// Bytes in use, if the device knows them without delay.
    fn used_bytes(&self) -> Option<u64> {
        None
    }

    /// Counters and content of its flash translation layer, if it has one. Never waits for a
    /// command.
    fn flash_counts(&self) -> Option<FlashCounts> {
        None
    }

    /// Reads `buf.len()` bytes at `offset`.
    ///
    /// # Errors
    /// If part of the range is outside the device, or the medium fails.
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), IoError>;

    /// [`read_at`](Self::read_at) of bytes that the device may have in memory already, so that it
    /// need not copy them. They keep no more memory than whole pages of `len` bytes.
    ///
    /// # Errors
    /// As [`read_at`](Self::read_at).
    ///
    /// # Panics
    /// If `len` is zero.
    fn read_shared(&self, offset: u64, len: usize) -> Result<SharedBuffer, IoError> {
        let mut buffer = AlignedBuffer::new(len);
        self.read_at(offset, &mut buffer[..len])?;
        Ok(SharedBuffer::new(buffer, len))
    }

    /// Writes `data` at `offset`. Durable after a subsequent [`flush`](Self::flush).
    ///
    /// # Errors
    /// If the device is read-only, part of the range is outside it, or the medium fails.
    fn write_at(&self, offset: u64, data: &[u8]) -> Result<(), IoError>;

    /// [`write_at`](Self::write_at) of bytes that the device may keep, so that it need not copy
    /// them.
    ///
    /// # Errors
    /// As [`write_at`](Self::write_at).
    fn write_shared(&self, offset: u64, data: &SharedBuffer) -> Result<(), IoError> {
        self.write_at(offset, data)
    }

    /// Writes `data` at `offset` in the way that returns soonest: the data need not have reached
    /// the medium, but they outlive this process.
    ///
    /// # Errors
    /// As [`write_at`](Self::write_at).
    fn write_soon(&self, offset: u64, data: &[u8]) -> Result<(), IoError> {
        self.write_at(offset, data)
    }

    /// Fills `buf` from `offset` if all of that is in memory and it need not wait for the medium;
    /// else says false, and `buf` holds anything.
    fn read_cached(&self, _offset: u64, _buf: &mut [u8]) -> bool {
        false
    }

    /// Begins to bring to the medium what [`write_soon`](Self::write_soon) wrote to a range; with
    /// `wait`, returns when that has been done. A [`flush`](Self::flush) has less to do then, and
    /// is needed all the same.
    ///
    /// # Errors
    /// If the medium fails: what was written to the range, and not flushed, is perhaps lost.
    fn write_back(&self, _offset: u64, _len: u64, _wait: bool) -> Result<(), IoError> {
        Ok(())
    }

    /// Zeroes `len` bytes at `offset`, and keeps their space on the medium. Reads see zeros when it
    /// returns; they are durable after a subsequent [`flush`](Self::flush). After a crash before
    /// that, each logical block has its old contents or zeros. No byte outside the range changes.
    ///
    /// # Errors
    /// As [`write_at`](Self::write_at). Then part of the range may be zeros.
    fn zero(&self, offset: u64, len: u64) -> Result<(), IoError> {
        write_zeros(self, offset, len)
    }

    /// The same, and releases the space of whole [grains](Self::grains) of the range, if the medium
    /// can. The range reads as zeros in any case.
    ///
    /// # Errors
    /// As [`zero`](Self::zero).
    fn discard(&self, offset: u64, len: u64) -> Result<(), IoError> {
        self.zero(offset, len)
    }

    /// Makes every completed write durable.
    ///
    /// # Errors
    /// If the medium cannot guarantee that.
    fn flush(&self) -> Result<(), IoError>;
}
