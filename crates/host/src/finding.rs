//! Findings: the diagnosis of damage, as it is reported.

mod strength;
mod verdict;

pub use verdict::Verdict;

pub use strength::{Doubt, ErrorFigures, LostPlace, Misdirected, Says, Strength, WitnessFigures, WrongBlock};

use crate::target::Target;
use pumice_base::units::Role;
use pumice_raid::diagnosis;
use serde::{Deserialize, Serialize};
use std::fmt;

/// The reason why a stripe is [`Busy`](Verdict::Busy): why its inconsistency did not count at the
/// last look.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unsettled {
    /// It was written, or its bytes changed, between two looks.
    Written,
    /// A host may hold back a write to it.
    Host,
    /// The journal may hold a write to it.
    Journal,
    /// Superblocks, or a log beside them, changed during the scrub.
    ArrayChanged,
    /// A partial parity log names it.
    Ppl,
    /// Its bit in the bitmap is set.
    Bitmap,
    /// Nothing shows that parity was whole since the array was started.
    Unproven,
    /// Nothing counts the writes to these drives, and the array is in use.
    Uncounted,
}

impl Unsettled {
    /// The reason, and advice, as text.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::Written => {
                "it was written between two looks; scrub it again when there are fewer writes to the array"
            }
            Self::Host => {
                "hosts connected or disconnected, or one was silent: a host may hold back a write to it, or have left a write half done; scrub it again when the hosts that run the array are connected to every node, or after a resync"
            }
            Self::Journal => {
                "the write journal holds writes to it, or cannot be read to its end; further writes to the array remove old entries: scrub it again then"
            }
            Self::ArrayChanged => {
                "the superblocks changed during the scrub: the array was started, or a member failed, returned or is being rebuilt; scrub it again in the present state"
            }
            Self::Ppl => {
                "a partial parity log names it: it may be half written; further writes to the array remove old entries: scrub it again then"
            }
            Self::Bitmap => {
                "its bit in the bitmap is set: it is being written, or waits for a resync; md clears the bit about 10 s after the last write or after the resync, but not while a member is missing; scrub it again then"
            }
            Self::Unproven => {
                "nothing shows that parity has been complete since the array was started: an array that resyncs after a crash looks the same; scrub it once the array has been idle for a second or, if it has no journal and no PPL, give it a bitmap"
            }
            Self::Uncounted => {
                "the array is in use and has no bitmap, and nothing counts the writes to devices of this machine; scrub it when the array has been idle for a second, or give it a bitmap"
            }
        }
    }
}

/// A clause of the rule by which an inconsistency becomes a finding: `docs/design/settling.md`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Clause {
    /// A consistent look is conclusive.
    #[serde(rename = "S1")]
    Consistent,
    /// The looks are apart.
    #[serde(rename = "S2")]
    Apart,
    /// The looks agree.
    #[serde(rename = "S3")]
    Agree,
    /// Nothing wrote.
    #[serde(rename = "S4")]
    Quiet,
    /// The hosts stay.
    #[serde(rename = "S5")]
    Stay,
    /// The hosts are heard.
    #[serde(rename = "S6")]
    Heard,
    /// The array is what it was.
    #[serde(rename = "S7")]
    Same,
    /// No log names the stripe.
    #[serde(rename = "S8")]
    Logs,
    /// No bitmap bit is set.
    #[serde(rename = "S9")]
    Bitmap,
    /// Parity was known whole.
    #[serde(rename = "S10")]
    Whole,
    /// The evidence is of that time.
    #[serde(rename = "S11")]
    Timely,
    /// All this is for drives that somebody may write.
    #[serde(rename = "S12")]
    Shared,
}

impl fmt::Display for Clause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // In the order of the page, from 1 on.
        write!(f, "S{}", *self as u8 + 1)
    }
}

/// The certainty of a verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Certainty {
    /// A witness besides parity shows it: the drive itself, protection information, a stored
    /// fingerprint.
    Proven,
    /// Parity indicates it; the alternatives are listed.
    Likely,
    /// No member is named.
    None,
}

/// Another explanation of the same inconsistent bytes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Alternative {
    /// The verdict that it would be.
    pub verdict: Verdict,
    /// The roles that would be wrong; empty if they cannot be named.
    pub members: Vec<u16>,
    /// A possible cause.
    pub reason: String,
}

