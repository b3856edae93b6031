//! The superblock of version 0.90: 4096 bytes, in the byte order of the host that wrote them. Byte
//! map in `docs/reference/on-disk/md.md`.
//!
//! Only little-endian superblocks are read; one of a big-endian host is recognised and refused.

use pumice_base::units::{Role, Sectors};

use super::features::Features;
use super::{MAGIC, Position, Reshape, Resync, Superblock, checksum, level_unknown};
use crate::area::Area;
use crate::bytes::{array, put, u32_at, u64_at};
use crate::geometry::{MAX_CHUNK, MIN_CHUNK};
use crate::invalid::{Check, Invalid};
use crate::layout::{Layout, Level};
use crate::metadata::Metadata;
use crate::uuid::Uuid;

/// Bytes of the superblock.
pub const BYTES: usize = 4096;
/// Entries of the table of disks.
pub const MAX_DISKS: usize = 27;
/// Sectors reserved for the superblock and the bitmap, from the superblock to the end of the part
/// of the device that md uses.
const RESERVED: u64 = 128;
/// Sectors from the superblock to the bitmap.
const BITMAP: u64 = 8;

/// Array state: no write is under way.
pub const STATE_CLEAN: u32 = 1;
/// Array state: there is a bitmap.
pub const STATE_BITMAP: u32 = 1 << 8;

/// Disk state: failed.
pub const DISK_FAULTY: u32 = 1;
/// Disk state: in a role.
pub const DISK_ACTIVE: u32 = 1 << 1;
/// Disk state: holds all the data of its role.
pub const DISK_SYNC: u32 = 1 << 2;
/// Disk state: taken out.
pub const DISK_REMOVED: u32 = 1 << 3;

/// An entry of the table of disks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Disk {
    /// Its own index in the table.
    pub number: u32,
    /// Device number of the block device, major part.
    pub major: u32,
    /// Device number of the block device, minor part.
    pub minor: u32,
    /// The role.
    pub raid_disk: u32,
    /// `DISK_*`.
    pub state: u32,
}

/// The fields of a 0.90 superblock as they are on disk, in the units of the disk.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(
    missing_docs,
    reason = "the byte map in docs/reference/on-disk/md.md explains each field; the names are the same"
)]
pub struct V0 {
    pub minor_version: u32,
    /// The four words of the UUID, as stored.
    pub set_uuid: [u8; 16],
    pub ctime: u32,
    pub level: u32,
    /// KiB.
    pub size: u32,
    pub nr_disks: u32,
    pub raid_disks: u32,
    pub md_minor: u32,
    pub utime: u32,
    pub state: u32,
    pub active_disks: u32,
    pub working_disks: u32,
    pub failed_disks: u32,
    pub spare_disks: u32,
    pub events: u64,
    pub cp_events: u64,
    pub recovery_cp: u32,
    pub reshape_position: u64,
    pub new_level: u32,
    pub delta_disks: u32,
    pub new_layout: u32,
    /// Bytes.
    pub new_chunk: u32,
    pub layout: u32,
    /// Bytes.
    pub chunk: u32,
    pub disks: [Disk; MAX_DISKS],
    pub this_disk: Disk,
}

impl Disk {
    fn decode(bytes: &[u8], at: usize) -> Self {
        let word = |i: usize| u32_at(bytes, at + 4 * i);
        Self { number: word(0), major: word(1), minor: word(2), raid_disk: word(3), state: word(4) }
    }

    fn encode(&self, out: &mut [u8], at: usize) {
        for (i, word) in
            [self.number, self.major, self.minor, self.raid_disk, self.state].into_iter().enumerate()
        {
            put(out, at + 4 * i, &word.to_le_bytes());
        }
    }
}

impl V0 {
    /// Reads the fields and checks what can be checked without the device: magic, byte order,
    /// version, checksum.
    ///
    /// # Errors
    /// Names the field.
    pub fn decode(bytes: &[u8]) -> Result<Self, Invalid> {
        let check = Check(Metadata::V0_90.structure());
        let Some(bytes) = bytes.get(..BYTES) else {
            return Err(Invalid::new(check.0, "length", bytes.len(), "4096 bytes"));
        };
        let magic = u32_at(bytes, 0);
        let order = format_args!("{magic:#010x}, that of a big-endian host").to_string();
        check.that(magic != MAGIC.swap_bytes(), "magic", order, "little-endian")?;
        check.that(magic == MAGIC, "magic", format_args!("{magic:#010x}"), "0xa92b4efc")?;
        check.that(u32_at(bytes, 4) == 0, "major_version", u32_at(bytes, 4), 0)?;
        let minor = u32_at(bytes, 8);
        check.that(minor == 90 || minor == 91, "minor_version", minor, "90, or 91 while reshaping")?;
        let (stored, computed) = (u32_at(bytes, 152), Self::sum(bytes));
        let text = |sum: u32| format!("{sum:#010x}");
        check.that(stored == computed, "sb_csum", text(stored), text(computed))?;
        Ok(Self::fields(bytes))
    }

