//! The pacer of one drive: told of every foreground and background request, asked when the next
//! background request may start.

mod choice;

use crate::live::{Charged, Live};
use crate::price::{Ladder, Worth};
use crate::pricing::Pricing;
use crate::{
    Account, Charge, Config, Figures, Goal, History, Idle, Kind, Latency, Nanos, NoStarter, Policy,
    ServiceCurve, Starter, TokenBucket, Windows, Works,
};

/// Next action of the caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// Start a background request now: the pacer counts it as in progress until `background_done`.
    StartRequest {
        /// For which kind of work.
        kind: Kind,
        /// Of at most so many bytes.
        bytes: u64,
    },
    /// Ask again at this time, or after the next event.
    WaitUntil(Nanos),
    /// Ask again after the next event (arrival, completion, a kind that begins, resume).
    WaitForEvent,
}

#[derive(Debug, Clone, Copy)]
struct Flight {
    kind: Kind,
    bytes: u64,
    started: Nanos,
    /// Nanoseconds of collision that it was expected to cost.
    expected: f64,
    /// Started beside foreground requests.
    beside: bool,
    first_arrival: Option<Nanos>,
    arrivals: u32,
}

/// Paces one drive. Times are nanoseconds since any fixed moment, from one clock; a time before the
/// last one counts as the last one.
#[derive(Debug, Clone)]
pub struct Pacer<S = NoStarter> {
    policy: Policy<S>,
    charge: Charge,
    learn_service: bool,
    curve: ServiceCurve,
    account: Account,
    depth: u32,
    history: History,
    pricing: Option<Pricing>,
    bucket: Option<TokenBucket>,
    windows: Windows,
    works: Works,
    paused: bool,
    outstanding: u32,
    idle_since: Nanos,
    issued: u32,
    in_flight: usize,
    /// Background requests in progress, the oldest first; never more than `in_flight`.
    flights: Vec<Flight>,
    last_flight: (Nanos, Nanos),
    live: Option<Live>,
    ladder: Ladder,
    clear: Latency,
    met: Latency,
    shadow: Nanos,
    collided: f64,
    figures: Figures,
}

impl<S: Starter> Pacer<S> {
    /// A pacer for an idle drive without background work. All memory is taken here.
    #[must_use]
    pub fn new(config: Config<S>, now: Nanos) -> Self {
        let Config { goal, mut policy, curve, .. } = config;
        if let Policy::Other(starter) = &mut policy {
            starter.goal_set(goal);
        }
        let pricing =
            matches!(policy, Policy::Priced).then(|| Pricing::new(&curve, goal.mean, config.half_life, now));
        let measured = config.charge == Charge::Measured;
        let live = measured.then(|| Live::new(now));
        let in_flight = if measured { config.in_flight.max(1) } else { 1 };
        let ladder = Ladder::new(&curve);
        Self {
            policy,
            charge: config.charge,
            learn_service: config.learn_service,
            curve,
            account: Account::new(goal, config.depth),
            depth: config.depth,
            history: History::new(config.history),
            pricing,
            bucket: config.rate.map(|(rate, burst)| TokenBucket::new(rate, burst, now)),
            windows: config.windows,
            works: Works::new(),
            paused: false,
            outstanding: 0,
            idle_since: now,
            issued: 0,
            in_flight,
            flights: Vec::with_capacity(in_flight),
            last_flight: (0, 0),
            live,
            ladder,
            clear: Latency::default(),
            met: Latency::default(),
            shadow: 0,
            collided: 0.0,
            figures: Figures { since: now, ..Figures::default() },
        }
    }

    /// A foreground request arrived.
    pub fn foreground_arrived(&mut self, now: Nanos) {
        self.account.earn();
        self.figures.foreground += 1;
        if self.outstanding == 0 {
            self.end_idle(now);
        } else {
            self.history.arrived();
        }
        if let Some(pricing) = &mut self.pricing {
            pricing.arrived(now);
        }
        if let Some(live) = &mut self.live {
            let idle = now.saturating_sub(self.idle_since);
            live.arrived(now, self.outstanding, idle, &self.ladder, &self.account);
        }
        self.outstanding += 1;
        if self.flights.is_empty() && self.shadow > 0 && self.charge == Charge::Queued {
            self.spend(self.shadow, 1);
        }
        for flight in &mut self.flights {
            flight.first_arrival.get_or_insert(now);
            flight.arrivals += 1;
        }
    }

    fn end_idle(&mut self, now: Nanos) {
        let mood = self.pricing.as_mut().map_or(0, |pricing| pricing.mood(self.idle_since));
        let idle = Idle {
            start: self.idle_since,
            end: now.max(self.idle_since),
            predicted: self.starter().map_or(0.0, S::expected),
            arrivals: 1,
            mood,
        };
        if idle.length() == 0 {
            self.history.arrived();
            return;
        }
        self.history.push(idle);
        if let Policy::Other(starter) = &mut self.policy {
            starter.idle_ended(idle.length());
        }
        if let Some(pricing) = &mut self.pricing {
            pricing.observe(&idle);
        }
    }

