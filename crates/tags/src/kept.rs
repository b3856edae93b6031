//! Kept blocks: the contents of blocks before recovery, or an operator, overwrote them.
//!
//! `docs/reference/on-disk/tags.md`, "Kept blocks", has the bytes.

use crate::geometry::{Geometry, KEPT_HEAD};
use pumice_base::durable::Medium;
use std::collections::VecDeque;
use std::io;
use thiserror::Error;

/// Heads that are read at a time.
const HEADS_AT_ONCE: u64 = 2048;

/// Reasons why a block was kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    /// Recovery judged it torn, and wrote it again from the log.
    Recovery = 1,
    /// Another kept copy was put back there.
    PutBack = 2,
    /// It was never there: it is what the log had for the block, and was not written because the
    /// tags were stale.
    Log = 3,
}

/// A block that is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kept {
    /// Its place in the kept area.
    pub slot: u64,
    /// The block of the drive that held the bytes.
    pub block: u64,
    /// The time when it was kept, in seconds since 1970.
    pub time: u64,
    /// The reason.
    pub why: Why,
    /// CRC-32C of the bytes.
    sum: u32,
}

/// The reasons why kept bytes cannot be read or written.
#[derive(Debug, Error)]
pub enum KeptError {
    /// The medium fails.
    #[error(transparent)]
    Medium(#[from] io::Error),
    /// No block is kept there.
    #[error("no block is kept at {0}")]
    NoSuch(u64),
    /// The head or the bytes fail their checksum.
    #[error("the block kept at {0} is damaged")]
    Damaged(u64),
    /// There is no free place.
    #[error("no place is free for another kept block; `pumice kept forget` makes room")]
    Full,
}

/// The contents of the kept area.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Contents {
    /// Blocks, by place.
    pub kept: Vec<Kept>,
    /// Places whose head fails its checksum or cannot be read.
    pub damaged: Vec<u64>,
    free: VecDeque<u64>,
}

impl Contents {
    /// The number of blocks that can still be kept.
    #[must_use]
    pub fn room(&self) -> u64 {
        self.free.len() as u64
    }
}

/// The part of a tag file with kept blocks.
pub(crate) struct KeptArea<'m> {
    pub(crate) medium: &'m dyn Medium,
    pub(crate) geometry: Geometry,
    /// Of the tag file.
    pub(crate) identity: u64,
}

