//! The state of the `Priced` policy: hazard, period, price, and when they are fitted again.

use crate::answers::{Answers, Question};
use crate::hazard::Hazard;
use crate::mood::Mood;
use crate::period::Moments;
use crate::price::{Ladder, Moment, RateClasses, Worth, best_size};
use crate::{Account, History, Idle, Nanos, SIZES, ServiceCurve};

/// Length of a stretch of which the rate of arrivals is remembered, and time between two prices.
const EVERY: f64 = 10e9;
/// Time between two prices that collisions make, at least.
const SOON: Nanos = 1_000_000_000;
/// Time between two fits, at most; sooner while little was seen.
const LATEST: f64 = 60e9;
const SOONEST: f64 = 0.25e9;
/// Stretches of about ten seconds of which the rate of arrivals is remembered.
const STRETCHES: usize = 64;
/// The share of these stretches, the quieter ones, that earnings are counted on from.
const COUNTED_ON: f64 = 0.75;
/// The share of these earnings that is spent as they come.
const SPENT_AT_ONCE: f64 = 0.9;
/// Over which time a surplus and a debt of the account are worked off, in nanoseconds.
const SURPLUS_TIME: f64 = 60e9;
const DEBT_TIME: f64 = 100e9;
/// The share of the goal that may be spent beside foreground requests in any case, so that their
/// cost stays known.
const LEAST_SHARE: f64 = 0.02;
/// Fits between two searches for the period.
const PERIOD_EVERY: u32 = 8;
/// Ends of idle intervals before the first fit.
const ENOUGH: u64 = 16;
/// Weight of the prior in the correction of expected costs, in largest requests.
const BIAS_PRIOR: f64 = 5.0;

#[derive(Debug, Clone)]
pub(crate) struct Pricing {
    hazard: Hazard,
    moments: Moments,
    mood: Mood,
    /// The idle interval asked about last, by its start, and its mood: which is the same until
    /// somebody comes.
    asked: Option<(Nanos, u8)>,
    ladder: Ladder,
    answers: Answers,
    classes: Option<RateClasses>,
    price: f64,
    seen: u64,
    half_life: Nanos,
    next_fit: Nanos,
    next_price: Nanos,
    /// Time at which a collision last made a new price.
    priced: Nanos,
    fitted: Nanos,
    fits: u32,
    /// Arrivals a nanosecond in the last stretches.
    rates: [f64; STRETCHES],
    rates_seen: usize,
    count: f64,
    count_since: Nanos,
    /// Expected and real cost of collisions: their ratio corrects the hazard's level.
    expected: f64,
    cost: f64,
    /// Bytes that a nanosecond of slowdown buys beside foreground requests (0: nothing is known),
    /// and the share of the goal that is better spent there.
    beside: f64,
    share: f64,
    /// Time of the last search for the price, and the `beside` it was made with.
    solved: Nanos,
    solved_beside: f64,
}

impl Pricing {
    pub(crate) fn new(curve: &ServiceCurve, goal_mean: Nanos, half_life: Nanos, now: Nanos) -> Self {
        Self {
            hazard: Hazard::new(),
            moments: Moments::new(),
            mood: Mood::default(),
            asked: None,
            ladder: Ladder::new(curve),
            answers: Answers::new(),
            classes: None,
            // Until something is known: a slowdown of the whole goal costs as much as the largest
            // request brings.
            price: SIZES[SIZES.len() - 1] as f64 / goal_mean.max(1) as f64,
            seen: 0,
            half_life: half_life.max(1),
            next_fit: 0,
            next_price: 0,
            priced: 0,
            fitted: now,
            fits: 0,
            rates: [0.0; STRETCHES],
            rates_seen: 0,
            count: 0.0,
            count_since: now,
            expected: 0.0,
            cost: 0.0,
            beside: 0.0,
            share: 1.0,
            solved: now,
            solved_beside: 0.0,
        }
    }

