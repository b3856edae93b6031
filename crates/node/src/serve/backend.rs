//! Places of the blocks of drives, as the command line and configurations name them.

use super::tagging::{TagFields, Tagging, TaggingError};
use pumice_base::units::{format_binary, parse_size};
use pumice_blockdev::{IoError, MarksError, NoMemory};
use pumice_flash::device::{FlashError, FlashSpec};
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// The place of a drive's blocks.
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

/// Errors of a drive that cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum BackendError {
    /// `mem:` and no size, or one that this machine cannot hold.
    #[error("'{text}': {why}")]
    Size {
        /// The text that was given.
        text: String,
        /// The fault in it.
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
    /// The record of blocks that hosts made unreadable on it cannot be read.
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

pub(super) fn no_memory(error: NoMemory) -> String {
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
    /// The place of the blocks.
    pub backend: Backend,
    /// The tags that are kept beside them, if any.
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
