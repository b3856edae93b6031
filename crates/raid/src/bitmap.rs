//! The write-intent bitmap: regions that may disagree with their parity after a crash, or were
//! never written.
//!
//! Two forms. The *classic* one (versions 3, 4) has a bit for each region, set while writes to it
//! may be under way. The *lockless* one (version 6) has a byte with the region's state. Regions
//! count from the start of the members' data areas. Byte map in `docs/reference/on-disk/md.md`.

use std::collections::BTreeMap;
use std::ops::Range;

use pumice_base::units::Sectors;

use crate::bytes::{array, u32_at, u64_at};
use crate::invalid::{Check, Invalid};
use crate::uuid::Uuid;

/// The number that begins a bitmap.
pub const MAGIC: u32 = 0x6D74_6962;
/// Bytes of its header.
pub const HEADER_BYTES: usize = 256;
/// Offset of the states in a lockless bitmap.
pub const LOCKLESS_START: usize = 1024;
/// The largest bitmap that is read: 2^27 regions of a classic one. md's own are at most some 128
/// KiB.
pub const MAX_BYTES: u64 = 16 << 20;

const STRUCTURE: &str = "bitmap";

/// Header state: out of date.
const STALE: u32 = 1 << 1;
/// Header state: a write to the bitmap failed.
const WRITE_ERROR: u32 = 1 << 2;
/// Header state: created but not yet filled in.
const FIRST_USE: u32 = 1 << 3;

/// The first byte of the header's state: every bit for which the regions' own bits do not count.
pub const OVERRIDES: u8 = (STALE | WRITE_ERROR | FIRST_USE) as u8;

/// The state of a region.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Region {
    /// Parity agrees.
    Clean,
    /// Writes may be under way, or were when the array stopped.
    Dirty,
    /// Parity has to be rebuilt.
    NeedSync,
    /// Parity is being rebuilt.
    Syncing,
    /// Nothing was ever written and parity was never built.
    NeverWritten,
}

/// The reasons why every region of a bitmap has the same state, whatever its bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Override {
    /// Marked stale, marked with a write error, or older than the superblock: all regions are
    /// dirty.
    Stale,
    /// Not filled in yet: nothing was ever written.
    FirstUse,
}

/// A bitmap.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bitmap {
    header: Header,
    overridden: Option<Override>,
    /// The bits or bytes of the regions, as on disk.
    states: Vec<u8>,
}

/// The header of a bitmap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// 3 (host order), 4 or 6.
    pub version: u32,
    /// Event count of the array when the bitmap was last written.
    pub events: u64,
    /// Event count when it was last cleared.
    pub events_cleared: u64,
    /// Size that the bitmap covers, in sectors of the members' data areas.
    pub sync_size: Sectors,
    /// State bits.
    pub state: u32,
    /// Bytes of a region.
    pub chunk_bytes: u32,
    /// Seconds between rounds of clearing bits.
    pub daemon_sleep: u32,
}

