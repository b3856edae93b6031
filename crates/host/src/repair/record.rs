//! The records of a repair: ranges of members, with the bytes before and after.

use crate::target::Target;
use pumice_base::units::Role;
use pumice_raid::Uuid;

/// The unit that a drive writes atomically, and in which bytes are lost.
pub const SECTOR: usize = 512;

/// The bytes of a range before a repair; sectors that the drive refused have none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OldBytes {
    /// Zero in lost sectors.
    bytes: Vec<u8>,
    /// For each sector whether it was lost.
    lost: Vec<bool>,
}

impl OldBytes {
    /// Bytes that were all read.
    #[must_use]
    pub fn read(bytes: Vec<u8>) -> Self {
        let lost = vec![false; bytes.len().div_ceil(SECTOR)];
        Self { bytes, lost }
    }

    /// Bytes in which the sectors flagged in `lost` were not read. `None` unless there is one flag
    /// for each sector of 512 bytes.
    #[must_use]
    pub fn with_lost(mut bytes: Vec<u8>, lost: Vec<bool>) -> Option<Self> {
        if lost.len() != bytes.len().div_ceil(SECTOR) {
            return None;
        }
        for (sector, _) in bytes.chunks_mut(SECTOR).zip(&lost).filter(|(_, lost)| **lost) {
            sector.fill(0);
        }
        Some(Self { bytes, lost })
    }

    /// Bytes of which no sector was read.
    #[must_use]
    pub fn all_lost(len: usize) -> Self {
        Self { bytes: vec![0; len], lost: vec![true; len.div_ceil(SECTOR)] }
    }

    /// The bytes; zero in lost sectors.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// For each sector whether it was lost.
    #[must_use]
    pub fn lost(&self) -> &[bool] {
        &self.lost
    }

    /// Sectors that were lost.
    #[must_use]
    pub fn lost_sectors(&self) -> usize {
        self.lost.iter().filter(|lost| **lost).count()
    }

    /// The ranges, in bytes from the start, that were read.
    pub fn known(&self) -> impl Iterator<Item = std::ops::Range<usize>> + '_ {
        let mut at = 0;
        std::iter::from_fn(move || {
            let is_lost = |sector: usize| self.lost.get(sector) == Some(&true);
            let mut start = at;
            while is_lost(start) {
                start += 1;
            }
            let mut end = start;
            while end < self.lost.len() && !is_lost(end) {
                end += 1;
            }
            at = end;
            (start < end).then(|| start * SECTOR..(end * SECTOR).min(self.bytes.len()))
        })
    }
}

/// One range of one member, before and after.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// The member's role.
    pub role: Role,
    /// The UUID of its device; zero if its superblock has none.
    pub member: Uuid,
    /// Byte offset on its device.
    pub device_offset: u64,
    /// The bytes before the repair.
    pub old: OldBytes,
    /// The bytes after it; as many.
    pub new: Vec<u8>,
    /// True if the tags of its blocks stay as they are, because they convicted the old bytes (R26).
    pub tags_stay: bool,
}

impl Record {
    /// The replacement of `old` by `new` on a member of `target`, from byte `start` of its chunk.
    ///
    /// # Panics
    /// If the member is missing.
    pub(crate) fn new(
        target: &Target,
        role: Role,
        stripe: u64,
        start: u32,
        old: OldBytes,
        new: Vec<u8>,
    ) -> Self {
        let device_offset = target.place(role, stripe, start);
        let member = device_uuid(target, role);
        Self { role, member, device_offset, old, new, tags_stay: false }
    }
}

/// The UUID of the device in a role; zero if it is missing, or its superblock has none.
pub(crate) fn device_uuid(target: &Target, role: Role) -> Uuid {
    let member = target.array().member(role);
    member.and_then(|member| member.record.superblock.device_uuid).unwrap_or(Uuid([0; 16]))
}

/// Kind of an intent: bytes are replaced for the first time, or put back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IntentKind {
    /// A finding is repaired.
    Repair,
    /// A repair, or an undo, is undone.
    Undo,
}

/// The intended writes of a repair or an undo.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Intent {
    /// Its kind.
    pub kind: IntentKind,
    /// The array's UUID as stored.
    pub array: Uuid,
    /// Its event count.
    pub events: u64,
    /// The stripe.
    pub stripe: u64,
    /// The ranges, 1 to 64 of them, each of another role.
    pub records: Vec<Record>,
}

/// The rows of the chunk that records cover: the same on every member.
///
/// `None` if they are not the same, or not at the place of that stripe on the members of `target`.
/// `ranges` are roles with the offset on the device and the length of each.
pub(crate) fn window(
    target: &Target,
    stripe: u64,
    ranges: impl IntoIterator<Item = (Role, u64, u64)>,
) -> Option<(u32, u32)> {
    if stripe >= target.layout().stripes() {
        return None;
    }
    let chunk = u64::from(target.chunk(stripe));
    let mut common = None;
    for (role, device_offset, len) in ranges {
        let member = target.member(role)?;
        let base = member.data_offset + target.layout().place(stripe, role.index())?;
        let start = device_offset.checked_sub(base)?;
        if start.checked_add(len)? > chunk || *common.get_or_insert((start, len)) != (start, len) {
            return None;
        }
    }
    common.map(|(start, len)| (start as u32, len as u32))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sectors_that_were_read_are_the_known_ones() {
        let known = |lost: &[bool]| -> Vec<_> {
            let old = OldBytes::with_lost(vec![7; lost.len() * SECTOR], lost.to_vec()).unwrap();
            old.known().map(|r| (r.start / SECTOR, r.end / SECTOR)).collect()
        };
        assert_eq!(known(&[false, false]), [(0, 2)]);
        assert_eq!(known(&[true, false, true, true, false, false]), [(1, 2), (4, 6)]);
        assert_eq!(known(&[true, true]), []);
        let old = OldBytes::with_lost(vec![7; 1024], vec![true, false]).unwrap();
        assert_eq!((old.bytes()[511], old.bytes()[512], old.lost_sectors()), (0, 7, 1));
        assert_eq!(OldBytes::with_lost(vec![7; 1024], vec![true]), None);
    }
}
