//! Derives verdicts from the syndromes of a stripe, block by block.
//!
//! # What parity can show
//! A stripe of RAID-6 gives two equations per byte position. Damage `e` of one data block in slot j
//! leaves the syndromes (e, 2^j*e), so their quotient names the slot; damage of P leaves (e, 0), of
//! Q (0, e). All bad positions of a block must name the same member; a single contradiction makes
//! the block ambiguous. RAID-4 and RAID-5, and RAID-6 with a member missing, have one equation: it
//! detects damage but cannot locate it.
//!
//! # What parity cannot show
//! It never *proves* a member. If a data block was damaged by e and the host later overwrote it by
//! read-modify-write, the new data is good, and P and Q are wrong by (e, 2^j*e): the signature of
//! that good member. P and Q damaged by the same bytes look like slot 0. And two members damaged by
//! matching bytes can look like a third. So a named member is *likely*, and the alternatives are
//! listed; certainty *proven* needs a witness: the drive, or tags ([`Testimony`]). [`Evidence`]
//! measures how well the bytes support a verdict, by rules R11 to R13 of `docs/design/repair.md`.

mod evidence;

pub use evidence::{Doubt, Evidence};

use evidence::of_block;
use pumice_base::units::Role;
use pumice_parity::array_layout::Redundancy;
use pumice_parity::check_matrix::CheckMatrix;
use pumice_parity::locate::{BlockVerdict, diagnose_block};
use pumice_protect::origin::Origin;

/// Bytes of a block, the unit of a verdict: the page of the md driver and the sector of current
/// drives.
pub const BLOCK: usize = 4096;
/// Wrong blocks of which a diagnosis keeps the sums: enough to know a write by its beginning.
pub const MOST_WRONG: usize = 8;

/// The verdict on a block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// One data block explains every inconsistent byte.
    Member(Role),
    /// Only the parity of this row disagrees: row 0 is P, row 1 is Q.
    Parity {
        /// The row.
        row: u8,
        /// The member that holds it.
        role: Role,
    },
    /// One copy differs from all others, which agree.
    Copy(Role),
    /// Copies differ, and nothing shows which is right. The members that hold them, in order.
    CopiesDiffer(Vec<Role>),
    /// These members together, and no smaller set, explain every inconsistent byte.
    Several(Vec<Role>),
    /// Inconsistent; a single equation cannot locate the damage.
    Unlocated,
    /// Inconsistent, and no single explanation fits. The members that some of the bytes name, in
    /// order.
    Ambiguous(Vec<Role>),
    /// Written while it was being read.
    Busy,
    /// The media of these members refuse some of the bytes; [`Diagnosis::gaps`] has the places.
    Unreadable(Vec<Role>),
    /// These members were not asked for some of the bytes: their error time is spent.
    NotAsked(Vec<Role>),
    /// The tags of these members differ from data that every equation confirms.
    TagDamaged(Vec<Role>),
    /// The pages with the tags of these members are lost.
    TagLost(Vec<Role>),
}

impl Verdict {
    /// The members that it names as damaged.
    #[must_use]
    pub fn accused(&self) -> Vec<Role> {
        match self {
            Self::Member(role) | Self::Copy(role) | Self::Parity { role, .. } => vec![*role],
            Self::Several(roles)
            | Self::Unreadable(roles)
            | Self::TagDamaged(roles)
            | Self::TagLost(roles) => roles.clone(),
            Self::Unlocated | Self::Ambiguous(_) | Self::CopiesDiffer(_) | Self::Busy | Self::NotAsked(_) => {
                Vec::new()
            }
        }
    }

    /// Returns whether it concerns tags alone: the data is good, or not judged.
    #[must_use]
    pub const fn is_of_tags(&self) -> bool {
        matches!(self, Self::TagDamaged(_) | Self::TagLost(_))
    }

    /// Returns whether it concerns missing bytes, not inconsistent ones.
    #[must_use]
    pub const fn is_gap(&self) -> bool {
        matches!(self, Self::Unreadable(_) | Self::NotAsked(_))
    }
}

