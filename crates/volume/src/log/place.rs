//! The place where a log lies on a member, and the room in it.

use crate::rows::BLOCK;
use pumice_raid::area::Area;
use pumice_raid::superblock::Superblock;
use std::collections::VecDeque;

/// Bytes of a head.
pub const HEAD_BYTES: u64 = 4096;
/// Slots for heads.
pub const HEADS: u64 = 2;
/// The least room for records, in bytes.
pub const MIN_RECORDS: u64 = 1 << 20;
/// The most, whatever lies free: all of it is read, in memory, before a volume is opened.
pub const MAX_RECORDS: u64 = 1 << 30;

/// A run of bytes, from the start of the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Region {
    /// First byte.
    pub start: u64,
    /// Length in bytes.
    pub len: u64,
}

impl Region {
    /// The place of the first head: directly behind the records.
    #[must_use]
    pub const fn heads(&self) -> u64 {
        self.start + self.len
    }
}

/// A member has no room for a stripe log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "no room for the stripe log: {free} bytes lie free before data_offset, and {} are needed",
    MIN_RECORDS + HEADS * HEAD_BYTES
)]
pub struct NoRoom {
    /// Bytes between md's structures and the data area.
    pub free: u64,
}

/// The place of the records of a member: behind everything that its superblock places before the
/// data.
///
/// # Errors
/// If less than the least size is free.
pub fn region(superblock: &Superblock) -> Result<Region, NoRoom> {
    let own = Area { start: superblock.super_offset.get(), sectors: 8 };
    let logs = [superblock.bitmap, superblock.ppl, superblock.bad_block_log.map(|log| log.area)];
    let data = superblock.data_offset_bytes();
    let end = logs
        .into_iter()
        .flatten()
        .chain([own])
        .map(|area| area.end() * pumice_base::units::SECTOR)
        .max()
        .unwrap_or(0)
        .next_multiple_of(BLOCK);
    let room = data.checked_sub(end).ok_or(NoRoom { free: 0 })?;
    let len = (room.saturating_sub(HEADS * HEAD_BYTES) / BLOCK * BLOCK).min(MAX_RECORDS);
    if len < MIN_RECORDS || !data.is_multiple_of(BLOCK) {
        return Err(NoRoom { free: room });
    }
    Ok(Region { start: data - HEADS * HEAD_BYTES - len, len })
}

/// The part of a region that holds records that count.
#[derive(Debug, Clone)]
pub(crate) struct Space {
    len: u64,
    at: u64,
    /// Sequence number, place and length, oldest first.
    live: VecDeque<(u64, u64, u64)>,
    /// Bytes of these.
    used: u64,
}

impl Space {
    pub(crate) fn new(len: u64) -> Self {
        Self { len, at: 0, live: VecDeque::new(), used: 0 }
    }

    /// The place where a record of `need` bytes would go.
    pub(crate) fn fit(&self, need: u64) -> Option<u64> {
        match self.live.front() {
            None if need <= self.len - self.at => Some(self.at),
            None => Some(0),
            Some((_, oldest, _)) if self.at > *oldest => {
                // One block stays between the newest and the oldest, so that full is not empty.
                if need <= self.len - self.at { Some(self.at) } else { (need < *oldest).then_some(0) }
            }
            Some((_, oldest, _)) => (self.at + need < *oldest).then_some(self.at),
        }
    }

    /// Takes the place that [`fit`](Self::fit) gave.
    pub(crate) fn take(&mut self, sequence: u64, at: u64, need: u64) {
        assert!(at + need <= self.len, "V22: a record lies inside its log: {at} + {need}");
        assert!(self.fit(need) == Some(at), "V23: no record lies over one that counts: {at} + {need}");
        assert!(
            self.live.back().is_none_or(|(last, ..)| *last < sequence),
            "V24: the records of a member lie in the order of their numbers: {sequence}"
        );
        self.live.push_back((sequence, at, need));
        self.used += need;
        self.at = at + need;
    }

    /// Frees every record up to number `released`.
    pub(crate) fn release(&mut self, released: u64) {
        while self.live.front().is_some_and(|(sequence, _, _)| *sequence <= released) {
            self.used -= self.live.pop_front().map_or(0, |(_, _, len)| len);
        }
        assert!(!self.live.is_empty() || self.used == 0, "V25: the room of each record is freed once");
    }

