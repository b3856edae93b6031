//! Probability that the next foreground request comes now: a hazard rate learned from idle
//! intervals.
//!
//! The rate is a product of three factors, each a table: the *age* of the idle interval (rates fall
//! with it on most drives: *Practical scrubbing*, section V.B), the *phase* within a period that
//! the load keeps, if it keeps one (flush daemons and timers do), and the *mood*, how many requests
//! had come lately when the interval began. Cells of (mood, age, phase) hold observed time and
//! ends, both forgotten by halves; the factors are fitted to them by iterative proportional
//! fitting, in bounded time. Echoes multiply it.
//!
//! The interval that is asked about is an observation too, though it has not ended: an age that
//! hardly any interval reached before is the safer, the longer this one has lasted. Without that,
//! the first rest after hours of a steady load would look like a moment before the next request
//! until it is over.

use crate::Nanos;
use crate::echo::{Echo, SHIFTS};
use crate::mood::MOODS;

/// Classes of age: below 2^18 ns, then one for each doubling.
const AGES: usize = 20;
/// An age class ends at this power of two, times two for each further class.
const AGE_SHIFT: u32 = 18;
/// Parts of a period.
pub(crate) const PHASES: usize = 100;
/// Rounds of fitting.
const ROUNDS: usize = 4;
/// Ends that a factor is believed to have seen at the prior rate.
const PRIOR: f64 = 1.0;
/// Intervals that reached an age from which it is known so well that one more says nothing.
const ENOUGH: f64 = 16.0;
/// The share of an interval's length by which it grows until the rate of a hardly known age is
/// asked for anew.
const GROWTH: Nanos = 4;

fn age_class(age: Nanos) -> usize {
    let scaled = age >> AGE_SHIFT;
    ((Nanos::BITS - scaled.leading_zeros()) as usize).min(AGES - 1)
}

/// The age at which a class ends.
fn class_end(class: usize) -> Nanos {
    if class + 1 >= AGES { Nanos::MAX } else { 1 << (AGE_SHIFT + class as u32) }
}

/// A learned hazard rate. About 310 KiB, taken when it is made.
#[derive(Debug, Clone)]
pub struct Hazard {
    period: Nanos,
    /// Observed idle nanoseconds, and ends, by mood, age and phase.
    time: Vec<f32>,
    ends: Vec<f32>,
    ages: Ages,
    phase: [f64; PHASES],
    mood: [f64; MOODS],
    /// The phase factors before each part, added up.
    before: [f64; PHASES + 1],
    echo: Echo,
}

/// The factor of the age, as a rate in ends a nanosecond.
#[derive(Debug, Clone)]
struct Ages {
    rate: [f64; AGES],
    /// Data of the fit: ends, the prior's among them, and time by the other factors. The first
    /// `known` ages are known well enough.
    seen: [f64; AGES],
    expected: [f64; AGES],
    known: usize,
}

impl Ages {
    fn unknown() -> Self {
        Self {
            // As if an end were as likely in each doubling of the age: the older, the safer.
            rate: std::array::from_fn(|class| 1.0 / (1_u64 << (AGE_SHIFT + class as u32)) as f64),
            seen: [PRIOR; AGES],
            expected: [0.0; AGES],
            known: AGES,
        }
    }

    /// The rate at `at` in an interval that began at `start`, before phase and mood, and until when
    /// it stays. `mood` weighs this interval's own time.
    fn at(&self, start: Nanos, at: Nanos, mood: f64) -> (f64, Nanos) {
        let age = at - start;
        let class = age_class(age);
        let end = start.saturating_add(class_end(class));
        if class < self.known {
            return (self.rate[class], end);
        }
        (self.survived(class, age, mood), end.min(at.saturating_add(age / GROWTH + 1)))
    }

    /// The rate at an age of a class that is hardly known, `now` nanoseconds after the interval
    /// began, before phase and mood: fitted as in `fit_ages`, with this interval's own time so far,
    /// which `mood` weighs.
    fn survived(&self, class: usize, now: Nanos, mood: f64) -> f64 {
        let mut before = self.rate[self.known.saturating_sub(1)];
        for each in self.known..=class {
            let begins = if each == 0 { 0 } else { class_end(each - 1) };
            let lasted = (class_end(each).min(now) - begins) as f64 * mood;
            before = self.seen[each] / (self.expected[each] + PRIOR / before + lasted);
        }
        before
    }
}

