//! `pumice protect --off`: removes tag files, after what only they hold is safe.
//!
//! `docs/guide/protecting-drives.md`, "Removing tags", has the rules.

use super::{Places, medium};
use crate::text::{count, print};
use pumice_blockdev::{FileDevice, OpenMode, Options};
use pumice_service::failure::Failure;
use pumice_tags::file::{TagError, TagFile};
use pumice_tags::header::{BadHeader, Header};
use pumice_tags::{TaggedDevice, open_place, remove_place, serial_of};
use std::sync::Arc;

/// Advice to remove them anyway.
const FORCE: &str = "`--off --force` removes the tags all the same";

/// A tag file that may be removed. Nobody else can open it meanwhile.
struct Removable<'p> {
    places: &'p Places<'p>,
    _open: Option<TaggedDevice>,
    _locked: Option<FileDevice>,
    /// Lines to print once it is removed.
    notes: Vec<String>,
}

/// Removes the tag files: all of them, or none if one of them is refused.
pub(super) fn off(all: &[Places<'_>], force: bool) -> Result<(), Failure> {
    let removable = all.iter().map(|places| prepare(places, force)).collect::<Result<Vec<_>, _>>()?;
    for Removable { places, notes, .. } in &removable {
        remove_place(places.tags)?;
        let (tags, drive) = (places.tags.display(), places.drive.display());
        let mut text = format!("{tags}: removed; {drive} stays as it is\n");
        for note in notes {
            text += &format!("  {note}\n");
        }
        print(&text);
    }
    Ok(())
}

fn prepare<'p>(places: &'p Places<'p>, force: bool) -> Result<Removable<'p>, Failure> {
    let tags = places.tags.display();
    let fail = |why: String| Failure::new(format!("{tags}: {why}"));
    let lock = || FileDevice::open(places.tags, OpenMode::ReadWrite, Options::default());
    // Nobody uses it, and it is one: both before anything else.
    let locked = lock()?;
    if !std::fs::metadata(places.tags)?.is_file() {
        return Err(fail("a block device cannot be removed; leave out tags=".to_owned()));
    }
    let header = match TagFile::peek(&medium(places.tags)?) {
        Ok(header) => Some(header),
        // What says that it is a tag file cannot be used by this program.
        Err(TagError::Header(error)) if force && error != BadHeader::Magic => None,
        Err(error) => return Err(fail(error.to_string())),
    };
    // The drive is opened with its tags as by a node, which locks them itself.
    drop(locked);
    let mut notes = Vec::new();
    let was_closed = header.as_ref().is_some_and(|header| header.clean);
    let opened = match &header {
        Some(header) => recover(places, header),
        None => Err(Failure::new("its header cannot be used")),
    };
    let (open, locked) = match opened {
        Ok(device) => {
            notes.extend(recovery_notes(&device));
            (Some(device), None)
        }
        Err(why) if force => {
            if !was_closed {
                notes.push(format!(
                    "lost: what the log may have held; torn blocks stay torn, and are not refused any more ({why})"
                ));
            }
            // Whatever failed: nobody else may use it.
            (None, Some(lock()?))
        }
        Err(why) => {
            let lost = if was_closed { "" } else { ", and what their log may hold is lost" };
            return Err(Failure::new(format!("{why}; nothing was removed; {FORCE}{lost}")));
        }
    };
    if header.is_some() {
        notes.extend(kept_notes(places, force)?);
    }
    Ok(Removable { places, _open: open, _locked: locked, notes })
}

/// Opens a drive with its tags as a node does, which writes what the log has, and closes them.
fn recover(places: &Places<'_>, header: &Header) -> Result<TaggedDevice, Failure> {
    let block = header.geometry.block_bytes() as u32;
    let drive = FileDevice::open(places.drive, OpenMode::ReadWrite, Options::default())?;
    let drive = Arc::new(match places.atomic {
        // Not made larger for a log with data, which would only be removed.
        _ if !header.geometry.carries_data() => drive.with_atomic_unit(block),
        Some(unit) => drive.with_atomic_unit(unit),
        None => drive,
    });
    let serial = serial_of(places.drive);
    let fail = |error: &dyn std::fmt::Display| Failure::new(format!("{}: {error}", places.tags.display()));
    let (medium, _) = open_place(places.tags, &*drive, block, places.metadata, &serial)?;
    // Before anything is written. A file has no serial number: only its contents say whose it is.
    let evidence = TagFile::evidence(medium.clone(), &*drive, &serial).map_err(|error| fail(&error))?;
    if evidence.disagrees() {
        return Err(fail(&format!(
            "the tags are stale, or those of another drive: {evidence}; nothing was written to the drive"
        )));
    }
    let device = TaggedDevice::open(drive, medium, &serial).map_err(|error| fail(&error))?;
    device.close().map_err(|error| fail(&error))?;
    Ok(device)
}

fn recovery_notes(device: &TaggedDevice) -> Vec<String> {
    let recovered = device.recovered();
    let mut notes = Vec::new();
    if !recovered.rewritten.is_empty() {
        let blocks = recovered.rewritten.len();
        notes.push(format!("{blocks} torn blocks were written again after a crash"));
    }
    if !recovered.damaged.is_empty() {
        let blocks = recovered.damaged.len();
        notes.push(format!("{blocks} damaged blocks are not refused any more"));
    }
    notes
}

/// Refuses to delete kept blocks; if forced, says how many are lost.
fn kept_notes(places: &Places<'_>, force: bool) -> Result<Option<String>, Failure> {
    let (tags, drive) = (places.tags.display(), places.drive.display());
    let kept = match TagFile::look_kept(medium(places.tags)?) {
        Ok(contents) => match (contents.kept.len() as u64, contents.damaged.len() as u64) {
            (0, 0) => return Ok(None),
            (kept, 0) => count(kept, "kept block"),
            (kept, damaged) => format!("{}, and {damaged} damaged ones", count(kept, "kept block")),
        },
        Err(error) => format!("kept blocks, if any ({error})"),
    };
    if force {
        return Ok(Some(format!("lost: {kept}")));
    }
    Err(Failure::new(format!(
        "{tags}: {kept} would be deleted, which may be the only copies; nothing was removed; `pumice kept list` of \
         {drive} shows them: save, put back or forget them first; {FORCE}"
    )))
}
