//! The superblocks (and bitmaps and bad-block logs) of a new array, as bytes to be written.
//!
//! They describe a clean array: the caller must ensure that parity agrees with the data, on new
//! members usually by writing zeros to all of them.

use std::fmt;

use pumice_base::units::SECTOR;

use crate::bitmap;
use crate::bytes::put;
use crate::geometry::{Geometry, GeometryError};
use crate::layout::{Layout, Level};
use crate::metadata::Metadata;
use crate::superblock::features::Features;
use crate::superblock::v0::{self, Disk, V0};
use crate::superblock::v1::{MAX_DEV, RESYNC_DONE, ROLE_SPARE, V1};
use crate::uuid::Uuid;

/// Start of the data area of a version 1.1 or 1.2 member unless the bitmap needs more: mdadm's own
/// choice for members of some GiB.
pub const DEFAULT_DATA_OFFSET: u64 = 1 << 20;
/// Sectors of the bad-block log, as mdadm makes it: 512 entries.
const BAD_BLOCK_LOG: u64 = 8;
/// Entries of the role table that mdadm makes at least.
const ROLES: usize = 128;
/// Bytes of a bitmap region to begin with; doubled until the bitmap fits.
const BITMAP_CHUNK: u32 = 64 << 20;
/// Bytes of the largest bitmap region.
const MAX_BITMAP_CHUNK: u32 = 1 << 31;
/// Sectors of the bitmap that follows a 0.90 superblock.
const BITMAP_SPACE_0_90: u64 = 120;
/// Seconds between rounds of clearing bits, md's default.
const DAEMON_SLEEP: u32 = 5;
/// Sectors at the end of a version 1.0 member that hold no data: superblock, bad-block log, bitmap.
const TAIL_1_0: u64 = 16;

/// Description of a new array.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FormatSpec {
    /// The format of the superblocks.
    pub metadata: Metadata,
    /// The level.
    pub level: Level,
    /// The layout; `None` for RAID-4.
    pub layout: Option<Layout>,
    /// Bytes of a chunk.
    pub chunk_bytes: u64,
    /// Bytes that each member gives to the array; `None` for as much as there is. Rounded down to
    /// whole chunks.
    pub component_bytes: Option<u64>,
    /// The size of each member's device in bytes, by role. As many members as there are sizes.
    pub device_bytes: Vec<u64>,
    /// The array's UUID.
    pub array_uuid: Uuid,
    /// The devices' UUIDs, by role; 0.90 does not keep them.
    pub device_uuids: Vec<Uuid>,
    /// The array's name, at most 32 bytes; 0.90 does not keep it.
    pub name: String,
    /// Time of creation, in seconds since 1970.
    pub ctime: u64,
    /// With a bitmap.
    pub bitmap: bool,
    /// With a (still empty) bad-block log; 0.90 has none.
    pub bad_block_log: bool,
    /// Start of the data area of a version 1.1 or 1.2 member, in bytes; `None` for
    /// [`DEFAULT_DATA_OFFSET`] or as much as is needed.
    pub data_offset: Option<u64>,
}

/// Bytes to write on a member.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemberFormat {
    /// Places in bytes from the start of the device, and what to write there.
    pub writes: Vec<(u64, Vec<u8>)>,
    /// Bytes from the start of the device to its data area.
    pub data_offset: u64,
}

/// A new array: what to write where, and its geometry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Format {
    /// By role.
    pub members: Vec<MemberFormat>,
    /// Geometry of the chunks.
    pub geometry: Geometry,
}

/// An array that cannot be made as asked for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FormatError {
    /// The geometry cannot be.
    #[error(transparent)]
    Geometry(#[from] GeometryError),
    /// A field of the specification is out of range.
    #[error("{field} is {found}; must be {allowed}")]
    Field {
        /// The field.
        field: &'static str,
        /// The value given.
        found: String,
        /// The values allowed.
        allowed: String,
    },
}

/// Regions of `chunk` bytes that cover `size` sectors.
fn bitmap_regions(size: u64, chunk: u32) -> u64 {
    size.div_ceil(u64::from(chunk) / SECTOR)
}

/// Regions that a bitmap of `space` sectors has bits for.
fn bitmap_bits(space: u64) -> u64 {
    (space * SECTOR - bitmap::HEADER_BYTES as u64) * 8
}

fn refuse<T>(
    field: &'static str,
    found: impl fmt::Display,
    allowed: impl fmt::Display,
) -> Result<T, FormatError> {
    Err(FormatError::Field { field, found: found.to_string(), allowed: allowed.to_string() })
}

/// Places of all structures on a member, in sectors.
#[derive(Debug, Clone, Copy)]
struct Places {
    superblock: u64,
    data: u64,
    data_size: u64,
    /// Relative to the superblock.
    bitmap: i64,
    /// Relative to the superblock.
    bad_blocks: i64,
}