impl KeptArea<'_> {
    /// Reads all heads.
    pub(crate) fn contents(&self) -> io::Result<Contents> {
        let mut contents = Contents::default();
        let count = self.geometry.kept_blocks();
        for first in (0..count).step_by(HEADS_AT_ONCE as usize) {
            let slots = first..count.min(first + HEADS_AT_ONCE);
            let mut heads = vec![0; (slots.end - slots.start) as usize * KEPT_HEAD];
            let whole = self.medium.read_at(self.geometry.kept_head_at(first), &mut heads).is_ok();
            for (slot, head) in slots.zip(heads.as_chunks_mut::<KEPT_HEAD>().0) {
                let readable = whole || self.can_read(slot, head)?;
                match decode(head, self.identity, slot, self.geometry.blocks()) {
                    _ if !readable => contents.damaged.push(slot),
                    Head::Free => contents.free.push_back(slot),
                    Head::Kept(kept) => contents.kept.push(kept),
                    Head::Damaged => contents.damaged.push(slot),
                }
            }
        }
        Ok(contents)
    }

    fn can_read(&self, slot: u64, head: &mut [u8; KEPT_HEAD]) -> io::Result<bool> {
        match self.medium.read_at(self.geometry.kept_head_at(slot), head) {
            Ok(()) => Ok(true),
            Err(error) if is_bad_sector(&error) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Keeps blocks, each with its number, durably, as many as there is room for; returns how many,
    /// from the first. Tests may omit `sync`.
    pub(crate) fn keep(
        &self,
        contents: &mut Contents,
        blocks: &[(u64, &[u8])],
        time: u64,
        why: Why,
        sync: bool,
    ) -> io::Result<usize> {
        let mut new: Vec<Kept> = Vec::new();
        let mut done = 0;
        for (block, bytes) in blocks {
            let sum = crc32c::crc32c(bytes);
            let mut same = contents.kept.iter().filter(|kept| (kept.block, kept.sum) == (*block, sum));
            // Of a recovery that did not come to its end.
            if !same.any(|kept| matches!(self.bytes_of(kept), Ok(there) if there == *bytes)) {
                let Some(slot) = contents.free.pop_front() else { break };
                self.medium.write_at(self.geometry.kept_bytes_at(slot), bytes)?;
                new.push(Kept { slot, block: *block, time, why, sum });
            }
            done += 1;
        }
        if new.is_empty() {
            return Ok(done);
        }
        if sync {
            self.medium.sync()?;
        }
        for kept in &new {
            self.medium.write_at(self.geometry.kept_head_at(kept.slot), &encode(kept, self.identity))?;
        }
        if sync {
            self.medium.sync()?;
        }
        contents.kept.extend(new);
        Ok(done)
    }

    /// The bytes of a kept block, and what it is.
    pub(crate) fn read(&self, slot: u64) -> Result<(Kept, Vec<u8>), KeptError> {
        let contents = self.contents()?;
        if contents.damaged.contains(&slot) {
            return Err(KeptError::Damaged(slot));
        }
        let kept = contents.kept.into_iter().find(|kept| kept.slot == slot);
        let kept = kept.ok_or(KeptError::NoSuch(slot))?;
        let bytes = self.bytes_of(&kept)?;
        Ok((kept, bytes))
    }

    fn bytes_of(&self, kept: &Kept) -> Result<Vec<u8>, KeptError> {
        let mut bytes = vec![0; self.geometry.block_bytes()];
        match self.medium.read_at(self.geometry.kept_bytes_at(kept.slot), &mut bytes) {
            Ok(()) if crc32c::crc32c(&bytes) == kept.sum => Ok(bytes),
            Err(error) if !is_bad_sector(&error) => Err(error.into()),
            _ => Err(KeptError::Damaged(kept.slot)),
        }
    }

    /// Deletes a kept block, even if its head is damaged. Durable when this returns.
    pub(crate) fn forget(&self, slot: u64) -> Result<(), KeptError> {
        let contents = self.contents()?;
        let known = contents.damaged.contains(&slot) || contents.kept.iter().any(|kept| kept.slot == slot);
        if !known {
            return Err(KeptError::NoSuch(slot));
        }
        self.medium.write_at(self.geometry.kept_head_at(slot), &[0; KEPT_HEAD])?;
        Ok(self.medium.sync()?)
    }
}

/// Returns whether an error concerns one sector, not the whole medium.
pub(crate) fn is_bad_sector(error: &io::Error) -> bool {
    // EIO, EBADE, ENODATA, EILSEQ and EREMOTEIO, as `IoError::is_media_error` has them.
    matches!(error.raw_os_error(), Some(5 | 52 | 61 | 84 | 121))
}

/// A head as it was read.
#[derive(Debug, PartialEq, Eq)]
enum Head {
    Free,
    Kept(Kept),
    Damaged,
}

fn encode(kept: &Kept, identity: u64) -> [u8; KEPT_HEAD] {
    let mut head = [0; KEPT_HEAD];
    head[4..8].copy_from_slice(&kept.sum.to_le_bytes());
    head[8..16].copy_from_slice(&kept.block.to_le_bytes());
    head[16..24].copy_from_slice(&kept.time.to_le_bytes());
    head[24] = kept.why as u8;
    let crc = checksum(&head, identity, kept.slot);
    head[..4].copy_from_slice(&crc.to_le_bytes());
    head
}

fn decode(head: &[u8; KEPT_HEAD], identity: u64, slot: u64, blocks: u64) -> Head {
    if head.iter().all(|byte| *byte == 0) {
        return Head::Free;
    }
    let dword = |at: usize| u32::from_le_bytes(std::array::from_fn(|i| head[at + i]));
    let qword = |at: usize| u64::from_le_bytes(std::array::from_fn(|i| head[at + i]));
    let why = match head[24] {
        1 => Why::Recovery,
        2 => Why::PutBack,
        3 => Why::Log,
        _ => return Head::Damaged,
    };
    let plain = head[25..].iter().all(|byte| *byte == 0);
    let (block, time) = (qword(8), qword(16));
    if dword(0) != checksum(head, identity, slot) || !plain || block >= blocks {
        return Head::Damaged;
    }
    Head::Kept(Kept { slot, block, time, why, sum: dword(4) })
}

fn checksum(head: &[u8; KEPT_HEAD], identity: u64, slot: u64) -> u32 {
    let crc = crc32c::crc32c(&identity.to_le_bytes());
    let crc = crc32c::crc32c_append(crc, &slot.to_le_bytes());
    crc32c::crc32c_append(crc, &head[4..])
}

#[cfg(test)]
mod tests {
    use super::*;
    use pumice_base::durable::{FaultyStore, Store, StoreFile};
    use pumice_protect::guard::Guard;

    const KEPT: Kept =
        Kept { slot: 3, block: 0x0102, time: 0x6700_0000, why: Why::PutBack, sum: 0x1122_3344 };

    #[test]
    fn the_bytes_of_a_head() {
        let head = encode(&KEPT, 7);
        let mut expected = [0; KEPT_HEAD];
        expected[4..8].copy_from_slice(&[0x44, 0x33, 0x22, 0x11]);
        expected[8..10].copy_from_slice(&[0x02, 0x01]);
        expected[19] = 0x67;
        expected[24] = 2;
        assert_eq!(head[4..], expected[4..]);
        assert_eq!(decode(&head, 7, 3, 0x103), Head::Kept(KEPT));
        assert_eq!(decode(&[0; KEPT_HEAD], 7, 3, 0x103), Head::Free);
    }

    #[test]
    fn a_head_with_any_bit_changed_or_of_another_place_or_file_is_damaged() {
        let head = encode(&KEPT, 7);
        for bit in 0..KEPT_HEAD * 8 {
            let mut changed = head;
            changed[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(decode(&changed, 7, 3, 0x103), Head::Damaged, "bit {bit}");
        }
        for (identity, slot, blocks) in [(8, 3, 0x103), (7, 4, 0x103), (7, 3, 0x102)] {
            assert_eq!(decode(&head, identity, slot, blocks), Head::Damaged);
        }
    }

    /// At whatever moment the power is cut, every head has its bytes.
    #[test]
    fn a_kept_block_is_there_whole_or_not_at_all() {
        let geometry = Geometry::new(1 << 20, 4096, 512, Guard::Crc16, 64 << 10).expect("a drive");
        let mut seen = [0; 3];
        for seed in 0..300 {
            let store = FaultyStore::new(seed);
            store.create("t", &vec![0; geometry.file_bytes() as usize]).unwrap();
            store.sync("t").unwrap();
            store.sync_folder().unwrap();
            let medium = StoreFile { store: &store, name: "t" };
            let area = KeptArea { medium: &medium, geometry, identity: 1 };
            let blocks: Vec<(u64, Vec<u8>)> = (0..2).map(|i| (i, vec![i as u8 + 1; 4096])).collect();
            let blocks: Vec<(u64, &[u8])> = blocks.iter().map(|(i, bytes)| (*i, &bytes[..])).collect();
            store.cut_power_after(seed % 10);
            let kept = area.keep(&mut area.contents().unwrap_or_default(), &blocks, 5, Why::Recovery, true);
            store.crash();
            let contents = area.contents().unwrap();
            assert!(contents.damaged.is_empty());
            for kept in &contents.kept {
                assert_eq!(area.read(kept.slot).unwrap().1, vec![kept.block as u8 + 1; 4096]);
            }
            if kept.is_ok_and(|count| count == 2) {
                assert_eq!(contents.kept.len(), 2, "seed {seed}");
            }
            seen[contents.kept.len()] += 1;
        }
        assert!(seen.iter().all(|count| *count > 0), "{seen:?}");
    }

    #[test]
    fn copies_are_made_once_until_the_area_is_full_and_given_up_one_by_one() {
        let geometry = Geometry::new(1 << 20, 4096, 512, Guard::Crc16, 64 << 10).expect("a drive");
        let store = FaultyStore::new(1);
        store.create("t", &vec![0; geometry.file_bytes() as usize]).unwrap();
        let medium = StoreFile { store: &store, name: "t" };
        let area = KeptArea { medium: &medium, geometry, identity: 1 };
        let mut contents = area.contents().unwrap();
        assert_eq!(contents.room(), 16);
        let bytes = vec![7; 4096];
        let keep = |contents: &mut Contents, block| {
            area.keep(contents, &[(block, &bytes[..])], 5, Why::Recovery, true).unwrap()
        };
        for block in 0..16 {
            assert_eq!((keep(&mut contents, block), keep(&mut contents, block)), (1, 1));
        }
        assert_eq!(contents.room(), 0);
        assert_eq!((keep(&mut contents, 16), keep(&mut contents, 3)), (0, 1));
        // A damaged copy is no copy.
        store.write_at("t", geometry.kept_bytes_at(3) + 100, &[0]).unwrap();
        assert_eq!(keep(&mut contents, 3), 0);
        assert!(matches!(area.read(3), Err(KeptError::Damaged(3))));
        area.forget(3).unwrap();
        assert!(matches!(area.forget(3), Err(KeptError::NoSuch(3))));
        assert!(matches!(area.read(3), Err(KeptError::NoSuch(3))));
        contents = area.contents().unwrap();
        assert_eq!(contents.room(), 1);
        assert_eq!((keep(&mut contents, 3), area.read(3).unwrap().1), (1, bytes.clone()));
    }
}
