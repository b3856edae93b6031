//! A RAID volume: what the text and the superblocks of its images say together.
//!
//! The rules are in `docs/reference/on-disk/lvm.md`.

mod refusal;
mod states;

use std::ops::Range;

use crate::ReadAt;
use crate::arrangement::Arrangement;
use crate::bitmap::Bitmap;
use crate::layout::Level;
use pumice_base::units::{Role, SECTOR, Sectors};

use crate::lvm::group::{Group, Integrity, Logical, Mapping, Raid};
use crate::lvm::id::Id;
use crate::lvm::kind::RaidKind;
use crate::lvm::pieces::{Piece, pieces};

pub use refusal::Refusal;

/// Words in the status of a volume that are known.
const STATUS: [&str; 5] = ["READ", "WRITE", "VISIBLE", "REBUILD", "WRITEMOSTLY"];
/// Suffixes of a type that say nothing against the volume: its superblocks tell whether the reshape
/// is over.
const SUFFIXES: [&str; 2] = ["RESHAPE", "RESHAPE_DATA_OFFSET"];

/// Place of the bytes of a physical volume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PvPlace {
    /// On a device, by its index.
    Device(usize),
    /// Nowhere.
    Absent(Missing),
}

/// The reason why a physical volume is not used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Missing {
    /// No device has its id.
    #[error("it is on none of the devices")]
    NotFound,
    /// The text calls it missing.
    #[error("its group calls it missing, so it is stale")]
    Stale,
    /// Its device ends too early.
    #[error("its device has {has} bytes; must have {needs}")]
    Short {
        /// Bytes of the device.
        has: u64,
        /// Bytes that the volume has.
        needs: u64,
    },
    /// It belongs to another group, whose name this is.
    #[error("it is of group {0}")]
    Elsewhere(String),
    /// Its header says that no group uses it.
    #[error("its header says that no group uses it")]
    Unused,
}

/// A group, and where its physical volumes are.
#[derive(Clone, Copy)]
pub struct Located<'g, 'd> {
    /// The group.
    pub group: &'g Group,
    /// By physical volume: where it is.
    pub places: &'g [PvPlace],
    /// By physical volume: its device, if it has a place.
    pub devices: &'g [Option<&'d dyn ReadAt>],
}

/// A logical volume that is a part of an image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SubVolume {
    /// Its name.
    pub name: String,
    /// Its id.
    pub id: Id,
    /// Its bytes, from the first to the last.
    pub pieces: Vec<Piece>,
}

/// The reason why an image is not used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Absence {
    /// A physical volume is not used.
    #[error("physical volume {id}: {why}")]
    Physical {
        /// The volume's id.
        id: Id,
        /// The reason.
        why: Missing,
    },
    /// The text has no place for some of its bytes.
    #[error("{0} has a segment of type error")]
    Nowhere(String),
    /// It was split off.
    #[error("it was split off")]
    Split,
    /// Its rmeta cannot be read.
    #[error("its rmeta cannot be read: {0}")]
    Unreadable(String),
    /// Its rebuild has not begun.
    #[error("its rebuild has not begun")]
    NotBegun,
    /// The other images say that it is out.
    #[error("the other images say that it is out")]
    Failed,
}

/// Extent to which an image is good.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ImageState {
    /// Everywhere.
    InSync,
    /// Below this sector of its data.
    Recovering(Sectors),
    /// Nowhere.
    Absent(Absence),
}

/// The bitmap of an image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Regions {
    /// A good one.
    Known(Bitmap),
    /// None that can be believed, and why: every region may be dirty.
    Unknown(String),
}

/// An image of a RAID volume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Image {
    /// Its role.
    pub role: Role,
    /// The rimage volume. Its data begin at [`RaidVolume::data_offset`].
    pub data: SubVolume,
    /// The rmeta volume.
    pub meta: SubVolume,
    /// Extent to which the image is good.
    pub state: ImageState,
    /// True if reads avoid it.
    pub write_mostly: bool,
    /// dm-integrity between the image and its pieces. The pieces are those of the data below it.
    pub integrity: Option<Integrity>,
    /// Its bitmap; `None` if the image is absent.
    pub regions: Option<Regions>,
}

