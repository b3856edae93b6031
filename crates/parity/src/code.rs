//! Erasure codes: a check matrix, and which of its columns hold data and which parity.
//!
//! # Derivation
//! Data columns come first, in order, then the parities; parity j is row j, and every code here is
//! systematic with H = \[A | I\]: `parity[j] = sum over data i of A[j][i] * data[i]`, since -1 = 1.
//! So the rows of A are what an encoder multiplies by, and everything else (what remains without
//! some members, recovery, location) is linear algebra on H and lives in [`CheckMatrix`].
//!
//! A set of lost columns decodes if and only if their columns of H are linearly independent: then,
//! and only then, are the lost values the one solution of the equations.
//!
//! | code | rows | what decodes |
//! |---|---|---|
//! | [`Code::raid5`] | ones | any one |
//! | [`Code::raid6`] | ones; 2^i | any two |
//! | [`Code::reed_solomon`] | Cauchy, m rows | any m (MDS) |
//! | [`Code::copies`] | ones | all but one |
//! | [`Code::lrc`] | one XOR a group; alpha_i; alpha_i^2 | one a group, and any two more |
//!
//! # Reed-Solomon: why Cauchy
//! The entries are `1 / (x_j + y_i)` with all x and y distinct: every square submatrix of a Cauchy
//! matrix is regular (its determinant is a product of differences over a product of sums), which is
//! exactly what makes \[A | I\] MDS. A plain Vandermonde matrix with rows 1, g^i, g^2i, g^3i has
//! singular minors from four parities on. With x_j = j and y_i = m + i, each column is divided by
//! its entry in row 0: scaling a column by a non-zero constant keeps minors regular, and makes
//! parity 0 a plain XOR.
//!
//! Worked example, 3+2: 1/(0+2), 1/(0+3), 1/(0+4) over 1/(1+2), 1/(1+3), 1/(1+4) becomes 1 1 1 over
//! 2/3, 3/2, 4/5 = F5, 8F, A6.
//!
//! # References
//! I. S. Reed, G. Solomon, *Polynomial codes over certain finite fields*, 1960; J. Bloemer et al.,
//! *An XOR-based erasure-resilient coding scheme*, ICSI TR-95-048, 1995 (Cauchy matrices); H. P.
//! Anvin, *The mathematics of RAID-6*. Local reconstruction codes: see [`Code::lrc`].

mod lrc;

use crate::check_matrix::{CheckMatrix, CheckMatrixError, Recovery};
use crate::gf;
use crate::matrix::MAX_ROWS;
use thiserror::Error;

/// The largest number of data columns of RAID-6: 2^255 = 1 would name slot 0 twice.
pub const MAX_RAID6_DATA: usize = 255;

/// What a column holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ColumnRole {
    /// Data, by its index.
    Data(usize),
    /// Parity, by its index, which is also its row of the check matrix.
    Parity(usize),
}

/// A systematic erasure code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Code {
    check: CheckMatrix,
    data: usize,
}

/// Why there is no such code.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum CodeError {
    /// A count is out of its range.
    #[error("{field} is {value}: it must be {least} to {most}")]
    Count {
        /// Which count.
        field: &'static str,
        /// What was asked for.
        value: usize,
        /// The least that there is.
        least: usize,
        /// The most that there is.
        most: usize,
    },
    /// The matrix does not fit its counts.
    #[error(transparent)]
    Matrix(#[from] CheckMatrixError),
}

impl Code {
    /// RAID-5 (and RAID-4): `data` data columns, one XOR parity.
    ///
    /// # Errors
    /// If there is no data, or more than 65535 columns of it.
    pub fn raid5(data: usize) -> Result<Self, CodeError> {
        in_range("data", data, 1, usize::from(u16::MAX))?;
        Self::systematic(&[vec![1; data]])
    }

    /// RAID-6 as Linux md has it: P the XOR, Q the sum of `2^i * data[i]`.
    ///
    /// # Errors
    /// If there are not 1 to 255 data columns.
    pub fn raid6(data: usize) -> Result<Self, CodeError> {
        in_range("data", data, 1, MAX_RAID6_DATA)?;
        Self::systematic(&[vec![1; data], (0..data).map(gf::exp).collect()])
    }

    /// Repetition: `copies` columns that hold the same bytes. Column 0 counts as the data and the
    /// others as its parities, though none of them is the original. Of n copies, up to (n - 1) / 2
    /// that differ are located: by majority.
    ///
    /// # Errors
    /// If there are not 2 to 9 copies.
    pub fn copies(copies: usize) -> Result<Self, CodeError> {
        in_range("copies", copies, 2, MAX_ROWS + 1)?;
        Self::systematic(&vec![vec![1]; copies - 1])
    }