/// A detected inconsistency with its diagnosis. Field names are those of the JSON report.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// The stripe, from 0.
    pub stripe: u64,
    /// The kind of damage.
    pub verdict: Verdict,
    /// The role, if one member is named.
    pub member: Option<u16>,
    /// The roles, if there are several: named members, the candidates of an ambiguous verdict, or
    /// the holders of copies that differ.
    pub members: Vec<u16>,
    /// The device, if one member is named.
    pub device: Option<String>,
    /// Offset of the bytes on that device.
    pub device_offset: Option<u64>,
    /// First inconsistent byte within the chunk.
    pub chunk_offset: u64,
    /// Bytes from the first to the last inconsistent one.
    pub length: u64,
    /// Offset of the bytes in the array; `None` for parity, and if no single member is named,
    /// unless copies differ.
    pub array_offset: Option<u64>,
    /// Addresses of the bytes in the array, ascending. If data members are named, all of them are
    /// affected; otherwise these are the addresses of all data members of the stripe, and some are
    /// affected. Absent in findings saved by older versions.
    #[serde(default)]
    pub array_places: Vec<u64>,
    /// The certainty of the verdict.
    pub certainty: Certainty,
    /// Other explanations.
    pub alternatives: Vec<Alternative>,
    /// The strength of the evidence: rules R11 to R14 of `docs/design/repair.md`.
    pub strength: Strength,
    /// Reasons for doubt, if a member is named and the evidence is not strong.
    pub doubts: Vec<Doubt>,
    /// True if it is strong only on the assumption that two members are not hit in the very same
    /// bytes (R12).
    pub assumes_one_hit: bool,
    /// Measurements of the named member's error.
    pub error: Option<ErrorFigures>,
    /// The testimony of the tags about the named members. Absent in findings saved by older
    /// versions.
    #[serde(default)]
    pub witness: Option<WitnessFigures>,
    /// The first 8 blocks that tags convict. Absent in findings saved by older versions.
    #[serde(default)]
    pub wrong_blocks: Vec<WrongBlock>,
    /// The first of these blocks that is misdirected, and the place where it belongs (R25).
    #[serde(default)]
    pub misdirected: Option<Misdirected>,
    /// The missing sectors of an `unreadable` or `not_asked` verdict.
    pub lost: Vec<LostPlace>,
    /// True if the bytes were rewritten and verified.
    pub repaired: bool,
    /// True if a dry run would have rewritten them.
    pub would_repair: bool,
    /// The reason why a repair left them alone, as text.
    pub left_alone: Option<String>,
    /// The reason, if it is busy.
    pub unsettled: Option<Unsettled>,
    /// The clause that did not hold, if it is busy. Absent in findings saved by older versions.
    #[serde(default)]
    pub clause: Option<Clause>,
}

impl From<&diagnosis::Verdict> for Verdict {
    fn from(verdict: &diagnosis::Verdict) -> Self {
        match verdict {
            diagnosis::Verdict::Member(_) => Self::Member,
            diagnosis::Verdict::Parity { row, .. } => Self::Parity(*row),
            diagnosis::Verdict::Copy(_) => Self::Copy,
            diagnosis::Verdict::CopiesDiffer(_) => Self::CopiesDiffer,
            diagnosis::Verdict::Several(_) => Self::Several,
            diagnosis::Verdict::Unlocated => Self::Unlocated,
            diagnosis::Verdict::Ambiguous(_) => Self::Ambiguous,
            diagnosis::Verdict::Busy => Self::Busy,
            diagnosis::Verdict::Unreadable(_) => Self::Unreadable,
            diagnosis::Verdict::NotAsked(_) => Self::NotAsked,
            diagnosis::Verdict::TagDamaged(_) => Self::TagDamaged,
            diagnosis::Verdict::TagLost(_) => Self::TagLost,
        }
    }
}

impl From<diagnosis::Certainty> for Certainty {
    fn from(certainty: diagnosis::Certainty) -> Self {
        match certainty {
            diagnosis::Certainty::Proven => Self::Proven,
            diagnosis::Certainty::Likely => Self::Likely,
            diagnosis::Certainty::None => Self::None,
        }
    }
}

/// The possible places of a diagnosis's bytes in the array.
fn array_places(
    target: &Target,
    stripe: u64,
    diagnosis: &diagnosis::Diagnosis,
    accused: &[Role],
) -> Vec<u64> {
    let all = (0..target.array().geometry().raid_disks()).map(Role);
    let roles: Vec<Role> = match &diagnosis.verdict {
        diagnosis::Verdict::Unreadable(roles)
        | diagnosis::Verdict::NotAsked(roles)
        | diagnosis::Verdict::CopiesDiffer(roles)
        | diagnosis::Verdict::TagDamaged(roles)
        | diagnosis::Verdict::TagLost(roles) => roles.clone(),
        _ if accused.is_empty() => all.collect(),
        _ => accused.to_vec(),
    };
    let place = |role: &Role| target.layout().array_offset(stripe, role.index(), u64::from(diagnosis.start));
    let mut places: Vec<u64> = roles.iter().filter_map(place).collect();
    places.sort_unstable();
    // Copies of a chunk have one address.
    places.dedup();
    places
}

fn numbers(roles: &[Role]) -> Vec<u16> {
    roles.iter().map(|role| role.0).collect()
}