/// A stretch of equal rate.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stretch {
    /// Ends a nanosecond.
    pub(crate) rate: f64,
    /// End of the stretch.
    pub(crate) end: Nanos,
}

impl Default for Hazard {
    fn default() -> Self {
        Self::new()
    }
}

impl Hazard {
    /// A rate that has seen nothing: it falls with one over the age.
    #[must_use]
    pub fn new() -> Self {
        let cells = MOODS * AGES * PHASES;
        Self {
            period: 0,
            time: vec![0.0; cells],
            ends: vec![0.0; cells],
            ages: Ages::unknown(),
            phase: [1.0; PHASES],
            mood: [1.0; MOODS],
            before: std::array::from_fn(|phase| phase as f64),
            echo: Echo::new(),
        }
    }

    /// The period in nanoseconds; 0 for none.
    #[must_use]
    pub fn period(&self) -> Nanos {
        self.period
    }

    /// Takes another period and forgets everything: the intervals of the window are to be observed
    /// anew.
    pub fn restart(&mut self, period: Nanos) {
        self.period = period;
        self.time.fill(0.0);
        self.ends.fill(0.0);
    }

    fn cell(mood: usize, age: usize, phase: usize) -> usize {
        (mood * AGES + age) * PHASES + phase
    }

    fn phase_at(&self, at: Nanos) -> usize {
        let within = at.checked_rem(self.period).unwrap_or(0);
        (within * PHASES as u64).checked_div(self.period).unwrap_or(0) as usize
    }

    /// End of the phase class of `at`.
    fn phase_end(&self, at: Nanos, phase: usize) -> Nanos {
        if self.period == 0 {
            return Nanos::MAX;
        }
        let start = at - at % self.period;
        start + ((phase as u64 + 1) * self.period).div_ceil(PHASES as u64)
    }

    /// Takes in an idle interval, `start..end`, which a foreground request ended. At most 2000
    /// cells are touched, one for a short interval.
    pub(crate) fn observe(&mut self, start: Nanos, end: Nanos, mood: usize) {
        let mut at = start;
        while at < end {
            let age = age_class(at - start);
            let until = start.saturating_add(class_end(age)).min(end);
            self.spread(Self::cell(mood, age, 0), at, until);
            at = until;
        }
        let last = Self::cell(mood, age_class(end.saturating_sub(start)), self.phase_at(end));
        self.ends[last] += 1.0;
    }

    fn spread(&mut self, row: usize, from: Nanos, to: Nanos) {
        if self.period == 0 {
            self.time[row] += (to - from) as f32;
            return;
        }
        let whole = (to - from) / self.period;
        if whole > 0 {
            let each = (whole * self.period) as f32 / PHASES as f32;
            self.time[row..row + PHASES].iter_mut().for_each(|cell| *cell += each);
        }
        let mut at = from + whole * self.period;
        while at < to {
            let phase = self.phase_at(at);
            let until = self.phase_end(at, phase).min(to);
            self.time[row + phase] += (until - at) as f32;
            at = until;
        }
    }

    /// Forgets a share of what was observed: `keep` is what remains (0 to 1).
    pub(crate) fn forget(&mut self, keep: f32) {
        self.time.iter_mut().chain(&mut self.ends).for_each(|cell| *cell *= keep);
        self.echo.forget(f64::from(keep));
    }

    /// Observed idle time in nanoseconds, forgotten parts left out.
    #[must_use]
    pub fn observed(&self) -> f64 {
        self.time.iter().map(|&t| f64::from(t)).sum()
    }

    /// Fits the factors: four rounds over 40 000 cells.
    pub(crate) fn fit(&mut self) {
        let total: f64 = self.ends.iter().map(|&e| f64::from(e)).sum();
        let time = self.observed();
        if total < 1.0 || time <= 0.0 {
            return;
        }
        self.ages.rate = [total / time; AGES];
        self.phase = [1.0; PHASES];
        self.mood = [1.0; MOODS];
        for _ in 0..ROUNDS {
            self.fit_ages();
            if self.period > 0 {
                self.fit_phases();
            }
            self.fit_moods();
        }
        let mut sum = 0.0;
        for (before, phase) in self.before[1..].iter_mut().zip(&self.phase) {
            sum += phase;
            *before = sum;
        }
    }

