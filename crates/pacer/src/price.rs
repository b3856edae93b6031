//! Price of a nanosecond of slowdown, in bytes: the one number that a goal turns into.
//!
//! At price `p` a request of `b` bytes that takes `s` and is expected to slow the foreground by `d`
//! is worth `(b - p * d) / s` a nanosecond. The size that is worth most is taken; while none is
//! worth anything, the drive is left alone. Over all idle time this gives the most bytes for the
//! slowdown it causes (Lagrange); the price is the one at which the expected slowdown is what the
//! goal earns.

use crate::echo::SHIFTS;
use crate::hazard::{Hazard, Stretch};
use crate::{Nanos, SIZES, ServiceCurve};

/// Classes of hazard rate, four to an octave.
const CLASSES: usize = 128;
/// Prices looked for: bytes a nanosecond.
const LOWEST: f64 = 1e-6;
const HIGHEST: f64 = 1e9;
/// Halvings of the search (of the price's logarithm).
const HALVINGS: usize = 30;

/// The request sizes with their service times in nanoseconds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ladder(pub(crate) [(u64, f64); SIZES.len()]);

impl Ladder {
    pub(crate) fn new(curve: &ServiceCurve) -> Self {
        Self(SIZES.map(|bytes| (bytes, curve.time(bytes) as f64)))
    }

    pub(crate) fn time(&self, bytes: u64) -> Nanos {
        self.0.iter().find(|s| s.0 >= bytes).map_or(Nanos::MAX, |s| s.1 as Nanos)
    }
}

/// Mean wait of the first arrival for the end of a request that takes `service`, at arrivals of
/// `rate`; 0 without arrivals. As [`best_size`] has it for an equal rate: a price is found for the
/// requests that will be chosen, and `rate * service^2 / 2` would say that large requests are never
/// chosen where arrivals are frequent.
fn expected_wait(rate: f64, service: f64) -> f64 {
    let x = rate * service;
    // Below, the difference would be lost in rounding.
    if x < 1e-3 { x * service / 2.0 } else { service - (1.0 - (-x).exp()) / rate }
}

/// Idle time by hazard rate.
#[derive(Debug, Clone)]
pub(crate) struct RateClasses {
    time: [f64; CLASSES],
    rate: [f64; CLASSES],
}

impl RateClasses {
    pub(crate) fn of(hazard: &Hazard) -> Self {
        let mut out = Self { time: [0.0; CLASSES], rate: [0.0; CLASSES] };
        hazard.each_rate(|rate, time| {
            // 1e-16 a nanosecond is once in a hundred days.
            let class = ((rate.max(1e-16) * 1e16).log2() * 2.5) as usize;
            let class = class.min(CLASSES - 1);
            out.time[class] += time;
            out.rate[class] += rate * time;
        });
        let mut out = out.spread(&hazard.echoes());
        for (rate, time) in out.rate.iter_mut().zip(&out.time) {
            *rate = if *time > 0.0 { *rate / time } else { 0.0 };
        }
        out
    }

    /// The same time where so much of it has a rate that is so many classes higher: echoes are
    /// taken to come at any rate alike.
    fn spread(&self, shares: &[f64; SHIFTS]) -> Self {
        let mut out = Self { time: [0.0; CLASSES], rate: [0.0; CLASSES] };
        for (shift, &share) in shares.iter().enumerate().filter(|share| *share.1 > 0.0) {
            let times = (((shift as f64) - (SHIFTS / 2) as f64) / 2.5).exp2();
            for class in 0..CLASSES {
                let to = (class + shift).saturating_sub(SHIFTS / 2).min(CLASSES - 1);
                out.time[to] += self.time[class] * share;
                out.rate[to] += self.rate[class] * share * times;
            }
        }
        out
    }

    /// All the observed time, in nanoseconds.
    pub(crate) fn total(&self) -> f64 {
        self.time.iter().sum()
    }

    /// Expected cost of each size that may be used, so that a search for a price asks for the
    /// exponentials once. `weight` is the nanoseconds of slowdown that a nanosecond of collision
    /// makes; `usable` tells the sizes that may be used.
    pub(crate) fn costs(&self, ladder: &Ladder, weight: f64, usable: &[bool; SIZES.len()]) -> Costs {
        let mut out = Costs { classes: [(0.0, [0.0; SIZES.len()]); CLASSES], len: 0, ladder: *ladder };
        for (&rate, &time) in self.rate.iter().zip(&self.time) {
            if time > 0.0 {
                let delays = std::array::from_fn(|i| match usable[i] {
                    true => expected_wait(rate, ladder.0[i].1) * weight,
                    false => f64::INFINITY,
                });
                out.classes[out.len] = (time, delays);
                out.len += 1;
            }
        }
        out
    }
}

/// Idle time, each class with the expected slowdown by a request of each size: infinite where the
/// size may not be used.
#[derive(Debug, Clone)]
pub(crate) struct Costs {
    classes: [(f64, [f64; SIZES.len()]); CLASSES],
    len: usize,
    ladder: Ladder,
}