/// The certainty of a verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Certainty {
    /// A witness besides parity shows it.
    Proven,
    /// Parity indicates it.
    Likely,
    /// No member is named.
    None,
}

/// The testimony of tags about the members that a verdict names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Testimony {
    /// The blocks differ from their tags, and the blocks rebuilt from the other members match them.
    Convicts {
        /// Origin of the tags: the weakest of all.
        origin: Origin,
        /// Bits of a guard: the fewest of all of them.
        guard_bits: u32,
        /// Members that were rebuilt without each other.
        members: u32,
    },
    /// The blocks match tags that were written with the data or vouched for.
    Acquits {
        /// Bits of a guard: the fewest of all of them.
        guard_bits: u32,
    },
}

/// A block of a member that tags convict.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WrongBlock {
    /// The member.
    pub role: Role,
    /// First byte within the chunk.
    pub start: u32,
    /// Bytes.
    pub len: u32,
    /// A 64-bit sum of its contents; `None` if they are one byte repeated.
    pub found: Option<u64>,
    /// The same sum of the right contents.
    pub wanted: u64,
}

/// Another explanation of the same bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Alternative {
    /// The other verdict.
    pub verdict: Verdict,
    /// A possible cause.
    pub reason: &'static str,
}

/// Missing sectors of one member.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gap {
    /// The member.
    pub role: Role,
    /// First byte within the chunk.
    pub start: u32,
    /// Bytes; whole sectors of the member.
    pub len: u32,
}

/// The verdict on a run of blocks of one chunk row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnosis {
    /// First inconsistent byte within the chunk; of a gap, the first byte of its first block.
    pub start: u32,
    /// Bytes from the first to the last inconsistent one; of a gap, whole blocks.
    pub len: u32,
    /// The damage.
    pub verdict: Verdict,
    /// Its certainty.
    pub certainty: Certainty,
    /// Alternative explanations.
    pub alternatives: Vec<Alternative>,
    /// The evidence for a verdict that names a member; `None` for other verdicts, and if the
    /// members' contents were not available.
    pub evidence: Option<Evidence>,
    /// The missing sectors, if that is the verdict.
    pub gaps: Vec<Gap>,
    /// The testimony of tags; `None` if there is none.
    pub testimony: Option<Testimony>,
    /// The first blocks that tags convict, [`MOST_WRONG`] at most.
    pub wrong: Vec<WrongBlock>,
}

impl Diagnosis {
    /// Missing sectors, over whole blocks from `start`. The drive itself is the witness of a
    /// refusal; nothing is known of sectors that were not asked for.
    #[must_use]
    pub fn of_gaps(start: u32, len: u32, verdict: Verdict, gaps: Vec<Gap>) -> Self {
        let certainty = match verdict {
            Verdict::Unreadable(_) => Certainty::Proven,
            _ => Certainty::None,
        };
        Self {
            start,
            len,
            verdict,
            certainty,
            alternatives: Vec::new(),
            evidence: None,
            gaps,
            testimony: None,
            wrong: Vec::new(),
        }
    }

    /// The verdict of tags, alone or together with parity, on bytes from `start` on.
    #[must_use]
    pub fn of_tags(start: u32, len: u32, verdict: Verdict, testimony: Option<Testimony>) -> Self {
        let certainty = match (&verdict, testimony) {
            (_, Some(Testimony::Convicts { origin, .. })) if origin.is_witness() => Certainty::Proven,
            (_, Some(Testimony::Convicts { .. })) | (Verdict::TagDamaged(_), _) => Certainty::Likely,
            _ => Certainty::None,
        };
        let alternatives = match &verdict {
            Verdict::TagDamaged(roles) => vec![Alternative {
                verdict: Verdict::Several(roles.clone()),
                reason: "the data damaged, and parity computed from it afterwards",
            }],
            _ => Vec::new(),
        };
        let (evidence, gaps, wrong) = (None, Vec::new(), Vec::new());
        Self { start, len, verdict, certainty, alternatives, evidence, gaps, testimony, wrong }
    }

