//! Protection information beside a drive: its options, and the drive with tags.

use pumice_blockdev::BlockDevice;
use pumice_protect::guard::Guard;
use pumice_tags::file::TagError;
use pumice_tags::{PlaceError, TaggedDevice, TaggedMemory, open_place, serial_of};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tracing::{error, info, warn};

/// Tags that a drive is to have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tagging {
    /// The guard of their tuples.
    pub guard: Guard,
    /// Where they are; `None` for memory, which only a drive in memory may have.
    pub place: Option<PathBuf>,
}

/// Why a drive cannot have its tags.
#[derive(Debug, thiserror::Error)]
pub enum TaggingError {
    /// A field of what was asked for.
    #[error("{field}: {why}")]
    Field {
        /// Which.
        field: &'static str,
        /// What is wrong with it.
        why: String,
    },
    /// The tag file cannot be made or opened.
    #[error("tags: {0}")]
    Place(#[from] PlaceError),
    /// The tag file cannot be used.
    #[error("tags: {}: {source}", .path.display())]
    Tags {
        /// The tag file.
        path: PathBuf,
        /// Why.
        source: TagError,
    },
}

impl Tagging {
    /// Checks the fields of a configuration: bits of the guard, and where the tags are. `None` if
    /// neither is given.
    ///
    /// # Errors
    /// With the name of the field, if they do not go together.
    pub fn parse(
        pi: Option<&str>,
        place: Option<&str>,
        in_memory: bool,
    ) -> Result<Option<Self>, TaggingError> {
        let field = |field, why: &str| Err(TaggingError::Field { field, why: why.to_owned() });
        let Some(pi) = pi else {
            return match place {
                None => Ok(None),
                Some(_) => field("pi", "the size of the guard is missing: 16, 32 or 64 bits"),
            };
        };
        let Some(guard) = Guard::ALL.into_iter().find(|guard| guard.bits().to_string() == pi) else {
            return Err(TaggingError::Field { field: "pi", why: format!("'{pi}' is not 16, 32 or 64") });
        };
        match (place, in_memory) {
            (Some(_), true) => field("tags", "the tags of a drive in memory are in memory too"),
            (None, false) => field("tags", "the path of the tag file is missing"),
            (Some(""), false) => field("tags", "the path of the tag file is empty"),
            (place, _) => Ok(Some(Self { guard, place: place.map(PathBuf::from) })),
        }
    }

    /// A drive in memory with tags, of `size` bytes in blocks of `block` bytes.
    ///
    /// # Errors
    /// If the size is not a whole number of blocks.
    pub(super) fn in_memory(&self, name: &str, size: u64, block: u32) -> Result<TaggedMemory, TaggingError> {
        Ok(TaggedMemory::new(name, size, block, self.guard).map_err(PlaceError::from)?)
    }

    /// Puts the tags beside a drive at `path`.
    ///
    /// # Errors
    /// If the tag file cannot be opened or made, or is not of this drive.
    pub(super) fn put_beside(
        &self,
        drive: Arc<dyn BlockDevice>,
        path: &Path,
        block: u32,
    ) -> Result<Arc<dyn BlockDevice>, TaggingError> {
        let Some(place) = &self.place else {
            let why = "the path of the tag file is missing".to_owned();
            return Err(TaggingError::Field { field: "tags", why });
        };
        let serial = serial_of(path);
        let (medium, made) = open_place(place, &*drive, block, self.guard, &serial)?;
        let device = TaggedDevice::open(drive, medium, &serial)
            .map_err(|source| TaggingError::Tags { path: place.clone(), source })?;
        report(&device, made, place);
        Ok(Arc::new(device))
    }
}

/// Says what opening the tags found.
fn report(device: &TaggedDevice, made: bool, place: &Path) {
    let (drive, tags) = (device.name(), place.display());
    if made {
        info!(%drive, %tags, "created a tag file; a block is checked only after it is written or adopted");
    }
    let found = device.recovered();
    if found.logged > 0 {
        let (logged, rewritten) = (found.logged, found.rewritten.len());
        info!(%drive, %tags, logged, rewritten, "recovered the tags after a crash");
    }
    if found.not_kept > 0 {
        let blocks = found.not_kept;
        error!(%drive, %tags, blocks, "torn blocks were not written again: no room to keep their contents");
    }
    if !found.damaged.is_empty() || !found.unreadable.is_empty() {
        let (damaged, unreadable) = (found.damaged.len(), found.unreadable.len());
        let first = found.damaged.iter().chain(&found.unreadable).min().copied().unwrap_or(0);
        error!(%drive, %tags, damaged, unreadable, first, "blocks match none of their tags");
    }
    if !found.lost_pages.is_empty() {
        warn!(%drive, %tags, pages = found.lost_pages.len(), "pages of tags are lost: served unchecked");
    }
    if device.is_stale() {
        error!(%drive, %tags, "the tags are stale: nothing is refused");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_that_do_not_go_together_are_refused_by_name() {
        let parse =
            |pi, place, in_memory| Tagging::parse(pi, place, in_memory).map_err(|error| error.to_string());
        assert_eq!(parse(None, None, false), Ok(None));
        let tags = Tagging { guard: Guard::Crc64, place: Some("/t".into()) };
        assert_eq!(parse(Some("64"), Some("/t"), false), Ok(Some(tags)));
        let memory = Tagging { guard: Guard::Crc16, place: None };
        assert_eq!(parse(Some("16"), None, true), Ok(Some(memory)));
        for (pi, place, in_memory, field) in [
            (None, Some("/t"), false, "pi: "),
            (Some("8"), Some("/t"), false, "pi: "),
            (Some("016"), Some("/t"), false, "pi: "),
            (Some("16"), None, false, "tags: "),
            (Some("16"), Some(""), false, "tags: "),
            (Some("16"), Some("/t"), true, "tags: "),
        ] {
            let why = parse(pi, place, in_memory).unwrap_err();
            assert!(why.starts_with(field), "{why}");
        }
    }
}