/// A RAID volume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RaidVolume {
    /// Its name, without the group's.
    pub name: String,
    /// Its id.
    pub id: Id,
    /// LVM's type.
    pub kind: RaidKind,
    /// Arrangement of data and redundancy on the images, from their data offset on: that of an md
    /// array of the same kind.
    pub arrangement: Arrangement,
    /// Data of an image.
    pub image_sectors: Sectors,
    /// Sectors of each image in front of its data.
    pub data_offset: Sectors,
    /// Sectors of a region of the bitmap: of an image, for raid10 of the volume.
    pub region_sectors: Sectors,
    /// Redundancy is whole below; `None`: everywhere. Sectors as of a region.
    pub resync: Option<Sectors>,
    /// Events of the images that are in use.
    pub events: u64,
    /// The images, by role.
    pub images: Vec<Image>,
    /// The names of the volumes that stand on it, such as a thin pool, nearest first.
    pub above: Vec<String>,
}

impl RaidVolume {
    /// The RAID volume with index `volume` in [`Group::logical`]; `None` if it is no RAID volume.
    ///
    /// # Errors
    /// If it is in a state in which it is not read, or text and superblocks contradict each other.
    pub fn describe(located: &Located<'_, '_>, volume: usize) -> Option<Result<Self, Refusal>> {
        let lv = located.group.logical.get(volume)?;
        let raid = lv.raid()?;
        Some(describe(located, volume, lv, raid))
    }

    /// The images that are in use.
    pub fn in_use(&self) -> impl Iterator<Item = &Image> {
        self.images.iter().filter(|image| !matches!(image.state, ImageState::Absent(_)))
    }

    /// The images' integrity goes through a journal: blocks of a volume that was not shut down may
    /// still be in it.
    #[must_use]
    pub fn has_journal(&self) -> bool {
        self.images.iter().any(|image| image.integrity.as_ref().is_some_and(|below| below.journal))
    }

    /// Sectors to which writes may have been under way, in order and apart; in units of a region.
    #[must_use]
    pub fn dirty(&self) -> Vec<Range<u64>> {
        let covered = covered(self.kind, self.image_sectors, &self.arrangement).get();
        let mut runs: Vec<Range<u64>> = Vec::new();
        for image in self.in_use() {
            match &image.regions {
                Some(Regions::Known(bitmap)) => {
                    let dirty = bitmap.runs().filter(|(_, region)| *region != crate::bitmap::Region::Clean);
                    runs.extend(dirty.map(|(sectors, _)| sectors));
                }
                Some(Regions::Unknown(_)) | None => runs.push(0..covered),
            }
        }
        runs.sort_by_key(|run| (run.start, run.end));
        let mut out: Vec<Range<u64>> = Vec::new();
        for run in runs {
            match out.last_mut().filter(|last| run.start <= last.end) {
                Some(last) => last.end = last.end.max(run.end),
                None => out.push(run),
            }
        }
        out
    }
}

/// Size that bitmap and resync count: sectors of an image, for raid10 those of the volume.
fn covered(kind: RaidKind, image_sectors: Sectors, arrangement: &Arrangement) -> Sectors {
    match kind.level() {
        Level::Raid10 => Sectors(arrangement.array_bytes() / SECTOR),
        _ => image_sectors,
    }
}

fn describe(
    located: &Located<'_, '_>,
    volume: usize,
    lv: &Logical,
    raid: &Raid,
) -> Result<RaidVolume, Refusal> {
    let group = located.group;
    refuse_states(group, lv, raid)?;
    let (image_extents, arrangement) = arrangement(group, lv, raid)?;
    for (role, (_, image)) in raid.images.iter().enumerate() {
        let found = group.logical[*image].extents();
        if found != image_extents {
            return Err(Refusal::ImageLength { role: role as u16, found, needed: image_extents });
        }
    }
    let data_extents = image_extents - raid.reshape_extents;
    let image_sectors = Sectors(data_extents * group.extent_sectors);
    let mut images = Vec::new();
    for (role, (meta, image)) in raid.images.iter().enumerate() {
        images.push(parts(located, role as u16, *meta, *image)?);
    }
    let shape = states::Shape {
        raid,
        image_sectors,
        room_sectors: image_extents * group.extent_sectors,
        covered: covered(raid.kind, image_sectors, &arrangement),
    };
    let common = states::join(located, &shape, &mut images)?;
    Ok(RaidVolume {
        name: lv.name.clone(),
        id: lv.id,
        kind: raid.kind,
        arrangement,
        image_sectors,
        data_offset: common.data_offset,
        region_sectors: Sectors(raid.region_sectors),
        resync: common.resync,
        events: common.events,
        images,
        above: group.above(volume).into_iter().map(|above| group.logical[above].name.clone()).collect(),
    })
}

