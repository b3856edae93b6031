//! Records of the stripe log, which volumes and nodes write.
//!
//! `docs/reference/on-disk/stripe-log.md` has the byte map. A record says of which *window* (a run
//! of *rows*, blocks of 4096 bytes at the same place of every member) its blocks are.

use pumice_base::units::Role;
use pumice_protect::keyed::Key;

/// Bytes of a block, and of a member's part of a row.
pub const BLOCK: u64 = 4096;
/// The most rows of a window.
pub const WINDOW_ROWS: u64 = 16;

const MAGIC: [u8; 8] = *b"PUMSTLOG";
const SUMS_AT: usize = 64;
const LIST_AT: usize = 128;
/// First byte of the sum of a header: 8 bytes.
const SUM_AT: usize = BLOCK as usize - 8;
/// Bytes of a stripe of the keyed sums. A header is summed to the end of the stripe that ends its
/// list; behind it lie zeros.
const STRIPE: usize = 512;

/// A set of rows of one window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Rows(pub u32);

impl Rows {
    /// The set with `row` as well.
    #[must_use]
    pub const fn with(self, row: u32) -> Self {
        Self(self.0 | 1 << row)
    }

    /// Returns whether `row` is in the set.
    #[must_use]
    pub const fn contains(self, row: u32) -> bool {
        self.0 & (1 << row) != 0
    }

    /// The number of rows.
    #[must_use]
    pub const fn count(self) -> u32 {
        self.0.count_ones()
    }

    /// The rows, ascending.
    pub fn iter(self) -> impl Iterator<Item = u32> {
        (0..u32::BITS).filter(move |row| self.contains(*row))
    }
}

/// A window, counted from the start of the members' data areas.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Window(pub u64);

/// The sums of a generation's records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sums {
    /// CRC-32C, which a host can choose: logs of earlier versions. They are read, and begin no
    /// generation.
    Crc32c,
    /// Sums under the generation's nonce.
    Keyed,
}

/// Contents of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// The blocks that are to stand in place.
    Blocks,
    /// Nothing: it says that full stripes are being written.
    Intent,
}

/// A record, but for the sums of its blocks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// Its contents.
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
        ((SUM_AT - LIST_AT) / 2) as u16
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
        let secrets = Secrets::new(nonce);
        for (i, block) in blocks.iter().enumerate() {
            put(header, SUMS_AT + 4 * i, &secrets.block(block).to_le_bytes());
            put(rest, i * BLOCK as usize, block);
        }
        for (i, role) in self.members.iter().enumerate() {
            put(header, LIST_AT + 2 * i, &role.get().to_le_bytes());
        }
        let sum = secrets.header(header, position, self.members.len());
        put(header, SUM_AT, &sum.to_le_bytes());
    }

    /// The record at `position`, if a whole one is there. `log` is the whole region.
    #[must_use]
    pub fn decode(log: &[u8], position: u64, nonce: u64, sums: Sums) -> Option<Self> {
        let at = usize::try_from(position).ok()?;
        let header = log.get(at..at.checked_add(BLOCK as usize)?)?;
        if header[..8] != MAGIC {
            return None;
        }
        let secrets = Secrets::new(nonce);
        let count = u16_at(header, 60);
        let is_whole = match sums {
            Sums::Crc32c => u32_at(header, 8) == crc32c_of(header, nonce, position),
            Sums::Keyed => {
                count <= Self::most_members()
                    && header[8..12] == [0; 4]
                    && header[summed(count.into()).min(SUM_AT)..SUM_AT].iter().all(|byte| *byte == 0)
                    && u64_at(header, SUM_AT) == secrets.header(header, position, count.into())
            }
        };
        if !is_whole {
            return None;
        }
        let kind = match u16_at(header, 12) {
            1 => Kind::Blocks,
            2 => Kind::Intent,
            _ => return None,
        };
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
        let of_block = |block: &[u8]| match sums {
            Sums::Crc32c => crc32c::crc32c(block),
            Sums::Keyed => secrets.block(block),
        };
        let whole = (0..record.blocks() as usize).all(|i| {
            let from = at + (i + 1) * BLOCK as usize;
            log.get(from..from + BLOCK as usize)
                .is_some_and(|block| of_block(block) == u32_at(header, SUMS_AT + 4 * i))
        });
        whole.then_some(record)
    }
}

