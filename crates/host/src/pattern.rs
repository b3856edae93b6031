//! Patterns over the findings of a pass: rule R14 of `docs/design/repair.md`.
//!
//! Random damage differs from place to place. Many similar findings have one cause, such as
//! exchanged members or a wiped member, and then the verdicts of parity cannot be trusted.

use crate::finding::{Doubt, Finding, Verdict};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// Fewest findings that make a pattern.
const ENOUGH: usize = 8;
/// Fewest members on which `parity_q` to `parity_7` make a pattern.
const Q_MEMBERS: usize = 3;
/// Of ten stripes that were checked, how many are inconsistent at least if the array as a whole is.
const OF_TEN: u64 = 9;

/// A common feature of findings.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Pattern {
    /// Errors repeat with the same period.
    Period {
        /// Bytes.
        period: u8,
        /// Findings that share it.
        findings: usize,
    },
    /// Errors have one value each, the same.
    Value {
        /// Value that is XORed into the bytes.
        value: u8,
        /// Findings that share it.
        findings: usize,
    },
    /// The same member is named, at the same place of the chunk.
    Place {
        /// The role.
        member: u16,
        /// First byte within the chunk.
        chunk_offset: u64,
        /// Bytes.
        length: u64,
        /// Findings that share it.
        findings: usize,
    },
    /// Nearly every stripe is inconsistent, and no single member explains it.
    Everywhere {
        /// Findings in those stripes.
        findings: usize,
        /// The stripes.
        stripes: u64,
        /// Stripes that were checked.
        checked: u64,
    },
    /// Q, or another parity after the first, is wrong on several members.
    ParityQ {
        /// The roles.
        members: Vec<u16>,
        /// Findings of that kind.
        findings: usize,
    },
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Period { period, findings } => write!(
                f,
                "{findings} errors repeat every {period} bytes: a controller or driver that fills blocks, not damage of single sectors"
            ),
            Self::Value { value, findings } => write!(
                f,
                "{findings} errors change the same bits ({value:#04x}): a stuck line or a bad memory cell"
            ),
            Self::Place { member, chunk_offset, length, findings } => write!(
                f,
                "{findings} findings are {length} bytes at {chunk_offset} of the chunk, on member {member}: it was wiped, replaced or assembled wrongly; fail it and let md rebuild it"
            ),
            Self::Everywhere { stripes, checked, .. } => write!(
                f,
                "{stripes} of the {checked} stripes checked are inconsistent, and no single member explains it: the array was created over old contents without a resync (--assume-clean), or created again with another order, chunk, layout or data offset; repair nothing before that is clear"
            ),
            Self::ParityQ { members, findings } => write!(
                f,
                "Q, or another parity after the first, is wrong in {findings} places on {} members: two data members may be exchanged, or the array was assembled with a wrong order or layout",
                members.len()
            ),
        }
    }
}

/// The patterns of a pass, each with the indices of its findings.
#[must_use]
pub fn patterns(findings: &[Finding]) -> Vec<(Pattern, Vec<usize>)> {
    let named = || findings.iter().enumerate().filter(|(_, f)| f.names_a_member() && !f.is_convicted());
    let half = named().count().div_ceil(2);
    let mut out = Vec::new();
    let mut by_period: BTreeMap<u8, Vec<usize>> = BTreeMap::new();
    let mut by_value: BTreeMap<u8, Vec<usize>> = BTreeMap::new();
    let mut by_place: BTreeMap<(u16, u64, u64), Vec<usize>> = BTreeMap::new();
    let mut of_q: Vec<usize> = Vec::new();
    for (index, finding) in named() {
        if let Some(period) = finding.error.and_then(|error| error.period) {
            by_period.entry(period).or_default().push(index);
        }
        if let Some(value) = finding.error.and_then(|error| error.value) {
            by_value.entry(value).or_default().push(index);
        }
        if let Some(member) = finding.member {
            by_place.entry((member, finding.chunk_offset, finding.length)).or_default().push(index);
        }
        if matches!(finding.verdict, Verdict::Parity(row) if row >= 1) {
            of_q.push(index);
        }
    }
    for (period, group) in by_period.into_iter().filter(|(_, group)| group.len() >= ENOUGH) {
        out.push((Pattern::Period { period, findings: group.len() }, group));
    }
    let many = |group: &Vec<usize>| group.len() >= ENOUGH && group.len() >= half;
    for (value, group) in by_value.into_iter().filter(|(_, group)| many(group)) {
        out.push((Pattern::Value { value, findings: group.len() }, group));
    }
    for ((member, chunk_offset, length), group) in by_place.into_iter().filter(|(_, g)| many(g)) {
        out.push((Pattern::Place { member, chunk_offset, length, findings: group.len() }, group));
    }
    let members: BTreeSet<u16> = of_q.iter().filter_map(|index| findings[*index].member).collect();
    if members.len() >= Q_MEMBERS && of_q.len() >= half {
        let members = members.into_iter().collect();
        out.push((Pattern::ParityQ { members, findings: of_q.len() }, of_q));
    }
    out
}

/// Returns the pattern of an array that is inconsistent as a whole, of which `checked` stripes were
/// checked.
///
/// Verdicts that name one member do not count: a member that was wiped or is stale has a pattern of
/// its own, or is named in every stripe.
#[must_use]
pub fn everywhere(findings: &[Finding], checked: u64) -> Option<Pattern> {
    let unexplained = |finding: &&Finding| {
        matches!(
            finding.verdict,
            Verdict::Unlocated | Verdict::Ambiguous | Verdict::Several | Verdict::CopiesDiffer
        )
    };
    let found = || findings.iter().filter(unexplained);
    let stripes = found().map(|finding| finding.stripe).collect::<BTreeSet<u64>>().len() as u64;
    let many = stripes >= ENOUGH as u64 && stripes.saturating_mul(10) >= checked.saturating_mul(OF_TEN);
    many.then(|| Pattern::Everywhere { findings: found().count(), stripes, checked })
}

/// Makes every finding of a pattern weak, and returns the patterns of a pass that checked so many
/// stripes.
pub(crate) fn apply(findings: &mut [Finding], checked: u64) -> Vec<Pattern> {
    let found = patterns(findings);
    for index in found.iter().flat_map(|(_, group)| group) {
        findings[*index].doubt(Doubt::Pattern);
    }
    let whole = everywhere(findings, checked);
    whole.into_iter().chain(found.into_iter().map(|(pattern, _)| pattern)).collect()
}
