//! Single reads, writes and flushes past the page cache: many at a time, from one thread that never
//! waits for them.
//!
//! ```text
//! submit ─▶ in the ring ─ enter ─▶ with the kernel ─▶ completed: as wanted
//!    └▶ given back: not for this way                      ├─────▶ completed: not so; done again by another way, that says what is wrong
//!                                                         └─────▶ completed: failed for good, if it was to make data durable
//! ```

#![expect(unsafe_code, reason = "the kernel is handed pointers to buffers")]

use crate::device::{DirectFd, DirectMemory, DirectOperation, DirectRequest};
use crate::ring::{drain, is_passing};
use crate::{DirectIo, IoError, Operation};
use io_uring::{IoUring, opcode, types};
use std::io;
use std::os::fd::{AsRawFd, RawFd};

impl DirectMemory {
    /// Its first byte, where it begins on a border for direct I/O and has `len` bytes.
    fn start(&self, len: usize) -> Option<*mut u8> {
        match self {
            Self::None => None,
            Self::Room(buffer) => (len <= buffer.len()).then(|| buffer.start().as_ptr()),
            Self::Bytes(bytes) => (len <= bytes.len() && bytes.is_aligned()).then(|| bytes.start().as_ptr()),
        }
    }
}

impl DirectRequest {
    /// Does it without the kernel's queue, and waits for it.
    ///
    /// # Errors
    /// As the device.
    ///
    /// # Panics
    /// If the memory is not of the kind that the operation needs.
    pub fn carry_out(&mut self) -> Result<(), IoError> {
        match (self.operation, &mut self.memory) {
            (DirectOperation::Read, DirectMemory::Room(room)) => {
                self.device.read_at(self.offset, &mut room[..self.len])
            }
            (DirectOperation::Write { durable }, DirectMemory::Bytes(bytes)) => {
                self.device.write_shared(self.offset, &bytes.part(0..self.len))?;
                if durable { self.device.flush() } else { Ok(()) }
            }
            (DirectOperation::Flush, _) => self.device.flush(),
            (operation, _) => panic!("{operation:?} without its memory"),
        }
    }

    /// The descriptor to use, if direct I/O is possible.
    fn target(&self) -> Option<DirectFd> {
        let target = self.device.direct_fd()?;
        let grain = u64::from(target.grain);
        if self.operation == DirectOperation::Flush {
            return (!self.device.read_only()).then_some(target);
        }
        let end = self.offset.checked_add(self.len as u64).filter(|end| *end <= self.device.size_bytes())?;
        let fits = self.len > 0
            && u32::try_from(self.len).is_ok_and(|len| i32::try_from(len).is_ok())
            && self.has_memory()
            && self.offset.is_multiple_of(grain)
            && end.is_multiple_of(grain);
        let writes = matches!(self.operation, DirectOperation::Write { .. });
        if !fits || writes && self.device.read_only() || self.device.has_marks(self.offset, self.len as u64) {
            return None;
        }
        Some(target)
    }

    /// Returns whether the memory is of the kind, the size and on the border that the operation
    /// wants.
    fn has_memory(&self) -> bool {
        let reads = self.operation == DirectOperation::Read;
        reads == matches!(self.memory, DirectMemory::Room(_)) && self.memory.start(self.len).is_some()
    }

    /// The kernel is done with it.
    fn ended(&self) {
        if let Some(direct) = self.writes() {
            direct.end_whole_write();
        }
    }

    /// The direct I/O of its device, if it writes.
    fn writes(&self) -> Option<&dyn DirectIo> {
        self.device.direct().filter(|_| matches!(self.operation, DirectOperation::Write { .. }))
    }
}

/// The outcome of a request from the kernel.
#[derive(Debug)]
pub enum DirectEnd {
    /// Complete.
    Done,
    /// Failed or partial: its result must not be used. Repeat it in another way, which reports the
    /// error.
    Again,
    /// Data that was to be made durable may be lost. The kernel reports this once: a repeated flush
    /// may succeed, because the data that could not be written is already dropped.
    Failed(IoError),
}

impl DirectEnd {
    /// From the result of the kernel, which is negative for an error.
    fn of(request: &DirectRequest, result: i32) -> Self {
        let flushes = match request.operation {
            DirectOperation::Flush => true,
            DirectOperation::Write { durable } => durable,
            DirectOperation::Read => false,
        };
        let wanted = if request.operation == DirectOperation::Flush { 0 } else { request.len as i32 };
        // These say that it was not tried.
        let untried =
            [libc::EAGAIN, libc::EINTR, libc::EINVAL, libc::EOPNOTSUPP, libc::ENOSYS, libc::ECANCELED];
        if result == wanted {
            Self::Done
        } else if result < 0 && flushes && !untried.contains(&-result) {
            let operation = match request.operation {
                DirectOperation::Flush => Operation::Flush,
                _ => Operation::Write,
            };
            let source = io::Error::from_raw_os_error(-result);
            let length = if operation == Operation::Flush { 0 } else { request.len };
            Self::Failed(IoError::new(request.device.name(), operation, request.offset, length, source))
        } else {
            Self::Again
        }
    }
}

