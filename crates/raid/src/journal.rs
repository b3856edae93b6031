//! The write journal of RAID-4/5/6: stripes with writes that may not yet be on the members.
//!
//! The journal lies in the data area of a separate device, as a ring of *meta blocks*, each
//! followed by the data and parity it lists. The superblock's `journal_tail` is the place of the
//! oldest meta block that may still be needed; from there the ring is followed while sequence
//! numbers are consecutive. md leaves its last entry behind even when it stops cleanly, and replays
//! it at the next start, so a stopped array's journal usually names a stripe or two. Byte map in
//! `docs/reference/on-disk/md.md`.
//!
//! If anything in the journal is not understood, it is [`Journal::Unknown`], and every stripe is
//! pending.

use std::collections::BTreeSet;
use std::ops::Range;

use pumice_base::units::SECTOR;

use crate::bytes::{array, put, u16_at, u32_at, u64_at};
use crate::geometry::Geometry;
use crate::uuid::Uuid;

/// The number that begins a meta block.
pub const MAGIC: u32 = 0x6433_C509;
/// Bytes of a meta block, and of each block of data or parity.
pub const BLOCK_BYTES: usize = 4096;
/// Bytes of a meta block before its list.
const HEADER_BYTES: usize = 32;
/// Bytes of an entry for data or parity before its checksums, of which there is one of four bytes
/// for each block.
const ENTRY_BYTES: usize = 16;
/// Sectors of a block.
const BLOCK: u64 = BLOCK_BYTES as u64 / SECTOR;
/// Most meta blocks that are followed: a journal of some 100 MiB of small writes, or of many GiB of
/// large ones.
const MAX_META_BLOCKS: u32 = 1 << 14;

/// Entry: a block of data; its place is a sector of the array.
const DATA: u16 = 0;
/// Entry: blocks of parity; their place is a sector of the members' data areas.
const PARITY: u16 = 1;
/// Entry: stripes that need no replay.
const FLUSH: u16 = 2;

/// The state of a journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Journal {
    /// Writes to these stripes wait in it: in order, without overlaps; often few or none.
    Pending(Vec<Range<u64>>),
    /// The stripes are unknown.
    Unknown(&'static str),
}

/// A meta block: its list and where it stands in the ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct MetaBlock<'a> {
    sequence: u64,
    list: &'a [u8],
}

