//! From suspects to decisions.

use super::messages::{Action, Decision, Event, Look};
use super::{ArrayNow, HostsSeen, Moment, Standing};
use crate::finding::Clause;
use std::collections::VecDeque;
use std::time::Duration;

/// Time for which a host may be silent beyond the settle time: Linux sends a keep alive after half
/// of its timeout, which is 5 s by default.
const SILENCE: Duration = Duration::from_secs(8);
/// Longest interval between queries for hosts during a wait.
const POLL: Duration = Duration::from_millis(100);

/// The number of further looks at a stripe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Patience {
    /// Within a batch: stripes that would take long are left to the end of the pass.
    Batch,
    /// At the end of a pass.
    End,
}

impl Patience {
    /// Most looks after the first.
    const fn tries(self) -> u32 {
        match self {
            Self::Batch => 2,
            Self::End => 6,
        }
    }

    /// Returns whether it may help to look again soon.
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
    /// The last inconsistent state that was seen.
    seen: Option<D>,
    against: Clause,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Asking hosts before the first look.
    Begin,
    /// Looking at each stripe, this one next.
    Look(usize),
    /// Letting time pass until hosts are asked again.
    Wait(Moment),
    /// Asking hosts until the second look is due and each was heard since.
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
    /// The settle time after the last look. Hosts must be heard of since; a silence that began
    /// later does not matter.
    apart: Moment,
    /// Time at which the second look is due: after the settle time, or later if a host was silent.
    due: Moment,
    /// The silence of a host that was silent for longer than the settle time and has not been heard
    /// again.
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
            apart: Moment::ZERO,
            due: Moment::ZERO,
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

    /// The next action.
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

    /// Accepts the answer to the action that [`next`](Self::next) returned.
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

    /// After the first looks: consistent stripes are decided (S1), and drives that nobody can write
    /// need no second look (S12).
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
        let nobody = self.base.as_ref().is_some_and(HostsSeen::is_nobody);
        let apart = self.standing.heeds(Clause::Apart) && !nobody;
        self.apart = if apart { self.ended + self.standing.settle } else { self.ended };
        self.due = self.apart;
        self.silence = None;
        if let Some(base) = self.base.take() {
            self.note_silence(&base);
            self.base = Some(base);
        }
        self.phase = Phase::Poll;
    }

    /// The remaining stripes are busy.
    fn give_up(&mut self) {
        for open in self.open.drain(..) {
            let decision = open.seen.map_or(Decision::Consistent, |seen| Decision::Busy(seen, open.against));
            self.decided.push_back((open.stripe, decision));
        }
        self.phase = Phase::Done;
    }

    /// Handles the answer about hosts during the wait or after it. If hosts have connected or
    /// disconnected, waiting is useless.
    fn polled(&mut self, hosts: HostsSeen) {
        let stayed = self.base.as_ref().is_some_and(|base| base.stayed_until(&hosts));
        if !stayed || !hosts.is_same_everywhere() {
            self.end_wait(hosts);
            return;
        }
        self.note_silence(&hosts);
        let heeds = self.standing.heeds(Clause::Heard);
        let silent = heeds && self.silence.is_some();
        if hosts.asked >= self.due && (!heeds || !silent && hosts.heard_since(self.apart)) {
            self.end_wait(hosts);
        } else if hosts.asked > self.due + SILENCE || hosts.asked > self.ended + self.longest_wait() {
            self.open.iter_mut().for_each(|open| open.against = Clause::Heard);
            self.give_up();
        } else {
            let next = hosts.asked + self.pause();
            // Before it is due there is nothing to see but the hosts.
            self.phase = Phase::Wait(if hosts.asked < self.due { next.min(self.due) } else { next });
        }
    }

    /// A host that may write was, or is, silent for longer than the settle time: packets that the
    /// network lost meanwhile arrive later than new ones. When the host is heard again, the wait
    /// restarts, for as long as the silence was.
    fn note_silence(&mut self, hosts: &HostsSeen) {
        let settle = self.standing.settle;
        let silence = hosts.longest_silence();
        // It is asked after at intervals: the end of a silence may go unseen for as long as one.
        let began = hosts.asked.saturating_sub(silence);
        if silence + self.pause() > settle && began < self.apart {
            self.silence = self.silence.max(Some(silence));
        } else if let Some(silence) = self.silence.take()
            && self.standing.heeds(Clause::Heard)
        {
            let apart = self.standing.heeds(Clause::Apart);
            let silence = silence + self.pause();
            let wait = if apart { silence.clamp(settle, settle + SILENCE) } else { Duration::ZERO };
            self.due = self.due.max(hosts.asked + wait);
        }
    }

    fn end_wait(&mut self, hosts: HostsSeen) {
        self.heard = Some(hosts);
        self.phase = if self.standing.heeds(Clause::Timely) { Phase::Read } else { Phase::Look(0) };
    }

    /// Between two questions for hosts.
    fn pause(&self) -> Duration {
        POLL.min(self.standing.settle / 8)
    }

    /// The limit of a wait from the end of a look, even if the path to a host comes and goes.
    fn longest_wait(&self) -> Duration {
        (self.standing.settle + SILENCE) * 3
    }

    /// The reason against a finding, if any, by the looks and hosts.
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
            .or_else(|| fails(Clause::Heard, !heard.heard_since(self.apart)))
    }

    /// Decides the stripes that can be decided, and looks at the rest again.
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
