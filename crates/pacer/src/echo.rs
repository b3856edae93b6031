//! Forecast of the end of an idle interval from earlier ends: daemons come again after about as
//! long, whenever they began.
//!
//! Time is cut into slots. Of the ends of long idle intervals, pairs are counted by their lag in
//! slots; a lag that is met much more often than those around it is an *echo*. How many ends there
//! were about a lag ago, in a narrow and in a wide window, is known long before: its effect is
//! learned as one more factor of the hazard for each of the last few lags and both windows. A cell
//! holds the ends that were seen in it and those that were expected *by all factors before it*, so
//! that two lags that say the same are not counted twice (fitting by stages), and `(ends + PRIOR) /
//! (expected + PRIOR)` is its factor: the mean of a rate with a Gamma prior about 1.

use crate::Nanos;

/// A slot is 2^27 ns, 134 ms.
const SLOT_SHIFT: u32 = 27;
/// Slots that are remembered.
const SLOTS: u64 = 2_048;
/// Lags are looked for below this many slots, 137 s, and from `NEAREST` on: what is nearer is for
/// age and mood to say.
const REACH: usize = 1_024;
const NEAREST: usize = WIDE as usize + 1;
/// Lags that are followed.
const LAGS: usize = 5;
/// Half the windows' widths in slots, without the one in the middle.
const WIDE: u64 = 7;
const NARROW: u64 = 1;
/// Classes of the count in a window.
const CLASSES: usize = 6;
/// Idle intervals that are long enough for their ends to count, and ages from which on is learned:
/// within bursts there is nothing to tell.
const LONG: Nanos = 20_000_000;
const LEARNED_FROM: Nanos = 1 << 23;
/// Ends that a cell is believed to have seen as they were expected.
const PRIOR: f64 = 10.0;
/// The factors together are between this and one over it.
const MOST: f64 = 10.0;
/// Standard deviations by which pairs of a lag exceed those around it, so that of a thousand lags
/// none does by chance; and how many pairs there are at least.
const CONVINCING: f64 = 4.5;
const PAIRS: f64 = 6.0;
/// Lags on either side that one is compared with.
const AROUND: usize = 20;
/// Factor in favour of a lag that is followed when it is compared with others: a new one begins
/// with empty tables.
const LOYALTY: f64 = 1.5;
/// Classes of the product of all factors, 2.5 to an octave as those of rates are.
pub(crate) const SHIFTS: usize = 17;
/// Share of the times in these classes that remains from fit to fit: factors change while they are
/// learned.
const FRESH: f64 = 0.97;

#[derive(Debug, Clone, Copy)]
struct Cell {
    seen: f64,
    expected: f64,
    factor: f64,
}

impl Cell {
    const NEW: Self = Self { seen: 0.0, expected: 0.0, factor: 1.0 };

    fn renew(&mut self) {
        self.factor = (self.seen + PRIOR) / (self.expected + PRIOR);
    }
}

/// Lags at which ends of idle intervals follow one another, and what they tell. About 20 KiB, taken
/// when it is made.
#[derive(Debug, Clone)]
pub(crate) struct Echo {
    /// Number of slots with the end of a long interval, up to and with each of the last slots.
    sums: Vec<u32>,
    /// The last slot of `sums`.
    last: u64,
    /// True if an end was seen in it.
    marked: bool,
    /// 1 for each slot that had one, twice over: any `REACH` slots lie side by side.
    marks: Vec<f32>,
    /// Pairs of such slots, by `REACH` less their lag: so that a new one adds all marks at once.
    pairs: Vec<f32>,
    /// 0 where none is followed.
    lags: [u64; LAGS],
    /// By window (wide ones first) and lag.
    cells: [[Cell; CLASSES]; 2 * LAGS],
    /// Idle time by the product of the factors.
    times: [f64; SHIFTS],
}

impl Echo {
    pub(crate) fn new() -> Self {
        Self {
            sums: vec![0; SLOTS as usize],
            last: 0,
            marked: false,
            marks: vec![0.0; 2 * REACH],
            pairs: vec![0.0; REACH],
            lags: [0; LAGS],
            cells: [[Cell::NEW; CLASSES]; 2 * LAGS],
            times: [0.0; SHIFTS],
        }
    }

    /// Returns whether no lag is known: then all factors are 1.
    pub(crate) fn silent(&self) -> bool {
        self.lags == [0; LAGS]
    }

    fn sum(&self, slot: u64) -> u32 {
        let slot = slot.min(self.last);
        if slot + SLOTS <= self.last { 0 } else { self.sums[(slot % SLOTS) as usize] }
    }

    fn class(&self, slot: u64, lag: u64, half: u64) -> usize {
        let after = (slot + half).saturating_sub(lag);
        let count = self.sum(after).wrapping_sub(self.sum(after.saturating_sub(2 * half + 1)));
        (count as usize).min(CLASSES - 1)
    }

