//! Chooses threshold and request size: the most scrubbing that the goal allows, by replay of a
//! window of recent idle intervals.
//!
//! The cost is bounded: each candidate is one replay of the window, and `Tuner::step` tries one
//! candidate.

use crate::replay::{Outcome, Sizing, Start};
use pumice_pacer::{Goal, History, Nanos, SIZES, ServiceCurve};

const MILLI: Nanos = 1_000_000;

/// Thresholds that are tried: powers of two from 1 ms to about 33 s, 10 ms (the idle class of CFQ),
/// and none.
pub const THRESHOLDS: [Nanos; 18] = {
    let mut out = [0; 18];
    out[1] = 10 * MILLI;
    let mut i = 2;
    while i < 18 {
        out[i] = MILLI << (i - 2);
        i += 1;
    }
    out
};

/// Least predicted lengths that are tried.
pub const CUTOFFS: [Nanos; 8] =
    [MILLI, 4 * MILLI, 16 * MILLI, 64 * MILLI, 256 * MILLI, 1_024 * MILLI, 4_096 * MILLI, 16_384 * MILLI];

/// Below this squared coefficient of variation idle times are no more variable than memoryless
/// ones, and waiting cannot help (Mi and others, ACM TOS 5(2), 2009).
pub const WAITING_HELPS_ABOVE: f64 = 1.0;

/// Idle intervals below which nothing is concluded.
pub const ENOUGH: usize = 16;

/// Families of candidates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Family {
    /// A threshold and one size.
    Waiting,
    /// A threshold, and sizes that grow from 64 KiB within an idle interval.
    Growing,
    /// A least predicted length and one size; no waiting.
    Predicted,
    /// A least predicted length, a threshold and one size.
    PredictedWaiting,
}

/// Advice about waiting, from the window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Advice {
    /// Too few idle intervals to say.
    NoHistory,
    /// Idle times vary more than memoryless ones: who waited will probably wait longer.
    WaitingHelps,
    /// Idle times vary no more than memoryless ones: waiting teaches nothing, only the request size
    /// matters.
    WaitingCannotHelp,
}

impl Advice {
    /// The advice from a window.
    #[must_use]
    pub fn of(window: &History) -> Self {
        match () {
            () if window.intervals().len() < ENOUGH => Self::NoHistory,
            () if window.variability() > WAITING_HELPS_ABOVE => Self::WaitingHelps,
            () => Self::WaitingCannotHelp,
        }
    }
}

/// A chosen start.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Tuned {
    /// The start to use; `None` if no candidate holds the goal.
    pub start: Option<Start>,
    /// Its outcome in the window.
    pub outcome: Outcome,
    /// Squared coefficient of variation of the idle times.
    pub variability: f64,
    /// Advice about waiting.
    pub advice: Advice,
}

/// A search over the candidates of a family, in steps.
#[derive(Debug, Clone)]
pub struct Tuner {
    family: Family,
    goal: Goal,
    margin: f64,
    next: usize,
    best: Option<(Start, Outcome)>,
}

impl Tuner {
    /// A search that aims at `margin` (above 0, at most 1) of the goal's mean.
    #[must_use]
    pub fn new(family: Family, goal: Goal, margin: f64) -> Self {
        Self { family, goal, margin, next: 0, best: None }
    }

    /// Number of candidates of the family.
    #[must_use]
    pub fn candidates(&self) -> usize {
        match self.family {
            Family::Waiting | Family::Growing => SIZES.len() * THRESHOLDS.len(),
            Family::Predicted => SIZES.len() * CUTOFFS.len(),
            Family::PredictedWaiting => SIZES.len() * THRESHOLDS.len() * CUTOFFS.len(),
        }
    }

    fn candidate(&self, index: usize) -> Start {
        let (size, rest) = (SIZES[index % SIZES.len()], index / SIZES.len());
        let fixed = Sizing::fixed(size);
        match self.family {
            Family::Waiting => Start { threshold: THRESHOLDS[rest], cutoff: 0, sizing: fixed },
            Family::Growing => Start {
                threshold: THRESHOLDS[rest],
                cutoff: 0,
                sizing: Sizing { first: SIZES[0], max: size },
            },
            Family::Predicted => Start { threshold: 0, cutoff: CUTOFFS[rest], sizing: fixed },
            Family::PredictedWaiting => Start {
                threshold: THRESHOLDS[rest % THRESHOLDS.len()],
                cutoff: CUTOFFS[rest / THRESHOLDS.len()],
                sizing: fixed,
            },
        }
    }

