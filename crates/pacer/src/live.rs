//! Slowdown as it is measured on a drive that serves requests side by side.
//!
//! Time is cut into stages. While background work is near (`Drain`, `On`, `Settle`) *every*
//! foreground request that arrives is charged its response less the baseline, signed; while none is
//! near (`Off`) every one teaches the baseline. Nothing is picked by what happened to a request,
//! only by when it arrived, so the mean of the charges is the true mean slowdown, whatever starts
//! depend on (the trials of medicine call this *intention to treat*).
//!
//! ```text
//!   Off ── a start beside foreground is wanted ──▶ Drain ── who arrived in Off is done ──▶ On ── none in progress ──▶ Settle ──▶ Off
//!    └──────── a start on an idle drive ────────────────────────────────────────────────▶ ▲└──────── another start ──────┘
//! ```
//!
//! `Settle` lasts until the drive is idle and has served one more, or until all that were in
//! progress are done, and then all that were in progress then, and so on for a few generations: the
//! queue that background work made is gone by then.

use crate::baseline::Baseline;
use crate::cost::Costs;
use crate::price::Ladder;
use crate::{Account, Nanos, SIZES};

/// Generations of foreground requests until the queue that background work made is gone.
const GENERATIONS: u32 = 6;
/// Foreground requests charged for each one that must be left clear.
const CHARGED_PER_CLEAR: f64 = 9.0;
/// Clear requests in one gap, at least; more where many are in progress at once.
const GAP: f64 = 32.0;
/// Longest time for which a gap holds back background work on an idle drive.
const HOLD: Nanos = 800_000_000;
/// A burst is what comes after so long an idleness.
const BURST_AFTER: Nanos = 100_000_000;
/// A generation that takes longer is not waited for.
const PATIENCE: Nanos = 1_000_000_000;
/// Arrivals of which the rate is taken.
const RATE_OF: u32 = 32;
/// The share of what is earned that is spent as it comes while the account is empty, and the
/// savings (in requests' earnings) at which half the goal more is.
const EAGER: f64 = 0.9;
const SAVINGS: f64 = 1_000.0;
/// So many arrivals that could not be used to start beside them halve what is expected of that.
const UNSPENT: u32 = 32;

/// Entry in the account for a foreground request that is done.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Charged {
    /// It was near background work, and slowed by so many nanoseconds.
    Near(f64),
    /// It was clear. Those before it were charged so many nanoseconds too much.
    Clear(f64),
}

/// Balance that starts beside foreground requests must leave in the account, in times of the
/// smallest background request: a debt when the foreground stops would keep an idle drive unused.
const RESERVE: f64 = 8.0;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Off,
    Drain,
    On,
    Settle,
}

#[derive(Debug, Clone)]
pub(crate) struct Live {
    stage: Stage,
    since: Nanos,
    /// Requests that arrived up to then are waited for; how many are left; and for how many
    /// generations more.
    mark: Nanos,
    pending: u32,
    generations: u32,
    /// Nobody has arrived since the last background request.
    untouched: bool,
    /// Window of arrivals that teach the baseline.
    window: (Nanos, Nanos),
    /// Window of arrivals that began a burst while background work was in progress: the baseline,
    /// learned in the midst of bursts, is too high for them.
    fresh: (Nanos, Nanos),
    /// Clear requests that are owed, and whether background work waits for them.
    owed: f64,
    gap: bool,
    level_changed: bool,
    /// Requests in progress that an arrival finds while background work is near.
    busy_level: f64,
    /// True if a background request of this run was started beside foreground requests.
    beside: bool,
    /// Foreground requests expected to be met in this run, and their slowdown.
    met: f64,
    slowdown: f64,
    /// Arrivals in this run, and those that found as much to spend as may be saved; and whether the
    /// size of the next run is chosen.
    arrivals: u32,
    full: u32,
    chosen: bool,
    /// Arrivals in a row that found as much to spend beside foreground requests as may be saved,
    /// while nothing was started there.
    unspent: u32,
    /// Cost still expected of requests in progress.
    pending_cost: f64,
    /// Amount that may be spent beside foreground requests now; it spreads starts evenly.
    tokens: f64,
    /// The share of the goal that is spent beside foreground requests.
    pub(crate) share: f64,
    rate: f64,
    rate_count: u32,
    rate_since: Nanos,
    /// Of background requests that were started on an idle drive: slowdown, and the time that the
    /// first arrival had to wait.
    idle_slowdown: f64,
    idle_collided: f64,
    longest: Nanos,
    baseline: Baseline,
    costs: Costs,
}

