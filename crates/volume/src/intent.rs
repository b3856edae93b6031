//! md's bitmap as its writer keeps it: bits are durable before a write begins, and cleared lazily
//! after.

use pumice_base::units::SECTOR;
use pumice_raid::bitmap::{self, HEADER_BYTES};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// Ticks after the last write to a region until its bit is cleared.
const TICKS: u8 = 2;

#[derive(Debug, Clone, Copy, Default)]
struct Region {
    durable: bool,
    users: u32,
    ticks: u8,
    /// Sequence number of the last write.
    last: u64,
}

/// Regions whose bit is set and which nobody writes: it was found when the volume was opened, or
/// stays because a member is missing. They are all alike, so they take no memory but their bits.
#[derive(Debug, Clone, Copy)]
struct Found {
    durable: bool,
    ticks: u8,
}

/// A write of bits that is under way.
#[derive(Debug, Default)]
struct Writing {
    /// Regions whose bits are durable when it is done.
    regions: Vec<u64>,
    /// So are those of the regions that were found.
    found: bool,
}

/// The first bit of a bitmap that is set, from `from` on and before `count`. `bytes` begin with the
/// header.
pub(crate) fn next_bit(bytes: &[u8], from: u64, count: u64) -> Option<u64> {
    let states = bytes.get(HEADER_BYTES..)?;
    let first = usize::try_from(from / 8).ok()?;
    let mut skip = from % 8;
    for (at, byte) in (from / 8..).zip(states.get(first..)?) {
        let left = byte >> skip << skip;
        skip = 0;
        if left != 0 {
            let bit = at * 8 + u64::from(left.trailing_zeros());
            return (bit < count).then_some(bit);
        }
    }
    None
}

/// The bits, and the bytes that hold them.
#[derive(Debug)]
pub(crate) struct Intent {
    /// The bitmap as it lies on every member, header included; whole sectors.
    bytes: Vec<u8>,
    region_bytes: u64,
    /// Regions that have a bit.
    count: u64,
    /// Regions that are set and not in `regions`, if there are any.
    found: Option<Found>,
    /// Regions that were written, and whose bit is set.
    regions: BTreeMap<u64, Region>,
    /// Sectors of `bytes` that differ from the members'.
    changed: BTreeSet<u64>,
    writing: Option<Writing>,
    /// The header as it was before an update that has not ended.
    before: Option<[u8; HEADER_BYTES]>,
}

impl Intent {
    /// Goes on with the bits that were found. Bits behind the last of `count` regions have no
    /// meaning.
    pub(crate) fn new(bytes: Vec<u8>, region_bytes: u64, count: u64) -> Self {
        let (regions, changed) = (BTreeMap::new(), BTreeSet::new());
        let found = next_bit(&bytes, 0, count).map(|_| Found { durable: true, ticks: 0 });
        Self { bytes, region_bytes, count, found, regions, changed, writing: None, before: None }
    }

    fn place(region: u64) -> (usize, u8) {
        (HEADER_BYTES + (region / 8) as usize, 1 << (region % 8))
    }

    fn bit(&self, region: u64) -> bool {
        let (at, mask) = Self::place(region);
        self.bytes[at] & mask != 0
    }

    fn set(&mut self, region: u64, on: bool) {
        let (at, mask) = Self::place(region);
        self.bytes[at] = if on { self.bytes[at] | mask } else { self.bytes[at] & !mask };
        self.changed.insert(at as u64 / SECTOR);
    }

    fn regions_of(&self, bytes: &Range<u64>) -> Range<u64> {
        bytes.start / self.region_bytes..bytes.end.div_ceil(self.region_bytes)
    }

    /// A write to these bytes of the members' data areas begins.
    pub(crate) fn enter(&mut self, bytes: &Range<u64>) {
        for index in self.regions_of(bytes) {
            let mut new = Region::default();
            if !self.regions.contains_key(&index) {
                match self.found.filter(|_| self.bit(index)) {
                    Some(found) => new.durable = found.durable,
                    None => self.set(index, true),
                }
            }
            let region = self.regions.entry(index).or_insert(new);
            region.users += 1;
            region.ticks = 0;
        }
    }

