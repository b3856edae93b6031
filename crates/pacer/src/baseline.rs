//! Response times of foreground requests without background work: what a slowdown is measured against.

use crate::Nanos;

/// Classes of size: up to 4 KiB, then one for each doubling, the last from 1 MiB on.
const SIZES: usize = 9;
/// Classes of level: the mean number of requests in progress that an arrival finds, by doublings.
const LEVELS: usize = 10;
/// Requests that a mean remembers: newer ones count one part in so many.
const MEMORY: u32 = 4_096;
/// Requests before a mean is believed.
const ENOUGH: u32 = 16;
/// A response of more than so many times the mean counts as that many, in the baseline and in what is compared with it alike: one stall of the
/// drive must not move the mean for long.
const LIMIT: f64 = 64.0;
/// Arrivals that the level remembers.
const LEVEL_MEMORY: f64 = 64.0;

#[derive(Debug, Clone, Copy, Default)]
struct Cell {
    count: u32,
    mean: f64,
}

/// Means by size and level. The level is a slow mean taken while no background work is near, so background work cannot explain itself away by the queue that it makes.
#[derive(Debug, Clone)]
pub(crate) struct Baseline {
    cells: [[Cell; SIZES]; LEVELS],
    level: f64,
    arrivals: f64,
}

fn size_class(bytes: u64) -> usize {
    let pages = bytes.saturating_sub(1) >> 12;
    ((u64::BITS - pages.leading_zeros()) as usize).min(SIZES - 1)
}

impl Baseline {
    pub(crate) fn new() -> Self {
        Self { cells: [[Cell::default(); SIZES]; LEVELS], level: 0.0, arrivals: 0.0 }
    }

    /// A request arrived without background work near, and found `outstanding` others.
    pub(crate) fn arrived(&mut self, outstanding: u32) {
        self.arrivals = (self.arrivals + 1.0).min(LEVEL_MEMORY);
        self.level += (f64::from(outstanding) - self.level) / self.arrivals;
    }

    /// The level is another one now: it is learned anew.
    pub(crate) fn level_changed(&mut self) {
        self.arrivals = 0.0;
    }

    /// Requests that an arrival finds in progress without background work.
    pub(crate) fn level(&self) -> f64 {
        self.level
    }

    fn level_class(&self) -> usize {
        ((self.level + 1.0).log2().round() as usize).min(LEVELS - 1)
    }

    /// A request that met no background work took `response`.
    pub(crate) fn add(&mut self, bytes: u64, response: Nanos) {
        let level = self.level_class();
        let cell = &mut self.cells[level][size_class(bytes)];
        let response = response as f64;
        let counted = if cell.count < ENOUGH { response } else { response.min(LIMIT * cell.mean) };
        cell.count = (cell.count + 1).min(MEMORY);
        cell.mean += (counted - cell.mean) / f64::from(cell.count);
    }

    /// Whether enough is known at the present level.
    pub(crate) fn known(&self) -> bool {
        self.cells[self.level_class()].iter().any(|c| c.count >= ENOUGH)
    }

    /// Response less the mean without background work, in nanoseconds; `None` where that is unknown. It may be negative: only so the mean is right.
    pub(crate) fn slowdown(&self, bytes: u64, response: Nanos, longest: Nanos) -> Option<f64> {
        let cell = &self.cells[self.level_class()][size_class(bytes)];
        let limit = LIMIT * cell.mean + 4.0 * longest as f64;
        (cell.count >= ENOUGH).then(|| (response as f64).min(limit) - cell.mean)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_their_own_means() {
        let mut base = Baseline::new();
        assert!(!base.known() && base.slowdown(4_096, 100, 0).is_none());
        for i in 0..1_000 {
            base.arrived(0);
            base.add(4_096, 90 + i % 21);
            base.add(1 << 20, 10_000);
        }
        assert!((base.slowdown(4_096, 150, 0).unwrap_or_default() - 50.0).abs() < 2.0);
        assert!((base.slowdown(1 << 20, 9_000, 0).unwrap_or_default() + 1_000.0).abs() < 2.0);
        assert!(base.slowdown(64 << 10, 150, 0).is_none());
    }

    #[test]
    fn levels_have_their_own_means_and_a_stall_is_bounded() {
        let mut base = Baseline::new();
        for _ in 0..200 {
            base.arrived(0);
            base.add(4_096, 100);
        }
        base.add(4_096, 1_000_000_000);
        assert!(base.slowdown(4_096, 100, 0).unwrap_or(-1e9) > -64.0);
        base.level_changed();
        base.arrived(31);
        assert!(!base.known() && (base.level() - 31.0).abs() < 1e-9);
        (0..20).for_each(|_| base.add(4_096, 800));
        assert!(base.slowdown(4_096, 900, 0).is_some_and(|s| (s - 100.0).abs() < 1e-6));
    }

    #[test]
    fn the_mean_follows() {
        let mut base = Baseline::new();
        base.arrived(0);
        (0..5_000).for_each(|_| base.add(4_096, 100));
        (0..20_000).for_each(|_| base.add(4_096, 200));
        assert!(base.slowdown(4_096, 200, 0).is_some_and(|s| s < 2.0));
    }
}
