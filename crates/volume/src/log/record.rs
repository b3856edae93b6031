//! Records of the stripe log.

use super::place::Region;
use super::{put, u16_at, u32_at, u64_at};
use crate::rows::{BLOCK, Rows, WINDOW_ROWS, Window};
use pumice_units::Role;
use std::sync::LazyLock;

const MAGIC: [u8; 8] = *b"PUMSTLOG";
const SUMS_AT: usize = 64;
const LIST_AT: usize = 128;

/// What a record holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// The blocks that are to stand in place.
    Blocks,
    /// Nothing: it says that full stripes are being written.
    Intent,
}

/// What a record says, but for the sums of its blocks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// What it holds.
    pub kind: Kind,
    /// The member on which it lies.
    pub role: Role,
    /// The log's generation.
    pub generation: u64,
    /// Of the write; the same on all its members.
    pub sequence: u64,
    /// The records of every write up to this number were durable.
    pub committed: u64,
    /// Every record up to this number is in place and flushed.
    pub released: u64,
    /// The window that is written.
    pub window: Window,
    /// The rows that are written on this member.
    pub rows: Rows,
    /// The members of the write, ascending.
    pub members: Vec<Role>,
}

/// A record that was found whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoggedBlocks {
    /// What it says.
    pub record: Record,
    /// Where its first block lies, from the start of the device.
    pub blocks_at: u64,
}

impl Record {
    /// Blocks that follow the header.
    #[must_use]
    pub const fn blocks(&self) -> u32 {
        match self.kind {
            Kind::Blocks => self.rows.count(),
            Kind::Intent => 0,
        }
    }

    /// Bytes in the log, header and blocks.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        BLOCK + self.blocks() as u64 * BLOCK
    }

    /// The most members that a record can list.
    #[must_use]
    pub const fn most_members() -> u16 {
        ((BLOCK as usize - LIST_AT) / 2) as u16
    }

    /// Header and blocks, to be written at `position` bytes from the start of the region.
    ///
    /// # Panics
    /// If there are not as many blocks of 4096 bytes as the record says, or too many members.
    #[must_use]
    pub fn encode(&self, nonce: u64, position: u64, blocks: &[&[u8]]) -> Vec<u8> {
        let mut out = vec![0; self.bytes() as usize];
        self.encode_into(nonce, position, blocks, &mut out);
        out
    }

    /// [`encode`](Self::encode) into memory of the record's length.
    ///
    /// # Panics
    /// As [`encode`](Self::encode), or if `out` has another length.
    pub fn encode_into(&self, nonce: u64, position: u64, blocks: &[&[u8]], out: &mut [u8]) {
        assert_eq!(blocks.len(), self.blocks() as usize, "a block for each row");
        assert!(self.members.len() <= usize::from(Self::most_members()), "the list is bounded");
        assert_eq!(out.len() as u64, self.bytes(), "the length of the record");
        let (header, rest) = out.split_at_mut(BLOCK as usize);
        header.fill(0);
        put(header, 0, &MAGIC);
        let kind: u16 = match self.kind {
            Kind::Blocks => 1,
            Kind::Intent => 2,
        };
        put(header, 12, &kind.to_le_bytes());
        put(header, 14, &self.role.get().to_le_bytes());
        put(header, 16, &self.generation.to_le_bytes());
        put(header, 24, &self.sequence.to_le_bytes());
        put(header, 32, &self.committed.to_le_bytes());
        put(header, 40, &self.released.to_le_bytes());
        put(header, 48, &self.window.0.to_le_bytes());
        put(header, 56, &self.rows.0.to_le_bytes());
        put(header, 60, &(self.members.len() as u16).to_le_bytes());
        for (i, block) in blocks.iter().enumerate() {
            put(header, SUMS_AT + 4 * i, &crc32c::crc32c(block).to_le_bytes());
            put(rest, i * BLOCK as usize, block);
        }
        for (i, role) in self.members.iter().enumerate() {
            put(header, LIST_AT + 2 * i, &role.get().to_le_bytes());
        }
        let crc = match self.members.len() <= SHORT_LIST {
            true => over_zeros(short_sum(header, nonce, position)),
            false => sum(header, nonce, position),
        };
        put(header, 8, &crc.to_le_bytes());
    }

    /// The record at `position`, if a whole one is there. `log` is the whole region.
    #[must_use]
    pub fn decode(log: &[u8], position: u64, nonce: u64) -> Option<Self> {
        let at = usize::try_from(position).ok()?;
        let header = log.get(at..at.checked_add(BLOCK as usize)?)?;
        if header[..8] != MAGIC || u32_at(header, 8) != sum(header, nonce, position) {
            return None;
        }
        let kind = match u16_at(header, 12) {
            1 => Kind::Blocks,
            2 => Kind::Intent,
            _ => return None,
        };
        let count = u16_at(header, 60);
        let rows = Rows(u32_at(header, 56));
        if count > Self::most_members() || rows.0 >> WINDOW_ROWS != 0 {
            return None;
        }
        let record = Self {
            kind,
            role: Role(u16_at(header, 14)),
            generation: u64_at(header, 16),
            sequence: u64_at(header, 24),
            committed: u64_at(header, 32),
            released: u64_at(header, 40),
            window: Window(u64_at(header, 48)),
            rows,
            members: (0..usize::from(count)).map(|i| Role(u16_at(header, LIST_AT + 2 * i))).collect(),
        };
        let whole = (0..record.blocks() as usize).all(|i| {
            let from = at + (i + 1) * BLOCK as usize;
            log.get(from..from + BLOCK as usize)
                .is_some_and(|block| crc32c::crc32c(block) == u32_at(header, SUMS_AT + 4 * i))
        });
        whole.then_some(record)
    }
}