/// Secrets that follow from a generation's nonce, for the sums of its records.
///
/// A host chooses the blocks that are logged and knows what it wrote before, so it could make
/// blocks, and blocks that look like headers, that fit any sum which it can compute.
struct Secrets {
    blocks: Key<{ STRIPE / 4 }>,
    nonce: u64,
}

impl Secrets {
    fn new(nonce: u64) -> Self {
        Self { blocks: Key::new(nonce), nonce }
    }

    /// The sum of a block.
    fn block(&self, block: &[u8]) -> u32 {
        self.blocks.sum(block)
    }

    /// The sum of a header with so many members at `position`: two sums under two secrets, because
    /// a forger has as many tries as the region has blocks.
    fn header(&self, header: &[u8], position: u64, members: usize) -> u64 {
        let len = summed(members);
        let mut bytes = [0; BLOCK as usize];
        bytes[..len].copy_from_slice(&header[..len]);
        // The position stands in for the magic, which is known.
        put(&mut bytes, 0, &position.to_le_bytes());
        bytes[SUM_AT..].fill(0);
        let other = Key::<{ STRIPE / 4 }>::new(!self.nonce);
        u64::from(self.blocks.sum(&bytes[..len])) | u64::from(other.sum(&bytes[..len])) << 32
    }
}

/// Bytes of a header with so many members that are summed.
const fn summed(members: usize) -> usize {
    (LIST_AT + 2 * members).next_multiple_of(STRIPE)
}

/// The sum of a header of version 1.
fn crc32c_of(header: &[u8], nonce: u64, position: u64) -> u32 {
    let crc = crc32c::crc32c(&nonce.to_le_bytes());
    let crc = crc32c::crc32c_append(crc, &position.to_le_bytes());
    crc32c::crc32c_append(crc, &header[12..])
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes(std::array::from_fn(|i| bytes[at + i]))
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(std::array::from_fn(|i| bytes[at + i]))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(std::array::from_fn(|i| bytes[at + i]))
}

/// Puts a field into bytes.
pub(crate) fn put(bytes: &mut [u8], at: usize, field: &[u8]) {
    bytes[at..at + field.len()].copy_from_slice(field);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(kind: Kind, sequence: u64) -> Record {
        Record {
            kind,
            role: Role(2),
            generation: 3,
            sequence,
            committed: 40,
            released: 33,
            window: Window(5),
            rows: Rows(0b1010),
            members: vec![Role(0), Role(2)],
        }
    }

    /// A node that dies while it writes one leaves a part of it: no byte of it may be another.
    #[test]
    fn a_record_is_read_as_it_was_written_or_not_at_all() {
        let blocks = [[1; BLOCK as usize], [2; BLOCK as usize]];
        let written = record(Kind::Blocks, 44);
        let mut log = vec![0; BLOCK as usize];
        log.extend(written.encode(9, BLOCK, &[&blocks[0], &blocks[1]]));
        let read = |log: &[u8], nonce| Record::decode(log, BLOCK, nonce, Sums::Keyed);
        assert_eq!(read(&log, 9), Some(written));
        assert_eq!(read(&log, 8), None, "another nonce");
        for byte in BLOCK as usize..log.len() {
            log[byte] ^= 0x80;
            assert_eq!(read(&log, 9), None, "byte {byte}");
            log[byte] ^= 0x80;
        }
        assert_eq!(read(&log[..log.len() - 1], 9), None, "cut off");
    }

    /// A block of a volume may be any bytes, also those of a header. Its sum does not follow from
    /// the sums of other headers: of a CRC, the difference of two does not depend on the nonce.
    #[test]
    fn the_sum_of_a_header_does_not_follow_from_that_of_another() {
        let sums = |nonce: u64| {
            let of = |sequence| u64_at(&record(Kind::Intent, sequence).encode(nonce, 0, &[]), SUM_AT);
            of(1) ^ of(2)
        };
        let differences: std::collections::BTreeSet<u64> = (0..100).map(sums).collect();
        assert_eq!(differences.len(), 100);
    }
}
