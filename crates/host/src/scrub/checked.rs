//! The result of a check: suspects, and places that could not be read.

use crate::target::{Share, View};
use pumice_base::telemetry::Ledger;
use pumice_base::units::Role;
use pumice_offload::{ParityResult, TagReport, Unread};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// A place that a drive refused or was not asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Hole {
    pub(crate) role: Role,
    pub(crate) start: u32,
    pub(crate) len: u32,
    pub(crate) why: Unread,
    pub(crate) reason: String,
}

/// The result of a check.
#[derive(Debug, Default)]
pub(crate) struct Checked {
    /// Stripes with an inconsistency somewhere.
    pub(crate) suspects: BTreeSet<u64>,
    /// Stripes that could not be read completely, with the known places.
    pub(crate) holes: BTreeMap<u64, Vec<Hole>>,
    /// Numbers of blocks that match their tags, by origin; `None` without tags.
    pub(crate) tags: Option<[u64; 4]>,
    /// The stripe up to which each node's blocks are counted, so that repeated reads do not count
    /// again.
    counted: BTreeMap<String, u64>,
    pub(crate) moved: Ledger,
}

impl Checked {
    /// Adds a node's ledger, the size of its result over `stripes`, its report on tags, and its
    /// unreadable places; returns whether there were any of the latter.
    pub(super) fn account(
        &mut self,
        view: &View,
        share: &Share,
        stripes: Range<u64>,
        result: &ParityResult,
    ) -> bool {
        self.moved += result.moved + Ledger::arrived_at_host(result.encoded_len());
        for hole in &result.unreadable {
            let role = share.roles[hole.source];
            let known = self.holes.entry(view.stripe(hole.stripe)).or_default();
            let hole =
                Hole { role, start: hole.start, len: hole.len, why: hole.why, reason: hole.reason.clone() };
            if !known.contains(&hole) {
                known.push(hole);
            }
        }
        if let Some(tags) = &result.tags {
            self.hear(view, share, &stripes, tags);
        }
        !result.unreadable.is_empty()
    }

    /// Stripes with tags that differ, or are lost, are suspect even if their equations hold.
    fn hear(&mut self, view: &View, share: &Share, stripes: &Range<u64>, report: &TagReport) {
        self.suspects.extend(report.places.iter().map(|place| view.stripe(place.stripe)));
        if let Some(last) = report.places.last().filter(|_| report.is_cut()) {
            self.suspects.extend(view.stripe(last.stripe)..stripes.end);
        }
        let upto = self.counted.entry(share.node_name.clone()).or_default();
        if stripes.start >= *upto {
            *upto = stripes.end;
            let sums = self.tags.get_or_insert_default();
            sums.iter_mut().zip(report.fit).for_each(|(sum, fit)| *sum += fit);
        }
    }
}
