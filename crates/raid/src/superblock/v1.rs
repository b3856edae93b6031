//! The superblock of versions 1.0, 1.1 and 1.2: one structure in three places. Byte map in
//! `docs/reference/on-disk/md.md`.

use pumice_base::units::{Role, Sectors};

use super::features::Features;
use super::{
    BadBlockLogPlace, MAGIC, Position, Reshape, Resync, Superblock, checksum, level_unknown, printable,
};
use crate::area::Area;
use crate::bytes::{all_zero, array, i16_at, i32_at, put, u16_at, u32_at, u64_at};
use crate::geometry::{MAX_CHUNK, MIN_CHUNK};
use crate::invalid::{Check, Invalid};
use crate::layout::{Layout, Level};
use crate::metadata::Metadata;
use crate::uuid::Uuid;

/// Bytes before the role table.
pub const FIXED_BYTES: usize = 256;
/// The most entries of the role table.
pub const MAX_DEV: u32 = 1920;
/// Bytes of the largest superblock.
pub const MAX_BYTES: usize = FIXED_BYTES + 2 * MAX_DEV as usize;
/// `resync_offset` of an array whose parity is whole.
pub const RESYNC_DONE: u64 = u64::MAX;

/// Role table entry: a spare.
pub const ROLE_SPARE: u16 = 0xFFFF;
/// Role table entry: failed.
pub const ROLE_FAULTY: u16 = 0xFFFE;
/// Role table entry: the journal.
pub const ROLE_JOURNAL: u16 = 0xFFFD;
/// Bit of a role table entry that Synology's md sets in the role of a member with errors.
const ROLE_ERRORS: u16 = 0x8000;

/// The largest bad-block log that is read, in sectors: 8192 entries. md makes it 8 sectors.
const MAX_BAD_BLOCK_LOG: u16 = 128;
/// The seconds of a time stamp; the bits above count microseconds.
const SECONDS: u64 = (1 << 40) - 1;

/// The fields of a version 1 superblock as they are on disk, in the units of the disk.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(
    missing_docs,
    reason = "the byte map in docs/reference/on-disk/md.md explains each field; the names are the same"
)]
pub struct V1 {
    pub feature_map: u32,
    pub set_uuid: [u8; 16],
    pub set_name: [u8; 32],
    pub ctime: u64,
    pub level: i32,
    pub layout: u32,
    pub size: u64,
    pub chunk: u32,
    pub raid_disks: u32,
    /// The four bytes at 96: `bitmap_offset`, or the offset and size of the partial parity log.
    pub bitmap_or_ppl: [u8; 4],
    pub new_level: i32,
    pub reshape_position: u64,
    pub delta_disks: i32,
    pub new_layout: u32,
    pub new_chunk: u32,
    pub new_offset: i32,
    pub data_offset: u64,
    pub data_size: u64,
    pub super_offset: u64,
    /// `recovery_offset`, on a journal device `journal_tail`.
    pub recovery_offset: u64,
    pub dev_number: u32,
    pub corrected_reads: u32,
    pub device_uuid: [u8; 16],
    pub devflags: u8,
    pub bblog_shift: u8,
    pub bblog_size: u16,
    pub bblog_offset: i32,
    pub utime: u64,
    pub events: u64,
    pub resync_offset: u64,
    pub logical_block_size: u32,
    pub dev_roles: Vec<u16>,
}

impl V1 {
    /// Reads the fields and checks what can be checked without the device: magic, version, lengths,
    /// checksum, pads.
    ///
    /// # Errors
    /// Names the field.
    pub fn decode(bytes: &[u8], metadata: Metadata) -> Result<Self, Invalid> {
        let check = Check(metadata.structure());
        check.that(bytes.len() >= FIXED_BYTES, "length", bytes.len(), "at least 256 bytes")?;
        let magic = u32_at(bytes, 0);
        check.that(magic == MAGIC, "magic", format_args!("{magic:#010x}"), "0xa92b4efc")?;
        check.that(u32_at(bytes, 4) == 1, "major_version", u32_at(bytes, 4), 1)?;
        let max_dev = u32_at(bytes, 220);
        check.that((1..=MAX_DEV).contains(&max_dev), "max_dev", max_dev, "1 to 1920")?;
        let length = FIXED_BYTES + 2 * max_dev as usize;
        let Some(bytes) = bytes.get(..length) else {
            return Err(Invalid::new(
                check.0,
                "max_dev",
                max_dev,
                format_args!("within the {} bytes", bytes.len()),
            ));
        };
        let (stored, computed) = (u32_at(bytes, 216), Self::sum(bytes));
        let text = |sum: u32| format!("{sum:#010x}");
        check.that(stored == computed, "sb_csum", text(stored), text(computed))?;
        check.that(u32_at(bytes, 12) == 0, "pad at 12", u32_at(bytes, 12), 0)?;
        check.that(all_zero(&bytes[228..256]), "pad at 228", "not zero", "zero")?;
        Ok(Self::fields(bytes))
    }

