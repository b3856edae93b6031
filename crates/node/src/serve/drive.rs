//! A drive as it is served: its backend and its identity.

use super::flash_drive::{last_part, open_flash};
use super::tagging::{TagFields, Tagging, TaggingError};
use pumice_blockdev::{
    BlockDevice, FileDevice, IoError, LimitedDevice, MarkedDevice, MarksError, MemoryDevice, NoMemory,
    OpenMode, Options, TagFormat, check_memory,
};
use pumice_flashdrive::{FlashError, FlashSpec};
use pumice_nvme::spec::identify::Namespace;
use pumice_protect::block_format::BlockFormat;
use pumice_protect::format::{Place, Type};
use pumice_protect::guard::Guard;
use pumice_protect::metadata::MetadataFormat;
use pumice_tags::{NewMemoryError, PlaceError};
use pumice_units::{format_binary, parse_size};
use sha2::{Digest, Sha256};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

/// What holds a drive's blocks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Backend {
    /// Memory of so many bytes; lost when the node ends.
    Memory(u64),
    /// A block device or an image file.
    Path(PathBuf),
    /// A block device or an image file, also one that holds a flash drive: its bytes are served as
    /// they are.
    Plain(PathBuf),
    /// A flash drive in a file or on a block device: the translation layer is the node's.
    Flash(FlashSpec),
}

/// Why a drive cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum BackendError {
    /// `mem:` and no size, or one that this machine cannot hold.
    #[error("'{text}': {why}")]
    Size {
        /// What was given.
        text: String,
        /// What is wrong with it.
        why: String,
    },
    /// The device cannot be opened.
    #[error(transparent)]
    Open(#[from] IoError),
    /// The flash drive cannot be opened or made.
    #[error(transparent)]
    Flash(#[from] FlashError),
    /// It holds a flash drive, and is to be served as it is.
    #[error(
        "{0}: it is a flash drive, which a host must not write to as it is: serve it as flash:{0}, or as plain:{0} if a host has made it one"
    )]
    IsFlash(String),
    /// Its tags cannot be used, or what was asked for makes no sense.
    #[error(transparent)]
    Tags(#[from] TaggingError),
    /// A word after a comma that is no option.
    #[error(
        "'{0}': not pi=BITS, metadata=BYTES, pi-place=PLACE, storage-tag=BITS, atomic=BYTES, on-stale=WHAT or \
         tags=PATH"
    )]
    Option(String),
    /// What hosts made unreadable on it is not known.
    #[error(transparent)]
    Marks(#[from] MarksError),
    /// The device's size is no multiple of the block size, or none at all.
    #[error("{name}: {size} bytes are not a whole number of blocks of {block} bytes")]
    Blocks {
        /// The device.
        name: String,
        /// Its size.
        size: u64,
        /// The block size.
        block: u32,
    },
    /// The device cannot be written in blocks as small as that.
    #[error("{name}: its own blocks are {own} bytes, larger than --block-size {block}")]
    TooFine {
        /// The device.
        name: String,
        /// Its block size.
        own: u32,
        /// The block size asked for.
        block: u32,
    },
}

impl FromStr for Backend {
    type Err = BackendError;

    /// `mem:SIZE`, `flash:PATH[,capacity=SIZE][,op=PERCENT][,dedup=SCHEME]`, `plain:PATH` or a
    /// path.
    fn from_str(text: &str) -> Result<Self, BackendError> {
        if let Some(flash) = text.strip_prefix("flash:") {
            return Ok(Self::Flash(flash.parse()?));
        }
        if let Some(path) = text.strip_prefix("plain:") {
            return Ok(Self::Plain(path.into()));
        }
        let Some(size) = text.strip_prefix("mem:") else { return Ok(Self::Path(text.into())) };
        parse_size(size)
            .map(Self::Memory)
            .map_err(|error| BackendError::Size { text: text.to_owned(), why: error.to_string() })
    }
}

