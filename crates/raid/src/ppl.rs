//! The partial parity log of RAID-5: stripes that may have been half written at a crash.
//!
//! Each member keeps a log for the stripes whose parity it holds. A header of 4096 bytes lists the
//! writes that were under way; the partial parity of each follows it. With feature *multiple-ppls*
//! headers follow each other with increasing generation until the space is used up and writing
//! starts again at the front. A header is written when the writes of the previous one are on the
//! members, so only the newest counts. A clean array's log still lists its last writes. Byte map in
//! `docs/reference/on-disk/md.md`.

use std::ops::Range;

use pumice_base::units::SECTOR;

use crate::bytes::{put, u32_at, u64_at};
use crate::geometry::Geometry;
use crate::invalid::{Check, Invalid};
use crate::uuid::Uuid;

/// Bytes of a header.
pub const HEADER_BYTES: usize = 4096;
/// The most entries of a header.
pub const MAX_ENTRIES: u32 = 148;

const ENTRIES_AT: usize = 536;
const ENTRY_BYTES: usize = 24;

/// A write that was under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    /// First sector of the array that was written.
    pub data_sector: u64,
    /// Bytes of partial parity.
    pub pp_size: u32,
    /// Bytes written.
    pub data_size: u32,
    /// The role that holds the parity.
    pub parity_disk: u32,
}

impl Entry {
    /// The stripes that the write touched, clipped to the array.
    #[must_use]
    pub fn stripes(&self, geometry: &Geometry) -> Range<u64> {
        let stripe_sectors = geometry.stripe_bytes() / SECTOR;
        // A write of no stated length still touched something.
        let sectors = u64::from(self.data_size.max(self.pp_size)).div_ceil(SECTOR).max(1);
        let first = (self.data_sector / stripe_sectors).min(geometry.stripes());
        let end = self.data_sector.saturating_add(sectors).div_ceil(stripe_sectors);
        first..end.clamp(first, geometry.stripes())
    }
}

/// A header of the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Header {
    /// Grows with each header written.
    pub generation: u64,
    /// The writes under way.
    pub entries: Vec<Entry>,
}

impl Header {
    /// Reads a header of the array `uuid`.
    ///
    /// # Errors
    /// Names the field. The checksum is CRC-32C of the header with its own field cleared, the
    /// signature CRC-32C of the UUID.
    pub fn parse(bytes: &[u8], uuid: Uuid) -> Result<Self, Invalid> {
        let check = Check("partial parity log");
        let Some(bytes) = bytes.get(..HEADER_BYTES) else {
            return Err(Invalid::new(check.0, "length", bytes.len(), "4096 bytes"));
        };
        let stored = u32_at(bytes, 532);
        let mut cleared = bytes.to_vec();
        put(&mut cleared, 532, &[0; 4]);
        let computed = crc32c::crc32c(&cleared);
        let text = |sum: u32| format!("{sum:#010x}");
        check.that(stored == computed, "checksum", text(stored), text(computed))?;
        let (signature, expected) = (u32_at(bytes, 512), crc32c::crc32c(&uuid.0));
        check.that(signature == expected, "signature", text(signature), text(expected))?;
        let count = u32_at(bytes, 528);
        check.that(count <= MAX_ENTRIES, "entries_count", count, "at most 148")?;
        let entries = bytes[ENTRIES_AT..].chunks_exact(ENTRY_BYTES).take(count as usize).map(|entry| Entry {
            data_sector: u64_at(entry, 0),
            pp_size: u32_at(entry, 8),
            data_size: u32_at(entry, 12),
            parity_disk: u32_at(entry, 16),
        });
        Ok(Self { generation: u64_at(bytes, 520), entries: entries.collect() })
    }

    /// Bytes from the start of this header to that of the next.
    #[must_use]
    pub fn next(&self) -> u64 {
        self.entries.iter().fold(HEADER_BYTES as u64, |sum, entry| sum + u64::from(entry.pp_size))
    }
}

/// Content of a member's log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ppl {
    /// These writes were under way; often none.
    Pending(Vec<Entry>),
    /// The log cannot be read, so any write may have been under way.
    Unreadable(Invalid),
}

