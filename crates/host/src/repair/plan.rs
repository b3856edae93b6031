//! The plan of a repair: the bytes to write, from the bytes just read. Pure: rules R5 to R10 of
//! `docs/design/repair.md`.

use super::policy::Refusal;
use crate::sectors::{Block, Run};
use crate::testimony::{JudgedRun, TagVerdict, judge_tags};
use pumice_base::units::Role;
use pumice_parity::array_layout::Redundancy;
use pumice_parity::check_matrix::CheckMatrix;
use pumice_parity::gf::add_scaled;
use pumice_parity::locate::error_values;
use pumice_raid::diagnosis::{Diagnosis, diagnose_window};

/// New bytes of one member.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Change {
    pub(crate) role: Role,
    /// Its present bytes; `None` for sectors that it refuses.
    pub(crate) old: Option<Vec<u8>>,
    pub(crate) new: Vec<u8>,
    /// True if tags convict the present bytes, and are those of the new ones.
    pub(crate) convicted: bool,
}

/// New bytes of some members over one range of their chunks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Rewrite {
    /// First byte within the chunk.
    pub(crate) start: u32,
    /// One or more, all as long.
    pub(crate) changes: Vec<Change>,
}

impl Rewrite {
    /// Bytes of the range.
    pub(crate) fn len(&self) -> u32 {
        self.changes[0].new.len() as u32
    }
}

/// The plan for the lost or convicted bytes of a block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BlockPlan {
    /// Runs that are rebuilt.
    pub(crate) rewrites: Vec<Rewrite>,
    /// The reason why others cannot be rebuilt.
    pub(crate) refused: Option<Refusal>,
}

/// Plans the lost sectors of a block. `last_equation` allows rebuilding a run for which no equation
/// remains (R9).
pub(crate) fn plan_lost(check: &CheckMatrix, block: &Block, last_equation: bool) -> BlockPlan {
    let mut out = BlockPlan { rewrites: Vec::new(), refused: None };
    if block.is_not_asked() {
        out.refused = Some(Refusal::NotAsked);
        return out;
    }
    let runs = block.runs();
    let agrees = runs.iter().all(|run| block.holds(check, run));
    // Where no equation is left, tags are the only witness of what is rebuilt from.
    let doubted =
        judge_tags(check, block).iter().any(|heard| matches!(heard.verdict, TagVerdict::Ambiguous(_)));
    if !agrees || doubted {
        out.refused = Some(Refusal::Inconsistent);
        return out;
    }
    for run in runs.iter().filter(|run| !run.roles.is_empty()) {
        match rebuild(check, block, run, last_equation) {
            Ok(rewrite) => out.rewrites.push(rewrite),
            Err(refusal) => out.refused = Some(refusal),
        }
    }
    out
}

fn rebuild(check: &CheckMatrix, block: &Block, run: &Run, last_equation: bool) -> Result<Rewrite, Refusal> {
    let columns = run.columns();
    let contents = block.contents(run);
    let len = (run.range.end - run.range.start) as usize;
    let new = solve(check, &columns, &contents, len)?;
    if check.eliminate(&columns).rows() == 0 && !last_equation {
        return Err(Refusal::NotNamed);
    }
    let changes = run.roles.iter().zip(new);
    Ok(Rewrite {
        start: block.start + run.range.start,
        changes: changes
            .map(|(role, new)| Change { role: *role, old: None, new, convicted: false })
            .collect(),
    })
}

/// Plans the rewrite of the member that a diagnosis names, over a window that was just read:
/// `contents` by role, from `start` of the chunk. The window must still give the same diagnosis.
pub(crate) fn plan_located(
    check: &CheckMatrix,
    redundancy: &Redundancy,
    contents: &[Option<&[u8]>],
    start: u32,
    len: usize,
    diagnosis: &Diagnosis,
    grain: Grain,
) -> Result<Rewrite, Refusal> {
    let syndromes = syndromes(check, contents, len);
    let rows: Vec<&[u8]> = syndromes.iter().map(Vec::as_slice).collect();
    let again = diagnose_window(check, redundancy, &rows, &[], start);
    let inside = |d: &Diagnosis| d.start >= diagnosis.start && d.end() <= diagnosis.end();
    if again.is_empty() || !again.iter().all(|d| d.verdict == diagnosis.verdict && inside(d)) {
        return Err(Refusal::Changed);
    }
    let roles = diagnosis.verdict.accused();
    let columns: Vec<usize> = roles.iter().map(|role| role.index()).collect();
    let errors = error_values(check, &columns, &rows).ok_or(Refusal::Changed)?;
    let changes = roles.iter().zip(errors).map(|(role, error)| {
        let old = contents[role.index()].ok_or(Refusal::Changed)?.to_vec();
        let mut new = old.clone();
        add_scaled(&mut new, &error, 1);
        Ok(Change { role: *role, old: Some(old), new, convicted: false })
    });
    let changes: Vec<Change> = changes.collect::<Result<_, _>>()?;
    Ok(whole_sectors(start, changes, diagnosis, grain))
}