impl std::fmt::Display for Backend {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Memory(size) => write!(f, "mem:{size}"),
            Self::Path(path) => path.display().fmt(f),
            Self::Plain(path) => write!(f, "plain:{}", path.display()),
            Self::Flash(spec) => write!(f, "flash:{spec}"),
        }
    }
}

impl Backend {
    /// The path of what holds its blocks; `None` for memory.
    #[must_use]
    pub fn path(&self) -> Option<&Path> {
        match self {
            Self::Memory(_) => None,
            Self::Path(path) | Self::Plain(path) => Some(path),
            Self::Flash(spec) => Some(&spec.path),
        }
    }
}

fn no_memory(error: NoMemory) -> String {
    let needed = format_binary(error.needed);
    match error.available {
        0 => format!("it needs {needed} of memory, and this process may not have so much"),
        available => format!("it needs {needed} of memory, and {} are available", format_binary(available)),
    }
}

/// A backend, and the tags beside it:
/// `BACKEND[,pi=BITS][,metadata=BYTES][,pi-place=PLACE][,storage-tag=BITS][,atomic=BYTES]`
/// `[,on-stale=WHAT][,tags=PATH]`.
///
/// A comma belongs to the backend's path unless one of these words and `=` follow it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DriveSource {
    /// What holds the blocks.
    pub backend: Backend,
    /// What is kept beside them, if anything.
    pub tagging: Option<Tagging>,
}

impl FromStr for DriveSource {
    type Err = BackendError;

    fn from_str(text: &str) -> Result<Self, BackendError> {
        let starts = Self::OPTIONS.iter().filter_map(|option| text.find(&format!(",{option}=")));
        let (backend, options) = text.split_at(starts.min().unwrap_or(text.len()));
        let backend: Backend = backend.parse()?;
        let mut fields = TagFields::default();
        for option in options.split(',').skip(1) {
            let (word, value) =
                option.split_once('=').ok_or_else(|| BackendError::Option(option.to_owned()))?;
            let (name, field) = match word {
                "pi" => ("pi", &mut fields.pi),
                "metadata" => ("metadata", &mut fields.metadata),
                "pi-place" => ("pi-place", &mut fields.place),
                "storage-tag" => ("storage-tag", &mut fields.storage_tag),
                "atomic" => ("atomic", &mut fields.atomic),
                "on-stale" => ("on-stale", &mut fields.on_stale),
                "tags" => ("tags", &mut fields.tags),
                _ => return Err(BackendError::Option(option.to_owned())),
            };
            if field.replace(value).is_some() {
                return Err(TaggingError::Field { field: name, why: "it is given twice".to_owned() }.into());
            }
        }
        let in_memory = matches!(backend, Backend::Memory(_));
        Ok(Self { tagging: Tagging::parse(&fields, in_memory)?, backend })
    }
}

impl DriveSource {
    /// The words of the options that concern tags.
    pub const OPTIONS: [&str; 7] =
        ["pi", "metadata", "pi-place", "storage-tag", "atomic", "on-stale", "tags"];
}

/// A device with its identity.
#[derive(Clone)]
pub struct Drive {
    pub(crate) device: Arc<dyn BlockDevice>,
    /// Its blocks without their tuples.
    format: BlockFormat,
    identity: [u8; 32],
    /// Where it is, where it is a path.
    path: Option<PathBuf>,
    /// The type of protection information of its visible face.
    kind: Type,
    /// The bits of the storage tag that are compared there.
    storage_mask: u64,
}

impl Drive {
    /// The same drive, which moves at most `rate` bytes a second: for measurements.
    #[must_use]
    pub fn limited(self, rate: u64) -> Self {
        Self { device: Arc::new(LimitedDevice::new(self.device, rate)), ..self }
    }

    /// Opens a drive. `subsystem` and `number` enter its identifiers where it is in memory; a path
    /// does where it has one, so that identifiers are the same after a restart.
    ///
    /// # Errors
    /// Where the device cannot be opened, or blocks of that size do not fit it.
    pub fn open(
        backend: &Backend,
        block_size: u32,
        subsystem: &str,
        number: usize,
    ) -> Result<Self, BackendError> {
        Self::open_as(backend, block_size, subsystem, number, None)
    }

