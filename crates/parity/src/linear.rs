//! Subspaces of GF(2^8)^p for p of at most eight: what the rows and columns of a check matrix span.

use crate::gf::{self, add_scaled};
use crate::matrix::MAX_ROWS;

/// A vector with one entry for each row of a check matrix; entries past the rows are zero.
pub(crate) type Vector = [u8; MAX_ROWS];

/// `values` as a vector, padded with zeros. Values past the eighth are left out: there are none.
pub(crate) fn vector(values: impl IntoIterator<Item = u8>) -> Vector {
    let mut out = [0; MAX_ROWS];
    for (o, value) in out.iter_mut().zip(values) {
        *o = value;
    }
    out
}

/// `row *= factor`.
pub(crate) fn scale(row: &mut [u8], factor: u8) {
    let table = &gf::MUL[usize::from(factor)];
    for r in row {
        *r = table[usize::from(*r)];
    }
}

/// A subspace, as a basis in which every vector has a 1 where all later ones have a 0.
#[derive(Debug, Clone, Default)]
pub(crate) struct Span {
    basis: [Vector; MAX_ROWS],
    /// Index of the leading 1 of each `basis[i]`.
    pivots: [usize; MAX_ROWS],
    dimension: usize,
}

impl Span {
    pub(crate) fn dimension(&self) -> usize {
        self.dimension
    }

    /// Reduces `v` by the basis. The result is zero if `v` lies in the subspace.
    fn residue(&self, mut v: Vector) -> Vector {
        for (base, pivot) in self.basis.iter().zip(self.pivots).take(self.dimension) {
            let factor = v[pivot];
            if factor != 0 {
                add_scaled(&mut v, base, factor);
            }
        }
        v
    }

    pub(crate) fn contains(&self, v: Vector) -> bool {
        self.residue(v) == [0; MAX_ROWS]
    }

    /// Widens the subspace by `v`; tells whether it grew.
    pub(crate) fn insert(&mut self, v: Vector) -> bool {
        let mut rest = self.residue(v);
        let Some(pivot) = rest.iter().position(|c| *c != 0) else { return false };
        let inverse = gf::inv(rest[pivot]).expect("the pivot is not zero");
        scale(&mut rest, inverse);
        // A residue is zero at every pivot of the basis, so there are at most as many as entries.
        self.basis[self.dimension] = rest;
        self.pivots[self.dimension] = pivot;
        self.dimension += 1;
        true
    }
}

/// Gauss-Jordan: brings the columns `columns` of `rows` to unit columns, `columns[i]` to a 1 in row
/// i. `None` if they are linearly dependent; then `rows` is left half way.
///
/// The pivot of a column is the first row that has it, so rows that stand first are used first.
pub(crate) fn solve_for(rows: &mut [Vec<u8>], columns: &[usize]) -> Option<()> {
    for (done, column) in columns.iter().enumerate() {
        let pivot = (done..rows.len()).find(|row| rows[*row][*column] != 0)?;
        // Rotated, not swapped: the rows that wait keep their order.
        rows[done..=pivot].rotate_right(1);
        let inverse = gf::inv(rows[done][*column])?;
        scale(&mut rows[done], inverse);
        let own = rows[done].clone();
        for (i, row) in rows.iter_mut().enumerate() {
            let factor = row[*column];
            if i != done && factor != 0 {
                add_scaled(row, &own, factor);
            }
        }
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_contains_its_combinations_and_nothing_else() {
        let (a, b) = (vector([1, 2, 4]), vector([0, 1, 1]));
        let mut span = Span::default();
        assert!(span.insert(a) && span.insert(b));
        for x in 0..=255 {
            let mut sum = a;
            scale(&mut sum, x);
            add_scaled(&mut sum, &b, 0x53);
            assert!(span.contains(sum) && !span.insert(sum));
        }
        assert!(!span.contains(vector([0, 0, 1])) && !span.contains(vector([0, 0, 0, 1])));
        assert_eq!(span.dimension(), 2);
    }

    #[test]
    fn eight_dimensions_are_all() {
        let mut span = Span::default();
        for i in 0..MAX_ROWS {
            let mut v = [0; MAX_ROWS];
            v[i] = 7;
            v[0] ^= 1;
            assert!(span.insert(v));
        }
        assert!(span.contains([0xA5; MAX_ROWS]) && !span.insert([1, 2, 3, 4, 5, 6, 7, 8]));
    }
}