    fn fit_ages(&mut self) {
        let (mut seen, mut expected) = ([0.0; AGES], [0.0; AGES]);
        self.each_cell(|mood, age, phase, time, ends| {
            seen[age] += ends;
            expected[age] += time * self.mood[mood] * self.phase[phase];
        });
        for class in 0..AGES {
            // An age that was hardly seen is like the one before it.
            let before = self.ages.rate[class.saturating_sub(1)];
            self.ages.rate[class] = (seen[class] + PRIOR) / (expected[class] + PRIOR / before);
        }
        let reached = |class: usize| seen[class..].iter().sum::<f64>();
        self.ages.known = (0..AGES).take_while(|class| reached(*class) >= ENOUGH).count();
        (self.ages.seen, self.ages.expected) = (seen.map(|ends| ends + PRIOR), expected);
    }

    fn fit_phases(&mut self) {
        let (mut seen, mut expected) = ([0.0; PHASES], [0.0; PHASES]);
        self.each_cell(|mood, age, phase, time, ends| {
            seen[phase] += ends;
            expected[phase] += time * self.mood[mood] * self.ages.rate[age];
        });
        for (class, factor) in self.phase.iter_mut().enumerate() {
            *factor = (seen[class] + 2.0 * PRIOR) / (expected[class] + 2.0 * PRIOR);
        }
    }

    fn fit_moods(&mut self) {
        let (mut seen, mut expected) = ([0.0; MOODS], [0.0; MOODS]);
        self.each_cell(|mood, age, phase, time, ends| {
            seen[mood] += ends;
            expected[mood] += time * self.phase[phase] * self.ages.rate[age];
        });
        for (class, factor) in self.mood.iter_mut().enumerate() {
            *factor = (seen[class] + 2.0 * PRIOR) / (expected[class] + 2.0 * PRIOR);
        }
    }

    fn each_cell(&self, mut see: impl FnMut(usize, usize, usize, f64, f64)) {
        let phases = if self.period == 0 { 1 } else { PHASES };
        for mood in 0..MOODS {
            for age in 0..AGES {
                for phase in 0..phases {
                    let cell = Self::cell(mood, age, phase);
                    if self.time[cell] > 0.0 || self.ends[cell] > 0.0 {
                        see(mood, age, phase, f64::from(self.time[cell]), f64::from(self.ends[cell]));
                    }
                }
            }
        }
    }

    /// Calls `see` with (rate in ends a nanosecond, observed nanoseconds) of every cell.
    pub(crate) fn each_rate(&self, mut see: impl FnMut(f64, f64)) {
        self.each_cell(|mood, age, phase, time, _| {
            see(self.ages.rate[age] * self.phase[phase] * self.mood[mood], time);
        });
    }

    /// The rate at `at` in an idle interval that began at `start`, and until when it stays.
    pub(crate) fn stretch(&self, start: Nanos, at: Nanos, mood: usize) -> Stretch {
        let phase = self.phase_at(at);
        let (rate, end) = self.ages.at(start, at, self.mood[mood]);
        let (echo, until) = self.echo.factor(at);
        let end = end.min(self.phase_end(at, phase)).min(until);
        Stretch { rate: rate * self.phase[phase] * self.mood[mood] * echo, end }
    }

    /// Returns whether the rate depends on the age and the mood alone, not on the time of day.
    pub(crate) fn timeless(&self) -> bool {
        self.period == 0 && self.echo.silent()
    }

    /// Takes in an idle interval for its echoes: each once, in their order.
    pub(crate) fn hear(&mut self, start: Nanos, end: Nanos, mood: usize) {
        let (ages, moods) = (&self.ages, &self.mood);
        let phases = Phases { period: self.period, factors: &self.phase, before: &self.before };
        self.echo.observe(start, end, |from, to| {
            let (rate, end) = ages.at(start, from, moods[mood]);
            let to = to.min(end);
            (rate * moods[mood] * phases.integral(from, to), to)
        });
    }

    /// Looks for echoes.
    pub(crate) fn find_echoes(&mut self) {
        self.echo.find();
    }

