//! The joint judgement of tags and parity about a block of a stripe: rules R18 to R21 of
//! `docs/design/repair.md`. Pure.

use crate::sectors::{Block, Run};
use crate::stripes::Tags;
use pumice_base::units::Role;
use pumice_parity::check_matrix::CheckMatrix;
use pumice_protect::guard::Guard;
use pumice_protect::misdirected::tells;
use pumice_protect::origin::{Opinion, Origin};
use pumice_raid::diagnosis::{Testimony, WrongBlock};
use std::ops::Range;

/// Suspects of one run, at most: more than that is a set of stale tags, and not damage.
const MOST_SUSPECTS: usize = 12;

/// Verdict of the tags on a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum TagVerdict {
    /// Data is damaged.
    Convicted {
        /// The members, in order, with what they should hold.
        members: Vec<(Role, Vec<u8>)>,
        /// Bytes that were rebuilt with them: the lost sectors of these members.
        lost: Vec<(Role, Vec<u8>)>,
        /// Basis of the verdict.
        testimony: Testimony,
        /// Members whose tags are damaged.
        tags: Vec<Role>,
    },
    /// The data are good, the tags of these members are damaged.
    Tags(Vec<Role>),
    /// Nothing that is sure.
    Ambiguous(Vec<Role>),
}

/// A run of a block in which some tags differ, and the verdict of the tags on it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct JudgedRun {
    /// The run; its roles are those that lack it.
    pub(crate) run: Run,
    pub(crate) verdict: TagVerdict,
}

/// Hears the tags of a block. Runs in which no tag differs are not told.
pub(crate) fn judge_tags(check: &CheckMatrix, block: &Block) -> Vec<JudgedRun> {
    let runs = runs(block).into_iter();
    let heard = runs.filter(|(_, suspects)| !suspects.is_empty());
    heard.map(|(run, suspects)| JudgedRun { verdict: judge(check, block, &run, &suspects), run }).collect()
}

/// The block cut where the members that differ from their tags change, or those that lack bytes:
/// the runs, and who differs there.
pub(crate) fn runs(block: &Block) -> Vec<(Run, Vec<Role>)> {
    let differ: Vec<(Role, Range<u32>)> = differing(block);
    let suspects = |range: &Range<u32>| {
        let over = differ.iter().filter(|(_, part)| part.start < range.end && range.start < part.end);
        let mut roles: Vec<Role> = over.map(|(role, _)| *role).collect();
        roles.dedup();
        roles
    };
    if differ.is_empty() {
        return block.runs().into_iter().map(|run| (run, Vec::new())).collect();
    }
    // Whole blocks of every suspect: a tag is of all of its block.
    let of = |role: &Role| block.tags[role.index()].as_ref().map_or(1, |tags| tags.format.block_bytes);
    let grain = differ.iter().map(|(role, _)| of(role)).max().unwrap_or(1).min(block.len);
    let mut cuts: Vec<u32> = vec![0, block.len];
    let parts = differ.iter().map(|(_, part)| part.clone());
    for part in parts.chain(block.missing.iter().map(|missing| missing.range.clone())) {
        cuts.push(part.start / grain * grain);
        cuts.push(part.end.next_multiple_of(grain).min(block.len));
    }
    cuts.sort_unstable();
    cuts.dedup();
    let run = |pair: &[u32]| {
        let range = pair[0]..pair[1];
        let lacks = block.missing.iter().filter(|m| m.range.start < range.end && range.start < m.range.end);
        let mut roles: Vec<Role> = lacks.map(|missing| missing.role).collect();
        roles.dedup();
        let suspects = suspects(&range);
        (Run { range, roles }, suspects)
    };
    cuts.windows(2).map(run).collect()
}

