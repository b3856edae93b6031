//! Cost of background requests that run beside foreground requests, learned by size.

use crate::price::Ladder;
use crate::{Goal, SIZES};

/// Foreground requests met that a cost is believed to have seen before the first measurement.
const PRIOR: f64 = 64.0;
/// Foreground requests met that are remembered.
const MEMORY: f64 = 20_000.0;
/// The least cost of a request met, as a share of the background request's time.
const FLOOR: f64 = 0.01;
/// Runs between two that try the size next to the best.
const TRY_EVERY: u32 = 8;
/// Step of the price from run to run.
const STEP: f64 = 1.1;

#[derive(Debug, Clone, Copy, Default)]
struct SizeCost {
    /// Foreground requests that were expected to meet background requests of this size.
    met: f64,
    /// Their slowdown in nanoseconds.
    slowdown: f64,
}

/// Slowdown of a foreground request that is in progress with a background request, by the latter's
/// size; and the size to use.
#[derive(Debug, Clone)]
pub(crate) struct Costs {
    seen: [SizeCost; SIZES.len()],
    /// The size in use, an index into `SIZES`.
    size: usize,
    /// Bytes that a nanosecond of slowdown is worth while the foreground is served.
    price: f64,
    runs: u32,
}

impl Costs {
    pub(crate) fn new() -> Self {
        Self { seen: [SizeCost::default(); SIZES.len()], size: 0, price: 1e6, runs: 0 }
    }

    pub(crate) fn size(&self) -> usize {
        self.size
    }

    /// Bytes that a nanosecond of slowdown buys beside foreground requests; 0 while nothing was
    /// measured.
    pub(crate) fn price(&self) -> f64 {
        if self.seen.iter().any(|s| s.met > PRIOR) { self.price } else { 0.0 }
    }

    /// Nothing could be started beside foreground requests for a while: a nanosecond is worth half
    /// as much there.
    pub(crate) fn lower(&mut self) {
        self.price /= 2.0;
    }

    /// Measured: requests of size `size` were expected to meet `met` foreground requests, and
    /// slowed them by `slowdown` in all.
    pub(crate) fn observe(&mut self, size: usize, met: f64, slowdown: f64) {
        let seen = &mut self.seen[size];
        seen.met += met;
        seen.slowdown += slowdown;
        if seen.met > MEMORY {
            let keep = MEMORY / seen.met;
            seen.met *= keep;
            seen.slowdown *= keep;
        }
    }

    /// Expected slowdown of each foreground request met, in nanoseconds. An unseen size is taken to
    /// do as its nearest seen one, in proportion to its time; where nothing is known, each waits
    /// for the whole of it.
    fn each(&self, size: usize, ladder: &Ladder) -> f64 {
        let service = |i: usize| ladder.0[i].1;
        let nearest = (0..SIZES.len()).filter(|&i| self.seen[i].met > PRIOR).min_by_key(|i| i.abs_diff(size));
        let share = nearest.map_or(1.0, |i| self.seen[i].slowdown / self.seen[i].met / service(i));
        let seen = &self.seen[size];
        let prior = share.clamp(FLOOR, 4.0) * service(size);
        ((seen.slowdown + PRIOR * prior) / (seen.met + PRIOR)).max(FLOOR * service(size))
    }

    /// Foreground requests that a background request of a size will meet: those in progress, and
    /// those that will arrive.
    pub(crate) fn met(size: usize, ladder: &Ladder, outstanding: u32, rate: f64) -> f64 {
        f64::from(outstanding) + rate * ladder.0[size].1
    }

    /// Expected slowdown of all of them, in nanoseconds.
    pub(crate) fn expected(&self, size: usize, ladder: &Ladder, outstanding: u32, rate: f64) -> f64 {
        self.each(size, ladder) * Self::met(size, ladder, outstanding, rate)
    }

    /// The most bytes that a nanosecond of slowdown buys under the present load.
    pub(crate) fn bytes_a_nano(&self, ladder: &Ladder, outstanding: u32, rate: f64) -> f64 {
        let best = |i: usize| ladder.0[i].0 as f64 / self.expected(i, ladder, outstanding, rate).max(1e-9);
        (0..SIZES.len()).map(best).fold(0.0, f64::max)
    }

    /// A run begins: the size for it. `short` says that the goal, not the drive, was the limit of
    /// the last one.
    pub(crate) fn choose(&mut self, ladder: &Ladder, goal: &Goal, outstanding: u32, rate: f64, short: bool) {
        self.runs = self.runs.wrapping_add(1);
        let highest = self.bytes_a_nano(ladder, outstanding, rate);
        self.price =
            (if short { self.price * STEP } else { self.price / STEP }).min(highest).max(highest * 1e-3);
        let mut best = (0, f64::NEG_INFINITY);
        for (i, &(bytes, service)) in ladder.0.iter().enumerate() {
            if !goal.allows(service as u64) {
                continue;
            }
            let cost = self.expected(i, ladder, outstanding, rate);
            let value = if self.price >= 0.999 * highest {
                bytes as f64 / cost
            } else {
                (bytes as f64 - self.price * cost) / service
            };
            if value > best.1 {
                best = (i, value);
            }
        }
        self.size = best.0;
        // No further than the next size to what is known: larger ones are approached step by step.
        let known = (0..SIZES.len()).rev().find(|&i| self.seen[i].met > PRIOR);
        self.size = self.size.min(known.map_or(0, |i| i + 1));
        if self.runs.is_multiple_of(TRY_EVERY) {
            let next = if self.runs.is_multiple_of(2 * TRY_EVERY) {
                self.size + 1
            } else {
                self.size.saturating_sub(1)
            };
            if next < SIZES.len() && goal.allows(ladder.0[next].1 as u64) {
                self.size = next;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ServiceCurve;

    #[test]
    fn the_size_that_costs_least_a_byte_is_found() -> Result<(), crate::CurveError> {
        let curve =
            ServiceCurve::new(&[(64 << 10, 4_610_000), (512 << 10, 9_288_000), (4 << 20, 47_537_000)])?;
        let ladder = Ladder::new(&curve);
        let mut costs = Costs::new();
        for _ in 0..400 {
            costs.choose(&ladder, &Goal::mean(1), 0, 1e-7, true);
            let service = ladder.0[costs.size()].1;
            // A request that arrives while it is in progress waits for half of it on average.
            costs.observe(costs.size(), 1e-7 * service * 100.0, 1e-7 * service * 100.0 * service / 2.0);
        }
        costs.runs = 0;
        costs.choose(&ladder, &Goal::mean(1), 0, 1e-7, true);
        assert_eq!(SIZES[costs.size()], 512 << 10);
        assert!((costs.each(3, &ladder) / 4_644_000.0 - 1.0).abs() < 0.05);
        Ok(())
    }

    #[test]
    fn a_goal_that_does_not_bind_gives_large_requests() -> Result<(), crate::CurveError> {
        let curve = ServiceCurve::new(&[(64 << 10, 100_000), (4 << 20, 1_300_000)])?;
        let ladder = Ladder::new(&curve);
        let mut costs = Costs::new();
        for _ in 0..400 {
            costs.choose(&ladder, &Goal::mean(1), 4, 1e-5, false);
            costs.observe(costs.size(), 100.0, 100.0 * ladder.0[costs.size()].1 / 2.0);
        }
        assert!(SIZES[costs.size()] >= 1 << 20, "{}", SIZES[costs.size()]);
        Ok(())
    }
}
