//! The contents of a superblock, the same for all formats.

pub mod features;
pub mod v0;
pub mod v1;

use std::fmt;

use pumice_base::units::{Role, SECTOR, Sectors};

use crate::area::Area;
use crate::arrangement::Arrangement;
use crate::geometry::{Geometry, GeometryError};
use crate::invalid::{Check, Invalid};
use crate::layout::{Layout, Level};
use crate::metadata::Metadata;
use crate::mirrors::Mirrors;
use crate::uuid::Uuid;
use features::Features;

/// The number that begins every superblock.
pub const MAGIC: u32 = 0xA92B_4EFC;

/// Position of a device in its array.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Position {
    /// A member in this role (or its replacement).
    Active(Role),
    /// Waiting to be used, or no longer used.
    Spare,
    /// Has failed.
    Faulty,
    /// Holds the write journal.
    Journal,
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Active(role) => write!(f, "active in role {role}"),
            Self::Spare => f.write_str("spare"),
            Self::Faulty => f.write_str("faulty"),
            Self::Journal => f.write_str("journal"),
        }
    }
}

/// Agreement of parity with the data, as far as the superblock knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Resync {
    /// Parity has been built and no write is under way.
    Done,
    /// Writes were under way when the superblock was written, or parity was never built: on disk
    /// the two look the same.
    Unclean,
    /// Parity is built up to this sector of the members' data areas.
    At(Sectors),
}

/// A reshape that has not ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Reshape {
    /// Progress, in sectors of the array.
    pub position: u64,
    /// The level that it leads to.
    pub new_level: i32,
    /// Members gained (or lost).
    pub delta_disks: i32,
    /// The layout that it leads to.
    pub new_layout: u32,
    /// The chunk that it leads to, in sectors.
    pub new_chunk: u32,
    /// From the end to the start.
    pub backwards: bool,
}

/// The bad-block log as the superblock describes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct BadBlockLogPlace {
    /// Its place.
    pub area: Area,
    /// The unit of its entries is 2^shift sectors.
    pub shift: u8,
    /// True if it has entries.
    pub used: bool,
}

/// Content of a superblock. Sizes and places are in sectors of 512 bytes from the start of the
/// device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Superblock {
    /// The format.
    pub metadata: Metadata,
    /// The array.
    pub array_uuid: Uuid,
    /// The device; 0.90 does not name it.
    pub device_uuid: Option<Uuid>,
    /// The array's name, often `host:name`; empty in 0.90. Unprintable characters are escaped.
    pub name: String,
    /// Time of the array's creation, in seconds since 1970.
    pub ctime: u64,
    /// Time of the last write of the superblock, in seconds since 1970.
    pub utime: u64,
    /// The level.
    pub level: Level,
    /// The layout; `None` for RAID-4.
    pub layout: Option<Layout>,
    /// The chunk.
    pub chunk: Sectors,
    /// Members, parity included.
    pub raid_disks: u16,
    /// Size that each member gives to the array.
    pub size: Sectors,
    /// Place of the superblock itself.
    pub super_offset: Sectors,
    /// Start of the data area.
    pub data_offset: Sectors,
    /// Size available for the data area.
    pub data_size: Sectors,
    /// This device's entry in `dev_roles`.
    pub dev_number: u16,
    /// Positions of all known devices, by device number.
    pub dev_roles: Vec<Position>,
    /// Counts the changes of the array's state; the highest is the newest.
    pub events: u64,
    /// Agreement of parity with the data.
    pub resync: Resync,
    /// Up to where a member that is being rebuilt is good, in sectors of its data area.
    pub recovery_offset: Option<Sectors>,
    /// A reshape under way.
    pub reshape: Option<Reshape>,
    /// The feature bits.
    pub features: Features,
    /// Start of the bitmap and the space it has.
    pub bitmap: Option<Area>,
    /// The bad-block log.
    pub bad_block_log: Option<BadBlockLogPlace>,
    /// The partial parity log.
    pub ppl: Option<Area>,
    /// On a journal device the place of the oldest journal entry, in sectors of its data area.
    pub journal_tail: Option<Sectors>,
}

