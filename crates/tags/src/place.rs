//! The place of a tag file: a file, a block device, or memory.

use crate::file::{SharedMedium, TagError, TagFile};
use crate::geometry::{Geometry, InvalidGeometry, LOG_AT, MIN_LOG};
use crate::header::MAX_SERIAL;
use pumice_blockdev::{BlockDevice, DeviceMedium, FileDevice, IoError, MemoryDevice, OpenMode, Options};
use pumice_durable::Medium;
use pumice_protect::format::Place;
use pumice_protect::metadata::MetadataFormat;
use std::fs::{File, OpenOptions};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{self, ErrorKind};
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

/// Why there is no tag file at a place.
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
        /// What is wrong.
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
        /// What differs.
        field: &'static str,
        /// What the tag file has.
        found: String,
        /// What is asked for.
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
    let unit = drive.logical_block();
    let geometry = Geometry::new(drive.size_bytes(), block, unit, wanted, LOG_BYTES)?;
    let tags = |source| PlaceError::Tags { path: name(), source };
    let mut made = make_file(path, geometry, serial).map_err(tags)?;
    let options = Options::default();
    let device = Arc::new(FileDevice::open(path, OpenMode::ReadWrite, options)?);
    let mut medium = medium_on(&device);
    if is_blank_device(path, &device, &geometry).map_err(|error| tags(error.into()))? {
        TagFile::create(&medium, geometry, identity(), serial).map_err(tags)?;
        made = true;
    }
    let header = TagFile::peek(&medium).map_err(tags)?;
    check_format(path, &header.geometry, block, wanted)?;
    let len = device.size_bytes();
    if !len.is_multiple_of(GRAIN) && path.is_file() {
        // It was made before lengths were such. Its lock is held; it is written to only if nothing
        // will refuse it.
        TagFile::check(&medium, drive, serial).map_err(tags)?;
        drop(medium);
        let device = Arc::into_inner(device).expect("the medium is gone");
        let device = device.lengthened(len.next_multiple_of(GRAIN), options)?;
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
    let mut hidden = name.to_owned();
    hidden.push(".new");
    let new = path.with_file_name(hidden);
    let file =
        OpenOptions::new().read(true).write(true).create(true).truncate(true).mode(0o600).open(&new)?;
    file.set_len(geometry.file_bytes().next_multiple_of(GRAIN))?;
    // The log has its room from the start: to allocate it would cost every first sync of a record
    // a commit of the file system.
    let zeros = vec![0; PIECE];
    for at in (LOG_AT..LOG_AT + geometry.log_bytes()).step_by(PIECE) {
        let len = (LOG_AT + geometry.log_bytes() - at).min(PIECE as u64) as usize;
        file.write_all_at(&zeros[..len], at)?;
    }
    TagFile::create(&NewFile(file), geometry, identity(), serial)?;
    // Without replacing: somebody else may have made it meanwhile.
    std::fs::hard_link(&new, path)?;
    std::fs::remove_file(&new)?;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    File::open(folder.unwrap_or(Path::new(".")))?.sync_all()?;
    Ok(true)
}

/// Whether a tag file is to be made on a block device: it is large enough, and begins with zeros
/// where the header goes.
fn is_blank_device(path: &Path, device: &FileDevice, geometry: &Geometry) -> io::Result<bool> {
    if !std::fs::metadata(path)?.file_type().is_block_device() {
        return Ok(false);
    }
    if device.size_bytes() < geometry.file_bytes() {
        let (has, needs) = (device.size_bytes(), geometry.file_bytes());
        return Err(io::Error::other(format!("it has {has} bytes, but the tags need {needs}")));
    }
    let mut begin = vec![0; LOG_AT as usize];
    device.read_at(0, &mut begin).map_err(IoError::into_io)?;
    Ok(begin.iter().all(|byte| *byte == 0))
}

/// The serial number of a block device, as the system tells it; empty for a file, or if the system
/// does not know it.
#[must_use]
pub fn serial_of(path: &Path) -> String {
    let real = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let Some(name) = real.file_name() else { return String::new() };
    let about = Path::new("/sys/class/block").join(name);
    let read = |file: &str| std::fs::read_to_string(about.join(file)).ok();
    let text = ["wwid", "device/wwid", "device/serial", "dm/uuid", "md/uuid"].iter().find_map(|f| read(f));
    let text = text.unwrap_or_default();
    let mut serial: String = text.trim().chars().filter(|c| !c.is_control()).collect();
    while serial.len() > MAX_SERIAL {
        serial.pop();
    }
    serial
}