impl FormatSpec {
    /// Works out what to write.
    ///
    /// # Errors
    /// If the geometry cannot be, a device is too small, or a field does not fit the format.
    pub fn format(&self) -> Result<Format, FormatError> {
        self.check()?;
        let disks = u16::try_from(self.device_bytes.len()).unwrap_or(u16::MAX);
        let places =
            self.device_bytes.iter().map(|bytes| self.places(*bytes)).collect::<Result<Vec<_>, _>>()?;
        let room = places.iter().map(|p| p.data_size * SECTOR).min().unwrap_or(0);
        let asked = self.component_bytes.unwrap_or(room);
        if asked > room {
            return refuse(
                "component size",
                asked,
                format_args!("at most the {room} bytes of the smallest device"),
            );
        }
        if !self.chunk_bytes.is_power_of_two() {
            return Err(GeometryError::Chunk { found: self.chunk_bytes }.into());
        }
        let component = asked & !(self.chunk_bytes - 1);
        let geometry = Geometry::new(self.level, self.layout, disks, self.chunk_bytes, component)?;
        let size = component / SECTOR;
        if self.metadata == Metadata::V0_90 && u32::try_from(size / 2).is_err() {
            return refuse("component size", component, "below 4 TiB with metadata 0.90");
        }
        let members =
            places.iter().enumerate().map(|(role, places)| self.member(role, places, size)).collect();
        Ok(Format { members, geometry })
    }

    fn check(&self) -> Result<(), FormatError> {
        let (disks, v0) = (self.device_bytes.len(), self.metadata == Metadata::V0_90);
        if v0 && disks > v0::MAX_DISKS {
            return refuse("raid_disks", disks, "at most 27 with metadata 0.90");
        }
        if disks > MAX_DEV as usize {
            return refuse("raid_disks", disks, "at most 1920");
        }
        if !v0 && self.device_uuids.len() != disks {
            return refuse(
                "device uuids",
                self.device_uuids.len(),
                format_args!("one for each of {disks} devices"),
            );
        }
        if self.name.len() > 32 || self.name.contains(char::is_control) {
            return refuse("name", self.name.escape_debug(), "at most 32 bytes, without control characters");
        }
        let latest = if v0 { u64::from(u32::MAX) } else { (1 << 40) - 1 };
        if self.ctime > latest {
            return refuse("ctime", self.ctime, format_args!("at most {latest}"));
        }
        Ok(())
    }

    /// Sectors set aside for the bitmap: by mdadm's steps, which depend on the size of the device.
    fn bitmap_space(&self, device_sectors: u64) -> u64 {
        const GIB: u64 = (1 << 30) / SECTOR;
        match device_sectors {
            _ if !self.bitmap => 0,
            sectors if sectors <= 8 * GIB => 8,
            sectors if sectors < 200 * GIB => 128,
            _ => 256,
        }
    }

    fn places(&self, device_bytes: u64) -> Result<Places, FormatError> {
        let sectors = device_bytes / SECTOR;
        let Some(superblock) = self.metadata.super_sector(sectors) else {
            return refuse(
                "device size",
                device_bytes,
                format_args!("enough for metadata {}", self.metadata),
            );
        };
        let space = self.bitmap_space(sectors);
        let log = if self.bad_block_log { BAD_BLOCK_LOG } else { 0 };
        let places = match self.metadata {
            Metadata::V0_90 => {
                Places { superblock, data: 0, data_size: superblock, bitmap: 8, bad_blocks: 0 }
            }
            // From the end: superblock, log, bitmap, data.
            Metadata::V1_0 => Places {
                superblock,
                data: 0,
                data_size: superblock.saturating_sub((log + space).next_multiple_of(TAIL_1_0)),
                bitmap: -(log + space).cast_signed(),
                bad_blocks: -log.cast_signed(),
            },
            // From the start: superblock, bitmap, log, data.
            Metadata::V1_1 | Metadata::V1_2 => {
                let needed = superblock + 8 + space + log;
                let least = (needed * SECTOR).next_multiple_of(DEFAULT_DATA_OFFSET);
                let data = self.data_offset.unwrap_or(least) / SECTOR;
                let aligned = self.data_offset.is_none_or(|bytes| bytes % 4096 == 0);
                if data < needed || !aligned {
                    let allowed =
                        format_args!("at least {} bytes, a multiple of 4096", needed * SECTOR).to_string();
                    return refuse("data_offset", data * SECTOR, allowed);
                }
                let end = (8 + space).cast_signed();
                Places {
                    superblock,
                    data,
                    data_size: sectors.saturating_sub(data),
                    bitmap: 8,
                    bad_blocks: end,
                }
            }
        };
        if places.data_size == 0 {
            return refuse(
                "device size",
                device_bytes,
                format_args!("more than {} bytes", places.data * SECTOR),
            );
        }
        Ok(places)
    }

