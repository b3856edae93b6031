//! The blocks of operations: what was read of the members, and what is to be stored on them.

use crate::pool::Pool;
use pumice_base::buffer::{AlignedBuffer, SharedBuffer};
use pumice_base::units::Role;
use pumice_parity::kernels::Kernels;
use pumice_parity::matrix::Matrix;
use pumice_volume::plan::{Output, RowPlan, Term};
use pumice_volume::rows::{BLOCK, Touch};
use std::ops::Range;
use std::sync::Arc;

/// Bytes of a block.
const BYTES: usize = BLOCK as usize;

/// Blocks of neighbouring rows of a member.
#[derive(Debug)]
struct Run {
    role: Role,
    rows: Range<u32>,
    bytes: SharedBuffer,
}

impl Run {
    /// Takes the first bytes of a buffer.
    fn new(role: Role, rows: Range<u32>, bytes: AlignedBuffer) -> Self {
        let len = rows.len() * BYTES;
        Self { role, rows, bytes: SharedBuffer::new(bytes, len) }
    }

    /// The place of rows of it.
    fn within(&self, rows: &Range<u32>) -> Range<usize> {
        let first = span(&self.rows).start;
        span(rows).start - first..span(rows).end - first
    }
}

/// Runs of members; where those of a member overlap, the last one counts.
type Runs = Vec<Run>;

/// The blocks of one operation, as far as they are used.
#[derive(Debug, Default)]
pub(crate) struct Buffers {
    old: Runs,
    new: Runs,
}

/// Bytes of a run of rows.
const fn span(rows: &Range<u32>) -> Range<usize> {
    rows.start as usize * BYTES..rows.end as usize * BYTES
}

/// The bytes of rows that lie in one run.
///
/// # Panics
/// If none has all of them: they were not made.
fn find<'r>(runs: &'r Runs, role: Role, rows: &Range<u32>) -> (&'r Run, Range<usize>) {
    let holds = |run: &&Run| run.role == role && run.rows.start <= rows.start && rows.end <= run.rows.end;
    let run = runs.iter().rev().find(holds).expect("the rows were made");
    (run, run.within(rows))
}

/// A part of the answer to a read.
#[derive(Debug)]
pub(crate) struct Piece {
    /// The place where it begins in the answer.
    pub(crate) at: usize,
    pub(crate) bytes: SharedBuffer,
}

impl Buffers {
    /// Takes what was read of a member.
    pub(crate) fn came(&mut self, role: Role, rows: Range<u32>, bytes: AlignedBuffer) {
        self.old.push(Run::new(role, rows, bytes));
    }

    /// Takes what a node has made of a member.
    pub(crate) fn made(&mut self, role: Role, rows: Range<u32>, bytes: AlignedBuffer) {
        self.new.push(Run::new(role, rows, bytes));
    }

    /// The new block of a row of a member.
    pub(crate) fn new_row(&self, role: Role, row: u32) -> &[u8] {
        let (run, at) = find(&self.new, role, &(row..row + 1));
        &run.bytes[at]
    }

    /// New blocks of a member, in pieces that lie together.
    pub(crate) fn new_rows(&self, role: Role, rows: &Range<u32>) -> Vec<(Range<u32>, SharedBuffer)> {
        let mut out = Vec::new();
        let mut first = rows.start;
        while first < rows.end {
            let holds = |run: &&Run| run.role == role && run.rows.contains(&first);
            let run = self.new.iter().rev().find(holds);
            let piece = first..run.map_or(first + 1, |run| run.rows.end.min(rows.end));
            first = piece.end;
            let (run, at) = find(&self.new, role, &piece);
            out.push((piece, run.bytes.part(at)));
        }
        out
    }