struct Flight<T> {
    request: DirectRequest,
    token: T,
}

/// A ring of requests. `T` is the caller's identifier of a request.
pub struct DirectQueue<T> {
    ring: IoUring,
    /// Requests with the kernel, by the number in their entry; a place is free when it is `None`.
    flights: Vec<Option<Flight<T>>>,
    free: Vec<usize>,
    /// Pushed but not yet submitted to the kernel.
    pushed: usize,
}

impl<T> DirectQueue<T> {
    /// A queue for `depth` requests at a time.
    ///
    /// # Errors
    /// If the system has no io_uring, or refuses it.
    pub fn new(requests: u32) -> io::Result<Self> {
        let ring = IoUring::new(requests.clamp(1, 4096))?;
        let places = ring.params().sq_entries() as usize;
        let flights = (0..places).map(|_| None).collect();
        Ok(Self { ring, flights, free: (0..places).rev().collect(), pushed: 0 })
    }

    /// Accepts a request; the next [`enter`](Self::enter) submits it to the kernel.
    ///
    /// # Errors
    /// Returns the request if direct I/O is impossible: the device has none, the range is not
    /// aligned or touches an unreadable range, part of a block is being written, or the queue is
    /// full.
    pub fn submit(&mut self, request: DirectRequest, token: T) -> Result<(), (DirectRequest, T)> {
        let Some(target) = request.target() else { return Err((request, token)) };
        let Some(number) = self.free.last().copied() else { return Err((request, token)) };
        let end = request.offset + request.len as u64;
        if request.writes().is_some_and(|direct| !direct.begin_whole_write(end)) {
            return Err((request, token));
        }
        let fd = types::Fd(target.fd);
        let start = request.memory.start(request.len).unwrap_or(std::ptr::null_mut());
        let len = request.len as u32;
        let entry = match request.operation {
            DirectOperation::Read => opcode::Read::new(fd, start, len).offset(request.offset).build(),
            DirectOperation::Write { durable } => opcode::Write::new(fd, start, len)
                .offset(request.offset)
                .rw_flags(if durable { libc::RWF_DSYNC } else { 0 })
                .build(),
            DirectOperation::Flush => opcode::Fsync::new(fd).flags(types::FsyncFlags::DATASYNC).build(),
        };
        // SAFETY: `target` checked that `len` bytes lie within the memory, which stays where it is
        // while its owner lives. From here on that is in `self.flights`, lent to nobody, and leaves
        // it only in `completed`, when the kernel has said that it is done with the entry; if the
        // queue goes first, `Drop` waits for that, or leaks it. `target` checked too that the
        // kernel writes only room, which has this one owner: bytes may have others, who read them
        // as the kernel does. The descriptor is open while the device lives, and the flight holds
        // the device.
        let pushed = unsafe { self.ring.submission().push(&entry.user_data(number as u64)) };
        if pushed.is_err() {
            request.ended();
            return Err((request, token));
        }
        self.free.pop();
        self.flights[number] = Some(Flight { request, token });
        self.pushed += 1;
        Ok(())
    }

    /// Submits the accepted requests to the kernel. Does not wait.
    pub fn enter(&mut self) {
        while self.pushed > 0 {
            match self.ring.submit() {
                Ok(taken) => self.pushed -= taken.min(self.pushed),
                Err(error) if error.raw_os_error() == Some(libc::EINTR) => {}
                // The caller comes again.
                Err(error) if is_passing(&error) => return,
                Err(error) => unreachable!("io_uring_enter with valid arguments: {error}"),
            }
        }
    }

    /// Returns whether it takes no more requests before one has ended.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.free.is_empty()
    }

    /// Returns whether requests are with the kernel, or on their way.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        self.free.len() < self.flights.len()
    }

    /// Submits what was accepted, and waits until a request has ended. Returns at once if none is
    /// under way.
    pub fn wait(&mut self) {
        while self.is_busy() && self.ring.completion().is_empty() {
            match self.ring.submit_and_wait(1) {
                Ok(taken) => self.pushed -= taken.min(self.pushed),
                Err(error) if is_passing(&error) => {}
                Err(error) => unreachable!("io_uring_enter with valid arguments: {error}"),
            }
        }
    }

    /// Returns whether an accepted request was not yet submitted to the kernel.
    #[must_use]
    pub fn must_enter(&self) -> bool {
        self.pushed > 0
    }

    /// A request that the kernel has ended, with its outcome.
    pub fn completed(&mut self) -> Option<(DirectRequest, T, DirectEnd)> {
        let entry = self.ring.completion().next()?;
        let number = entry.user_data() as usize;
        let Flight { request, token } =
            self.flights[number].take().expect("the kernel completes what it was given");
        self.free.push(number);
        request.ended();
        let ended = DirectEnd::of(&request, entry.result());
        Some((request, token, ended))
    }
}