impl Header {
    /// Reads and checks the header of a bitmap for the array `uuid` whose members give `size` to
    /// it. `space` is the sectors that the bitmap has.
    ///
    /// The UUID is compared as stored on disk: pass it with [`Uuid::swap_words`] for a 0.90 array.
    ///
    /// # Errors
    /// Names the field.
    pub fn parse(bytes: &[u8], uuid: Uuid, size: Sectors, space: u64) -> Result<Self, Invalid> {
        let check = Check(STRUCTURE);
        check.that(bytes.len() >= HEADER_BYTES, "length", bytes.len(), "at least 256 bytes")?;
        let magic = u32_at(bytes, 0);
        check.that(magic == MAGIC, "magic", format_args!("{magic:#010x}"), "0x6d746962")?;
        let version = u32_at(bytes, 4);
        check.that(
            version != 5,
            "version",
            "5, clustered",
            "3, 4 or 6: md clusters raid1 and raid10 only",
        )?;
        check.that(matches!(version, 3 | 4 | 6), "version", version, "3, 4 or 6")?;
        let found = Uuid(array(bytes, 8));
        check.that(found == uuid, "uuid", found, format_args!("that of the array, {uuid}"))?;
        let header = Self {
            version,
            events: u64_at(bytes, 24),
            events_cleared: u64_at(bytes, 32),
            sync_size: Sectors(u64_at(bytes, 40)),
            state: u32_at(bytes, 48),
            chunk_bytes: u32_at(bytes, 52),
            daemon_sleep: u32_at(bytes, 56),
        };
        let chunk = header.chunk_bytes;
        check.that(
            chunk.is_power_of_two() && chunk >= 512,
            "chunksize",
            chunk,
            "a power of two, at least 512",
        )?;
        check.that(
            header.sync_size == size,
            "sync_size",
            header.sync_size,
            format_args!("the array's size, {size}"),
        )?;
        let most = space.saturating_mul(pumice_base::units::SECTOR).min(MAX_BYTES);
        let fits = header.total_bytes().is_some_and(|bytes| bytes <= most);
        let needed = format_args!("{chunk}, for {} regions", header.regions()).to_string();
        check.that(
            fits,
            "chunksize",
            needed,
            format_args!("such that the bitmap fits in its {most} bytes"),
        )?;
        Ok(header)
    }

    const fn lockless(&self) -> bool {
        self.version == 6
    }

    /// Regions covered.
    #[must_use]
    pub const fn regions(&self) -> u64 {
        // At least one sector, see `parse`.
        self.sync_size.get().div_ceil(self.chunk_bytes as u64 / pumice_base::units::SECTOR)
    }

    /// Bytes from the start of the bitmap to its end.
    const fn total_bytes(&self) -> Option<u64> {
        if self.lockless() {
            self.regions().checked_add(LOCKLESS_START as u64)
        } else {
            Some(HEADER_BYTES as u64 + self.regions().div_ceil(8))
        }
    }

    /// Range of the states, in bytes from the start of the bitmap. At most [`MAX_BYTES`] of them.
    #[must_use]
    pub fn state_bytes(&self) -> Range<u64> {
        let start = if self.lockless() { LOCKLESS_START } else { HEADER_BYTES };
        start as u64..self.total_bytes().unwrap_or(0)
    }
}

impl Bitmap {
    /// Joins a header and the bytes at its [`Header::state_bytes`]. `events` is the count of the
    /// superblock beside it: if the bitmap's own count is lower, it missed changes and counts as
    /// stale.
    ///
    /// # Errors
    /// If the bytes are not as many as the header needs, or a lockless state is unknown.
    pub fn new(header: Header, states: Vec<u8>, events: u64) -> Result<Self, Invalid> {
        let check = Check(STRUCTURE);
        let range = header.state_bytes();
        let needed = range.end.saturating_sub(range.start);
        check.that(states.len() as u64 == needed, "length", states.len(), format_args!("{needed} bytes"))?;
        if header.lockless()
            && let Some((region, state)) = states.iter().enumerate().find(|(_, state)| **state > 7)
        {
            return Err(Invalid::new(
                STRUCTURE,
                "region state",
                format_args!("{state} (region {region})"),
                "0 to 7",
            ));
        }
        let overridden = if header.state & (STALE | WRITE_ERROR) != 0 || header.events < events {
            Some(Override::Stale)
        } else if header.state & FIRST_USE != 0 {
            Some(Override::FirstUse)
        } else {
            None
        };
        Ok(Self { header, overridden, states })
    }

    /// The header.
    #[must_use]
    pub const fn header(&self) -> &Header {
        &self.header
    }

    /// Reason for ignoring the bits; `None` if they count.
    #[must_use]
    pub const fn overridden(&self) -> Option<Override> {
        self.overridden
    }

    /// Returns whether it has a state for each region rather than a bit.
    #[must_use]
    pub const fn is_lockless(&self) -> bool {
        self.header.lockless()
    }

    /// Sectors of a region.
    #[must_use]
    pub const fn region_sectors(&self) -> u64 {
        self.header.chunk_bytes as u64 / pumice_base::units::SECTOR
    }

