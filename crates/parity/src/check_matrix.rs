//! The parity-check matrix of a stripe: one row for each equation, one column for each member.
//!
//! `sum over m of H[i][m] * x[m] = 0` for every row i and byte position. RAID-5 is one row of ones;
//! RAID-6 has P = ones over data and P, and Q = g^slot over data, 1 on Q. Everything below holds
//! for any H.
//!
//! # Missing members
//! A missing member contributes unknown bytes. Row operations preserve the solutions of the
//! equations, so the rows are combined until only one of them has a non-zero entry in the missing
//! column, and that row is dropped. The remaining equations can be checked without the member.
//! RAID-6 minus one member leaves one equation, minus two none.
//!
//! Example, 3+2 without data 1: P = (1 1 1 1 0), Q = (1 2 4 0 1). Q + 2P = (3 0 6 2 1): column 1 is
//! gone.
//!
//! # Recovery
//! Gauss-Jordan on the lost columns gives each of them a separate equation of the form `lost = sum
//! of coefficient * survivor`. This is possible if and only if the lost columns are linearly
//! independent, and only then are the lost bytes determined. If there are more equations than
//! losses, those with the fewest members are used first, so that a local parity is read before a
//! global one, and P before Q.

use crate::gf::{self, add_scaled};
use crate::linear::{Span, solve_for, vector};
use crate::matrix::MAX_ROWS;
use thiserror::Error;

/// The equations of a stripe.
#[derive(Debug, Clone)]
pub struct CheckMatrix {
    columns: usize,
    rows: Vec<Vec<u8>>,
    /// Number of columns that are independent whichever they are, as far as is known:
    /// [`any_independent`](Self::any_independent).
    any: usize,
}

/// Equal equations are equal, whatever is known of their code.
impl PartialEq for CheckMatrix {
    fn eq(&self, other: &Self) -> bool {
        (self.columns, &self.rows) == (other.columns, &other.rows)
    }
}

impl Eq for CheckMatrix {}

/// An invalid check matrix.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum CheckMatrixError {
    /// Too many rows.
    #[error("{0} rows: a code has at most 8")]
    Rows(usize),
    /// No columns.
    #[error("a stripe has at least one member")]
    NoColumns,
    /// The coefficients do not fill it.
    #[error("{length} coefficients for {rows} rows of {columns}")]
    Length {
        /// Coefficients given.
        length: usize,
        /// Rows.
        rows: usize,
        /// Columns.
        columns: usize,
    },
}

/// Coefficients that compute lost members from the others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recovery {
    /// The lost members, as asked.
    pub lost: Vec<usize>,
    /// The members that are needed.
    pub survivors: Vec<usize>,
    /// `lost[i] = sum over j of coefficients[i][j] * survivors[j]`.
    pub coefficients: Vec<Vec<u8>>,
}

impl CheckMatrix {
    /// A matrix of at most 8 rows, row after row.
    ///
    /// # Errors
    /// If counts do not fit together.
    pub fn new(rows: usize, columns: usize, row_major: &[u8]) -> Result<Self, CheckMatrixError> {
        if rows > MAX_ROWS {
            return Err(CheckMatrixError::Rows(rows));
        }
        if columns == 0 {
            return Err(CheckMatrixError::NoColumns);
        }
        if rows.checked_mul(columns) != Some(row_major.len()) {
            return Err(CheckMatrixError::Length { length: row_major.len(), rows, columns });
        }
        Ok(Self { columns, rows: row_major.chunks(columns).map(<[u8]>::to_vec).collect(), any: 0 })
    }

    /// The same, of a code of which any `any` columns that are not zero are independent.
    pub(crate) fn with_any(self, any: usize) -> Self {
        Self { any, ..self }
    }

    /// A number of columns that are independent whichever they are, columns of zeros apart: the
    /// distance of the code less 1, or fewer. 0 if nothing is known of the code.
    #[must_use]
    pub const fn any_independent(&self) -> usize {
        self.any
    }

