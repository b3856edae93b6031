//! Carries out the actions of [`settling`](super::settling): looks, waits, queries. The rule itself
//! is in `docs/design/settling.md`.

use super::checked::Hole;
use super::examine::{Examination, examine, examine_closely};
use super::settling::{Action, Decision, Event, Look, Patience, Settling, Standing, Word};
use super::witness::{evidence, hosts_now};
use crate::error::HostError;
use crate::finding::{Clause, Unsettled};
use crate::stop::Stop;
use crate::target::{Target, View};
use pumice_base::telemetry::Ledger;
use pumice_base::units::Rules;
use pumice_raid::diagnosis::{Certainty, Diagnosis, Verdict};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// The default settle time; `docs/adr/0008` has experience with half a second and with this value.
pub const SETTLE: Duration = Duration::from_secs(3);

/// The outcome for suspects.
#[derive(Debug, Default)]
pub(crate) struct Settled {
    /// Stripes that are inconsistent or busy.
    pub(crate) findings: BTreeMap<u64, Vec<Diagnosis>>,
    /// Those of them that did not settle, and the reasons.
    pub(crate) unsettled: BTreeMap<u64, (Unsettled, Clause)>,
    /// Stripes that were suspect and consistent at a later look.
    pub(crate) rechecked: u64,
    pub(crate) moved: Ledger,
}

impl Settled {
    /// Stripes that nobody was writing: those that settled, and those for which only the proof is
    /// missing that parity was built.
    pub(crate) fn undisturbed(&self, stripe: u64) -> bool {
        self.unsettled.get(&stripe).is_none_or(|(_, clause)| *clause == Clause::Whole)
    }

    /// Stripes whose equations certainly do not hold: without those that others may be writing, and
    /// those that only have unreadable places or damaged tags.
    pub(crate) fn inconsistent(&self) -> u64 {
        let stood = self.findings.iter().filter(|(stripe, _)| self.undisturbed(**stripe));
        let broken = |d: &Diagnosis| !d.verdict.is_gap() && !d.verdict.is_of_tags();
        stood.filter(|(_, diagnoses)| diagnoses.iter().any(broken)).count() as u64
    }
}

/// Examines suspects.
pub(crate) struct Settler<'p> {
    pub(crate) target: &'p Target,
    pub(crate) view: &'p View,
    /// The zero of all moments of a pass.
    pub(crate) zero: Instant,
    pub(crate) patience: Patience,
    /// Ends the waits.
    pub(crate) stop: &'p Stop,
}

/// The conditions at the beginning of a pass: asks the nodes for their hosts and, if nodes count
/// writes, reads superblocks.
///
/// # Errors
/// If a node fails.
pub(crate) fn stand(
    target: &Target,
    zero: Instant,
    in_use: bool,
    settle: Duration,
    run_by_hosts: bool,
) -> Result<Standing, HostError> {
    let array = target.array();
    let mut standing = Standing {
        in_use,
        settle,
        run_by_hosts,
        running: array.is_running(),
        counted: false,
        word: None,
        clauses: Rules::all(),
    };
    if !in_use {
        return Ok(standing);
    }
    let hosts = hosts_now(target, zero)?;
    standing.counted = hosts.nodes.iter().all(Option::is_some);
    if array.is_assumed_settled() {
        standing.word = Some(Word { events: None, hosts });
    } else if standing.counted {
        let now = evidence(target, &[])?;
        standing.note(&hosts, &now);
    } else if array.is_running() && !run_by_hosts {
        // The kernel of this machine says so.
        standing.word = Some(Word { events: Some(array.events()), hosts });
    }
    Ok(standing)
}

