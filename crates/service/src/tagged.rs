//! Drives of this machine with tags beside them, for a scrub.

use crate::failure::Failure;
use crate::say::say;
use pumice_blockdev::{BlockDevice, FileDevice, OpenMode, Options};
use pumice_node::serve::{Backend, DriveSource, Tagging};
use pumice_tags::file::{SharedMedium, TagFile};
use pumice_tags::{DeviceMedium, TaggedDevice, open_place, open_place_to_read, serial_of};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Splits the name of a device of this machine into its path and its tags, if any.
///
/// # Errors
/// If it has options that are none, or is a drive that exists only in its node.
pub fn split(name: &Path) -> Result<(PathBuf, Option<Tagging>), Failure> {
    // A name that is not UTF-8, or has no options, is a path.
    let has_options =
        |text: &&str| DriveSource::OPTIONS.iter().any(|option| text.contains(&format!(",{option}=")));
    let Some(text) = name.to_str().filter(has_options) else {
        return Ok((name.to_owned(), None));
    };
    let source: DriveSource = text.parse().map_err(|error| Failure::new(format!("{text}: {error}")))?;
    match source.backend {
        Backend::Path(path) => Ok((path, source.tagging)),
        Backend::Memory(_) | Backend::Plain(_) | Backend::Flash(_) => {
            Err(Failure::new(format!("{text}: a drive in memory or of flash exists only in its node")))
        }
    }
}

/// The drive, with what is promised of it.
pub(crate) fn promised(drive: FileDevice, tagging: Option<&Tagging>) -> Arc<FileDevice> {
    Arc::new(match tagging.and_then(|tagging| tagging.atomic) {
        Some(unit) => drive.with_atomic_unit(unit),
        None => drive,
    })
}

/// Opens a drive with its tags. Without `write`, nothing is written to either, and the log of the
/// tags must hold nothing, because to recover it would write to the drive.
pub(crate) fn beside(
    drive: Arc<dyn BlockDevice>,
    path: &Path,
    tagging: &Tagging,
    write: bool,
) -> Result<Arc<dyn BlockDevice>, Failure> {
    let place = tagging.place.as_deref().ok_or_else(|| Failure::new("tags: the path is missing"))?;
    let fail = |why: String| Failure::new(format!("{}: {why}", place.display()));
    let file = FileDevice::open(place, OpenMode::ReadOnly, Options::default())?;
    let header = TagFile::peek(&SharedMedium(Arc::new(DeviceMedium(Arc::new(file)))))
        .map_err(|error| fail(error.to_string()))?;
    let serial = serial_of(path);
    let block = header.geometry.block_bytes() as u32;
    let tagged = if write {
        let (medium, _) = open_place(place, &*drive, block, tagging.metadata, &serial)?;
        TaggedDevice::open_as(drive, medium, &serial, tagging.on_stale)
    } else {
        TaggedDevice::open_to_read(drive, open_place_to_read(place, block, tagging.metadata)?, &serial)
    };
    let tagged = tagged.map_err(|error| fail(error.to_string()))?;
    if let Some(evidence) = &tagged.recovered().stale {
        let place = place.display();
        say(&format!("{place}: the tags are stale: {evidence}; what differs from them may be newer"));
    }
    Ok(Arc::new(tagged))
}
