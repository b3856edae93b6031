//! Block devices and image files of this machine.

mod edges;
mod gate;
mod intact;
mod longer;
mod zeros;

use self::gate::Gate;
use self::intact::Intact;
use crate::device::{DirectFd, DirectIo, Grains, PIECE};
use crate::error::Operation;
use crate::system;
use crate::{BlockDevice, IoError, disks, holders};
use pumice_base::buffer::{ALIGNMENT, MEMORY_GRAIN};
use std::collections::BTreeSet;
use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The access for which a device is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpenMode {
    /// Reading. Nothing can be written through it.
    ReadOnly,
    /// Exclusive reading and writing: a block device that the kernel holds is refused (`O_EXCL`),
    /// an image file is locked (advisory).
    ReadWrite,
}

/// Use of the page cache by reads and writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Direct {
    /// Past the page cache if the file system allows it and that means DMA.
    #[default]
    Auto,
    /// Through the page cache.
    Off,
}

/// Options for opening a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Options {
    /// Use of the page cache by reads and writes.
    pub direct: Direct,
}

/// A block device or an image file.
#[derive(Debug)]
pub struct FileDevice {
    file: File,
    path: PathBuf,
    name: String,
    size: u64,
    logical_block: u32,
    atomic_unit: u32,
    read_only: bool,
    disks: BTreeSet<String>,
    is_block_device: bool,
    /// Alignment of direct I/O; `None` if the page cache is used.
    grain: Option<u32>,
    /// With direct I/O: the same file through the page cache, opened when it is first wanted; none
    /// if that failed.
    cached: OnceLock<Option<File>>,
    grains: Grains,
    /// The system cannot zero ranges here, so zeros are written.
    writes_zeros: AtomicBool,
    /// Parts of a grain against whole ones.
    gate: Gate,
    /// Checks whether the file is unchanged; `None` for a block device.
    intact: Option<Intact>,
}

impl FileDevice {
    /// Opens a block device or a regular file.
    ///
    /// # Errors
    /// If the path is neither, or empty, or cannot be opened so. The message names the path.
    pub fn open(path: &Path, mode: OpenMode, options: Options) -> Result<Self, IoError> {
        let name = path.display().to_string();
        let fail = |error| IoError::open(&name, error);
        // Before opening: to open a FIFO or a terminal can have effects.
        let about = std::fs::metadata(path).map_err(fail)?;
        let kind = about.file_type();
        if !(kind.is_file() || kind.is_block_device()) {
            let what = if kind.is_dir() { "a directory" } else { "neither a block device nor a file" };
            return Err(fail(io::Error::new(io::ErrorKind::InvalidInput, format!("is {what}"))));
        }
        let is_block_device = kind.is_block_device();
        let (file, direct) = patiently(|| open_file(path, mode, options, is_block_device)).map_err(fail)?;
        if mode == OpenMode::ReadWrite && !is_block_device {
            lock(&file).map_err(fail)?;
        }
        let size = if is_block_device {
            system::block_device_size(&file)
        } else {
            file.metadata().map(|meta| meta.len())
        }
        .map_err(fail)?;
        if size == 0 {
            return Err(fail(io::Error::new(io::ErrorKind::InvalidInput, "is empty")));
        }
        let logical_block =
            if is_block_device { system::logical_block_size(&file).map_err(fail)? } else { 512 };
        let atomic_unit =
            if is_block_device { disks::atomic_unit(&about, logical_block) } else { logical_block };
        let grain = if is_block_device { logical_block } else { ALIGNMENT as u32 };
        // The last partial block of a file could only be written by making the file longer. The
        // node of a block device lies in memory, in /dev; the device does not, and what the page
        // cache holds of it may be old: md writes past it.
        let in_memory = !is_block_device && system::lives_in_memory(&file);
        let direct = direct && size.is_multiple_of(u64::from(grain)) && !in_memory;
        // A file in memory shares no disk. A device whose disks cannot be found out is taken to
        // share none.
        let disks = if in_memory { BTreeSet::new() } else { disks::below(path).unwrap_or_default() };
        let file = if direct { file } else { buffered(path, file, mode, is_block_device).map_err(fail)? };
        let grains = zeros::grains(&file, is_block_device, logical_block);
        let intact = if is_block_device { None } else { Some(Intact::new(&file, size).map_err(fail)?) };
        Ok(Self {
            file,
            path: path.to_owned(),
            name,
            size,
            logical_block,
            atomic_unit,
            read_only: mode == OpenMode::ReadOnly,
            disks,
            is_block_device,
            grain: direct.then_some(grain),
            cached: OnceLock::new(),
            grains,
            writes_zeros: AtomicBool::new(false),
            gate: Gate::default(),
            intact,
        })
    }