    fn member(&self, role: usize, places: &Places, size: u64) -> MemberFormat {
        let at = places.superblock * SECTOR;
        let superblock = match self.metadata {
            Metadata::V0_90 => self.v0(role, size).encode(),
            _ => self.v1(role, places, size).encode(),
        };
        let mut writes = vec![(at, superblock)];
        let beside = |offset: i64| at.saturating_add_signed(offset * SECTOR.cast_signed());
        if self.bitmap {
            let space = match self.metadata {
                Metadata::V0_90 => BITMAP_SPACE_0_90,
                _ => self.bitmap_space(self.device_bytes[role] / SECTOR),
            };
            writes.push((beside(places.bitmap), self.bitmap_bytes(size, space)));
        }
        if self.bad_block_log && self.metadata != Metadata::V0_90 {
            // An empty log is all end marks.
            writes.push((beside(places.bad_blocks), vec![0xFF; (BAD_BLOCK_LOG * SECTOR) as usize]));
        }
        MemberFormat { writes, data_offset: places.data * SECTOR }
    }

    fn layout_number(&self) -> u32 {
        self.layout.map_or(0, Layout::number)
    }

    fn v1(&self, role: usize, places: &Places, size: u64) -> V1 {
        let disks = self.device_bytes.len();
        let mut set_name = [0; 32];
        put(&mut set_name, 0, self.name.as_bytes());
        let mut dev_roles = vec![ROLE_SPARE; disks.max(ROLES)];
        for (number, entry) in dev_roles.iter_mut().enumerate().take(disks) {
            // At most 1920 members.
            *entry = number as u16;
        }
        let bitmap_offset = if self.bitmap { places.bitmap as i32 } else { 0 };
        V1 {
            feature_map: if self.bitmap { Features::BITMAP } else { 0 },
            set_uuid: self.array_uuid.0,
            set_name,
            ctime: self.ctime,
            level: self.level.number(),
            layout: self.layout_number(),
            size,
            chunk: (self.chunk_bytes / SECTOR) as u32,
            raid_disks: disks as u32,
            bitmap_or_ppl: bitmap_offset.to_le_bytes(),
            new_level: 0,
            reshape_position: 0,
            delta_disks: 0,
            new_layout: 0,
            new_chunk: 0,
            new_offset: 0,
            data_offset: places.data,
            data_size: places.data_size,
            super_offset: places.superblock,
            recovery_offset: 0,
            dev_number: role as u32,
            corrected_reads: 0,
            device_uuid: self.device_uuids[role].0,
            devflags: 0,
            bblog_shift: 0,
            bblog_size: if self.bad_block_log { BAD_BLOCK_LOG as u16 } else { 0 },
            bblog_offset: if self.bad_block_log { places.bad_blocks as i32 } else { 0 },
            utime: self.ctime,
            events: 1,
            resync_offset: RESYNC_DONE,
            logical_block_size: 0,
            dev_roles,
        }
    }

    fn v0(&self, role: usize, size: u64) -> V0 {
        let count = self.device_bytes.len() as u32;
        let disk = |number: u32| Disk {
            number,
            major: 0,
            minor: 0,
            raid_disk: number,
            state: v0::DISK_ACTIVE | v0::DISK_SYNC,
        };
        let mut disks = [Disk::default(); v0::MAX_DISKS];
        for (number, entry) in (0..count).zip(&mut disks) {
            *entry = disk(number);
        }
        V0 {
            minor_version: 90,
            set_uuid: self.array_uuid.swap_words().0,
            ctime: self.ctime as u32,
            level: self.level.number().cast_unsigned(),
            size: (size / 2) as u32,
            nr_disks: count,
            raid_disks: count,
            md_minor: 0,
            utime: self.ctime as u32,
            state: v0::STATE_CLEAN | if self.bitmap { v0::STATE_BITMAP } else { 0 },
            active_disks: count,
            working_disks: count,
            failed_disks: 0,
            spare_disks: 0,
            events: 1,
            cp_events: 1,
            recovery_cp: u32::MAX,
            reshape_position: 0,
            new_level: 0,
            delta_disks: 0,
            new_layout: 0,
            new_chunk: 0,
            layout: self.layout_number(),
            chunk: self.chunk_bytes as u32,
            disks,
            this_disk: disk(role as u32),
        }
    }

    /// A bitmap without a dirty region that fits `space` sectors.
    fn bitmap_bytes(&self, size: u64, space: u64) -> Vec<u8> {
        let mut chunk = BITMAP_CHUNK;
        while bitmap_regions(size, chunk) > bitmap_bits(space) && chunk < MAX_BITMAP_CHUNK {
            chunk <<= 1;
        }
        let uuid = match self.metadata {
            Metadata::V0_90 => self.array_uuid.swap_words(),
            _ => self.array_uuid,
        };
        let mut out = vec![0; bitmap::HEADER_BYTES + bitmap_regions(size, chunk).div_ceil(8) as usize];
        put(&mut out, 0, &bitmap::MAGIC.to_le_bytes());
        put(&mut out, 4, &4_u32.to_le_bytes());
        put(&mut out, 8, &uuid.0);
        put(&mut out, 24, &1_u64.to_le_bytes());
        put(&mut out, 32, &1_u64.to_le_bytes());
        put(&mut out, 40, &size.to_le_bytes());
        put(&mut out, 52, &chunk.to_le_bytes());
        put(&mut out, 56, &DAEMON_SLEEP.to_le_bytes());
        // Whole sectors, so that what lies behind it is no old bitmap.
        out.resize(out.len().next_multiple_of(SECTOR as usize), 0);
        out
    }
}