impl Live {
    pub(crate) fn new(now: Nanos) -> Self {
        Self {
            stage: Stage::Off,
            since: now,
            mark: 0,
            pending: 0,
            generations: 0,
            untouched: false,
            window: (now, Nanos::MAX),
            fresh: (Nanos::MAX, Nanos::MAX),
            owed: GAP,
            gap: true,
            level_changed: false,
            busy_level: 0.0,
            beside: false,
            met: 0.0,
            slowdown: 0.0,
            arrivals: 0,
            full: 0,
            chosen: false,
            unspent: 0,
            pending_cost: 0.0,
            tokens: 0.0,
            share: 1.0,
            rate: 0.0,
            rate_count: 0,
            rate_since: now,
            idle_slowdown: 0.0,
            idle_collided: 0.0,
            longest: 0,
            baseline: Baseline::new(),
            costs: Costs::new(),
        }
    }

    fn gap_length(&self) -> f64 {
        GAP.max(4.0 * self.baseline.level().max(self.busy_level))
    }

    /// A foreground request arrived, and found `outstanding` others, or the drive idle for `idle`.
    pub(crate) fn arrived(
        &mut self,
        now: Nanos,
        outstanding: u32,
        idle: Nanos,
        ladder: &Ladder,
        account: &Account,
    ) {
        if outstanding == 0 && idle >= BURST_AFTER && self.stage == Stage::On {
            self.fresh = (now, Nanos::MAX);
        }
        self.rate_count += 1;
        if self.rate_count >= RATE_OF {
            let passed = now.saturating_sub(self.rate_since).max(1) as f64;
            self.rate = f64::from(self.rate_count) / passed;
            (self.rate_count, self.rate_since) = (0, now);
        }
        let goal = account.goal().mean as f64;
        let eager = (EAGER + account.balance() / (2.0 * SAVINGS * goal.max(1.0))).clamp(0.5, 1.5);
        let most = 2.0 * self.costs.expected(self.costs.size(), ladder, outstanding + 1, self.rate);
        self.tokens = (self.tokens + goal * self.share * eager).min(most);
        if self.stage != Stage::Off {
            self.arrivals += 1;
            self.full += u32::from(self.tokens >= most);
        }
        // Savings for starts beside foreground requests that find no moment there buy more on the
        // idle drive.
        self.unspent = if self.tokens >= most && !self.gap { self.unspent + 1 } else { 0 };
        if self.unspent >= UNSPENT {
            self.unspent = 0;
            self.costs.lower();
        }
        if self.stage == Stage::Off {
            self.baseline.arrived(outstanding);
            self.busy_level = self.baseline.level();
            return;
        }
        if std::mem::take(&mut self.untouched) {
            (self.since, self.mark, self.pending) = (now, now, 1);
        }
        self.busy_level += (f64::from(outstanding) - self.busy_level) / 64.0;
        self.owed += 1.0 / CHARGED_PER_CLEAR;
        let level = self.baseline.level();
        if self.busy_level > 2.0 * level + 4.0 || self.busy_level < level / 2.0 - 2.0 {
            self.level_changed = true;
        }
        if self.level_changed || self.owed >= self.gap_length() {
            self.owed = self.owed.max(self.gap_length());
            self.gap = true;
        }
    }