impl<T> AsRawFd for DirectQueue<T> {
    /// Readable when requests are done.
    fn as_raw_fd(&self) -> RawFd {
        self.ring.as_raw_fd()
    }
}

impl<T> Drop for DirectQueue<T> {
    fn drop(&mut self) {
        let Self { ring, flights, free, .. } = self;
        let drained = drain(ring, flights.len() - free.len(), |number| {
            if let Some(Flight { request, .. }) = flights[number].take() {
                request.ended();
            }
        });
        if !drained {
            flights.drain(..).for_each(std::mem::forget);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{BlockDevice, FileDevice, MarkedDevice, MemoryDevice, OpenMode, Options};
    use pumice_base::buffer::{AlignedBuffer, SharedBuffer};
    use std::sync::Arc;

    const SIZE: usize = 1 << 20;

    /// A file that is read and written past the page cache; `None` if the file system, or the
    /// system, has no such thing.
    fn file() -> Option<(tempfile::TempDir, Arc<dyn BlockDevice>, DirectQueue<usize>)> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("drive");
        std::fs::write(&path, vec![0; SIZE]).unwrap();
        let device = FileDevice::open(&path, OpenMode::ReadWrite, Options::default()).unwrap();
        let queue = DirectQueue::new(8);
        if let (Some(_), Ok(queue)) = (device.descriptor(), queue) {
            return Some((folder, Arc::new(device), queue));
        }
        eprintln!("SKIPPED: no direct I/O or no io_uring here");
        None
    }

    fn request(
        device: &Arc<dyn BlockDevice>,
        operation: DirectOperation,
        offset: u64,
        len: usize,
    ) -> DirectRequest {
        let mut buffer = AlignedBuffer::new(len.max(1));
        buffer.fill(0x40_u8.wrapping_add((offset >> 12) as u8));
        let memory = match operation {
            DirectOperation::Read => DirectMemory::Room(buffer),
            DirectOperation::Write { .. } => DirectMemory::Bytes(SharedBuffer::new(buffer, len)),
            DirectOperation::Flush => DirectMemory::None,
        };
        DirectRequest { device: Arc::clone(device), operation, offset, len, memory }
    }

    fn wait(queue: &mut DirectQueue<usize>) -> (DirectRequest, usize, bool) {
        loop {
            queue.enter();
            if let Some((request, token, ended)) = queue.completed() {
                return (request, token, matches!(ended, DirectEnd::Done));
            }
            std::thread::yield_now();
        }
    }

    /// Linux reports a failed write-back once for each descriptor, and a drive may drop what it
    /// could not write: the second flush succeeds, and the data are not there.
    #[test]
    fn what_failed_to_become_durable_is_not_tried_again() {
        let device: Arc<dyn BlockDevice> = Arc::new(MemoryDevice::new("m", SIZE as u64));
        let ended = |operation, result| DirectEnd::of(&request(&device, operation, 0, 4096), result);
        let flush = DirectOperation::Flush;
        let [write, durable] = [false, true].map(|durable| DirectOperation::Write { durable });
        for operation in [flush, durable] {
            for error in [libc::EIO, libc::ENOSPC, libc::EROFS, libc::ENXIO] {
                let DirectEnd::Failed(failed) = ended(operation, -error) else {
                    panic!("{operation:?} {error}")
                };
                assert_eq!(failed.is_full(), error == libc::ENOSPC);
            }
            for untried in [libc::EAGAIN, libc::EOPNOTSUPP, libc::EINVAL] {
                assert!(matches!(ended(operation, -untried), DirectEnd::Again), "{operation:?} {untried}");
            }
        }
        assert!(matches!(ended(flush, 0), DirectEnd::Done));
        for operation in [DirectOperation::Read, write] {
            assert!(matches!(ended(operation, -libc::EIO), DirectEnd::Again), "a thread says which bytes");
        }
        for operation in [DirectOperation::Read, write, durable] {
            assert!(matches!(ended(operation, 4096), DirectEnd::Done));
            assert!(matches!(ended(operation, 512), DirectEnd::Again), "a part is no success");
        }
    }

    #[test]
    fn what_was_written_is_read() {
        let Some((_folder, device, mut queue)) = file() else { return };
        let write = DirectOperation::Write { durable: true };
        for i in 0..8 {
            assert!(queue.submit(request(&device, write, (i as u64) << 12, 4096), i).is_ok());
        }
        assert!(queue.submit(request(&device, DirectOperation::Read, 0, 4096), 9).is_err(), "it is full");
        let mut tokens: Vec<usize> = (0..8)
            .map(|_| {
                let (_, token, done) = wait(&mut queue);
                assert!(done);
                token
            })
            .collect();
        tokens.sort_unstable();
        assert_eq!(tokens, (0..8).collect::<Vec<_>>());
        assert!(queue.submit(request(&device, DirectOperation::Flush, 0, 0), 0).is_ok());
        assert!(wait(&mut queue).2);
        for i in 0..8_u64 {
            assert!(queue.submit(request(&device, DirectOperation::Read, i << 12, 4096), 0).is_ok());
            let (request, _, done) = wait(&mut queue);
            let DirectMemory::Room(buffer) = request.memory else { panic!("no room") };
            assert!(done && buffer[..4096].iter().all(|byte| *byte == 0x40 + i as u8));
            let mut again = [0; 4096];
            device.read_at(i << 12, &mut again).unwrap();
            assert_eq!(again, buffer[..4096]);
        }
    }

    #[test]
    fn what_cannot_go_this_way_is_given_back() {
        let Some((_folder, device, mut queue)) = file() else { return };
        let (read, write) = (DirectOperation::Read, DirectOperation::Write { durable: false });
        let marked: Arc<dyn BlockDevice> = Arc::new(MarkedDevice::in_memory(Arc::clone(&device), 512));
        marked.mark(8192, 512).unwrap();
        let memory: Arc<dyn BlockDevice> = Arc::new(MemoryDevice::new("m", SIZE as u64));
        let mut longer = request(&device, read, 0, 4096);
        longer.len = 8192;
        let mut off = request(&device, write, 0, 4096);
        off.memory = DirectMemory::Bytes(SharedBuffer::copy_of(&[7; 8192]).part(1..4097));
        let mut shared = request(&device, read, 0, 4096);
        shared.memory = DirectMemory::Bytes(SharedBuffer::copy_of(&[7; 4096]));
        let refused = [
            ("no grain", request(&device, read, 512, 4096)),
            ("part of a grain", request(&device, write, 0, 512)),
            ("past the end", request(&device, read, SIZE as u64, 4096)),
            ("far past the end", request(&device, read, u64::MAX - 4095, 4096)),
            ("made unreadable", request(&marked, read, 8192, 4096)),
            ("write over what was made unreadable", request(&marked, write, 8192, 4096)),
            ("memory", request(&memory, read, 0, 4096)),
            ("more than the buffer", longer),
            ("memory that begins anywhere", off),
            ("a read into memory that others read", shared),
        ];
        for (why, request) in refused {
            assert!(queue.submit(request, 0).is_err(), "{why}");
        }
        assert!(queue.submit(request(&marked, read, 4096, 4096), 0).is_ok());
        assert!(wait(&mut queue).2);
    }

    /// Part of a block is read, changed and written back: a whole one that is written meanwhile
    /// must not be lost to that.
    #[test]
    fn whole_blocks_and_parts_of_them_are_written_one_after_the_other() {
        let Some((_folder, device, mut queue)) = file() else { return };
        let write = DirectOperation::Write { durable: false };
        assert!(queue.submit(request(&device, write, 0, 4096), 0).is_ok());
        let part = std::thread::spawn({
            let device = Arc::clone(&device);
            move || device.write_at(512, &[1; 512])
        });
        // It waits for the whole one, which the kernel has not even got; then no other whole one
        // may begin.
        while queue.submit(request(&device, write, 0, 4096), 1).is_ok() {
            assert!(wait(&mut queue).2);
        }
        assert!(!part.is_finished());
        while !part.is_finished() {
            queue.enter();
            while queue.completed().is_some() {}
        }
        part.join().unwrap().unwrap();
        let mut block = [0; 4096];
        device.read_at(0, &mut block).unwrap();
        assert!(block[..512].iter().chain(&block[1024..]).all(|byte| *byte == 0x40), "the rest is lost");
        assert_eq!(block[512..1024], [1; 512]);
        assert!(queue.submit(request(&device, write, 0, 4096), 0).is_ok());
    }

    #[test]
    fn a_queue_that_goes_waits_for_what_the_kernel_has() {
        let Some((_folder, device, mut queue)) = file() else { return };
        for i in 0..4 {
            let write = DirectOperation::Write { durable: false };
            assert!(queue.submit(request(&device, write, i << 16, 1 << 16), 0).is_ok());
        }
        queue.enter();
        drop(queue);
        // Every one has ended: a part can be written, and all is there.
        device.write_at(1, &[0]).unwrap();
        for i in 0..4 {
            let mut block = [0; 512];
            device.read_at((i << 16) + 4096, &mut block).unwrap();
            assert_eq!(block, [0x40 + ((i << 16) >> 12) as u8; 512]);
        }
    }
}
