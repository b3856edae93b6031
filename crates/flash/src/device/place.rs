//! Making and opening drives at a path.

use crate::chip::BlockId;
use crate::device::drive::FlashDrive;
use crate::device::error::FlashError;
use crate::device::layer::config;
use crate::device::layout::{Layout, PAGE_BYTES, SUPERBLOCK_BYTES, copy_at};
use crate::device::nand::FileNand;
use crate::device::page::Page;
use crate::device::spec::{FlashSpec, USUAL_OP, format_op};
use crate::device::superblock::{Superblock, SuperblockError};
use crate::ftl::{Coded, Fingerprint, Ftl, NandJournal, Progress, Scheme, Secret};
use pumice_base::durable::{Medium, Unfinished};
use pumice_base::units::format_binary;
use pumice_blockdev::{
    BlockDevice, DeviceMedium, FileDevice, MemoryDevice, OpenMode, Options, check_memory, check_new_file,
    free_bytes,
};
use std::fs::{File, OpenOptions, TryLockError};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{self, Read as _};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Bytes at both ends of a place that must be zeros, if a drive is to be made there.
const BLANK: u64 = 1 << 20;

pub(crate) fn at_path<T>(path: &Path, result: io::Result<T>) -> Result<T, FlashError> {
    result.map_err(|source| FlashError::Path { path: path.display().to_string(), source })
}

fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}

/// A number that no other drive has.
fn identity() -> [u8; 16] {
    ((u128::from(random()) << 64) | u128::from(random())).to_le_bytes()
}

/// A secret that nobody can guess.
fn draw() -> io::Result<Secret> {
    let mut bytes = [0; 32];
    File::open("/dev/urandom").and_then(|mut source| source.read_exact(&mut bytes))?;
    Ok(Secret(bytes))
}

/// The largest capacity whose drive fits into so many bytes.
fn largest(bytes: u64, op: u32) -> Option<u64> {
    let fits = |pages: u64| {
        Layout::of_drive(pages * u64::from(PAGE_BYTES), op).is_ok_and(|(l, _)| l.file_bytes() <= bytes)
    };
    let (mut low, mut high) = (0, (bytes / u64::from(PAGE_BYTES)).min((1 << 31) - 1));
    // More pages take more room, but for the steps between sizes of blocks.
    while low < high {
        let middle = low + (high - low).div_ceil(2);
        if fits(middle) { low = middle } else { high = middle - 1 }
    }
    (low > 0).then(|| low * u64::from(PAGE_BYTES))
}

/// The description of a drive before it is made.
///
/// # Errors
/// If it has no capacity, or cannot be laid out; or if nothing is at its path, which looks as if an
/// option were misspelt.
pub fn plan(spec: &FlashSpec) -> Result<Superblock, FlashError> {
    let op = spec.op.unwrap_or(USUAL_OP);
    let meta = std::fs::metadata(&spec.path);
    let is_device = meta.as_ref().is_ok_and(|meta| meta.file_type().is_block_device());
    if meta.is_err() {
        spec.check_name()?;
    }
    let capacity = match spec.capacity {
        Some(capacity) => Some(capacity),
        None if is_device => {
            let device = FileDevice::open(&spec.path, OpenMode::ReadOnly, Options::default())?;
            largest(device.size_bytes(), op)
        }
        None => None,
    };
    laid_out(spec, capacity, op)
}

fn laid_out(spec: &FlashSpec, capacity: Option<u64>, op: u32) -> Result<Superblock, FlashError> {
    let capacity = capacity.ok_or_else(|| FlashError::NoCapacity(spec.to_string()))?;
    let (layout, logical) = Layout::of_drive(capacity, op)
        .map_err(|source| FlashError::Layout { path: spec.to_string(), source })?;
    let scheme = spec.dedup.unwrap_or(Scheme::None);
    let secret = Some(at_path(&spec.path, draw())?);
    let fingerprint = Fingerprint::Blake3;
    Ok(Superblock { identity: identity(), layout, logical, op, scheme, fingerprint, secret })
}

/// Makes a drive in memory, which lives as long as it is open. The path of `spec` only names it.
///
/// # Errors
/// If it has no capacity, cannot be laid out, or this machine does not have that much memory.
pub fn in_memory(spec: &FlashSpec) -> Result<FlashDrive, FlashError> {
    let superblock = laid_out(spec, spec.capacity, spec.op.unwrap_or(USUAL_OP))?;
    let name = spec.path.display().to_string();
    let bytes = superblock.layout.file_bytes();
    // The tables of the translation layer come on top.
    let device = check_memory(bytes.saturating_add(superblock.memory_bytes()))
        .and_then(|()| MemoryDevice::try_new(&name, bytes))
        .map_err(|error| FlashError::Field { field: "capacity", why: error.to_string() })?;
    let device = Arc::new(device);
    write_drive(Arc::clone(&device) as _, &superblock, Room::All)?;
    FlashDrive::open(device, &superblock, superblock.scheme, &name)
        .map_err(|source| FlashError::Ftl { path: name, source })
}

