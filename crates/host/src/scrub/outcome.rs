//! The result of a scrub.

use crate::Method;
use crate::finding::{Finding, Verdict};
use crate::members::Equations;
use crate::pass::StopReason;
use crate::pattern::Pattern;
use pumice_offload::{LinkFigures, PaceFigures};
use pumice_raid::plan::SkipReason;
use pumice_telemetry::Ledger;
use pumice_units::Role;
use serde::Serialize;
use std::collections::BTreeMap;
use std::ops::Range;

/// Why a result is incomplete.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Unfinished {
    /// The pass ended before its end.
    Stopped,
    /// Stripes of the range could not be judged, and were left out.
    Skipped,
    /// Stripes would not stand still.
    Busy,
    /// Bytes of stripes were not asked for: the member's error time is spent.
    NotAsked,
    /// Fewer stripes were checked than were asked for, for none of the other reasons.
    Uncovered,
    /// A member that md holds the array to have was not named, and that was not accepted.
    NotNamed,
}

/// Stripes that were left out, by reason.
pub type SkippedStripes = BTreeMap<SkipReason, u64>;

/// What a pass brought.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// The method that ran.
    pub method: Method,
    /// What was found, by place.
    pub findings: Vec<Finding>,
    /// Stripes that were asked for: those of the range.
    pub stripes_asked: u64,
    /// Stripes checked, resumed ones included.
    pub stripes_checked: u64,
    /// What findings have in common: such findings are not repaired by default.
    pub patterns: Vec<Pattern>,
    /// Stripes of which a member refused bytes at first, and gave back all of them later, by
    /// member.
    pub read_again: BTreeMap<Role, u64>,
    /// Stripes left out.
    pub skipped: SkippedStripes,
    /// Stripes that looked inconsistent, and were consistent when they were looked at again:
    /// written while they were read.
    pub rechecked: u64,
    /// Bytes checked, resumed ones included.
    pub bytes_checked: u64,
    /// What the members' nodes measured of their pace, by role; nothing where there was none.
    pub pacing: Vec<(Role, PaceFigures)>,
    /// Bytes by place.
    pub ledger: Ledger,
    /// Blocks that fit their tags, by origin; those of origin unknown have none. `None` if no
    /// member has tags.
    pub tags: Option<[u64; 4]>,
    /// Adopted tags that were vouched for.
    pub vouched: u64,
    /// The chance that damage of a batch went unseen, at most: the largest over the batches.
    pub miss_bound: f64,
    /// The stripes that were asked for.
    pub range: Range<u64>,
    /// The equations that could be checked.
    pub equations: Equations,
    /// Members that md holds the array to have, that were not named, and whose absence was not
    /// accepted.
    pub not_named: Vec<Role>,
    /// What the connections to the nodes moved since they were made, a value for each node behind a
    /// network.
    pub links: Vec<LinkFigures>,
    /// How often lost connections were made anew.
    pub reconnections: u64,
    /// Batches checked.
    pub batches: usize,
    /// Seconds spent, resumed ones included.
    pub seconds: f64,
    /// Why it ended early.
    pub stopped: Option<StopReason>,
}

impl Outcome {
    /// Stripes left out for another reason than that they were never written.
    #[must_use]
    pub fn unsettled_stripes(&self) -> u64 {
        self.skipped.iter().filter(|(reason, _)| **reason != SkipReason::NeverWritten).map(|(_, n)| n).sum()
    }

    /// What keeps the result from being complete.
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

    /// Whether the stripes that were checked, and those that were never written, are all that were
    /// asked for. Nothing is clean without this, however the pass came to its end.
    #[must_use]
    pub fn covers_range(&self) -> bool {
        let never_written = self.skipped.get(&SkipReason::NeverWritten).copied().unwrap_or(0);
        self.stripes_checked.checked_add(never_written) == Some(self.stripes_asked)
    }

    /// Whether everything that should be checked was.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.unfinished().is_empty()
    }
}