    /// Tells what a nanosecond of slowdown buys beside foreground requests. The share of the goal
    /// that is better spent there, as of the last price.
    pub(crate) fn divide(&mut self, beside: f64) -> f64 {
        self.beside = beside;
        // A price for what can be bought no more is soon replaced.
        if self.solved_beside > 1.5 * beside {
            self.next_price = self.next_price.min(self.solved.saturating_add(SOON));
        }
        self.share
    }

    pub(crate) fn price(&self) -> f64 {
        self.price
    }

    pub(crate) fn period(&self) -> Nanos {
        self.hazard.period()
    }

    /// The mood of an idle interval that begins at `start`.
    pub(crate) fn mood(&mut self, start: Nanos) -> u8 {
        match self.asked {
            Some((asked, class)) if asked == start => class,
            _ => {
                let class = self.mood.class(start);
                self.asked = Some((start, class));
                class
            }
        }
    }

    pub(crate) fn arrived(&mut self, now: Nanos) {
        self.count += 1.0;
        self.mood.arrived(now);
        self.asked = None;
        let passed = now.saturating_sub(self.count_since) as f64;
        if passed >= EVERY {
            self.rates[self.rates_seen % STRETCHES] = self.count / passed;
            self.rates_seen += 1;
            (self.count, self.count_since) = (0.0, now);
        }
    }

    pub(crate) fn observe(&mut self, idle: &Idle) {
        self.hazard.observe(idle.start, idle.end, usize::from(idle.mood));
        self.hazard.hear(idle.start, idle.end, usize::from(idle.mood));
        // Only what a background request could have been started in.
        if idle.length() as f64 >= 2.0 * self.ladder.0[0].1 {
            self.moments.push(idle.end);
        }
        self.seen += 1;
    }

    /// Time begins anew at `now`; what was learned stays. The time until then was not looked at: it
    /// is no quiet time, and nothing is forgotten for it.
    pub(crate) fn rewind(&mut self, now: Nanos) {
        (self.next_fit, self.next_price, self.fitted, self.priced, self.solved) = (0, 0, now, 0, now);
        (self.count, self.count_since) = (0.0, now);
        (self.mood, self.asked) = (Mood::default(), None);
    }

    /// The next question finds the price anew.
    pub(crate) fn refit(&mut self) {
        self.next_fit = 0;
    }

    /// Service times as they are believed now.
    pub(crate) fn measured(&mut self, ladder: Ladder) {
        self.ladder = ladder;
        self.answers.clear();
    }

    /// Records the expected and the real cost of a background request, in nanoseconds of collision.
    pub(crate) fn cost(&mut self, expected: f64, cost: f64) {
        self.expected += expected;
        self.cost += cost;
    }

    fn bias(&self) -> f64 {
        let prior = BIAS_PRIOR * self.ladder.0[SIZES.len() - 1].1;
        (self.cost + prior) / (self.expected + prior)
    }

    /// Fits again if it is time: about a millisecond, at most once a minute after 16 minutes of
    /// idle time; a new price every 10 s, in a tenth of that.
    pub(crate) fn fit(
        &mut self,
        now: Nanos,
        history: &History,
        curve: &ServiceCurve,
        account: &Account,
        weight: f64,
    ) {
        if self.seen < ENOUGH {
            return;
        }
        if now < self.next_fit {
            if now >= self.next_price {
                self.next_price = now.saturating_add(EVERY as Nanos);
                self.solve(now, account, weight);
            }
            return;
        }
        self.next_price = now.saturating_add(EVERY as Nanos);
        let pause = (self.hazard.observed() / 16.0).clamp(SOONEST, LATEST);
        self.next_fit = now.saturating_add(pause as Nanos);
        self.ladder = Ladder::new(curve);
        if self.fits.is_multiple_of(PERIOD_EVERY) {
            self.find_period(history);
            self.hazard.find_echoes();
        }
        self.fits = self.fits.wrapping_add(1);
        let passed = now.saturating_sub(self.fitted) as f64;
        self.fitted = now;
        let keep = (-passed / self.half_life as f64 * std::f64::consts::LN_2).exp();
        self.hazard.forget(keep as f32);
        (self.expected, self.cost) = (self.expected * keep, self.cost * keep);
        self.hazard.fit();
        self.answers.clear();
        self.classes = Some(RateClasses::of(&self.hazard));
        self.solve(now, account, weight);
    }

