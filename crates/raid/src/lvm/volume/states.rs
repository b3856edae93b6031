//! The superblocks of all images, seen together: which images are in use, and how far each is good.

use crate::ReadAt;
use crate::Uuid;
use crate::bitmap::{Bitmap, HEADER_BYTES, Header};
use crate::invalid::Invalid;
use pumice_base::units::{SECTOR, Sectors};

use super::{Absence, Image, ImageState, Located, Refusal, Regions};
use crate::lvm::dm_raid::{BITMAP_START, BYTES, Superblock};
use crate::lvm::group::Raid;
use crate::lvm::pieces::Mapped;

/// Description of each image by the text.
pub(super) struct Shape<'g> {
    pub(super) raid: &'g Raid,
    /// Data of an image.
    pub(super) image_sectors: Sectors,
    /// All of an image.
    pub(super) room_sectors: u64,
    /// Sectors that the bitmap covers.
    pub(super) covered: Sectors,
}

/// Values on which the images in use agree.
pub(super) struct Common {
    pub(super) data_offset: Sectors,
    pub(super) resync: Option<Sectors>,
    pub(super) events: u64,
}

/// Reads the superblocks of the images that are there, and sets the states and bitmaps of all.
pub(super) fn join(
    located: &Located<'_, '_>,
    shape: &Shape<'_>,
    images: &mut [Image],
) -> Result<Common, Refusal> {
    let mut found: Vec<(usize, Result<Superblock, Invalid>)> = Vec::new();
    let mut blank = None;
    for (role, image) in images.iter_mut().enumerate() {
        if matches!(image.state, ImageState::Absent(_)) {
            continue;
        }
        let mut bytes = [0; BYTES];
        if let Err(error) = Mapped::new(&image.meta.pieces, located.devices).read_exact_at(0, &mut bytes) {
            image.state = ImageState::Absent(Absence::Unreadable(error.to_string()));
            continue;
        }
        match Superblock::parse(&bytes) {
            Ok(Some(superblock)) if superblock.position.is_some() => found.push((role, Ok(superblock))),
            Err(error) => found.push((role, Err(error))),
            Ok(_) => {
                let (meta, data) = shape.raid.images[role];
                if ![meta, data].iter().any(|part| located.group.logical[*part].is("REBUILD")) {
                    blank.get_or_insert(role as u16);
                }
                image.state = ImageState::Absent(Absence::NotBegun);
            }
        }
    }
    let failed = failed(&found)?;
    let mut used: Vec<(u16, Superblock)> = Vec::new();
    for (role, superblock) in found {
        if failed >> role & 1 == 1 {
            images[role].state = ImageState::Absent(Absence::Failed);
            continue;
        }
        let role = role as u16;
        used.push((role, superblock.map_err(|error| Refusal::Superblock { role, error })?));
    }
    for (role, superblock) in &used {
        agrees_with_text(shape, *role, superblock)?;
    }
    // The other superblocks may tell more: the volume was to get this image, and did not.
    if let Some(role) = blank {
        return Err(Refusal::NoSuperblock(role));
    }
    let ((first_role, first), others) = used.split_first().ok_or(Refusal::NoImage)?;
    for (role, superblock) in others {
        agree((*first_role, first), (*role, superblock))?;
    }
    for (role, superblock) in &used {
        let image = &mut images[usize::from(*role)];
        image.state = superblock.recovery.map_or(ImageState::InSync, ImageState::Recovering);
        let meta = Mapped::new(&image.meta.pieces, located.devices);
        image.regions = Some(match bitmap(&meta, shape, superblock.events) {
            Ok(bitmap) => Regions::Known(bitmap),
            Err(why) => Regions::Unknown(why),
        });
    }
    Ok(Common { data_offset: first.data_offset, resync: first.resync, events: first.events })
}

/// The images that are out, by the superblocks with the highest events.
fn failed(found: &[(usize, Result<Superblock, Invalid>)]) -> Result<u64, Refusal> {
    let good = || found.iter().filter_map(|(role, found)| Some((*role as u16, found.as_ref().ok()?)));
    let Some((first, newest)) = good().max_by_key(|(_, superblock)| superblock.events) else { return Ok(0) };
    for (role, other) in good().filter(|(_, other)| other.events == newest.events) {
        same("failed_devices", (first, role), newest.failed, other.failed)?;
    }
    Ok(newest.failed)
}

