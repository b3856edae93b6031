//! The state of the `Priced` policy: hazard, period, price, and when they are fitted again.

use crate::hazard::{Hazard, mood_of};
use crate::period::Moments;
use crate::price::{Ladder, Moment, RateClasses, Worth, best_size};
use crate::{Account, History, Idle, Nanos, SIZES, ServiceCurve};

/// Time between two fits.
const EVERY: Nanos = 10_000_000_000;
/// Fits between two searches for the period.
const PERIOD_EVERY: u32 = 8;
/// Ends of idle intervals before the first fit.
const ENOUGH: u64 = 16;
/// Over how many foreground requests a surplus or debt of the account is worked off.
const HORIZON: f64 = 1_000.0;

#[derive(Debug, Clone)]
pub(crate) struct Pricing {
    hazard: Hazard,
    moments: Moments,
    ladder: Ladder,
    price: f64,
    /// Foreground requests, forgotten like the cells of the hazard.
    arrivals: f64,
    seen: u64,
    half_life: Nanos,
    mood: f64,
    next_fit: Nanos,
    fitted: Nanos,
    fits: u32,
}

impl Pricing {
    pub(crate) fn new(curve: &ServiceCurve, goal_mean: Nanos, half_life: Nanos) -> Self {
        Self {
            hazard: Hazard::new(),
            moments: Moments::new(),
            ladder: Ladder::new(curve),
            // Until something is known: a slowdown of the whole goal costs as much as the largest request brings.
            price: SIZES[SIZES.len() - 1] as f64 / goal_mean.max(1) as f64,
            arrivals: 0.0,
            seen: 0,
            half_life: half_life.max(1),
            mood: 25.0,
            next_fit: 0,
            fitted: 0,
            fits: 0,
        }
    }

    pub(crate) fn price(&self) -> f64 {
        self.price
    }

    pub(crate) fn period(&self) -> Nanos {
        self.hazard.period()
    }

    pub(crate) fn mood(&self) -> u8 {
        mood_of(self.mood) as u8
    }

    pub(crate) fn arrived(&mut self) {
        self.arrivals += 1.0;
    }

    pub(crate) fn observe(&mut self, idle: &Idle) {
        let length = idle.length();
        self.hazard.observe(idle.start, idle.end, usize::from(idle.mood));
        if length as f64 >= 2.0 * self.ladder.0[0].1 {
            self.moments.push(idle.end);
        }
        self.mood += 0.3 * ((length.max(1) as f64).log2() - self.mood);
        self.seen += 1;
    }

    /// Time begins anew; what was learned stays.
    pub(crate) fn rewind(&mut self) {
        (self.next_fit, self.fitted) = (0, 0);
    }

    /// Fits again if it is time. At most about half a millisecond, at most every 10 s.
    pub(crate) fn fit(
        &mut self,
        now: Nanos,
        history: &History,
        curve: &ServiceCurve,
        account: &Account,
        weight: f64,
    ) {
        if now < self.next_fit || self.seen < ENOUGH {
            return;
        }
        self.next_fit = now.saturating_add(EVERY);
        self.ladder = Ladder::new(curve);
        if self.fits.is_multiple_of(PERIOD_EVERY) {
            self.find_period(history);
        }
        self.fits += 1;
        let passed = now.saturating_sub(self.fitted) as f64;
        self.fitted = now;
        let keep = (-passed / self.half_life as f64 * std::f64::consts::LN_2).exp();
        self.hazard.forget(keep as f32);
        self.arrivals *= keep;
        self.hazard.fit();
        let mean = account.goal().mean as f64;
        let target = self.ladder.0[SIZES.len() - 1].1;
        let correction = 1.0 + (account.balance() - target) / (mean.max(1.0) * HORIZON);
        let budget = mean * correction.clamp(0.05, 3.0) * self.arrivals;
        let usable = SIZES.map(|bytes| account.goal().allows(curve.time(bytes)));
        self.price = RateClasses::of(&self.hazard).price(&self.ladder, budget, weight, &usable);
    }

    fn find_period(&mut self, history: &History) {
        let period = self.moments.period();
        if period != self.hazard.period() {
            self.hazard.restart(period);
            self.arrivals = history.arrivals() as f64;
            for idle in history.intervals() {
                self.hazard.observe(idle.start, idle.end, usize::from(idle.mood));
            }
        }
    }

    pub(crate) fn choose(&self, start: Nanos, now: Nanos, account: &Account, weight: f64) -> Worth {
        let moment = Moment { start, now, mood: usize::from(self.mood()) };
        best_size(&self.hazard, &self.ladder, moment, self.price * weight, |_, service| {
            account.allows(service as Nanos)
        })
    }
}