    /// Reed-Solomon: `data` data columns and `parities` parities from a Cauchy matrix, parity 0 the
    /// XOR. The module's header has the formula.
    ///
    /// # Errors
    /// If parities are not 1 to 8, there is no data, or the columns are more than the 256
    /// elements of the field.
    pub fn reed_solomon(data: usize, parities: usize) -> Result<Self, CodeError> {
        in_range("parities", parities, 1, MAX_ROWS)?;
        in_range("data", data, 1, 256 - parities)?;
        // In range: j < 8 and m + i < 256, and never equal.
        let quotient = |a: usize, b: usize| gf::div(a as u8, b as u8).expect("x and y are distinct");
        let rows: Vec<Vec<u8>> = (0..parities)
            .map(|x| (parities..parities + data).map(|y| quotient(y, x ^ y)).collect())
            .collect();
        Self::systematic(&rows)
    }

    /// \[A | I\] from the rows of A, which are of one length.
    fn systematic(rows: &[Vec<u8>]) -> Result<Self, CodeError> {
        let data = rows.first().map_or(0, Vec::len);
        let mut all = Vec::with_capacity(rows.len() * (data + rows.len()));
        for (i, row) in rows.iter().enumerate() {
            all.extend_from_slice(row);
            all.extend((0..rows.len()).map(|j| u8::from(i == j)));
        }
        Ok(Self { check: CheckMatrix::new(rows.len(), data + rows.len(), &all)?, data })
    }

    /// The parity-check matrix.
    #[must_use]
    pub fn check(&self) -> &CheckMatrix {
        &self.check
    }

    /// Data columns: columns 0 to this less 1.
    #[must_use]
    pub fn data(&self) -> usize {
        self.data
    }

    /// Parity columns: those after the data.
    #[must_use]
    pub fn parities(&self) -> usize {
        self.check.rows()
    }

    /// What a column holds; `None` if there is no such column.
    #[must_use]
    pub fn role(&self, column: usize) -> Option<ColumnRole> {
        match column {
            c if c < self.data => Some(ColumnRole::Data(c)),
            c if c < self.check.columns() => Some(ColumnRole::Parity(c - self.data)),
            _ => None,
        }
    }

    /// What an encoder multiplies by: `parity[j] = sum over i of encode_rows()[j][i] * data[i]`.
    #[must_use]
    pub fn encode_rows(&self) -> Vec<Vec<u8>> {
        (0..self.check.rows()).map(|row| self.check.row(row)[..self.data].to_vec()).collect()
    }

    /// How lost columns follow from the others; `None` if they do not
    /// ([`CheckMatrix::recover`]).
    #[must_use]
    pub fn recover(&self, lost: &[usize]) -> Option<Recovery> {
        self.check.recover(lost)
    }
}

fn in_range(field: &'static str, value: usize, least: usize, most: usize) -> Result<(), CodeError> {
    if (least..=most).contains(&value) { Ok(()) } else { Err(CodeError::Count { field, value, least, most }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_of_the_header() {
        let code = Code::reed_solomon(3, 2).unwrap();
        assert_eq!(code.encode_rows(), [vec![1, 1, 1], vec![0xF5, 0x8F, 0xA6]]);
        assert_eq!(code.role(2), Some(ColumnRole::Data(2)));
        assert_eq!(code.role(4), Some(ColumnRole::Parity(1)));
        assert_eq!(code.role(5), None);
    }

    #[test]
    fn linux_md_golden_bytes() {
        let data = [0x01, 0x02, 0x80, 0xFF, 0x5A];
        let parities: Vec<u8> = Code::raid6(5)
            .unwrap()
            .encode_rows()
            .iter()
            .map(|row| row.iter().zip(data).fold(0, |sum, (c, d)| sum ^ gf::mul(*c, d)))
            .collect();
        assert_eq!(parities, [0x26, 0x5D]);
    }

    #[test]
    fn counts_out_of_range_are_named() {
        let text = |code: Result<Code, CodeError>| code.unwrap_err().to_string();
        assert_eq!(text(Code::raid5(0)), "data is 0: it must be 1 to 65535");
        assert_eq!(text(Code::raid6(256)), "data is 256: it must be 1 to 255");
        assert_eq!(text(Code::reed_solomon(4, 9)), "parities is 9: it must be 1 to 8");
        assert_eq!(text(Code::reed_solomon(249, 8)), "data is 249: it must be 1 to 248");
        assert_eq!(text(Code::lrc(16, 2)), "x is 16: it must be 1 to 15");
        assert_eq!(text(Code::lrc(2, 0)), "y is 0: it must be 1 to 15");
        assert!(Code::reed_solomon(248, 8).is_ok());
    }
}