impl Superblock {
    /// Reads a superblock of one format from the bytes at its place.
    ///
    /// # Errors
    /// Names the field that is wrong.
    pub fn parse(bytes: &[u8], metadata: Metadata, device_sectors: u64) -> Result<Self, Invalid> {
        match metadata {
            Metadata::V0_90 => v0::V0::parse(bytes, device_sectors),
            _ => v1::V1::parse(bytes, metadata, device_sectors),
        }
    }

    /// The device's own position, by this superblock.
    #[must_use]
    pub fn position(&self) -> Position {
        self.position_of(self.dev_number)
    }

    /// The position of the device with number `dev_number`, by this superblock. A number beyond its
    /// table is a spare.
    #[must_use]
    pub fn position_of(&self, dev_number: u16) -> Position {
        self.dev_roles.get(usize::from(dev_number)).copied().unwrap_or(Position::Spare)
    }

    /// Bytes from the start of the device to its data area.
    #[must_use]
    pub const fn data_offset_bytes(&self) -> u64 {
        // A place on the device, whose size in bytes fits 64 bits.
        self.data_offset.get().saturating_mul(SECTOR)
    }

    /// The part of the device that the array's chunks use.
    #[must_use]
    pub const fn data_area(&self) -> Area {
        Area { start: self.data_offset.get(), sectors: self.size.get() }
    }

    /// Returns whether another superblock of the device lies in this one's data area as a whole, so
    /// that a user of the array may have written it.
    #[must_use]
    pub fn may_hold(&self, other: &Self) -> bool {
        let bytes = match other.metadata {
            Metadata::V0_90 => v0::BYTES,
            _ => v1::FIXED_BYTES + 2 * other.dev_roles.len(),
        };
        let start = other.super_offset.get();
        let end = start.saturating_add((bytes as u64).div_ceil(SECTOR));
        // The ring of a journal has a length of its own.
        let len = if self.journal_tail.is_some() { self.data_size } else { self.size };
        let data = Area { start: self.data_offset.get(), sectors: len.get() };
        data.start <= start && end <= data.end()
    }

    /// Returns whether all that another superblock of the device describes lies in this one's data
    /// area, so that it may be of an array inside this one. One whose data reach farther calls
    /// bytes its own that no user of this array has. 0.90 does not say where its data lie, so it
    /// may be of the whole device.
    #[must_use]
    pub fn holds_whole(&self, other: &Self) -> bool {
        let end = other.data_offset.get().saturating_add(other.data_size.get());
        other.metadata != Metadata::V0_90 && self.may_hold(other) && end <= self.data_area().end()
    }

    /// The first field in which two superblocks describe different arrays: its name, and what it is
    /// here and there.
    #[must_use]
    pub fn disagreement(&self, other: &Self) -> Option<(&'static str, String, String)> {
        let describe = |s: &Self| {
            [
                ("metadata", s.metadata.to_string()),
                ("level", s.level.to_string()),
                ("layout", s.layout.map_or("none".to_owned(), |l| l.to_string())),
                ("chunk", format!("{} sectors", s.chunk)),
                ("size", format!("{} sectors", s.size)),
                ("raid_disks", s.raid_disks.to_string()),
                ("ctime", s.ctime.to_string()),
            ]
        };
        let pairs = describe(self).into_iter().zip(describe(other));
        let ((field, here), (_, there)) = pairs.into_iter().find(|(a, b)| a != b)?;
        Some((field, here, there))
    }