    /// A foreground request of `bytes` that was told of at `arrived`, and had waited for `waited`
    /// then, is done: its response is both together.
    pub fn foreground_completed(&mut self, now: Nanos, arrived: Nanos, waited: Nanos, bytes: u64) {
        let (started, done) = self.last_flight;
        let response = now.saturating_sub(arrived).saturating_add(waited);
        let met = if let Some(live) = &mut self.live {
            let from = self.flights.first().map_or(started, |f| f.started).max(arrived);
            let to = if self.flights.is_empty() { done } else { now };
            let left = self.outstanding.saturating_sub(1);
            let charge = live.completed(now, (arrived, waited), bytes, left, to.saturating_sub(from));
            let slowdown = &mut self.figures.slowdown;
            match charge {
                Charged::Near(charge) => {
                    self.account.charge(charge);
                    slowdown.count += 1;
                    slowdown.sum += charge;
                    slowdown.max = slowdown.max.max(charge.max(0.0) as Nanos);
                }
                Charged::Clear(too_much) => {
                    self.account.give_back(too_much);
                    slowdown.sum -= too_much;
                }
            }
            matches!(charge, Charged::Near(_))
        } else {
            self.flights.iter().any(|f| f.started <= arrived) || (started <= arrived && arrived < done)
        };
        if met {
            self.figures.met.add(response);
            self.met.add(response);
        } else {
            self.figures.clear.add(response);
            self.clear.add(response);
        }
        self.outstanding = self.outstanding.saturating_sub(1);
        if self.outstanding == 0 {
            self.idle_since = now;
            self.issued = 0;
            self.shadow = 0;
            if let Policy::Other(starter) = &mut self.policy {
                starter.idle_began(&self.history, &self.curve);
            }
        }
    }

    /// A background request in progress is done, with so many bytes (fewer than granted at the end
    /// of a drive). Of several in progress it is taken to be the oldest of those that were granted
    /// so many, or else more, bytes.
    pub fn background_done(&mut self, now: Nanos, bytes: u64) {
        let same = self.flights.iter().position(|f| f.bytes == bytes);
        let Some(which) = same.or_else(|| self.flights.iter().position(|f| f.bytes > bytes)) else {
            debug_assert!(self.flights.is_empty(), "a background request is no larger than granted");
            return;
        };
        let flight = self.flights.remove(which);
        let took = now.saturating_sub(flight.started);
        if let Some(bucket) = &mut self.bucket {
            bucket.give_back(flight.bytes - bytes);
        }
        let undisturbed = self.live.is_some() || flight.first_arrival.is_none();
        if self.learn_service && bytes > 0 && took > 0 && undisturbed && self.flights.is_empty() {
            self.curve.observe(bytes, took);
            self.ladder = Ladder::new(&self.curve);
            if let Some(pricing) = &mut self.pricing {
                pricing.measured(self.ladder);
            }
        }
        self.figures.background += 1;
        self.figures.bytes[flight.kind.index()] += bytes;
        self.figures.busy += took;
        self.last_flight = (flight.started, now);
        let cost = flight.first_arrival.map_or(0, |first| now.saturating_sub(first));
        if !flight.beside
            && let Some(pricing) = &mut self.pricing
        {
            pricing.cost(flight.expected, cost as f64);
        }
        if let Some(live) = &mut self.live {
            self.figures.collisions += u64::from(flight.first_arrival.is_some() || flight.beside);
            live.ended(now, took, self.flights.len(), self.outstanding, cost);
            if cost > 0 && !flight.beside {
                self.price_anew(now);
            }
            return;
        }
        if let Some(first) = flight.first_arrival {
            let delay = now.saturating_sub(first);
            self.figures.collisions += 1;
            self.collided += delay as f64;
            let times = if self.charge == Charge::Queued { flight.arrivals } else { 1 };
            self.shadow = delay;
            self.spend(delay, times);
            self.price_anew(now);
        }
    }

    fn price_anew(&mut self, now: Nanos) {
        let weight = self.weight();
        if let Some(pricing) = &mut self.pricing {
            pricing.charged(now, &self.account, weight);
        }
    }

    fn spend(&mut self, delay: Nanos, times: u32) {
        for _ in 0..times {
            self.account.spend(delay);
            self.figures.slowdown.add(delay);
        }
    }

    /// Nanoseconds of slowdown that a nanosecond of collision has made so far: 1, or more if
    /// requests queue behind the first.
    fn weight(&self) -> f64 {
        // The first milliseconds say little: they count together with 50 ms at weight 2.
        match self.charge {
            Charge::Collision => 1.0,
            Charge::Queued => (self.figures.slowdown.sum + 1e8) / (self.collided + 5e7),
            Charge::Measured => self.live.as_ref().map_or(1.0, |live| live.weight(&self.ladder)),
        }
    }