/// Compares a superblock with the text.
fn agrees_with_text(shape: &Shape<'_>, role: u16, superblock: &Superblock) -> Result<(), Refusal> {
    if let Some(field) = &superblock.reshape {
        return Err(Refusal::Reshape { role, field: field.clone() });
    }
    let raid = shape.raid;
    let count = raid.images.len() as u64;
    let position = superblock.position.map_or(u64::MAX, u64::from);
    // At most 10.
    let level = raid.kind.level().number() as u64;
    let fields = [
        ("num_devices", u64::from(superblock.num_devices), count),
        ("array_position", position, u64::from(role)),
        ("level", u64::from(superblock.level), level),
        ("layout", u64::from(superblock.layout), u64::from(raid.kind.layout_number(raid.copies))),
        ("stripe_sectors", u64::from(superblock.chunk_sectors), raid.chunk_sectors),
    ];
    let refuse = |field, found: String, text: String| Err(Refusal::Text { role, field, found, text });
    if let Some((field, found, text)) = fields.into_iter().find(|(_, found, text)| found != text) {
        return refuse(field, found.to_string(), text.to_string());
    }
    if superblock.failed_beyond {
        return refuse("failed_devices", "set beyond image 63".to_owned(), format!("of {count} images"));
    }
    if superblock.failed.checked_shr(count as u32).is_some_and(|rest| rest != 0) {
        return refuse("failed_devices", format!("{:#x}", superblock.failed), format!("of {count} images"));
    }
    let size = shape.image_sectors;
    if let Some(recovery) = superblock.recovery.filter(|recovery| *recovery > size) {
        return refuse("disk_recovery_offset", recovery.to_string(), format!("at most {size}"));
    }
    let room = shape.room_sectors - size.get();
    let offset = superblock.data_offset.get();
    if offset > room {
        return refuse("data_offset", offset.to_string(), format!("at most {room}"));
    }
    Ok(())
}

/// Compares the superblocks of two images in use.
fn agree(first: (u16, &Superblock), other: (u16, &Superblock)) -> Result<(), Refusal> {
    let roles = (first.0, other.0);
    let (first, other) = (first.1, other.1);
    let until = |sector: Option<Sectors>| sector.map_or(u64::MAX, Sectors::get);
    same("events", roles, first.events, other.events)?;
    same("failed_devices", roles, first.failed, other.failed)?;
    same("array_resync_offset", roles, until(first.resync), until(other.resync))?;
    same("data_offset", roles, first.data_offset.get(), other.data_offset.get())
}

fn same(field: &'static str, roles: (u16, u16), a: u64, b: u64) -> Result<(), Refusal> {
    let found = || (a.to_string(), b.to_string());
    if a == b { Ok(()) } else { Err(Refusal::Images { roles, field, found: found() }) }
}

/// The bitmap of an image.
fn bitmap(meta: &Mapped<'_, '_>, shape: &Shape<'_>, events: u64) -> Result<Bitmap, String> {
    let mut bytes = [0; HEADER_BYTES];
    meta.read_exact_at(BITMAP_START, &mut bytes).map_err(|error| error.to_string())?;
    let space = meta.size_bytes().saturating_sub(BITMAP_START) / SECTOR;
    let header =
        Header::parse(&bytes, Uuid([0; 16]), shape.covered, space).map_err(|error| error.to_string())?;
    let region = shape.raid.region_sectors * SECTOR;
    if header.version != 4 || u64::from(header.chunk_bytes) != region {
        let (version, chunk) = (header.version, header.chunk_bytes);
        return Err(format!("bitmap: version {version}, chunksize {chunk}; must be 4 and {region}"));
    }
    let range = header.state_bytes();
    // At most the largest bitmap, see `Header::parse`.
    let mut states = vec![0; (range.end - range.start) as usize];
    meta.read_exact_at(BITMAP_START + range.start, &mut states).map_err(|error| error.to_string())?;
    Bitmap::new(header, states, events).map_err(|error| error.to_string())
}
