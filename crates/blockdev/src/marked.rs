//! A device with ranges that were made unreadable on purpose, until they are written.
//!
//! A mark takes sixteen bytes per range, in memory and, if a file was given, in that file. A mark
//! is durable before [`mark`](Marks::mark) returns, and is removed only when the data written over
//! it is durable. Without marks, a read or write costs one additional comparison.

mod file;
mod ranges;
mod tags;

use crate::error::Operation;
use crate::{
    Background, BlockDevice, DirectIo, DirectRequest, FlashCounts, Grains, IoError, Marks, Step, Stepped,
    SteppedCommand, Tagged,
};
pub use file::MarksError;
use file::MarksFile;
use ranges::Ranges;
use std::collections::BTreeSet;
use std::io::{self, ErrorKind};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard};

/// Most ranges of a device.
pub const MAX_MARKS: usize = 4096;

/// A device whose ranges can be marked.
pub struct MarkedDevice {
    inner: Arc<dyn BlockDevice>,
    /// Bytes that are marked and cleared as one.
    block: u64,
    /// True if there is any mark.
    any: AtomicBool,
    marks: RwLock<Ranges>,
    /// One change of the marks at a time, with its file.
    change: Mutex<Option<MarksFile>>,
}

impl MarkedDevice {
    /// A device whose marks live as long as it does.
    #[must_use]
    pub fn in_memory(inner: Arc<dyn BlockDevice>, block: u32) -> Self {
        Self::with(inner, block, Ranges::default(), None)
    }

    /// A device whose marks are kept in a file, which is made with the first of them.
    ///
    /// # Errors
    /// If the file is there and cannot be read, or is no file of marks.
    pub fn with_file(inner: Arc<dyn BlockDevice>, block: u32, path: &Path) -> Result<Self, MarksError> {
        let file = MarksFile::at(path)?;
        let marks = file.load()?;
        Ok(Self::with(inner, block, marks, Some(file)))
    }

    fn with(inner: Arc<dyn BlockDevice>, block: u32, marks: Ranges, file: Option<MarksFile>) -> Self {
        Self {
            inner,
            block: u64::from(block),
            any: AtomicBool::new(!marks.is_empty()),
            marks: RwLock::new(marks),
            change: Mutex::new(file),
        }
    }

    fn ranges(&self) -> Ranges {
        self.marks.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn refuse_marked(&self, offset: u64, len: usize) -> Result<(), IoError> {
        if self.has_marks(offset, len as u64) {
            let source = io::Error::from_raw_os_error(libc::EIO);
            return Err(IoError::new(self.name(), Operation::Read, offset, len, source));
        }
        Ok(())
    }

    /// The tags of the device beneath, which has some if anybody asks for them here.
    fn tags(&self) -> &dyn Tagged {
        self.inner.tagged().expect("the device beneath has tags")
    }

    /// The steps of the device beneath, which has some if anybody asks for them here.
    fn steps_beneath(&self) -> &dyn Stepped {
        self.inner.stepped().expect("the device beneath has steps")
    }

    /// Puts changed marks in force, first in the file.
    fn commit(&self, file: Option<&MarksFile>, marks: Ranges) -> io::Result<()> {
        if marks.len() > MAX_MARKS {
            return Err(io::Error::new(ErrorKind::StorageFull, "no room for more unreadable ranges"));
        }
        if let Some(file) = file {
            // Not told as it is: that the folder of the file has no room says nothing of the
            // device's.
            file.store(&marks)
                .map_err(|error| io::Error::other(format!("{}: {error}", file.path().display())))?;
        }
        let any = !marks.is_empty();
        let mut shared = self.marks.write().unwrap_or_else(PoisonError::into_inner);
        *shared = marks;
        // Release: who sees a mark here sees it in the list.
        self.any.store(any, Ordering::Release);
        Ok(())
    }

    /// Calls `write`, and then removes the marks of the range.
    fn over_marks(
        &self,
        operation: Operation,
        offset: u64,
        len: u64,
        write: impl FnOnce() -> Result<(), IoError>,
    ) -> Result<(), IoError> {
        if self.has_marks(offset, len) {
            return self.write_over(operation, offset, len, write);
        }
        write()
    }

    /// Writes over marks, as `write` does: the data first, and when they are durable, the marks go.
    fn write_over(
        &self,
        operation: Operation,
        offset: u64,
        len: u64,
        write: impl FnOnce() -> Result<(), IoError>,
    ) -> Result<(), IoError> {
        let length = usize::try_from(len).unwrap_or(usize::MAX);
        let fail = |error| IoError::new(self.name(), operation, offset, length, error);
        let file = self.change.lock().unwrap_or_else(PoisonError::into_inner);
        let before = self.ranges();
        let mut after = before.clone();
        // Only a block that is written whole becomes readable.
        let end = offset.saturating_add(len);
        after.remove(offset.next_multiple_of(self.block), end - end % self.block);
        if after == before {
            drop(file);
            return write();
        }
        if after.len() > MAX_MARKS {
            // A hole in a range makes two of it.
            return Err(fail(ErrorKind::StorageFull.into()));
        }
        write()?;
        if file.is_some() {
            self.inner.flush()?;
        }
        self.commit(file.as_ref(), after).map_err(fail)
    }
}

/// A write over marks is not carried in steps.
impl Stepped for MarkedDevice {
    fn join(&self, wake: Arc<dyn Fn() + Send + Sync>) -> Option<usize> {
        self.steps_beneath().join(wake)
    }