/// The contents of the path of a drive that is to be made.
#[derive(Debug)]
enum There {
    Nothing,
    /// An empty file.
    Empty,
    /// A file with something in it, held.
    File(FileDevice),
    /// A block device, held.
    Device(FileDevice),
}

/// Looks whether a drive can be made at a path. Writes nothing.
fn look(spec: &FlashSpec, superblock: &Superblock, overwrite: bool) -> Result<There, FlashError> {
    let path = &spec.path;
    let needs = superblock.layout.file_bytes();
    let Some(meta) = at_path(path, found(path))? else { return Ok(There::Nothing) };
    if !meta.file_type().is_block_device() {
        if !meta.file_type().is_file() {
            let why = io::Error::new(io::ErrorKind::InvalidInput, "is neither a block device nor a file");
            return at_path(path, Err(why));
        }
        if !overwrite && meta.len() > 0 {
            return Err(FlashError::NotEmpty(spec.to_string()));
        }
        return Ok(if meta.len() == 0 { There::Empty } else { There::File(open_device(path)?) });
    }
    let device = open_device(path)?;
    if device.size_bytes() < needs {
        return Err(FlashError::Short { path: spec.to_string(), has: device.size_bytes(), needs });
    }
    if !overwrite && !is_blank(&device)? {
        return Err(FlashError::NotEmpty(spec.to_string()));
    }
    Ok(There::Device(device))
}

/// Finds out whether [`format`](fn@format) would refuse to make a drive, or lack the room or the
/// permission for it. Writes nothing; what is at the path is held for a moment.
///
/// # Errors
/// As [`format`](fn@format).
pub fn check_place(spec: &FlashSpec, superblock: &Superblock, overwrite: bool) -> Result<(), FlashError> {
    let path = &spec.path;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let has = match look(spec, superblock, overwrite)? {
        There::Device(_) => return Ok(()),
        There::File(_) => at_path(path, std::fs::metadata(path))?.blocks() * 512,
        There::Empty => lock_empty(path).map(|_| 0)?,
        There::Nothing => {
            at_path(path, path.file_name().ok_or_else(|| io::ErrorKind::InvalidInput.into()))?;
            at_path(path, check_new_file(folder))?;
            0
        }
    };
    let needs = superblock.layout.file_bytes();
    let has = at_path(path, free_bytes(folder))?.saturating_add(has);
    if has < needs { Err(FlashError::NoRoom { path: spec.to_string(), has, needs }) } else { Ok(()) }
}

/// Makes a drive at a path. What is there is destroyed if `overwrite` says so, else refused.
///
/// # Errors
/// If there is something, or it cannot be made.
pub fn format(spec: &FlashSpec, superblock: &Superblock, overwrite: bool) -> Result<(), FlashError> {
    let path = &spec.path;
    match look(spec, superblock, overwrite)? {
        There::Nothing => make_file(path, superblock),
        There::Empty => fill_empty(path, superblock),
        There::File(held) => {
            // Held before its length changes: somebody may have it open.
            let file = at_path(path, OpenOptions::new().write(true).open(path))?;
            at_path(path, file.set_len(superblock.layout.file_bytes()))?;
            drop(held);
            write_drive(Arc::new(open_device(path)?), superblock, Room::OfFile)
        }
        There::Device(device) => write_drive(Arc::new(device), superblock, Room::All),
    }
}

