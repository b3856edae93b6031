//! A drive as it is served: its backend and its identity.

use super::backend::{Backend, BackendError, no_memory};
use super::flash_drive::{last_part, open_flash};
use super::made::MadeFiles;
use super::marks::marks_file;
use super::tagging::{Tagging, TaggingError};
use pumice_blockdev::{
    BlockDevice, FileDevice, LimitedDevice, MarkedDevice, MarksError, MemoryDevice, OpenMode, Options,
    TagFormat, check_memory,
};
use pumice_nvme::spec::identify::Namespace;
use pumice_protect::block_format::BlockFormat;
use pumice_protect::format::{Place, Type};
use pumice_protect::guard::Guard;
use pumice_protect::metadata::MetadataFormat;
use pumice_tags::{NewMemoryError, PlaceError};
use sha2::{Digest, Sha256};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A device with its identity.
#[derive(Clone)]
pub struct Drive {
    pub(crate) device: Arc<dyn BlockDevice>,
    /// Its blocks without their tuples.
    format: BlockFormat,
    identity: [u8; 32],
    /// Its path, if it has one.
    path: Option<PathBuf>,
    /// Files that opening it has made.
    made: MadeFiles,
    /// The type of protection information of its visible face.
    kind: Type,
    /// The bits of the storage tag that are compared there.
    storage_mask: u64,
}

impl Drive {
    /// The files that opening it has made.
    #[must_use]
    pub fn made(&self) -> &MadeFiles {
        &self.made
    }

    /// Removes the files that opening it has made, while nobody else has them.
    ///
    /// # Errors
    /// Names the first file that cannot be removed.
    pub fn remove_made(self) -> Result<(), (PathBuf, std::io::Error)> {
        self.made.remove_held()
    }

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
            None => Ok((device, MadeFiles::default())),
        };
        let mut made = MadeFiles::default();
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
                if matches!(backend, Backend::Path(_)) && pumice_flash::device::is_drive(&device) {
                    return Err(BackendError::IsFlash(path.display().to_string()));
                }
                let real = path.canonicalize().unwrap_or_else(|_| path.clone());
                let device = device.named(label.map_or_else(|| last_part(&real), str::to_owned));
                let device = match tagging.and_then(|tagging| tagging.atomic) {
                    Some(unit) => device.with_atomic_unit(unit),
                    None => device,
                };
                let (device, tags) = beside(Arc::new(device), &real)?;
                made.join(tags);
                (device, Some(real))
            }
            Backend::Flash(_) if tagging.is_some_and(|tagging| tagging.atomic.is_some()) => {
                let why = "what a flash drive writes all or nothing is known".to_owned();
                return Err(TaggingError::Field { field: "atomic", why }.into());
            }
            Backend::Flash(spec) => {
                let (device, is_new) = open_flash(spec, label)?;
                if is_new {
                    made.note(&spec.path);
                }
                let real = spec.path.canonicalize().unwrap_or_else(|_| spec.path.clone());
                let device: Arc<dyn BlockDevice> = Arc::new(device);
                let (device, tags) = beside(Arc::clone(&device), &real).inspect_err(|_| {
                    // The error is told; the drive is open still.
                    let _ = made.remove_held();
                })?;
                made.join(tags);
                (device, Some(real))
            }
        };
        let place =
            path.as_ref().map_or_else(|| format!("memory {number}"), |path| path.display().to_string());
        Ok(Self { path, made, ..Self::with_device(device, block_size, &format!("{subsystem} {place}"))? })
    }

    /// Lets hosts make blocks unreadable (Write Uncorrectable), and keeps what they made so in a
    /// file of `folder`, named after the drive (`marks_file`). A drive in memory needs no file;
    /// one of a path refuses the command without this.
    ///
    /// # Errors
    /// Where the file is there and cannot be read.
    pub fn keep_marks(mut self, folder: &Path) -> Result<Self, BackendError> {
        if let Some(path) = &self.path {
            let file = marks_file(folder, path, &*self.device)
                .map_err(|source| MarksError::Read { path: folder.to_owned(), source })?;
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
        let (path, made) = (None, MadeFiles::default());
        Ok(Self { device, format, identity, path, made, kind: Type::One, storage_mask: u64::MAX })
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

/// Returns whether a drive with this guard and block size has a visible face. Guards of 32 and 64
/// bits require blocks of 4096 bytes.
pub(crate) fn has_visible_face(guard: Guard, block: u32) -> bool {
    guard == Guard::Crc16 || block == 4096
}

#[cfg(test)]
mod tests {
    use super::super::backend::DriveSource;
    use super::*;
    use pumice_flash::device::FlashSpec;
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
