//! The end of a pass: a look at the stripes of which writes may wait in the journal.

use super::examine::examine_closely;
use super::run::{Extra, Pass};
use crate::error::HostError;
use crate::locks::Purpose;
use pumice_raid::plan::{SkipReason, Treatment};
use std::collections::BTreeMap;

/// Most stripes that are looked at. md leaves one or two in the journal of an array that it stops.
const MOST: u64 = 256;

impl Pass<'_> {
    /// Looks once at each stripe that was left out because of the journal, and takes those from
    /// `skipped` that are consistent: such a look is conclusive (S1 of `docs/design/settling.md`).
    /// Any other stays left out, and nothing of it is a finding: the journal may have its right
    /// contents (S8).
    ///
    /// # Errors
    /// If a node fails.
    pub(super) fn look_at_pending(
        &mut self,
        skipped: &mut BTreeMap<SkipReason, u64>,
    ) -> Result<(), HostError> {
        let is_known = self.target.array().is_journal_known();
        let Some(pending) = skipped.get_mut(&SkipReason::JournalPending).filter(|n| is_known && **n <= MOST)
        else {
            return Ok(());
        };
        let ranges = self.saved.key.ranges();
        let extents = ranges.iter().flat_map(|range| self.target.array().plan(range.clone()));
        let held = extents.filter(|extent| extent.kind == Treatment::Skip(SkipReason::JournalPending));
        let (mut extra, mut left) = (Extra::default(), *pending);
        for stripe in held.flat_map(|extent| extent.stripes) {
            if self.stop.is_raised() {
                return Err(HostError::Interrupted);
            }
            let _lock = self.target.lock(stripe..stripe + 1, Purpose::Check, self.stop)?;
            let view = self.target.view(stripe)?;
            let seen = examine_closely(self.target, &view, stripe, &[])?;
            self.saved.ledger += seen.moved;
            if seen.diagnoses.is_empty() {
                left = left.saturating_sub(1);
                extra.stripes += 1;
                extra.bytes += view.present() as u64 * u64::from(self.target.chunk(stripe));
            }
        }
        // Both or none: a pass that ends before this has looked at none of them.
        *pending = left;
        skipped.retain(|_, stripes| *stripes > 0);
        self.extra = extra;
        Ok(())
    }
}