    /// Makes new blocks by the plans of rows, and lays the request's bytes over those that it
    /// touches. Blocks that are the request's bytes, and nothing else, stay where they are. What
    /// was made before is made again. Returns how many bytes were read and written.
    pub(crate) fn fold(
        &mut self,
        (kernels, pool): (Kernels, &mut Pool),
        plans: &[(u32, Arc<RowPlan>)],
        touches: &[Touch],
        request: Option<&SharedBuffer>,
    ) -> u64 {
        self.new.clear();
        let (mut rest, mut moved) = (plans, 0);
        while let Some((first, plan)) = rest.first() {
            // Rows with one plan are folded together.
            let same = |(i, (row, other)): (u32, &(u32, Arc<RowPlan>))| *row == first + i && other == plan;
            let count = (0..).zip(rest).take_while(|entry| same(*entry)).count();
            let rows = *first..*first + count as u32;
            let mut outputs = &plan.outputs[..];
            while let Some(output) = outputs.first() {
                let here = request.filter(|_| output.overlay && output.terms.is_empty());
                if let Some(bytes) = here.and_then(|request| lent(touches, output.role, &rows, request)) {
                    self.new.push(Run { role: output.role, rows: rows.clone(), bytes });
                    outputs = &outputs[1..];
                    continue;
                }
                // Parities are sums of the same blocks: they are made in one pass.
                let together = outputs.iter().take_while(|other| are_alike(output, other)).count().max(1);
                let (now, later) = outputs.split_at(together);
                moved += self.make((kernels, &mut *pool), now, &rows, touches, request);
                outputs = later;
            }
            rest = &rest[count..];
        }
        moved
    }

    /// Makes outputs that are sums of the same blocks. Returns how many bytes were read and
    /// written.
    fn make(
        &mut self,
        (kernels, pool): (Kernels, &mut Pool),
        outputs: &[Output],
        rows: &Range<u32>,
        touches: &[Touch],
        request: Option<&SharedBuffer>,
    ) -> u64 {
        let len = rows.len() * BYTES;
        let mut made: Vec<AlignedBuffer> = outputs.iter().map(|_| pool.take(len)).collect();
        let mut targets: Vec<&mut [u8]> = made.iter_mut().map(|bytes| &mut bytes[..len]).collect();
        self.sum(kernels, outputs, rows, &mut targets);
        let mut passes = outputs.first().map_or(0, |output| output.terms.len()) + outputs.len();
        for (output, bytes) in outputs.iter().zip(&mut made) {
            if output.overlay {
                passes += 2;
                overlay(touches, output.role, rows, request.map_or(&[], |request| request), bytes);
            }
        }
        for (output, bytes) in outputs.iter().zip(made) {
            self.new.push(Run::new(output.role, rows.clone(), bytes));
        }
        (passes * len) as u64
    }

    fn sum(&self, kernels: Kernels, outputs: &[Output], rows: &Range<u32>, targets: &mut [&mut [u8]]) {
        let Some(Output { terms, .. }) = outputs.first() else { return };
        let sources: Vec<&[u8]> = terms
            .iter()
            .map(|(term, _)| {
                let (run, at) = match term {
                    Term::Old(role) => find(&self.old, *role, rows),
                    Term::New(role) => find(&self.new, *role, rows),
                };
                &run.bytes[at]
            })
            .collect();
        match (terms.as_slice(), &mut *targets) {
            ([], _) => targets.iter_mut().for_each(|target| target.fill(0)),
            ([(_, 1)], [target]) => target.copy_from_slice(sources[0]),
            (_, [target]) if terms.iter().all(|(_, factor)| *factor == 1) => kernels.xor(&sources, target),
            _ => weighted_sum(kernels, outputs, &sources, targets),
        }
    }

    /// Gives back the memory that nobody else uses.
    pub(crate) fn give_back(self, pool: &mut Pool) {
        for run in self.old.into_iter().chain(self.new) {
            pool.give_shared(run.bytes);
        }
    }

    /// The blocks of a read, with their places in the answer.
    pub(crate) fn deliver(&self, touches: &[Touch]) -> Vec<Piece> {
        let mut pieces = Vec::new();
        for touch in touches {
            let rows = (touch.start / BLOCK) as u32..touch.end.div_ceil(BLOCK) as u32;
            for (piece, bytes) in self.new_rows(touch.role, &rows) {
                let base = u64::from(piece.start) * BLOCK;
                let (start, end) = (touch.start.max(base), touch.end.min(u64::from(piece.end) * BLOCK));
                let at = (touch.from + start - touch.start) as usize;
                let bytes = bytes.part((start - base) as usize..(end - base) as usize);
                pieces.push(Piece { at, bytes });
            }
        }
        pieces
    }
}

/// Fills targets with sums of the same blocks, with factors of their own.
fn weighted_sum(kernels: Kernels, outputs: &[Output], sources: &[&[u8]], targets: &mut [&mut [u8]]) {
    let factors = outputs.iter().flat_map(|output| output.terms.iter().map(|(_, factor)| *factor));
    let factors: Vec<u8> = factors.collect();
    if let Ok(matrix) = Matrix::new(outputs.len(), sources.len(), &factors) {
        return kernels.generate(&matrix, sources, targets);
    }
    // More terms than a matrix has columns.
    for (target, factors) in targets.iter_mut().zip(factors.chunks(sources.len())) {
        target.fill(0);
        for (source, factor) in sources.iter().zip(factors) {
            pumice_parity::gf::add_scaled(target, source, *factor);
        }
    }
}

