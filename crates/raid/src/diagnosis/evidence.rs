//! The evidence for a verdict that names one member: rules R11 to R13 of `docs/design/repair.md`.

use super::{Alternative, BLOCK, Verdict};
use pumice_base::units::Role;
use pumice_parity::array_layout::Redundancy;
use pumice_parity::check_matrix::CheckMatrix;
use pumice_parity::evidence::{
    ErrorShape, GAP, Rival, RivalKind, Values, Vectors, fill_rival, mistaken_one_in, repeats_where_damaged,
};
use pumice_parity::locate::error_values;

/// Different values that an error must take to be strong evidence with one equation to spare (R12).
const ENOUGH_VALUES: u32 = 4;
/// Strong evidence is mistaken less often than once in so many (R12).
const ENOUGH: u64 = 100_000_000;
/// Members are named at all if that is mistaken less often than once in so many, with three
/// equations or more (R12).
const LIKELY: u64 = 1_000;
/// Bytes of a small error, at most (R12).
const SMALL: u32 = 8;
/// The span of a small error: a sector.
const SMALL_SPAN: u32 = 512;
/// Most rivals that are listed: an empty stripe has hundreds.
const NAMED: usize = 16;

/// The reasons why a verdict that names a member is not strong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Doubt {
    /// Part of the block could not be read (R11).
    PartlyUnread,
    /// The error takes too few values, and is not small and alone (R12).
    FewValues,
    /// Two other members explain the same bytes naturally (R13).
    Rival,
}

/// Measurements of the error of the member that a verdict names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Evidence {
    /// Bytes in error.
    pub bytes: u32,
    /// The values that the error takes.
    pub values: Values,
    /// The error's period over every damaged run; `None` without one.
    pub period: Option<u8>,
    /// Pairs of other members that explain the same bytes naturally.
    pub rivals: u32,
    /// Pairs of other members that explain them at all.
    pub pairs: u32,
    /// Members that are present in the stripe.
    pub members: u32,
    /// The syndromes over its blocks, and their dimensions.
    vectors: Vectors,
    rank: u32,
    /// Members that are named.
    named: u32,
    /// Equations that the named members do not use up.
    spare: u32,
    /// Each run of its blocks has enough values.
    enough: bool,
    /// Part of a block is missing.
    partly_unread: bool,
    /// First and last damaged byte, counted from the start of the first block.
    first: u32,
    last: u32,
    /// Blocks that it covers.
    blocks: u32,
}

impl Evidence {
    /// The reasons why the verdict is not strong, by this evidence alone; none if it is. `alone`
    /// means that the stripe has no other finding.
    #[must_use]
    pub fn doubts(&self, alone: bool) -> Vec<Doubt> {
        let mut out = Vec::new();
        if self.partly_unread {
            out.push(Doubt::PartlyUnread);
        }
        if !(self.enough || alone && self.is_small()) {
            out.push(Doubt::FewValues);
        }
        if self.rivals > 0 {
            out.push(Doubt::Rival);
        }
        out
    }

    /// Returns whether the verdict assumes that two members are not hit in the very same bytes.
    #[must_use]
    pub fn assumes_one_hit(&self) -> bool {
        !self.enough && self.is_small()
    }

    /// The reciprocal of the chance that other members, damaged at random in the same bytes, look
    /// like the named ones (R12), rounded down; 0 if there is no bound.
    #[must_use]
    pub fn mistaken_one_in(&self) -> u64 {
        // Errors that are multiples of each other say the same at every place.
        let vectors = if self.rank < self.named { 1 } else { self.vectors.count() };
        mistaken_one_in(self.members, self.named, self.spare, vectors)
    }

    fn has_enough(&self) -> bool {
        // Four values of one member are the rule of RAID-6; up to 42 members the bound asks for as
        // many.
        self.spare == 1 && self.named == 1 && self.vectors.count() >= ENOUGH_VALUES
            || self.mistaken_one_in() >= ENOUGH
    }

    fn is_small(&self) -> bool {
        self.named == 1 && self.bytes <= SMALL && self.last - self.first < SMALL_SPAN
    }

    /// Notes that part of the block is missing.
    #[must_use]
    pub fn beside_a_gap(mut self) -> Self {
        self.partly_unread = true;
        self
    }

    /// Returns whether `next`, of the block after, may share a finding: one run that crosses the
    /// border, or the same side of R12.
    pub(super) fn joins(&self, next: &Self) -> bool {
        self.partly_unread == next.partly_unread
            && (self.rivals > 0) == (next.rivals > 0)
            && (self.enough == next.enough || self.runs_into(next))
    }

    fn runs_into(&self, next: &Self) -> bool {
        let border = self.blocks * BLOCK as u32;
        border - 1 - self.last + next.first <= GAP as u32
    }

    pub(super) fn append(&mut self, next: &Self) {
        let values = self.values.union(&next.values);
        let both = self.enough && next.enough;
        self.vectors = self.vectors.union(&next.vectors);
        self.rank = self.rank.max(next.rank);
        self.enough = if self.runs_into(next) { self.has_enough() } else { both };
        self.bytes += next.bytes;
        self.values = values;
        self.period = self.period.filter(|period| next.period == Some(*period));
        self.rivals = self.rivals.max(next.rivals);
        self.pairs = self.pairs.max(next.pairs);
        self.last = self.blocks * BLOCK as u32 + next.last;
        self.blocks += next.blocks;
    }
}

/// The evidence of one block.
pub(super) struct Found {
    pub(super) evidence: Evidence,
    /// The live rivals.
    pub(super) rivals: Vec<Alternative>,
    /// The bytes are too few to name members at all (R12).
    pub(super) is_chance: bool,
}