impl<'a> MetaBlock<'a> {
    /// Reads the block at sector `place`.
    fn parse(block: &'a [u8; BLOCK_BYTES], uuid: Uuid, place: u64) -> Result<Self, &'static str> {
        if u32_at(block, 0) != MAGIC {
            return Err("there is no meta block at journal_tail");
        }
        let mut cleared = *block;
        put(&mut cleared, 4, &[0; 4]);
        if u32_at(block, 4) != checksum(uuid, &cleared) {
            return Err("the meta block at journal_tail has a wrong checksum");
        }
        if array::<1>(block, 8) != [1] {
            return Err("the meta block at journal_tail has an unknown version");
        }
        if u64_at(block, 24) != place {
            return Err("the meta block at journal_tail belongs to another place");
        }
        let list = usize::try_from(u32_at(block, 12)).ok().and_then(|end| block.get(HEADER_BYTES..end));
        let list = list.ok_or("a meta block has a wrong length")?;
        Ok(Self { sequence: u64_at(block, 16), list })
    }

    /// Adds the stripes that the list names and returns the sectors of the blocks that follow;
    /// `None` if the list is invalid.
    fn stripes(&self, geometry: &Geometry, stripes: &mut BTreeSet<u64>) -> Option<u64> {
        let (mut rest, mut blocks) = (self.list, 0_u64);
        while !rest.is_empty() {
            let (kind, size) = (u16_at(rest, 0), u32_at(rest, 4));
            if kind == FLUSH {
                rest = rest.get(8_usize.checked_add(size as usize)?..)?;
                continue;
            }
            // One block of data, or P, or P and Q.
            if !matches!((kind, size), (DATA, 8) | (PARITY, 8 | 16)) {
                return None;
            }
            let place = u64_at(rest.get(..ENTRY_BYTES)?, 8);
            let stripe_bytes = if kind == DATA { geometry.stripe_bytes() } else { geometry.chunk_bytes() };
            let stripe = place / (stripe_bytes / SECTOR);
            if stripe < geometry.stripes() {
                stripes.insert(stripe);
            }
            blocks += u64::from(size);
            rest = rest.get(ENTRY_BYTES + size as usize / 2..)?;
        }
        Some(blocks)
    }
}

/// The checksum of a meta block whose own field is cleared: over the array's UUID and then the
/// block, as a bare CRC-32C register that begins with all ones and is not inverted at the end.
fn checksum(uuid: Uuid, cleared: &[u8; BLOCK_BYTES]) -> u32 {
    // `crc32c_append` inverts on the way in and on the way out, so an inverted result is the bare
    // register.
    !crc32c::crc32c_append(crc32c::crc32c(&uuid.0), cleared)
}

/// A meta block of the array `uuid`, as md writes it at sector `place` of the ring: for tests,
/// which need arrays with a journal.
///
/// # Panics
/// If the list has no room: it may have 4064 bytes.
#[must_use]
pub fn meta_block(uuid: Uuid, sequence: u64, place: u64, list: &[u8]) -> [u8; BLOCK_BYTES] {
    let mut block = [0; BLOCK_BYTES];
    put(&mut block, 0, &MAGIC.to_le_bytes());
    put(&mut block, 8, &[1]);
    put(&mut block, 12, &((HEADER_BYTES + list.len()) as u32).to_le_bytes());
    put(&mut block, 16, &sequence.to_le_bytes());
    put(&mut block, 24, &place.to_le_bytes());
    put(&mut block, HEADER_BYTES, list);
    let sum = checksum(uuid, &block);
    put(&mut block, 4, &sum.to_le_bytes());
    block
}

/// The entry of a meta block's list for one block of data, whose place is a sector of the array.
/// Its check sum, which only a replay reads, is 0.
#[must_use]
pub fn data_entry(sector: u64) -> [u8; ENTRY_BYTES + 4] {
    let mut entry = [0; ENTRY_BYTES + 4];
    put(&mut entry, 0, &DATA.to_le_bytes());
    put(&mut entry, 4, &(BLOCK as u32).to_le_bytes());
    put(&mut entry, 8, &sector.to_le_bytes());
    entry
}

impl Journal {
    /// Follows the journal of the array `uuid` from sector `tail` on. `sectors` is the size of the
    /// ring; `block_at` gives the 4096 bytes at a sector of it.
    ///
    /// # Errors
    /// Errors of `block_at`.
    pub fn follow<E>(
        uuid: Uuid,
        geometry: &Geometry,
        tail: u64,
        sectors: u64,
        mut block_at: impl FnMut(u64) -> Result<[u8; BLOCK_BYTES], E>,
    ) -> Result<Self, E> {
        let end = sectors / BLOCK * BLOCK;
        if !tail.is_multiple_of(BLOCK) || tail >= end {
            return Ok(Self::Unknown("journal_tail is not a possible place of a meta block"));
        }
        let (mut at, mut passed, mut last) = (tail, 0_u64, None);
        let mut stripes = BTreeSet::new();
        for _ in 0..MAX_META_BLOCKS {
            let bytes = block_at(at)?;
            let block = match (MetaBlock::parse(&bytes, uuid, at), last) {
                (Err(why), None) => return Ok(Self::Unknown(why)),
                // The journal ends where the next block is not the next in sequence.
                (Err(_), Some(_)) => return Ok(Self::pending(stripes)),
                (Ok(block), Some(last)) if block.sequence.checked_sub(1) != Some(last) => {
                    return Ok(Self::pending(stripes));
                }
                (Ok(block), _) => block,
            };
            let Some(blocks) = block.stripes(geometry, &mut stripes) else {
                return Ok(Self::Unknown("a meta block lists something unknown"));
            };
            passed += BLOCK + blocks;
            if passed > end {
                return Ok(Self::Unknown("the journal is longer than its device"));
            }
            at = (at + BLOCK + blocks) % end;
            last = Some(block.sequence);
        }
        Ok(Self::Unknown("the journal holds too many entries to follow"))
    }

