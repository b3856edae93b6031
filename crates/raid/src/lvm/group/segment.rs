//! A segment of a logical volume.

use std::collections::BTreeMap;

use crate::layout::Level;

use super::fields::{FieldError, Fields, shown};
use crate::lvm::kind::RaidKind;
use crate::lvm::text::Value;

/// Most images of a RAID volume: the bits of `failed_devices` that have a name here.
pub const MAX_IMAGES: u16 = 64;
/// Most areas of a striped segment; LVM's own limit is 128.
const MAX_STRIPES: u64 = 128;
/// The largest chunk, region or count of stripe sectors that is read.
const MAX_SECTORS: u64 = 1 << 32;

/// A run of extents of a logical volume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Segment {
    /// First extent of the volume.
    pub start: u64,
    /// Extents, at least 1.
    pub extents: u64,
    /// The type, without suffixes.
    pub kind: String,
    /// The suffixes of the type: what stands behind each `+`.
    pub suffixes: Vec<String>,
    /// Places of the bytes.
    pub mapping: Mapping,
}

/// A place at which an area of a striped segment begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Area {
    /// On a physical volume.
    Physical {
        /// Its index in [`super::Group::physical`].
        pv: usize,
        /// The extent.
        extent: u64,
    },
    /// On a logical volume.
    Logical {
        /// Its index in [`super::Group::logical`].
        lv: usize,
        /// The extent.
        extent: u64,
    },
}

/// The bytes below a segment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Mapping {
    /// One area (linear), or chunks that go round over several.
    Striped {
        /// The areas, at least one.
        areas: Vec<Area>,
        /// Sectors of a chunk; 0 with one area.
        chunk_sectors: u64,
    },
    /// Bytes that are not there.
    Nothing,
    /// Bytes of another volume, checked by tags.
    Integrity(Integrity),
    /// An array.
    Raid(Raid),
    /// A type that is not followed.
    Other {
        /// The volumes that it names, by their index in [`super::Group::logical`].
        names: Vec<usize>,
    },
}

/// dm-integrity below an image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Integrity {
    /// The volume with the data, at the same offsets; index in [`super::Group::logical`].
    pub origin: usize,
    /// The volume with the tags, if they are in one of their own.
    pub tags: Option<usize>,
    /// Sectors of data.
    pub data_sectors: u64,
    /// True if blocks go through a journal (mode `J`) rather than a bitmap (mode `B`).
    pub journal: bool,
    /// Bytes of a tag.
    pub tag_bytes: u64,
    /// Bytes of a block.
    pub block_bytes: u64,
}

/// A RAID volume, as the text describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Raid {
    /// Level and layout.
    pub kind: RaidKind,
    /// By role: the volumes with the superblock (rmeta) and with the data (rimage), as indices in
    /// [`super::Group::logical`]. 2 to 64 pairs.
    pub images: Vec<(usize, usize)>,
    /// Sectors of a chunk; 0 for raid1.
    pub chunk_sectors: u64,
    /// Sectors of a region of the bitmap.
    pub region_sectors: u64,
    /// Copies of a chunk; has a meaning for raid10.
    pub copies: u8,
    /// Extents of each image that are room for a reshape.
    pub reshape_extents: u64,
}

/// The names that a segment can use.
pub(super) struct Names<'g> {
    pub(super) physical: &'g BTreeMap<&'g str, usize>,
    pub(super) logical: &'g BTreeMap<&'g str, usize>,
}

impl Names<'_> {
    fn volume(&self, fields: &Fields<'_>, field: &str, name: &str) -> Result<usize, FieldError> {
        let found = self.logical.get(name).copied();
        found.ok_or_else(|| fields.error(field, format_args!("\"{name}\""), "a logical volume of the group"))
    }

    /// The volume that a field names, if the field is there.
    fn named(&self, fields: &Fields<'_>, field: &str) -> Result<Option<usize>, FieldError> {
        fields.string(field)?.map(|name| self.volume(fields, field, name)).transpose()
    }
}

