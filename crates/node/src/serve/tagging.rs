//! Protection information beside a drive: its options, and the drive with tags.

use super::made::MadeFiles;
use super::withheld::WithheldDevice;
use pumice_blockdev::{BlockDevice, TagFormat};
use pumice_protect::format::Place;
use pumice_protect::guard::Guard;
use pumice_protect::metadata::MetadataFormat;
use pumice_tags::file::{OnStale, TagError};
use pumice_tags::{NewMemoryError, PlaceError, TaggedDevice, TaggedMemory, open_place, serial_of};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tracing::{error, info, warn};

/// Advice to the operator of a drive with stale tags.
const WAYS: &str = "remove them (`pumice protect --off --force`) and adopt the drive again, or say \
                    on-stale=serve (nothing is refused)";

/// Tags that a drive is to have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tagging {
    /// The metadata of each block.
    pub metadata: MetadataFormat,
    /// The file or device that holds them; `None` for memory, for a drive in memory.
    pub place: Option<PathBuf>,
    /// Bytes that the drive writes all or nothing, if the operator promises that: 512 or 4096.
    pub atomic: Option<u32>,
    /// The treatment of a drive whose tags are stale.
    pub on_stale: OnStale,
}

/// Reasons that a drive cannot have its tags.
#[derive(Debug, thiserror::Error)]
pub enum TaggingError {
    /// A field of what was asked for.
    #[error("{field}: {why}")]
    Field {
        /// The field.
        field: &'static str,
        /// The fault in it.
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
        /// The cause.
        source: TagError,
    },
}

/// The fields of a configuration that concern the tags of a drive, as they are written.
#[derive(Debug, Clone, Copy, Default)]
pub struct TagFields<'f> {
    /// `pi`: bits of the guard.
    pub pi: Option<&'f str>,
    /// `metadata`: bytes of metadata of a block.
    pub metadata: Option<&'f str>,
    /// `pi-place`: `first` or `last`.
    pub place: Option<&'f str>,
    /// `storage-tag`: bits of the storage tag.
    pub storage_tag: Option<&'f str>,
    /// `atomic`: bytes that the drive writes all or nothing.
    pub atomic: Option<&'f str>,
    /// `on-stale`: `fail`, `serve` or `refuse`.
    pub on_stale: Option<&'f str>,
    /// `tags`: where they are.
    pub tags: Option<&'f str>,
}

impl TagFields<'_> {
    /// The metadata with this guard.
    fn metadata(&self, guard: Guard) -> Result<MetadataFormat, TaggingError> {
        let field = |field, why: String| TaggingError::Field { field, why };
        let place = match self.place {
            None | Some("last") => Place::Last,
            Some("first") => Place::First,
            Some(other) => return Err(field("pi-place", format!("'{other}' is not first or last"))),
        };
        let tuple = MetadataFormat::tuple(guard);
        let bytes = match self.metadata {
            None => tuple.bytes(),
            Some(text) => ["8", "16", "64"]
                .contains(&text)
                .then(|| text.parse().ok())
                .flatten()
                .filter(|bytes| *bytes >= tuple.bytes())
                .ok_or_else(|| {
                    let least = if guard == Guard::Crc16 { "8, 16 or 64" } else { "16 or 64" };
                    field("metadata", format!("'{text}' is not {least}"))
                })?,
        };
        if bytes == tuple.bytes() && self.place.is_some() {
            let why = "there is nothing beside the tuple: it needs `metadata`".to_owned();
            return Err(field("pi-place", why));
        }
        let metadata = tuple.with_bytes(bytes, place).map_err(|why| field("metadata", why.to_string()))?;
        let Some(text) = self.storage_tag else { return Ok(metadata) };
        let bits =
            text.parse().map_err(|_| field("storage-tag", format!("'{text}' is no number of bits")))?;
        metadata.with_storage_bits(bits).map_err(|_| {
            let bits = match guard {
                Guard::Crc16 => "0 to 32",
                Guard::Crc32c => "16 to 64",
                Guard::Crc64 => "0 to 48",
            };
            field("storage-tag", format!("'{text}' is not {bits} bits"))
        })
    }
}