/// Measures the evidence of one block. `None` if no contents are given, or they contradict the
/// syndromes.
pub(super) fn of_block(
    check: &CheckMatrix,
    redundancy: &Redundancy,
    verdict: &Verdict,
    syndromes: &[&[u8]],
    contents: &[Option<&[u8]>],
    (at, rank): (usize, usize),
) -> Option<Found> {
    if contents.is_empty() || check.rows() < 2 {
        return None;
    }
    let fits = (0..check.rows()).all(|row| {
        let mut sum = syndromes[row].to_vec();
        for (column, bytes) in contents.iter().enumerate() {
            if let Some(bytes) = bytes {
                pumice_parity::gf::add_scaled(&mut sum, bytes, check.get(row, column));
            }
        }
        sum.iter().all(|byte| *byte == 0)
    });
    if !fits {
        return None;
    }
    let named: Vec<usize> = verdict.accused().iter().map(|role| role.index()).collect();
    let accused = if let [column] = named.as_slice() { Some(*column) } else { None };
    if let (Redundancy::Copies, None) = (redundancy, accused) {
        return None;
    }
    let errors = (!named.is_empty()).then(|| error_values(check, &named, syndromes)).flatten();
    let (live, rivals) = match (redundancy, accused) {
        (Redundancy::Copies, Some(column)) => filled_alike(check, column, syndromes, contents),
        (Redundancy::Parity(parities), _) if !has_pairs(check) && !named.is_empty() => {
            let size = (check.any_independent() + rank).saturating_sub(named.len());
            fill_rival(check, contents, (&named, errors.as_ref()?), size, parities)
                .map_or_else(Default::default, |rival| (1, vec![alternative(&rival)]))
        }
        _ => {
            let live = pumice_parity::evidence::rivals(check, syndromes, contents, accused);
            (live.len(), live.iter().take(NAMED).map(alternative).collect())
        }
    };
    let error = match accused {
        Some(_) => errors?.remove(0),
        // No member is named, or several: the damaged places count.
        None => damaged(syndromes),
    };
    let shape = ErrorShape::of(&error);
    let present = contents.iter().flatten().count() as u32;
    let others = present.saturating_sub(u32::from(accused.is_some()));
    let border = |at: Option<usize>| at.map_or(0, |at| at as u32);
    let is_code = *redundancy != Redundancy::Copies && !has_pairs(check);
    // Of copies the bound of one spare equation is given, which is larger.
    let independent = if is_code { check.any_independent() } else { 2 };
    let mut evidence = Evidence {
        bytes: shape.bytes,
        values: shape.values,
        period: shape.period,
        rivals: live as u32,
        pairs: if is_code { 0 } else { others * others.saturating_sub(1) / 2 },
        members: present,
        vectors: Vectors::of(syndromes),
        rank: rank as u32,
        named: named.len() as u32,
        spare: independent.saturating_sub(named.len()) as u32,
        enough: false,
        partly_unread: false,
        first: border(shape.runs.first().map(|run| at + run.start)),
        last: border(shape.runs.last().map(|run| at + run.end - 1)),
        blocks: 1,
    };
    evidence.enough = evidence.has_enough();
    let is_chance = is_code && !named.is_empty() && evidence.mistaken_one_in() < LIKELY;
    Some(Found { evidence, rivals, is_chance })
}

/// Returns whether every pair of members explains everything, as in RAID-6: two equations, of which
/// any two columns are independent. Of a matrix of which nothing is known, that is assumed.
fn has_pairs(check: &CheckMatrix) -> bool {
    check.rows() == 2 && check.any_independent() != 1
}

/// A byte that is not zero at each damaged place.
fn damaged(syndromes: &[&[u8]]) -> Vec<u8> {
    let at = |at: usize| syndromes.iter().fold(0, |sum, row| sum | row[at]);
    (0..syndromes[0].len()).map(at).collect()
}

/// Of copies: the others agree because the same fill was written over them (R17). Their number as a
/// rival, 0 or 1, and its words.
fn filled_alike(
    check: &CheckMatrix,
    accused: usize,
    syndromes: &[&[u8]],
    contents: &[Option<&[u8]>],
) -> (usize, Vec<Alternative>) {
    let others: Vec<usize> = (0..contents.len())
        .filter(|column| *column != accused && contents[*column].is_some())
        .filter(|column| check.column(*column).iter().any(|c| *c != 0))
        .collect();
    let agreed = others.first().and_then(|column| contents[*column]);
    match agreed {
        Some(bytes) if repeats_where_damaged(bytes, syndromes) => {
            let roles = others.iter().map(|column| Role(*column as u16)).collect();
            let reason = "the others overwritten by the same zeros, constant or short pattern";
            (1, vec![Alternative { verdict: Verdict::Several(roles), reason }])
        }
        _ => (0, Vec::new()),
    }
}

fn alternative(rival: &Rival) -> Alternative {
    Alternative {
        verdict: Verdict::Several(rival.columns.iter().map(|column| Role(*column as u16)).collect()),
        reason: match rival.kind {
            RivalKind::Fill if rival.columns.len() > 2 => {
                "all overwritten by zeros, a constant or a short pattern, or written over one"
            }
            RivalKind::Fill => {
                "both overwritten by zeros, a constant or a short pattern, or written over one"
            }
            RivalKind::Exchange => "their contents exchanged",
            RivalKind::Copy => "both overwritten by the same bytes",
            RivalKind::Shuffle => "their contents exchanged, three in a ring or two pairs at once",
        },
    }
}