    fn begin(&self, user: usize, token: u64, command: SteppedCommand) -> Result<(), SteppedCommand> {
        match &command {
            SteppedCommand::Write { offset, data, .. } if self.has_marks(*offset, data.len() as u64) => {
                Err(command)
            }
            _ => self.steps_beneath().begin(user, token, command),
        }
    }

    fn steps(&self, user: usize, steps: &mut Vec<Step>) {
        self.steps_beneath().steps(user, steps);
    }

    fn carried(&self, user: usize, step: u64, request: DirectRequest, result: Result<(), IoError>) {
        self.steps_beneath().carried(user, step, request, result);
    }

    fn aside(&self, user: usize, step: u64) {
        self.steps_beneath().aside(user, step);
    }

    fn is_busy(&self, user: usize) -> bool {
        self.steps_beneath().is_busy(user)
    }

    fn leave(&self, user: usize) {
        self.steps_beneath().leave(user);
    }
}

impl BlockDevice for MarkedDevice {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn size_bytes(&self) -> u64 {
        self.inner.size_bytes()
    }

    fn logical_block(&self) -> u32 {
        self.inner.logical_block()
    }

    fn atomic_unit(&self) -> u32 {
        self.inner.atomic_unit()
    }

    fn read_only(&self) -> bool {
        self.inner.read_only()
    }

    fn disks(&self) -> BTreeSet<String> {
        self.inner.disks()
    }

    fn is_immediate(&self) -> bool {
        self.inner.is_immediate()
    }

    fn resident(&self) -> Option<RwLockReadGuard<'_, Vec<u8>>> {
        self.inner.resident()
    }

    fn check_resident(&self, offset: u64, len: u64) -> Result<(), IoError> {
        self.refuse_marked(offset, len as usize)?;
        self.inner.check_resident(offset, len)
    }

    fn prepare(&self, offset: u64, len: u64) {
        self.inner.prepare(offset, len);
    }

    fn direct(&self) -> Option<&dyn DirectIo> {
        self.inner.direct()
    }

    fn stepped(&self) -> Option<&dyn Stepped> {
        self.inner.stepped().map(|_| self as &dyn Stepped)
    }

    fn marks(&self) -> Option<&dyn Marks> {
        Some(self)
    }

    fn tagged(&self) -> Option<&dyn Tagged> {
        self.inner.tagged().map(|_| self as &dyn Tagged)
    }

    fn grains(&self) -> Grains {
        self.inner.grains()
    }

    fn clears_at_once(&self) -> u64 {
        self.inner.clears_at_once()
    }

    fn failing(&self) -> Option<String> {
        self.inner.failing()
    }

