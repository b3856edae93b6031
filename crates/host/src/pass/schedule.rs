//! The stripes of a pass, their batches, and the order.

use crate::order::Order;
use pumice_raid::plan::{Extent, SkipReason, Treatment};
use std::collections::BTreeMap;
use std::ops::Range;

/// Regions of the staggered order.
///
/// Oprea and Juels (*A clean-slate look at disk scrubbing*, FAST 2010): a disk is cut into regions,
/// and the scrub visits the first segment of every region, then the second of every region, and so
/// on. Errors come in bursts that are wider than a segment, so an early visit to every region finds
/// a burst early. 128 regions are where its cost in throughput becomes small.
const REGIONS: usize = 128;

/// The stripes of a pass.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Schedule {
    /// Runs of consecutive stripes, in the order in which they are checked.
    pub(crate) batches: Vec<Range<u64>>,
    /// Stripes that are left out, by reason.
    pub(crate) skipped: BTreeMap<SkipReason, u64>,
}

impl Schedule {
    /// Cuts extents into batches of at most `batch` stripes; none crosses a border of `borders`.
    pub(crate) fn new(
        extents: impl IntoIterator<Item = Extent>,
        borders: &[u64],
        batch: u64,
        order: Order,
    ) -> Self {
        let mut batches = Vec::new();
        let mut skipped = BTreeMap::new();
        for extent in extents {
            let Range { mut start, end } = extent.stripes;
            if let Treatment::Skip(reason) = extent.kind {
                *skipped.entry(reason).or_default() += end - start;
                continue;
            }
            while start < end {
                let border = borders.iter().copied().find(|b| *b > start).unwrap_or(u64::MAX);
                let stop = end.min(start.saturating_add(batch)).min(border);
                batches.push(start..stop);
                start = stop;
            }
        }
        if order == Order::Staggered {
            batches = stagger(&batches);
        }
        Self { batches, skipped }
    }

    /// Stripes that are checked.
    pub(crate) fn stripes(&self) -> u64 {
        self.batches.iter().map(|b| b.end - b.start).sum()
    }

    /// A digest of what is checked and in which order: a resumed pass must have the same.
    pub(crate) fn digest(&self) -> u32 {
        self.batches.iter().fold(0, |crc, batch| {
            let crc = crc32c::crc32c_append(crc, &batch.start.to_le_bytes());
            crc32c::crc32c_append(crc, &batch.end.to_le_bytes())
        })
    }
}

fn stagger(batches: &[Range<u64>]) -> Vec<Range<u64>> {
    let per_region = batches.len().div_ceil(REGIONS).max(1);
    let mut order: Vec<usize> = (0..batches.len()).collect();
    order.sort_by_key(|i| (i % per_region, i / per_region));
    order.into_iter().map(|i| batches[i].clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(stripes: Range<u64>) -> Extent {
        Extent { stripes, kind: Treatment::Check }
    }

    #[test]
    fn batches_stay_within_extents_and_borders() {
        let extents = [
            check(0..300),
            Extent { stripes: 300..310, kind: Treatment::Skip(SkipReason::Dirty) },
            check(310..320),
        ];
        let schedule = Schedule::new(extents, &[0, 100], 255, Order::Sequential);
        assert_eq!(schedule.batches, [0..100, 100..300, 310..320]);
        assert_eq!(schedule.skipped, BTreeMap::from([(SkipReason::Dirty, 10)]));
        assert_eq!(schedule.stripes(), 310);
    }

    #[test]
    fn staggered_visits_every_region_before_it_returns_to_one() {
        let schedule = Schedule::new([check(0..1024)], &[0], 1, Order::Staggered);
        assert_eq!(schedule.batches[..3], [0..1, 8..9, 16..17]);
        assert_eq!(schedule.batches[128], 1..2);
        let mut sorted = schedule.batches.clone();
        sorted.sort_by_key(|b| b.start);
        assert_eq!(sorted, (0..1024).map(|s| s..s + 1).collect::<Vec<_>>());
        assert_ne!(schedule.digest(), Schedule::new([check(0..1024)], &[0], 1, Order::Sequential).digest());
    }
}
