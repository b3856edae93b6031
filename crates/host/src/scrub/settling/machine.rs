//! From suspects to decisions.

use super::messages::{Action, Decision, Event, Look};
use super::{ArrayNow, HostsSeen, Moment, Standing};
use crate::finding::Clause;
use std::collections::VecDeque;
use std::time::Duration;

/// How long a host may be silent beyond the settle time: Linux sends a keep alive every half of its
/// timeout, which is 5 s unless said otherwise.
const SILENCE: Duration = Duration::from_secs(8);
/// How often a silent host is asked after.
const POLL: Duration = Duration::from_millis(100);

/// How often a stripe is looked at again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Patience {
    /// Within a batch: what would take long is left to the end of the pass.
    Batch,
    /// At the end of a pass.
    End,
}

impl Patience {
    /// Looks after the first, at most.
    const fn tries(self) -> u32 {
        match self {
            Self::Batch => 2,
            Self::End => 6,
        }
    }

    /// Whether it may help to look again soon.
    fn tries_again_after(self, clause: Clause) -> bool {
        let slow = matches!(clause, Clause::Bitmap | Clause::Whole | Clause::Timely);
        self == Self::End || !slow
    }
}

/// A stripe that is not decided.
#[derive(Debug, Clone)]
struct Open<D> {
    stripe: u64,
    last: Option<Look<D>>,
    /// The look of this round.
    now: Option<Look<D>>,
    /// What was seen last that was not consistent.
    seen: Option<D>,
    against: Clause,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Asking hosts before the first look.
    Begin,
    /// Looking at each stripe, this one next.
    Look(usize),
    /// Letting time pass.
    Wait(Moment),
    /// Asking hosts until each was heard.
    Poll,
    /// Reading the evidence between the looks.
    Read,
    /// Asking hosts after the looks.
    End,
    Done,
}

/// Settles some suspects: see the module.
#[derive(Debug)]
pub(crate) struct Settling<'s, D> {
    standing: &'s mut Standing,
    patience: Patience,
    phase: Phase,
    open: Vec<Open<D>>,
    decided: VecDeque<(u64, Decision<D>)>,
    /// Rounds that have begun: 0 are the first looks.
    round: u32,
    /// The end of the last look.
    ended: Moment,
    /// What the hosts must be heard of since: that, or when one that was silent was heard again.
    since: Moment,
    /// How long one was silent that was silent longer than the settle time, and was not heard for
    /// as long since.
    silence: Option<Duration>,
    /// The hosts before the first look of the pair.
    base: Option<HostsSeen>,
    /// The hosts before the second.
    heard: Option<HostsSeen>,
    end: Option<HostsSeen>,
    array: Option<ArrayNow>,
}

impl<'s, D: Clone + PartialEq> Settling<'s, D> {
    /// Suspects, none of them looked at yet.
    pub(crate) fn new(
        standing: &'s mut Standing,
        patience: Patience,
        suspects: impl IntoIterator<Item = u64>,
    ) -> Self {
        let open = |stripe| Open { stripe, last: None, now: None, seen: None, against: Clause::Stay };
        let open: Vec<Open<D>> = suspects.into_iter().map(open).collect();
        let phase = match (open.is_empty(), Self::is_shared(standing)) {
            (true, _) => Phase::Done,
            (false, true) => Phase::Begin,
            (false, false) => Phase::Look(0),
        };
        Self {
            standing,
            patience,
            phase,
            open,
            decided: VecDeque::new(),
            round: 0,
            ended: Moment::ZERO,
            since: Moment::ZERO,
            silence: None,
            base: None,
            heard: None,
            end: None,
            array: None,
        }
    }

    /// S12.
    fn is_shared(standing: &Standing) -> bool {
        standing.in_use && standing.heeds(Clause::Shared)
    }