    /// Returns whether the bits of these bytes are durable.
    pub(crate) fn durable(&self, bytes: &Range<u64>) -> bool {
        self.regions_of(bytes).all(|index| match self.regions.get(&index) {
            Some(region) => region.durable,
            None => self.bit(index) && self.found.is_some_and(|found| found.durable),
        })
    }

    /// The first byte of the members' data areas from `from` on that lies in a region whose bit is
    /// set.
    pub(crate) fn next_set(&self, from: u64) -> Option<u64> {
        let next = next_bit(&self.bytes, from / self.region_bytes, self.count);
        next.map(|region| from.max(region * self.region_bytes))
    }

    /// The events that a device must have seen, for the bits to say what it has missed since.
    pub(crate) fn cleared(&self) -> u64 {
        u64::from_le_bytes(std::array::from_fn(|i| self.bytes[32 + i]))
    }

    /// A write is in place; `sequence` is its highest number.
    pub(crate) fn leave(&mut self, bytes: &Range<u64>, sequence: u64) {
        for index in self.regions_of(bytes) {
            if let Some(region) = self.regions.get_mut(&index) {
                assert!(region.users > 0, "V10: a write leaves a region of the bitmap once");
                region.users -= 1;
                region.last = region.last.max(sequence);
            }
        }
    }

    /// A period has passed. Clears bits of regions that were not written for two of them and whose
    /// writes were flushed.
    pub(crate) fn tick(&mut self, released: u64) {
        for region in self.regions.values_mut() {
            let quiet = region.users == 0 && region.durable && region.last <= released;
            region.ticks = if quiet { region.ticks + 1 } else { 0 };
        }
        let clean: Vec<u64> =
            self.regions.iter().filter(|(_, region)| region.ticks > TICKS).map(|(index, _)| *index).collect();
        for index in clean {
            let region = self.regions.remove(&index);
            assert!(
                region.is_some_and(|region| region.users == 0 && region.last <= released),
                "V9: a bit is cleared when nobody writes its region, and R covers all writes to it"
            );
            self.set(index, false);
        }
        if let Some(found) = &mut self.found {
            found.ticks = if found.durable { found.ticks + 1 } else { 0 };
        }
        if self.found.is_some_and(|found| found.ticks > TICKS) {
            self.found = None;
            let mut from = 0;
            while let Some(index) = next_bit(&self.bytes, from, self.count) {
                if !self.regions.contains_key(&index) {
                    self.set(index, false);
                }
                from = index + 1;
            }
        }
    }

    /// A period has passed in which no bit may be cleared. Regions that nobody writes, and whose
    /// writes were flushed, take no memory any more: without that, all of an array could be kept
    /// while a member is missing.
    pub(crate) fn tick_degraded(&mut self, released: u64) {
        if self.found.is_some_and(|found| !found.durable) {
            return;
        }
        let before = self.regions.len();
        self.regions.retain(|_, region| region.users > 0 || !region.durable || region.last > released);
        if self.regions.len() < before {
            self.found = Some(Found { durable: true, ticks: 0 });
        }
    }

    /// The sectors to be written, as offsets and bytes, if any changed and no write is under way.
    pub(crate) fn begin_write(&mut self) -> Option<Vec<(u64, Vec<u8>)>> {
        if self.writing.is_some() || self.changed.is_empty() {
            return None;
        }
        let sectors = std::mem::take(&mut self.changed);
        self.writing = Some(Writing { regions: self.regions.keys().copied().collect(), found: true });
        let bytes = |sector: u64| {
            let at = (sector * SECTOR) as usize;
            (at as u64, self.bytes[at..at + SECTOR as usize].to_vec())
        };
        Some(sectors.into_iter().map(bytes).collect())
    }

    /// Keeps writes of bits from beginning while the header is written. `false` if one is under
    /// way.
    pub(crate) fn hold(&mut self) -> bool {
        let free = self.writing.is_none();
        if free {
            self.writing = Some(Writing::default());
        }
        free
    }