impl Tagging {
    /// Checks the fields of a configuration. `None` if none of them is given.
    ///
    /// # Errors
    /// With the name of the field, if they do not go together.
    pub fn parse(fields: &TagFields<'_>, in_memory: bool) -> Result<Option<Self>, TaggingError> {
        let field = |field, why: &str| Err(TaggingError::Field { field, why: why.to_owned() });
        let Some(pi) = fields.pi else {
            return match fields {
                TagFields {
                    pi: None,
                    metadata: None,
                    place: None,
                    storage_tag: None,
                    atomic: None,
                    on_stale: None,
                    tags: None,
                } => Ok(None),
                _ => field("pi", "the size of the guard is missing: 16, 32 or 64 bits"),
            };
        };
        let Some(guard) = Guard::ALL.into_iter().find(|guard| guard.bits().to_string() == pi) else {
            return Err(TaggingError::Field { field: "pi", why: format!("'{pi}' is not 16, 32 or 64") });
        };
        let metadata = fields.metadata(guard)?;
        let atomic = match fields.atomic {
            Some(_) if in_memory => {
                return field("atomic", "a power cut leaves nothing of a drive in memory");
            }
            None => None,
            Some("512") => Some(512),
            Some("4096") => Some(4096),
            Some(other) => {
                return field("atomic", &format!("'{other}' is not 512 or 4096"));
            }
        };
        let on_stale = match fields.on_stale {
            Some(_) if in_memory => {
                return field("on-stale", "nobody else writes a drive in memory");
            }
            None | Some("fail") => OnStale::Fail,
            Some("serve") => OnStale::Serve,
            Some("refuse") => OnStale::Refuse,
            Some(other) => {
                return field("on-stale", &format!("'{other}' is not fail, serve or refuse"));
            }
        };
        match (fields.tags, in_memory) {
            (Some(_), true) => field("tags", "the tags of a drive in memory are in memory too"),
            (None, false) => field("tags", "the path of the tag file is missing"),
            (Some(""), false) => field("tags", "the path of the tag file is empty"),
            (place, _) => Ok(Some(Self { metadata, place: place.map(PathBuf::from), atomic, on_stale })),
        }
    }

    /// Bytes of memory that a drive of `size` bytes takes with its tags, about; `u64::MAX` if that
    /// is no number.
    pub(super) fn memory_bytes(&self, size: u64, block: u32) -> u64 {
        let blocks = size / u64::from(block.max(1));
        let beside = blocks.saturating_mul(self.metadata.bytes() as u64).saturating_add(blocks / 8);
        size.saturating_add(beside)
    }

    /// A drive in memory with tags, of `size` bytes in blocks of `block` bytes.
    ///
    /// # Errors
    /// If the size is not a whole number of blocks, or there is not so much memory.
    pub(super) fn in_memory(
        &self,
        name: &str,
        size: u64,
        block: u32,
    ) -> Result<TaggedMemory, NewMemoryError> {
        TaggedMemory::new(name, size, block, self.metadata)
    }

