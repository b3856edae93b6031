//! Choice of a background request: worth its start now, and of the best size.

use super::Pacer;
use crate::price::Worth;
use crate::{Begin, Nanos, Policy, Rest, Starter};

/// Savings needed for a start on an idle drive where slowdown is measured, in times of its expected
/// slowdown. Requests that arrive one after another all wait for a large request, and the
/// expectation covers the first alone; in debt nothing is started, though small requests would
/// bring most for the earnings.
const COVER: f64 = 4.0;

impl<S: Starter> Pacer<S> {
    pub(super) fn worth(&mut self, now: Nanos) -> Worth {
        if self.policy.ignores_foreground() {
            return self.choose(now);
        }
        if self.outstanding == 0 {
            let held = self.live.as_ref().map_or(0, |live| live.hold(self.idle_since));
            if held > now && self.figures.foreground > 0 && self.policy.holds_goal() {
                return Worth::Nothing(held);
            }
            if self.live.is_some() && self.policy.holds_goal() && self.account.balance() < 0.0 {
                let forgiven = self.account.forgiven_at(self.idle_since);
                if forgiven > now {
                    return Worth::Nothing(forgiven);
                }
                self.account.forgive();
            }
            return self.choose(now);
        }
        let (Some(live), Some(pricing)) = (&mut self.live, &mut self.pricing) else {
            return Worth::Nothing(Nanos::MAX);
        };
        live.share = pricing.divide(live.price());
        match live.want(now, self.outstanding, self.flights.len(), &self.ladder, &self.account) {
            Ok((bytes, expected)) => Worth::Start(bytes, expected),
            Err(until) => Worth::Nothing(until.max(now + 1)),
        }
    }

    fn choose(&mut self, now: Nanos) -> Worth {
        let weight = self.weight();
        match &self.policy {
            Policy::BackToBack { bytes } => Worth::Start(*bytes, 0.0),
            Policy::Other(starter) => {
                let (idle_since, issued) = (self.idle_since, self.issued);
                let last_done = (self.figures.background > 0).then_some(self.last_flight.1);
                match starter.begin(Rest { now, idle_since, issued, last_done }) {
                    Begin::Now(bytes) => Worth::Start(bytes, 0.0),
                    Begin::At(time) => Worth::Nothing(time),
                    Begin::Never => Worth::Nothing(Nanos::MAX),
                }
            }
            Policy::Priced => {
                let Some(pricing) = &mut self.pricing else { return Worth::Nothing(Nanos::MAX) };
                if let Some(live) = &mut self.live {
                    live.share = pricing.divide(live.price());
                }
                pricing.fit(now, &self.history, &self.curve, &self.account, weight);
                let cover = if self.live.is_some() { COVER } else { 0.0 };
                pricing.choose(self.idle_since, now, &self.account, weight, cover)
            }
        }
    }
}
