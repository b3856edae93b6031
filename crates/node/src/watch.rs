//! Counters of writes, by which a check knows that nobody wrote while it read.
//!
//! Each drive is cut into regions, and these are gathered into groups: a command that changes a
//! whole drive must not touch a million counters, however many ranges it names. A command that
//! changes the medium raises *started* of every region that it touches before it does, and
//! *completed* when it has; a region whose counters are equal and unchanged was not written
//! meanwhile. A single counter that is odd during a write is not enough: two overlapping writes
//! make it even. The counters begin at 0 when the node starts, so they are reported together with
//! an epoch that is drawn at random at the start.

use crate::superblocks::Superblocks;
use pumice_offload::Writes;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering, fence};

/// Bytes of a region, at least: 1 MiB.
const REGION_SHIFT: u32 = 20;
/// Regions of a group, as a power of two: a command that changes all of them counts once for the
/// group.
const GROUP_SHIFT: u32 = 10;
/// Regions of a group that a command raises one by one, at most: if it changes more of them, it
/// counts as if it changed all.
const FEW: usize = 16;
/// Regions of a drive, at most: 16 MiB of counters. Larger drives have larger regions.
const MAX_REGIONS: u64 = 1 << 20;

#[derive(Debug, Default)]
struct Region {
    started: AtomicU64,
    completed: AtomicU64,
}

/// The counters of one drive.
#[derive(Debug)]
struct DriveWatch {
    shift: u32,
    regions: Vec<Region>,
    groups: Vec<Region>,
}

impl DriveWatch {
    fn new(size: u64) -> Self {
        let mut shift = REGION_SHIFT;
        while size.div_ceil(1 << shift) > MAX_REGIONS {
            shift += 1;
        }
        let count = usize::try_from(size.div_ceil(1 << shift)).expect("at most 2^20");
        let counters = |count: usize| (0..count).map(|_| Region::default()).collect();
        Self { shift, regions: counters(count), groups: counters(count >> GROUP_SHIFT) }
    }

    /// The regions that a range of bytes touches; those past the end of the drive do not exist.
    fn of(&self, bytes: &Range<u64>) -> Range<usize> {
        if bytes.is_empty() {
            return 0..0;
        }
        let index = |at: u64| usize::try_from(at >> self.shift).unwrap_or(usize::MAX).min(self.regions.len());
        index(bytes.start)..index(bytes.end - 1).saturating_add(1).min(self.regions.len())
    }

    /// The counters that a write of a range of bytes raises: those of groups that it touches all or
    /// many regions of, and those of the few regions before and behind.
    fn written(&self, bytes: &Range<u64>) -> impl Iterator<Item = &Region> {
        let Range { start, end } = self.of(bytes);
        // The groups that begin and that end in the range; the regions past the last group have
        // none.
        let (first, last) = (start.div_ceil(1 << GROUP_SHIFT), (end >> GROUP_SHIFT).min(self.groups.len()));
        let (before, groups, behind) = if first <= last {
            (start..first << GROUP_SHIFT, first..last, last << GROUP_SHIFT..end)
        } else {
            (start..end, 0..0, end..end)
        };
        let many = |part: &Range<usize>| {
            let group = part.start >> GROUP_SHIFT;
            (part.len() > FEW && group < self.groups.len()).then_some(group)
        };
        let (many_before, many_behind) = (many(&before), many(&behind));
        let one_by_one = |part: Range<usize>, many: Option<usize>| if many.is_some() { 0..0 } else { part };
        self.regions[one_by_one(before, many_before)]
            .iter()
            .chain(many_before.map(|group| &self.groups[group]))
            .chain(&self.groups[groups])
            .chain(many_behind.map(|group| &self.groups[group]))
            .chain(&self.regions[one_by_one(behind, many_behind)])
    }

    /// The counters that a write of any byte of a range may have raised.
    fn seen(&self, bytes: &Range<u64>) -> impl Iterator<Item = &Region> {
        let Range { start, end } = self.of(bytes);
        let groups = start >> GROUP_SHIFT..end.div_ceil(1 << GROUP_SHIFT).min(self.groups.len());
        let groups = if groups.is_empty() { 0..0 } else { groups };
        self.regions[start..end].iter().chain(&self.groups[groups])
    }
}