    /// Arrangement of the array on its members.
    ///
    /// # Errors
    /// If the array as a whole is too large, or its copies lie in a way that is not worked with;
    /// the fields by themselves hold good.
    pub fn arrangement(&self) -> Result<Arrangement, GeometryError> {
        let component = self.size.get().saturating_mul(SECTOR);
        match (self.level, self.layout) {
            (Level::Raid1, _) => Mirrors::raid1(self.raid_disks, component).map(Arrangement::Mirrors),
            (Level::Raid10, Some(Layout::Copies(copies))) => {
                Mirrors::raid10(copies, self.raid_disks, self.chunk_bytes(), component)
                    .map(Arrangement::Mirrors)
            }
            _ => self.geometry().map(Arrangement::Parity),
        }
    }

    /// Sectors that a resync goes through, and a bitmap covers: those of the array at RAID-10, of a
    /// member at the other levels.
    #[must_use]
    pub fn resync_sectors(&self) -> Sectors {
        match self.arrangement() {
            Ok(arrangement) if self.level == Level::Raid10 => Sectors(arrangement.array_bytes() / SECTOR),
            _ => self.size,
        }
    }

    /// Geometry of the chunks of an array with parity.
    ///
    /// # Errors
    /// If the array has copies, or as a whole is too large; the fields by themselves hold good.
    pub fn geometry(&self) -> Result<Geometry, GeometryError> {
        let component = self.size.get().saturating_mul(SECTOR);
        Geometry::new(self.level, self.layout, self.raid_disks, self.chunk_bytes(), component)
    }

    /// Bytes of a chunk.
    #[must_use]
    pub const fn chunk_bytes(&self) -> u64 {
        self.chunk.get().saturating_mul(SECTOR)
    }
}

/// The sum that both formats use as a checksum: 32-bit words added up in 64 bits, the upper half
/// folded onto the lower. Two bytes that are left over count as a word. The caller has cleared the
/// checksum field.
#[must_use]
pub(crate) fn checksum(bytes: &[u8]) -> u32 {
    let words = bytes.chunks_exact(4);
    let rest: u64 = match words.remainder() {
        [low, high, ..] => u64::from(u16::from_le_bytes([*low, *high])),
        _ => 0,
    };
    let sum = words.fold(rest, |sum, word| sum + u64::from(crate::bytes::u32_at(word, 0)));
    (sum as u32).wrapping_add((sum >> 32) as u32)
}

/// The error of a level that cannot be checked, with the array that has it.
fn level_unknown(check: Check, level: i32, name: &str, uuid: Uuid) -> Invalid {
    let kind = match level {
        0 => "nothing is wrong with a RAID-0, but it has no redundancy to check",
        -1 => "nothing is wrong with a linear array, but it has no redundancy to check",
        _ => "the levels with redundancy",
    };
    let named = if name.is_empty() { String::new() } else { format!("{name}, ") };
    Invalid::new(
        check.0,
        "level",
        format_args!("{level} (array {named}uuid {uuid})"),
        format_args!("1, 4, 5, 6 or 10: {kind}"),
    )
}

/// A name out of bytes that end at the first zero.
pub(crate) fn printable(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|b| *b == 0).unwrap_or(bytes.len());
    pumice_base::units::printable(&String::from_utf8_lossy(&bytes[..end]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksum_adds_words_and_folds() {
        assert_eq!(checksum(&[1, 0, 0, 0, 2, 0, 0, 0]), 3);
        assert_eq!(checksum(&[0xFF, 0xFF, 0xFF, 0xFF, 2, 0, 0, 0]), 2);
        assert_eq!(checksum(&[1, 0, 0, 0, 2, 1]), 0x103);
    }

    #[test]
    fn names_end_at_zero_and_show_no_control_characters() {
        assert_eq!(printable(b"host:vol\0garbage"), "host:vol");
        assert_eq!(printable(b"a\x1b[31m"), "a\\u{1b}[31m");
        assert_eq!(printable(&[0xFF, 0]), "\u{FFFD}");
        assert_eq!(printable("a\u{202e}cba".as_bytes()), "a\\u{202e}cba");
    }
}