    fn background(&self) -> Option<&dyn Background> {
        self.inner.background()
    }

    fn used_bytes(&self) -> Option<u64> {
        self.inner.used_bytes()
    }

    fn flash_counts(&self) -> Option<FlashCounts> {
        self.inner.flash_counts()
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), IoError> {
        self.refuse_marked(offset, buf.len())?;
        self.inner.read_at(offset, buf)
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> Result<(), IoError> {
        let write = || self.inner.write_at(offset, data);
        self.over_marks(Operation::Write, offset, data.len() as u64, write)
    }

    fn zero(&self, offset: u64, len: u64) -> Result<(), IoError> {
        self.over_marks(Operation::Zero, offset, len, || self.inner.zero(offset, len))
    }

    fn discard(&self, offset: u64, len: u64) -> Result<(), IoError> {
        self.over_marks(Operation::Discard, offset, len, || self.inner.discard(offset, len))
    }

    fn flush(&self) -> Result<(), IoError> {
        self.inner.flush()
    }
}

impl Marks for MarkedDevice {
    fn has_marks(&self, offset: u64, len: u64) -> bool {
        self.any.load(Ordering::Acquire)
            && self.marks.read().unwrap_or_else(PoisonError::into_inner).touches(offset, len)
    }

    fn mark(&self, offset: u64, len: u64) -> Result<(), IoError> {
        let length = usize::try_from(len).unwrap_or(usize::MAX);
        let fail = |error| IoError::new(self.name(), Operation::Mark, offset, length, error);
        let end = offset.checked_add(len).filter(|end| *end <= self.size_bytes());
        let end = end.ok_or_else(|| fail(ErrorKind::InvalidInput.into()))?;
        if self.read_only() {
            return Err(fail(ErrorKind::ReadOnlyFilesystem.into()));
        }
        let file = self.change.lock().unwrap_or_else(PoisonError::into_inner);
        let mut marks = self.ranges();
        // A block is readable or not as a whole.
        marks.insert(offset - offset % self.block, end.next_multiple_of(self.block));
        self.commit(file.as_ref(), marks).map_err(fail)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MemoryDevice;
    use proptest::prelude::*;

    const SIZE: u64 = 64 * 512;

    fn medium() -> Arc<dyn BlockDevice> {
        Arc::new(MemoryDevice::with_content("m", vec![7; SIZE as usize]))
    }

    fn block(at: u64) -> u64 {
        at * 512
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

        /// As a model of one flag a block says; and after every change the file says the same.
        #[test]
        fn marks_are_what_was_marked_and_not_written_since(
            steps in proptest::collection::vec((0..64_u64, 1..20_u64, any::<bool>()), 1..24),
        ) {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("marks");
            let inner = medium();
            let mut model = [false; 64];
            for (first, blocks, mark) in steps {
                let device = MarkedDevice::with_file(Arc::clone(&inner), 512, &path).unwrap();
                let blocks = blocks.min(64 - first);
                let (offset, len) = (block(first), block(blocks));
                if mark {
                    device.mark(offset, len).unwrap();
                } else {
                    device.write_at(offset, &vec![1; len as usize]).unwrap();
                }
                model[first as usize..(first + blocks) as usize].fill(mark);
                for (i, bad) in model.iter().enumerate() {
                    let read = device.read_at(block(i as u64), &mut [0; 512]);
                    prop_assert_eq!(read.is_err(), *bad, "block {}", i);
                    if let Err(error) = read {
                        prop_assert!(error.is_media_error());
                    }
                }
                prop_assert_eq!(device.read_at(0, &mut vec![0; SIZE as usize]).is_err(), model.contains(&true));
            }
        }
    }

    #[test]
    fn a_block_that_is_written_in_part_stays_unreadable() {
        let device = MarkedDevice::in_memory(medium(), 4096);
        // Half a block makes a whole one unreadable.
        device.mark(4096, 512).unwrap();
        assert!(device.read_at(8191, &mut [0]).is_err());
        device.write_at(4096, &[1; 4095]).unwrap();
        device.write_at(4097, &[1; 4095]).unwrap();
        assert!(device.read_at(4096, &mut [0; 512]).is_err());
        device.write_at(4000, &[1; 4192]).unwrap();
        device.read_at(4096, &mut [0; 512]).unwrap();
        assert!(!device.mark(SIZE - 512, 1024).unwrap_err().is_full());
    }

    #[test]
    fn marks_are_bounded() {
        let size = (MAX_MARKS as u64 * 2 + 8) * 512;
        let inner = Arc::new(MemoryDevice::with_content("m", vec![0; size as usize]));
        let device = MarkedDevice::in_memory(inner, 512);
        for i in 0..MAX_MARKS as u64 - 1 {
            device.mark(block(i * 2), 512).unwrap();
        }
        let last = MAX_MARKS as u64 * 2;
        device.mark(block(last), block(3)).unwrap();
        assert!(device.mark(block(last + 5), 512).unwrap_err().is_full());
        // A hole would make one more; the whole of it makes one less.
        assert!(device.write_at(block(last + 1), &[0; 512]).unwrap_err().is_full());
        device.write_at(block(last), &[0; 1536]).unwrap();
        device.mark(block(last + 5), 512).unwrap();
        // Neighbours are one range.
        device.mark(block(last + 4), 512).unwrap();
    }

    #[test]
    fn marks_that_cannot_be_kept_are_not_made() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("later").join("marks");
        let device = MarkedDevice::with_file(medium(), 512, &path).unwrap();
        assert!(!path.exists(), "the file comes with the first mark");
        device.mark(0, 512).unwrap();
        assert!(path.exists());
        // Where the file was is a folder now: it cannot be replaced.
        std::fs::remove_file(&path).unwrap();
        std::fs::create_dir(&path).unwrap();
        assert!(device.mark(512, 512).is_err());
        device.read_at(512, &mut [0; 512]).unwrap();
        assert!(device.write_at(0, &[1; 512]).is_err());
        assert!(device.read_at(0, &mut [0; 512]).is_err(), "what is kept is what is in force");
        assert!(MarkedDevice::with_file(medium(), 512, &path).is_err());
    }