/// The blocks that differ from their tags, by role and place.
fn differing(block: &Block) -> Vec<(Role, Range<u32>)> {
    let mut out = Vec::new();
    for (index, tags) in block.tags.iter().enumerate() {
        let Some(Tags { format, judged }) = tags else { continue };
        for (at, judged) in (0..).step_by(format.block_bytes as usize).zip(judged) {
            if matches!(judged.opinion, Opinion::Differs(_)) {
                out.push((Role(index as u16), at..at + format.block_bytes));
            }
        }
    }
    out
}

fn judge(check: &CheckMatrix, block: &Block, run: &Run, suspects: &[Role]) -> TagVerdict {
    let ambiguous = || TagVerdict::Ambiguous(suspects.to_vec());
    // A suspect that also lacks bytes of the run has no tag for all of it.
    if suspects.len() > MOST_SUSPECTS || suspects.iter().any(|role| run.roles.contains(role)) {
        return ambiguous();
    }
    let mut found = None;
    for set in sets(suspects, check.rows().saturating_sub(run.roles.len())) {
        let Some(verdict) = try_set(check, block, run, suspects, &set) else { continue };
        if found.replace(verdict).is_some() {
            return ambiguous();
        }
    }
    found.unwrap_or_else(ambiguous)
}

/// The subsets of at most `most` members, the small ones first.
fn sets(members: &[Role], most: usize) -> Vec<Vec<Role>> {
    let mut out: Vec<Vec<Role>> = (0..1_u32 << members.len())
        .filter(|bits| bits.count_ones() as usize <= most)
        .map(|bits| members.iter().enumerate().filter(|(i, _)| bits >> i & 1 == 1).map(|(_, m)| *m).collect())
        .collect();
    out.sort_by_key(Vec::len);
    out
}

/// Eliminates a set of members: what that says, if every equation that remains holds and each of
/// them fits its tags when it is rebuilt.
fn try_set(
    check: &CheckMatrix,
    block: &Block,
    run: &Run,
    suspects: &[Role],
    set: &[Role],
) -> Option<TagVerdict> {
    let erased: Vec<usize> = set.iter().chain(&run.roles).map(|role| role.index()).collect();
    let remaining = check.eliminate(&erased);
    let holds = block.syndromes(&remaining, run).iter().all(|row| row.iter().all(|byte| *byte == 0));
    if !holds {
        return None;
    }
    let tags: Vec<Role> = suspects.iter().filter(|role| !set.contains(role)).copied().collect();
    if set.is_empty() {
        // Without an equation nothing confirms the data.
        return (remaining.rows() > 0).then_some(TagVerdict::Tags(tags));
    }
    let rebuilt = block.rebuild(check, &erased, run)?;
    let mut pairs = set.iter().chain(&run.roles).copied().zip(rebuilt);
    let members: Vec<(Role, Vec<u8>)> = pairs.by_ref().take(set.len()).collect();
    let (mut origin, mut guard_bits) = (Origin::Written, u32::MAX);
    for (role, bytes) in &members {
        let tags = block.tags[role.index()].as_ref()?;
        origin = weaker(origin, fits(tags, run, bytes)?);
        guard_bits = guard_bits.min(tags.format.guard.bits());
    }
    let testimony = Testimony::Convicts { origin, guard_bits, members: set.len() as u32 };
    let lost: Vec<(Role, Vec<u8>)> = pairs.collect();
    let agrees = lost.iter().all(|(role, bytes)| agrees_beside_gaps(block, *role, run, bytes));
    agrees.then_some(TagVerdict::Convicted { members, lost, testimony, tags })
}

/// Returns whether rebuilt bytes of a member are what can be read of it in a run.
fn agrees_beside_gaps(block: &Block, role: Role, run: &Run, bytes: &[u8]) -> bool {
    let Some(chunk) = &block.chunks[role.index()] else { return false };
    let is_lost = |at: u32| block.missing.iter().any(|m| m.role == role && m.range.contains(&at));
    let present = run.range.clone().zip(&chunk[run.bytes()]).zip(bytes);
    present.into_iter().all(|((at, present), rebuilt)| present == rebuilt || is_lost(at))
}