    fn fields(bytes: &[u8]) -> Self {
        let mut set_uuid = [0; 16];
        put(&mut set_uuid, 0, &array::<4>(bytes, 20));
        put(&mut set_uuid, 4, &array::<12>(bytes, 52));
        Self {
            minor_version: u32_at(bytes, 8),
            set_uuid,
            ctime: u32_at(bytes, 24),
            level: u32_at(bytes, 28),
            size: u32_at(bytes, 32),
            nr_disks: u32_at(bytes, 36),
            raid_disks: u32_at(bytes, 40),
            md_minor: u32_at(bytes, 44),
            utime: u32_at(bytes, 128),
            state: u32_at(bytes, 132),
            active_disks: u32_at(bytes, 136),
            working_disks: u32_at(bytes, 140),
            failed_disks: u32_at(bytes, 144),
            spare_disks: u32_at(bytes, 148),
            // The halves are in the host's order, so on a little-endian host this is one number.
            events: u64_at(bytes, 156),
            cp_events: u64_at(bytes, 164),
            recovery_cp: u32_at(bytes, 172),
            reshape_position: u64_at(bytes, 176),
            new_level: u32_at(bytes, 184),
            delta_disks: u32_at(bytes, 188),
            new_layout: u32_at(bytes, 192),
            new_chunk: u32_at(bytes, 196),
            layout: u32_at(bytes, 256),
            chunk: u32_at(bytes, 260),
            disks: std::array::from_fn(|i| Disk::decode(bytes, 512 + 128 * i)),
            this_disk: Disk::decode(bytes, 3968),
        }
    }