    /// The same device under another name than its path.
    #[must_use]
    pub fn named(self, name: String) -> Self {
        Self { name, ..self }
    }

    /// The same device, of which somebody promises that a power cut leaves so many bytes old or
    /// new.
    #[must_use]
    pub fn with_atomic_unit(self, bytes: u32) -> Self {
        Self { atomic_unit: bytes, ..self }
    }

    /// Returns whether another program has an image file locked for writing, as a node locks what
    /// it serves. A block device is never locked so.
    ///
    /// # Errors
    /// If that cannot be found out.
    pub fn locked_by_another(&self) -> Result<bool, IoError> {
        if self.is_block_device {
            return Ok(false);
        }
        match self.file.try_lock_shared() {
            Ok(()) => self.file.unlock().map(|()| false).map_err(|error| IoError::open(&self.name, error)),
            Err(TryLockError::WouldBlock) => Ok(true),
            // A file system without locks: nobody has one.
            Err(TryLockError::Error(_)) => Ok(false),
        }
    }

    /// Keeps other programs from opening it for writing for as long as it is open, and is an error
    /// if one has. Others may read it too.
    ///
    /// # Errors
    /// If another program writes it, or that cannot be found out.
    pub fn hold_to_read(&self) -> Result<(), IoError> {
        let fail = |error| IoError::open(&self.name, error);
        let busy =
            || io::Error::new(io::ErrorKind::ResourceBusy, "another program has it locked for writing");
        if self.is_block_device {
            return if self.held_by_kernel()? { Err(fail(busy())) } else { Ok(()) };
        }
        patiently(|| match self.file.try_lock_shared() {
            Err(TryLockError::WouldBlock) => Err(busy()),
            // A file system without locks: nobody has one.
            Ok(()) | Err(TryLockError::Error(_)) => Ok(()),
        })
        .map_err(fail)
    }

    /// Says who holds the device, if it [is held](Self::held_by_kernel).
    ///
    /// # Errors
    /// If that cannot be found out.
    pub fn holders(&self) -> Result<Option<String>, IoError> {
        Ok(self.held_by_kernel()?.then(|| holders::in_use(&self.path)))
    }

    /// Returns whether the kernel holds the device: md, device mapper, a mount. An image file is
    /// never held.
    ///
    /// # Errors
    /// If that cannot be found out.
    pub fn held_by_kernel(&self) -> Result<bool, IoError> {
        if !self.is_block_device {
            return Ok(false);
        }
        match OpenOptions::new().read(true).custom_flags(libc::O_EXCL).open(&self.path) {
            Ok(_) => Ok(false),
            Err(error) if error.raw_os_error() == Some(libc::EBUSY) => Ok(true),
            Err(error) => Err(IoError::open(&self.name, error)),
        }
    }

    /// The same file through the page cache, if this one bypasses it. The kernel keeps both views
    /// coherent: a direct read or write first writes back the cached pages of its range.
    fn cached(&self) -> Option<&File> {
        self.grain?;
        let open = || {
            // Not by its path, which may name another file by now.
            let path = format!("/proc/self/fd/{}", self.file.as_raw_fd());
            OpenOptions::new().read(true).write(true).open(path).ok()
        };
        self.cached.get_or_init(open).as_ref()
    }

    /// The range that direct I/O reads or writes for one that is not aligned; `None` if it is.
    fn widened(&self, offset: u64, buf: &[u8]) -> Option<(u64, usize)> {
        let grain = u64::from(self.grain?);
        let end = offset + buf.len() as u64;
        let aligned = offset.is_multiple_of(grain)
            && end.is_multiple_of(grain)
            && buf.as_ptr().align_offset(MEMORY_GRAIN) == 0;
        let start = offset / grain * grain;
        (!aligned).then(|| (start, (end.next_multiple_of(grain) - start) as usize))
    }