    /// The same, with a label that hosts are shown in place of the last part of its path, or of its
    /// size.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_as(
        backend: &Backend,
        block_size: u32,
        subsystem: &str,
        number: usize,
        label: Option<&str>,
    ) -> Result<Self, BackendError> {
        Self::open_tagged(backend, None, block_size, subsystem, number, label)
    }

    /// The same, with tags beside it: a block that does not fit its tag is refused.
    ///
    /// # Errors
    /// As [`open`](Self::open), and if the tags cannot be used.
    pub fn open_tagged(
        backend: &Backend,
        tagging: Option<&Tagging>,
        block_size: u32,
        subsystem: &str,
        number: usize,
        label: Option<&str>,
    ) -> Result<Self, BackendError> {
        let beside = |device: Arc<dyn BlockDevice>, path: &Path| match tagging {
            Some(tagging) => tagging.put_beside(&device, path, block_size),
            None => Ok(device),
        };
        let (device, path): (Arc<dyn BlockDevice>, _) = match backend {
            Backend::Memory(size) => {
                let text = backend.to_string();
                let too_large = |error| BackendError::Size { text: text.clone(), why: no_memory(error) };
                let name = label.unwrap_or(&text);
                let device: Arc<dyn BlockDevice> = match tagging {
                    Some(tagging) => {
                        check_memory(tagging.memory_bytes(*size, block_size)).map_err(too_large)?;
                        let device = tagging.in_memory(name, *size, block_size);
                        Arc::new(device.map_err(|error| match error {
                            NewMemoryError::NoMemory(error) => too_large(error),
                            NewMemoryError::Geometry(error) => {
                                TaggingError::from(PlaceError::from(error)).into()
                            }
                        })?)
                    }
                    None => Arc::new(MemoryDevice::try_new(name, *size).map_err(too_large)?),
                };
                // A mark comes before a tag.
                (Arc::new(MarkedDevice::in_memory(device, block_size)), None)
            }
            Backend::Path(path) | Backend::Plain(path) => {
                let device = FileDevice::open(path, OpenMode::ReadWrite, Options::default())?;
                if matches!(backend, Backend::Path(_)) && pumice_flashdrive::is_drive(&device) {
                    return Err(BackendError::IsFlash(path.display().to_string()));
                }
                let real = path.canonicalize().unwrap_or_else(|_| path.clone());
                let device = device.named(label.map_or_else(|| last_part(&real), str::to_owned));
                let device = match tagging.and_then(|tagging| tagging.atomic) {
                    Some(unit) => device.with_atomic_unit(unit),
                    None => device,
                };
                (beside(Arc::new(device), &real)?, Some(real))
            }
            Backend::Flash(_) if tagging.is_some_and(|tagging| tagging.atomic.is_some()) => {
                let why = "what a flash drive writes all or nothing is known".to_owned();
                return Err(TaggingError::Field { field: "atomic", why }.into());
            }
            Backend::Flash(spec) => {
                let device = open_flash(spec, label)?;
                let real = spec.path.canonicalize().unwrap_or_else(|_| spec.path.clone());
                (beside(Arc::new(device), &real)?, Some(real))
            }
        };
        let place =
            path.as_ref().map_or_else(|| format!("memory {number}"), |path| path.display().to_string());
        Ok(Self { path, ..Self::with_device(device, block_size, &format!("{subsystem} {place}"))? })
    }

    /// Lets hosts make blocks unreadable (Write Uncorrectable), and keeps what they made so in a
    /// file of `folder`, named after the drive's path. A drive in memory needs no file; one of a
    /// path refuses the command without this.
    ///
    /// # Errors
    /// Where the file is there and cannot be read.
    pub fn keep_marks(mut self, folder: &Path) -> Result<Self, BackendError> {
        if let Some(path) = &self.path {
            let digest = Sha256::digest(path.as_os_str().as_encoded_bytes());
            let name: String = digest.iter().take(16).map(|byte| format!("{byte:02x}")).collect();
            let file = folder.join(format!("unreadable-{name}.marks"));
            self.device = Arc::new(MarkedDevice::with_file(self.device, self.format.data_bytes(), &file)?);
        }
        Ok(self)
    }

    /// A drive over any device; `identity` is what its identifiers are made from.
    ///
    /// # Errors
    /// Where blocks of that size do not fit the device.
    pub fn with_device(
        device: Arc<dyn BlockDevice>,
        block_size: u32,
        identity: &str,
    ) -> Result<Self, BackendError> {
        let (size, name) = (device.size_bytes(), device.name().to_owned());
        let format = BlockFormat::plain(block_size).ok();
        let fits = size != 0 && size.is_multiple_of(u64::from(block_size.max(1)));
        let Some(format) = format.filter(|_| fits) else {
            return Err(BackendError::Blocks { name, size, block: block_size });
        };
        if device.logical_block() > block_size {
            return Err(BackendError::TooFine { name, own: device.logical_block(), block: block_size });
        }
        let identity = Sha256::digest(format!("pumice drive {identity}")).into();
        Ok(Self { device, format, identity, path: None, kind: Type::One, storage_mask: u64::MAX })
    }

    /// Sets the type of protection information of its visible face; without it, type 1.
    #[must_use]
    pub fn with_type(self, kind: Type) -> Self {
        Self { kind, ..self }
    }

    /// Sets the bits of the storage tag that are compared on its visible face; without it, all.
    #[must_use]
    pub fn with_storage_mask(self, mask: u64) -> Self {
        Self { storage_mask: mask, ..self }
    }

    /// A drive over any device that has a UUID of its own: its NGUID.
    ///
    /// # Errors
    /// If blocks of that size do not fit the device.
    pub fn with_uuid(
        device: Arc<dyn BlockDevice>,
        block_size: u32,
        uuid: [u8; 16],
    ) -> Result<Self, BackendError> {
        let mut drive = Self::with_device(device, block_size, "uuid")?;
        let (nguid, rest) = drive.identity.split_at_mut(16);
        nguid.copy_from_slice(&uuid);
        rest.copy_from_slice(&uuid);
        Ok(drive)
    }

    /// The namespace that it is.
    pub(crate) fn namespace(&self) -> Namespace {
        self.namespace_of(&self.identity)
    }

    /// The namespace whose blocks have tuples: the visible face. `None` if the drive has none.
    pub(crate) fn visible_namespace(&self) -> Option<Namespace> {
        let TagFormat { metadata, block_bytes } = self.device.tagged()?.format();
        if !has_visible_face(metadata.guard(), block_bytes) {
            return None;
        }
        let format = metadata.with_data(1 << self.format.shift(), self.kind, self.storage_mask).ok()?;
        let mut hash = Sha256::new_with_prefix("pumice visible face ");
        hash.update(self.identity);
        hash.update([metadata.guard().bits() as u8]);
        if metadata != MetadataFormat::tuple(metadata.guard()) {
            let first = metadata.place() == Place::First;
            hash.update([metadata.bytes() as u8, u8::from(first), metadata.storage_bits() as u8]);
        }
        Some(Namespace {
            format: BlockFormat::protected(format),
            ..self.namespace_of(&hash.finalize().into())
        })
    }

    fn namespace_of(&self, identity: &[u8; 32]) -> Namespace {
        let half = |at: usize| std::array::from_fn(|i| identity[at + i]);
        let mut uuid: [u8; 16] = half(16);
        // A UUID of version 8 (made by a rule of one's own), variant 1. (RFC 9562, section 5.8.)
        uuid[6] = uuid[6] & 0x0F | 0x80;
        uuid[8] = uuid[8] & 0x3F | 0x80;
        let grains = self.device.grains();
        let blocks =
            |bytes: u32| u16::try_from(self.format.blocks_in(bytes.into())).unwrap_or(u16::MAX).max(1);
        Namespace {
            blocks: self.format.blocks_in(self.device.size_bytes()),
            format: self.format,
            nguid: half(0),
            uuid,
            read_only: self.device.read_only(),
            write_grain: blocks(grains.write),
            deallocate_grain: blocks(grains.discard),
        }
    }
}