/// Refuses a volume by words of the text alone.
fn refuse_states(group: &Group, lv: &Logical, raid: &Raid) -> Result<(), Refusal> {
    if let Some(word) = &group.shared {
        return Err(Refusal::Shared(word.clone()));
    }
    if let Some(word) = &group.unknown_status {
        return Err(Refusal::Status { volume: group.identity.name.clone(), word: word.clone() });
    }
    let [segment] = lv.segments.as_slice() else { return Err(Refusal::Segments(lv.segments.len())) };
    if let Some(word) = segment.suffixes.iter().find(|word| !SUFFIXES.contains(&word.as_str())) {
        return Err(Refusal::Suffix(word.clone()));
    }
    let parts = raid.images.iter().flat_map(|(meta, image)| [&group.logical[*meta], &group.logical[*image]]);
    for part in std::iter::once(lv).chain(parts) {
        if let Some(word) = part.status.iter().find(|word| !STATUS.contains(&word.as_str())) {
            return Err(Refusal::Status { volume: part.name.clone(), word: word.clone() });
        }
    }
    Ok(())
}

/// The extents of each image, and the arrangement.
fn arrangement(group: &Group, lv: &Logical, raid: &Raid) -> Result<(u64, Arrangement), Refusal> {
    let count = raid.images.len() as u16;
    let size = || Refusal::Size { kind: raid.kind, images: count, extents: lv.extents() };
    let (times, by) = raid.kind.data_images(count, raid.copies).ok_or_else(size)?;
    let needed = lv.extents().checked_mul(by).filter(|extents| extents % times == 0).ok_or_else(size)?;
    let image_extents = needed / times;
    let data_extents = image_extents.checked_sub(raid.reshape_extents).filter(|e| *e > 0).ok_or_else(size)?;
    // Not more than the volume itself, whose bytes fit 64 bits, or than so many as the text has.
    let bytes = data_extents.checked_mul(group.extent_bytes()).ok_or_else(size)?;
    let chunk = raid.chunk_sectors * SECTOR;
    if chunk > 0 && bytes % chunk != 0 {
        return Err(Refusal::Chunk { bytes, chunk });
    }
    let arrangement = raid.kind.arrangement(count, raid.copies, chunk, bytes)?;
    let whole =
        u128::from(arrangement.array_bytes()) * u128::from(by) == u128::from(bytes) * u128::from(times);
    if whole { Ok((image_extents, arrangement)) } else { Err(size()) }
}

/// An image by the text alone.
fn parts(located: &Located<'_, '_>, role: u16, meta: usize, image: usize) -> Result<Image, Refusal> {
    let group = located.group;
    let part = |volume: usize| -> Result<SubVolume, Refusal> {
        let lv = &group.logical[volume];
        let pieces = pieces(group, volume).map_err(|why| Refusal::Pieces { volume: lv.name.clone(), why })?;
        Ok(SubVolume { name: lv.name.clone(), id: lv.id, pieces })
    };
    let (data, meta_part) = (part(image)?, part(meta)?);
    let lv = &group.logical[image];
    let absent = [&data, &meta_part].into_iter().find_map(|part| absence(located, part));
    let absent = absent.or_else(|| lv.is("VISIBLE").then_some(Absence::Split));
    let write_mostly = lv.is("WRITEMOSTLY") || lv.flags.iter().any(|flag| flag == "WRITEMOSTLY");
    let integrity = lv.segments.iter().find_map(|segment| match &segment.mapping {
        Mapping::Integrity(integrity) => Some(integrity.clone()),
        _ => None,
    });
    let state = absent.map_or(ImageState::InSync, ImageState::Absent);
    Ok(Image { role: Role(role), data, meta: meta_part, state, write_mostly, integrity, regions: None })
}

fn absence(located: &Located<'_, '_>, part: &SubVolume) -> Option<Absence> {
    part.pieces.iter().find_map(|piece| match piece.place {
        None => Some(Absence::Nowhere(part.name.clone())),
        Some((pv, _)) => match &located.places[pv] {
            PvPlace::Device(_) => None,
            PvPlace::Absent(why) => {
                Some(Absence::Physical { id: located.group.physical[pv].id, why: why.clone() })
            }
        },
    })
}
