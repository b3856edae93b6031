//! Permissions of a repair, and its reasons to leave a finding alone: rules R9, R10, R15 and R17 of
//! `docs/design/repair.md`.

use crate::finding::{Finding, Strength, Verdict};
use std::fmt;
use std::str::FromStr;

/// Bytes that a repair rewrites. Lost sectors are rebuilt under every policy but
/// [`None`](Self::None).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RepairPolicy {
    /// The members that a verdict names, if the evidence is strong.
    Strong,
    /// The members that a verdict names, even if the evidence is weak.
    Likely,
    /// P and Q, computed from the present data, as md does. Damage in the data becomes permanent.
    /// On a mirror, nothing.
    Parity,
    /// Nothing.
    None,
}

impl fmt::Display for RepairPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Strong => "strong",
            Self::Likely => "likely",
            Self::Parity => "parity",
            Self::None => "none",
        })
    }
}

impl FromStr for RepairPolicy {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            // `locate` is the name of an earlier version.
            "strong" | "locate" => Ok(Self::Strong),
            "likely" => Ok(Self::Likely),
            "parity" => Ok(Self::Parity),
            "none" => Ok(Self::None),
            _ => Err(format!("'{text}' is not a repair policy: strong, likely, parity or none")),
        }
    }
}

/// The reasons why a finding was left alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The policy covers no finding of its kind.
    Policy,
    /// Copies differ, and there is no single copy that differs from all others.
    CopiesDiffer,
    /// Policy parity, and a mirror: it has none.
    NoParity,
    /// No member is named.
    NotLocated,
    /// A member is named, and the evidence is weak.
    Weak,
    /// The bytes changed during or since the scan.
    Changed,
    /// More is lost than the code can rebuild.
    Undecodable,
    /// An equation that remains somewhere in the block does not hold (R7).
    Inconsistent,
    /// The last equation would be used although a member is merely not named (R9).
    NotNamed,
    /// Bytes of the stripe were not asked for (R3).
    NotAsked,
    /// Only tags are damaged or lost (R21).
    Tags,
    /// By their tags, bytes from which parity would be computed are damaged (R22).
    Accused,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Policy => "the repair policy does not cover it",
            Self::CopiesDiffer => {
                "nothing says which copy is right; copies may differ without damage, and are equal again when \
                 the place is written"
            }
            Self::NoParity => "a mirror has no parity, and no copy counts as the original",
            Self::NotLocated => {
                "no member is named: find the files and compare them with a backup first; then, with every member present, --repair-policy parity computes parity from the data"
            }
            Self::Weak => {
                "the evidence is weak; --repair-policy likely would rewrite the named member"
            }
            Self::Changed => "the bytes changed during or since the scan",
            Self::Undecodable => "more is lost than parity can rebuild",
            Self::Inconsistent => {
                "the block is also silently damaged, so parity might rebuild wrong bytes"
            }
            Self::NotNamed => "a member of the array was not named: name it, and repair again",
            Self::Tags => {
                "no data is rewritten because of damaged tags; `pumice release` accepts a block as it is, and `pumice protect` creates tags for blocks without one"
            }
            Self::Accused => {
                "by their tags, bytes of the block are damaged: parity computed from them would make the damage permanent"
            }
            Self::NotAsked => "bytes of the stripe were not asked for, because failed reads of a member took too long",
        })
    }
}

impl Refusal {
    /// The words for a person, with the number of the stripe where a command needs it.
    #[must_use]
    pub(crate) fn words(self, stripe: u64) -> String {
        let words = self.to_string();
        match self {
            Self::NotLocated => {
                let range = format!("--repair-policy parity --range {stripe}..{}", stripe.saturating_add(1));
                words.replace("--repair-policy parity", &range)
            }
            _ => words,
        }
    }
}

impl RepairPolicy {
    /// Checks that a finding may be rewritten at all.
    pub(crate) fn allows(self, finding: &Finding) -> Result<(), Refusal> {
        match (self, finding.verdict) {
            (Self::None, _) => Err(Refusal::Policy),
            (_, Verdict::NotAsked) => Err(Refusal::NotAsked),
            (_, Verdict::Busy) => Err(Refusal::Changed),
            (_, Verdict::TagDamaged | Verdict::TagLost) => Err(Refusal::Tags),
            _ if finding.is_convicted() => Ok(()),
            (Self::Parity, verdict) if verdict.is_of_copies() => Err(Refusal::NoParity),
            (_, Verdict::CopiesDiffer) => Err(Refusal::CopiesDiffer),
            (_, Verdict::Unreadable) | (Self::Parity, _) => Ok(()),
            _ if !finding.names_a_member() => Err(Refusal::NotLocated),
            (Self::Strong, _) if finding.strength != Strength::Strong => Err(Refusal::Weak),
            (Self::Strong | Self::Likely, _) => Ok(()),
        }
    }
}