    #[test]
    fn a_full_state_folder_is_no_full_drive_and_leaves_no_file_behind() {
        let store = Arc::new(pumice_base::durable::FaultyStore::new(1));
        let file = MarksFile::of(Arc::clone(&store) as _, "device.marks");
        let device = MarkedDevice::with(medium(), 512, Ranges::default(), Some(file));
        device.mark(0, 512).unwrap();
        store.set_free_bytes(Some(8));
        let tries: [&dyn Fn() -> Result<(), IoError>; 3] =
            [&|| device.mark(1024, 512), &|| device.write_at(0, &[1; 512]), &|| device.discard(0, 512)];
        for attempt in tries {
            let error = attempt().unwrap_err();
            assert!(!error.is_full() && error.to_string().contains("device.marks"), "{error}");
            let names = pumice_base::durable::Store::names(&*store).unwrap();
            assert_eq!(names, ["device.marks"], "the new file is removed");
        }
        assert!(device.read_at(0, &mut [0; 512]).is_err(), "what is kept is what is in force");
        device.read_at(1024, &mut [0; 512]).unwrap();
    }

    #[test]
    fn blocks_that_are_zeroed_or_discarded_whole_become_readable() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("marks");
        let inner = medium();
        let device = MarkedDevice::with_file(Arc::clone(&inner), 512, &path).unwrap();
        device.mark(block(0), block(8)).unwrap();
        device.zero(block(1), block(1)).unwrap();
        // The third block in part only.
        device.discard(block(2) + 1, block(2)).unwrap();
        let again = MarkedDevice::with_file(inner, 512, &path).unwrap();
        for device in [&device, &again] {
            for (at, readable) in
                [false, true, false, true, false, false, false, false].into_iter().enumerate()
            {
                let mut content = [1; 512];
                let read = device.read_at(block(at as u64), &mut content);
                assert_eq!(read.is_ok(), readable, "block {at}");
                assert!(!readable || content == [0; 512]);
            }
        }
    }
}