    /// The state of region `index`; beyond the last one, dirty.
    #[must_use]
    pub fn state(&self, index: u64) -> Region {
        match self.overridden {
            _ if index >= self.header.regions() => Region::Dirty,
            Some(Override::Stale) => Region::Dirty,
            Some(Override::FirstUse) => Region::NeverWritten,
            None if self.header.lockless() => {
                match usize::try_from(index).ok().and_then(|i| self.states.get(i)) {
                    Some(0 | 5..=7) => Region::NeverWritten,
                    Some(1) => Region::Clean,
                    Some(3) => Region::NeedSync,
                    Some(4) => Region::Syncing,
                    _ => Region::Dirty,
                }
            }
            None => match usize::try_from(index / 8).ok().and_then(|i| self.states.get(i)) {
                Some(byte) if byte & (1 << (index % 8)) == 0 => Region::Clean,
                _ => Region::Dirty,
            },
        }
    }

    /// The longest run of regions from `index` on that have the same state, as its end.
    fn run_end(&self, index: u64) -> u64 {
        let regions = self.header.regions();
        if self.overridden.is_some() {
            return regions;
        }
        let state = self.state(index);
        let mut at = index + 1;
        while at < regions {
            // Eight classic regions at a time.
            let whole = match state {
                Region::Clean => 0x00,
                _ => 0xFF,
            };
            let byte = usize::try_from(at / 8).ok().and_then(|i| self.states.get(i));
            if !self.header.lockless() && at.is_multiple_of(8) && byte == Some(&whole) {
                at += 8;
            } else if self.state(at) == state {
                at += 1;
            } else {
                break;
            }
        }
        at.min(regions)
    }