    /// The write under way is done on every member in sync.
    pub(crate) fn written(&mut self) {
        let writing = self.writing.take().expect("V11: a write of bits ends once");
        if let Some(found) = &mut self.found {
            found.durable |= writing.found;
        }
        for index in writing.regions {
            if let Some(region) = self.regions.get_mut(&index) {
                region.durable = true;
            }
        }
    }

    /// A member that missed writes is back: every bit is written again before it counts.
    pub(crate) fn doubt(&mut self) {
        for region in self.regions.values_mut() {
            region.durable = false;
        }
        if let Some(found) = &mut self.found {
            found.durable = false;
        }
        if let Some(writing) = &mut self.writing {
            // The write under way may have missed the member.
            *writing = Writing::default();
        }
        self.changed.extend(0..self.bytes.len() as u64 / SECTOR);
    }

    /// The header's sector with these counts. They make the bits count, so it is written when all
    /// bits are durable. They hold when the update has ended: [`settle`](Self::settle) or
    /// [`give_up`](Self::give_up) follows.
    pub(crate) fn header(&mut self, events: u64, events_cleared: Option<u64>) -> Vec<u8> {
        self.before.get_or_insert_with(|| std::array::from_fn(|i| self.bytes[i]));
        self.bytes[24..32].copy_from_slice(&events.to_le_bytes());
        self.bytes[48] &= !bitmap::OVERRIDES;
        if let Some(cleared) = events_cleared {
            self.bytes[32..40].copy_from_slice(&cleared.to_le_bytes());
        }
        self.bytes[..SECTOR as usize].to_vec()
    }

    /// The update that the header was written for has ended.
    pub(crate) fn settle(&mut self) {
        self.before = None;
    }

    /// The update that the header was written for is given up, and its counts with it: they are not
    /// on all members. No bit was cleared that only they allow.
    pub(crate) fn give_up(&mut self) {
        if let Some(before) = self.before.take() {
            self.bytes[..HEADER_BYTES].copy_from_slice(&before);
        }
    }

