//! System calls that the standard library lacks.

#![expect(
    unsafe_code,
    reason = "ioctl, fcntl, fallocate, sync_file_range, preadv, fstatfs, madvise, setpriority and the limits of the process are foreign functions"
)]

use std::fs::File;
use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Bytes of a logical block: `BLKSSZGET` of linux/fs.h, `_IO(0x12, 104)`.
const BLKSSZGET: libc::c_ulong = 0x1268;
/// Bytes of a physical block: `BLKPBSZGET` of linux/fs.h, `_IO(0x12, 123)`.
const BLKPBSZGET: libc::c_ulong = 0x127B;
/// Bytes of a block device: `BLKGETSIZE64` of linux/fs.h, `_IOR(0x12, 114, size_t)`.
const BLKGETSIZE64: libc::c_ulong = 0x8008_1272;

/// The size of a block device in bytes.
pub(crate) fn block_device_size(file: &File) -> io::Result<u64> {
    let mut size = 0_u64;
    // SAFETY: the descriptor is open, and the request writes one u64 to the pointer, which is valid
    // for that.
    check(unsafe { libc::ioctl(file.as_raw_fd(), BLKGETSIZE64 as _, &raw mut size) })?;
    Ok(size)
}

/// The logical block of a block device in bytes.
pub(crate) fn logical_block_size(file: &File) -> io::Result<u32> {
    let mut size: libc::c_int = 0;
    // SAFETY: the descriptor is open, and the request writes one int to the pointer, which is valid
    // for that.
    check(unsafe { libc::ioctl(file.as_raw_fd(), BLKSSZGET as _, &raw mut size) })?;
    u32::try_from(size).map_err(io::Error::other)
}

/// The physical block of a block device in bytes.
pub(crate) fn physical_block_size(file: &File) -> io::Result<u32> {
    let mut size: libc::c_uint = 0;
    // SAFETY: the descriptor is open, and the request writes one unsigned int to the pointer, which
    // is valid for that.
    check(unsafe { libc::ioctl(file.as_raw_fd(), BLKPBSZGET as _, &raw mut size) })?;
    Ok(size)
}

/// Has reads and writes of an open file pass the page cache from here on (fcntl(2), `O_DIRECT`).
/// Locks on the file are kept; a second descriptor would not have them.
pub(crate) fn pass_page_cache(file: &File) -> io::Result<()> {
    // SAFETY: the descriptor is open, and no memory is handed over.
    let flags = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GETFL) };
    check(flags)?;
    // SAFETY: as above.
    check(unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETFL, flags | libc::O_DIRECT) })
}

/// Begins to write back the dirty pages of a range of the page cache; with `wait`, returns when
/// they have been written (sync_file_range(2)). It makes nothing durable.
pub(crate) fn write_back(file: &File, offset: u64, len: u64, wait: bool) -> io::Result<()> {
    let to_off64 = |n: u64| libc::off64_t::try_from(n).map_err(io::Error::other);
    let (offset, len) = (to_off64(offset)?, to_off64(len)?);
    let ends = libc::SYNC_FILE_RANGE_WAIT_BEFORE | libc::SYNC_FILE_RANGE_WAIT_AFTER;
    let flags = libc::SYNC_FILE_RANGE_WRITE | if wait { ends } else { 0 };
    // SAFETY: the descriptor is open, and no memory is handed over.
    check(unsafe { libc::sync_file_range(file.as_raw_fd(), offset, len, flags) }).map(drop)
}

/// Fills `buf` from the page cache; false if some of it is not there (preadv2(2), `RWF_NOWAIT`).
pub(crate) fn read_cached(file: &File, offset: u64, buf: &mut [u8]) -> bool {
    let Ok(offset) = libc::off64_t::try_from(offset) else { return false };
    let part = libc::iovec { iov_base: buf.as_mut_ptr().cast(), iov_len: buf.len() };
    // SAFETY: the descriptor is open, and the one part is a buffer that is borrowed for the call.
    let read = unsafe { libc::preadv64v2(file.as_raw_fd(), &raw const part, 1, offset, libc::RWF_NOWAIT) };
    usize::try_from(read).is_ok_and(|read| read == buf.len())
}

/// The treatment of a zeroed range's space.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Zeroing {
    /// It is kept.
    KeepRoom,
    /// It is released. A block device does that only if its unmapped blocks read as zeros.
    FreeRoom,
}

/// Makes a range of a file or a block device zeros, and never changes its length (fallocate(2),
/// `FALLOC_FL_ZERO_RANGE` and `FALLOC_FL_PUNCH_HOLE`).
pub(crate) fn make_zeros(file: &File, how: Zeroing, offset: u64, len: u64) -> io::Result<()> {
    let mode = libc::FALLOC_FL_KEEP_SIZE
        | match how {
            Zeroing::KeepRoom => libc::FALLOC_FL_ZERO_RANGE,
            Zeroing::FreeRoom => libc::FALLOC_FL_PUNCH_HOLE,
        };
    let bytes = |value: u64| libc::off64_t::try_from(value).map_err(io::Error::other);
    let (offset, len) = (bytes(offset)?, bytes(len)?);
    loop {
        // SAFETY: the descriptor is open; the call takes no pointer.
        match check(unsafe { libc::fallocate64(file.as_raw_fd(), mode, offset, len) }) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            done => return done,
        }
    }
}