impl Costs {
    /// Expected slowdown in nanoseconds over all the observed time, at a price above 0.
    pub(crate) fn slowdown(&self, price: f64) -> f64 {
        let mut sum = 0.0;
        for (time, delays) in &self.classes[..self.len] {
            let (mut worth, mut cost) = (0.0, 0.0);
            for (&(bytes, service), &delay) in self.ladder.0.iter().zip(delays) {
                let value = (bytes as f64 - price * delay) / service;
                if value > worth {
                    (worth, cost) = (value, delay / service);
                }
            }
            sum += cost * time;
        }
        sum
    }

    /// The lowest price at which the expected slowdown is at most `budget` nanoseconds.
    pub(crate) fn price(&self, budget: f64) -> f64 {
        let (mut low, mut high) = (LOWEST.ln(), HIGHEST.ln());
        if self.slowdown(LOWEST) <= budget {
            return LOWEST;
        }
        for _ in 0..HALVINGS {
            let middle = f64::midpoint(low, high);
            if self.slowdown(middle.exp()) > budget {
                low = middle;
            } else {
                high = middle;
            }
        }
        high.exp()
    }
}

/// Worth of a start now: a size, or nothing until a time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Worth {
    /// A request of so many bytes, expected to slow the foreground by so many nanoseconds.
    Start(u64, f64),
    Nothing(Nanos),
}

/// An idle interval at a moment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Moment {
    pub(crate) start: Nanos,
    pub(crate) now: Nanos,
    pub(crate) mood: usize,
}

/// Stretches looked at before the question is put off.
const LOOK_AHEAD: usize = 8;

/// The size that is worth most at this moment, or when to ask again. `usable` is asked with the
/// expected slowdown and the time of a size.
pub(crate) fn best_size(
    hazard: &Hazard,
    ladder: &Ladder,
    moment: Moment,
    price: f64,
    usable: impl Fn(f64, f64) -> bool,
) -> Worth {
    let mut at = moment.now;
    // Above this rate no size is worth anything, whatever comes after.
    let hopeless = |rate: f64, end: Nanos, at: Nanos| {
        let width = (end - at) as f64;
        // Of the sizes that reach past the stretch, the largest brings most for what it risks in
        // it.
        let last = ladder.0.len() - 1;
        ladder.0.iter().enumerate().filter(|&(i, size)| i == last || size.1 <= width).all(
            |(_, &(bytes, service))| {
                let inside = width.min(service);
                // x / (1 + x) is a lower bound of 1 - exp(-x).
                let x = rate * inside;
                price * x * (service - inside / 2.0) >= bytes as f64 * (1.0 + x)
            },
        )
    };
    for _ in 0..LOOK_AHEAD {
        let stretch = hazard.stretch(moment.start, at, moment.mood);
        if !hopeless(stretch.rate, stretch.end, at)
            && let Some((bytes, delay)) =
                best_at(hazard, ladder, Moment { now: at, ..moment }, stretch, price, &usable)
        {
            return if at == moment.now { Worth::Start(bytes, delay) } else { Worth::Nothing(at) };
        }
        at = stretch.end;
        if at == Nanos::MAX {
            break;
        }
    }
    Worth::Nothing(at)
}

fn best_at(
    hazard: &Hazard,
    ladder: &Ladder,
    moment: Moment,
    mut stretch: Stretch,
    price: f64,
    usable: &impl Fn(f64, f64) -> bool,
) -> Option<(u64, f64)> {
    let (mut hit, mut hit_times_when) = (0.0, 0.0);
    let mut offset = 0.0;
    let mut at = moment.now;
    let (mut best, mut worth) = (None, 0.0);
    for (i, &(bytes, service)) in ladder.0.iter().enumerate() {
        while offset < service {
            let left = (stretch.end - at) as f64;
            let width = left.min(service - offset);
            let part = (1.0 - hit) * (1.0 - (-stretch.rate * width).exp());
            hit += part;
            hit_times_when += part * (offset + width / 2.0);
            offset += width;
            if width >= left {
                at = stretch.end;
                stretch = hazard.stretch(moment.start, at, moment.mood);
            } else {
                at += width as Nanos;
            }
        }
        let delay = service * hit - hit_times_when;
        let gain = bytes as f64 - price * delay;
        if gain > worth * service && usable(delay, service) {
            (best, worth) = (Some((bytes, delay)), gain / service);
        }
        // Requests that have come by now wait for the rest of a larger request as well. If no
        // larger one is worth more even if nobody else comes, the exponentials are saved. The
        // margin is for rounding.
        let (known, slope) = (price * hit_times_when, (price * hit + worth) * (1.0 - 1e-9));
        if ladder.0[i + 1..].iter().all(|&(bytes, service)| bytes as f64 + known < service * slope) {
            break;
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_arrives_first_waits_for_no_more_than_the_rest() {
        let service = 4e6;
        let rare = expected_wait(1e-12, service);
        assert!((rare / (1e-12 * service * service / 2.0) - 1.0).abs() < 1e-3);
        // Where many arrive, the first comes almost at once.
        assert!((expected_wait(1e-3, service) / service - 1.0).abs() < 1e-3);
        let (below, above) =
            (expected_wait(0.999e-3 / service, service), expected_wait(1.001e-3 / service, service));
        assert!(below < above && above < 1.01 * below, "one curve: {below} {above}");
    }
}