/// The counters of a node's drives.
#[derive(Debug)]
pub struct WriteWatch {
    epoch: u64,
    drives: Vec<DriveWatch>,
    superblocks: Vec<Superblocks>,
}

impl WriteWatch {
    /// Counters at zero for drives of these sizes in bytes, under an epoch, which must not be 0 and
    /// never come again.
    ///
    /// # Panics
    /// Where the epoch is 0.
    #[must_use]
    pub fn new(sizes: impl IntoIterator<Item = u64>, epoch: u64) -> Arc<Self> {
        assert_ne!(epoch, 0, "epoch 0 means that nothing is counted");
        let (drives, superblocks) =
            sizes.into_iter().map(|size| (DriveWatch::new(size), Superblocks::new(size))).unzip();
        Arc::new(Self { epoch, drives, superblocks })
    }

    /// Drawn when the node started.
    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// The records of superblocks of each drive.
    pub(crate) fn superblocks(&self) -> &[Superblocks] {
        &self.superblocks
    }

    /// A command that changes `bytes` of drive `index` (0 is the first) is about to begin; it has
    /// ended when what is returned is dropped.
    #[must_use]
    pub fn begin(self: &Arc<Self>, index: usize, bytes: Range<u64>) -> Writing {
        for region in self.drives[index].written(&bytes) {
            // SeqCst: whoever reads a byte of this write finds `started` raised when it looks
            // afterwards.
            region.started.fetch_add(1, Ordering::SeqCst);
        }
        fence(Ordering::SeqCst);
        Writing { watch: Arc::clone(self), index, bytes }
    }

    /// The counters over ranges of drives, summed.
    #[must_use]
    pub fn sum(&self, ranges: impl IntoIterator<Item = (usize, Range<u64>)>) -> Writes {
        fence(Ordering::SeqCst);
        let mut sum = Writes::default();
        for (index, bytes) in ranges {
            for region in self.drives.get(index).into_iter().flat_map(|drive| drive.seen(&bytes)) {
                // `completed` first: a write that ends in between then shows as under way, never as
                // one that was not there.
                sum.completed += region.completed.load(Ordering::SeqCst);
                sum.started += region.started.load(Ordering::SeqCst);
            }
        }
        fence(Ordering::SeqCst);
        sum
    }
}

/// A command that changes a medium, from before it begins until it has ended.
#[derive(Debug)]
pub struct Writing {
    watch: Arc<WriteWatch>,
    index: usize,
    bytes: Range<u64>,
}