    fn check(&self, operation: Operation, offset: u64, len: usize) -> Result<(), IoError> {
        if offset.checked_add(len as u64).is_some_and(|end| end <= self.size) {
            return Ok(());
        }
        let why = io::Error::new(io::ErrorKind::UnexpectedEof, format!("the device has {} bytes", self.size));
        Err(IoError::new(&self.name, operation, offset, len, why))
    }

    /// Refuses writes if the device is open read-only, or its file was changed by others.
    fn check_change(&self, operation: Operation, offset: u64, len: usize) -> Result<(), IoError> {
        self.check(operation, offset, len)?;
        let fail = |error| IoError::new(&self.name, operation, offset, len, error);
        if self.read_only {
            return Err(fail(io::Error::new(io::ErrorKind::PermissionDenied, "it is open for reading only")));
        }
        self.look().map_err(fail)
    }

    /// Checks whether the file is unchanged.
    fn look(&self) -> io::Result<()> {
        self.intact.as_ref().map_or(Ok(()), |intact| intact.look(&self.file))
    }
}

fn flags(mode: OpenMode, is_block_device: bool) -> libc::c_int {
    if mode == OpenMode::ReadWrite && is_block_device { libc::O_EXCL } else { 0 }
}

/// Opens the file, past the page cache if wanted and possible; tells whether it is.
fn open_file(
    path: &Path,
    mode: OpenMode,
    options: Options,
    is_block_device: bool,
) -> io::Result<(File, bool)> {
    let flags = flags(mode, is_block_device);
    let mut open = OpenOptions::new();
    open.read(true).write(mode == OpenMode::ReadWrite);
    if options.direct == Direct::Auto {
        match open.custom_flags(flags | libc::O_DIRECT).open(path) {
            Ok(file) => return Ok((file, true)),
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {}
            Err(error) => return Err(in_use(path, error)),
        }
    }
    open.custom_flags(flags).open(path).map(|file| (file, false)).map_err(|error| in_use(path, error))
}

/// The same file through the page cache. The lock of the first descriptor, if any, is taken again.
fn buffered(path: &Path, file: File, mode: OpenMode, is_block_device: bool) -> io::Result<File> {
    // Released first: an exclusive open would meet our own.
    drop(file);
    let options = Options { direct: Direct::Off };
    let (file, _) = open_file(path, mode, options, is_block_device)?;
    if mode == OpenMode::ReadWrite && !is_block_device {
        lock(&file)?;
    }
    Ok(file)
}

fn in_use(path: &Path, error: io::Error) -> io::Error {
    if error.raw_os_error() == Some(libc::EBUSY) {
        return io::Error::new(io::ErrorKind::ResourceBusy, holders::in_use(path));
    }
    error
}

fn lock(file: &File) -> io::Result<()> {
    patiently(|| match file.try_lock() {
        Ok(()) => Ok(()),
        Err(TryLockError::WouldBlock) => {
            Err(io::Error::new(io::ErrorKind::ResourceBusy, "another program has it locked for writing"))
        }
        Err(TryLockError::Error(error)) => Err(error),
    })
}

/// Retries for a second while something is busy: a program that was killed with reads in flight
/// holds its files until the kernel has finished these.
fn patiently<T>(mut attempt: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    const TRIES: u32 = 50;
    const PAUSE: Duration = Duration::from_millis(20);
    for _ in 0..TRIES {
        match attempt() {
            Err(error) if error.kind() == io::ErrorKind::ResourceBusy => std::thread::sleep(PAUSE),
            other => return other,
        }
    }
    attempt()
}

impl BlockDevice for FileDevice {
    fn name(&self) -> &str {
        &self.name
    }

    fn size_bytes(&self) -> u64 {
        self.size
    }

    fn logical_block(&self) -> u32 {
        self.logical_block
    }

    fn atomic_unit(&self) -> u32 {
        self.atomic_unit
    }

    fn read_only(&self) -> bool {
        self.read_only
    }

    fn disks(&self) -> BTreeSet<String> {
        self.disks.clone()
    }

    fn grains(&self) -> Grains {
        self.grains
    }