    /// The cells that matter in a slot.
    fn each(&self, slot: u64) -> impl Iterator<Item = (usize, usize)> {
        let lags = self.lags.iter().enumerate().filter(|lag| *lag.1 > 0);
        let wide = lags.clone().map(move |(i, &lag)| (i, self.class(slot, lag, WIDE)));
        wide.chain(lags.map(move |(i, &lag)| (LAGS + i, self.class(slot, lag, NARROW))))
    }

    fn factor_in(&self, slot: u64) -> f64 {
        self.each(slot)
            .map(|(row, class)| self.cells[row][class].factor)
            .product::<f64>()
            .clamp(1.0 / MOST, MOST)
    }

    /// Returns whether nothing ended in all the time that is looked back at from a slot.
    fn faded(&self, slot: u64) -> bool {
        slot > self.last + REACH as u64 + WIDE
    }

    fn slot_end(&self, slot: u64) -> Nanos {
        if self.faded(slot) { Nanos::MAX } else { (slot + 1) << SLOT_SHIFT }
    }

    /// By what the hazard is to be multiplied at a moment, and until when.
    pub(crate) fn factor(&self, at: Nanos) -> (f64, Nanos) {
        if self.silent() {
            return (1.0, Nanos::MAX);
        }
        let slot = at >> SLOT_SHIFT;
        (self.factor_in(slot), self.slot_end(slot))
    }

    /// Takes in an idle interval that a foreground request ended. `expected` says how many ends the
    /// other factors expect from one time to another, or until when it can say so at most.
    pub(crate) fn observe(
        &mut self,
        start: Nanos,
        end: Nanos,
        expected: impl Fn(Nanos, Nanos) -> (f64, Nanos),
    ) {
        let mut at = start.saturating_add(LEARNED_FROM);
        if !self.silent() && at < end {
            while at < end {
                let slot = at >> SLOT_SHIFT;
                let (ends, until) = expected(at, self.slot_end(slot).min(end));
                self.learn(slot, ends, (until - at) as f64);
                at = until;
            }
            let rows: [_; 2 * LAGS] = self.rows(end >> SLOT_SHIFT);
            for (row, class) in rows.into_iter().flatten() {
                self.cells[row][class].seen += 1.0;
                self.cells[row][class].renew();
            }
        }
        if end.saturating_sub(start) >= LONG {
            self.mark(end >> SLOT_SHIFT);
        }
    }

    fn rows(&self, slot: u64) -> [Option<(usize, usize)>; 2 * LAGS] {
        let mut each = self.each(slot);
        std::array::from_fn(|_| each.next())
    }

    fn learn(&mut self, slot: u64, ends: f64, time: f64) {
        let mut product: f64 = 1.0;
        for (row, class) in self.rows(slot).into_iter().flatten() {
            let cell = &mut self.cells[row][class];
            let factor = cell.factor;
            cell.expected += ends * product.clamp(1.0 / MOST, MOST);
            cell.renew();
            product *= factor;
        }
        let shift = (product.clamp(1.0 / MOST, MOST).log2() * 2.5).round() + (SHIFTS / 2) as f64;
        self.times[(shift as usize).min(SHIFTS - 1)] += time;
    }

    /// An end of a long interval in a slot.
    fn mark(&mut self, slot: u64) {
        if slot < self.last || slot > self.last + SLOTS {
            // The clock was set anew, or nothing that came before matters any more.
            self.sums.fill(0);
            self.marks.fill(0.0);
            (self.last, self.marked) = (slot, false);
        }
        let sum = self.sum(self.last);
        while self.last < slot {
            self.last += 1;
            self.sums[(self.last % SLOTS) as usize] = sum;
            self.put(self.last, 0.0);
            self.marked = false;
        }
        if self.marked {
            return;
        }
        self.marked = true;
        let place = (slot % REACH as u64) as usize;
        for (pairs, mark) in self.pairs.iter_mut().zip(&self.marks[place..place + REACH]) {
            *pairs += mark;
        }
        self.put(slot, 1.0);
        self.sums[(slot % SLOTS) as usize] = sum.wrapping_add(1);
    }

    fn put(&mut self, slot: u64, mark: f32) {
        let place = (slot % REACH as u64) as usize;
        (self.marks[place], self.marks[place + REACH]) = (mark, mark);
    }

    /// Forgets a share of what was observed: `keep` is what remains (0 to 1).
    pub(crate) fn forget(&mut self, keep: f64) {
        self.pairs.iter_mut().for_each(|pairs| *pairs *= keep as f32);
        for cell in self.cells.as_flattened_mut() {
            (cell.seen, cell.expected) = (cell.seen * keep, cell.expected * keep);
            cell.renew();
        }
        self.times.iter_mut().for_each(|time| *time *= FRESH);
    }

