//! The report of a scrub: the JSON document, and the exit code. The contract is in `docs/json.md`.

use crate::finding::Finding;
use crate::scrub::{Outcome, StopReason};
use crate::target::Target;
use pumice_telemetry::Ledger;
use serde::Serialize;
use std::collections::BTreeMap;

/// The array as the report names it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ArrayIdentity {
    /// The UUID in mdadm's form.
    pub uuid: String,
    /// Its name; empty for 0.90, which has none.
    pub name: String,
    /// The RAID level.
    pub level: i32,
    /// mdadm's name of the layout; `None` for RAID-4.
    pub layout: Option<String>,
    /// The metadata version, such as "1.2".
    pub metadata: String,
    /// Bytes of a chunk.
    pub chunk_bytes: u64,
    /// Members of the whole array.
    pub raid_disks: u16,
    /// Stripes.
    pub stripes: u64,
}

impl ArrayIdentity {
    /// The identity of a target's array.
    #[must_use]
    pub fn of(target: &Target) -> Self {
        let array = target.array();
        let geometry = target.geometry();
        Self {
            uuid: array.uuid().to_string(),
            name: array.name().to_owned(),
            level: geometry.level().number(),
            layout: geometry.layout().map(|layout| layout.to_string()),
            metadata: array.metadata().to_string(),
            chunk_bytes: geometry.chunk_bytes(),
            raid_disks: geometry.raid_disks(),
            stripes: geometry.stripes(),
        }
    }
}

/// The verdict on the array as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ArrayResult {
    /// Everything was checked and nothing found.
    Clean,
    /// Everything was checked and something found.
    Findings,
    /// Not everything was checked.
    Incomplete,
}

impl ArrayResult {
    /// The exit code: 0 clean, 1 findings, 3 incomplete. (2 is for a scrub that could not run.)
    #[must_use]
    pub const fn exit_code(self) -> u8 {
        match self {
            Self::Clean => 0,
            Self::Findings => 1,
            Self::Incomplete => 3,
        }
    }
}

/// The JSON document of a scrub.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// Which array.
    pub array: ArrayIdentity,
    /// The method that ran.
    pub method: &'static str,
    /// The verdict.
    pub result: ArrayResult,
    /// Why the pass ended before its end; `None` where it did not.
    pub stopped: Option<String>,
    /// Stripes checked, resumed ones included.
    pub stripes_checked: u64,
    /// Stripes left out.
    pub stripes_skipped: u64,
    /// Stripes left out, by reason.
    pub skipped: BTreeMap<String, u64>,
    /// Stripes that were written while they were read, and consistent when they were looked at again.
    pub stripes_rechecked: u64,
    /// Bytes checked.
    pub bytes_checked: u64,
    /// What was found.
    pub findings: Vec<Finding>,
    /// Bytes by place.
    pub ledger: Ledger,
    /// The chance that damage of a batch went unseen, at most.
    pub miss_bound: f64,
    /// Seconds.
    pub seconds: f64,
}

impl Report {
    /// The report of a pass.
    #[must_use]
    pub fn new(target: &Target, outcome: &Outcome) -> Self {
        let result = if !outcome.is_complete() {
            ArrayResult::Incomplete
        } else if outcome.findings.is_empty() {
            ArrayResult::Clean
        } else {
            ArrayResult::Findings
        };
        Self {
            array: ArrayIdentity::of(target),
            method: outcome.method.name(),
            result,
            stopped: outcome.stopped.as_ref().map(|stop| match stop {
                StopReason::Interrupted => "interrupted".to_owned(),
                StopReason::Failed(why) => why.clone(),
                StopReason::TooManyFindings => "too many findings".to_owned(),
            }),
            stripes_checked: outcome.stripes_checked,
            stripes_skipped: outcome.skipped.values().sum(),
            skipped: outcome.skipped.iter().map(|(reason, n)| (reason.to_string(), *n)).collect(),
            stripes_rechecked: outcome.rechecked,
            bytes_checked: outcome.bytes_checked,
            findings: outcome.findings.clone(),
            ledger: outcome.ledger,
            miss_bound: outcome.miss_bound,
            seconds: outcome.seconds,
        }
    }
}