    /// The byte after the last.
    #[must_use]
    pub const fn end(&self) -> u32 {
        self.start + self.len
    }

    fn last_block(&self) -> u32 {
        (self.end() - 1) / BLOCK as u32
    }

    fn first_block(&self) -> u32 {
        self.start / BLOCK as u32
    }

    /// Returns whether `next`, which begins in the same block or the next one, has the same
    /// verdict.
    fn continues(&self, next: &Self) -> bool {
        self.last_block() + 1 >= next.first_block()
            && self.verdict == next.verdict
            && self.certainty == next.certainty
            && self.testimony == next.testimony
            && self.alternatives == next.alternatives
            && match (&self.evidence, &next.evidence) {
                (Some(a), Some(b)) => a.joins(b),
                (a, b) => a.is_none() && b.is_none(),
            }
    }

    fn append(&mut self, next: Self) {
        self.len = next.end() - self.start;
        self.gaps.extend(next.gaps);
        self.wrong.extend(next.wrong);
        self.wrong.truncate(MOST_WRONG);
        if let (Some(a), Some(b)) = (&mut self.evidence, &next.evidence) {
            a.append(b);
        }
    }
}

/// Diagnoses a window of a stripe: `syndromes[i]` is row i of the stripe over the window that
/// begins `offset` bytes into the chunk. `contents[role]` is what each member holds there, `None`
/// for one that is missing; without contents (an empty slice) a verdict has no evidence.
///
/// Columns of `check` are roles. Blocks with the same verdict that touch are one diagnosis.
///
/// # Panics
/// If the syndromes are not as many as the rows, or lengths differ.
#[must_use]
pub fn diagnose_window(
    check: &CheckMatrix,
    redundancy: &Redundancy,
    syndromes: &[&[u8]],
    contents: &[Option<&[u8]>],
    offset: u32,
) -> Vec<Diagnosis> {
    let len = syndromes.first().map_or(0, |row| row.len());
    let mut out: Vec<Diagnosis> = Vec::new();
    let mut at = 0;
    while at < len {
        // Blocks are counted from the start of the chunk, wherever the window begins.
        let in_chunk = offset as usize + at;
        let end = (at + BLOCK - in_chunk % BLOCK).min(len);
        let rows: Vec<&[u8]> = syndromes.iter().map(|row| &row[at..end]).collect();
        let block = diagnose_block(check, &rows);
        if let Some(verdict) = verdict(check, &block.verdict, redundancy) {
            let contents: Vec<Option<&[u8]>> =
                contents.iter().map(|bytes| bytes.map(|bytes| &bytes[at..end])).collect();
            let found =
                of_block(check, redundancy, &verdict, &rows, &contents, (in_chunk % BLOCK, block.rank));
            let is_chance = found.as_ref().is_some_and(|found| found.is_chance);
            let verdict = if is_chance { Verdict::Ambiguous(verdict.accused()) } else { verdict };
            let certainty = if verdict.accused().is_empty() { Certainty::None } else { Certainty::Likely };
            let mut alternatives = alternatives(&verdict, redundancy);
            let evidence = found.map(|found| {
                alternatives.extend(found.rivals);
                found.evidence
            });
            let evidence = evidence.filter(|_| certainty == Certainty::Likely);
            let next = Diagnosis {
                start: (in_chunk + block.first) as u32,
                len: (block.last - block.first + 1) as u32,
                verdict,
                certainty,
                alternatives,
                evidence,
                gaps: Vec::new(),
                testimony: None,
                wrong: Vec::new(),
            };
            join(&mut out, vec![next]);
        }
        at = end;
    }
    out
}