    /// Returns whether a new write may use `need` bytes, if `later` bytes may be needed before
    /// anything is released, in records of `largest` bytes at most. A record does not go around the
    /// end, so up to two of them are lost there.
    pub(crate) fn admits(&self, need: u64, later: u64, largest: u64) -> bool {
        self.used + need + later + 2 * largest + BLOCK <= self.len && self.fit(need).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pumice_base::units::SECTOR;
    use pumice_raid::layout::{Layout, Level};
    use pumice_raid::superblock::BadBlockLogPlace;
    use pumice_raid::superblock::v1::V1;
    use pumice_raid::{FormatSpec, Metadata, Uuid};

    const DATA: u64 = 3 << 20;

    fn superblock() -> Superblock {
        let size = 8 << 20;
        let spec = FormatSpec {
            metadata: Metadata::V1_2,
            level: Level::Raid5,
            layout: Some(Layout::LeftSymmetric),
            chunk_bytes: 4096,
            component_bytes: None,
            device_bytes: vec![size; 3],
            array_uuid: Uuid([1; 16]),
            device_uuids: (2..5).map(|i| Uuid([i; 16])).collect(),
            name: String::new(),
            ctime: 1,
            bitmap: true,
            bad_block_log: true,
            data_offset: Some(DATA),
        };
        let format = spec.format().unwrap();
        let (_, bytes) = format.members[0].writes.iter().find(|(at, _)| *at == 4096).unwrap();
        V1::parse(bytes, Metadata::V1_2, size / SECTOR).unwrap()
    }

    /// The log lies behind the last of md's structures before the data, whichever that is and
    /// however far it reaches, or there is no room.
    #[test]
    fn the_log_lies_behind_everything_that_md_has_before_the_data() {
        let plain = superblock();
        for last in 0..3 {
            for end in [100, 1000, 4200, DATA / SECTOR - 8] {
                let (mut sb, area) = (plain.clone(), Area { start: 48, sectors: end - 48 });
                match last {
                    0 => sb.bitmap = Some(area),
                    1 => sb.ppl = Some(area),
                    _ => sb.bad_block_log = Some(BadBlockLogPlace { area, shift: 0, used: false }),
                }
                match region(&sb) {
                    Ok(found) => {
                        assert!(found.start >= end * SECTOR, "{last} to {end}: {found:?}");
                        assert_eq!(found.heads() + HEADS * HEAD_BYTES, DATA);
                    }
                    Err(NoRoom { free }) => assert!(free < MIN_RECORDS + HEADS * HEAD_BYTES),
                }
                assert_eq!(region(&sb).is_ok(), end < 4200, "{last} to {end}");
            }
        }
    }

    /// Superblocks may place the data anywhere.
    #[test]
    fn a_log_is_never_larger_than_memory_bears() {
        let mut sb = superblock();
        for data in [(1 << 30) + (1 << 20), 1 << 40, u64::MAX / SECTOR * SECTOR / BLOCK * BLOCK] {
            sb.data_offset = pumice_base::units::Sectors(data / SECTOR);
            let found = region(&sb).unwrap();
            assert_eq!((found.len, found.heads()), (MAX_RECORDS, data - HEADS * HEAD_BYTES));
        }
    }

    /// Room that was set aside for later is there, whatever order records come in.
    #[test]
    fn what_is_admitted_leaves_the_room_that_may_be_needed_later() {
        let (len, largest) = (64 * BLOCK, 17 * BLOCK);
        for start in 0..60 {
            let mut space = Space::new(len);
            space.at = start * BLOCK;
            let mut sequence = 0;
            while space.admits(BLOCK, largest, largest) {
                let at = space.fit(BLOCK).unwrap();
                sequence += 1;
                space.take(sequence, at, BLOCK);
            }
            assert!(sequence >= 10, "{sequence}");
            assert!(space.fit(largest).is_some(), "{start}: {space:?}");
        }
    }

    /// No record is laid over one that counts, and room that was freed is used again.
    #[test]
    fn records_that_count_never_overlap() {
        let mut space = Space::new(16 * BLOCK);
        let mut random = 1_u64;
        let (mut full, mut laps) = (0, 0);
        for sequence in 1..5000_u64 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let need = (1 + (random >> 33) % 5) * BLOCK;
            let Some(at) = space.fit(need) else {
                full += 1;
                let oldest = space.live.front().unwrap().0;
                space.release(oldest + (random >> 40) % 3);
                continue;
            };
            assert!(at + need <= 16 * BLOCK);
            let overlaps = |(_, other, len): &(u64, u64, u64)| at < other + len && *other < at + need;
            assert!(!space.live.iter().any(overlaps), "{at} {need} {space:?}");
            laps += u64::from(at == 0);
            space.take(sequence, at, need);
            assert_eq!(space.used, space.live.iter().map(|(_, _, len)| len).sum());
        }
        assert!(full > 300 && laps > 300, "{full} {laps}");
    }
}