    /// A collision was charged: a new price, unless the last one is less than a second old.
    pub(crate) fn charged(&mut self, now: Nanos, account: &Account, weight: f64) {
        if now >= self.priced.saturating_add(SOON) {
            self.priced = now;
            self.solve(now, account, weight);
        }
    }

    /// Finds the price at which the expected slowdown is what the account can afford in the
    /// observed idle time.
    pub(crate) fn solve(&mut self, now: Nanos, account: &Account, weight: f64) {
        let Some(classes) = &self.classes else { return };
        (self.solved, self.solved_beside) = (now, self.beside);
        let reserve = self.ladder.0[SIZES.len() - 1].1 * weight;
        let surplus = account.balance() - reserve;
        let earning = self.rate(now) * account.goal().mean as f64;
        let extra = match () {
            () if surplus <= 0.0 => surplus / DEBT_TIME,
            () if earning <= 0.0 => surplus / SURPLUS_TIME,
            // A large surplus comes from a burst of requests: it lasts the longer, the larger it
            // is.
            () => (surplus / SURPLUS_TIME / earning).ln_1p() * earning,
        };
        let affordable: f64 = (SPENT_AT_ONCE * earning + extra).max(0.02 * earning);
        let usable = SIZES.map(|bytes| account.goal().allows(self.ladder.time(bytes)));
        let bias = self.bias();
        let budget = affordable * classes.total();
        let costs = classes.costs(&self.ladder, weight * bias, &usable);
        let price = costs.price(budget);
        // Idle time is used as far as its last nanosecond of slowdown buys as much as one beside
        // foreground requests does.
        let price = price.max(self.beside);
        let here = costs.slowdown(price);
        self.share = if budget > 0.0 { (1.0 - here / budget).clamp(LEAST_SHARE, 1.0) } else { 0.0 };
        self.price = price * bias;
    }

    /// Foreground requests a nanosecond that can be counted on: the mean of the quieter stretches,
    /// so that a burst raises the balance, not the hopes.
    fn rate(&self, now: Nanos) -> f64 {
        let n = self.rates_seen.min(STRETCHES);
        if n == 0 {
            // Of the first stretch as much as there was of it.
            return self.count / (now.saturating_sub(self.count_since) as f64).max(SOON as f64);
        }
        let mut sorted = self.rates;
        sorted[..n].sort_unstable_by(f64::total_cmp);
        let quiet = ((n as f64 * COUNTED_ON) as usize).max(1);
        sorted[..quiet].iter().sum::<f64>() / quiet as f64
    }

    fn find_period(&mut self, history: &History) {
        let period = self.moments.period();
        if period != self.hazard.period() {
            self.hazard.restart(period);
            for idle in history.intervals() {
                self.hazard.observe(idle.start, idle.end, usize::from(idle.mood));
            }
        }
    }

