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

/// The blocks of one operation: a window of each member, as far as it is used.
#[derive(Debug, Default)]
pub(crate) struct Buffers {
    old: BTreeMap<Role, AlignedBuffer>,
    new: BTreeMap<Role, AlignedBuffer>,
}

/// The bytes of a run of rows in a window.
const fn span(rows: &Range<u32>) -> Range<usize> {
    rows.start as usize * BYTES..rows.end as usize * BYTES
}

impl Buffers {
    /// Takes what was read of a member: rows of a window of `window` bytes.
    pub(crate) fn came(&mut self, role: Role, rows: &Range<u32>, window: usize, bytes: &[u8]) {
        let old = self.old.entry(role).or_insert_with(|| AlignedBuffer::new(window));
        old[span(rows)].copy_from_slice(&bytes[..span(rows).len()]);
    }

    /// New blocks of a member. All of them were made before they are asked for.
    pub(crate) fn new_rows(&self, role: Role, rows: &Range<u32>) -> &[u8] {
        self.new.get(&role).map_or(&[], |window| &window[span(rows)])
    }

    /// Makes new blocks by the plans of rows, and lays the request's bytes over those that it
    /// touches.
    pub(crate) fn fold(
        &mut self,
        kernels: Kernels,
        window: usize,
        plans: &[(u32, RowPlan)],
        touches: &[Touch],
        request: &[u8],
    ) {
        let mut rest = plans;
        while let Some((first, plan)) = rest.first() {
            // Rows with one plan are folded together.
            let same = |(i, (row, other)): (u32, &(u32, RowPlan))| *row == first + i && other == plan;
            let count = (0..).zip(rest).take_while(|entry| same(*entry)).count();
            let rows = *first..*first + count as u32;
            for output in &plan.outputs {
                let mut target = self.new.remove(&output.role).unwrap_or_else(|| AlignedBuffer::new(window));
                self.sum(kernels, &output.terms, &rows, &mut target[span(&rows)]);
                if output.overlay {
                    overlay(touches, output.role, &rows, request, &mut target);
                }
                self.new.insert(output.role, target);
            }
            rest = &rest[count..];
        }
    }

    fn sum(&self, kernels: Kernels, terms: &[(Term, u8)], rows: &Range<u32>, target: &mut [u8]) {
        let source = |term: &Term| match term {
            Term::Old(role) => &self.old[role][span(rows)],
            Term::New(role) => &self.new[role][span(rows)],
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
            let len = (touch.end - touch.start) as usize;
            let from = &self.new[&touch.role][touch.start as usize..touch.end as usize];
            answer[touch.from as usize..touch.from as usize + len].copy_from_slice(from);
        }
    }
}

/// Lays a request's bytes over rows of a member's window.
fn overlay(touches: &[Touch], role: Role, rows: &Range<u32>, request: &[u8], window: &mut [u8]) {
    let (first, end) = (u64::from(rows.start) * BLOCK, u64::from(rows.end) * BLOCK);
    for touch in touches.iter().filter(|touch| touch.role == role) {
        let (start, end) = (touch.start.max(first), touch.end.min(end));
        if start < end {
            let from = (touch.from + start - touch.start) as usize;
            let len = (end - start) as usize;
            window[start as usize..end as usize].copy_from_slice(&request[from..from + len]);
        }
    }
}