    /// The runs of regions with the same state, in sectors of the members' data areas, from the
    /// start to the end of what is covered.
    pub fn runs(&self) -> impl Iterator<Item = (Range<u64>, Region)> + '_ {
        let mut index = 0;
        std::iter::from_fn(move || {
            if index >= self.header.regions() {
                return None;
            }
            let (start, end) = (index, self.run_end(index));
            index = end;
            let sectors =
                |region: u64| region.saturating_mul(self.region_sectors()).min(self.header.sync_size.get());
            Some((sectors(start)..sectors(end), self.state(start)))
        })
    }

    /// Number of regions in each state.
    #[must_use]
    pub fn counts(&self) -> BTreeMap<Region, u64> {
        let mut counts = BTreeMap::new();
        for (range, state) in self.runs() {
            *counts.entry(state).or_default() += (range.end - range.start).div_ceil(self.region_sectors());
        }
        counts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const UUID: Uuid = Uuid([7; 16]);

    fn header(version: u32, sectors: u64, chunk: u32, state: u32, events: u64) -> Vec<u8> {
        let mut bytes = vec![0; HEADER_BYTES];
        bytes[..4].copy_from_slice(&MAGIC.to_le_bytes());
        bytes[4..8].copy_from_slice(&version.to_le_bytes());
        bytes[8..24].copy_from_slice(&UUID.0);
        bytes[24..32].copy_from_slice(&events.to_le_bytes());
        bytes[40..48].copy_from_slice(&sectors.to_le_bytes());
        bytes[48..52].copy_from_slice(&state.to_le_bytes());
        bytes[52..56].copy_from_slice(&chunk.to_le_bytes());
        bytes
    }

    fn parse(bytes: &[u8], sectors: u64, space: u64) -> Result<Header, Invalid> {
        Header::parse(bytes, UUID, Sectors(sectors), space)
    }

    fn bitmap(version: u32, sectors: u64, chunk: u32, states: &[u8]) -> Bitmap {
        let header = parse(&header(version, sectors, chunk, 0, 5), sectors, 100_000).unwrap();
        Bitmap::new(header, states.to_vec(), 5).unwrap()
    }

    #[test]
    fn classic_bits_are_dirty_regions() {
        // 20 regions of 8 sectors, the last of 3.
        let map = bitmap(4, 19 * 8 + 3, 4096, &[0b0000_0110, 0x00, 0xF8]);
        let runs: Vec<_> = map.runs().collect();
        assert_eq!(
            runs,
            [
                (0..8, Region::Clean),
                (8..24, Region::Dirty),
                (24..19 * 8, Region::Clean),
                (19 * 8..19 * 8 + 3, Region::Dirty),
            ]
        );
        assert_eq!(map.counts(), BTreeMap::from([(Region::Clean, 17), (Region::Dirty, 3)]));
        assert_eq!(map.state(20), Region::Dirty);
    }

    #[test]
    fn runs_agree_with_single_regions() {
        let mut x = 1_u32;
        let states: Vec<u8> = (0..200)
            .map(|_| {
                x = x.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                [0, 0, 0xFF, 0xFF, (x >> 16) as u8][(x >> 24) as usize % 5]
            })
            .collect();
        let map = bitmap(4, 1597, 512, &states);
        let mut at = 0;
        let mut last = None;
        for (range, state) in map.runs() {
            assert_eq!(range.start, at);
            assert_ne!(last, Some(state));
            assert!(range.clone().all(|i| map.state(i) == state));
            (at, last) = (range.end, Some(state));
        }
        assert_eq!(at, 1597);
    }

    #[test]
    fn lockless_bytes_are_states() {
        let map = bitmap(6, 9 * 8, 4096, &[0, 1, 1, 2, 3, 4, 5, 6, 7]);
        let states: Vec<_> = map.runs().map(|(range, state)| (range.start / 8, state)).collect();
        assert_eq!(
            states,
            [
                (0, Region::NeverWritten),
                (1, Region::Clean),
                (3, Region::Dirty),
                (4, Region::NeedSync),
                (5, Region::Syncing),
                (6, Region::NeverWritten),
            ]
        );
        let header = *map.header();
        assert!(
            Bitmap::new(header, vec![8; 9], 5)
                .unwrap_err()
                .to_string()
                .contains("region state is 8 (region 0)")
        );
        assert!(Bitmap::new(header, vec![1; 8], 5).is_err());
    }

    #[test]
    fn a_bitmap_that_missed_changes_does_not_count() {
        for (state, events, expected) in [
            (0, 5, None),
            (0, 6, Some(Override::Stale)),
            (STALE, 5, Some(Override::Stale)),
            (WRITE_ERROR, 5, Some(Override::Stale)),
            (FIRST_USE, 5, Some(Override::FirstUse)),
        ] {
            let header = parse(&header(4, 80, 4096, state, 5), 80, 8).unwrap();
            let map = Bitmap::new(header, vec![0, 0], events).unwrap();
            assert_eq!(map.overridden(), expected);
            assert_eq!(map.runs().count(), 1);
            let clean = map.counts().contains_key(&Region::Clean);
            assert_eq!(clean, expected.is_none());
        }
    }

    #[test]
    fn refuses_by_field() {
        let good = header(4, 80, 4096, 0, 5);
        let field = |edit: &dyn Fn(&mut Vec<u8>)| {
            let mut bytes = good.clone();
            edit(&mut bytes);
            parse(&bytes, 80, 8).unwrap_err().field
        };
        assert_eq!(field(&|b| b[0] ^= 1), "magic");
        assert_eq!(field(&|b| b[4] = 5), "version");
        assert_eq!(field(&|b| b[4] = 7), "version");
        assert_eq!(field(&|b| b[9] ^= 1), "uuid");
        assert_eq!(field(&|b| b[40] ^= 1), "sync_size");
        assert_eq!(field(&|b| b[53] = 0), "chunksize");
        assert_eq!(field(&|b| b[52] = 1), "chunksize");
        assert_eq!(field(&|b| b.truncate(255)), "length");
        // 65536 regions of a sector need 8 KiB; the area has 4.
        let small = header(4, 65536, 512, 0, 5);
        assert_eq!(parse(&small, 65536, 8).unwrap_err().field, "chunksize");
        assert!(parse(&small, 65536, 17).is_ok());
        let huge = header(6, u64::MAX, 512, 0, 5);
        assert_eq!(parse(&huge, u64::MAX, u64::MAX).unwrap_err().field, "chunksize");
    }
}
