//! The place of a tag file: a file, a block device, or memory.

use crate::file::{SharedMedium, TagError, TagFile, check_length, sizes_for};
use crate::geometry::{Geometry, InvalidGeometry, LOG_AT, MIN_LOG};
use crate::header::MAX_SERIAL;
use pumice_base::durable::{Medium, Unfinished};
use pumice_blockdev::{
    BlockDevice, DeviceMedium, FileDevice, IoError, MemoryDevice, OpenMode, Options, allocate,
};
use pumice_protect::format::Place;
use pumice_protect::metadata::MetadataFormat;
use std::fs::{File, OpenOptions};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{self, ErrorKind};
use std::ops::Range;
use std::os::unix::fs::{FileExt, FileTypeExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;
use thiserror::Error;

/// Bytes of a new log that are allocated at a time.
const PIECE: usize = 1 << 20;
/// A tag file is a multiple of so many bytes long: others cannot be written past the page cache.
const GRAIN: u64 = 4096;
/// Bytes of a new log: room for some thousand writes.
const LOG_BYTES: u64 = 8 << 20;
/// The most bytes of a new log that carries data: room for 64 of the longest records.
const MOST_LOG: u64 = 64 << 20;

/// Sizes for a new tag file, with a log of the usual length.
fn new_geometry(size: u64, block: u32, unit: u32, metadata: MetadataFormat) -> Result<Geometry, PlaceError> {
    let log = if unit < block { (size / 8 / GRAIN * GRAIN).clamp(LOG_BYTES, MOST_LOG) } else { LOG_BYTES };
    Ok(Geometry::new(size, block, unit, metadata, log)?)
}

/// Reasons why there is no tag file at a place.
#[derive(Debug, Error)]
pub enum PlaceError {
    /// It cannot be opened.
    #[error(transparent)]
    Open(#[from] IoError),
    /// It is not what it should be.
    #[error("{path}: {source}")]
    Tags {
        /// The place.
        path: String,
        /// The field that is wrong.
        source: TagError,
    },
    /// The drive cannot have tags.
    #[error(transparent)]
    Geometry(#[from] InvalidGeometry),
    /// The tag file is of another format.
    #[error("{path}: {field}: the tags have {found}, but {wanted} was given")]
    Format {
        /// The place.
        path: String,
        /// The field that differs.
        field: &'static str,
        /// The value in the tag file.
        found: String,
        /// The value that is asked for.
        wanted: String,
    },
}

/// A number that no other tag file has.
fn identity() -> u64 {
    RandomState::new().build_hasher().finish()
}

/// Makes tags in memory, for a drive that is in memory itself.
///
/// # Errors
/// If the drive cannot have tags.
pub fn make_in_memory(
    drive: &dyn BlockDevice,
    block: u32,
    metadata: impl Into<MetadataFormat>,
) -> Result<SharedMedium, PlaceError> {
    // Nothing survives a crash here, so the log may be small; it is emptied for nothing.
    let geometry = Geometry::new(drive.size_bytes(), block, block, metadata, MIN_LOG * 4)?;
    let memory = MemoryDevice::new("tags", geometry.file_bytes());
    let medium = SharedMedium(Arc::new(DeviceMedium(Arc::new(memory))));
    let tags = |source| PlaceError::Tags { path: "tags in memory".to_owned(), source };
    TagFile::create(&medium, geometry, identity(), "").map_err(tags)?;
    Ok(medium)
}

/// Opens the tag file of a drive, and holds it against other programs; makes it if `path` does not
/// exist. Also says whether it was made.
///
/// # Errors
/// If it cannot be opened or made, or is of other blocks or metadata.
pub fn open_place(
    path: &Path,
    drive: &dyn BlockDevice,
    block: u32,
    metadata: impl Into<MetadataFormat>,
    serial: &str,
) -> Result<(SharedMedium, bool), PlaceError> {
    let wanted = metadata.into();
    let name = || path.display().to_string();
    let unit = drive.atomic_unit();
    let mut geometry = new_geometry(drive.size_bytes(), block, unit, wanted)?;
    let tags = |source| PlaceError::Tags { path: name(), source };
    let mut made = make_file(path, geometry, serial).map_err(tags)?;
    let options = Options::default();
    let device = Arc::new(FileDevice::open(path, OpenMode::ReadWrite, options)?);
    let mut medium = medium_on(&device);
    if device.size_bytes() < geometry.file_bytes() {
        geometry = Geometry::new(drive.size_bytes(), block, unit, wanted, LOG_BYTES)?;
    }
    if is_blank_device(path, &device, &geometry).map_err(|error| tags(error.into()))? {
        TagFile::create(&medium, geometry, identity(), serial).map_err(tags)?;
        made = true;
    }
    let header = TagFile::peek(&medium).map_err(tags)?;
    check_format(path, &header.geometry, block, wanted)?;
    check_length(&medium, &header).map_err(tags)?;
    let len = device.size_bytes();
    let needs = sizes_for(&header.geometry, drive).file_bytes().max(len).next_multiple_of(GRAIN);
    if needs != len && path.is_file() {
        // It was made before lengths were such, or for a larger unit of writing. Its lock is held;
        // it is written to only if nothing will refuse it.
        TagFile::check(&medium, drive, serial).map_err(tags)?;
        drop(medium);
        let device = Arc::into_inner(device).expect("the medium is gone");
        let device = device.lengthened(needs, options)?;
        medium = medium_on(&Arc::new(device));
    }
    Ok((medium, made))
}

fn medium_on(device: &Arc<FileDevice>) -> SharedMedium {
    SharedMedium(Arc::new(DeviceMedium(device.clone())))
}

/// Refuses a tag file of other blocks or metadata.
fn check_format(path: &Path, found: &Geometry, block: u32, wanted: MetadataFormat) -> Result<(), PlaceError> {
    let name = || path.display().to_string();
    let format =
        |field, found: String, wanted: String| Err(PlaceError::Format { path: name(), field, found, wanted });
    if found.block_bytes() != block as usize {
        return format("block size", format!("{} bytes", found.block_bytes()), format!("{block}"));
    }
    let found = found.format().metadata();
    if found.guard() != wanted.guard() {
        return format("pi", found.guard().to_string(), wanted.guard().to_string());
    }
    if found.bytes() != wanted.bytes() {
        return format("metadata", format!("{} bytes", found.bytes()), wanted.bytes().to_string());
    }
    if found.place() != wanted.place() {
        let word = |metadata: MetadataFormat| match metadata.place() {
            Place::First => "first".to_owned(),
            Place::Last => "last".to_owned(),
        };
        return format("pi-place", format!("the tuple {}", word(found)), word(wanted));
    }
    if found.storage_bits() != wanted.storage_bits() {
        let bits = |metadata: MetadataFormat| metadata.storage_bits().to_string();
        return format("storage-tag", format!("{} bits", bits(found)), bits(wanted));
    }
    Ok(())
}

/// A file that is being made.
struct NewFile(File);

impl Medium for NewFile {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        self.0.read_exact_at(buf, offset)
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.0.write_all_at(data, offset)
    }

    fn sync(&self) -> io::Result<()> {
        self.0.sync_all()
    }
}

/// Makes a tag file: whether there was nothing of that name. It gets its name when it is whole.
fn make_file(path: &Path, geometry: Geometry, serial: &str) -> Result<bool, TagError> {
    if path.try_exists()? {
        return Ok(false);
    }
    let name = path.file_name().ok_or_else(|| io::Error::from(ErrorKind::InvalidInput))?;
    // A name of its own: whatever is there may be the tag file of another drive.
    let mut hidden = name.to_owned();
    hidden.push(format!(".{:016x}.new", identity()));
    let new = path.with_file_name(hidden);
    let mut options = OpenOptions::new();
    let (_unfinished, file) =
        Unfinished::create(&new, options.read(true).write(true).create_new(true).mode(0o600))?;
    let made = fill(file, geometry, serial).and_then(|()| {
        // Without replacing: somebody else may have made it meanwhile.
        Ok(std::fs::hard_link(&new, path)?)
    });
    std::fs::remove_file(&new)?;
    made?;
    sync_folder(path)?;
    Ok(true)
}

/// Makes a new file a tag file. Durable when this returns.
fn fill(file: File, geometry: Geometry, serial: &str) -> Result<(), TagError> {
    let len = geometry.file_bytes().next_multiple_of(GRAIN);
    file.set_len(len)?;
    // That there is no room must be known now: later, all writes of the drive would fail.
    allocate(&file, len)?;
    // The log is written from the start: to allocate it would cost every first sync of a record
    // a commit of the file system.
    let zeros = vec![0; PIECE];
    for at in (LOG_AT..LOG_AT + geometry.log_bytes()).step_by(PIECE) {
        let len = (LOG_AT + geometry.log_bytes() - at).min(PIECE as u64) as usize;
        file.write_all_at(&zeros[..len], at)?;
    }
    TagFile::create(&NewFile(file), geometry, identity(), serial)
}

/// Returns whether a tag file is to be made on a block device: it is large enough, and blank.
fn is_blank_device(path: &Path, device: &FileDevice, geometry: &Geometry) -> io::Result<bool> {
    Ok(std::fs::metadata(path)?.file_type().is_block_device() && is_blank(device, geometry)?)
}

/// Returns whether a device holds zeros where the header of a tag file goes. Then it must hold
/// zeros where the log goes, and at its end: file systems begin with zeros of up to 64 KiB, and
/// members of arrays may be described at their end.
fn is_blank(device: &dyn BlockDevice, geometry: &Geometry) -> io::Result<bool> {
    let (has, needs) = (device.size_bytes(), geometry.file_bytes());
    if has < needs {
        return Err(io::Error::other(format!("it has {has} bytes, but the tags need {needs}")));
    }
    if !is_zeros(device, 0..LOG_AT)? {
        return Ok(false);
    }
    let log = LOG_AT..LOG_AT + geometry.log_bytes();
    let end = has.saturating_sub(PIECE as u64).max(log.end)..has;
    if is_zeros(device, log)? && is_zeros(device, end)? {
        return Ok(true);
    }
    Err(io::Error::other("it is no tag file, and does not hold zeros only"))
}

fn is_zeros(device: &dyn BlockDevice, range: Range<u64>) -> io::Result<bool> {
    let mut piece = vec![0; PIECE];
    for at in range.clone().step_by(PIECE) {
        let piece = &mut piece[..(range.end - at).min(PIECE as u64) as usize];
        device.read_at(at, piece).map_err(IoError::into_io)?;
        if piece.iter().any(|byte| *byte != 0) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Opens the tag file of a drive for reading, and holds it against programs that write it. Nothing
/// is made or changed, so the file system may be read-only.
///
/// # Errors
/// If it cannot be opened, another program uses it, or it is of other blocks or metadata.
pub fn open_place_to_read(
    path: &Path,
    block: u32,
    metadata: impl Into<MetadataFormat>,
) -> Result<SharedMedium, PlaceError> {
    let tags = |source| PlaceError::Tags { path: path.display().to_string(), source };
    let device = FileDevice::open(path, OpenMode::ReadOnly, Options::default())?;
    device.hold_to_read()?;
    let medium = medium_on(&Arc::new(device));
    let header = TagFile::peek(&medium).map_err(tags)?;
    check_format(path, &header.geometry, block, metadata.into())?;
    check_length(&medium, &header).map_err(tags)?;
    Ok(medium)
}

/// Removes a tag file. Durable when this returns: after a power cut it does not come back, beside a
/// drive that was written without it.
///
/// # Errors
/// If it cannot be removed, or its folder fails to sync.
pub fn remove_place(path: &Path) -> io::Result<()> {
    std::fs::remove_file(path)?;
    sync_folder(path)
}

/// Makes durable which files the folder of a file has.
fn sync_folder(path: &Path) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
}

/// The serial number of a block device, as the system tells it; empty for a file, or if the system
/// does not know it. That of a partition is its disk's, with its number.
#[must_use]
pub fn serial_of(path: &Path) -> String {
    let real = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let Some(name) = real.file_name() else { return String::new() };
    serial_in(&Path::new("/sys/class/block").join(name))
}

/// The serial number by the folder in which the system describes a block device.
fn serial_in(about: &Path) -> String {
    let partition = std::fs::read_to_string(about.join("partition")).ok();
    let suffix = partition.map_or_else(String::new, |number| format!("-part{}", number.trim()));
    // A partition lies in its disk's folder.
    let disk = if suffix.is_empty() { about.to_owned() } else { about.join("..") };
    let read = |file: &str| std::fs::read_to_string(disk.join(file)).ok();
    let text = ["wwid", "device/wwid", "device/serial", "dm/uuid", "md/uuid"].iter().find_map(|f| read(f));
    let text = text.unwrap_or_default();
    let mut serial: String = text.trim().chars().filter(|c| !c.is_control()).collect();
    if serial.is_empty() {
        return serial;
    }
    while serial.len() > MAX_SERIAL - suffix.len() {
        serial.pop();
    }
    serial + &suffix
}

#[cfg(test)]
mod tests {
    use super::*;
    use pumice_protect::guard::Guard;

    #[test]
    fn a_partition_has_the_serial_number_of_its_disk_and_its_own_number() {
        let folder = tempfile::tempdir().unwrap();
        let disk = folder.path().join("sdb");
        for number in [1, 12] {
            let part = disk.join(format!("sdb{number}"));
            std::fs::create_dir_all(&part).unwrap();
            std::fs::write(part.join("partition"), format!("{number}\n")).unwrap();
            assert_eq!(serial_in(&part), "", "the disk has none");
        }
        std::fs::write(disk.join("wwid"), "naa.5000c500a1b2c3d4\n").unwrap();
        assert_eq!(serial_in(&disk), "naa.5000c500a1b2c3d4");
        assert_eq!(serial_in(&disk.join("sdb12")), "naa.5000c500a1b2c3d4-part12");
        std::fs::write(disk.join("wwid"), "x".repeat(200)).unwrap();
        let serial = serial_in(&disk.join("sdb1"));
        assert_eq!((serial.len(), serial.ends_with("x-part1")), (MAX_SERIAL, true));
    }

    #[test]
    fn a_log_that_carries_data_is_an_eighth_of_the_drive_within_bounds() {
        let log = |size, block, unit| {
            new_geometry(size, block, unit, MetadataFormat::tuple(Guard::Crc16)).unwrap().log_bytes()
        };
        let sizes = [1 << 20, 64 << 20, (80 << 20) + 4096, 512 << 20, 1 << 40];
        let expected = [8 << 20, 8 << 20, 10 << 20, 64 << 20, 64 << 20];
        assert_eq!(sizes.map(|size| log(size, 4096, 512)), expected);
        assert_eq!(sizes.map(|size| log(size, 4096, 4096)), [8 << 20; 5]);
        assert_eq!(sizes.map(|size| log(size, 512, 512)), [8 << 20; 5]);
    }

    #[test]
    fn a_device_that_holds_something_is_not_taken_for_a_blank_one() {
        let geometry = Geometry::new(1 << 20, 512, 512, Guard::Crc16, MIN_LOG * 4).unwrap();
        let size = (4 << 20) as usize;
        let with = |at: usize| {
            let device = MemoryDevice::new("m", size as u64);
            device.write_at(at as u64, &[1]).unwrap();
            is_blank(&device, &geometry)
        };
        assert!(is_blank(&MemoryDevice::new("m", size as u64), &geometry).unwrap());
        // Of what begins with something, the header says whether it is a tag file.
        assert!(!with(0).unwrap() && !with(8191).unwrap());
        // A file system at 64 KiB; members of arrays at the end.
        for at in [8192, 65_600, LOG_AT as usize + (MIN_LOG as usize * 4) - 1, size - (64 << 10), size - 1] {
            assert!(with(at).is_err(), "{at}");
        }
        assert!(is_blank(&MemoryDevice::new("m", 4096), &geometry).is_err());
    }
}
