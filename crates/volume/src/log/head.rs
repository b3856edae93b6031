//! The head of a member's log.

use super::place::{HEAD_BYTES, HEADS, Region};
use super::{put, u16_at, u32_at, u64_at};
use pumice_base::units::Role;
use pumice_offload::record::Sums;
use pumice_raid::Uuid;

const MAGIC: [u8; 8] = *b"PUMSTHED";
/// The version whose records have sums by CRC-32C.
const PLAIN: u32 = 1;
/// The version that is written.
const VERSION: u32 = 2;
/// Most that a number of a log can be: more than it can count to, with room above it.
pub(super) const MOST: u64 = 1 << 62;

/// A mark that tells one superblock of a member from every other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SuperblockMark {
    /// Its event count.
    pub events: u64,
    /// Its checksum.
    pub sum: u32,
}

impl SuperblockMark {
    /// No superblock: [`Head::knows`] never takes one for it.
    pub const NONE: Self = Self { events: 0, sum: 0 };
}

/// The head of a member's log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Head {
    /// The higher one counts.
    pub serial: u64,
    /// The array.
    pub array: Uuid,
    /// The member.
    pub role: Role,
    /// Counts recoveries and changes of members.
    pub generation: u64,
    /// Drawn for each generation. No host sees it.
    pub nonce: u64,
    /// The sums of the generation's records.
    pub sums: Sums,
    /// Every record up to this number is in place and flushed.
    pub released: u64,
    /// The place of the records.
    pub region: Region,
    /// The last superblock that was written to this member; [`SuperblockMark::NONE`] while the log
    /// begins.
    pub last: SuperblockMark,
    /// The superblock that is written next.
    pub next: SuperblockMark,
    /// The machine that has the array open; 0 for nobody.
    pub writer: u128,
}

impl Head {
    /// Its bytes.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = vec![0; HEAD_BYTES as usize];
        let b = &mut out;
        put(b, 0, &MAGIC);
        let version = match self.sums {
            Sums::Crc32c => PLAIN,
            Sums::Keyed => VERSION,
        };
        put(b, 12, &version.to_le_bytes());
        put(b, 16, &self.serial.to_le_bytes());
        put(b, 24, &self.array.0);
        put(b, 40, &self.role.get().to_le_bytes());
        put(b, 48, &self.generation.to_le_bytes());
        put(b, 56, &self.nonce.to_le_bytes());
        put(b, 64, &self.released.to_le_bytes());
        put(b, 72, &self.region.start.to_le_bytes());
        put(b, 80, &self.region.len.to_le_bytes());
        put(b, 88, &self.last.events.to_le_bytes());
        put(b, 96, &self.last.sum.to_le_bytes());
        put(b, 104, &self.next.events.to_le_bytes());
        put(b, 112, &self.next.sum.to_le_bytes());
        put(b, 120, &self.writer.to_le_bytes());
        let crc = crc32c::crc32c(&b[12..]);
        put(b, 8, &crc.to_le_bytes());
        out
    }

    /// The head in the bytes of a slot; `None` if there is no whole one.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let bytes = bytes.get(..HEAD_BYTES as usize)?;
        if bytes[..8] != MAGIC || u32_at(bytes, 8) != crc32c::crc32c(&bytes[12..]) {
            return None;
        }
        let sums = match u32_at(bytes, 12) {
            PLAIN => Sums::Crc32c,
            VERSION => Sums::Keyed,
            _ => return None,
        };
        // The serial, the generation and R count from 0, one by one.
        if [16, 48, 64].iter().any(|at| u64_at(bytes, *at) > MOST) {
            return None;
        }
        let mark = |at| SuperblockMark { events: u64_at(bytes, at), sum: u32_at(bytes, at + 8) };
        Some(Self {
            serial: u64_at(bytes, 16),
            array: Uuid(std::array::from_fn(|i| bytes[24 + i])),
            role: Role(u16_at(bytes, 40)),
            generation: u64_at(bytes, 48),
            nonce: u64_at(bytes, 56),
            sums,
            released: u64_at(bytes, 64),
            region: Region { start: u64_at(bytes, 72), len: u64_at(bytes, 80) },
            last: mark(88),
            next: mark(104),
            writer: u128::from_le_bytes(std::array::from_fn(|i| bytes[120 + i])),
        })
    }

    /// Returns whether a superblock is one that may be on its member.
    #[must_use]
    pub fn knows(&self, superblock: SuperblockMark) -> bool {
        superblock != SuperblockMark::NONE && [self.last, self.next].contains(&superblock)
    }

    /// The next head, of an array that nobody has open.
    #[must_use]
    pub const fn released_by_operator(&self) -> Self {
        Self { serial: self.serial + 1, writer: 0, ..*self }
    }

    /// The place where it goes, if the heads begin at `first`.
    #[must_use]
    pub const fn slot(&self, first: u64) -> u64 {
        first + self.serial % HEADS * HEAD_BYTES
    }
}

/// The head that counts among the bytes of both slots. Another array's, role's or region's is none.
#[must_use]
pub fn newest_head(slots: &[u8], array: Uuid, role: Role, region: Region) -> Option<Head> {
    slots
        .chunks(HEAD_BYTES as usize)
        .filter_map(Head::decode)
        .filter(|head| head.array == array && head.role == role && head.region == region)
        .max_by_key(|head| head.serial)
}

/// The highest serial of any head in both slots, whosever it is: a head that is to count must have
/// a higher one.
#[must_use]
pub fn highest_serial(slots: &[u8]) -> u64 {
    slots.chunks(HEAD_BYTES as usize).filter_map(Head::decode).map(|head| head.serial).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newer_slot_counts_and_every_flipped_bit_is_noticed() {
        let region = Region { start: 65536, len: 1 << 20 };
        let head = |serial| Head {
            serial,
            array: Uuid([7; 16]),
            role: Role(3),
            generation: 4,
            nonce: 5,
            sums: Sums::Keyed,
            released: 6,
            region,
            last: SuperblockMark { events: 8, sum: 9 },
            next: SuperblockMark { events: 10, sum: 11 },
            writer: 0x1234_5678 << 90,
        };
        let slots = [head(12).encode(), head(11).encode()].concat();
        let find = |slots: &[u8]| newest_head(slots, Uuid([7; 16]), Role(3), region);
        assert_eq!(find(&slots), Some(head(12)));
        assert_eq!((head(12).slot(100), head(11).slot(100)), (100, 100 + 4096));
        for bit in 0..140 * 8 {
            let mut bad = slots.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(find(&bad), Some(head(11)), "bit {bit}");
        }
        let plain = Head { sums: Sums::Crc32c, ..head(13) };
        let old = [plain.encode(), head(12).encode()].concat();
        assert_eq!(find(&old), Some(plain), "an earlier version's");
        assert_eq!(newest_head(&slots, Uuid([8; 16]), Role(3), region), None);
        assert_eq!(newest_head(&slots, Uuid([7; 16]), Role(2), region), None);
        // Numbers that nobody counts to would leave no room for the next ones.
        assert!(Head::decode(&Head { released: MOST, ..head(MOST) }.encode()).is_some());
        let beyond = MOST + 1;
        for bad in
            [head(beyond), Head { generation: beyond, ..head(1) }, Head { released: beyond, ..head(1) }]
        {
            assert_eq!(Head::decode(&bad.encode()), None);
        }
    }
}
