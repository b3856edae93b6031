//! Erasure codes: a check matrix, and which of its columns hold data and which parity.
//!
//! # Derivation
//! Data columns come first, in order, then the parities; parity j is row j, and every code here is
//! systematic: `parity[j] = sum over data i of A[j][i] * data[i]`. An encoder multiplies by the
//! rows of A. H = \[A | I\], since -1 = 1; only where global parities are members of local groups,
//! rows of H are the shorter equations of the groups. Everything else (what remains without some
//! members, recovery, location) is linear algebra on H and lives in [`CheckMatrix`].
//!
//! A set of lost columns decodes if and only if their columns of H are linearly independent: then,
//! and only then, are the lost values the one solution of the equations.
//!
//! | code | rows | what decodes |
//! |---|---|---|
//! | [`Code::raid5`] | ones | any one |
//! | [`Code::raid6`] | ones; 2^i | any two |
//! | [`Code::reed_solomon`] | ones; 2^i; Cauchy, m rows in all | any m (MDS) |
//! | [`Code::copies`] | ones | all but one |
//! | [`Code::lrc`] | one XOR a group; globals | one a group, and any as many more as globals |
//!
//! `docs/design/codes.md` has the generators, proves what they correct, and lists the codes that
//! arrays are offered, which [`CodeSpec`] names.
//!
//! Worked example, 3+3: rows 01 01 01, 01 02 04 and 01 F5 D2. For the last one, 3 / (2^-1 + 2) =
//! 3 / 8C = F5.
//!
//! # References
//! I. S. Reed, G. Solomon, *Polynomial codes over certain finite fields*, 1960; J. Bloemer et al.,
//! *An XOR-based erasure-resilient coding scheme*, ICSI TR-95-048, 1995 (Cauchy matrices); H. P.
//! Anvin, *The mathematics of RAID-6*. Local reconstruction codes: see [`Code::lrc`].

mod cauchy;
mod lrc;
mod spec;

pub use lrc::{Locality, LrcShape};
pub use spec::{CodeSpec, MAX_MEMBERS, ParseCodeError};

use crate::check_matrix::{CheckMatrix, CheckMatrixError, Recovery};
use crate::gf;
use crate::matrix::MAX_ROWS;
use thiserror::Error;

/// The largest number of data columns of RAID-6: 2^255 = 1 would name slot 0 twice.
pub const MAX_RAID6_DATA: usize = 255;

/// Content of a column.
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
    /// A of the module's header.
    encode: Vec<Vec<u8>>,
}

