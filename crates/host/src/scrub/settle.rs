//! From a suspicion to a finding, on drives that others may be writing.
//!
//! A stripe that is consistent at any look is consistent, whatever the counters say: the bytes that were read were. One that is not may have been read in the
//! middle of a write. It becomes a finding when two looks, some time apart, agree and
//!
//! * no write to the regions that they read began, was under way, or ended from before the first to after the second;
//! * the same hosts were associated with every node of the array all the time, and each was heard of on each of them in between: a parity write may wait in
//!   a host for as long as its path to one node is down;
//! * the journal, where the array has one, was read in between and does not name the stripe;
//! * superblocks and bad-block logs, read again afterwards, give every member the role and the state that it had.
//!
//! Otherwise it is looked at again, and after a bounded number of tries it is *busy*, for the reason that stood against it last. Where no other host is associated with any node, nobody
//! can write, and the second look follows at once. Nodes in this process do not see who else writes their devices: there the two looks alone must agree.

use super::ScrubError;
use super::check::on_each;
use super::checked::Hole;
use super::examine::{Examination, examine, examine_with_holes};
use crate::finding::Unsettled;
use crate::standing::{journal_now, objections};
use crate::stop::Stop;
use crate::target::{Target, View};
use pumice_offload::{Activity, Hosts};
use pumice_raid::diagnosis::{Certainty, Diagnosis, Verdict};
use pumice_telemetry::Ledger;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// How long an inconsistency must stand, unless the operator says otherwise: `docs/adr/0008` says what was seen with half a second, and with this.
pub const SETTLE: Duration = Duration::from_secs(3);
/// Looks after the first, at most.
const TRIES: u32 = 6;
/// How long a host may be silent: Linux sends a keep alive every half of its timeout, which is 5 s unless said otherwise.
const SILENCE: Duration = Duration::from_secs(8);
/// How often a silent host is asked after.
const POLL: Duration = Duration::from_millis(100);

/// What became of suspects.
#[derive(Debug, Default)]
pub(crate) struct Settled {
    /// Stripes that are not consistent, or would not stand still.
    pub(crate) findings: BTreeMap<u64, Vec<Diagnosis>>,
    /// Those of them that did not settle, and why.
    pub(crate) unsettled: BTreeMap<u64, Unsettled>,
    /// Stripes that were suspect and consistent at a later look.
    pub(crate) rechecked: u64,
    pub(crate) moved: Ledger,
}

impl Settled {
    /// Stripes whose equations do not hold, for sure: not those that others may be writing, nor those that have nothing but unreadable places.
    pub(crate) fn inconsistent(&self) -> u64 {
        let settled = self.findings.iter().filter(|(stripe, _)| !self.unsettled.contains_key(stripe));
        let broken = |d: &Diagnosis| !d.verdict.is_gap();
        settled.filter(|(_, diagnoses)| diagnoses.iter().any(broken)).count() as u64
    }
}

/// A suspect stripe as it was seen last.
struct Open<'s> {
    stripe: u64,
    holes: &'s [Hole],
    seen: Examination,
    /// What stood against a finding at the last look.
    why: Unsettled,
}

/// Examines suspects.
pub(crate) struct Settler<'p> {
    pub(crate) target: &'p Target,
    pub(crate) view: &'p View,
    /// Others may be writing.
    pub(crate) in_use: bool,
    /// How long an inconsistency must stand then.
    pub(crate) settle: Duration,
    /// Ends the waits.
    pub(crate) stop: &'p Stop,
}

