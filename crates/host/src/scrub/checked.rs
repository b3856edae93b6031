//! What a check brings to light: suspects, and places that could not be read.

use crate::target::{Share, View};
use pumice_offload::{ParityResult, Unread};
use pumice_telemetry::Ledger;
use pumice_units::Role;
use std::collections::{BTreeMap, BTreeSet};

/// A place that a drive did not give back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Hole {
    pub(crate) role: Role,
    pub(crate) start: u32,
    pub(crate) len: u32,
    pub(crate) why: Unread,
    pub(crate) reason: String,
}

/// What a check brought to light.
#[derive(Debug, Default)]
pub(crate) struct Checked {
    /// Stripes with an inconsistency somewhere.
    pub(crate) suspects: BTreeSet<u64>,
    /// Stripes that could not be read whole, with the places that are known.
    pub(crate) holes: BTreeMap<u64, Vec<Hole>>,
    pub(crate) moved: Ledger,
}

impl Checked {
    /// Takes what a node moved, what its result weighs, and the holes that it met; tells whether
    /// there were any.
    pub(super) fn account(&mut self, view: &View, share: &Share, result: &ParityResult) -> bool {
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
        !result.unreadable.is_empty()
    }
}