    fn fields(bytes: &[u8]) -> Self {
        Self {
            feature_map: u32_at(bytes, 8),
            set_uuid: array(bytes, 16),
            set_name: array(bytes, 32),
            ctime: u64_at(bytes, 64),
            level: i32_at(bytes, 72),
            layout: u32_at(bytes, 76),
            size: u64_at(bytes, 80),
            chunk: u32_at(bytes, 88),
            raid_disks: u32_at(bytes, 92),
            bitmap_or_ppl: array(bytes, 96),
            new_level: i32_at(bytes, 100),
            reshape_position: u64_at(bytes, 104),
            delta_disks: i32_at(bytes, 112),
            new_layout: u32_at(bytes, 116),
            new_chunk: u32_at(bytes, 120),
            new_offset: i32_at(bytes, 124),
            data_offset: u64_at(bytes, 128),
            data_size: u64_at(bytes, 136),
            super_offset: u64_at(bytes, 144),
            recovery_offset: u64_at(bytes, 152),
            dev_number: u32_at(bytes, 160),
            corrected_reads: u32_at(bytes, 164),
            device_uuid: array(bytes, 168),
            devflags: array::<1>(bytes, 184)[0],
            bblog_shift: array::<1>(bytes, 185)[0],
            bblog_size: u16_at(bytes, 186),
            bblog_offset: i32_at(bytes, 188),
            utime: u64_at(bytes, 192),
            events: u64_at(bytes, 200),
            resync_offset: u64_at(bytes, 208),
            logical_block_size: u32_at(bytes, 224),
            dev_roles: bytes[FIXED_BYTES..].chunks_exact(2).map(|role| u16_at(role, 0)).collect(),
        }
    }