    /// The bytes on disk, with their checksum.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = vec![0; BYTES];
        let b = &mut out;
        put(b, 0, &MAGIC.to_le_bytes());
        put(b, 8, &self.minor_version.to_le_bytes());
        put(b, 20, &self.set_uuid[..4]);
        put(b, 52, &self.set_uuid[4..]);
        let words = [
            (24, self.ctime),
            (28, self.level),
            (32, self.size),
            (36, self.nr_disks),
            (40, self.raid_disks),
            (44, self.md_minor),
            (128, self.utime),
            (132, self.state),
            (136, self.active_disks),
            (140, self.working_disks),
            (144, self.failed_disks),
            (148, self.spare_disks),
            (172, self.recovery_cp),
            (184, self.new_level),
            (188, self.delta_disks),
            (192, self.new_layout),
            (196, self.new_chunk),
            (256, self.layout),
            (260, self.chunk),
        ];
        for (at, word) in words {
            put(b, at, &word.to_le_bytes());
        }
        for (at, long) in [(156, self.events), (164, self.cp_events), (176, self.reshape_position)] {
            put(b, at, &long.to_le_bytes());
        }
        for (i, disk) in self.disks.iter().enumerate() {
            disk.encode(b, 512 + 128 * i);
        }
        self.this_disk.encode(b, 3968);
        let sum = Self::sum(&out);
        put(&mut out, 152, &sum.to_le_bytes());
        out
    }

    /// The checksum of `bytes`, whatever its field holds.
    fn sum(bytes: &[u8]) -> u32 {
        let mut cleared = bytes.to_vec();
        put(&mut cleared, 152, &[0; 4]);
        checksum(&cleared)
    }

    /// Checks every field against the device and the other fields, and says what they mean.
    ///
    /// # Errors
    /// Names the field.
    pub fn interpret(&self, device_sectors: u64) -> Result<Superblock, Invalid> {
        let check = Check(Metadata::V0_90.structure());
        let (level, layout) = self.check_level(check)?;
        let raid_disks = self.check_disks(check, level)?;
        let Some(sector) = Metadata::V0_90.super_sector(device_sectors) else {
            return Err(Invalid::new(check.0, "place", "none", "on a device of at least 64 KiB"));
        };
        let size = u64::from(self.size) * 2;
        let room = format_args!("{} to {} KiB", self.chunk / 1024, sector / 2).to_string();
        check.that(size * 512 >= u64::from(self.chunk) && size <= sector, "size", self.size, room)?;
        let number = self.this_disk.number;
        let known = (number as usize) < MAX_DISKS;
        check.that(known, "this_disk.number", number, "below 27")?;
        let has_bitmap = self.state & STATE_BITMAP != 0;
        let reshaping = self.minor_version == 91;
        let features =
            if has_bitmap { Features::BITMAP } else { 0 } | if reshaping { Features::RESHAPE } else { 0 };
        let mut superblock = Superblock {
            metadata: Metadata::V0_90,
            array_uuid: Uuid(self.set_uuid).swap_words(),
            device_uuid: None,
            name: String::new(),
            ctime: u64::from(self.ctime),
            utime: u64::from(self.utime),
            level,
            layout,
            chunk: Sectors(if level == Level::Raid1 { 0 } else { u64::from(self.chunk / 512) }),
            raid_disks,
            size: Sectors(size),
            super_offset: Sectors(sector),
            data_offset: Sectors(0),
            data_size: Sectors(sector),
            // Below 27.
            dev_number: number as u16,
            dev_roles: self.disks.iter().map(|disk| disk.position(raid_disks)).collect(),
            events: self.events,
            resync: Resync::Unclean,
            recovery_offset: None,
            reshape: reshaping.then_some(Reshape {
                position: self.reshape_position,
                new_level: self.new_level.cast_signed(),
                delta_disks: self.delta_disks.cast_signed(),
                new_layout: self.new_layout,
                new_chunk: self.new_chunk / 512,
                backwards: self.delta_disks.cast_signed() < 0,
            }),
            features: Features(features),
            bitmap: has_bitmap.then_some(Area { start: sector + BITMAP, sectors: RESERVED - BITMAP }),
            bad_block_log: None,
            ppl: None,
            journal_tail: None,
        };
        superblock.resync = self.resync(superblock.resync_sectors().get());
        Ok(superblock)
    }

    /// The clean bit says that parity is whole. Without it the check point counts only if it
    /// belongs to this event.
    fn resync(&self, size: u64) -> Resync {
        let at = u64::from(self.recovery_cp);
        if self.state & STATE_CLEAN != 0 {
            Resync::Done
        } else if self.cp_events == self.events && (1..size).contains(&at) {
            Resync::At(Sectors(at))
        } else {
            Resync::Unclean
        }
    }

    fn check_level(&self, check: Check) -> Result<(Level, Option<Layout>), Invalid> {
        let Some(level) = Level::from_number(self.level.cast_signed()) else {
            let uuid = Uuid(self.set_uuid).swap_words();
            return Err(level_unknown(check, self.level.cast_signed(), "", uuid));
        };
        let layout = Layout::from_number(level, self.layout);
        let unused = match level {
            Level::Raid1 => self.layout == 0,
            Level::Raid4 => self.layout <= 5,
            _ => false,
        };
        let known = layout.is_some() || unused;
        check.that(known, "layout", self.layout, format_args!("a layout of {level}"))?;
        let chunk = u64::from(self.chunk);
        // RAID-1 has no chunk, and what the field says of one does not count.
        let fits =
            level == Level::Raid1 || chunk.is_power_of_two() && (MIN_CHUNK..=MAX_CHUNK).contains(&chunk);
        check.that(fits, "chunk", self.chunk, "a power of two from 4096 to 1073741824 bytes")?;
        Ok((level, layout))
    }

    fn check_disks(&self, check: Check, level: Level) -> Result<u16, Invalid> {
        let most = MAX_DISKS as u32;
        let disks = u16::try_from(self.raid_disks).unwrap_or(u16::MAX);
        let fits = disks >= level.min_disks() && self.raid_disks <= most;
        check.that(
            fits,
            "raid_disks",
            self.raid_disks,
            format_args!("{} to 27 for {level}", level.min_disks()),
        )?;
        check.that(self.nr_disks <= most, "nr_disks", self.nr_disks, "at most 27")?;
        Ok(disks)
    }

    /// [`V0::decode`] and [`V0::interpret`].
    ///
    /// # Errors
    /// Names the field.
    pub fn parse(bytes: &[u8], device_sectors: u64) -> Result<Superblock, Invalid> {
        Self::decode(bytes)?.interpret(device_sectors)
    }
}

impl Disk {
    fn position(&self, raid_disks: u16) -> Position {
        let whole = DISK_ACTIVE | DISK_SYNC;
        match u16::try_from(self.raid_disk) {
            _ if self.state & DISK_FAULTY != 0 => Position::Faulty,
            Ok(role) if self.state & (whole | DISK_REMOVED) == whole && role < raid_disks => {
                Position::Active(Role(role))
            }
            _ => Position::Spare,
        }
    }
}
