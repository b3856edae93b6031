//! The result of a scrub.

use crate::Method;
use crate::finding::{Finding, Verdict};
use crate::members::Equations;
use crate::pass::StopReason;
use crate::pattern::Pattern;
use crate::premises::ReadMember;
use pumice_base::telemetry::Ledger;
use pumice_base::units::Role;
use pumice_offload::{LinkFigures, PaceFigures};
use pumice_raid::plan::SkipReason;
use serde::Serialize;
use std::collections::BTreeMap;
use std::ops::Range;

/// The reasons why a result is incomplete.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Unfinished {
    /// The pass ended before its end.
    Stopped,
    /// Stripes of the range could not be judged, and were left out.
    Skipped,
    /// Stripes are busy.
    Busy,
    /// Bytes of stripes were not asked for: the member's error time is spent.
    NotAsked,
    /// Fewer stripes were checked than the range has, for none of the other reasons.
    Uncovered,
    /// A member of the array was not named, and `--degraded` was not given.
    NotNamed,
}

/// Stripes that were left out, by reason.
pub type SkippedStripes = BTreeMap<SkipReason, u64>;

/// The outcome of a pass.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// The method that ran.
    pub method: Method,
    /// The members that were read, by role.
    pub read: Vec<ReadMember>,
    /// The event counts at the first and the last look at the superblocks in this run.
    pub events: (u64, u64),
    /// The findings, by place.
    pub findings: Vec<Finding>,
    /// Number of stripes in the range.
    pub stripes_asked: u64,
    /// Stripes checked, including those of earlier runs of the pass.
    pub stripes_checked: u64,
    /// Common features of findings; findings with a pattern are not repaired by default.
    pub patterns: Vec<Pattern>,
    /// Stripes in which a member refused bytes at first, and returned all of them later, by member.
    pub read_again: BTreeMap<Role, u64>,
    /// Stripes left out.
    pub skipped: SkippedStripes,
    /// Stripes that were inconsistent at the first look and consistent at a later one.
    pub rechecked: u64,
    /// Bytes checked, including those of earlier runs of the pass.
    pub bytes_checked: u64,
    /// The nodes' measurements of their pace, by role; empty without a pace.
    pub pacing: Vec<(Role, PaceFigures)>,
    /// Bytes by place.
    pub ledger: Ledger,
    /// Numbers of blocks that match their tags, by origin; blocks of origin unknown have no tag.
    /// `None` if no member has tags.
    pub tags: Option<[u64; 4]>,
    /// Adopted tags that were vouched for.
    pub vouched: u64,
    /// Upper bound of the chance that damage in a batch went unseen: the largest over all batches.
    pub miss_bound: f64,
    /// The stripes of the range.
    pub range: Range<u64>,
    /// The equations that could be checked.
    pub equations: Equations,
    /// Members of the array that were not named, unless `--degraded` was given.
    pub not_named: Vec<Role>,
    /// Traffic of the connections to the nodes, with one value for each node behind a network.
    pub links: Vec<LinkFigures>,
    /// Number of times that lost connections were re-established.
    pub reconnections: u64,
    /// Batches checked.
    pub batches: usize,
    /// Seconds spent, including earlier runs of the pass.
    pub seconds: f64,
    /// The reason why it ended early.
    pub stopped: Option<StopReason>,
}

impl Outcome {
    /// Stripes left out for a reason other than that they were never written.
    #[must_use]
    pub fn unsettled_stripes(&self) -> u64 {
        self.skipped.iter().filter(|(reason, _)| **reason != SkipReason::NeverWritten).map(|(_, n)| n).sum()
    }

    /// The reasons why the result is incomplete.
    #[must_use]
    pub fn unfinished(&self) -> Vec<Unfinished> {
        let reasons = [
            (self.stopped.is_some(), Unfinished::Stopped),
            (self.unsettled_stripes() > 0, Unfinished::Skipped),
            (self.findings.iter().any(Finding::is_busy), Unfinished::Busy),
            (self.findings.iter().any(|f| f.verdict == Verdict::NotAsked), Unfinished::NotAsked),
            (!self.not_named.is_empty(), Unfinished::NotNamed),
        ];
        let mut out: Vec<Unfinished> =
            reasons.into_iter().filter(|(holds, _)| *holds).map(|(_, reason)| reason).collect();
        if out.is_empty() && !self.covers_range() {
            out.push(Unfinished::Uncovered);
        }
        out
    }

    /// Returns whether the stripes that were checked, and those that were never written, add up to
    /// the range. A result is clean only if they do, however the pass ended.
    #[must_use]
    pub fn covers_range(&self) -> bool {
        let never_written = self.skipped.get(&SkipReason::NeverWritten).copied().unwrap_or(0);
        self.stripes_checked.checked_add(never_written) == Some(self.stripes_asked)
    }

    /// Returns whether everything that should be checked was.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.unfinished().is_empty()
    }
}