/// Members of a header that is zeros from [`SHORT`] bytes on.
const SHORT_LIST: usize = 64;
const SHORT: usize = LIST_AT + 2 * SHORT_LIST;

/// What each byte of a CRC-32C adds when the zeros behind a short header follow: the CRC after them
/// is linear in the bits of the one before, but for a constant.
static OVER_ZEROS: LazyLock<([[u32; 256]; 4], u32)> = LazyLock::new(|| {
    let after = |crc| crc32c::crc32c_append(crc, &[0; BLOCK as usize - SHORT]);
    let of = |byte: usize, value: usize| after((value as u32) << (8 * byte)) ^ after(0);
    (std::array::from_fn(|byte| std::array::from_fn(|value| of(byte, value))), after(0))
});

/// The CRC-32C of a whole header by that of a short one. Most of a header is zeros, and to read
/// them costs as much as the CRC of a block.
fn over_zeros(crc: u32) -> u32 {
    let (tables, constant) = &*OVER_ZEROS;
    let added = tables.iter().zip(crc.to_le_bytes()).map(|(table, byte)| table[usize::from(byte)]);
    added.fold(*constant, |sum, part| sum ^ part)
}

/// The sum of a header without its zeros, in one go.
fn short_sum(header: &[u8], nonce: u64, position: u64) -> u32 {
    let mut summed = [0; 16 + SHORT - 12];
    put(&mut summed, 0, &nonce.to_le_bytes());
    put(&mut summed, 8, &position.to_le_bytes());
    put(&mut summed, 16, &header[12..SHORT]);
    crc32c::crc32c(&summed)
}

fn sum(header: &[u8], nonce: u64, position: u64) -> u32 {
    let crc = crc32c::crc32c(&nonce.to_le_bytes());
    let crc = crc32c::crc32c_append(crc, &position.to_le_bytes());
    crc32c::crc32c_append(crc, &header[12..])
}

/// Every whole record of one role and generation in the bytes of a region.
#[must_use]
pub fn scan(log: &[u8], region: Region, role: Role, generation: u64, nonce: u64) -> Vec<LoggedBlocks> {
    let places = (0..log.len() as u64).step_by(BLOCK as usize);
    places
        .filter_map(|position| {
            let record = Record::decode(log, position, nonce)?;
            let ours = record.role == role && record.generation == generation;
            ours.then_some(LoggedBlocks { record, blocks_at: region.start + position + BLOCK })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record() -> Record {
        Record {
            kind: Kind::Blocks,
            role: Role(2),
            generation: 3,
            sequence: 44,
            committed: 40,
            released: 33,
            window: Window(5),
            rows: Rows(0b1010),
            members: vec![Role(0), Role(2)],
        }
    }

    /// The sum of a header is that of all its bytes, however it is worked out.
    #[test]
    fn records_of_any_number_of_members_are_found() {
        let region = Region { start: 0, len: 2 * BLOCK };
        for count in [1, 2, 63, 64, 65, 300, Record::most_members()] {
            let members = (0..count).map(Role).collect();
            let record = Record { kind: Kind::Intent, members, ..record() };
            let mut log = vec![0; region.len as usize];
            log[BLOCK as usize..].copy_from_slice(&record.encode(9, BLOCK, &[]));
            let found = scan(&log, region, Role(2), 3, 9);
            assert_eq!(found, [LoggedBlocks { record, blocks_at: 2 * BLOCK }], "{count} members");
        }
    }

    #[test]
    fn a_record_is_found_whole_or_not_at_all() {
        let blocks = [vec![1; BLOCK as usize], vec![2; BLOCK as usize]];
        let blocks: Vec<&[u8]> = blocks.iter().map(Vec::as_slice).collect();
        let region = Region { start: 1 << 16, len: 4 * BLOCK };
        let mut log = vec![0; region.len as usize];
        let bytes = record().encode(9, BLOCK, &blocks);
        log[BLOCK as usize..].copy_from_slice(&bytes);
        let find = |log: &[u8], role, generation, nonce| scan(log, region, role, generation, nonce);
        let found = vec![LoggedBlocks { record: record(), blocks_at: (1 << 16) + 2 * BLOCK }];
        assert_eq!(find(&log, Role(2), 3, 9), found);
        assert!(find(&log, Role(2), 3, 8).is_empty(), "another nonce");
        assert!(find(&log, Role(2), 4, 9).is_empty(), "another generation");
        assert!(find(&log, Role(1), 3, 9).is_empty(), "another role");
        // A copy that a user wrote elsewhere is no record.
        let mut moved = vec![0; log.len()];
        moved[..bytes.len()].copy_from_slice(&bytes);
        assert!(find(&moved, Role(2), 3, 9).is_empty());
        for sector in (BLOCK as usize..log.len()).step_by(512) {
            let mut torn = log.clone();
            torn[sector] ^= 0x80;
            let any_of_it = find(&torn, Role(2), 3, 9).is_empty();
            assert!(any_of_it, "byte {sector}");
        }
    }
}
