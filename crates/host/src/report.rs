//! The report of a scrub: the JSON document, and the exit code. The contract is in
//! `docs/reference/json.md`.

use crate::finding::Finding;
use crate::members::{AbsentMember, Equations, StripeRange};
use crate::pass::StopReason;
use crate::pattern::Pattern;
use crate::premises::ReadMember;
use crate::scrub::{Outcome, Unfinished};
use crate::target::Target;
use crate::wire::Wire;
use pumice_base::telemetry::Ledger;
use pumice_base::units::Role;
use pumice_offload::PaceFigures;
use pumice_protect::origin::Origin;
use serde::Serialize;
use std::collections::BTreeMap;

/// The array as described in the report.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ArrayIdentity {
    /// The UUID in mdadm's form.
    pub uuid: String,
    /// Its name; empty for 0.90, which has none.
    pub name: String,
    /// The RAID level.
    pub level: i32,
    /// mdadm's name of the layout; `None` for RAID-1 and RAID-4.
    pub layout: Option<String>,
    /// The metadata version, such as "1.2".
    pub metadata: String,
    /// Bytes of a chunk; of RAID-1, which has none, of a stripe on one member.
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
        let geometry = target.array().geometry();
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

/// The result for the array as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ArrayResult {
    /// The whole range was checked, without findings.
    Clean,
    /// The whole range was checked, and the only findings are copies of a mirror that differ. That
    /// is possible without damage.
    CopiesDiffer,
    /// The whole range was checked, with findings.
    Findings,
    /// Not everything was checked: [`Report::incomplete`] says why.
    Incomplete,
}

impl ArrayResult {
    /// The exit code: 0 clean, 1 findings, 3 incomplete, 4 copies differ. (2 is for a scrub that
    /// could not run.)
    #[must_use]
    pub const fn exit_code(self) -> u8 {
        match self {
            Self::Clean => 0,
            Self::Findings => 1,
            Self::Incomplete => 3,
            Self::CopiesDiffer => 4,
        }
    }
}

/// A node's measurements of the pace on one drive.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Pacing {
    /// The role of the drive.
    pub member: u16,
    /// Its device.
    pub device: String,
    /// Members whose drives share disks, and so a pacer, with it: figures of foreground requests
    /// cover all of them together.
    pub shares_disks_with: Vec<u16>,
    /// Background bytes a second.
    pub bytes_per_s: f64,
    /// Background requests.
    pub requests: u64,
    /// Foreground requests.
    pub foreground: u64,
    /// Foreground requests that met a background request.
    pub collisions: u64,
    /// The mean slowdown over all foreground requests, in milliseconds; `None` without any.
    pub mean_slowdown_ms: Option<f64>,
    /// The mean response of foreground requests with no background request near them, in
    /// milliseconds.
    pub clear_mean_ms: Option<f64>,
    /// The same of those with one near them.
    pub met_mean_ms: Option<f64>,
    /// Seconds since the least recently checked part of the drive was checked, by any scrub since
    /// the node's start.
    pub oldest_check_s: Option<u64>,
}

impl Pacing {
    fn of(target: &Target, all: &[(Role, PaceFigures)], role: Role, figures: &PaceFigures) -> Self {
        let node = |role: Role| target.member(role).map(|member| &member.node_name);
        let shares = |(other, theirs): &&(Role, PaceFigures)| {
            *other != role && theirs.paced_with == figures.paced_with && node(*other) == node(role)
        };
        let ms = |count: u64, ns: f64| (count > 0).then_some(ns / 1e6);
        Self {
            member: role.0,
            device: target.member(role).map(|member| member.device.clone()).unwrap_or_default(),
            shares_disks_with: all.iter().filter(shares).map(|(other, _)| other.0).collect(),
            bytes_per_s: figures.bytes as f64 * 1e9 / (figures.elapsed_ns.max(1)) as f64,
            requests: figures.requests,
            foreground: figures.foreground,
            collisions: figures.collisions,
            mean_slowdown_ms: ms(figures.foreground, figures.slowdown_mean_ns as f64),
            clear_mean_ms: ms(figures.clear, figures.clear_mean_ns as f64),
            met_mean_ms: ms(figures.met, figures.met_mean_ns as f64),
            oldest_check_s: figures.oldest_check_s,
        }
    }
}

/// Blocks that were read on drives with tags, by origin of their tags.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct TagCounts {
    /// Blocks that match tags written with the data.
    pub written: u64,
    /// Blocks that match vouched tags.
    pub vouched: u64,
    /// Blocks that match adopted tags.
    pub adopted: u64,
    /// Blocks without a tag.
    pub unchecked: u64,
    /// Adopted tags that this scrub vouched for.
    pub vouched_now: u64,
}

