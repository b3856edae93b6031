//! Checks before anything is changed.

use super::{Places, medium};
use pumice_blockdev::{FileDevice, OpenMode, Options};
use pumice_service::failure::Failure;
use pumice_tags::evidence::Evidence;
use pumice_tags::file::TagFile;
use pumice_tags::header::Header;
use pumice_tags::{open_place_to_read, serial_of};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// Identity of a file or device, which two names can have in common.
#[derive(PartialEq, Eq)]
enum Identity {
    /// A block device, by its number.
    Device(u64),
    /// A file, by its file system and inode: hard links are the same.
    File(u64, u64),
    /// A path at which nothing exists yet.
    Missing(PathBuf),
}

fn identity(path: &Path) -> Identity {
    match std::fs::metadata(path) {
        Ok(about) if about.file_type().is_block_device() => Identity::Device(about.rdev()),
        Ok(about) => Identity::File(about.dev(), about.ino()),
        Err(_) => {
            let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
            let folder = folder.unwrap_or(Path::new(".")).canonicalize();
            let name = path.file_name().unwrap_or_default();
            Identity::Missing(folder.map_or_else(|_| path.to_owned(), |folder| folder.join(name)))
        }
    }
}

/// Refuses drives and tag files of which two are the same.
pub(super) fn check_apart(all: &[Places<'_>]) -> Result<(), Failure> {
    let mut seen: Vec<(Identity, String)> = Vec::new();
    for places in all {
        let (drive, tags) = (places.drive.display(), places.tags.display());
        for (path, name) in [
            (places.drive, format!("{drive}")),
            (places.tags.as_path(), format!("{tags}, the tags of {drive},")),
        ] {
            let found = identity(path);
            if let Some((_, first)) = seen.iter().find(|(other, _)| *other == found) {
                return Err(Failure::new(format!("{first} and {name} are the same file or device")));
            }
            seen.push((found, name));
        }
    }
    Ok(())
}

/// Refuses drives and tag files that cannot be opened. Nothing is written.
pub(super) fn check_open(all: &[Places<'_>]) -> Result<(), Failure> {
    for places in all {
        FileDevice::open(places.drive, OpenMode::ReadWrite, Options::default())?;
        if !places.tags.try_exists()? {
            continue;
        }
        FileDevice::open(places.tags, OpenMode::ReadWrite, Options::default())?;
        if places.tags.is_file() {
            let fail = |error| Failure::new(format!("{}: {error}", places.tags.display()));
            TagFile::peek(&medium(places.tags)?).map_err(fail)?;
        }
    }
    Ok(())
}

/// A line about stale tags: by a sample of the drive, if nobody uses the tags.
pub(super) fn about_stale(places: &Places<'_>, header: &Header) -> String {
    let evidence = || -> Option<Evidence> {
        let medium =
            open_place_to_read(places.tags, header.geometry.block_bytes() as u32, places.metadata).ok()?;
        let drive = FileDevice::open(places.drive, OpenMode::ReadOnly, Options::default()).ok()?;
        TagFile::evidence(medium, &drive, &serial_of(places.drive)).ok()
    };
    match evidence() {
        Some(evidence) if evidence.is_stale() => {
            format!("  stale: {evidence}; the drive is not served, unless with on-stale=\n")
        }
        None if header.stale => "  stale: nothing is refused\n".to_owned(),
        _ => String::new(),
    }
}

/// A line about a log that cannot be read, if nobody uses the tags.
pub(super) fn about_log(tags: &Path) -> Result<String, Failure> {
    let file = FileDevice::open(tags, OpenMode::ReadOnly, Options::default())?;
    if file.locked_by_another()? {
        return Ok(String::new());
    }
    Ok(match TagFile::count_log(&medium(tags)?) {
        Ok(_) => String::new(),
        Err(error) => format!("  the log cannot be used: {error}\n"),
    })
}
