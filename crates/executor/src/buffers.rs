//! The blocks of operations: what was read of the members, and what is to be stored on them.

use pumice_buffer::AlignedBuffer;
use pumice_parity::kernels::Kernels;
use pumice_parity::matrix::Matrix;
use pumice_units::Role;
use pumice_volume::plan::{RowPlan, Term};
use pumice_volume::rows::{BLOCK, Touch};
use std::collections::BTreeMap;
use std::ops::Range;

/// Bytes of a block.
const BYTES: usize = BLOCK as usize;

/// Blocks of neighbouring rows of a member.
#[derive(Debug)]
struct Run {
    rows: Range<u32>,
    bytes: AlignedBuffer,
}

/// Runs of a member; where they overlap, the last one counts.
type Runs = Vec<Run>;

/// The blocks of one operation, as far as they are used.
#[derive(Debug, Default)]
pub(crate) struct Buffers {
    old: BTreeMap<Role, Runs>,
    new: BTreeMap<Role, Runs>,
}

/// Bytes of a run of rows.
const fn span(rows: &Range<u32>) -> Range<usize> {
    rows.start as usize * BYTES..rows.end as usize * BYTES
}

/// The bytes of rows that lie in one run.
///
/// # Panics
/// If none has all of them: they were not made.
fn find<'r>(runs: &'r BTreeMap<Role, Runs>, role: Role, rows: &Range<u32>) -> &'r [u8] {
    let holds = |run: &&Run| run.rows.start <= rows.start && rows.end <= run.rows.end;
    let run = runs.get(&role).and_then(|runs| runs.iter().rev().find(holds)).expect("the rows were made");
    let first = span(&run.rows).start;
    &run.bytes[span(rows).start - first..span(rows).end - first]
}

impl Buffers {
    /// Takes what was read of a member.
    pub(crate) fn came(&mut self, role: Role, rows: Range<u32>, bytes: AlignedBuffer) {
        self.old.entry(role).or_default().push(Run { rows, bytes });
    }

    /// Takes what a node has made of a member.
    pub(crate) fn made(&mut self, role: Role, rows: Range<u32>, bytes: AlignedBuffer) {
        self.new.entry(role).or_default().push(Run { rows, bytes });
    }

    /// The new block of a row of a member.
    pub(crate) fn new_row(&self, role: Role, row: u32) -> &[u8] {
        find(&self.new, role, &(row..row + 1))
    }

    /// New blocks of a member, in pieces that lie together.
    pub(crate) fn new_rows(&self, role: Role, rows: &Range<u32>) -> Vec<(Range<u32>, &[u8])> {
        let mut out = Vec::new();
        let mut first = rows.start;
        while first < rows.end {
            let holds = |run: &&Run| run.rows.contains(&first);
            let run = self.new.get(&role).and_then(|runs| runs.iter().rev().find(holds));
            let piece = first..run.map_or(first + 1, |run| run.rows.end.min(rows.end));
            first = piece.end;
            let bytes = find(&self.new, role, &piece);
            out.push((piece, bytes));
        }
        out
    }

    /// Makes new blocks by the plans of rows, and lays the request's bytes over those that it
    /// touches. What was made before is made again. Returns how many bytes were read and written.
    pub(crate) fn fold(
        &mut self,
        kernels: Kernels,
        plans: &[(u32, RowPlan)],
        touches: &[Touch],
        request: &[u8],
    ) -> u64 {
        self.new.clear();
        let (mut rest, mut moved) = (plans, 0);
        while let Some((first, plan)) = rest.first() {
            // Rows with one plan are folded together.
            let same = |(i, (row, other)): (u32, &(u32, RowPlan))| *row == first + i && other == plan;
            let count = (0..).zip(rest).take_while(|entry| same(*entry)).count();
            let rows = *first..*first + count as u32;
            for output in &plan.outputs {
                let mut bytes = AlignedBuffer::new(rows.len() * BYTES);
                let passes = output.terms.len() + 1 + 2 * usize::from(output.overlay);
                moved += (passes * rows.len() * BYTES) as u64;
                self.sum(kernels, &output.terms, &rows, &mut bytes[..rows.len() * BYTES]);
                if output.overlay {
                    overlay(touches, output.role, &rows, request, &mut bytes);
                }
                self.new.entry(output.role).or_default().push(Run { rows: rows.clone(), bytes });
            }
            rest = &rest[count..];
        }
        moved
    }

    fn sum(&self, kernels: Kernels, terms: &[(Term, u8)], rows: &Range<u32>, target: &mut [u8]) {
        let source = |term: &Term| match term {
            Term::Old(role) => find(&self.old, *role, rows),
            Term::New(role) => find(&self.new, *role, rows),
        };
        let sources: Vec<&[u8]> = terms.iter().map(|(term, _)| source(term)).collect();
        match terms {
            [] => target.fill(0),
            [(_, 1)] => target.copy_from_slice(sources[0]),
            _ if terms.iter().all(|(_, factor)| *factor == 1) => kernels.xor(&sources, target),
            _ => {
                let factors: Vec<u8> = terms.iter().map(|(_, factor)| *factor).collect();
                match Matrix::new(1, factors.len(), &factors) {
                    Ok(matrix) => kernels.generate(&matrix, &sources, &mut [target]),
                    // More terms than a matrix has columns.
                    Err(_) => {
                        target.fill(0);
                        for (source, factor) in sources.iter().zip(factors) {
                            pumice_parity::gf::add_scaled(target, source, factor);
                        }
                    }
                }
            }
        }
    }

    /// Copies the blocks of a read to their places in the answer.
    pub(crate) fn deliver(&self, touches: &[Touch], answer: &mut [u8]) {
        for touch in touches {
            let rows = (touch.start / BLOCK) as u32..touch.end.div_ceil(BLOCK) as u32;
            for (piece, bytes) in self.new_rows(touch.role, &rows) {
                let base = u64::from(piece.start) * BLOCK;
                let (start, end) = (touch.start.max(base), touch.end.min(u64::from(piece.end) * BLOCK));
                let to = (touch.from + start - touch.start) as usize;
                let from = &bytes[(start - base) as usize..(end - base) as usize];
                answer[to..to + from.len()].copy_from_slice(from);
            }
        }
    }
}

/// Lays a request's bytes over rows of a member.
fn overlay(touches: &[Touch], role: Role, rows: &Range<u32>, request: &[u8], bytes: &mut [u8]) {
    let (first, end) = (u64::from(rows.start) * BLOCK, u64::from(rows.end) * BLOCK);
    for touch in touches.iter().filter(|touch| touch.role == role) {
        let (start, end) = (touch.start.max(first), touch.end.min(end));
        if start < end {
            let from = (touch.from + start - touch.start) as usize;
            let len = (end - start) as usize;
            let to = (start - first) as usize;
            bytes[to..to + len].copy_from_slice(&request[from..from + len]);
        }
    }
}