    /// Chooses a start on a drive that is idle since `start`. The expected cost of any but the
    /// smallest request must be in the account `cover` times over, with one goal more: a drive that
    /// nobody uses earns nothing.
    pub(crate) fn choose(
        &mut self,
        start: Nanos,
        now: Nanos,
        account: &Account,
        weight: f64,
        cover: f64,
    ) -> Worth {
        let mood = self.mood(start);
        let moment = Moment { start, now, mood: usize::from(mood) };
        // While nothing is known: the more collisions of the smallest request are saved up, the
        // less one matters.
        let saved = account.balance() / (self.ladder.0[0].1 * weight);
        let ease = if self.classes.is_none() { saved.max(1.0) } else { 1.0 };
        let (smallest, there) = (self.ladder.0[0].1, account.balance() + account.goal().mean as f64);
        let price = self.price * weight / ease;
        let usable = |delay: f64, service: f64| {
            let covered = service <= smallest || there >= cover * delay * weight;
            covered && account.allows(service as Nanos)
        };
        let (hazard, ladder) = (&self.hazard, &self.ladder);
        let find = || best_size(hazard, ladder, moment, price, usable);
        // With a period the time of day matters, and with a cover every nanosecond that is saved
        // up.
        if !hazard.timeless() || cover > 0.0 {
            return find();
        }
        let bits = ladder.0.iter().rev().fold(0, |bits, size| bits << 1 | u8::from(usable(0.0, size.1)));
        let question = Question { age: now - start, mood, usable: bits, price: price.to_bits() };
        self.answers.get(start, question, find)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::CurveError;

    #[test]
    fn the_time_before_a_beginning_is_no_quiet_time() -> Result<(), CurveError> {
        const DAY: Nanos = 86_400 * SOON;
        let curve = ServiceCurve::new(&[(64 << 10, 100_000)])?;
        let mut pricing = Pricing::new(&curve, 1_000_000, DAY, DAY);
        for begin in [DAY, 2 * DAY] {
            // A thousand a second, for 25 s: two stretches.
            (0..25_000).for_each(|i| pricing.arrived(begin + i * 1_000_000));
            let rate = pricing.rate(begin + 25 * SOON);
            assert!((0.9e-6..1.1e-6).contains(&rate), "{rate}");
            pricing.rewind(2 * DAY);
        }
        // A beginning is judged by what there was of it.
        let mut pricing = Pricing::new(&curve, 1_000_000, DAY, DAY);
        (0..2_000).for_each(|i| pricing.arrived(DAY + i * 1_000_000));
        let rate = pricing.rate(DAY + 2 * SOON);
        assert!((0.9e-6..1.1e-6).contains(&rate), "{rate}");
        Ok(())
    }

    #[test]
    fn a_rest_of_the_clock_forgets_nothing() -> Result<(), CurveError> {
        let curve = ServiceCurve::new(&[(64 << 10, 100_000)])?;
        let mut pricing = Pricing::new(&curve, 1_000_000, SOON, 0);
        let account = Account::new(crate::Goal::mean(1_000_000), 100);
        let mut history = History::new(64);
        for i in 1..=ENOUGH {
            let idle = Idle { start: i * SOON, end: (i + 1) * SOON - 1, ..Idle::default() };
            history.push(idle);
            pricing.observe(&idle);
        }
        let seen = pricing.hazard.observed();
        pricing.rewind(1_000_000 * SOON);
        pricing.fit(1_000_000 * SOON, &history, &curve, &account, 1.0);
        assert!(pricing.hazard.observed() > 0.9 * seen, "{} of {seen}", pricing.hazard.observed());
        Ok(())
    }

    #[test]
    fn large_requests_want_savings_where_somebody_is_near() -> Result<(), CurveError> {
        let curve = ServiceCurve::new(&[(64 << 10, 100_000), (4 << 20, 4_000_000)])?;
        let mut pricing = Pricing::new(&curve, 200_000, SOON, 0);
        // So low that the size alone counts.
        pricing.price = 1e-6;
        let mut account = Account::new(crate::Goal::mean(200_000), 100_000);
        let mut size = |account: &Account, age: Nanos, cover: f64| match pricing.choose(
            SOON,
            SOON + age,
            account,
            1.0,
            cover,
        ) {
            Worth::Start(bytes, _) => bytes,
            Worth::Nothing(_) => 0,
        };
        assert_eq!(size(&account, 500_000, 0.0), 4 << 20);
        let poor = size(&account, 500_000, 4.0);
        assert!((1..1 << 20).contains(&poor), "{poor}");
        assert_eq!(size(&account, 2 * SOON, 4.0), 4 << 20, "a drive that nobody uses");
        (0..200).for_each(|_| account.earn());
        assert_eq!(size(&account, 500_000, 4.0), 4 << 20);
        Ok(())
    }
}
