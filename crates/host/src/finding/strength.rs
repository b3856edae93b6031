//! The strength of a verdict, as it is reported. `docs/design/repair.md` has the rules.

use crate::target::Target;
use pumice_raid::diagnosis::{self, Certainty, Diagnosis, Evidence, Gap, Testimony};
use serde::{Deserialize, Serialize};

/// The strength of the evidence for a verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Strength {
    /// A witness besides parity shows it.
    Proven,
    /// Rules R11 to R14 hold.
    Strong,
    /// A member is named, and one of those rules does not hold.
    Weak,
    /// No member is named.
    None,
}

impl Strength {
    pub(super) fn of(diagnosis: &Diagnosis, doubts: &[Doubt]) -> Self {
        match diagnosis.certainty {
            Certainty::Proven => Self::Proven,
            Certainty::Likely if diagnosis.verdict.is_of_tags() => Self::None,
            Certainty::Likely if doubts.is_empty() => Self::Strong,
            Certainty::Likely => Self::Weak,
            Certainty::None => Self::None,
        }
    }

    /// The word of a report.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Proven => "proven",
            Self::Strong => "strong evidence",
            Self::Weak => "weak evidence",
            Self::None => "no member named",
        }
    }
}

/// The reasons why a verdict that names a member is not strong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Doubt {
    /// The members' contents contradicted the syndromes: they were written meanwhile, or could not
    /// be read.
    Unstable,
    /// Part of the block could not be read.
    PartlyUnread,
    /// The error has too few different values, and is not small and alone in its stripe.
    FewValues,
    /// Two other members explain the same bytes naturally.
    Rival,
    /// The finding is part of a pattern over the pass.
    Pattern,
    /// The member's own tags match: data and tag were lost together, or other members are wrong.
    Acquitted,
    /// Nothing makes rows of this array consistent that a crash left half written.
    Torn,
}

impl Doubt {
    /// The doubt as text.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::Unstable => "the contents changed while they were read",
            Self::PartlyUnread => "part of the block could not be read",
            Self::FewValues => {
                "the error has fewer than 4 different values: similar damage of two other members would look the same"
            }
            Self::Rival => "two other members explain the same bytes (see below)",
            Self::Acquitted => {
                "the member's own tags match: a write was lost together with its tags, or other members are wrong"
            }
            Self::Torn => {
                "a write that a crash cut off would look the same: this format of arrays never makes such rows consistent"
            }
            Self::Pattern => "it is part of a pattern over the array (see above)",
        }
    }
}

impl From<diagnosis::Doubt> for Doubt {
    fn from(doubt: diagnosis::Doubt) -> Self {
        match doubt {
            diagnosis::Doubt::PartlyUnread => Self::PartlyUnread,
            diagnosis::Doubt::FewValues => Self::FewValues,
            diagnosis::Doubt::Rival => Self::Rival,
        }
    }
}

/// The doubts of a diagnosis by itself, without its pass.
pub(super) fn doubts(diagnosis: &Diagnosis, alone: bool, keeps_torn_rows: bool) -> Vec<Doubt> {
    if diagnosis.certainty != Certainty::Likely {
        return Vec::new();
    }
    if matches!(diagnosis.testimony, Some(Testimony::Convicts { .. })) || diagnosis.verdict.is_of_tags() {
        return Vec::new();
    }
    let mut doubts = match &diagnosis.evidence {
        Some(evidence) => evidence.doubts(alone).into_iter().map(Doubt::from).collect(),
        None => vec![Doubt::Unstable],
    };
    if diagnosis.testimony.is_some() {
        doubts.push(Doubt::Acquitted);
    }
    if keeps_torn_rows {
        doubts.push(Doubt::Torn);
    }
    doubts
}