    /// Tries one candidate against the window: a few nanoseconds for each interval in it. The
    /// search's result when it was the last one; the next step then begins anew.
    pub fn step(&mut self, window: &History, curve: &ServiceCurve) -> Option<Tuned> {
        let candidate = self.candidate(self.next);
        if self.goal.allows(curve.time(candidate.sizing.max)) {
            let outcome = candidate.replay(window, curve, self.goal.percentile);
            let requests = window.arrivals() as f64;
            let mean_held = outcome.delay <= self.margin * self.goal.mean as f64 * requests;
            let share_held =
                self.goal.percentile.is_none_or(|p| outcome.excesses as f64 <= (1.0 - p.share) * requests);
            let better = self.best.is_none_or(|(_, best)| outcome.bytes > best.bytes);
            if mean_held && share_held && better && outcome.bytes > 0.0 {
                self.best = Some((candidate, outcome));
            }
        }
        self.next += 1;
        if self.next < self.candidates() {
            return None;
        }
        self.next = 0;
        let variability = window.variability();
        let advice = Advice::of(window);
        let (start, outcome) = self.best.take().unzip();
        let start = if advice == Advice::NoHistory { None } else { start };
        Some(Tuned { start, outcome: outcome.unwrap_or_default(), variability, advice })
    }

    /// The whole search at once.
    #[must_use]
    pub fn run(mut self, window: &History, curve: &ServiceCurve) -> Tuned {
        loop {
            if let Some(tuned) = self.step(window, curve) {
                return tuned;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pumice_pacer::Idle;

    fn window(lengths: impl IntoIterator<Item = Nanos>) -> History {
        let mut out = History::new(10_000);
        let mut at = 0;
        for length in lengths {
            out.push(Idle { start: at, end: at + length, predicted: 0.0, arrivals: 1, mood: 0 });
            at += length + MILLI;
        }
        out
    }

    fn curve() -> ServiceCurve {
        ServiceCurve::new(&[(64 << 10, 4 * MILLI), (1 << 20, 15 * MILLI), (4 << 20, 48 * MILLI)])
            .expect("grows")
    }

    #[test]
    fn short_intervals_are_waited_out() {
        let lengths = (0..1_000).map(|i| if i % 50 == 0 { 10_000 * MILLI } else { 3 * MILLI });
        let tuned = Tuner::new(Family::Waiting, Goal::mean(MILLI), 1.0).run(&window(lengths), &curve());
        let start = tuned.start.expect("a candidate");
        assert_eq!(tuned.advice, Advice::WaitingHelps);
        assert!(start.threshold >= 4 * MILLI && start.sizing.max == 4 << 20, "{start:?}");
        assert!(tuned.outcome.delay <= 1_000.0 * MILLI as f64);
    }

    #[test]
    fn equal_intervals_make_waiting_useless() {
        let tuned = Tuner::new(Family::Waiting, Goal::mean(8 * MILLI), 1.0)
            .run(&window(vec![500 * MILLI; 100]), &curve());
        assert_eq!(tuned.advice, Advice::WaitingCannotHelp);
    }

    #[test]
    fn no_history_no_start() {
        let tuned = Tuner::new(Family::Waiting, Goal::mean(MILLI), 1.0).run(&window([MILLI]), &curve());
        assert_eq!((tuned.start, tuned.advice), (None, Advice::NoHistory));
    }

    #[test]
    fn a_maximum_bounds_the_size() {
        let goal = Goal { maximum: Some(20 * MILLI), ..Goal::mean(1_000 * MILLI) };
        let tuned = Tuner::new(Family::Waiting, goal, 1.0).run(&window(vec![500 * MILLI; 100]), &curve());
        assert_eq!(tuned.start.map(|s| s.sizing.max), Some(1 << 20));
    }
}