    /// Excess of the pairs of a lag over those around it, in standard deviations.
    fn excess(&self, lag: usize) -> f64 {
        let sum = |from: usize, to: usize| -> f64 {
            self.pairs[REACH - to.min(REACH - 1)..=REACH - from].iter().map(|&pairs| f64::from(pairs)).sum()
        };
        let here = sum(lag - 1, lag + 1);
        let (from, to) = (lag.saturating_sub(AROUND).max(1), (lag + AROUND).min(REACH - 1));
        let usual = sum(from, to) * 3.0 / (to - from + 1) as f64;
        let excess = (here - usual) / (usual + 1.0).sqrt();
        if here >= PAIRS && excess >= CONVINCING { excess } else { 0.0 }
    }

    /// Chooses the lags to follow: five rounds over a thousand.
    pub(crate) fn find(&mut self) {
        let mut excess: [f64; REACH] = [0.0; REACH];
        for (lag, excess) in excess.iter_mut().enumerate().skip(NEAREST) {
            *excess = self.excess(lag) * if self.lags.contains(&(lag as u64)) { LOYALTY } else { 1.0 };
        }
        let mut chosen = [0; LAGS];
        for chosen in &mut chosen {
            let best = excess.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1));
            let Some((lag, _)) = best.filter(|best| *best.1 > 0.0) else { break };
            *chosen = lag as u64;
            excess[lag - 2..(lag + 3).min(REACH)].fill(0.0);
        }
        for i in 0..LAGS {
            if !chosen.contains(&self.lags[i]) {
                self.lags[i] = 0;
                (self.cells[i], self.cells[LAGS + i]) = ([Cell::NEW; CLASSES], [Cell::NEW; CLASSES]);
            }
        }
        for lag in chosen {
            if lag > 0
                && !self.lags.contains(&lag)
                && let Some(free) = self.lags.iter_mut().find(|lag| **lag == 0)
            {
                *free = lag;
            }
        }
    }

    /// The share of idle time by the product of the factors, by classes; the middle class is 1.
    pub(crate) fn shares(&self) -> [f64; SHIFTS] {
        let total: f64 = self.times.iter().sum();
        if self.silent() || total <= 0.0 {
            return std::array::from_fn(|shift| f64::from(u8::from(shift == SHIFTS / 2)));
        }
        self.times.map(|time| time / total)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Nanos = 1_000_000_000;

    fn random(x: &mut u64) -> f64 {
        *x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (*x >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// An hour of Poisson arrivals, one in 5 s, and those of a daemon.
    fn hour(daemon: impl Fn(u64) -> Option<Nanos>) -> (Echo, Nanos) {
        let mut x = 7;
        let (mut at, mut ends) = (0.0, Vec::new());
        while at < 3_600.0 {
            at -= 5.0 * random(&mut x).max(1e-12).ln();
            ends.push((at * 1e9) as Nanos);
        }
        ends.extend((0..).map_while(daemon));
        ends.sort_unstable();
        let mut echo = Echo::new();
        let rate = ends.len() as f64 / 3_600e9;
        let mut start = 0;
        for (i, &end) in ends.iter().enumerate() {
            echo.observe(start, end, |from, to| (rate * (to - from) as f64, to));
            start = end;
            if i % 100 == 99 {
                echo.find();
                echo.forget(0.999);
            }
        }
        (echo, start)
    }

    #[test]
    fn a_daemon_that_keeps_no_phase_is_heard() {
        // It sleeps for 31 s whenever it is done, which takes up to 50 ms; no clock shows that.
        let (echo, end) = hour(|i| (i < 115).then(|| i * 31 * SECOND + i * i % 51 * SECOND / 1_000));
        assert!(
            echo.lags.iter().any(|lag| lag.abs_diff((31 * SECOND) >> SLOT_SHIFT) <= 1),
            "{:?}",
            echo.lags
        );
        let last = 114 * 31 * SECOND;
        let (due, other) = (echo.factor(last + 31 * SECOND).0, echo.factor(last + 20 * SECOND).0);
        assert!(due > 1.5 * other, "{due} {other} at {end}");
        assert!((echo.shares().iter().sum::<f64>() - 1.0).abs() < 1e-9);
        // Long after the last end there is nothing to hear, nor to ask for again.
        assert_eq!(echo.factor(end + 1_000 * SECOND).1, Nanos::MAX);
    }

    #[test]
    fn arrivals_that_keep_no_time_have_no_echo() {
        let (echo, end) = hour(|_| None);
        assert!(echo.silent(), "{:?}", echo.lags);
        assert_eq!(echo.factor(end), (1.0, Nanos::MAX));
    }

    #[test]
    fn a_clock_that_is_set_anew_forgets_the_slots_alone() {
        let (mut echo, end) = hour(|i| (i < 115).then(|| i * 31 * SECOND));
        let lags = echo.lags;
        echo.observe(0, SECOND, |from, to| ((to - from) as f64 * 1e-10, to));
        assert_eq!((echo.lags, echo.last), (lags, SECOND >> SLOT_SHIFT));
        echo.observe(end, 1_000_000 * end, |from, to| ((to - from) as f64 * 1e-20, to));
        assert_eq!(echo.sum(echo.last), 1);
    }
}