    /// The bytes on disk, with their checksum.
    ///
    /// # Panics
    /// If `dev_roles` has more than [`MAX_DEV`] entries.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        assert!(self.dev_roles.len() <= MAX_DEV as usize, "the role table is bounded");
        let mut out = vec![0; FIXED_BYTES + 2 * self.dev_roles.len()];
        let b = &mut out;
        put(b, 0, &MAGIC.to_le_bytes());
        put(b, 4, &1_u32.to_le_bytes());
        put(b, 8, &self.feature_map.to_le_bytes());
        put(b, 16, &self.set_uuid);
        put(b, 32, &self.set_name);
        put(b, 64, &self.ctime.to_le_bytes());
        put(b, 72, &self.level.to_le_bytes());
        put(b, 76, &self.layout.to_le_bytes());
        put(b, 80, &self.size.to_le_bytes());
        put(b, 88, &self.chunk.to_le_bytes());
        put(b, 92, &self.raid_disks.to_le_bytes());
        put(b, 96, &self.bitmap_or_ppl);
        put(b, 100, &self.new_level.to_le_bytes());
        put(b, 104, &self.reshape_position.to_le_bytes());
        put(b, 112, &self.delta_disks.to_le_bytes());
        put(b, 116, &self.new_layout.to_le_bytes());
        put(b, 120, &self.new_chunk.to_le_bytes());
        put(b, 124, &self.new_offset.to_le_bytes());
        put(b, 128, &self.data_offset.to_le_bytes());
        put(b, 136, &self.data_size.to_le_bytes());
        put(b, 144, &self.super_offset.to_le_bytes());
        put(b, 152, &self.recovery_offset.to_le_bytes());
        put(b, 160, &self.dev_number.to_le_bytes());
        put(b, 164, &self.corrected_reads.to_le_bytes());
        put(b, 168, &self.device_uuid);
        put(b, 184, &[self.devflags, self.bblog_shift]);
        put(b, 186, &self.bblog_size.to_le_bytes());
        put(b, 188, &self.bblog_offset.to_le_bytes());
        put(b, 192, &self.utime.to_le_bytes());
        put(b, 200, &self.events.to_le_bytes());
        put(b, 208, &self.resync_offset.to_le_bytes());
        // The role table is at most MAX_DEV entries long.
        put(b, 220, &(self.dev_roles.len() as u32).to_le_bytes());
        put(b, 224, &self.logical_block_size.to_le_bytes());
        for (i, role) in self.dev_roles.iter().enumerate() {
            put(b, FIXED_BYTES + 2 * i, &role.to_le_bytes());
        }
        let sum = Self::sum(&out);
        put(&mut out, 216, &sum.to_le_bytes());
        out
    }

    /// The checksum of `bytes`, whatever its field holds.
    fn sum(bytes: &[u8]) -> u32 {
        let mut cleared = bytes.to_vec();
        put(&mut cleared, 216, &[0; 4]);
        checksum(&cleared)
    }

    /// Checks every field against the device and the other fields, and says what they mean.
    ///
    /// # Errors
    /// Names the field.
    pub fn interpret(&self, metadata: Metadata, device_sectors: u64) -> Result<Superblock, Invalid> {
        let check = Check(metadata.structure());
        let features = self.check_features(check)?;
        let (level, layout) = self.check_level(check)?;
        let journal = level.is_mirror() && features.has(Features::JOURNAL);
        check.that(!journal, "feature_map", "journal", format_args!("absent at {level}"))?;
        let super_area = self.check_place(check, metadata, device_sectors)?;
        let raid_disks = self.check_disks(check, level)?;
        let (dev_roles, dev_number) = self.check_roles(check)?;
        let position = dev_roles.get(usize::from(dev_number)).copied().unwrap_or(Position::Spare);
        self.check_data(check, super_area, position, device_sectors)?;
        let bad_block_log = self.check_bad_block_log(check, super_area, device_sectors)?;
        let ppl = self.check_ppl(check, level, super_area, device_sectors)?;
        let bitmap = self.check_bitmap(check, super_area, bad_block_log.map(|l| l.area), device_sectors)?;
        let journal = position == Position::Journal;
        let mut superblock = Superblock {
            metadata,
            array_uuid: Uuid(self.set_uuid),
            device_uuid: Some(Uuid(self.device_uuid)),
            name: printable(&self.set_name),
            ctime: self.ctime & SECONDS,
            utime: self.utime & SECONDS,
            level,
            layout,
            chunk: Sectors(if level == Level::Raid1 { 0 } else { u64::from(self.chunk) }),
            raid_disks,
            size: Sectors(self.size),
            super_offset: Sectors(self.super_offset),
            data_offset: Sectors(self.data_offset),
            data_size: Sectors(self.data_size),
            dev_number,
            dev_roles,
            events: self.events,
            resync: Resync::Unclean,
            recovery_offset: (features.has(Features::RECOVERY_OFFSET) && !journal)
                .then_some(Sectors(self.recovery_offset)),
            reshape: features.has(Features::RESHAPE).then_some(Reshape {
                position: self.reshape_position,
                new_level: self.new_level,
                delta_disks: self.delta_disks,
                new_layout: self.new_layout,
                new_chunk: self.new_chunk,
                backwards: features.has(Features::RESHAPE_BACKWARDS),
            }),
            features,
            bitmap,
            bad_block_log,
            ppl,
            journal_tail: journal.then_some(Sectors(self.recovery_offset)),
        };
        // At level 10 it counts sectors of the array.
        let whole = superblock.resync_sectors().get();
        superblock.resync = match self.resync_offset {
            0 => Resync::Unclean,
            at if at >= whole => Resync::Done,
            at => Resync::At(Sectors(at)),
        };
        Ok(superblock)
    }

    fn check_features(&self, check: Check) -> Result<Features, Invalid> {
        let features = Features(self.feature_map);
        let unknown = Features(features.unknown());
        check.that(unknown.0 == 0, "feature_map", unknown, "known features")?;
        let clustered = features.has(Features::CLUSTERED);
        check.that(
            !clustered,
            "feature_map",
            features,
            "without clustered: other machines may write to it",
        )?;
        let policies = [Features::BITMAP, Features::JOURNAL, Features::PPL | Features::MULTIPLE_PPLS]
            .map(|bits| features.has(bits));
        let single = policies.iter().filter(|p| **p).count() <= 1;
        check.that(single, "feature_map", features, "with one of bitmap, journal and ppl at most")?;
        let block = self.logical_block_size;
        let known = block == 0 || (block.is_power_of_two() && (512..=1 << 16).contains(&block));
        check.that(known, "logical_block_size", block, "0 or a power of two from 512 to 65536")?;
        Ok(features)
    }

    fn check_level(&self, check: Check) -> Result<(Level, Option<Layout>), Invalid> {
        let Some(level) = Level::from_number(self.level) else {
            let name = printable(&self.set_name);
            return Err(level_unknown(check, self.level, &name, Uuid(self.set_uuid)));
        };
        // md ignores the layout of RAID-4, mdadm writes 0.
        let layout = Layout::from_number(level, self.layout);
        let unused = match level {
            Level::Raid1 => self.layout == 0,
            Level::Raid4 => self.layout <= 5,
            _ => false,
        };
        let known = layout.is_some() || unused;
        check.that(known, "layout", self.layout, format_args!("a layout of {level}"))?;
        let chunk = u64::from(self.chunk) * 512;
        // RAID-1 has no chunk, and what the field says of one does not count.
        let fits =
            level == Level::Raid1 || chunk.is_power_of_two() && (MIN_CHUNK..=MAX_CHUNK).contains(&chunk);
        check.that(fits, "chunk", self.chunk, "a power of two from 8 to 2097152 sectors")?;
        Ok((level, layout))
    }

    fn check_place(&self, check: Check, metadata: Metadata, device_sectors: u64) -> Result<Area, Invalid> {
        let place = metadata.super_sector(device_sectors);
        let allowed = place.map_or("on a larger device".to_owned(), |p| p.to_string());
        check.that(place == Some(self.super_offset), "super_offset", self.super_offset, allowed)?;
        let sectors = (FIXED_BYTES + 2 * self.dev_roles.len()).div_ceil(512) as u64;
        Area::relative(self.super_offset, 0, sectors, device_sectors).ok_or_else(|| {
            Invalid::new(check.0, "max_dev", self.dev_roles.len(), "small enough for the end of the device")
        })
    }

    fn check_disks(&self, check: Check, level: Level) -> Result<u16, Invalid> {
        let allowed = || format!("{} to {} for {level}", level.min_disks(), level.max_disks());
        let disks = u16::try_from(self.raid_disks).unwrap_or(u16::MAX);
        let fits = (level.min_disks()..=level.max_disks()).contains(&disks);
        check.that(fits, "raid_disks", self.raid_disks, allowed())?;
        let known = usize::from(disks) <= self.dev_roles.len();
        check.that(known, "raid_disks", disks, format_args!("at most max_dev, {}", self.dev_roles.len()))?;
        Ok(disks)
    }

    fn check_roles(&self, check: Check) -> Result<(Vec<Position>, u16), Invalid> {
        // While the array shrinks, the members on their way out still have their roles.
        let shrinking =
            Features(self.feature_map).has(Features::RESHAPE).then(|| self.delta_disks.min(0).unsigned_abs());
        let limit = self.raid_disks.saturating_add(shrinking.unwrap_or(0));
        let position = |role: u16| match role {
            ROLE_SPARE => Ok(Position::Spare),
            ROLE_FAULTY => Ok(Position::Faulty),
            ROLE_JOURNAL => Ok(Position::Journal),
            role if u32::from(role) < limit => Ok(Position::Active(Role(role))),
            role if u32::from(role & !ROLE_ERRORS) < limit => Ok(Position::Faulty),
            role => Err(Invalid::new(
                check.0,
                "dev_roles",
                format_args!("{role:#x}"),
                format_args!("below {limit}, or 0xfffd to 0xffff"),
            )),
        };
        let roles = self.dev_roles.iter().map(|role| position(*role)).collect::<Result<Vec<_>, _>>()?;
        match u16::try_from(self.dev_number) {
            Ok(number) if usize::from(number) < roles.len() => Ok((roles, number)),
            _ => Err(Invalid::new(
                check.0,
                "dev_number",
                self.dev_number,
                format_args!("below max_dev, {}", roles.len()),
            )),
        }
    }

    fn used(&self) -> Area {
        Area { start: self.data_offset, sectors: self.size }
    }

    fn check_data(
        &self,
        check: Check,
        super_area: Area,
        position: Position,
        device_sectors: u64,
    ) -> Result<(), Invalid> {
        let room = device_sectors.saturating_sub(self.data_offset);
        let on_device = format_args!("below {device_sectors}, the sectors of the device").to_string();
        check.that(self.data_offset < device_sectors, "data_offset", self.data_offset, on_device)?;
        let lacking = self.data_size.saturating_sub(room).saturating_mul(512);
        let rest = format_args!(
            "at most {room}, the sectors from data_offset to the end of the device: the device is {lacking} bytes shorter than when the array was made"
        )
        .to_string();
        check.that(self.data_size <= room, "data_size", self.data_size, rest)?;
        check.that(
            self.size >= u64::from(self.chunk) && self.size <= u64::MAX >> 10,
            "size",
            self.size,
            "at least a chunk",
        )?;
        // A journal has a data area of its own size; the array's size says nothing about it.
        if position == Position::Journal {
            let tail = self.recovery_offset;
            return check.that(
                tail < self.data_size,
                "journal_tail",
                tail,
                format_args!("below {}", self.data_size),
            );
        }
        let most = format_args!("at most data_size, {}", self.data_size).to_string();
        check.that(self.size <= self.data_size, "size", self.size, most)?;
        check.that(!self.used().overlaps(super_area), "data_offset", self.used(), "apart from the superblock")
    }

    /// Checks that an area described by the superblock lies on the device, apart from the data and
    /// the superblock.
    fn place(
        &self,
        check: Check,
        field: &'static str,
        (offset, sectors): (i64, u64),
        super_area: Area,
        device_sectors: u64,
    ) -> Result<Area, Invalid> {
        let Some(area) = Area::relative(self.super_offset, offset, sectors, device_sectors) else {
            return Err(Invalid::new(check.0, field, offset, "such that the area lies on the device"));
        };
        let apart = !area.overlaps(self.used()) && !area.overlaps(super_area);
        check.that(
            apart,
            field,
            offset,
            format_args!("such that {area} lie apart from data and superblock"),
        )?;
        Ok(area)
    }

    fn check_bad_block_log(
        &self,
        check: Check,
        super_area: Area,
        device_sectors: u64,
    ) -> Result<Option<BadBlockLogPlace>, Invalid> {
        let used = Features(self.feature_map).has(Features::BAD_BLOCKS);
        if self.bblog_size == 0 || self.bblog_offset == 0 {
            check.that(!used, "bblog_size", 0, "the size of a log, as feature bad-blocks is set")?;
            return Ok(None);
        }
        check.that(
            self.bblog_size <= MAX_BAD_BLOCK_LOG,
            "bblog_size",
            self.bblog_size,
            "at most 128 sectors",
        )?;
        check.that(self.bblog_shift < 54, "bblog_shift", self.bblog_shift, "below 54")?;
        let extent = (i64::from(self.bblog_offset), u64::from(self.bblog_size));
        let area = self.place(check, "bblog_offset", extent, super_area, device_sectors)?;
        Ok(Some(BadBlockLogPlace { area, shift: self.bblog_shift, used }))
    }

    fn check_ppl(
        &self,
        check: Check,
        level: Level,
        super_area: Area,
        device_sectors: u64,
    ) -> Result<Option<Area>, Invalid> {
        if !Features(self.feature_map).has(Features::PPL | Features::MULTIPLE_PPLS) {
            return Ok(None);
        }
        check.that(level == Level::Raid5, "feature_map", "ppl", format_args!("absent at {level}"))?;
        let extent = (i64::from(i16_at(&self.bitmap_or_ppl, 0)), u64::from(u16_at(&self.bitmap_or_ppl, 2)));
        check.that(extent.1 >= 8, "ppl size", extent.1, "at least 8 sectors")?;
        self.place(check, "ppl offset", extent, super_area, device_sectors).map(Some)
    }

    /// The bitmap's start and the space up to whatever comes next. Its length is not in the
    /// superblock.
    fn check_bitmap(
        &self,
        check: Check,
        super_area: Area,
        log: Option<Area>,
        device_sectors: u64,
    ) -> Result<Option<Area>, Invalid> {
        if !Features(self.feature_map).has(Features::BITMAP) {
            return Ok(None);
        }
        let offset = i64::from(i32_at(&self.bitmap_or_ppl, 0));
        let area = self.place(check, "bitmap_offset", (offset, 1), super_area, device_sectors)?;
        let clash = log.is_some_and(|log| log.overlaps(area));
        check.that(!clash, "bitmap_offset", offset, "apart from the bad-block log")?;
        let next = [Some(self.used()), Some(super_area), log].into_iter().flatten().map(|a| a.start);
        let end = next.filter(|start| *start > area.start).fold(device_sectors, u64::min);
        Ok(Some(Area { start: area.start, sectors: end - area.start }))
    }

    /// [`V1::decode`] and [`V1::interpret`].
    ///
    /// # Errors
    /// Names the field.
    pub fn parse(bytes: &[u8], metadata: Metadata, device_sectors: u64) -> Result<Superblock, Invalid> {
        Self::decode(bytes, metadata)?.interpret(metadata, device_sectors)
    }
}
