//! The end of a pass: busy stripes are looked at again.

use super::run::Pass;
use super::settle::Settler;
use super::settling::Patience;
use crate::error::HostError;
use crate::finding::Finding;
use crate::pass::Observer;
use std::collections::{BTreeMap, BTreeSet};

/// Most busy stripes that are looked at again.
const MAX_AGAIN: usize = 1024;

impl Pass<'_> {
    /// Looks again at all busy stripes together: since then bits may have been cleared, a resync
    /// may have progressed, or a host may have returned.
    pub(super) fn look_again(&mut self, observer: &mut dyn Observer) -> Result<(), HostError> {
        let busy = self.saved.findings.iter().filter(|finding| finding.is_busy());
        let stripes: BTreeSet<u64> = busy.map(|finding| finding.stripe).take(MAX_AGAIN).collect();
        let mut left = stripes.into_iter().peekable();
        while let Some(first) = left.peek().copied() {
            let view = self.take_view(first)?;
            let border = self.target.borders().into_iter().find(|border| *border > first);
            let mut suspects = BTreeMap::new();
            while let Some(stripe) = left.next_if(|stripe| border.is_none_or(|border| *stripe < border)) {
                suspects.insert(stripe, Vec::new());
            }
            let settler = Settler {
                target: self.target,
                view: &view,
                zero: self.began,
                patience: Patience::End,
                stop: self.stop,
            };
            let settled = settler.settle(&mut self.standing, &suspects)?;
            self.saved.findings.retain(|finding| !suspects.contains_key(&finding.stripe));
            self.saved.ledger += settled.moved;
            self.saved.rechecked += settled.rechecked;
            for (stripe, diagnoses) in &settled.findings {
                let unsettled = settled.unsettled.get(stripe).copied();
                for diagnosis in diagnoses {
                    let alone = diagnoses.len() == 1;
                    let finding = Finding::new(self.target, *stripe, diagnosis, alone, unsettled);
                    observer.finding(&finding);
                    self.saved.findings.push(finding);
                }
            }
            self.put_view(first, view);
        }
        Ok(())
    }
}
