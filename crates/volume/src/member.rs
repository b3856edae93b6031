//! A volume's state of one member, and md's structures on it.

use crate::log::{Head, NoRoom, Region, Space, Sums, SuperblockMark, region};
use crate::rows::{BLOCK, Window};
use pumice_base::units::{Role, SECTOR};
use pumice_raid::superblock::Superblock;
use pumice_raid::superblock::features::Features;
use pumice_raid::superblock::v1::{RESYNC_DONE, ROLE_FAULTY, V1};
use std::collections::BTreeSet;

/// The places of things on a member, in bytes from the start of the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemberPlace {
    /// The superblock.
    pub superblock: u64,
    /// The data area.
    pub data: u64,
    /// The bitmap.
    pub bitmap: Option<Region>,
    /// The bad-block log, if it counts in sectors.
    pub bad_blocks: Option<Region>,
    /// The records of the stripe log.
    pub log: Option<Region>,
}

impl MemberPlace {
    /// The places that a superblock gives.
    ///
    /// # Errors
    /// If `with_log` and there is no room for a stripe log.
    pub fn of(superblock: &Superblock, with_log: bool) -> Result<Self, NoRoom> {
        let bytes =
            |area: pumice_raid::area::Area| Region { start: area.start * SECTOR, len: area.sectors * SECTOR };
        let bad = superblock.bad_block_log.filter(|log| log.shift == 0);
        Ok(Self {
            superblock: superblock.super_offset.get() * SECTOR,
            data: superblock.data_offset_bytes(),
            bitmap: superblock.bitmap.map(bytes),
            bad_blocks: bad.map(|log| bytes(log.area)),
            log: if with_log { Some(region(superblock)?) } else { None },
        })
    }
}

/// The state of a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    /// It holds what it should.
    InSync,
    /// It is being rebuilt: windows below this one are in sync, but for those under way.
    Rebuilding(Window),
    /// It is not there.
    Failed,
}

/// Fields that the heads of all members have alike.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CommonHead {
    pub(crate) generation: u64,
    pub(crate) nonce: u64,
    pub(crate) sums: Sums,
    pub(crate) released: u64,
    pub(crate) writer: u128,
    /// There was no log that counts: until all members have a head, none vouches for the
    /// superblock that is there.
    pub(crate) begins: bool,
}

/// A member.
#[derive(Debug)]
pub(crate) struct Member {
    pub(crate) state: State,
    pub(crate) superblock: V1,
    pub(crate) place: MemberPlace,
    pub(crate) space: Space,
    /// Blocks of its data area that are listed as bad.
    pub(crate) bad: BTreeSet<u64>,
    /// The same as its bad-block log has them, or will have after the flush under way.
    pub(crate) listed: BTreeSet<u64>,
    /// The highest number of a write that made a block good that was listed as bad.
    pub(crate) mended: u64,
    pub(crate) last: SuperblockMark,
    /// The superblock that is announced, with its mark, until it is known to be on the member.
    pub(crate) next: Option<(SuperblockMark, Vec<u8>)>,
    /// The superblock that its last head announces.
    pub(crate) headed: Option<SuperblockMark>,
    /// R in its last head.
    pub(crate) head_released: u64,
    pub(crate) serial: u64,
    /// `listed` is not on the member yet.
    pub(crate) list_changed: bool,
    /// Bitmap and bad-block log have to be written whole: it is new.
    pub(crate) fresh: bool,
    /// It had the role before: where no bit is set, it holds what it should.
    pub(crate) kept: bool,
    /// Windows that are being restored.
    pub(crate) under_way: BTreeSet<Window>,
    /// Windows below this one are restored and flushed.
    pub(crate) restored: Window,
    /// The same once the flush under way is done.
    pub(crate) flushing: Window,
}

/// The mark that tells a superblock from others, from its bytes.
pub(crate) fn mark(superblock: &V1) -> SuperblockMark {
    mark_of(superblock.events, &superblock.encode())
}

fn mark_of(events: u64, bytes: &[u8]) -> SuperblockMark {
    SuperblockMark { events, sum: u32::from_le_bytes(std::array::from_fn(|i| bytes[216 + i])) }
}

impl Member {
    /// A member that is not there. Superblock and places are those of another one.
    pub(crate) fn missing(superblock: V1, place: MemberPlace) -> Self {
        Self {
            state: State::Failed,
            superblock,
            place,
            space: Space::new(0),
            bad: BTreeSet::new(),
            listed: BTreeSet::new(),
            mended: 0,
            last: SuperblockMark::default(),
            next: None,
            headed: None,
            head_released: 0,
            serial: 0,
            list_changed: false,
            fresh: true,
            kept: false,
            under_way: BTreeSet::new(),
            restored: Window(0),
            flushing: Window(0),
        }
    }

    pub(crate) fn here(&self) -> bool {
        self.state != State::Failed
    }

    /// Returns whether it holds good data in `window`, but for bad blocks.
    pub(crate) fn has(&self, window: Window) -> bool {
        match self.state {
            State::InSync => true,
            State::Rebuilding(next) => window < next && !self.under_way.contains(&window),
            State::Failed => false,
        }
    }

    /// Windows below this one are in place.
    pub(crate) fn lowest(&self) -> Window {
        match self.state {
            State::Rebuilding(next) => self.under_way.first().copied().unwrap_or(next),
            State::InSync | State::Failed => Window(0),
        }
    }

    /// Takes over what the newest superblock says of the array. If the member's own is older, the
    /// update that wrote the newest one has to be finished here.
    pub(crate) fn follow(&mut self, newest: &V1) {
        let lags = self.superblock.events < newest.events;
        let sb = &mut self.superblock;
        sb.events = newest.events;
        sb.utime = newest.utime;
        sb.resync_offset = newest.resync_offset;
        sb.dev_roles.clone_from(&newest.dev_roles);
        if lags {
            let bytes = sb.encode();
            self.next = Some((mark_of(sb.events, &bytes), bytes));
        }
    }