    /// What is to be done next.
    pub(crate) fn next(&mut self) -> Action<D> {
        if let Some((stripe, decision)) = self.decided.pop_front() {
            return Action::Decide(stripe, decision);
        }
        let stripes = || self.open.iter().map(|open| open.stripe).collect();
        match self.phase {
            Phase::Begin | Phase::Poll | Phase::End => Action::AskHosts,
            Phase::Look(index) => Action::Look(self.open[index].stripe),
            Phase::Wait(until) => Action::WaitUntil(until),
            Phase::Read => Action::ReadArray(stripes()),
            Phase::Done => Action::Done,
        }
    }

    /// Takes the answer to the action that [`next`](Self::next) gave.
    pub(crate) fn take(&mut self, event: Event<D>) {
        match (self.phase, event) {
            (Phase::Begin, Event::Hosts(hosts)) => {
                self.base = Some(hosts);
                self.phase = Phase::Look(0);
            }
            (Phase::Look(index), Event::Looked(look)) => self.looked(index, look),
            (Phase::Wait(until), Event::Time(now)) if now < until => {}
            (Phase::Wait(_), Event::Time(_)) => self.phase = Phase::Poll,
            (Phase::Poll, Event::Hosts(hosts)) => self.polled(hosts),
            (Phase::Read, Event::Array(array)) => {
                if let Some(heard) = &self.heard {
                    self.standing.note(heard, &array);
                }
                self.array = Some(array);
                if self.standing.heeds(Clause::Timely) {
                    self.phase = Phase::Look(0);
                } else {
                    self.judge();
                }
            }
            (Phase::End, Event::Hosts(hosts)) => {
                self.end = Some(hosts);
                if self.standing.heeds(Clause::Timely) {
                    self.judge();
                } else {
                    // A test wants the evidence too late.
                    self.phase = Phase::Read;
                }
            }
            // An answer to a question that was not asked changes nothing.
            _ => {}
        }
    }

    fn looked(&mut self, index: usize, look: Look<D>) {
        self.ended = self.ended.max(look.ended);
        let open = &mut self.open[index];
        open.seen = look.seen.clone().or(open.seen.take());
        open.now = Some(look);
        if index + 1 < self.open.len() {
            self.phase = Phase::Look(index + 1);
        } else if self.round > 0 {
            self.phase = Phase::End;
        } else {
            self.first_round();
        }
    }

    /// After the first looks: what is consistent is so (S1), and drives that nobody writes need no
    /// second (S12).
    fn first_round(&mut self) {
        let shared = Self::is_shared(self.standing);
        for mut open in std::mem::take(&mut self.open) {
            let look = open.now.take();
            match look.as_ref().and_then(|look| look.seen.clone()) {
                None if self.standing.heeds(Clause::Consistent) || !shared => {
                    self.decided.push_back((open.stripe, Decision::Consistent));
                }
                Some(seen) if !shared => {
                    self.decided.push_back((open.stripe, Decision::Finding(seen)));
                }
                _ => self.open.push(Open { last: look, ..open }),
            }
        }
        self.again();
    }

    /// Begins a round, if there is anything to look at again.
    fn again(&mut self) {
        let abandoned = self.base.as_ref().is_some_and(|base| self.standing.is_abandoned(base));
        if self.open.is_empty() || abandoned || self.round >= self.patience.tries() {
            if abandoned {
                self.open.iter_mut().for_each(|open| open.against = Clause::Stay);
            }
            self.give_up();
            return;
        }
        self.round += 1;
        self.array = None;
        self.since = self.ended;
        let silence = self.base.as_ref().map_or(Duration::ZERO, HostsSeen::longest_silence);
        self.silence = Some(silence).filter(|silence| *silence > self.standing.settle);
        let nobody = self.base.as_ref().is_some_and(HostsSeen::is_nobody);
        let apart = self.standing.heeds(Clause::Apart) && !nobody;
        self.phase = if apart { Phase::Wait(self.ended + self.standing.settle) } else { Phase::Poll };
    }