    /// Decides on the next action. Constant time, except that a fit is made when one is due: a
    /// millisecond every 10 s, under the policy `Priced`.
    pub fn next(&mut self, now: Nanos) -> Decision {
        if self.paused || self.flights.len() >= self.in_flight {
            return Decision::WaitForEvent;
        }
        let Some(kind) = self.works.next() else { return Decision::WaitForEvent };
        let open = self.windows.open_at(now);
        if open > now {
            return Decision::WaitUntil(open);
        }
        let beside = self.outstanding > 0;
        let (bytes, expected) = match self.worth(now) {
            Worth::Start(bytes, expected) => (bytes, expected),
            Worth::Nothing(Nanos::MAX) => return Decision::WaitForEvent,
            Worth::Nothing(until) => return Decision::WaitUntil(until),
        };
        if self.policy.holds_goal() && !self.account.allows(self.curve.time(bytes)) {
            return Decision::WaitForEvent;
        }
        if let Some(bucket) = &mut self.bucket {
            let ready = bucket.ready_at(now, bytes);
            if ready > now {
                return Decision::WaitUntil(ready);
            }
            bucket.take(now, bytes);
        }
        self.works.serve(kind, bytes);
        self.issued += 1;
        if let Some(live) = &mut self.live {
            live.started(now, self.outstanding, bytes, &self.ladder, expected);
        }
        let flight = Flight { kind, bytes, started: now, expected, beside, first_arrival: None, arrivals: 0 };
        self.flights.push(flight);
        Decision::StartRequest { kind, bytes }
    }

    /// A kind of work has something to do, with a weight among the kinds.
    pub fn begin_work(&mut self, kind: Kind, weight: u32) {
        self.works.begin(kind, weight);
    }

    /// A kind of work has nothing more to do.
    pub fn end_work(&mut self, kind: Kind) {
        self.works.end(kind);
    }

    /// Starts nothing more until `resume`; what is in progress goes on.
    pub fn pause(&mut self) {
        self.paused = true;
    }

    /// Takes up work again.
    pub fn resume(&mut self) {
        self.paused = false;
    }

    /// Takes another rate limit (bytes a second, burst in bytes), or none.
    pub fn set_rate(&mut self, rate: Option<(u64, u64)>, now: Nanos) {
        self.bucket = rate.map(|(rate, burst)| TokenBucket::new(rate, burst, now));
    }

    /// Takes other times of day.
    pub fn set_windows(&mut self, windows: Windows) {
        self.windows = windows;
    }

    /// Opens a new account with a goal; figures begin anew, what was learned of the load stays.
    pub fn set_goal(&mut self, goal: Goal, now: Nanos) {
        self.account = Account::new(goal, self.depth);
        self.figures = Figures { since: now, ..Figures::default() };
        self.collided = 0.0;
        self.clear.clear();
        self.met.clear();
        if let Some(live) = &mut self.live {
            live.account_opened();
        }
        if let Policy::Other(starter) = &mut self.policy {
            starter.goal_set(goal);
        }
        if let Some(pricing) = &mut self.pricing {
            pricing.refit();
        }
    }

    /// Time begins anew at `now` on an idle drive: for simulations that go through a trace twice.
    /// All that was learned stays.
    pub fn rewind(&mut self, now: Nanos) {
        let goal = *self.account.goal();
        self.set_goal(goal, now);
        (self.outstanding, self.idle_since, self.shadow) = (0, now, 0);
        self.flights.clear();
        if let Some(live) = &mut self.live {
            live.rewind(now);
        }
        self.last_flight = (0, 0);
        if let Some(pricing) = &mut self.pricing {
            pricing.rewind(now);
        }
    }

    /// The measurements.
    #[must_use]
    pub fn figures(&self) -> &Figures {
        &self.figures
    }

    /// Response times of foreground requests that met no background request, and of those that did
    /// (under [`Charge::Measured`]: that were near one).
    #[must_use]
    pub fn latencies(&self) -> (&Latency, &Latency) {
        (&self.clear, &self.met)
    }

    /// The slowdown account.
    #[must_use]
    pub fn account(&self) -> &Account {
        &self.account
    }

    /// The idle intervals that are remembered.
    #[must_use]
    pub fn history(&self) -> &History {
        &self.history
    }

    /// Service times as they are believed now.
    #[must_use]
    pub fn curve(&self) -> &ServiceCurve {
        &self.curve
    }

    /// The policy, if it is somebody else's.
    #[must_use]
    pub fn starter(&self) -> Option<&S> {
        match &self.policy {
            Policy::Other(starter) => Some(starter),
            Policy::BackToBack { .. } | Policy::Priced => None,
        }
    }

    /// Price of slowdown in bytes a nanosecond, and the load's period in nanoseconds (0 for none),
    /// where the policy has them.
    #[must_use]
    pub fn price_and_period(&self) -> Option<(f64, Nanos)> {
        self.pricing.as_ref().map(|p| (p.price(), p.period()))
    }
}