impl Settler<'_> {
    /// Says of each suspect what is wrong with it.
    ///
    /// # Errors
    /// Where a node fails for another reason than unreadable media.
    pub(crate) fn settle(&self, suspects: &BTreeMap<u64, Vec<Hole>>) -> Result<Settled, ScrubError> {
        let mut out = Settled::default();
        if suspects.is_empty() {
            return Ok(out);
        }
        let mut witness = Witness::take(self.view)?;
        let mut open = Vec::new();
        for (stripe, holes) in suspects {
            let seen = self.look(*stripe, holes, &mut out.moved)?;
            if seen.diagnoses.is_empty() {
                out.rechecked += 1;
            } else if self.in_use {
                open.push(Open { stripe: *stripe, holes, seen, why: Unsettled::Host });
            } else {
                out.findings.insert(*stripe, seen.diagnoses);
            }
        }
        for _ in 0..TRIES {
            if open.is_empty() {
                return Ok(out);
            }
            let Some(heard) = witness.wait(self.view, self.settle, self.stop)? else {
                open.iter_mut().for_each(|suspect| suspect.why = Unsettled::Host);
                break;
            };
            let journal = journal_now(self.target)?;
            let mut looks = Vec::with_capacity(open.len());
            for suspect in &open {
                looks.push(self.look(suspect.stripe, suspect.holes, &mut out.moved)?);
            }
            let undisturbed = witness.holds_until(&heard, &Witness::take(self.view)?);
            let mut left = Vec::new();
            let mut agreed = Vec::new();
            for (mut suspect, look) in open.into_iter().zip(looks) {
                let agrees = look.diagnoses == suspect.seen.diagnoses && suspect.seen.is_quiet_until(&look);
                suspect.seen = look;
                suspect.why = if agrees { Unsettled::Host } else { Unsettled::Written };
                if suspect.seen.diagnoses.is_empty() {
                    out.rechecked += 1;
                } else if agrees && undisturbed {
                    agreed.push(suspect);
                } else {
                    left.push(suspect);
                }
            }
            let stripes: Vec<u64> = agreed.iter().map(|suspect| suspect.stripe).collect();
            let against = match stripes.is_empty() {
                true => Vec::new(),
                false => objections(self.target, journal, &stripes)?,
            };
            for (mut suspect, objection) in agreed.into_iter().zip(against) {
                if let Some(why) = objection {
                    suspect.why = why;
                    left.push(suspect);
                } else {
                    out.findings.insert(suspect.stripe, suspect.seen.diagnoses);
                }
            }
            open = left;
            witness = heard;
        }
        for suspect in open {
            out.unsettled.insert(suspect.stripe, suspect.why);
            out.findings.insert(suspect.stripe, busy(suspect.seen.diagnoses));
        }
        Ok(out)
    }

    /// Looks at a stripe once.
    fn look(&self, stripe: u64, holes: &[Hole], moved: &mut Ledger) -> Result<Examination, ScrubError> {
        let seen = if holes.is_empty() {
            match examine(self.target, self.view, stripe) {
                Err(ScrubError::LostMeanwhile { .. }) => {
                    examine_with_holes(self.target, self.view, stripe, holes)?
                }
                other => other?,
            }
        } else {
            examine_with_holes(self.target, self.view, stripe, holes)?
        };
        *moved += seen.moved;
        Ok(seen)
    }
}

/// What parity says of a stripe that would not stand still says nothing; what a drive does not give back stays so.
fn busy(mut diagnoses: Vec<Diagnosis>) -> Vec<Diagnosis> {
    for diagnosis in &mut diagnoses {
        if !diagnosis.verdict.is_gap() {
            diagnosis.verdict = Verdict::Busy;
            diagnosis.certainty = Certainty::None;
            diagnosis.alternatives.clear();
        }
    }
    diagnoses
}

impl Examination {
    /// Whether nothing was written to what both looks read, from before this one to after `later`; true where no node counts.
    fn is_quiet_until(&self, later: &Self) -> bool {
        self.activity.len() == later.activity.len()
            && self.activity.iter().zip(&later.activity).all(|pair| match pair {
                (Some(first), Some(second)) => Activity::is_quiet_until(first, second),
                (None, None) => true,
                _ => false,
            })
    }
}

/// Who was associated with the nodes of a view, and when.
struct Witness {
    asked: Instant,
    /// By share; `None` where a node cannot know.
    nodes: Vec<Option<Hosts>>,
}

impl Witness {
    fn take(view: &View) -> Result<Self, ScrubError> {
        let asked = Instant::now();
        Ok(Self { asked, nodes: on_each(&view.shares, |share| share.node.hosts())? })
    }

    /// Whether every node says that no other host is there.
    fn is_nobody(&self) -> bool {
        self.nodes.iter().all(|node| node.as_ref().is_some_and(|hosts| hosts.hosts.is_empty()))
    }