impl Drop for Writing {
    fn drop(&mut self) {
        fence(Ordering::SeqCst);
        for region in self.watch.drives[self.index].written(&self.bytes) {
            region.completed.fetch_add(1, Ordering::SeqCst);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;
    const GIB: u64 = 1 << 30;

    #[test]
    fn a_write_shows_in_its_regions_and_in_no_other() {
        let watch = WriteWatch::new([10 * MIB, MIB + 1], 3);
        let at = |index, bytes: Range<u64>| {
            let Writes { started, completed } = watch.sum([(index, bytes)]);
            (started, completed)
        };
        let writing = watch.begin(0, 2 * MIB - 1..2 * MIB + 1);
        assert_eq!(at(0, MIB..MIB + 1), (1, 0));
        assert_eq!(at(0, 2 * MIB..3 * MIB), (1, 0));
        assert_eq!(at(0, 0..10 * MIB), (2, 0), "two regions are touched");
        assert_eq!(at(0, 0..MIB), (0, 0));
        assert_eq!(at(0, 3 * MIB..10 * MIB), (0, 0));
        assert_eq!(at(1, 0..2 * MIB), (0, 0));
        drop(writing);
        assert_eq!(at(0, MIB..3 * MIB), (2, 2));
        drop(watch.begin(1, MIB..MIB + 1));
        assert_eq!(at(1, MIB..MIB + 1), (1, 1), "the last region is a short one");
        assert_eq!(at(1, 5 * MIB..6 * MIB), (0, 0), "past the end there is nothing");
        drop(watch.begin(0, 5..5));
        assert_eq!(at(0, 0..MIB), (0, 0), "an empty range touches nothing");
    }

    #[test]
    fn large_drives_have_large_regions() {
        let drive = DriveWatch::new(20 << 40);
        assert!(drive.regions.len() as u64 <= MAX_REGIONS);
        assert_eq!(drive.of(&((20 << 40) - 1..20 << 40)).len(), 1);
    }

    /// Deallocate of a whole drive is told by the core that takes it, within a turn.
    #[test]
    fn a_write_of_a_large_range_raises_few_counters_and_shows_everywhere() {
        const SIZE: u64 = (1 << 40) - 5 * MIB;
        let watch = WriteWatch::new([SIZE], 1);
        let drive = &watch.drives[0];
        for bytes in [0..SIZE, 3 * MIB - 1..SIZE - 7 * MIB, 0..1025 * MIB, 1023 * MIB..2050 * MIB] {
            let few = drive.written(&bytes).count();
            // Of groups, and of the regions behind the last group.
            assert!(few <= 1024 + 1023 + 2 * FEW, "{few}");
            let at = |at: u64| watch.sum([(0, at..at + 1)]).started;
            let before = [bytes.start, bytes.start + 600 * MIB, bytes.end - 1].map(at);
            let past = [bytes.start.checked_sub(GIB), Some(bytes.end + GIB)];
            let beside = || past.iter().flatten().map(|byte| at(*byte)).collect::<Vec<_>>();
            let beside_before = beside();
            let writing = watch.begin(0, bytes.clone());
            let now = [bytes.start, bytes.start + 600 * MIB, bytes.end - 1].map(at);
            assert_eq!(now, before.map(|count| count + 1), "{bytes:?}");
            assert_eq!(beside(), beside_before, "{bytes:?}");
            drop(writing);
            let Writes { started, completed } = watch.sum([(0, 0..SIZE)]);
            assert_eq!(started, completed);
        }
    }

    /// Deallocate names up to 256 ranges, and none of them needs to fit the groups.
    #[test]
    fn a_write_of_many_ranges_raises_few_counters() {
        let drive = DriveWatch::new(1 << 40);
        let ranges = (0..256).map(|i| 4 * i * GIB + MIB..(4 * i + 3) * GIB - MIB);
        assert_eq!(ranges.map(|bytes| drive.written(&bytes).count()).sum::<usize>(), 256 * 3);
        let few = |bytes: Range<u64>| drive.written(&bytes).count();
        let few = [few(7 * MIB..23 * MIB), few(7 * MIB..24 * MIB), few(GIB - 16 * MIB..GIB + 17 * MIB)];
        assert_eq!(few, [16, 1, 16 + 1]);
    }

    /// Two writers whose writes overlap, and a reader: between equal and balanced counters, nothing
    /// that it reads is half written.
    #[test]
    fn what_is_read_between_equal_counters_is_whole() {
        let watch = WriteWatch::new([MIB], 1);
        // Each writer changes its two halves one after the other: different while a write is under
        // way.
        let pairs: [[AtomicU64; 2]; 2] = Default::default();
        std::thread::scope(|scope| {
            let writers: Vec<_> = pairs
                .iter()
                .map(|[low, high]| {
                    let watch = &watch;
                    scope.spawn(move || {
                        for i in 1..=20_000 {
                            let _writing = watch.begin(0, 0..MIB);
                            low.store(i, Ordering::Relaxed);
                            high.store(i, Ordering::Relaxed);
                        }
                    })
                })
                .collect();
            let mut quiet_at_the_end = false;
            while !quiet_at_the_end {
                let ended = writers.iter().all(std::thread::ScopedJoinHandle::is_finished);
                let before = watch.sum([(0, 0..MIB)]);
                let seen =
                    pairs.each_ref().map(|pair| pair.each_ref().map(|half| half.load(Ordering::Relaxed)));
                let after = watch.sum([(0, 0..MIB)]);
                let quiet = before == after && before.started == before.completed;
                if quiet {
                    assert!(seen.iter().all(|[low, high]| low == high), "{seen:?}");
                }
                quiet_at_the_end = ended && quiet;
            }
        });
    }
}
