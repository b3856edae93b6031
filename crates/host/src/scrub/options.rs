//! The options of a scrub.

use super::settle::SETTLE;
use crate::Method;
use crate::error::HostError;
use crate::order::Order;
use crate::parts::wrong_part;
use crate::pass::RECONNECT;
use crate::repair::RepairPolicy;
use crate::repair::archive::KEPT_FOR;
use crate::target::Target;
use pumice_offload::{DataNode, MAX_STRIPES, PaceRequest};
use pumice_parity::seed::Seed;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

/// Default number of new findings after which a pass stops: an array with more needs to be
/// restored, not scrubbed.
const MAX_FINDINGS: usize = 100_000;
/// Default number of stripes per batch: the period of 2 in GF(2^8).
pub(crate) const BATCH: u64 = 255;

/// The options of a scrub. `None` leaves the choice to the pass.
#[derive(Debug, Clone)]
pub struct Options {
    /// The method of checking stripes.
    pub method: Option<Method>,
    /// Most stripes per batch.
    pub batch: Option<u64>,
    /// Accumulators of `stripe` across nodes and `aggregate`, 1 to 8.
    pub accumulators: Option<u8>,
    /// The seed of weights and keys, if the operator fixes it.
    pub seed: Option<Seed>,
    /// A fresh seed, for a pass that is not resumed.
    pub fresh_seed: Seed,
    /// The stripes to check.
    pub range: Option<Range<u64>>,
    /// Several ranges within `range`, in the order in which they are checked; empty for all of it.
    pub parts: Vec<Range<u64>>,
    /// In which order.
    pub order: Option<Order>,
    /// The repair policy; `None` for no repair.
    pub repair: Option<RepairPolicy>,
    /// Do all steps of a repair before its first write.
    pub dry_run: bool,
    /// Turn adopted tags into vouched ones if parity holds.
    pub vouch: bool,
    /// Continue an interrupted pass, if there is one.
    pub resume: bool,
    /// The devices may be written during the scrub, so inconsistencies must be settled.
    pub in_use: bool,
    /// Time for which an inconsistency must stay unchanged on devices that others may be writing.
    pub settle: Duration,
    /// The pace of the nodes' reads; if empty, their own configuration applies.
    pub pace: PaceRequest,
    /// Another host probably runs the array; its superblocks alone cannot distinguish this from an
    /// array that was not stopped cleanly.
    pub running_elsewhere: bool,
    /// Members of the array that were not named do not make the result incomplete.
    pub accept_degraded: bool,
    /// Findings after which one run of the pass stops; a resumed run may add as many again.
    pub max_findings: usize,
    /// Time for attempts to reconnect, from the first of consecutive failures; zero for no attempt.
    pub reconnect: Duration,
    /// Time for which replaced bytes are kept, in seconds. Older ones are deleted when a repairing
    /// pass begins.
    pub keep_repairs: u64,
}

impl Options {
    /// Checks the options against an array, before anything is opened, recovered or written.
    ///
    /// # Errors
    /// Names the option.
    pub fn check(&self, target: &Target) -> Result<(), HostError> {
        let stripes = target.layout().stripes();
        if let Some(range) = self.range.as_ref().filter(|r| r.start >= r.end || r.end > stripes) {
            return Err(HostError::Range { start: range.start, end: range.end, stripes });
        }
        let within = self.range.clone().unwrap_or(0..stripes);
        if let Some(part) = wrong_part(&within, &self.parts) {
            return Err(HostError::Range { start: part.start, end: part.end, stripes });
        }
        if let Some(batch) = self.batch.filter(|batch| !(1..=MAX_STRIPES).contains(batch)) {
            let value = batch.to_string();
            return Err(HostError::Option { option: "--batch", value, allowed: "1 to 4194304 stripes" });
        }
        let sums = |node: &Arc<dyn DataNode>, other: &Arc<dyn DataNode>| !Arc::ptr_eq(node, other);
        let across = target.nodes().next().is_some_and(|first| target.nodes().any(|node| sums(first, node)));
        if let Some(method) = self.method.filter(|_| target.is_locked())
            && (method == Method::Aggregate || method == Method::Stripe && across)
        {
            // The volume's own writes use the nodes' local memory.
            let value = method.to_string();
            let allowed = "for a volume in service host, fingerprint, or stripe if one node has all members";
            return Err(HostError::Option { option: "--method", value, allowed });
        }
        if let Some(accumulators) = self.accumulators.filter(|n| !(1..=8).contains(n)) {
            let value = accumulators.to_string();
            return Err(HostError::Option { option: "--accumulators", value, allowed: "1 to 8" });
        }
        Ok(())
    }

    /// The defaults, with a fresh seed.
    #[must_use]
    pub fn with_seed(fresh_seed: Seed) -> Self {
        Self {
            method: None,
            batch: None,
            accumulators: None,
            seed: None,
            fresh_seed,
            range: None,
            parts: Vec::new(),
            order: None,
            repair: None,
            dry_run: false,
            vouch: false,
            resume: false,
            in_use: false,
            settle: SETTLE,
            pace: PaceRequest::default(),
            running_elsewhere: false,
            accept_degraded: false,
            max_findings: MAX_FINDINGS,
            reconnect: RECONNECT,
            keep_repairs: KEPT_FOR,
        }
    }
}