/// Whether a drive with this guard and block size has a visible face. Guards of 32 and 64 bits
/// require blocks of 4096 bytes.
pub(crate) fn has_visible_face(guard: Guard, block: u32) -> bool {
    guard == Guard::Crc16 || block == 4096
}

#[cfg(test)]
mod tests {
    use super::*;
    use pumice_protect::guard::Guard;

    #[test]
    fn a_drive_with_options() {
        let parse = |text: &str| text.parse::<DriveSource>();
        let plain = parse("/images/a,b").unwrap();
        assert_eq!(plain, DriveSource { backend: Backend::Path("/images/a,b".into()), tagging: None });
        let tagged = parse("/dev/sdb,pi=16,tags=/t=1").unwrap();
        assert_eq!(tagged.backend, Backend::Path("/dev/sdb".into()));
        let place = Some("/t=1".into());
        assert_eq!(
            tagged.tagging,
            Some(Tagging {
                metadata: Guard::Crc16.into(),
                place,
                atomic: None,
                on_stale: pumice_tags::file::OnStale::Fail,
            })
        );
        let promised = parse("/dev/sdb,pi=16,tags=/t,atomic=4096").unwrap();
        assert_eq!(promised.tagging.unwrap().atomic, Some(4096));
        let known = parse("flash:/f,pi=16,tags=/t,atomic=4096").unwrap();
        let why = Drive::open_tagged(&known.backend, known.tagging.as_ref(), 4096, "n", 1, None);
        assert!(why.err().unwrap().to_string().starts_with("atomic: "));
        let flash = parse("flash:/f,capacity=8MiB,op=7%,dedup=live,pi=16,tags=/t").unwrap();
        let spec: FlashSpec = "/f,capacity=8MiB,op=7%,dedup=live".parse().unwrap();
        assert_eq!((flash.backend, flash.tagging.is_some()), (Backend::Flash(spec), true));
        let large = parse("mem:1MiB,metadata=64,pi=16,pi-place=first,storage-tag=8").unwrap();
        let metadata = large.tagging.unwrap().metadata;
        let expected = (64, Place::First, 8);
        assert_eq!((metadata.bytes(), metadata.place(), metadata.storage_bits()), expected);
        let memory = parse("mem:1MiB,pi=64").unwrap();
        assert_eq!(memory.backend, Backend::Memory(1 << 20));
        assert!(memory.tagging.is_some());
        for (text, word) in [
            ("/d,pi=16", "tags: "),
            ("/d,tags=/t", "pi: "),
            ("/d,pi=16,tags=/t,tags=/u", "tags: "),
            ("/d,pi=16,pi=16,tags=/t", "pi: "),
            ("/d,pi=16,tags=/t,size=4", "'size=4'"),
            ("/d,pi=16,tags=/t,size", "'size'"),
            ("/d,metadata=64,tags=/t", "pi: "),
            ("/d,pi=16,metadata=64,metadata=8,tags=/t", "metadata: "),
            ("/d,pi=16,tags=/t,atomic=4097", "atomic: "),
            ("/d,pi=16,tags=/t,atomic=512,atomic=512", "atomic: "),
            ("mem:1MiB,pi=16,atomic=4096", "atomic: "),
            ("mem:x,pi=16", "'x'"),
            ("flash:/f,op=x", "op: "),
            ("flash:,op=7%", "path"),
        ] {
            let why = parse(text).unwrap_err().to_string();
            assert!(why.contains(word), "{text}: {why}");
        }
    }
}