    fn clears_at_once(&self) -> u64 {
        // Relaxed: it changes how long others wait, and nothing else.
        if self.writes_zeros.load(Ordering::Relaxed) { PIECE } else { zeros::AT_ONCE }
    }

    fn failing(&self) -> Option<String> {
        self.look().err().map(|error| error.to_string())
    }

    fn direct(&self) -> Option<&dyn DirectIo> {
        Some(self)
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), IoError> {
        self.check(Operation::Read, offset, buf.len())?;
        if buf.is_empty() {
            return Ok(());
        }
        let len = buf.len();
        let fail = |error| IoError::new(&self.name, Operation::Read, offset, len, error);
        if let Some(intact) = &self.intact {
            intact.check_read(offset + len as u64).map_err(fail)?;
        }
        match self.widened(offset, buf) {
            None => self.file.read_exact_at(buf, offset),
            Some(whole) => edges::read(&self.file, whole, offset, buf),
        }
        .map_err(fail)
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> Result<(), IoError> {
        self.check_change(Operation::Write, offset, data.len())?;
        let fail = |error| IoError::new(&self.name, Operation::Write, offset, data.len(), error);
        if data.is_empty() {
            return Ok(());
        }
        match self.widened(offset, data) {
            None => self.gate.whole(|| self.file.write_all_at(data, offset)),
            // Only its memory is not aligned: nothing is read and written back.
            Some(whole) if whole == (offset, data.len()) => {
                self.gate.whole(|| edges::write(&self.file, whole, offset, data))
            }
            Some(whole) => self.gate.part(|| edges::write(&self.file, whole, offset, data)),
        }
        .map_err(fail)
    }

    fn write_soon(&self, offset: u64, data: &[u8]) -> Result<(), IoError> {
        // The page cache takes parts of a grain as they are.
        let through = if self.grain.is_some() { self.cached() } else { Some(&self.file) };
        let Some(file) = through else { return self.write_at(offset, data) };
        let end = offset.saturating_add(data.len() as u64);
        // A look costs half as much as a small write.
        let seldom = self.intact.as_ref().is_some_and(|intact| intact.look_at_times(&self.file, end));
        if seldom && !self.read_only {
            self.check(Operation::Write, offset, data.len())?;
        } else {
            self.check_change(Operation::Write, offset, data.len())?;
        }
        let fail = |error| IoError::new(&self.name, Operation::Write, offset, data.len(), error);
        self.gate.whole(|| file.write_all_at(data, offset)).map_err(fail)
    }

    fn read_cached(&self, offset: u64, buf: &mut [u8]) -> bool {
        self.check(Operation::Read, offset, buf.len()).is_ok()
            && !self.intact.as_ref().is_some_and(Intact::is_lost)
            && system::read_cached(self.cached().unwrap_or(&self.file), offset, buf)
    }

    fn write_back(&self, offset: u64, len: u64, wait: bool) -> Result<(), IoError> {
        let file = self.cached().unwrap_or(&self.file);
        let fail = |error| IoError::new(&self.name, Operation::Write, offset, len as usize, error);
        system::write_back(file, offset, len, wait).map_err(fail)
    }

    fn zero(&self, offset: u64, len: u64) -> Result<(), IoError> {
        self.clear(Operation::Zero, offset, len)
    }

    fn discard(&self, offset: u64, len: u64) -> Result<(), IoError> {
        self.clear(Operation::Discard, offset, len)
    }

    fn flush(&self) -> Result<(), IoError> {
        if self.read_only {
            return Ok(());
        }
        self.look().map_err(|error| IoError::new(&self.name, Operation::Flush, 0, 0, error))?;
        self.file.sync_data().map_err(|error| IoError::new(&self.name, Operation::Flush, 0, 0, error))
    }
}

impl DirectIo for FileDevice {
    fn descriptor(&self) -> Option<DirectFd> {
        if self.intact.as_ref().is_some_and(Intact::is_lost) {
            return None;
        }
        self.grain.map(|grain| DirectFd { fd: self.file.as_raw_fd(), grain })
    }

    fn begin_whole_write(&self, end: u64) -> bool {
        self.intact.as_ref().is_none_or(|intact| intact.look_at_times(&self.file, end))
            && self.gate.try_whole()
    }

    fn end_whole_write(&self) {
        self.gate.end_whole();
    }
}

#[cfg(test)]
mod tests;