/// Plans the rewrite of the members that tags convict in a block, together with their lost sectors.
/// Runs that no longer give the same verdict as `diagnosis` are left out.
pub(crate) fn plan_convicted(check: &CheckMatrix, block: &Block, diagnosis: &Diagnosis) -> BlockPlan {
    let accused = diagnosis.verdict.accused();
    let in_reach = |run: &Run| {
        let (start, end) = (block.start + run.range.start, block.start + run.range.end);
        start < diagnosis.end() && diagnosis.start < end
    };
    let plan = |heard: JudgedRun| {
        let JudgedRun { run, verdict: TagVerdict::Convicted { members, lost, testimony, .. } } = heard else {
            return None;
        };
        let same = members.iter().map(|(role, _)| *role).eq(accused.iter().copied());
        if !same || Some(testimony) != diagnosis.testimony || !in_reach(&run) {
            return None;
        }
        let contents = block.contents(&run);
        let old = |role: &Role| contents[role.index()].map(<[u8]>::to_vec);
        let convicted = members.into_iter();
        let convicted = convicted.map(|(role, new)| Change { role, old: old(&role), new, convicted: true });
        let lost = lost.into_iter().map(|(role, new)| Change { role, old: None, new, convicted: false });
        Some(Rewrite { start: block.start + run.range.start, changes: convicted.chain(lost).collect() })
    };
    let rewrites: Vec<Rewrite> = judge_tags(check, block).into_iter().filter_map(plan).collect();
    let refused = rewrites.is_empty().then_some(Refusal::Changed);
    BlockPlan { rewrites, refused }
}

/// Plans parity from the present data, as md does.
pub(crate) fn plan_parity(
    check: &CheckMatrix,
    redundancy: &Redundancy,
    contents: &[Option<&[u8]>],
    start: u32,
    len: usize,
) -> Result<Rewrite, Refusal> {
    let Redundancy::Parity(parities) = redundancy else { return Err(Refusal::NoParity) };
    let columns: Vec<usize> = parities.iter().copied().filter(|c| contents[*c].is_some()).collect();
    let roles: Vec<Role> = columns.iter().map(|column| Role(*column as u16)).collect();
    let new = solve(check, &columns, contents, len)?;
    let changes = roles.iter().zip(new).map(|(role, new)| Change {
        role: *role,
        old: contents[role.index()].map(<[u8]>::to_vec),
        new,
        convicted: false,
    });
    Ok(Rewrite { start, changes: changes.collect() })
}

/// The smallest writes that the members of a rewrite take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Grain {
    /// Bytes.
    pub(crate) bytes: u32,
    /// Distance of the chunk's first byte from the last border before it.
    pub(crate) phase: u32,
}

impl Grain {
    fn down(self, at: u32) -> u32 {
        ((at + self.phase) / self.bytes * self.bytes).saturating_sub(self.phase)
    }

    fn up(self, at: u32) -> u32 {
        (at + self.phase).next_multiple_of(self.bytes) - self.phase
    }
}

/// Cuts a rewrite to the sectors that the diagnosis touches: nothing else is written.
fn whole_sectors(start: u32, mut changes: Vec<Change>, diagnosis: &Diagnosis, grain: Grain) -> Rewrite {
    let len = changes[0].new.len() as u32;
    let first = grain.down(diagnosis.start).max(start);
    let last = grain.up(diagnosis.end()).min(start + len);
    let cut = |bytes: &mut Vec<u8>| {
        bytes.truncate((last - start) as usize);
        bytes.drain(..(first - start) as usize);
    };
    for change in &mut changes {
        cut(&mut change.new);
        change.old.iter_mut().for_each(cut);
    }
    Rewrite { start: first, changes }
}

/// Evaluates every equation over the chunks. Missing members do not occur in them.
pub(crate) fn syndromes(check: &CheckMatrix, chunks: &[Option<&[u8]>], len: usize) -> Vec<Vec<u8>> {
    (0..check.rows())
        .map(|row| {
            let mut sum = vec![0; len];
            for (column, chunk) in chunks.iter().enumerate() {
                if let Some(chunk) = chunk {
                    add_scaled(&mut sum, chunk, check.get(row, column));
                }
            }
            sum
        })
        .collect()
}

