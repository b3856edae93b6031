//! Finds the period that a load keeps, if it keeps one.

use crate::Nanos;
use crate::hazard::PHASES;

const SECOND: Nanos = 1_000_000_000;
const MILLI: Nanos = 1_000_000;

/// Periods that timers are set to.
const CANDIDATES: [Nanos; 14] = [
    100 * MILLI,
    200 * MILLI,
    250 * MILLI,
    500 * MILLI,
    SECOND,
    2 * SECOND,
    3 * SECOND,
    4 * SECOND,
    5 * SECOND,
    10 * SECOND,
    15 * SECOND,
    20 * SECOND,
    30 * SECOND,
    60 * SECOND,
];

/// Most events that are looked at.
const EVENTS: usize = 1024;
/// Periods that the events span at least.
const CYCLES: u64 = 8;
/// Events below which nothing is concluded.
const ENOUGH: usize = 48;

/// The last moments at which foreground requests ended long idle intervals.
#[derive(Debug, Clone)]
pub(crate) struct Moments {
    ring: Vec<Nanos>,
    next: usize,
}

impl Moments {
    pub(crate) fn new() -> Self {
        Self { ring: Vec::with_capacity(EVENTS), next: 0 }
    }

    pub(crate) fn push(&mut self, at: Nanos) {
        if self.ring.len() < EVENTS {
            self.ring.push(at);
        } else {
            self.ring[self.next] = at;
        }
        self.next = (self.next + 1) % EVENTS;
    }

    /// Gain of telling the moments by their phase, in nats, less the gain of 100 free parameters by
    /// chance.
    fn evidence(&self, period: Nanos) -> f64 {
        let mut counts = [0_u32; PHASES];
        for at in &self.ring {
            counts[((at % period) * PHASES as u64 / period) as usize] += 1;
        }
        let n = self.ring.len() as f64;
        // Dirichlet-multinomial with weight 1/2 a class, against equal classes.
        let mut gain = 0.0;
        let mut before = 0.0;
        for count in counts {
            for k in 0..count {
                gain += ((f64::from(k) + 0.5) * PHASES as f64 / (before + 0.5 * PHASES as f64)).ln();
                before += 1.0;
            }
        }
        debug_assert!((before - n).abs() < 0.5);
        gain
    }

    /// The period with the most evidence; 0 where none is convincing. About 14 times 1024 steps.
    pub(crate) fn period(&self) -> Nanos {
        if self.ring.len() < ENOUGH {
            return 0;
        }
        let first = self.ring.iter().min().copied().unwrap_or(0);
        let span = self.ring.iter().max().map_or(0, |last| last - first);
        let scored = CANDIDATES
            .map(|period| (period, if period > span / CYCLES { 0.0 } else { self.evidence(period) }));
        let best = scored.into_iter().max_by(|a, b| a.1.total_cmp(&b.1));
        best.filter(|b| b.1 > 5.0).map_or(0, |b| b.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timer_is_found_and_noise_is_not() {
        let mut timer = Moments::new();
        let mut noise = Moments::new();
        let mut x = 1_u64;
        for i in 0..500_u64 {
            x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let jitter = (x >> 33) % (40 * MILLI);
            timer.push((i * 3 % 1_000) * 5 * SECOND + 2 * SECOND + jitter);
            noise.push((x >> 20) % (3_600 * SECOND));
        }
        assert_eq!(timer.period(), 5 * SECOND);
        assert_eq!(noise.period(), 0);
    }
}
