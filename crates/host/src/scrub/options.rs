//! The options of a scrub.

use super::settle::SETTLE;
use crate::Method;
use crate::error::HostError;
use crate::order::Order;
use crate::pass::RECONNECT;
use crate::repair::RepairPolicy;
use crate::repair::archive::KEPT_FOR;
use crate::target::Target;
use pumice_offload::{MAX_STRIPES, PaceRequest};
use pumice_parity::seed::Seed;
use std::ops::Range;
use std::time::Duration;

/// New findings after which a pass stops, unless said otherwise: an array with more is not scrubbed
/// but restored.
const MAX_FINDINGS: usize = 100_000;
/// Stripes of a batch unless said otherwise: the period of 2 in GF(2^8).
pub(crate) const BATCH: u64 = 255;

/// What to check and how. `None` where the caller leaves it to the pass.
#[derive(Debug, Clone)]
pub struct Options {
    /// How stripes are checked.
    pub method: Option<Method>,
    /// Stripes of a batch, at most.
    pub batch: Option<u64>,
    /// Accumulators of `stripe` across nodes and `aggregate`, 1 to 8.
    pub accumulators: Option<u8>,
    /// What weights and keys are drawn from, where the operator fixes it.
    pub seed: Option<Seed>,
    /// A fresh seed, for a pass that is not resumed.
    pub fresh_seed: Seed,
    /// Which stripes.
    pub range: Option<Range<u64>>,
    /// In which order.
    pub order: Option<Order>,
    /// Whether and how to repair.
    pub repair: Option<RepairPolicy>,
    /// Do everything that a repair does, up to its first write.
    pub dry_run: bool,
    /// Make adopted tags vouched ones where parity holds.
    pub vouch: bool,
    /// Go on with an interrupted pass, where there is one.
    pub resume: bool,
    /// The devices may be written meanwhile: inconsistencies must stand.
    pub in_use: bool,
    /// How long an inconsistency must stand on devices that others may be writing.
    pub settle: Duration,
    /// The pace of the nodes' reads; nothing to leave it to their own configuration.
    pub pace: PaceRequest,
    /// Another host runs the array, and its superblocks do not tell that from one that was not
    /// stopped cleanly.
    pub running_elsewhere: bool,
    /// Members that were not named, though md holds the array to have them, are no reason to call
    /// the result incomplete.
    pub accept_degraded: bool,
    /// Findings of one run of the pass after which it stops; a pass that is resumed may add as many
    /// again.
    pub max_findings: usize,
    /// How long lost connections are tried anew, since the first failure in a row; zero for not at
    /// all.
    pub reconnect: Duration,
    /// How long the bytes that repairs replaced are kept, in seconds. Older ones are deleted when a
    /// repairing pass begins.
    pub keep_repairs: u64,
}

impl Options {
    /// Whether the options make sense for an array: what can be refused before anything is opened,
    /// recovered or written.
    ///
    /// # Errors
    /// Names the option.
    pub fn check(&self, target: &Target) -> Result<(), HostError> {
        let stripes = target.layout().stripes();
        if let Some(range) = self.range.as_ref().filter(|r| r.start >= r.end || r.end > stripes) {
            return Err(HostError::Range { start: range.start, end: range.end, stripes });
        }
        if let Some(batch) = self.batch.filter(|batch| !(1..=MAX_STRIPES).contains(batch)) {
            let value = batch.to_string();
            return Err(HostError::Option { option: "--batch", value, allowed: "1 to 4194304 stripes" });
        }
        if let Some(accumulators) = self.accumulators.filter(|n| !(1..=8).contains(n)) {
            let value = accumulators.to_string();
            return Err(HostError::Option { option: "--accumulators", value, allowed: "1 to 8" });
        }
        Ok(())
    }

    /// The pass's own choices, with a fresh seed.
    #[must_use]
    pub fn with_seed(fresh_seed: Seed) -> Self {
        Self {
            method: None,
            batch: None,
            accumulators: None,
            seed: None,
            fresh_seed,
            range: None,
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