    /// Everything, for a member that is new.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        self.bytes.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn intent() -> Intent {
        Intent::new(vec![0; 1024], 65536, 100)
    }

    fn write(intent: &mut Intent) -> bool {
        let any = intent.begin_write().is_some();
        if any {
            intent.written();
        }
        any
    }

    #[test]
    fn a_bit_counts_when_the_write_that_holds_it_is_done() {
        let mut intent = intent();
        intent.enter(&(0..4096));
        assert!(!intent.durable(&(0..4096)));
        let first = intent.begin_write().unwrap();
        assert_eq!((first[0].0, first[0].1[256]), (0, 1));
        // A second region while the first write is under way: it waits for the next.
        intent.enter(&(65536..65536 + 4096));
        assert!(intent.begin_write().is_none());
        intent.written();
        assert!(intent.durable(&(0..4096)) && !intent.durable(&(65536..65537)));
        assert!(write(&mut intent) && intent.durable(&(0..131_072)));
    }

    #[test]
    fn a_bit_is_cleared_two_quiet_periods_after_a_flushed_write() {
        let mut intent = intent();
        intent.enter(&(0..4096));
        write(&mut intent);
        for _ in 0..9 {
            intent.tick(100);
        }
        assert!(intent.bit(0), "in use");
        intent.leave(&(0..4096), 7);
        for _ in 0..9 {
            intent.tick(6);
        }
        assert!(intent.bit(0), "not flushed");
        intent.tick(7);
        intent.tick(7);
        assert!(intent.bit(0));
        intent.tick(7);
        assert!(!intent.bit(0) && write(&mut intent) && !write(&mut intent));
        assert!(!intent.durable(&(0..4096)));
    }

    #[test]
    fn counts_of_an_update_that_is_given_up_are_given_up_with_it() {
        let mut intent = intent();
        intent.header(7, Some(7));
        intent.settle();
        intent.give_up();
        assert_eq!(intent.cleared(), 7, "it has ended");
        intent.header(8, Some(8));
        // Of another member.
        let sector = intent.header(8, Some(8));
        assert_eq!((sector[24], sector[32]), (8, 8));
        intent.enter(&(0..4096));
        intent.give_up();
        assert_eq!(intent.cleared(), 7);
        let (at, sector) = &intent.begin_write().unwrap()[0];
        assert_eq!((*at, sector[24], sector[32], sector[256]), (0, 7, 7, 1), "bits stay");
    }

    #[test]
    fn bits_that_were_found_count_and_are_kept_in_doubt() {
        let mut bytes = vec![0; 512];
        bytes[256] = 0b10;
        let mut intent = Intent::new(bytes, 65536, 100);
        assert!(intent.durable(&(65536..65540)));
        intent.doubt();
        assert!(!intent.durable(&(65536..65540)));
        assert!(write(&mut intent) && intent.durable(&(65536..65540)));
    }

    /// Every bit of a large bitmap may be set: a region that nobody writes takes no memory.
    #[test]
    fn bits_that_were_found_take_no_memory_until_they_are_written() {
        let mut intent = Intent::new(vec![0xFF; 256 + 1024], 65536, 8000);
        assert!(intent.regions.is_empty() && intent.durable(&(0..8000 * 65536)));
        intent.doubt();
        intent.enter(&(3 * 65536..5 * 65536));
        assert_eq!(intent.regions.len(), 2);
        assert!(!intent.durable(&(0..1)) && !intent.durable(&(3 * 65536..4 * 65536)));
        assert!(write(&mut intent) && intent.durable(&(0..8000 * 65536)));
        assert_eq!(intent.next_set(7999 * 65536 + 5), Some(7999 * 65536 + 5));
        assert_eq!(intent.next_set(8000 * 65536), None, "bits behind the last region");
        // Those that are written stay when the others are cleared.
        (0..3).for_each(|_| intent.tick(0));
        assert_eq!((intent.next_set(0), intent.next_set(5 * 65536)), (Some(3 * 65536), None));
        intent.leave(&(3 * 65536..5 * 65536), 1);
        (0..3).for_each(|_| intent.tick(1));
        assert_eq!(intent.next_set(0), None);
    }

    /// While a member is missing every region may be written, one after the other.
    #[test]
    fn regions_that_nobody_writes_take_no_memory_while_bits_stay() {
        let mut intent = Intent::new(vec![0; 3 * 512], 65536, 8000);
        let bytes = |region: u64| region * 65536..region * 65536 + 4096;
        intent.enter(&bytes(7999));
        for region in 0..1000 {
            intent.enter(&bytes(region));
            assert!(write(&mut intent));
            intent.leave(&bytes(region), region + 1);
            intent.tick_degraded(region);
            assert!(intent.regions.len() <= 2, "{region}: {}", intent.regions.len());
            assert!(intent.durable(&bytes(region)) && intent.durable(&bytes(0)));
        }
        // Not before its bit is durable, and not in doubt of the others.
        intent.tick_degraded(1000);
        assert_eq!(intent.regions.len(), 1);
        intent.enter(&bytes(5000));
        intent.leave(&bytes(5000), 1000);
        intent.tick_degraded(1000);
        assert!(intent.regions.contains_key(&5000) && !intent.durable(&bytes(5000)));
        intent.doubt();
        intent.tick_degraded(1000);
        assert!(!intent.durable(&bytes(3)) && intent.regions.contains_key(&5000));
        assert!(write(&mut intent) && intent.durable(&bytes(3)) && intent.durable(&bytes(5000)));
        // What is written again is used, and cleared like any other when nothing is missing.
        intent.enter(&bytes(3));
        assert!(intent.durable(&bytes(3)));
        intent.leave(&bytes(3), 1001);
        (0..4).for_each(|_| intent.tick(1000));
        assert_eq!(intent.next_set(0), Some(3 * 65536), "not flushed");
        (0..3).for_each(|_| intent.tick(1001));
        assert_eq!(intent.next_set(0), Some(7999 * 65536), "in use");
    }

    #[test]
    fn a_write_that_a_member_may_have_missed_makes_no_bit_durable() {
        let mut intent = intent();
        intent.enter(&(0..4096));
        assert!(intent.begin_write().is_some());
        intent.doubt();
        intent.written();
        assert!(!intent.durable(&(0..4096)));
        assert!(write(&mut intent) && intent.durable(&(0..4096)));
    }
}