/// A shape that no code has.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum CodeError {
    /// A count is out of its range.
    #[error("{field} is {value}: it must be {least} to {most}")]
    Count {
        /// Name of the count.
        field: &'static str,
        /// The value asked for.
        value: usize,
        /// The least that there is.
        least: usize,
        /// The most that there is.
        most: usize,
    },
    /// Rows of coefficients differ in length.
    #[error("parity {parity} has {found} coefficients: there are {data} data columns")]
    Ragged {
        /// The row that differs.
        parity: usize,
        /// Its coefficients.
        found: usize,
        /// Those of row 0.
        data: usize,
    },
    /// More columns than the generator has places for.
    #[error("{data} data columns and {parities} parities: they must be at most {most} together")]
    Members {
        /// Data columns.
        data: usize,
        /// Parities.
        parities: usize,
        /// The most that there may be of both.
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
        Ok(Self::systematic(&[vec![1; data]])?.with_any(1))
    }

    /// RAID-6 as Linux md has it: P the XOR, Q the sum of `2^i * data[i]`.
    ///
    /// # Errors
    /// If there are not 1 to 255 data columns.
    pub fn raid6(data: usize) -> Result<Self, CodeError> {
        in_range("data", data, 1, MAX_RAID6_DATA)?;
        Ok(Self::systematic(&[vec![1; data], (0..data).map(gf::exp).collect()])?.with_any(2))
    }

    /// Repetition: `copies` columns that hold the same bytes. Column 0 counts as the data and the
    /// others as its parities, though none of them is the original. Of n copies, up to (n - 1) / 2
    /// that differ are located: by majority.
    ///
    /// # Errors
    /// If there are not 2 to 9 copies.
    pub fn copies(copies: usize) -> Result<Self, CodeError> {
        in_range("copies", copies, 2, MAX_ROWS + 1)?;
        Ok(Self::systematic(&vec![vec![1]; copies - 1])?.with_any(copies - 1))
    }

    /// Reed-Solomon: `data` data columns and `parities` parities. The first two are P and Q of
    /// RAID-6. Rows do not depend on the counts. `docs/design/codes.md`, generator 1.
    ///
    /// # Errors
    /// If parities are not 1 to 8, data columns not 1 to 255, or both together more than 257.
    pub fn reed_solomon(data: usize, parities: usize) -> Result<Self, CodeError> {
        in_range("parities", parities, 1, MAX_ROWS)?;
        in_range("data", data, 1, cauchy::MAX_DATA)?;
        if data + parities > cauchy::MAX_COLUMNS {
            return Err(CodeError::Members { data, parities, most: cauchy::MAX_COLUMNS });
        }
        let coefficient =
            |row: usize, i: usize| cauchy::coefficient(row, i).expect("no pole below the limit");
        let rows: Vec<Vec<u8>> =
            (0..parities).map(|row| (0..data).map(|i| coefficient(row, i)).collect()).collect();
        Ok(Self::systematic(&rows)?.with_any(parities))
    }

    /// The code with these coefficients, such as an array says them: `rows[j][i]` is what data
    /// column i is multiplied by in parity j. Its equations are \[A | I\]; its distance is unknown.
    ///
    /// # Errors
    /// If there are not 1 to 8 rows, they are empty or they differ in length.
    pub fn of_coefficients(rows: &[Vec<u8>]) -> Result<Self, CodeError> {
        in_range("parities", rows.len(), 1, MAX_ROWS)?;
        let data = rows[0].len();
        in_range("data", data, 1, usize::from(u16::MAX))?;
        if let Some((parity, row)) = rows.iter().enumerate().find(|(_, row)| row.len() != data) {
            return Err(CodeError::Ragged { parity, found: row.len(), data });
        }
        Self::systematic(rows)
    }

    /// \[A | I\] from the rows of A, which are of one length.
    fn systematic(rows: &[Vec<u8>]) -> Result<Self, CodeError> {
        let data = rows.first().map_or(0, Vec::len);
        let mut all = Vec::with_capacity(rows.len() * (data + rows.len()));
        for (i, row) in rows.iter().enumerate() {
            all.extend_from_slice(row);
            all.extend((0..rows.len()).map(|j| u8::from(i == j)));
        }
        let check = CheckMatrix::new(rows.len(), data + rows.len(), &all)?;
        Ok(Self { check, data, encode: rows.to_vec() })
    }

    /// The code with these equations, from which the columns after the first `data` follow; `None`
    /// if they do not.
    fn of_equations(check: CheckMatrix, data: usize) -> Option<Self> {
        let parities: Vec<usize> = (data..check.columns()).collect();
        let recovery = check.recover(&parities)?;
        let spread = |row: &Vec<u8>| {
            let mut out = vec![0; data];
            recovery.survivors.iter().zip(row).for_each(|(column, c)| out[*column] = *c);
            out
        };
        let encode = recovery.coefficients.iter().map(spread).collect();
        Some(Self { check, data, encode })
    }

    /// The same code, any `any` of whose columns are independent.
    fn with_any(self, any: usize) -> Self {
        Self { check: self.check.with_any(any), ..self }
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

    /// Returns the role of a column; `None` if there is no such column.
    #[must_use]
    pub fn role(&self, column: usize) -> Option<ColumnRole> {
        match column {
            c if c < self.data => Some(ColumnRole::Data(c)),
            c if c < self.check.columns() => Some(ColumnRole::Parity(c - self.data)),
            _ => None,
        }
    }

    /// Coefficients of the encoder: `parity[j] = sum over i of encode_rows()[j][i] * data[i]`.
    #[must_use]
    pub fn encode_rows(&self) -> &[Vec<u8>] {
        &self.encode
    }

    /// Computes the recovery of lost columns from the others; `None` if they do not determine it
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
        let code = Code::reed_solomon(3, 3).unwrap();
        assert_eq!(code.encode_rows(), [vec![1, 1, 1], vec![1, 2, 4], vec![1, 0xF5, 0xD2]]);
        assert_eq!(code.role(2), Some(ColumnRole::Data(2)));
        assert_eq!(code.role(4), Some(ColumnRole::Parity(1)));
        assert_eq!(code.role(6), None);
    }

    #[test]
    fn coefficients_are_a_code() {
        let code = Code::reed_solomon(5, 4).unwrap();
        assert_eq!(Code::of_coefficients(code.encode_rows()), Ok(code));
        let ragged = Code::of_coefficients(&[vec![1, 1], vec![1]]).unwrap_err();
        assert_eq!(ragged.to_string(), "parity 1 has 1 coefficients: there are 2 data columns");
        assert!(Code::of_coefficients(&[]).is_err() && Code::of_coefficients(&[vec![]]).is_err());
        assert!(Code::of_coefficients(&vec![vec![1]; 9]).is_err());
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
        assert_eq!(text(Code::reed_solomon(256, 1)), "data is 256: it must be 1 to 255");
        assert_eq!(
            text(Code::reed_solomon(250, 8)),
            "250 data columns and 8 parities: they must be at most 257 together"
        );
        assert!(Code::reed_solomon(249, 8).is_ok() && Code::reed_solomon(255, 2).is_ok());
    }
}
