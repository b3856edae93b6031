//! The second phase of a repairing pass: the findings are read again and repaired.
//!
//! It follows the scan, because a pattern over the whole pass makes its findings weak (R14 of
//! `docs/design/repair.md`). The findings are saved before the phase begins, so an interruption
//! loses none: a resumed pass repairs the rest.

use super::run::Pass;
use super::settle::Settler;
use super::settling::Patience;
use crate::error::HostError;
use crate::finding::{Doubt, Finding, Verdict};
use crate::locks::Purpose;
use crate::pass::{Course, StopReason};
use crate::repair::{Occasion, Refusal, Repaired, Repairer, Site};
use pumice_base::telemetry::Ledger;
use std::collections::{BTreeMap, BTreeSet};

/// Most looks at one stripe: after a repair makes it readable or consistent, the stripe is judged
/// again.
const ROUNDS: usize = 3;

impl Pass<'_> {
    /// Repairs the findings, stripe by stripe. Returns the reason if it ended early.
    pub(super) fn mend(&mut self, course: &Course<'_>) -> Option<StopReason> {
        let repairer = self.repairer.take()?;
        self.saved.patterns = crate::pattern::apply(&mut self.saved.findings, self.saved.stripes_checked);
        let stopped = self.mend_all(&repairer, course);
        self.repairer = Some(repairer);
        stopped
    }

    fn mend_all(&mut self, repairer: &Repairer<'_>, course: &Course<'_>) -> Option<StopReason> {
        let failed = |error: HostError| Some(StopReason::Failed(error.to_string()));
        let open = self.saved.findings.iter().filter(|finding| !finding.repaired);
        let stripes: BTreeSet<u64> = open.map(|finding| finding.stripe).collect();
        if stripes.is_empty() {
            return None;
        }
        // From here on nothing that was found can be forgotten.
        if let Err(error) = self.try_save() {
            return failed(error);
        }
        for stripe in stripes {
            if self.stop.is_raised() {
                return Some(StopReason::Interrupted);
            }
            if let Err(error) = self.mend_stripe(repairer, stripe) {
                // A look that the signal cut short failed because of that. A repair that had begun
                // is at its end.
                return Some(course.reason(&error));
            }
            if self.is_save_due()
                && let Err(error) = self.save_confirmed()
            {
                return Some(course.reason(&error));
            }
        }
        None
    }

    fn mend_stripe(&mut self, repairer: &Repairer<'_>, stripe: u64) -> Result<(), HostError> {
        // From the first read until the repair is read back.
        let _lock = self.target.lock(stripe..stripe + 1, Purpose::Repair, self.stop)?;
        let view = self.take_view(stripe)?;
        let mut moved = Ledger::default();
        let mut result = Ok(());
        for _ in 0..ROUNDS {
            let (moved, occasion, written) = (&mut moved, Occasion::default(), Vec::new());
            let mut site = Site { view: &view, stripe, moved, occasion, written };
            match self.mend_once(repairer, &mut site) {
                Ok(true) => {}
                Ok(false) => break,
                Err(error) => {
                    result = Err(error);
                    break;
                }
            }
        }
        self.saved.ledger += moved;
        self.put_view(stripe, view);
        result
    }

    /// Looks at a stripe and repairs what is allowed. Returns whether something was repaired and
    /// something is left, so that another look is useful.
    fn mend_once(&mut self, repairer: &Repairer<'_>, site: &mut Site<'_>) -> Result<bool, HostError> {
        let stripe = site.stripe;
        let settler = Settler {
            target: self.target,
            view: site.view,
            zero: self.began,
            patience: Patience::Batch,
            stop: self.stop,
        };
        let suspects = BTreeMap::from([(stripe, Vec::new())]);
        let settled = settler.settle(&mut self.standing, &suspects)?;
        *site.moved += settled.moved;
        let diagnoses = settled.findings.get(&stripe).map_or(&[][..], Vec::as_slice);
        let unsettled = settled.unsettled.get(&stripe).copied();
        let now: Vec<Finding> = diagnoses
            .iter()
            .map(|d| Finding::new(self.target, stripe, d, diagnoses.len() == 1, unsettled))
            .collect();
        self.take_in(stripe, &now);
        let unasked = now.iter().any(|finding| finding.verdict == Verdict::NotAsked);
        let (mut repaired, mut left) = (false, false);
        // Sectors that are not there come first: bytes beside them are judged when they are back.
        // Then bytes that tags convict: parity is computed from what is right.
        let mut order: Vec<usize> = (0..diagnoses.len()).collect();
        order.sort_by_key(|index| (!diagnoses[*index].verdict.is_gap(), !now[*index].is_convicted()));
        for index in order {
            let same = |finding: &&mut Finding| finding.is_same_place(&now[index]) && !finding.repaired;
            let Some(finding) = self.saved.findings.iter_mut().find(same) else { continue };
            let done = match unasked {
                // R3: nothing is known of the whole stripe.
                true => Repaired::No { why: Refusal::NotAsked, partly: false },
                false => match repairer.repair(site, &diagnoses[index], finding) {
                    // Nothing of it was written from there on; what can be read is still judged.
                    Err(error @ HostError::NotKept { .. }) => {
                        finding.left_alone = Some(error.to_string());
                        continue;
                    }
                    done => done?,
                },
            };
            match done {
                Repaired::Yes => {
                    finding.repaired = true;
                    finding.left_alone = None;
                    repaired = true;
                }
                Repaired::Would => finding.would_repair = true,
                Repaired::No { why, partly } => {
                    let some = if partly { "in part only: " } else { "" };
                    finding.left_alone = Some(format!("{some}{why}"));
                    left = true;
                }
            }
        }
        self.take_in_lost(site, repairer.is_dry());
        Ok(repaired && left)
    }

    /// Lost sectors that were rewritten together with bytes that tags convict (R23): later looks no
    /// longer see them.
    fn take_in_lost(&mut self, site: &Site<'_>, dry: bool) {
        let open = |finding: &&mut Finding| {
            finding.stripe == site.stripe && finding.verdict == Verdict::Unreadable && !finding.repaired
        };
        for finding in self.saved.findings.iter_mut().filter(open).filter(|f| site.has_rewritten(f)) {
            finding.would_repair |= dry;
            finding.repaired |= !dry;
            finding.left_alone = None;
        }
    }

    /// Updates the findings of a stripe to its present state. A finding that still holds keeps the
    /// judgement of the pass; one that has disappeared is kept with a note; a new one is added.
    fn take_in(&mut self, stripe: u64, now: &[Finding]) {
        let pattern = self
            .saved
            .findings
            .iter()
            .any(|finding| finding.stripe == stripe && finding.doubts.contains(&Doubt::Pattern));
        for known in self.saved.findings.iter_mut().filter(|f| f.stripe == stripe && !f.repaired) {
            match now.iter().find(|finding| finding.is_same_place(known)) {
                // The evidence is that of the last look.
                Some(fresh) => *known = fresh.clone(),
                None => known.left_alone = Some("the bytes changed during or since the scan".to_owned()),
            }
        }
        for fresh in now {
            let known = |f: &Finding| f.is_same_place(fresh) && !f.repaired;
            if !self.saved.findings.iter().any(known) {
                self.saved.findings.push(fresh.clone());
            }
        }
        if pattern {
            for finding in self.saved.findings.iter_mut().filter(|f| f.stripe == stripe) {
                if finding.names_a_member() && !finding.repaired {
                    finding.doubt(Doubt::Pattern);
                }
            }
        }
    }
}