impl Segment {
    pub(super) fn read(fields: &Fields<'_>, names: &Names<'_>) -> Result<Self, FieldError> {
        let start = fields.integer("start_extent")?;
        let extents = fields.within("extent_count", 1, u64::MAX)?;
        let whole = fields.string("type")?.ok_or_else(|| fields.error("type", "missing", "a string"))?;
        let mut parts = whole.split('+').map(str::to_owned);
        let kind = parts.next().unwrap_or_default();
        let mapping = match (kind.as_str(), RaidKind::from_name(&kind)) {
            (_, Some(raid)) => Mapping::Raid(Raid::read(fields, names, raid)?),
            ("striped" | "linear", _) => striped(fields, names, extents)?,
            ("error" | "zero", _) => Mapping::Nothing,
            ("integrity", _) => Mapping::Integrity(Integrity::read(fields, names)?),
            _ => {
                let strings = fields.all_strings();
                let mut named: Vec<usize> =
                    strings.into_iter().filter_map(|name| names.logical.get(name).copied()).collect();
                named.sort_unstable();
                named.dedup();
                Mapping::Other { names: named }
            }
        };
        Ok(Self { start, extents, kind, suffixes: parts.collect(), mapping })
    }
}

fn striped(fields: &Fields<'_>, names: &Names<'_>, extents: u64) -> Result<Mapping, FieldError> {
    let count = fields.within("stripe_count", 1, MAX_STRIPES)?;
    let chunk_sectors = if count == 1 { 0 } else { fields.within("stripe_size", 1, MAX_SECTORS)? };
    if !extents.is_multiple_of(count) {
        return Err(fields.error(
            "extent_count",
            extents,
            format_args!("a multiple of {count}, its stripes"),
        ));
    }
    let items = fields.list("stripes")?.unwrap_or_default();
    if items.len() as u64 != 2 * count {
        return Err(fields.error(
            "stripes",
            format_args!("a list of {}", items.len()),
            "a pair for each stripe",
        ));
    }
    let area = |pair: &[Value]| match pair {
        [Value::Text(name), Value::Integer(extent)] => {
            let extent = *extent;
            if let Some(pv) = names.physical.get(name.as_str()).copied() {
                return Ok(Area::Physical { pv, extent });
            }
            names.volume(fields, "stripes", name).map(|lv| Area::Logical { lv, extent })
        }
        _ => Err(fields.error("stripes", shown(&pair[0]), "pairs of a name and an extent")),
    };
    let areas = items.chunks_exact(2).map(area).collect::<Result<_, _>>()?;
    Ok(Mapping::Striped { areas, chunk_sectors })
}

impl Integrity {
    fn read(fields: &Fields<'_>, names: &Names<'_>) -> Result<Self, FieldError> {
        let origin = names.named(fields, "origin")?;
        let origin = origin.ok_or_else(|| fields.error("origin", "missing", "a logical volume"))?;
        let mode = fields.string("mode")?.unwrap_or("missing");
        if !matches!(mode, "B" | "J") {
            return Err(fields.error("mode", mode, "\"B\" or \"J\""));
        }
        Ok(Self {
            origin,
            tags: names.named(fields, "meta_dev")?,
            data_sectors: fields.integer("data_sectors")?,
            journal: mode == "J",
            tag_bytes: fields.integer("tag_size")?,
            block_bytes: fields.integer("block_size")?,
        })
    }
}

impl Raid {
    fn read(fields: &Fields<'_>, names: &Names<'_>, kind: RaidKind) -> Result<Self, FieldError> {
        let count = fields.within("device_count", 2, u64::from(MAX_IMAGES))?;
        let is_raid1 = kind.level() == Level::Raid1;
        let chunk_sectors = if is_raid1 { 0 } else { fields.within("stripe_size", 1, MAX_SECTORS)? };
        let copies =
            if fields.given("data_copies")?.is_some() { fields.within("data_copies", 1, 64)? } else { 2 };
        let items = fields.list("raids")?.unwrap_or_default();
        if items.len() as u64 != 2 * count {
            let found = format_args!("a list of {}", items.len()).to_string();
            return Err(fields.error("raids", found, format_args!("{count} pairs, its device_count")));
        }
        let volume = |item: &Value| match item {
            Value::Text(name) => names.volume(fields, "raids", name),
            other => Err(fields.error("raids", shown(other), "a list of strings")),
        };
        let pair = |pair: &[Value]| Ok((volume(&pair[0])?, volume(&pair[1])?));
        Ok(Self {
            kind,
            images: items.chunks_exact(2).map(pair).collect::<Result<_, _>>()?,
            chunk_sectors,
            region_sectors: fields.within("region_size", 1, MAX_SECTORS)?,
            // At most 64.
            copies: copies as u8,
            reshape_extents: fields.given("reshape_count")?.unwrap_or(0),
        })
    }
}