/// Reads from `offset` on into several memories, one behind the other, and returns the bytes read:
/// fewer than there is room for at the end of the file, or if the system gives no more.
pub(crate) fn read_parts(file: &File, parts: &mut [IoSliceMut<'_>], offset: u64) -> io::Result<usize> {
    let offset = libc::off64_t::try_from(offset).map_err(io::Error::other)?;
    let count = libc::c_int::try_from(parts.len()).map_err(io::Error::other)?;
    loop {
        // SAFETY: the descriptor is open. An `IoSliceMut` has the layout of an iovec (its promise),
        // and `count` of them lie at the pointer; the memory of each is borrowed alone while the
        // call writes to it.
        let read = unsafe { libc::preadv64(file.as_raw_fd(), parts.as_mut_ptr().cast(), count, offset) };
        match usize::try_from(read) {
            Ok(read) => return Ok(read),
            Err(_) => {
                let error = io::Error::last_os_error();
                if error.kind() != io::ErrorKind::Interrupted {
                    return Err(error);
                }
            }
        }
    }
}

/// Bytes at the start of a range that are fetched: the processor notices by itself that the rest
/// follows, and more than this keeps it waiting for memory (docs/notebook/serving.md).
const FETCHED: usize = 1024;

/// The same for the second-level cache: a command of the smallest common kind.
const FETCHED_FAR: usize = 4096;

/// Brings the start of `bytes` into the caches while other work goes on.
pub fn prefetch(bytes: &[u8]) {
    #[cfg(target_arch = "x86_64")]
    fetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(&bytes[..bytes.len().min(FETCHED)]);
    #[cfg(not(target_arch = "x86_64"))]
    let _ = bytes;
}

/// Brings more of `bytes` into the second-level cache while other work goes on: for bytes that are
/// computed with before they are copied, so that the processor has time for that.
pub fn prefetch_far(bytes: &[u8]) {
    #[cfg(target_arch = "x86_64")]
    fetch::<{ std::arch::x86_64::_MM_HINT_T1 }>(&bytes[..bytes.len().min(FETCHED_FAR)]);
    #[cfg(not(target_arch = "x86_64"))]
    let _ = bytes;
}

#[cfg(target_arch = "x86_64")]
fn fetch<const HINT: i32>(bytes: &[u8]) {
    for line in bytes.chunks(64) {
        // SAFETY: every processor of this architecture has SSE. The instruction changes nothing
        // that a program can see, whatever the address.
        unsafe { std::arch::x86_64::_mm_prefetch::<HINT>(line.as_ptr().cast()) };
    }
}

/// Returns whether a file lives in memory (tmpfs, ramfs): direct I/O is accepted there, and copies
/// all the same.
pub(crate) fn lives_in_memory(file: &File) -> bool {
    const RAMFS_MAGIC: i64 = 0x8584_58F6;
    let mut about = MaybeUninit::<libc::statfs>::uninit();
    // SAFETY: the descriptor is open, and the call writes one statfs to the pointer, which is valid
    // for that.
    if unsafe { libc::fstatfs(file.as_raw_fd(), about.as_mut_ptr()) } != 0 {
        return false;
    }
    // SAFETY: the call succeeded, so it filled the structure.
    let kind = unsafe { about.assume_init() }.f_type;
    kind == libc::TMPFS_MAGIC || kind == RAMFS_MAGIC
}

/// Bytes that are free in the file system of a folder, those that are kept for root included.
///
/// # Errors
/// If the folder cannot be opened.
pub fn free_bytes(folder: &Path) -> io::Result<u64> {
    let folder = File::open(folder)?;
    let mut about = MaybeUninit::<libc::statfs>::uninit();
    // SAFETY: the descriptor is open, and the call writes one statfs to the pointer, which is valid
    // for that.
    check(unsafe { libc::fstatfs(folder.as_raw_fd(), about.as_mut_ptr()) })?;
    // SAFETY: the call succeeded, so it filled the structure.
    let about = unsafe { about.assume_init() };
    Ok(about.f_bfree.saturating_mul(u64::try_from(about.f_bsize).unwrap_or(0)))
}

/// Finds out whether a file could be created in a folder, by one without a name, which is gone
/// when this returns. File systems without such files are taken at their word.
///
/// # Errors
/// If it could not.
pub fn check_new_file(folder: &Path) -> io::Result<()> {
    let opened = File::options().write(true).custom_flags(libc::O_TMPFILE).mode(0o600).open(folder);
    match opened {
        Err(error) if error.raw_os_error() == Some(libc::EOPNOTSUPP) => Ok(()),
        other => other.map(drop),
    }
}

/// Gives a file room for its first `len` bytes, and at least that length (fallocate(2)). Unwritten
/// bytes read as zeros. Does nothing if the file system cannot.
///
/// # Errors
/// If there is not so much room; part of it may have been taken.
pub fn allocate(file: &File, len: u64) -> io::Result<()> {
    let len = libc::off64_t::try_from(len).map_err(io::Error::other)?;
    loop {
        // SAFETY: the descriptor is open; the call takes no pointer.
        match check(unsafe { libc::fallocate64(file.as_raw_fd(), 0, 0, len) }) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if matches!(error.raw_os_error(), Some(libc::EOPNOTSUPP | libc::ENOSYS)) => {
                return Ok(());
            }
            done => return done,
        }
    }
}