/// Weakest origin of the tags that differ from the present bytes of a run, if the new bytes fit
/// every tag that there is for it; else `None`.
fn fits(tags: &Tags, run: &Run, bytes: &[u8]) -> Option<Origin> {
    let size = tags.format.block_bytes as usize;
    let first = run.range.start as usize / size;
    let mut weakest = None;
    for (judged, bytes) in tags.judged[first..].iter().zip(bytes.chunks_exact(size)) {
        let (Opinion::Differs(origin) | Opinion::Fits(origin)) = judged.opinion else { continue };
        if tags.format.guard.of(bytes) != judged.guard {
            return None;
        }
        if matches!(judged.opinion, Opinion::Differs(_)) {
            weakest = Some(weakest.map_or(origin, |known| weaker(known, origin)));
        }
    }
    weakest
}

/// The origin that says less.
fn weaker(a: Origin, b: Origin) -> Origin {
    let worth = |origin| match origin {
        Origin::Unknown => 0,
        Origin::Adopted => 1,
        Origin::Vouched => 2,
        Origin::Written => 3,
    };
    if worth(a) <= worth(b) { a } else { b }
}

/// The blocks of convicted members that are wrong in a run, with sums of what they hold and of what
/// belongs there.
pub(crate) fn wrong_blocks(block: &Block, run: &Run, members: &[(Role, Vec<u8>)]) -> Vec<WrongBlock> {
    let mut out = Vec::new();
    for (role, wanted) in members {
        let (Some(chunk), Some(tags)) = (&block.chunks[role.index()], &block.tags[role.index()]) else {
            continue;
        };
        let size = tags.format.block_bytes as usize;
        let pairs = chunk[run.bytes()].chunks_exact(size).zip(wanted.chunks_exact(size));
        let starts = (block.start + run.range.start..).step_by(size);
        for (start, (found, wanted)) in starts.zip(pairs).filter(|(_, (found, wanted))| found != wanted) {
            let sum = |bytes: &[u8]| Guard::Crc64.of(bytes);
            let (found, wanted) = (tells(found).then(|| sum(found)), sum(wanted));
            out.push(WrongBlock { role: *role, start, len: size as u32, found, wanted });
        }
    }
    out
}

/// Testimony of the tags of a member if they acquit it of bytes of a block (R20): those of every
/// block that the range touches are a witness, and fit.
pub(crate) fn acquits(block: &Block, role: Role, range: &Range<u32>) -> Option<Testimony> {
    let Tags { format, judged } = block.tags[role.index()].as_ref()?;
    let size = format.block_bytes;
    let touched = judged.get((range.start / size) as usize..range.end.div_ceil(size) as usize)?;
    let fits = |origin: &Opinion| matches!(origin, Opinion::Fits(origin) if origin.is_witness());
    let all = !touched.is_empty() && touched.iter().all(|judged| fits(&judged.opinion));
    all.then_some(Testimony::Acquits { guard_bits: format.guard.bits() })
}

/// The parts of a block whose tags are lost, by role.
pub(crate) fn lost(block: &Block) -> Vec<(Role, Range<u32>)> {
    let mut out: Vec<(Role, Range<u32>)> = Vec::new();
    for (index, tags) in block.tags.iter().enumerate() {
        let Some(Tags { format, judged }) = tags else { continue };
        for (at, judged) in (0..).step_by(format.block_bytes as usize).zip(judged) {
            if judged.opinion != Opinion::Lost {
                continue;
            }
            let part = at..at + format.block_bytes;
            match out.last_mut() {
                Some((role, last)) if role.index() == index && last.end == part.start => last.end = part.end,
                _ => out.push((Role(index as u16), part)),
            }
        }
    }
    out
}

#[cfg(test)]
mod tests;