fn found(path: &Path) -> io::Result<Option<std::fs::Metadata>> {
    match std::fs::metadata(path) {
        Ok(meta) => Ok(Some(meta)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

pub(crate) fn open_device(path: &Path) -> Result<FileDevice, FlashError> {
    Ok(FileDevice::open(path, OpenMode::ReadWrite, Options::default())?)
}

fn is_blank(device: &FileDevice) -> Result<bool, FlashError> {
    let len = device.size_bytes().min(BLANK);
    let mut bytes = vec![0; len as usize];
    for at in [0, device.size_bytes() - len] {
        device.read_at(at, &mut bytes)?;
        if bytes.iter().any(|byte| *byte != 0) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Opens and locks a file that is there and empty.
fn lock_empty(path: &Path) -> Result<File, FlashError> {
    let name = || path.display().to_string();
    let file = at_path(path, OpenOptions::new().write(true).open(path))?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Err(FlashError::InUse(name())),
        Err(TryLockError::Error(error)) => return at_path(path, Err(error)),
    }
    if at_path(path, file.metadata())?.len() > 0 {
        return Err(FlashError::NotEmpty(name()));
    }
    Ok(file)
}

/// Makes a drive in a file that is there and empty. It is empty again if that fails.
fn fill_empty(path: &Path, superblock: &Superblock) -> Result<(), FlashError> {
    // Held before its length changes: somebody may be making a drive of it.
    let file = lock_empty(path)?;
    at_path(path, file.set_len(superblock.layout.file_bytes()))?;
    at_path(path, file.unlock())?;
    // If somebody else has it now, it is theirs.
    let device = Arc::new(open_device(path)?);
    let made = write_drive(Arc::clone(&device) as _, superblock, Room::OfFile);
    if made.is_err() {
        // The device is held until this is done. The first error is told.
        let _ = file.set_len(0);
    }
    made
}

/// Makes a drive in a new file, which gets its name when it is whole.
fn make_file(path: &Path, superblock: &Superblock) -> Result<(), FlashError> {
    let name = path.file_name().ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput));
    let mut hidden = at_path(path, name)?.to_owned();
    // A name of its own: a file of another name may be a drive that is being served.
    hidden.push(format!(".{:016x}.new", random()));
    let new = path.with_file_name(hidden);
    let mut options = OpenOptions::new();
    let opened = Unfinished::create(&new, options.write(true).create_new(true).mode(0o600));
    // Errors name the path that was asked for.
    let (_unfinished, file) = at_path(path, opened)?;
    let made = fill_new(&new, &file, superblock).and_then(|()| {
        // Without replacing: somebody else may have made it meanwhile.
        at_path(path, std::fs::hard_link(&new, path))
    });
    let removed = at_path(&new, std::fs::remove_file(&new));
    made?;
    removed?;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    at_path(path, File::open(folder.unwrap_or(Path::new("."))).and_then(|folder| folder.sync_all()))
}

fn fill_new(new: &Path, file: &File, superblock: &Superblock) -> Result<(), FlashError> {
    at_path(new, file.set_len(superblock.layout.file_bytes()))?;
    write_drive(Arc::new(open_device(new)?), superblock, Room::OfFile)
}

/// The allocation of the room of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Room {
    All,
    /// It is a file, of which parts may be holes.
    OfFile,
}

/// Writes a new drive. Its superblock comes last, so that there is none before it is whole.
fn write_drive(device: Arc<dyn BlockDevice>, superblock: &Superblock, room: Room) -> Result<(), FlashError> {
    let (layout, copy) = (superblock.layout, copy_at(device.size_bytes()));
    let path = PathBuf::from(device.name());
    device.zero(0, SUPERBLOCK_BYTES)?;
    device.zero(copy, SUPERBLOCK_BYTES)?;
    device.flush()?;
    if room == Room::OfFile {
        // Room for all of it, so that no write finds the file system full.
        device.zero(0, layout.file_bytes())?;
    } else {
        for block in (0..layout.geometry().blocks).map(BlockId) {
            device.zero(layout.footer_at(block), layout.footer_bytes() as u64)?;
        }
    }
    device.flush()?;
    let medium = DeviceMedium(device);
    let nand = Coded::new(FileNand::erased(medium.clone(), layout), superblock.sums());
    let journal = NandJournal::new(layout.geometry(), superblock.logical);
    let config = config(superblock, superblock.scheme);
    Ftl::<_, _, Page>::format(nand, journal, config)
        .map_err(|source| FlashError::Ftl { path: path.display().to_string(), source })?;
    at_path(&path, superblock.write(&medium, copy))?;
    at_path(&path, superblock.write(&medium, 0))
}

/// The superblock of a drive. The copy at the end is not looked at: that takes [`copy_of`].
///
/// # Errors
/// If there is none that can be used.
pub(crate) fn superblock_of(path: &Path, device: &Arc<FileDevice>) -> Result<Superblock, FlashError> {
    let medium = DeviceMedium(Arc::clone(device) as _);
    let name = || path.display().to_string();
    if device.size_bytes() < SUPERBLOCK_BYTES {
        return Err(FlashError::Superblock { path: name(), source: SuperblockError::None });
    }
    let superblock = match at_path(path, Superblock::read(&medium, 0))? {
        Ok(superblock) => superblock,
        Err(SuperblockError::None) if copy_of(path, device)?.is_some() => {
            return Err(FlashError::CopyLeft(name()));
        }
        Err(source) => return Err(FlashError::Superblock { path: name(), source }),
    };
    let (has, needs) = (device.size_bytes(), superblock.layout.file_bytes());
    if has < needs {
        return Err(FlashError::Short { path: name(), has, needs });
    }
    Ok(superblock)
}

/// Returns whether a file or device holds a flash drive of any version, or what is left of one: a
/// superblock at the start or at the end. What cannot be read is none.
#[must_use]
pub fn is_drive(device: &dyn BlockDevice) -> bool {
    let (medium, size) = (Read(device), device.size_bytes());
    let holds = |at| match Superblock::read(&medium, at) {
        Ok(found) => found != Err(SuperblockError::None),
        Err(_) => false,
    };
    size >= SUPERBLOCK_BYTES && (holds(0) || holds(copy_at(size)))
}

/// A device that is only looked at.
struct Read<'d>(&'d dyn BlockDevice);