impl Finding {
    /// The finding of a diagnosis, with devices and places. `alone` means that the stripe has no
    /// other finding. `unsettled` is the reason why its stripe did not settle; verdicts that need
    /// no settling ignore it.
    #[must_use]
    pub fn new(
        target: &Target,
        stripe: u64,
        diagnosis: &diagnosis::Diagnosis,
        alone: bool,
        unsettled: Option<(Unsettled, Clause)>,
    ) -> Self {
        let unsettled = unsettled.filter(|_| diagnosis.verdict == diagnosis::Verdict::Busy);
        let accused = diagnosis.verdict.accused();
        let doubts = strength::doubts(diagnosis, alone);
        let members = match (&diagnosis.verdict, accused.as_slice()) {
            (
                diagnosis::Verdict::Ambiguous(roles)
                | diagnosis::Verdict::NotAsked(roles)
                | diagnosis::Verdict::CopiesDiffer(roles),
                _,
            ) => numbers(roles),
            (_, several @ [_, _, ..]) => numbers(several),
            _ => Vec::new(),
        };
        let one = match accused.as_slice() {
            [role] => target.member(*role).map(|member| (*role, member)),
            _ => None,
        };
        // All copies of a chunk have the same address.
        let addressed = match &diagnosis.verdict {
            diagnosis::Verdict::CopiesDiffer(roles) => roles.first().copied(),
            _ => one.map(|(role, _)| role),
        };
        let alternatives = diagnosis.alternatives.iter().map(|alternative| Alternative {
            verdict: (&alternative.verdict).into(),
            members: numbers(&alternative.verdict.accused()),
            reason: alternative.reason.to_owned(),
        });
        Self {
            stripe,
            verdict: (&diagnosis.verdict).into(),
            member: one.map(|(role, _)| role.0),
            members,
            device: one.map(|(_, member)| member.device.clone()),
            device_offset: one.map(|(role, _)| target.place(role, stripe, diagnosis.start)),
            chunk_offset: u64::from(diagnosis.start),
            length: u64::from(diagnosis.len),
            array_offset: addressed.and_then(|role| {
                target.layout().array_offset(stripe, role.index(), u64::from(diagnosis.start))
            }),
            array_places: array_places(target, stripe, diagnosis, &accused),
            certainty: diagnosis.certainty.into(),
            alternatives: alternatives.collect(),
            strength: Strength::of(diagnosis, &doubts),
            assumes_one_hit: doubts.is_empty()
                && diagnosis.evidence.as_ref().is_some_and(diagnosis::Evidence::assumes_one_hit),
            doubts,
            error: diagnosis.evidence.as_ref().map(ErrorFigures::of),
            witness: diagnosis.testimony.as_ref().map(WitnessFigures::of),
            wrong_blocks: diagnosis.wrong.iter().map(|wrong| WrongBlock::of(target, stripe, wrong)).collect(),
            misdirected: None,
            lost: diagnosis.gaps.iter().map(|gap| LostPlace::of(target, stripe, gap)).collect(),
            repaired: false,
            would_repair: false,
            left_alone: None,
            unsettled: unsettled.map(|(why, _)| why),
            clause: unsettled.map(|(_, clause)| clause),
        }
    }

    /// Returns whether members are named, and the rebuilt blocks match their tags (R18).
    #[must_use]
    pub fn is_convicted(&self) -> bool {
        self.names_a_member() && self.witness.as_ref().is_some_and(|witness| witness.says == Says::Convicts)
    }

    /// Returns whether members are named, so that a repair needs evidence.
    #[must_use]
    pub const fn names_a_member(&self) -> bool {
        matches!(self.verdict, Verdict::Member | Verdict::Copy | Verdict::Parity(_) | Verdict::Several)
    }

    /// Adds a doubt, so that the verdict is no longer strong.
    pub(crate) fn doubt(&mut self, doubt: Doubt) {
        if !self.doubts.contains(&doubt) {
            self.doubts.push(doubt);
        }
        if self.strength == Strength::Strong && !self.is_convicted() {
            self.strength = Strength::Weak;
        }
        self.assumes_one_hit = false;
    }

    /// Returns whether two findings concern the same bytes and have the same verdict.
    pub(crate) fn is_same_place(&self, other: &Self) -> bool {
        (self.stripe, self.verdict, self.member, self.chunk_offset, self.length)
            == (other.stripe, other.verdict, other.member, other.chunk_offset, other.length)
            && self.members == other.members
    }

    /// Returns whether its stripe is busy.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        self.verdict == Verdict::Busy
    }

    /// Returns whether the stripe could not be judged completely: it is busy, or bytes of it were
    /// not asked for.
    #[must_use]
    pub const fn is_unjudged(&self) -> bool {
        matches!(self.verdict, Verdict::Busy | Verdict::NotAsked)
    }
}