/// Returns whether outputs are sums of the same blocks, with factors of their own, and nothing is
/// laid over them.
fn are_alike(one: &Output, other: &Output) -> bool {
    let blocks = |output: &Output| output.terms.iter().map(|(term, _)| *term).collect::<Vec<_>>();
    !one.overlay && !other.overlay && !one.terms.is_empty() && blocks(one) == blocks(other)
}

/// The part of a request's bytes that are the whole of these rows of a member, if there is one and
/// it lies where direct I/O can write it from.
fn lent(touches: &[Touch], role: Role, rows: &Range<u32>, request: &SharedBuffer) -> Option<SharedBuffer> {
    let (first, end) = (u64::from(rows.start) * BLOCK, u64::from(rows.end) * BLOCK);
    let mut of_member = touches.iter().filter(|touch| touch.role == role);
    let touch = of_member.next().filter(|touch| touch.start <= first && end <= touch.end)?;
    if of_member.next().is_some() {
        return None;
    }
    let from = (touch.from + first - touch.start) as usize;
    Some(request.part(from..from + (end - first) as usize)).filter(SharedBuffer::is_aligned)
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

#[cfg(test)]
mod tests {
    use super::*;

    const ROLE: Role = Role(2);

    /// Makes outputs in memory that was used before.
    fn made(outputs: Vec<Output>, old: &[(Role, u8)]) -> Buffers {
        let (mut pool, mut buffers) = (Pool::default(), Buffers::default());
        for _ in 0..outputs.len() {
            let mut used = AlignedBuffer::new(BYTES);
            used.fill(0xEE);
            pool.give(used);
        }
        for (role, value) in old {
            let mut bytes = AlignedBuffer::new(BYTES);
            bytes.fill(*value);
            buffers.came(*role, 0..1, bytes);
        }
        let method = pumice_volume::plan::Method::None;
        let plan = Arc::new(RowPlan { method, reads: std::collections::BTreeSet::new(), outputs });
        buffers.fold((Kernels::best(), &mut pool), &[(0, plan)], &[], None);
        buffers
    }

    /// A new block has nothing of what its memory held.
    #[test]
    fn blocks_are_made_in_memory_that_was_used_before() {
        let output = |terms| Output { role: ROLE, terms, overlay: false, stored: true };
        let zeros = made(vec![output(Vec::new())], &[]);
        assert!(zeros.new_row(ROLE, 0).iter().all(|byte| *byte == 0));
        // A copy, a sum, a weighted sum, and a sum of more terms than a matrix has columns.
        let many: Vec<Role> = (10..700).map(Role).collect();
        for (terms, expected) in [
            (vec![(Role(0), 1)], 5),
            (vec![(Role(0), 1), (Role(1), 1)], 5 ^ 9),
            (vec![(Role(0), 2), (Role(1), 1)], 10 ^ 9),
            (many.iter().map(|role| (*role, 2)).collect(), 0),
            (many[1..].iter().map(|role| (*role, 2)).collect(), 2),
        ] {
            let mut old = vec![(Role(0), 5), (Role(1), 9)];
            old.extend(many.iter().map(|role| (*role, 1)));
            let terms = terms.into_iter().map(|(role, factor)| (Term::Old(role), factor)).collect();
            let made = made(vec![output(terms)], &old);
            assert!(made.new_row(ROLE, 0).iter().all(|byte| *byte == expected), "{expected}");
        }
    }

    #[test]
    fn memory_is_given_back_that_nobody_else_uses() {
        let mut pool = Pool::default();
        let mut buffers = Buffers::default();
        buffers.came(ROLE, 0..1, AlignedBuffer::new(BYTES));
        buffers.made(ROLE, 0..2, AlignedBuffer::new(2 * BYTES));
        let starts = (buffers.old[0].bytes.start(), buffers.new[0].bytes.start());
        let answer = buffers.new_rows(ROLE, &(1..2));
        buffers.give_back(&mut pool);
        assert_eq!(pool.take(BYTES).start(), starts.0);
        assert_ne!(pool.take(2 * BYTES).start(), starts.1);
        drop(answer);
    }
}