impl Medium for Read<'_> {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        self.0.read_at(offset, buf).map_err(pumice_blockdev::IoError::into_io)
    }

    fn write_at(&self, _: u64, _: &[u8]) -> io::Result<()> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }
}

/// The copy of the superblock at the end of a file or device.
pub(crate) fn copy_of(path: &Path, device: &Arc<FileDevice>) -> Result<Option<Superblock>, FlashError> {
    let at = copy_at(device.size_bytes());
    let copy = at_path(path, Superblock::read(&DeviceMedium(Arc::clone(device) as _), at))?;
    Ok(copy.ok().filter(|copy| copy.layout.file_bytes() <= device.size_bytes()))
}

/// Opens a drive for reading and writing, and makes it if nothing is at its path. Also says whether
/// it was made.
///
/// # Errors
/// If it cannot be opened or made, or is not as it is asked for.
pub fn open(spec: &FlashSpec, name: &str) -> Result<(FlashDrive, bool), FlashError> {
    open_telling(spec, name, &mut |_| {})
}

/// Does the same, and tells how far it is with the recovery.
///
/// # Errors
/// As [`open`].
pub fn open_telling(
    spec: &FlashSpec,
    name: &str,
    progress: &mut dyn FnMut(Progress),
) -> Result<(FlashDrive, bool), FlashError> {
    let path = &spec.path;
    let made = at_path(path, found(path))?.is_none();
    if made {
        format(spec, &plan(spec)?, false)?;
    }
    let device = Arc::new(open_device(path)?);
    let superblock = superblock_of(path, &device)?;
    let differs = |field, has: String, asked: String| {
        Err(FlashError::Differs { path: spec.to_string(), field, has, asked })
    };
    if let Some(capacity) = spec.capacity.filter(|capacity| *capacity != superblock.capacity()) {
        return differs("capacity", format_binary(superblock.capacity()), format_binary(capacity));
    }
    if let Some(op) = spec.op.filter(|op| *op != superblock.op) {
        return differs("op", format_op(superblock.op), format_op(op));
    }
    let superblock = with_secret(path, &device, superblock)?;
    let scheme = spec.dedup.unwrap_or(superblock.scheme);
    let drive = FlashDrive::open_telling(device, &superblock, scheme, name, progress)
        .map_err(|source| FlashError::Ftl { path: spec.to_string(), source })?;
    Ok((drive, made))
}

/// Gives a drive of an earlier version a secret. The copy at the end gets it first: if the
/// superblock at the start is lost one day, the copy must know what the pages are summed with.
/// Until the one at the start is written no page is.
fn with_secret(path: &Path, device: &Arc<FileDevice>, had: Superblock) -> Result<Superblock, FlashError> {
    if had.secret.is_some() {
        return Ok(had);
    }
    let drawn = copy_of(path, device)?.filter(|copy| copy.identity == had.identity);
    let secret = match drawn.and_then(|copy| copy.secret) {
        Some(secret) => secret,
        None => at_path(path, draw())?,
    };
    let superblock = Superblock { secret: Some(secret), ..had };
    let medium = DeviceMedium(Arc::clone(device) as _);
    at_path(path, superblock.write(&medium, copy_at(device.size_bytes())))?;
    at_path(path, superblock.write(&medium, 0))?;
    Ok(superblock)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_drive_fits_and_no_larger_one_does() {
        for bytes in [8 << 20, 100 << 20, (1 << 30) + 12_345, 1 << 36] {
            let capacity = largest(bytes, 700).unwrap();
            let size = |capacity| Layout::of_drive(capacity, 700).unwrap().0.file_bytes();
            assert!(size(capacity) <= bytes && size(capacity) >= bytes / 2, "{bytes}: {capacity}");
        }
        assert_eq!(largest(1 << 20, 700), None);
    }
}