    /// Puts the tags beside a drive at `path`.
    ///
    /// # Errors
    /// If the tag file cannot be opened or made, or is not of this drive.
    pub(super) fn put_beside(
        &self,
        drive: &Arc<dyn BlockDevice>,
        path: &Path,
        block: u32,
    ) -> Result<(Arc<dyn BlockDevice>, MadeFiles), TaggingError> {
        let Some(place) = &self.place else {
            let why = "the path of the tag file is missing".to_owned();
            return Err(TaggingError::Field { field: "tags", why });
        };
        let serial = serial_of(path);
        let (medium, made) = open_place(place, &**drive, block, self.metadata, &serial)?;
        let mut files = MadeFiles::default();
        if made {
            files.note(place);
        }
        match TaggedDevice::open_as(Arc::clone(drive), medium, &serial, self.on_stale) {
            Ok(device) => {
                report(&device, made, place);
                Ok((Arc::new(device), files))
            }
            Err(TagError::Stale(evidence)) => {
                let (name, tags) = (drive.name().to_owned(), place.display());
                error!(drive = %name, %tags, %evidence, "the tags are stale: the drive is not served; {WAYS}");
                let format = TagFormat { metadata: self.metadata, block_bytes: block };
                let why = format!("the tags are stale: {evidence}; {WAYS}");
                Ok((Arc::new(WithheldDevice::new(name, drive.size_bytes(), format, why)), files))
            }
            Err(source) => {
                // What is wrong is told; what cannot be removed would only hide it.
                let _ = files.remove();
                Err(TaggingError::Tags { path: place.clone(), source })
            }
        }
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
    if !found.rewritten.is_empty() {
        let blocks = found.rewritten.len();
        warn!(
            %drive, %tags, blocks,
            "torn blocks were written again from the log; `pumice kept list` has what they held"
        );
    }
    if !found.left.is_empty() {
        let blocks = found.left.len();
        warn!(
            %drive, %tags, blocks,
            "the log was not written over newer blocks; `pumice kept list` has what it held for them"
        );
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
    if let Some(evidence) = &found.stale {
        let what = if device.is_stale() { "nothing is refused" } else { "blocks that differ are refused" };
        error!(%drive, %tags, %evidence, "the tags are stale: {what}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse_atomic(atomic: &str, in_memory: bool) -> Result<Option<u32>, String> {
        let tags = (!in_memory).then_some("/t");
        let fields = TagFields { pi: Some("16"), tags, atomic: Some(atomic), ..TagFields::default() };
        let tagging = Tagging::parse(&fields, in_memory).map_err(|error| error.to_string())?;
        Ok(tagging.and_then(|tagging| tagging.atomic))
    }

    #[test]
    fn an_atomic_unit_is_one_of_two_and_needs_a_drive_that_outlives_the_power() {
        assert_eq!(
            (parse_atomic("512", false), parse_atomic("4096", false)),
            (Ok(Some(512)), Ok(Some(4096)))
        );
        for (text, in_memory) in [("4096", true), ("1024", false), ("0512", false), ("", false)] {
            assert!(parse_atomic(text, in_memory).unwrap_err().starts_with("atomic: "), "{text}");
        }
        let alone = TagFields { atomic: Some("512"), ..TagFields::default() };
        assert!(Tagging::parse(&alone, false).unwrap_err().to_string().starts_with("pi: "));
    }

    fn parse(words: [&str; 5], in_memory: bool) -> Result<Option<Tagging>, String> {
        let [pi, metadata, place, storage_tag, tags] = words.map(|word| (word != "-").then_some(word));
        let fields = TagFields { pi, metadata, place, storage_tag, tags, ..TagFields::default() };
        Tagging::parse(&fields, in_memory).map_err(|error| error.to_string())
    }

    #[test]
    fn fields_that_do_not_go_together_are_refused_by_name() {
        assert_eq!(parse(["-"; 5], false), Ok(None));
        let tags = Tagging {
            metadata: Guard::Crc64.into(),
            place: Some("/t".into()),
            atomic: None,
            on_stale: OnStale::Fail,
        };
        assert_eq!(parse(["64", "-", "-", "-", "/t"], false), Ok(Some(tags)));
        let memory =
            Tagging { metadata: Guard::Crc16.into(), place: None, atomic: None, on_stale: OnStale::Fail };
        assert_eq!(parse(["16", "-", "-", "-", "-"], true), Ok(Some(memory.clone())));
        // What is the case anyway can be said.
        assert_eq!(parse(["16", "8", "-", "0", "-"], true), Ok(Some(memory)));
        let tuple = MetadataFormat::tuple(Guard::Crc32c);
        let metadata = tuple.with_bytes(64, Place::First).and_then(|all| all.with_storage_bits(40)).unwrap();
        let place = Some("/t".into());
        let large = Tagging { metadata, place, atomic: None, on_stale: OnStale::Fail };
        assert_eq!(parse(["32", "64", "first", "40", "/t"], false), Ok(Some(large)));
        for (words, in_memory, field) in [
            (["-", "-", "-", "-", "/t"], false, "pi: "),
            (["-", "64", "-", "-", "-"], true, "pi: "),
            (["-", "-", "-", "16", "-"], true, "pi: "),
            (["8", "-", "-", "-", "/t"], false, "pi: "),
            (["016", "-", "-", "-", "/t"], false, "pi: "),
            (["16", "-", "-", "-", "-"], false, "tags: "),
            (["16", "-", "-", "-", ""], false, "tags: "),
            (["16", "-", "-", "-", "/t"], true, "tags: "),
            (["16", "24", "-", "-", "-"], true, "metadata: "),
            (["16", "064", "-", "-", "-"], true, "metadata: "),
            (["64", "8", "-", "-", "-"], true, "metadata: "),
            (["16", "64", "middle", "-", "-"], true, "pi-place: "),
            (["16", "8", "first", "-", "-"], true, "pi-place: "),
            (["16", "-", "-", "33", "-"], true, "storage-tag: "),
            (["32", "-", "-", "15", "-"], true, "storage-tag: "),
            (["64", "-", "-", "49", "-"], true, "storage-tag: "),
            (["16", "-", "-", "-1", "-"], true, "storage-tag: "),
        ] {
            let why = parse(words, in_memory).unwrap_err();
            assert!(why.starts_with(field), "{words:?}: {why}");
        }
    }
}