/// Raises the soft limit of open descriptors to the hard limit, and returns it.
///
/// # Errors
/// If the system refuses.
pub fn raise_descriptor_limit() -> io::Result<u64> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the call writes one rlimit to the pointer, which is valid for that.
    check(unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) })?;
    if limit.rlim_cur < limit.rlim_max {
        limit.rlim_cur = limit.rlim_max;
        // SAFETY: the call reads one rlimit from the pointer, which is valid for that.
        check(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) })?;
    }
    Ok(limit.rlim_cur)
}

/// Returns freed memory that the allocator keeps to the system. It takes longer the more there is,
/// and other allocations may wait meanwhile. Does nothing if the allocator cannot.
pub fn give_memory_back() {
    #[cfg(target_env = "gnu")]
    // SAFETY: the call may be made at any time and from any thread; it touches no memory that is in
    // use.
    unsafe {
        libc::malloc_trim(0);
    }
}

/// Requests large pages for memory that was allocated but not yet touched; random reads of it miss
/// the TLB less. Does nothing if the system has none.
pub(crate) fn prefer_large_pages(memory: &mut [MaybeUninit<u8>]) {
    const PAGE: usize = 4096;
    let skipped = memory.as_ptr().align_offset(PAGE);
    let len = memory.len().saturating_sub(skipped) & !(PAGE - 1);
    if len == 0 {
        return;
    }
    // SAFETY: the pages lie within `memory`, which is borrowed alone; MADV_HUGEPAGE changes how
    // they are backed and nothing of what they hold.
    unsafe { libc::madvise(memory[skipped..].as_mut_ptr().cast(), len, libc::MADV_HUGEPAGE) };
}

/// Has the system probe a silent peer of a TCP connection: after a minute, then every ten seconds;
/// after three unanswered probes the connection ends. Without this, a host whose machine lost its
/// power would stay associated for ever, unless it had asked for a keep alive timeout.
///
/// # Errors
/// If the descriptor is no TCP socket.
pub fn ask_silent_peer(socket: &impl AsFd) -> io::Result<()> {
    let fd = socket.as_fd().as_raw_fd();
    for (level, option, value) in [
        (libc::IPPROTO_TCP, libc::TCP_KEEPIDLE, 60),
        (libc::IPPROTO_TCP, libc::TCP_KEEPINTVL, 10),
        (libc::IPPROTO_TCP, libc::TCP_KEEPCNT, 3),
        (libc::SOL_SOCKET, libc::SO_KEEPALIVE, 1),
    ] {
        let value: libc::c_int = value;
        let len = size_of::<libc::c_int>() as libc::socklen_t;
        // SAFETY: the descriptor is open while `socket` is borrowed; the call reads `len` bytes at
        // the pointer, which are those of `value`.
        check(unsafe { libc::setsockopt(fd, level, option, (&raw const value).cast(), len) })?;
    }
    Ok(())
}

/// Lets the calling thread run only if no other thread wants to run, and yield at once if one wakes
/// up. For the rest of the thread's life; does nothing if the system refuses.
pub fn step_back() {
    let parameters = libc::sched_param { sched_priority: 0 };
    // SAFETY: `parameters` outlives the call, which only reads it; process 0 means the calling
    // thread (sched_setscheduler(2)).
    unsafe { libc::sched_setscheduler(0, libc::SCHED_IDLE, &raw const parameters) };
}

fn check(result: libc::c_int) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_silent_peer_is_asked_after_a_minute_and_three_times() -> io::Result<()> {
        let listener = std::net::TcpListener::bind((std::net::Ipv4Addr::LOCALHOST, 0))?;
        let socket = std::net::TcpStream::connect(listener.local_addr()?)?;
        ask_silent_peer(&socket)?;
        let option = |level, name| -> io::Result<libc::c_int> {
            let mut value: libc::c_int = 0;
            let mut len = size_of::<libc::c_int>() as libc::socklen_t;
            // SAFETY: the descriptor is open, and the call writes at most `len` bytes at the
            // pointer, which is valid for that.
            let done = unsafe {
                libc::getsockopt(socket.as_raw_fd(), level, name, (&raw mut value).cast(), &raw mut len)
            };
            check(done).map(|()| value)
        };
        assert_eq!(option(libc::SOL_SOCKET, libc::SO_KEEPALIVE)?, 1);
        assert_eq!(option(libc::IPPROTO_TCP, libc::TCP_KEEPIDLE)?, 60);
        assert_eq!(option(libc::IPPROTO_TCP, libc::TCP_KEEPINTVL)?, 10);
        assert_eq!(option(libc::IPPROTO_TCP, libc::TCP_KEEPCNT)?, 3);
        Ok(())
    }
}
