//! Response times of foreground requests without background work: what a slowdown is measured
//! against.

use crate::Nanos;

/// Classes of size: up to 4 KiB, then one for each doubling, the last from 1 MiB on.
const SIZES: usize = 9;
/// Classes of level: the mean number of requests in progress that an arrival finds, by doublings.
const LEVELS: usize = 10;
/// Requests that a mean remembers: newer ones count one part in so many.
const MEMORY: u32 = 4_096;
/// Generations of requests before a mean is believed: those in progress together stand in one
/// queue, and a few dozen of one crowded moment say little more than one of them.
const ENOUGH: u32 = 32;
/// Requests up to which a mean is young: what was charged against it is corrected as it changes.
const YOUNG: u32 = 512;
/// A response of more than so many times the mean counts as that many, in the baseline and in what
/// is compared with it alike: one stall of the drive must not move the mean for long.
const LIMIT: f64 = 64.0;
/// Arrivals that the level remembers.
const LEVEL_MEMORY: f64 = 256.0;
/// Doublings from the middle of a class at which it is left.
const LEAVE: f64 = 1.3;
/// Below this level there is nobody: the class above is left for the lowest, whose middle is nearer
/// to it than `LEAVE`.
const NOBODY: f64 = 0.1;

#[derive(Debug, Clone, Copy, Default)]
struct Cell {
    count: u32,
    mean: f64,
    /// Generations, and when the last one ended: who belongs to the next arrived later.
    generations: u32,
    until: Nanos,
    /// Requests that were charged against the mean while it was young.
    charged: f64,
}

impl Cell {
    fn believed(&self) -> bool {
        self.generations >= ENOUGH
    }
}

/// Means by size and level. The level is a slow mean taken while no background work is near, so
/// background work cannot explain itself away by the queue that it makes.
#[derive(Debug, Clone)]
pub(crate) struct Baseline {
    cells: [[Cell; SIZES]; LEVELS],
    level: f64,
    arrivals: f64,
    class: usize,
}

fn size_class(bytes: u64) -> usize {
    let pages = bytes.saturating_sub(1) >> 12;
    ((u64::BITS - pages.leading_zeros()) as usize).min(SIZES - 1)
}

impl Baseline {
    pub(crate) fn new() -> Self {
        Self { cells: [[Cell::default(); SIZES]; LEVELS], level: 0.0, arrivals: 0.0, class: 0 }
    }

    /// A request arrived without background work near, and found `outstanding` others.
    pub(crate) fn arrived(&mut self, outstanding: u32) {
        self.arrivals = (self.arrivals + 1.0).min(LEVEL_MEMORY);
        self.level += (f64::from(outstanding) - self.level) / self.arrivals;
        // A class is left only for good: a level that sways between two would sort quick and slow
        // times apart, and background work goes by their difference.
        let doublings = (self.level + 1.0).log2();
        let alone = self.class > 0 && self.level < NOBODY;
        if alone || (doublings - self.class as f64).abs() > LEAVE {
            self.class = (doublings.round() as usize).min(LEVELS - 1);
        }
    }

    /// The level is another one now: it is learned anew.
    pub(crate) fn level_changed(&mut self) {
        self.arrivals = 0.0;
    }

    /// Requests that an arrival finds in progress without background work.
    pub(crate) fn level(&self) -> f64 {
        self.level
    }

    /// A request of `bytes` that met no background work is done `now`, and took `response`. What
    /// was charged too much against this mean so far, in nanoseconds; below 0, too little.
    ///
    /// With this, what was charged while a mean was young counts as if it had been charged against
    /// the mean of its first 512: an error of the first few is made good.
    pub(crate) fn add(&mut self, now: Nanos, bytes: u64, response: Nanos) -> f64 {
        let cell = &mut self.cells[self.class][size_class(bytes)];
        if now.saturating_sub(response) >= cell.until {
            (cell.generations, cell.until) = (cell.generations.saturating_add(1), now);
        }
        let response = response as f64;
        let counted = if cell.believed() { response.min(LIMIT * cell.mean) } else { response };
        cell.count = (cell.count + 1).min(MEMORY);
        let step = (counted - cell.mean) / f64::from(cell.count);
        cell.mean += step;
        if cell.count > YOUNG {
            cell.charged = 0.0;
        }
        step * cell.charged
    }

    /// Another account is opened: nothing was charged to it yet.
    pub(crate) fn account_opened(&mut self) {
        self.cells.as_flattened_mut().iter_mut().for_each(|cell| cell.charged = 0.0);
    }

    /// Time begins anew: no generation is in progress.
    pub(crate) fn rewind(&mut self) {
        self.cells.as_flattened_mut().iter_mut().for_each(|cell| cell.until = 0);
    }

    /// Returns whether enough is known at the present level.
    pub(crate) fn known(&self) -> bool {
        self.cells[self.class].iter().any(Cell::believed)
    }