    /// Works out the superblock that comes next. `window`: bytes of one.
    pub(crate) fn announce(&mut self, events: u64, clean: bool, now: u64, window: u64) {
        let sb = &mut self.superblock;
        sb.events = events;
        sb.utime = now;
        sb.resync_offset = if clean { RESYNC_DONE } else { 0 };
        let set = |map: &mut u32, bit: u32, on: bool| *map = if on { *map | bit } else { *map & !bit };
        set(&mut sb.feature_map, Features::BAD_BLOCKS, !self.listed.is_empty());
        let rebuilding = matches!(self.state, State::Rebuilding(_));
        set(&mut sb.feature_map, Features::RECOVERY_OFFSET, rebuilding);
        sb.recovery_offset = if rebuilding { self.restored.0 * window / SECTOR } else { 0 };
        let bytes = sb.encode();
        self.next = Some((mark_of(events, &bytes), bytes));
    }

    /// The announced superblock is on the member.
    pub(crate) fn announced_is_written(&mut self) {
        if let Some((mark, _)) = self.next.take() {
            self.last = mark;
        }
    }

    /// Its next head, and where that goes.
    pub(crate) fn head(&mut self, role: Role, common: CommonHead) -> Option<(u64, Vec<u8>)> {
        let region = self.place.log?;
        self.serial += 1;
        let last = if common.begins { SuperblockMark::NONE } else { self.last };
        let next = self.next.as_ref().map_or(last, |(mark, _)| *mark);
        (self.headed, self.head_released) = (Some(next), common.released);
        let head = Head {
            serial: self.serial,
            array: pumice_raid::Uuid(self.superblock.set_uuid),
            role,
            generation: common.generation,
            nonce: common.nonce,
            sums: common.sums,
            released: common.released,
            region,
            last,
            next,
            writer: common.writer,
        };
        Some((head.slot(region.heads()), head.encode()))
    }

    /// The bytes of its bad-block log, one entry for each run of blocks.
    pub(crate) fn bad_block_bytes(&self) -> Option<(u64, Vec<u8>)> {
        let region = self.place.bad_blocks?;
        let mut out = Vec::new();
        let per_block = BLOCK / SECTOR;
        let first = self.place.data / SECTOR;
        for (start, blocks) in runs(&self.listed) {
            let entry = (first + start * per_block) << 10 | (blocks * per_block);
            out.extend_from_slice(&entry.to_le_bytes());
        }
        let len = region.len as usize;
        (out.len() <= len).then(|| {
            out.resize(len, 0xFF);
            (region.start, out)
        })
    }
}

/// Runs of at most 64 blocks: the 512 sectors of an entry.
fn runs(blocks: &BTreeSet<u64>) -> Vec<(u64, u64)> {
    let mut out: Vec<(u64, u64)> = Vec::new();
    for block in blocks {
        match out.last_mut() {
            Some((start, len)) if *start + *len == *block && *len < 64 => *len += 1,
            _ => out.push((*block, 1)),
        }
    }
    out
}

/// The blocks of a data area that a bad-block log names, from its entries as sector ranges of the
/// device.
#[must_use]
pub fn bad_blocks_of(areas: &[pumice_raid::area::Area], place: &MemberPlace) -> BTreeSet<u64> {
    let per_block = BLOCK / SECTOR;
    let first = place.data / SECTOR;
    let mut out = BTreeSet::new();
    for area in areas {
        let (start, end) = (area.start.saturating_sub(first), area.end().saturating_sub(first));
        out.extend(start / per_block..end.div_ceil(per_block));
    }
    out
}

/// Returns whether what one superblock says of the members leads to what `array`, the newest, says,
/// and not to another end: some drives may have been run without the others, and those without
/// them.
///
/// Another device that was a member then is one still; and no device is one that had failed by
/// then, for numbers are given anew only when no member is missing, or none is left.
fn leads_to(own: &V1, array: &V1) -> bool {
    let is_active = |role: u16| u32::from(role) < array.raid_disks;
    let both = || (0..).zip(own.dev_roles.iter().copied().zip(array.dev_roles.iter().copied()));
    let goes_on = both().any(|(number, (was, is))| number != own.dev_number && is_active(is) && was == is);
    goes_on && !both().any(|(_, (was, is))| was == ROLE_FAULTY && is_active(is))
}

/// The role of a device that was a member in sync when the array went on without it; `None` if it
/// was not. `own` is its superblock, `array` the newest of the array.
pub(crate) fn former_role(own: &V1, array: &V1) -> Option<Role> {
    let number = own.dev_number as usize;
    let role = own.dev_roles.get(number).copied().filter(|role| u32::from(*role) < array.raid_disks)?;
    let faulty = array.dev_roles.get(number) == Some(&ROLE_FAULTY);
    let shape = |sb: &V1| (sb.set_uuid, sb.level, sb.layout, sb.chunk, sb.raid_disks, sb.size);
    // Any other feature says that it was being rebuilt, reshaped or replaced.
    let in_sync = own.feature_map & !(Features::BITMAP | Features::BAD_BLOCKS) == 0;
    let older = own.events < array.events;
    let fits = faulty && shape(own) == shape(array) && in_sync && older;
    (fits && leads_to(own, array)).then_some(Role(role))
}

/// The roles of the superblock's table once `failed` devices are called faulty.
pub(crate) fn faulty(numbers: impl IntoIterator<Item = u32>) -> Vec<(u32, u16)> {
    numbers.into_iter().map(|number| (number, ROLE_FAULTY)).collect()
}