impl Settler<'_> {
    /// Diagnoses each suspect.
    ///
    /// # Errors
    /// If a node fails for a reason other than unreadable media.
    pub(crate) fn settle(
        &self,
        standing: &mut Standing,
        suspects: &BTreeMap<u64, Vec<Hole>>,
    ) -> Result<Settled, HostError> {
        let mut out = Settled::default();
        let running = standing.running;
        let mut settling = Settling::new(standing, self.patience, suspects.keys().copied());
        loop {
            let event = match settling.next() {
                Action::Done => return Ok(out),
                Action::Decide(stripe, decision) => {
                    self.decided(stripe, decision, running, &mut out);
                    continue;
                }
                Action::AskHosts => Event::Hosts(hosts_now(self.target, self.zero)?),
                Action::WaitUntil(until) => {
                    let wait = until.saturating_sub(self.zero.elapsed());
                    self.stop.wait(wait).map_err(|_| HostError::Interrupted)?;
                    Event::Time(self.zero.elapsed())
                }
                Action::ReadArray(stripes) => Event::Array(evidence(self.target, &stripes)?),
                Action::Look(stripe) => {
                    let holes = suspects.get(&stripe).map_or(&[][..], Vec::as_slice);
                    Event::Looked(self.look(stripe, holes, &mut out.moved)?)
                }
            };
            settling.take(event);
        }
    }

    fn decided(&self, stripe: u64, decision: Decision<Vec<Diagnosis>>, running: bool, out: &mut Settled) {
        match decision {
            Decision::Consistent => out.rechecked += 1,
            Decision::Finding(diagnoses) => {
                out.findings.insert(stripe, diagnoses);
            }
            Decision::Busy(diagnoses, clause) => {
                let journal = self.target.journal().is_some();
                out.unsettled.insert(stripe, (reason(clause, running, journal), clause));
                out.findings.insert(stripe, busy(diagnoses));
            }
        }
    }

    /// Looks at a stripe once.
    fn look(
        &self,
        stripe: u64,
        holes: &[Hole],
        moved: &mut Ledger,
    ) -> Result<Look<Vec<Diagnosis>>, HostError> {
        // Closely: no node's local memory is needed.
        let closely = !holes.is_empty() || self.view.has_tags() || self.target.is_locked();
        let seen: Examination = if closely {
            examine_closely(self.target, self.view, stripe, holes)?
        } else {
            match examine(self.target, self.view, stripe) {
                Err(HostError::LostMeanwhile { .. }) => {
                    examine_closely(self.target, self.view, stripe, holes)?
                }
                other => other?,
            }
        };
        *moved += seen.moved;
        Ok(Look {
            ended: self.zero.elapsed(),
            activity: seen.activity,
            seen: Some(seen.diagnoses).filter(|diagnoses| !diagnoses.is_empty()),
        })
    }
}

/// The clause in the words of a report.
const fn reason(clause: Clause, running: bool, journal: bool) -> Unsettled {
    match clause {
        Clause::Consistent | Clause::Apart | Clause::Agree | Clause::Quiet => Unsettled::Written,
        Clause::Stay | Clause::Heard | Clause::Shared => Unsettled::Host,
        Clause::Same => Unsettled::ArrayChanged,
        Clause::Logs if journal => Unsettled::Journal,
        Clause::Logs => Unsettled::Ppl,
        Clause::Bitmap => Unsettled::Bitmap,
        // It was clean when the pass began.
        Clause::Whole | Clause::Timely if !running => Unsettled::ArrayChanged,
        Clause::Whole => Unsettled::Unproven,
        Clause::Timely => Unsettled::Uncounted,
    }
}

/// For a busy stripe, verdicts of parity are meaningless, but refused sectors remain findings.
fn busy(mut diagnoses: Vec<Diagnosis>) -> Vec<Diagnosis> {
    for diagnosis in &mut diagnoses {
        if !diagnosis.verdict.is_gap() {
            diagnosis.verdict = Verdict::Busy;
            diagnosis.certainty = Certainty::None;
            diagnosis.testimony = None;
            diagnosis.alternatives.clear();
        }
    }
    diagnoses
}