    /// The share of idle time by what echoes multiply the rate by, in classes of 0.4 octave, the
    /// middle one for 1.
    pub(crate) fn echoes(&self) -> [f64; SHIFTS] {
        self.echo.shares()
    }
}

/// The phase factors as a function of time.
struct Phases<'a> {
    period: Nanos,
    factors: &'a [f64; PHASES],
    before: &'a [f64; PHASES + 1],
}

impl Phases<'_> {
    fn integral(&self, from: Nanos, to: Nanos) -> f64 {
        if self.period == 0 {
            return (to - from) as f64;
        }
        let part = self.period as f64 / PHASES as f64;
        let upto = |at: Nanos| {
            let within = (at % self.period) as f64 / part;
            let phase = (within as usize).min(PHASES - 1);
            self.before[phase] + (within - phase as f64) * self.factors[phase]
        };
        let cycles = (to / self.period - from / self.period) as f64;
        (cycles * self.before[PHASES] + upto(to) - upto(from)) * part
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_adjacent() {
        for class in 0..AGES - 1 {
            assert_eq!(age_class(class_end(class) - 1), class);
            assert_eq!(age_class(class_end(class)), class + 1);
        }
    }

    #[test]
    fn a_steady_clock_is_seen() {
        let period = 1_000_000_000;
        let mut hazard = Hazard::new();
        hazard.restart(period);
        for i in 0..500_u64 {
            let end = (i * 3 + 3) * period + 155_000_000;
            hazard.observe(end - 2 * period, end, 3);
        }
        hazard.fit();
        let (tick, other) = (500 * period + 152_000_000, 500 * period + 500_000_000);
        let start = 499 * period;
        let at = |t| hazard.stretch(start, t, 3).rate;
        assert!(at(tick) > 50.0 * at(other), "{} {}", at(tick), at(other));
        assert_eq!(hazard.stretch(start, tick, 3).end, 500 * period + 160_000_000);
    }

    #[test]
    fn an_interval_that_outlasts_all_before_is_the_safer_the_longer_it_lasts() {
        // A thousand requests, 3 ms apart, and then nobody.
        let mut hazard = Hazard::new();
        (0..1_000_u64).for_each(|i| hazard.observe(i * 3_000_000, (i + 1) * 3_000_000, 5));
        hazard.fit();
        let rate = |age: Nanos| hazard.stretch(0, age, 5).rate;
        assert!((rate(2_000_000) * 3e6 - 1.0).abs() < 2.0, "{}", rate(2_000_000));
        for age in [10_000_000, 100_000_000, 1_000_000_000, 100_000_000_000] {
            assert!(rate(age) * (age - 4_000_000) as f64 <= 1.1, "at {age}: {}", rate(age));
            assert!(rate(2 * age) < rate(age));
        }
        let stretch = hazard.stretch(0, 1_000_000_000, 5);
        assert!(stretch.end > 1_000_000_000 && stretch.end < 1_300_000_000, "{stretch:?}");
    }

    #[test]
    fn an_integral_is_the_sum_of_its_stretches() {
        let period = 1_000_000_007;
        let mut hazard = Hazard::new();
        hazard.restart(period);
        (1..500).for_each(|i| hazard.observe((i - 1) * period, i * period + i * i % 97 * 9_000_000, 0));
        hazard.fit();
        let phases = Phases { period, factors: &hazard.phase, before: &hazard.before };
        for (from, to) in [(0, 1), (123, 9_999), (999_999_999, 4_321_987_654), (77 * period, 80 * period)] {
            let (mut at, mut sum) = (from, 0.0);
            while at < to {
                let phase = hazard.phase_at(at);
                let end = hazard.phase_end(at, phase).min(to);
                sum += hazard.phase[phase] * (end - at) as f64;
                at = end;
            }
            let integral = phases.integral(from, to);
            assert!((integral / sum - 1.0).abs() < 1e-6, "{integral} {sum}");
        }
    }

    #[test]
    fn time_is_spread_without_loss() {
        let mut hazard = Hazard::new();
        hazard.restart(1_000_000_007);
        hazard.observe(123, 9_876_543_210_123, 0);
        let sum = hazard.observed();
        assert!((sum / 9_876_543_210_000.0 - 1.0).abs() < 1e-4, "{sum}");
    }
}