    /// Equations.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.rows.len()
    }

    /// Members.
    #[must_use]
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// The coefficient of a member in an equation.
    ///
    /// # Panics
    /// If there is no such row or column.
    #[must_use]
    pub fn get(&self, row: usize, column: usize) -> u8 {
        self.rows[row][column]
    }

    /// One equation.
    ///
    /// # Panics
    /// If there is no such row.
    #[must_use]
    pub fn row(&self, row: usize) -> &[u8] {
        &self.rows[row]
    }

    /// The coefficients of one member.
    ///
    /// # Panics
    /// If there is no such column.
    #[must_use]
    pub fn column(&self, column: usize) -> Vec<u8> {
        self.rows.iter().map(|row| row[column]).collect()
    }

    /// One equation from all: `c[m] = sum over i of weights[i] * H[i][m]`.
    ///
    /// # Panics
    /// If there are not as many weights as rows.
    #[must_use]
    pub fn combine(&self, weights: &[u8]) -> Vec<u8> {
        assert_eq!(weights.len(), self.rows.len(), "one weight a row");
        let mut out = vec![0; self.columns];
        for (weight, row) in weights.iter().zip(&self.rows) {
            add_scaled(&mut out, row, *weight);
        }
        out
    }

    /// The equations that remain without some members: as many independent ones as there are, with
    /// zeros in those columns. An equation without a missing member stays as it is.
    ///
    /// # Panics
    /// If there is no such column.
    #[must_use]
    pub fn eliminate(&self, missing: &[usize]) -> Self {
        let mut rows = self.rows.clone();
        let mut any = self.any;
        for column in missing {
            // The first row that has the column is given up: in a local code that is the local
            // parity, and rows of other groups are left alone.
            if let Some(pivot) = rows.iter().position(|row| row[*column] != 0) {
                let pivot = rows.remove(pivot);
                // Columns are independent now if they were together with the missing one.
                any = any.saturating_sub(1);
                let inverse = gf::inv(pivot[*column]).expect("the pivot is not zero");
                for row in &mut rows {
                    let factor = gf::mul(row[*column], inverse);
                    add_scaled(row, &pivot, factor);
                }
            }
        }
        Self { columns: self.columns, rows: independent(rows), any }
    }

    /// Returns whether the equations determine these lost members: their columns are independent.
    /// `false` if a member is named twice.
    ///
    /// # Panics
    /// If there is no such column.
    #[must_use]
    pub fn corrects(&self, lost: &[usize]) -> bool {
        let mut span = Span::default();
        lost.iter().all(|column| span.insert(vector(self.rows.iter().map(|row| row[*column]))))
    }

    /// Computes the recovery of lost members from the others; `None` if the equations do not
    /// determine them, or if a member is named twice.
    ///
    /// # Panics
    /// If there is no such column.
    #[must_use]
    pub fn recover(&self, lost: &[usize]) -> Option<Recovery> {
        let mut rows = self.rows.clone();
        // A stable sort: equal rows keep their order.
        rows.sort_by_key(|row| row.iter().filter(|c| **c != 0).count());
        solve_for(&mut rows, lost)?;
        rows.truncate(lost.len());
        let needed = |column: &usize| !lost.contains(column) && rows.iter().any(|row| row[*column] != 0);
        let survivors: Vec<usize> = (0..self.columns).filter(needed).collect();
        let coefficients = rows.iter().map(|row| survivors.iter().map(|s| row[*s]).collect()).collect();
        Some(Recovery { lost: lost.to_vec(), survivors, coefficients })
    }
}

/// The rows that are no combination of those before them.
///
/// Row rank is column rank, and columns are short: rows are independent where the columns that they
/// leave span as many dimensions as there are rows.
fn independent(rows: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
    let mut kept: Vec<Vec<u8>> = Vec::with_capacity(rows.len());
    for row in rows {
        kept.push(row);
        if column_rank(&kept) < kept.len() {
            kept.pop();
        }
    }
    kept
}

