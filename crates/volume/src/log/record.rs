//! Records of the stripe log.

use super::head::{Head, Sums};

use super::{put, u16_at, u32_at, u64_at};
use crate::rows::{BLOCK, Rows, WINDOW_ROWS, Window};
use pumice_protect::keyed::Key;
use pumice_units::Role;

const MAGIC: [u8; 8] = *b"PUMSTLOG";
const SUMS_AT: usize = 64;
const LIST_AT: usize = 128;
/// The place of the sum of a header: 8 bytes.
const SUM_AT: usize = BLOCK as usize - 8;
/// Bytes of a stripe of the keyed sums. A header is summed to the end of the stripe that ends its
/// list; behind it lie zeros.
const STRIPE: usize = 512;

/// The contents of a record.
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
    /// The kind of its contents.
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
    /// The contents of it.
    pub record: Record,
    /// The place of its first block, from the start of the device.
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

/// Secrets that a generation's nonce gives for the sums of its records.
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

/// Every whole record that a head vouches for in the bytes of its region.
#[must_use]
pub fn scan(log: &[u8], head: &Head) -> Vec<LoggedBlocks> {
    let places = (0..log.len() as u64).step_by(BLOCK as usize);
    places
        .filter_map(|position| {
            let record = Record::decode(log, position, head.nonce, head.sums)?;
            let ours = record.role == head.role && record.generation == head.generation;
            ours.then_some(LoggedBlocks { record, blocks_at: head.region.start + position + BLOCK })
        })
        .collect()
}

#[cfg(test)]
mod tests;