    fn pending(stripes: BTreeSet<u64>) -> Self {
        let mut ranges: Vec<Range<u64>> = Vec::new();
        for stripe in stripes {
            match ranges.last_mut() {
                Some(last) if last.end == stripe => last.end += 1,
                _ => ranges.push(stripe..stripe + 1),
            }
        }
        Self::Pending(ranges)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::{Layout, Level};

    const UUID: Uuid = Uuid([0x5A; 16]);
    /// A ring of 64 blocks.
    const SECTORS: u64 = 64 * BLOCK;

    fn geometry() -> Geometry {
        Geometry::new(Level::Raid5, Some(Layout::LeftSymmetric), 4, 65536, 65536 * 100).unwrap()
    }

    fn entry(kind: u16, size: u32, place: u64) -> Vec<u8> {
        let mut out = vec![0; ENTRY_BYTES + size as usize / 2];
        put(&mut out, 0, &kind.to_le_bytes());
        put(&mut out, 4, &size.to_le_bytes());
        put(&mut out, 8, &place.to_le_bytes());
        out
    }

    fn put_block(ring: &mut [u8], sequence: u64, place: u64, entries: &[Vec<u8>]) {
        let block = meta_block(UUID, sequence, place, &entries.concat());
        put(ring, (place * SECTOR) as usize, &block);
    }

    fn follow(ring: &[u8], uuid: Uuid, tail: u64) -> Journal {
        let block = |at: u64| Ok::<_, ()>(array(ring, (at * SECTOR) as usize));
        Journal::follow(uuid, &geometry(), tail, SECTORS, block).unwrap()
    }

    fn ring() -> Vec<u8> {
        vec![0; (SECTORS * SECTOR) as usize]
    }

    #[test]
    fn entries_in_sequence_are_pending() {
        let mut ring = ring();
        // At the end of the ring, so that the second wraps round to its start.
        put_block(&mut ring, 5, 61 * BLOCK, &[entry(DATA, 8, 384 * 7), entry(PARITY, 8, 128 * 7)]);
        put_block(&mut ring, 6, 0, &[entry(DATA, 8, 384 * 8 + 383), entry(PARITY, 8, 128 * 20)]);
        put_block(&mut ring, 7, 3 * BLOCK, &[]);
        // Out of sequence: of an older round.
        put_block(&mut ring, 3, 4 * BLOCK, &[entry(DATA, 8, 0)]);
        assert_eq!(follow(&ring, UUID, 61 * BLOCK), Journal::Pending(vec![7..9, 20..21]));
        assert_eq!(follow(&ring, UUID, 3 * BLOCK), Journal::Pending(vec![]));
    }

    #[test]
    fn flushed_stripes_and_two_parities_are_walked_over() {
        let mut ring = ring();
        let mut flush = vec![0; 8 + 16];
        put(&mut flush, 0, &FLUSH.to_le_bytes());
        put(&mut flush, 4, &16_u32.to_le_bytes());
        put_block(&mut ring, 5, 0, &[flush, entry(PARITY, 16, 0)]);
        put_block(&mut ring, 6, 3 * BLOCK, &[entry(DATA, 8, 384 * 50)]);
        assert_eq!(follow(&ring, UUID, 0), Journal::Pending(vec![0..1, 50..51]));
    }

    #[test]
    fn what_is_not_understood_is_unknown() {
        let unknown = |ring: &[u8], tail| matches!(follow(ring, UUID, tail), Journal::Unknown(_));
        assert!(unknown(&ring(), 0));
        let mut good = ring();
        put_block(&mut good, 5, 0, &[entry(DATA, 8, 0)]);
        assert!(!unknown(&good, 0));
        assert!(unknown(&good, 4));
        assert!(unknown(&good, SECTORS));
        assert!(matches!(follow(&good, Uuid([1; 16]), 0), Journal::Unknown(_)));
        for at in (0..BLOCK_BYTES).step_by(5) {
            let mut bad = good.clone();
            bad[at] ^= 4;
            assert!(unknown(&bad, 0), "{at}");
        }
        let mut endless = entry(FLUSH, 0, 0);
        put(&mut endless, 4, &u32::MAX.to_le_bytes());
        for bad in [entry(3, 8, 0), entry(DATA, 16, 0), entry(PARITY, 24, 0), vec![0; 3], endless] {
            let mut ring = ring();
            put_block(&mut ring, 5, 0, std::slice::from_ref(&bad));
            assert!(unknown(&ring, 0), "{bad:?}");
        }
    }

    #[test]
    fn a_journal_longer_than_its_ring_is_unknown() {
        // Each entry is two blocks long and the ring has an odd number of them: the second round
        // goes between those of the first.
        let blocks = 63;
        let mut ring = ring();
        for i in 0..40 {
            put_block(&mut ring, 5 + i, 2 * i % blocks * BLOCK, &[entry(DATA, 8, 384 * i)]);
        }
        let block = |at: u64| Ok::<_, ()>(array(&ring, (at * SECTOR) as usize));
        let judged = Journal::follow(UUID, &geometry(), 0, blocks * BLOCK, block).unwrap();
        assert_eq!(judged, Journal::Unknown("the journal is longer than its device"));
    }
}