impl Ppl {
    /// Reads the log of the array `uuid`, which has `area_bytes` bytes: `header_at` gives the 4096
    /// bytes at an offset into it. Where there are `several` headers, they are followed from the
    /// first on while their generation grows; the last of these is the newest.
    ///
    /// # Errors
    /// Passes on those of `header_at`.
    pub fn follow<E>(
        uuid: Uuid,
        area_bytes: u64,
        several: bool,
        mut header_at: impl FnMut(u64) -> Result<[u8; HEADER_BYTES], E>,
    ) -> Result<Self, E> {
        let mut newest = match Header::parse(&header_at(0)?, uuid) {
            Ok(header) => header,
            Err(invalid) => return Ok(Self::Unreadable(invalid)),
        };
        let mut at = newest.next();
        // Each step is at least a header long, so the area bounds the number of steps.
        while several && at.saturating_add(HEADER_BYTES as u64) <= area_bytes {
            match Header::parse(&header_at(at)?, uuid) {
                Ok(header) if header.generation >= newest.generation => newest = header,
                _ => break,
            }
            at = at.saturating_add(newest.next());
        }
        Ok(Self::Pending(newest.entries))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::{Layout, Level};

    const UUID: Uuid = Uuid([9; 16]);

    fn header(generation: u64, entries: &[(u64, u32, u32)]) -> Vec<u8> {
        let mut bytes = vec![0; HEADER_BYTES];
        bytes[..512].fill(0xFF);
        put(&mut bytes, 512, &crc32c::crc32c(&UUID.0).to_le_bytes());
        put(&mut bytes, 520, &generation.to_le_bytes());
        put(&mut bytes, 528, &(entries.len() as u32).to_le_bytes());
        for (i, (sector, pp, data)) in entries.iter().enumerate() {
            put(&mut bytes, ENTRIES_AT + ENTRY_BYTES * i, &sector.to_le_bytes());
            put(&mut bytes, ENTRIES_AT + ENTRY_BYTES * i + 8, &pp.to_le_bytes());
            put(&mut bytes, ENTRIES_AT + ENTRY_BYTES * i + 12, &data.to_le_bytes());
        }
        let sum = crc32c::crc32c(&bytes);
        put(&mut bytes, 532, &sum.to_le_bytes());
        bytes
    }

    fn follow(area: &[u8], several: bool) -> Ppl {
        let at = |offset: u64| Ok::<_, ()>(area[offset as usize..][..HEADER_BYTES].try_into().unwrap());
        Ppl::follow(UUID, area.len() as u64, several, at).unwrap()
    }

    #[test]
    fn any_changed_byte_makes_the_log_unreadable() {
        let good = header(3, &[(2048, 4096, 8192)]);
        assert_eq!(Header::parse(&good, UUID).unwrap().entries.len(), 1);
        for at in (0..HEADER_BYTES).step_by(7).chain([520, 528, 532, 4095]) {
            let mut bad = good.clone();
            bad[at] ^= 0x40;
            assert!(matches!(follow(&bad, false), Ppl::Unreadable(_)), "{at}");
        }
        assert!(matches!(follow(&[0; HEADER_BYTES], false), Ppl::Unreadable(_)));
        assert_eq!(Header::parse(&good, Uuid([1; 16])).unwrap_err().field, "signature");
        assert_eq!(Header::parse(&good[..4095], UUID).unwrap_err().field, "length");
        assert_eq!(Header::parse(&header(0, &[]), UUID).unwrap().entries, []);
    }

    #[test]
    fn of_several_headers_the_newest_counts() {
        let mut area = header(3, &[(0, 4096, 4096)]);
        area.extend([0; 4096]);
        area.extend(header(4, &[(640, 0, 4096), (1280, 0, 4096)]));
        area.extend(header(2, &[(9999, 0, 4096)]));
        area.extend([0; 100]);
        let sectors = |ppl: Ppl| match ppl {
            Ppl::Pending(entries) => entries.iter().map(|e| e.data_sector).collect::<Vec<_>>(),
            Ppl::Unreadable(invalid) => panic!("{invalid}"),
        };
        assert_eq!(sectors(follow(&area, true)), [640, 1280]);
        assert_eq!(sectors(follow(&area, false)), [0]);
    }

    #[test]
    fn entries_become_stripes() {
        let ls = Some(Layout::LeftSymmetric);
        let geometry = Geometry::new(Level::Raid5, ls, 4, 65536, 65536 * 100).unwrap();
        let stripes = |data_sector, data_size| {
            Entry { data_sector, pp_size: 0, data_size, parity_disk: 0 }.stripes(&geometry)
        };
        assert_eq!(stripes(0, 4096), 0..1);
        assert_eq!(stripes(383, 513), 0..2);
        assert_eq!(stripes(384, 0), 1..2);
        assert_eq!(stripes(u64::MAX, u32::MAX), 100..100);
    }
}