    /// Lets an inconsistency stand: until the time is over, and every host was heard of on every node since. `None` where one stays silent: then it cannot be
    /// known what it still has to write. Where hosts come and go there is nothing to wait for.
    fn wait(&self, view: &View, settle: Duration, stop: &Stop) -> Result<Option<Self>, ScrubError> {
        let sleep = |time| stop.wait(time).map_err(|_| ScrubError::Interrupted);
        if self.is_nobody() {
            return Self::take(view).map(Some);
        }
        sleep(settle.saturating_sub(self.asked.elapsed()))?;
        loop {
            let now = Self::take(view)?;
            if self.heard_by(&now) || !self.same_as(&now) || !now.same_everywhere() {
                return Ok(Some(now));
            }
            if self.asked.elapsed() > settle + SILENCE {
                return Ok(None);
            }
            sleep(POLL)?;
        }
    }

    /// Whether each host was heard of on each node between the two.
    fn heard_by(&self, later: &Self) -> bool {
        let between = later.asked.saturating_duration_since(self.asked).as_millis();
        later
            .nodes
            .iter()
            .flatten()
            .flat_map(|node| &node.hosts)
            .all(|host| u128::from(host.silent_ms) <= between)
    }

    /// Whether no association began or ended between the two.
    fn same_as(&self, later: &Self) -> bool {
        self.nodes.len() == later.nodes.len()
            && self.nodes.iter().zip(&later.nodes).all(|pair| match pair {
                (Some(a), Some(b)) => (a.epoch, a.changes) == (b.epoch, b.changes) && a.same_hosts(b),
                (None, None) => true,
                _ => false,
            })
    }

    /// Whether the same hosts are associated with every node.
    fn same_everywhere(&self) -> bool {
        let mut nodes = self.nodes.iter().flatten();
        nodes.next().is_none_or(|first| nodes.all(|node| first.same_hosts(node)))
    }

    /// Whether who was there at first was there, and heard of, all the time until the end.
    fn holds_until(&self, heard: &Self, end: &Self) -> bool {
        self.heard_by(heard) && self.same_as(end) && end.same_everywhere()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pumice_offload::AssociatedHost;

    fn witness(asked: Instant, nodes: &[(u64, &[(&str, u32)])]) -> Witness {
        let node = |(changes, hosts): &(u64, &[(&str, u32)])| {
            let host = |(name, silent_ms): &(&str, u32)| AssociatedHost {
                mark: [name.as_bytes()[0]; 32],
                silent_ms: *silent_ms,
                observer: false,
            };
            Some(Hosts { epoch: 1, changes: *changes, hosts: hosts.iter().map(host).collect() })
        };
        Witness { asked, nodes: nodes.iter().map(node).collect() }
    }

    #[test]
    fn a_host_must_be_there_and_heard_of_everywhere() {
        let start = Instant::now();
        let end = start + Duration::from_secs(3);
        let first = witness(start, &[(1, &[("a", 100)]), (1, &[("a", 100)])]);
        let good = witness(end, &[(1, &[("a", 2000)]), (1, &[("a", 3000)])]);
        assert!(first.holds_until(&good, &good));
        let silent = witness(end, &[(1, &[("a", 2000)]), (1, &[("a", 3001)])]);
        assert!(!first.holds_until(&silent, &silent), "one node has not heard of it since");
        let gone = witness(end, &[(1, &[("a", 2000)]), (2, &[])]);
        assert!(!first.holds_until(&good, &gone), "it lost one of its nodes");
        let came_back = witness(end, &[(1, &[("a", 0)]), (3, &[("a", 0)])]);
        assert!(!first.holds_until(&good, &came_back), "it lost one of its nodes for a moment");
        let apart = witness(start, &[(1, &[("a", 0)]), (1, &[])]);
        let still_apart = witness(end, &[(1, &[("a", 0)]), (1, &[])]);
        assert!(!apart.holds_until(&still_apart, &still_apart), "it has no way to one of the nodes");
    }

    #[test]
    fn nobody_is_nobody_only_where_every_node_can_tell() {
        let now = Instant::now();
        assert!(witness(now, &[(5, &[]), (9, &[])]).is_nobody());
        assert!(!witness(now, &[(5, &[]), (9, &[("a", 0)])]).is_nobody());
        assert!(!Witness { asked: now, nodes: vec![None] }.is_nobody());
    }
}