fn column_rank(rows: &[Vec<u8>]) -> usize {
    let columns = rows.first().map_or(0, Vec::len);
    let mut span = Span::default();
    for column in 0..columns {
        span.insert(vector(rows.iter().map(|row| row[column])));
    }
    span.dimension()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raid6(k: usize) -> CheckMatrix {
        let mut rows = vec![1; k];
        rows.extend([1, 0]);
        rows.extend((0..k).map(gf::exp));
        rows.extend([0, 1]);
        CheckMatrix::new(2, k + 2, &rows).unwrap()
    }

    #[test]
    fn the_example_of_the_header() {
        let remaining = raid6(3).eliminate(&[1]);
        assert_eq!(remaining.rows(), 1);
        assert_eq!(remaining.row(0), [3, 0, 6, 2, 1]);
    }

    #[test]
    fn every_pair_of_losses_of_raid6_is_recovered_and_leaves_no_equation() {
        let check = raid6(6);
        let data: Vec<u8> = (0..6).map(|i| 17 * i as u8 + 3).collect();
        let p = data.iter().fold(0, |a, d| a ^ d);
        let q = data.iter().enumerate().fold(0, |a, (i, d)| a ^ gf::mul(gf::exp(i), *d));
        let stripe: Vec<u8> = data.into_iter().chain([p, q]).collect();
        for a in 0..8 {
            assert_eq!(check.eliminate(&[a]).rows(), 1);
            for b in 0..8 {
                if a == b {
                    continue;
                }
                assert_eq!(check.eliminate(&[a, b]).rows(), 0);
                assert!(check.corrects(&[a, b]));
                let recovery = check.recover(&[a, b]).unwrap();
                for (lost, row) in recovery.lost.iter().zip(&recovery.coefficients) {
                    let value =
                        recovery.survivors.iter().zip(row).fold(0, |v, (s, c)| v ^ gf::mul(*c, stripe[*s]));
                    assert_eq!(value, stripe[*lost], "{a} {b}");
                }
            }
        }
        assert_eq!(check.recover(&[0, 1, 2]), None);
        assert!(!check.corrects(&[0, 1, 2]) && !check.corrects(&[4, 4]) && check.corrects(&[]));
    }

    #[test]
    fn what_remains_holds_for_every_codeword() {
        let check = raid6(4);
        for missing in 0..6 {
            let remaining = check.eliminate(&[missing]);
            for unit in 0..4 {
                let mut stripe = [0; 6];
                stripe[unit] = 1;
                stripe[4] = 1;
                stripe[5] = gf::exp(unit);
                let sum = remaining.row(0).iter().zip(stripe).fold(0, |v, (c, x)| v ^ gf::mul(*c, x));
                assert_eq!(sum, 0, "missing {missing}");
                assert_eq!(remaining.get(0, missing), 0);
            }
        }
    }

    #[test]
    fn equations_that_say_the_same_are_one() {
        let twice = CheckMatrix::new(3, 3, &[1, 1, 1, 2, 2, 2, 1, 2, 3]).unwrap();
        let once = CheckMatrix::new(2, 3, &[1, 1, 1, 1, 2, 3]).unwrap();
        assert_eq!(twice.eliminate(&[]), once);
        assert_eq!(twice.eliminate(&[0]).rows(), 1);
        assert_eq!(once.recover(&[0, 0]), None);
    }

    #[test]
    fn one_lost_member_is_read_from_the_fewest() {
        let check = raid6(4);
        assert_eq!(check.recover(&[2]).unwrap().survivors, [0, 1, 3, 4]);
        assert_eq!(check.recover(&[5]).unwrap().survivors, [0, 1, 2, 3]);
        assert_eq!(check.recover(&[]).unwrap().survivors, []);
        // Wherever the rows stand: column 0 by row 2; then column 1 by row 0, the shorter one.
        let check = CheckMatrix::new(3, 6, &[0, 1, 0, 0, 0, 1, 0, 1, 1, 0, 2, 0, 1, 0, 1, 1, 1, 1]).unwrap();
        assert_eq!(check.recover(&[0, 1]).unwrap().survivors, [2, 3, 4, 5]);
        assert_eq!(check.recover(&[0, 1]).unwrap().coefficients[1], [0, 0, 0, 1]);
        let reversed = CheckMatrix::new(2, 4, &[1, 2, 3, 1, 1, 1, 0, 0]).unwrap();
        assert_eq!(reversed.recover(&[0]).unwrap().survivors, [1]);
    }

    #[test]
    fn combined_equations_weigh_every_row() {
        assert_eq!(raid6(3).combine(&[1, 1]), [0, 3, 5, 1, 1], "the first slot is blind with plain weights");
        assert_eq!(raid6(3).combine(&[0, 2]), [2, 4, 8, 0, 2]);
    }

    #[test]
    fn wrong_counts_are_named() {
        assert_eq!(CheckMatrix::new(9, 1, &[1; 9]), Err(CheckMatrixError::Rows(9)));
        assert_eq!(CheckMatrix::new(1, 0, &[]), Err(CheckMatrixError::NoColumns));
        assert_eq!(
            CheckMatrix::new(2, usize::MAX, &[1]),
            Err(CheckMatrixError::Length { length: 1, rows: 2, columns: usize::MAX })
        );
        assert_eq!(CheckMatrix::new(0, 4, &[]).unwrap().rows(), 0);
    }
}