impl TagCounts {
    /// By origin, in the order of [`Origin::ALL`].
    fn new(fit: [u64; 4], vouched_now: u64) -> Self {
        let of = |origin: Origin| fit[origin as usize];
        Self {
            written: of(Origin::Written),
            vouched: of(Origin::Vouched),
            adopted: of(Origin::Adopted),
            unchecked: of(Origin::Unknown),
            vouched_now,
        }
    }
}

/// The array's event counts in the last run of a pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct EventCounts {
    /// At the start of the run.
    pub first: u64,
    /// At the last look at the superblocks.
    pub last: u64,
}

/// The JSON document of a scrub.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// The array.
    pub array: ArrayIdentity,
    /// The method that ran.
    pub method: &'static str,
    /// The verdict.
    pub result: ArrayResult,
    /// Reasons why the result is `incomplete`; empty otherwise.
    pub incomplete: Vec<Unfinished>,
    /// The reason why the pass ended early, if it did.
    pub stopped: Option<String>,
    /// The stripes of the range.
    pub range: StripeRange,
    /// The members that were read, by role.
    pub read: Vec<ReadMember>,
    /// The array's event counts.
    pub events: EventCounts,
    /// True if a member was absent from any stripe of the range.
    pub degraded: bool,
    /// The absent members.
    pub absent: Vec<AbsentMember>,
    /// Number of equations that could be checked.
    pub equations: Equations,
    /// Stripes checked, including those of earlier runs of the pass.
    pub stripes_checked: u64,
    /// Stripes left out.
    pub stripes_skipped: u64,
    /// Stripes left out, by reason.
    pub skipped: BTreeMap<String, u64>,
    /// Stripes that were inconsistent at the first look and consistent at a later one.
    pub stripes_rechecked: u64,
    /// Bytes checked.
    pub bytes_checked: u64,
    /// The findings.
    pub findings: Vec<Finding>,
    /// Common features of findings.
    pub patterns: Vec<Pattern>,
    /// Stripes in which a member refused bytes at first and returned them later, by role.
    pub stripes_read_again: BTreeMap<u16, u64>,
    /// Measurements of the pace for each drive; empty without a pace.
    pub pacing: Vec<Pacing>,
    /// Blocks with tags that were read; `None` if no member has tags.
    pub tags: Option<TagCounts>,
    /// Bytes by place.
    pub ledger: Ledger,
    /// Upper bound of the chance that damage in a batch went unseen.
    pub miss_bound: f64,
    /// The effect of the network to the nodes; `None` without a network.
    pub wire: Option<Wire>,
    /// Number of times that lost connections were re-established.
    pub reconnections: u64,
    /// Seconds.
    pub seconds: f64,
}

impl Report {
    /// The report of a pass.
    #[must_use]
    pub fn new(target: &Target, outcome: &Outcome) -> Self {
        let absent = AbsentMember::all(target, &outcome.range);
        let result = if !outcome.is_complete() {
            ArrayResult::Incomplete
        } else if outcome.findings.is_empty() {
            ArrayResult::Clean
        } else if outcome.findings.iter().all(|finding| finding.verdict.is_of_copies()) {
            ArrayResult::CopiesDiffer
        } else {
            ArrayResult::Findings
        };
        Self {
            array: ArrayIdentity::of(target),
            method: outcome.method.name(),
            result,
            incomplete: outcome.unfinished(),
            stopped: outcome.stopped.as_ref().map(|stop| match stop {
                StopReason::Interrupted => "interrupted".to_owned(),
                StopReason::Failed(why) => why.clone(),
                StopReason::ArrayChanged(what) => format!("the array changed meanwhile: {what}"),
                StopReason::TakenIntoUse(who) => format!("taken into use meanwhile: {who}"),
                StopReason::TooManyFindings => "too many findings; --resume continues".to_owned(),
            }),
            range: (&outcome.range).into(),
            read: outcome.read.clone(),
            events: EventCounts { first: outcome.events.0, last: outcome.events.1 },
            degraded: !absent.is_empty(),
            absent,
            equations: outcome.equations,
            stripes_checked: outcome.stripes_checked,
            stripes_skipped: outcome.skipped.values().sum(),
            skipped: outcome.skipped.iter().map(|(reason, n)| (reason.to_string(), *n)).collect(),
            stripes_rechecked: outcome.rechecked,
            bytes_checked: outcome.bytes_checked,
            findings: outcome.findings.clone(),
            patterns: outcome.patterns.clone(),
            stripes_read_again: outcome.read_again.iter().map(|(role, n)| (role.0, *n)).collect(),
            pacing: outcome
                .pacing
                .iter()
                .map(|(role, figures)| Pacing::of(target, &outcome.pacing, *role, figures))
                .collect(),
            tags: outcome.tags.map(|fit| TagCounts::new(fit, outcome.vouched)),
            ledger: outcome.ledger,
            miss_bound: outcome.miss_bound,
            wire: Wire::of(&outcome.links),
            reconnections: outcome.reconnections,
            seconds: outcome.seconds,
        }
    }
}