    /// A foreground request is done, `left` are in progress still. `overlap` is for how long
    /// background work was in progress at most while it was: an upper bound where the baseline is
    /// unknown.
    pub(crate) fn completed(
        &mut self,
        now: Nanos,
        (arrived, waited): (Nanos, Nanos),
        bytes: u64,
        left: u32,
        overlap: Nanos,
    ) -> Charged {
        let response = now.saturating_sub(arrived).saturating_add(waited);
        // None of its time near background work: neither the wait before it was told of, nor the
        // rest.
        let clear = self.window.0 <= arrived.saturating_sub(waited) && arrived < self.window.1;
        let charge = if clear {
            let too_much = self.baseline.add(now, bytes, response);
            self.owed = (self.owed - 1.0).max(-4.0 * GAP);
            if self.owed <= 0.0 && self.baseline.known() {
                self.gap = false;
            }
            Charged::Clear(too_much)
        } else {
            let bound = overlap.min(response) as f64;
            let fresh = self.fresh.0 <= arrived && arrived < self.fresh.1;
            let least = if fresh { bound } else { f64::NEG_INFINITY };
            let charge = self.baseline.slowdown(bytes, response, self.longest, least).unwrap_or(bound);
            if self.beside {
                self.slowdown += charge;
            } else {
                self.idle_slowdown += charge;
            }
            self.pending_cost *= 1.0 - 0.5 / f64::from(left + 1);
            Charged::Near(charge)
        };
        if arrived <= self.mark {
            self.pending = self.pending.saturating_sub(1);
        }
        if left == 0 {
            (self.pending, self.generations) = (0, 0);
        }
        self.go_on(now, left);
        charge
    }

    /// Leaves `Drain` and `Settle` when it is time.
    fn go_on(&mut self, now: Nanos, outstanding: u32) {
        if self.untouched {
            return;
        }
        let late = now.saturating_sub(self.since) > PATIENCE;
        match self.stage {
            Stage::Drain if self.pending == 0 || late => self.enter(Stage::On, now),
            Stage::Settle if late => self.off(now),
            Stage::Settle if self.pending == 0 => {
                self.generations = self.generations.saturating_sub(1);
                if self.generations == 0 || outstanding == 0 {
                    self.off(now);
                } else {
                    (self.mark, self.pending) = (now, outstanding);
                }
            }
            _ => {}
        }
    }

    fn enter(&mut self, stage: Stage, now: Nanos) {
        (self.stage, self.since) = (stage, now);
    }

    fn off(&mut self, now: Nanos) {
        self.enter(Stage::Off, now);
        self.window = (now, Nanos::MAX);
        if self.beside {
            self.measured();
        }
        if std::mem::take(&mut self.level_changed) {
            self.baseline.level_changed();
        }
    }

    fn settle(&mut self, now: Nanos, outstanding: u32) {
        if outstanding == 0 && self.beside {
            self.measured();
        }
        self.enter(Stage::Settle, now);
        // The next to arrive finds a disk's arm where background work has left it: it is no example
        // of a clear one.
        self.untouched = outstanding == 0;
        (self.mark, self.pending, self.generations) = (now, outstanding, GENERATIONS);
    }

    fn measured(&mut self) {
        self.costs.observe(self.costs.size(), self.met, self.slowdown);
        (self.met, self.slowdown) = (0.0, 0.0);
        self.pending_cost = 0.0;
    }

    /// Until when background work waits on an idle drive, so that some foreground requests stay
    /// clear.
    pub(crate) fn hold(&self, idle_since: Nanos) -> Nanos {
        if self.gap { idle_since.saturating_add(HOLD) } else { 0 }
    }

    /// Decides about a start beside `outstanding` foreground requests: bytes and expected
    /// slowdown, or the time to ask again.
    pub(crate) fn want(
        &mut self,
        now: Nanos,
        outstanding: u32,
        in_flight: usize,
        ladder: &Ladder,
        account: &Account,
    ) -> Result<(u64, f64), Nanos> {
        self.go_on(now, outstanding);
        let size = self.costs.size();
        let expected = self.costs.expected(size, ladder, outstanding, self.rate);
        let service = ladder.0[size].1 as Nanos;
        let needed = self.pending_cost + expected + RESERVE * ladder.0[0].1;
        let affordable = self.tokens >= expected && account.balance() >= needed && account.allows(service);
        let wanted = affordable && !self.gap && self.baseline.known();
        match self.stage {
            Stage::Off if wanted && !self.chosen => {
                let short = 2 * self.full < self.arrivals;
                self.costs.choose(ladder, account.goal(), outstanding, self.rate, short);
                self.chosen = true;
                // Asked again at once: what another size needs may have to be saved up first.
                Err(now)
            }
            Stage::Off if wanted => {
                (self.arrivals, self.full, self.chosen) = (0, 0, false);
                self.enter(Stage::Drain, now);
                self.beside = true;
                (self.mark, self.pending) = (now, outstanding);
                self.window.1 = now;
                Err(now.saturating_add(PATIENCE + 1))
            }
            Stage::Off => Err(Nanos::MAX),
            Stage::Drain => Err(self.since.saturating_add(PATIENCE + 1)),
            Stage::On | Stage::Settle if wanted => Ok((SIZES[size], expected)),
            Stage::On if in_flight == 0 => {
                self.settle(now, outstanding);
                Err(Nanos::MAX)
            }
            Stage::On | Stage::Settle => Err(Nanos::MAX),
        }
    }