/// Measurements of the error of the member that a verdict names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorFigures {
    /// Bytes in error.
    pub bytes: u32,
    /// Number of different non-zero values of the error, 1 to 255.
    pub distinct_values: u32,
    /// The value, if there is only one.
    pub value: Option<u8>,
    /// The error's period in bytes over every damaged run, 1 to 64; null without one.
    pub period: Option<u8>,
    /// Pairs of other members that explain the same bytes naturally; the first of them are listed
    /// as alternatives.
    pub live_pairs: u32,
    /// Pairs of other members that explain the same bytes at all: in RAID-6, every pair.
    pub pairs: u32,
    /// Other members, damaged at random in the same bytes, would look like the named ones with a
    /// chance of at most one in this number (R12). Absent in findings saved by older versions.
    #[serde(default)]
    pub mistaken_one_in: u64,
}

impl ErrorFigures {
    pub(super) fn of(evidence: &Evidence) -> Self {
        Self {
            bytes: evidence.bytes,
            distinct_values: evidence.values.count(),
            value: evidence.values.single(),
            period: evidence.period,
            live_pairs: evidence.rivals,
            pairs: evidence.pairs,
            mistaken_one_in: evidence.mistaken_one_in(),
        }
    }
}

/// Direction of the testimony of tags.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Says {
    /// The rebuilt blocks match their stored tags.
    Convicts,
    /// The member's own blocks match their tags.
    Acquits,
}

/// The testimony of tags about the members that a verdict names.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WitnessFigures {
    /// The direction of the testimony.
    pub says: Says,
    /// Origin of the tags: the weakest of `written`, `vouched` and `adopted`; null for `acquits`.
    pub origin: Option<String>,
    /// Bits of a guard.
    pub guard_bits: u32,
    /// The chance of a wrong conviction is at most one in this number; null for `acquits`.
    pub mistaken_one_in: Option<u64>,
}

impl WitnessFigures {
    pub(super) fn of(testimony: &Testimony) -> Self {
        match *testimony {
            Testimony::Convicts { origin, guard_bits, members } => Self {
                says: Says::Convicts,
                origin: Some(origin.name().to_owned()),
                guard_bits,
                mistaken_one_in: Some(1_u64.checked_shl(guard_bits * members).unwrap_or(u64::MAX)),
            },
            Testimony::Acquits { guard_bits } => {
                Self { says: Says::Acquits, origin: None, guard_bits, mistaken_one_in: None }
            }
        }
    }
}

/// A block that tags convict.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct WrongBlock {
    /// The member.
    pub member: u16,
    /// First byte on its device.
    pub device_offset: u64,
    /// Bytes.
    pub length: u32,
    /// CRC-64/NVME of its contents; null if they are one byte repeated.
    pub found: Option<u64>,
    /// CRC-64/NVME of the right contents.
    pub wanted: u64,
}

impl WrongBlock {
    pub(super) fn of(target: &Target, stripe: u64, wrong: &diagnosis::WrongBlock) -> Self {
        let device_offset = target.place(wrong.role, stripe, wrong.start);
        let (length, found, wanted) = (wrong.len, wrong.found, wrong.wanted);
        Self { member: wrong.role.0, device_offset, length, found, wanted }
    }
}

/// A block whose content belongs at another place of its drive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Misdirected {
    /// The member.
    pub member: u16,
    /// First byte of the block on its device.
    pub device_offset: u64,
    /// The place on the same device where its contents belong.
    pub belongs_at: u64,
}

/// Missing sectors of one member.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LostPlace {
    /// The member.
    pub member: u16,
    /// Its device.
    pub device: Option<String>,
    /// First byte on that device.
    pub device_offset: Option<u64>,
    /// First byte within the chunk.
    pub chunk_offset: u32,
    /// Bytes; whole sectors.
    pub length: u32,
}

impl LostPlace {
    pub(super) fn of(target: &Target, stripe: u64, gap: &Gap) -> Self {
        let member = target.member(gap.role);
        Self {
            member: gap.role.0,
            device: member.map(|member| member.device.clone()),
            device_offset: member.map(|_| target.place(gap.role, stripe, gap.start)),
            chunk_offset: gap.start,
            length: gap.len,
        }
    }
}