    /// What is left is busy.
    fn give_up(&mut self) {
        for open in self.open.drain(..) {
            let decision = open.seen.map_or(Decision::Consistent, |seen| Decision::Busy(seen, open.against));
            self.decided.push_back((open.stripe, decision));
        }
        self.phase = Phase::Done;
    }

    /// Hosts were asked after the wait. Where hosts come and go, there is nothing to wait for.
    fn polled(&mut self, hosts: HostsSeen) {
        let settle = self.standing.settle;
        let heard = !self.standing.heeds(Clause::Heard) || hosts.heard_since(self.since);
        let stayed = self.base.as_ref().is_some_and(|base| base.stayed_until(&hosts));
        let heeds = self.standing.heeds(Clause::Heard);
        if heard && let Some(silence) = self.silence.take().filter(|_| heeds) {
            // What the network lost meanwhile comes later than what is sent now: the wait begins
            // anew, for as long as the silence was.
            self.since = hosts.asked;
            let wait = silence.clamp(settle, settle + SILENCE);
            let apart = self.standing.heeds(Clause::Apart);
            self.phase = if apart { Phase::Wait(hosts.asked + wait) } else { Phase::Poll };
        } else if heard || !stayed || !hosts.is_same_everywhere() {
            self.heard = Some(hosts);
            self.phase = if self.standing.heeds(Clause::Timely) { Phase::Read } else { Phase::Look(0) };
        } else if hosts.asked > self.since + settle + SILENCE {
            self.open.iter_mut().for_each(|open| open.against = Clause::Heard);
            self.give_up();
        } else {
            self.silence = Some(hosts.longest_silence());
            self.phase = Phase::Wait(hosts.asked + POLL);
        }
    }

    /// What stands against a finding by the looks and hosts.
    fn between(&self, open: &Open<D>) -> Option<Clause> {
        let fails = |clause, fails: bool| (self.standing.heeds(clause) && fails).then_some(clause);
        let (Some(first), Some(second)) = (&open.last, &open.now) else { return Some(Clause::Agree) };
        let (Some(base), Some(heard), Some(end)) = (&self.base, &self.heard, &self.end) else {
            return Some(Clause::Stay);
        };
        let stays = base.stayed_until(end) && end.is_same_everywhere() && !self.standing.is_abandoned(end);
        fails(Clause::Agree, first.seen != second.seen)
            .or_else(|| fails(Clause::Quiet, !first.is_quiet_until(second)))
            .or_else(|| fails(Clause::Stay, !stays))
            .or_else(|| fails(Clause::Heard, !heard.heard_since(self.looked_before())))
    }

    /// The end of the looks before those of this round: each of them had ended then.
    fn looked_before(&self) -> Moment {
        self.open
            .iter()
            .filter_map(|open| open.last.as_ref())
            .map(|look| look.ended)
            .max()
            .unwrap_or_default()
    }

    /// Decides what can be decided, and looks at the rest again.
    fn judge(&mut self) {
        let mut left = Vec::new();
        for open in &self.open {
            let Some(look) = &open.now else { continue };
            let against = self.between(open).or_else(|| match (&self.heard, &self.array, &self.end) {
                (Some(heard), Some(now), Some(end)) => self.standing.against(open.stripe, heard, now, end),
                _ => Some(Clause::Same),
            });
            let decision = match (&look.seen, against) {
                (None, _) if self.standing.heeds(Clause::Consistent) => Decision::Consistent,
                (Some(seen), None) => Decision::Finding(seen.clone()),
                (Some(seen), Some(clause)) if !self.patience.tries_again_after(clause) => {
                    Decision::Busy(seen.clone(), clause)
                }
                (_, against) => {
                    let against = against.unwrap_or(Clause::Consistent);
                    left.push(Open { last: open.now.clone(), now: None, against, ..open.clone() });
                    continue;
                }
            };
            self.decided.push_back((open.stripe, decision));
        }
        self.open = left;
        self.base = self.heard.take();
        self.end = None;
        self.again();
    }
}

#[cfg(test)]
mod tests;
