//! The start policies that studies compare with the pacer's own.

use crate::study::predictor::Predictor;
use crate::study::replay::{Sizing, Start};
use crate::study::tuner::{Family, Tuned, Tuner};
use pumice_pacer::{Begin, Goal, History, Nanos, Rest, ServiceCurve, Starter};

/// The idle class of Linux's CFQ: after 10 ms of idleness, 64 KiB at a time. *Practical scrubbing*,
/// section III.B.
pub const CFQ: Start = Start { threshold: 10_000_000, cutoff: 0, sizing: Sizing::fixed(64 << 10) };
/// The start of a tuned policy while nothing is known, within the account.
const FALLBACK: Start = Start { threshold: 1_000_000_000, cutoff: 0, sizing: Sizing::fixed(64 << 10) };
/// Share of the goal that tuning aims at; the account holds the rest.
const MARGIN: f64 = 0.95;

/// A policy that is studied. Those that look at idleness go on from their start until a foreground
/// request arrives.
#[derive(Debug, Clone)]
pub enum Studied {
    /// One request, then a pause, whatever the foreground does.
    FixedDelay {
        /// The pause after each request, in nanoseconds.
        delay: Nanos,
        /// Bytes of each.
        bytes: u64,
    },
    /// Given threshold, cutoff and sizes; nothing is tuned.
    Fixed(Start, Box<Expectation>),
    /// Threshold, cutoff and size from the last idle intervals, tuned again all the time.
    Tuned(Box<Tuning>),
}

/// The length that a predictor expects of the present idle interval.
#[derive(Debug, Clone, Default)]
pub struct Expectation {
    /// `None` where nobody asks it.
    predictor: Option<Predictor>,
    expected: f64,
}

/// A search that goes on while its last result is used.
#[derive(Debug, Clone)]
pub struct Tuning {
    family: Family,
    /// `None` before there is a goal.
    tuner: Option<Tuner>,
    tuned: Option<Tuned>,
    expectation: Expectation,
}

impl Expectation {
    fn new(asked: bool) -> Self {
        Self { predictor: asked.then(Predictor::default), expected: 0.0 }
    }

    fn begun(&mut self) {
        if let Some(predictor) = &self.predictor {
            self.expected = predictor.expected();
        }
    }

    fn ended(&mut self, length: Nanos) {
        if let Some(predictor) = &mut self.predictor {
            predictor.observe(length);
        }
    }

    fn follow(&self, start: Start, rest: Rest) -> Begin {
        if start.cutoff > 0 && self.expected < start.cutoff as f64 {
            return Begin::Never;
        }
        let ready = rest.idle_since.saturating_add(start.threshold);
        if rest.now >= ready {
            Begin::Now(start.sizing.at(rest.issued))
        } else if ready == Nanos::MAX {
            Begin::Never
        } else {
            Begin::At(ready)
        }
    }
}

impl Studied {
    /// A start that does not change.
    #[must_use]
    pub fn fixed(start: Start) -> Self {
        Self::Fixed(start, Box::new(Expectation::new(start.cutoff > 0)))
    }

    /// The best start of a family, tuned while it is used.
    #[must_use]
    pub fn tuned(family: Family) -> Self {
        let asked = matches!(family, Family::Predicted | Family::PredictedWaiting);
        Self::Tuned(Box::new(Tuning {
            family,
            tuner: None,
            tuned: None,
            expectation: Expectation::new(asked),
        }))
    }

    /// Threshold and sizes in use, where it has them.
    #[must_use]
    pub fn start(&self) -> Option<Start> {
        match self {
            Self::FixedDelay { .. } => None,
            Self::Fixed(start, _) => Some(*start),
            Self::Tuned(tuning) => tuning.tuned.and_then(|tuned| tuned.start),
        }
    }

    fn expectation(&mut self) -> Option<&mut Expectation> {
        match self {
            Self::FixedDelay { .. } => None,
            Self::Fixed(_, expectation) => Some(&mut **expectation),
            Self::Tuned(tuning) => Some(&mut tuning.expectation),
        }
    }
}

impl Starter for Studied {
    fn holds_goal(&self) -> bool {
        matches!(self, Self::Tuned(_))
    }

    fn ignores_foreground(&self) -> bool {
        matches!(self, Self::FixedDelay { .. })
    }

    fn goal_set(&mut self, goal: Goal) {
        if let Self::Tuned(tuning) = self {
            tuning.tuner = Some(Tuner::new(tuning.family, goal, MARGIN));
        }
    }

    fn idle_began(&mut self, history: &History, curve: &ServiceCurve) {
        if let Some(expectation) = self.expectation() {
            expectation.begun();
        }
        if let Self::Tuned(tuning) = self
            && let Some(tuned) = tuning.tuner.as_mut().and_then(|tuner| tuner.step(history, curve))
        {
            tuning.tuned = Some(tuned);
        }
    }

    fn idle_ended(&mut self, length: Nanos) {
        if let Some(expectation) = self.expectation() {
            expectation.ended(length);
        }
    }

    fn expected(&self) -> f32 {
        match self {
            Self::FixedDelay { .. } => 0.0,
            Self::Fixed(_, expectation) => expectation.expected as f32,
            Self::Tuned(tuning) => tuning.expectation.expected as f32,
        }
    }

    fn begin(&self, rest: Rest) -> Begin {
        match self {
            Self::FixedDelay { delay, bytes } => match rest.last_done.map(|done| done + delay) {
                Some(ready) if ready > rest.now => Begin::At(ready),
                _ => Begin::Now(*bytes),
            },
            Self::Fixed(start, expectation) => expectation.follow(*start, rest),
            Self::Tuned(tuning) => match tuning.tuned.map_or(Some(FALLBACK), |tuned| tuned.start) {
                Some(start) => tuning.expectation.follow(start, rest),
                None => Begin::Never,
            },
        }
    }
}