/// Adds the diagnoses of the next window of the same stripe: blocks with the same verdict that
/// touch are one diagnosis over the border too. Gaps are joined with gaps, inconsistent bytes with
/// inconsistent bytes.
pub fn join(out: &mut Vec<Diagnosis>, next: Vec<Diagnosis>) {
    for diagnosis in next {
        let gap = diagnosis.verdict.is_gap();
        match out.iter_mut().rev().find(|d| d.verdict.is_gap() == gap) {
            Some(last) if last.continues(&diagnosis) => last.append(diagnosis),
            _ => out.push(diagnosis),
        }
    }
}

impl Verdict {
    /// The verdict that exactly these members are damaged.
    #[must_use]
    pub fn of_members(columns: &[usize], redundancy: &Redundancy) -> Self {
        let role = |column: usize| Role(column as u16);
        match (columns, redundancy) {
            ([column], Redundancy::Copies) => Self::Copy(role(*column)),
            ([column], Redundancy::Parity(parities)) => {
                // A matrix has at most 8 rows.
                match parities.iter().position(|parity| parity == column) {
                    Some(row) => Self::Parity { row: row as u8, role: role(*column) },
                    None => Self::Member(role(*column)),
                }
            }
            (several, _) => Self::Several(several.iter().map(|column| role(*column)).collect()),
        }
    }
}

fn verdict(check: &CheckMatrix, block: &BlockVerdict, redundancy: &Redundancy) -> Option<Verdict> {
    if *redundancy == Redundancy::Copies {
        return verdict_of_copies(check, block);
    }
    let roles = |columns: &[usize]| columns.iter().map(|column| Role(*column as u16)).collect::<Vec<_>>();
    Some(match block {
        BlockVerdict::Consistent => return None,
        BlockVerdict::Columns(columns) => Verdict::of_members(columns, redundancy),
        BlockVerdict::Unlocated => Verdict::Unlocated,
        BlockVerdict::Ambiguous { candidates } => Verdict::Ambiguous(roles(candidates)),
    })
}

/// Converts a verdict to one about copies: if one equation cannot locate the damage, or several
/// explanations fit, the copies merely differ. The same holds if more than one copy differs from
/// the majority, because two against two shows little.
fn verdict_of_copies(check: &CheckMatrix, block: &BlockVerdict) -> Option<Verdict> {
    match block {
        BlockVerdict::Consistent => None,
        BlockVerdict::Columns(columns) if columns.len() == 1 => Some(Verdict::Copy(Role(columns[0] as u16))),
        _ => {
            let holds = |column: &usize| check.column(*column).iter().any(|c| *c != 0);
            let roles = (0..check.columns()).filter(holds).map(|column| Role(column as u16));
            Some(Verdict::CopiesDiffer(roles.collect()))
        }
    }
}

/// Other causes of the same syndromes.
fn alternatives(verdict: &Verdict, redundancy: &Redundancy) -> Vec<Alternative> {
    let Redundancy::Parity(parities) = redundancy else {
        let reason = "a page that changed while md wrote it, or a write that reached this copy alone";
        let legal = Alternative { verdict: Verdict::CopiesDiffer(Vec::new()), reason };
        return if matches!(verdict, Verdict::Copy(_)) { vec![legal] } else { Vec::new() };
    };
    let several = |columns: &[usize], reason| {
        let roles = columns.iter().map(|column| Role(*column as u16)).collect();
        vec![Alternative { verdict: Verdict::Several(roles), reason }]
    };
    match (verdict, parities.as_slice()) {
        (Verdict::Member(_), [_, _]) => {
            several(parities, "P and Q wrong, the data good: damaged, then overwritten by read-modify-write")
        }
        (Verdict::Member(_), [_, _, ..]) => several(
            parities,
            "every parity wrong, the data good: damaged, then overwritten by read-modify-write",
        ),
        (Verdict::Parity { row: 0, .. }, [_, _]) => {
            several(&[], "data members damaged by bytes that cancel in Q")
        }
        (Verdict::Parity { .. }, [_, _]) => several(&[], "data members damaged by bytes that cancel in P"),
        (Verdict::Parity { .. }, [_, _, ..]) => {
            several(&[], "data members damaged by bytes that cancel in every other parity")
        }
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests;