    /// A background request starts.
    pub(crate) fn started(
        &mut self,
        now: Nanos,
        outstanding: u32,
        bytes: u64,
        ladder: &Ladder,
        expected: f64,
    ) {
        if self.stage == Stage::Off {
            self.window.1 = now;
        }
        if self.stage == Stage::Off || self.untouched {
            (self.beside, self.untouched) = (false, false);
        }
        self.enter(Stage::On, now);
        if outstanding > 0 {
            self.beside = true;
            self.unspent = 0;
            self.tokens -= expected;
        }
        if self.beside {
            let size = SIZES.iter().position(|&s| s >= bytes).unwrap_or(SIZES.len() - 1);
            self.met += Costs::met(size, ladder, outstanding, self.rate);
            self.pending_cost += expected;
        }
    }

    /// A background request is done after `took`, `left` are in progress still; the first arrival
    /// beside it, if it was started on an idle drive, had to wait for `collided`.
    pub(crate) fn ended(&mut self, now: Nanos, took: Nanos, left: usize, outstanding: u32, collided: Nanos) {
        self.longest = (self.longest - self.longest / 64).max(took);
        if !self.beside {
            self.idle_collided += collided as f64;
            if self.idle_collided > 1e12 {
                self.idle_collided /= 2.0;
                self.idle_slowdown /= 2.0;
            }
        }
        self.fresh.1 = self.fresh.1.min(now);
        if left == 0 && self.stage == Stage::On {
            self.settle(now, outstanding);
        }
    }

    /// Slowdown for each nanosecond that the first arrival beside a background request must wait
    /// for its end.
    pub(crate) fn weight(&self, ladder: &Ladder) -> f64 {
        // As if 20 of the smallest requests had been met at 1.
        let prior = 20.0 * ladder.0[0].1;
        ((self.idle_slowdown + prior) / (self.idle_collided + prior)).clamp(0.02, 50.0)
    }

    /// Bytes for a nanosecond of slowdown, beside foreground requests; 0 while nothing was tried.
    pub(crate) fn price(&self) -> f64 {
        self.costs.price()
    }

    /// Another account is opened: what was charged to the last one is no longer corrected.
    pub(crate) fn account_opened(&mut self) {
        self.baseline.account_opened();
    }

    /// Time begins anew on an idle drive; what was learned stays.
    pub(crate) fn rewind(&mut self, now: Nanos) {
        self.baseline.rewind();
        let fresh = Self::new(now);
        *self = Self {
            owed: self.owed,
            gap: self.gap,
            share: self.share,
            rate: self.rate,
            idle_slowdown: self.idle_slowdown,
            idle_collided: self.idle_collided,
            longest: self.longest,
            baseline: self.baseline.clone(),
            costs: self.costs.clone(),
            ..fresh
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CurveError, Goal, ServiceCurve};

    #[test]
    fn what_finds_no_moment_beside_foreground_requests_loses_its_price() -> Result<(), CurveError> {
        let ladder = Ladder::new(&ServiceCurve::new(&[(64 << 10, 100_000), (4 << 20, 1_000_000)])?);
        let account = Account::new(Goal::mean(200_000), 100_000);
        let mut live = Live::new(0);
        live.costs.observe(0, 1_000.0, 1_000.0);
        live.gap = false;
        let expected = live.price();
        assert!(expected > 0.0);
        // Requests that are gone before anything could be started beside them, 3 ms apart.
        (0..320).for_each(|i| live.arrived(i * 3_000_000, 0, 2_990_000, &ladder, &account));
        assert!(live.price() < expected / 250.0, "{}", live.price());
        // One start, and it is worth something again.
        let before = live.price();
        live.started(1_000_000_000, 1, 64 << 10, &ladder, 1.0);
        (0..20).for_each(|i| live.arrived(1_000_000_000 + i * 3_000_000, 0, 2_990_000, &ladder, &account));
        assert_eq!(live.price(), before);
        Ok(())
    }
}