/// The bytes of `columns` that make every equation hold with the other chunks as they are.
fn solve(
    check: &CheckMatrix,
    columns: &[usize],
    chunks: &[Option<&[u8]>],
    len: usize,
) -> Result<Vec<Vec<u8>>, Refusal> {
    let recovery = check.recover(columns).ok_or(Refusal::Undecodable)?;
    columns
        .iter()
        .map(|column| {
            let row = recovery.lost.iter().position(|lost| lost == column).ok_or(Refusal::Undecodable)?;
            let mut sum = vec![0; len];
            for (survivor, coefficient) in recovery.survivors.iter().zip(&recovery.coefficients[row]) {
                add_scaled(&mut sum, chunks[*survivor].ok_or(Refusal::Undecodable)?, *coefficient);
            }
            Ok(sum)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use pumice_parity::code::Code;
    use std::ops::Range;

    const LEN: usize = 4096;
    const GRAIN: Grain = Grain { bytes: 512, phase: 0 };

    /// Three data members, P and Q.
    fn stripe(code: &Code) -> Vec<Vec<u8>> {
        let data = |member: usize| (0..LEN).map(|i| (i * (member + 7) + i / 251) as u8).collect();
        let data: Vec<Vec<u8>> = (0..3).map(data).collect();
        let parity = {
            let contents: Vec<Option<&[u8]>> = (0..5).map(|i| data.get(i).map(Vec::as_slice)).collect();
            solve(code.check(), &[3, 4], &contents, LEN).unwrap()
        };
        data.into_iter().chain(parity).collect()
    }

    fn damage(members: &mut [Vec<u8>], member: usize, bytes: Range<usize>) {
        bytes.for_each(|i| members[member][i] ^= (i as u8).wrapping_mul(3) | 1);
    }

    fn contents(members: &[Vec<u8>]) -> Vec<Option<&[u8]>> {
        members.iter().map(|bytes| Some(bytes.as_slice())).collect()
    }

    #[test]
    fn a_rewrite_is_of_whole_sectors_of_its_members() {
        let code = Code::raid6(3).unwrap();
        let redundancy = Redundancy::Parity(vec![3, 4]);
        let mut found = stripe(&code);
        damage(&mut found, 1, 1100..1200);
        let rows = syndromes(code.check(), &contents(&found), LEN);
        let rows: Vec<&[u8]> = rows.iter().map(Vec::as_slice).collect();
        let diagnosis = diagnose_window(code.check(), &redundancy, &rows, &contents(&found), 0).remove(0);
        for (bytes, phase, range) in
            [(512, 0, 1024..1536), (4096, 0, 0..4096), (1024, 512, 512..1536), (512, 100, 924..1436)]
        {
            let grain = Grain { bytes, phase };
            let contents = contents(&found);
            let plan = plan_located(code.check(), &redundancy, &contents, 0, LEN, &diagnosis, grain).unwrap();
            assert_eq!((plan.start, plan.start + plan.len()), (range.start, range.end), "{grain:?}");
        }
    }

    #[test]
    fn a_window_that_says_something_else_than_before_is_left_alone() {
        let code = Code::raid6(3).unwrap();
        let redundancy = Redundancy::Parity(vec![3, 4]);
        let good = stripe(&code);
        let mut found = good.clone();
        damage(&mut found, 1, 100..200);
        let rows = syndromes(code.check(), &contents(&found), LEN);
        let rows: Vec<&[u8]> = rows.iter().map(Vec::as_slice).collect();
        let diagnosis = diagnose_window(code.check(), &redundancy, &rows, &contents(&found), 0).remove(0);
        let plan = |now: &[Vec<u8>]| {
            plan_located(code.check(), &redundancy, &contents(now), 0, LEN, &diagnosis, GRAIN)
        };

        let rewrite = plan(&found).unwrap();
        let [Change { role: Role(1), new, .. }] = &rewrite.changes[..] else { panic!("{rewrite:?}") };
        let start = rewrite.start as usize;
        assert_eq!(new[..], good[1][start..start + new.len()]);

        assert_eq!(plan(&good), Err(Refusal::Changed), "it is consistent");
        let mut other = good.clone();
        damage(&mut other, 2, 100..200);
        assert_eq!(plan(&other), Err(Refusal::Changed), "another member is named");
        let mut wider = found.clone();
        damage(&mut wider, 1, 300..310);
        assert_eq!(plan(&wider), Err(Refusal::Changed), "more bytes are damaged than were");
        let mut two = found.clone();
        damage(&mut two, 2, 150..160);
        assert_eq!(plan(&two), Err(Refusal::Changed), "no single member is named");
    }
}