    /// Nanoseconds to charge: the response time less the mean without background work; `None` if
    /// the mean is unknown, or below `least`. The charge may be negative: without negative ones the
    /// mean would be too high.
    pub(crate) fn slowdown(
        &mut self,
        bytes: u64,
        response: Nanos,
        longest: Nanos,
        least: f64,
    ) -> Option<f64> {
        let cell = &mut self.cells[self.class][size_class(bytes)];
        let limit = LIMIT * cell.mean + 4.0 * longest as f64;
        let slowdown = (response as f64).min(limit) - cell.mean;
        let used = cell.believed() && slowdown >= least;
        cell.charged += f64::from(u8::from(used));
        used.then_some(slowdown)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEAST: f64 = f64::NEG_INFINITY;

    /// One after another.
    fn serve(base: &mut Baseline, clock: &mut Nanos, bytes: u64, response: Nanos) -> f64 {
        *clock += response;
        base.add(*clock, bytes, response)
    }

    #[test]
    fn sizes_have_their_own_means() {
        let (mut base, mut clock) = (Baseline::new(), 0);
        assert!(!base.known() && base.slowdown(4_096, 100, 0, LEAST).is_none());
        for i in 0..1_000 {
            base.arrived(0);
            serve(&mut base, &mut clock, 4_096, 90 + i % 21);
            serve(&mut base, &mut clock, 1 << 20, 10_000);
        }
        assert!((base.slowdown(4_096, 150, 0, LEAST).unwrap_or_default() - 50.0).abs() < 2.0);
        assert!((base.slowdown(1 << 20, 9_000, 0, LEAST).unwrap_or_default() + 1_000.0).abs() < 2.0);
        assert!(
            base.slowdown(64 << 10, 150, 0, LEAST).is_none() && base.slowdown(4_096, 150, 0, 60.0).is_none()
        );
    }

    #[test]
    fn levels_have_their_own_means_and_a_stall_is_bounded() {
        let (mut base, mut clock) = (Baseline::new(), 0);
        for _ in 0..200 {
            base.arrived(0);
            serve(&mut base, &mut clock, 4_096, 100);
        }
        serve(&mut base, &mut clock, 4_096, 1_000_000_000);
        assert!(base.slowdown(4_096, 100, 0, LEAST).unwrap_or(-1e9) > -64.0);
        base.level_changed();
        base.arrived(31);
        assert!(!base.known() && (base.level() - 31.0).abs() < 1e-9);
        for _ in 0..40 {
            serve(&mut base, &mut clock, 4_096, 800);
        }
        assert!(base.slowdown(4_096, 900, 0, LEAST).is_some_and(|s| (s - 100.0).abs() < 1e-6));
    }

    #[test]
    fn a_load_that_thins_out_is_compared_with_itself() {
        let (mut base, mut clock) = (Baseline::new(), 0);
        for _ in 0..1_000 {
            base.arrived(2);
            serve(&mut base, &mut clock, 4_096, 300);
        }
        for _ in 0..2_000 {
            base.arrived(0);
            serve(&mut base, &mut clock, 4_096, 100);
        }
        assert!(base.slowdown(4_096, 100, 0, LEAST).is_some_and(|s| s.abs() < 1.0));
    }

    #[test]
    fn the_mean_follows() {
        let (mut base, mut clock) = (Baseline::new(), 0);
        base.arrived(0);
        for i in 0..25_000 {
            serve(&mut base, &mut clock, 4_096, if i < 5_000 { 100 } else { 200 });
        }
        assert!(base.slowdown(4_096, 200, 0, LEAST).is_some_and(|s| s < 2.0));
    }

    #[test]
    fn one_crowded_moment_is_not_believed() {
        let mut base = Baseline::new();
        // All of them arrived before the first was done.
        let corrected: f64 = (1..=200).map(|i| base.add(1_000 * i, 4_096, 1_000 * i)).sum();
        assert!(!base.known() && corrected.abs() < 1e-9);
    }

    #[test]
    fn what_was_charged_against_a_young_mean_is_corrected() {
        let (mut base, mut clock) = (Baseline::new(), 0);
        let mut charged: f64 = (0..40).map(|_| serve(&mut base, &mut clock, 4_096, 300)).sum();
        charged += (0..100).filter_map(|_| base.slowdown(4_096, 150, 0, LEAST)).sum::<f64>();
        (0..400).for_each(|_| charged -= serve(&mut base, &mut clock, 4_096, 100));
        let mean = f64::from(40 * 300 + 400 * 100) / 440.0;
        assert!((charged - 100.0 * (150.0 - mean)).abs() < 1e-6, "{charged}");
        base.account_opened();
        assert!(serve(&mut base, &mut clock, 4_096, 500).abs() < 1e-9);
    }
}
