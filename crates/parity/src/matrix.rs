//! A matrix over GF(2^8), prepared for the kernels.

use crate::gf;
use thiserror::Error;

/// Rows of a matrix, at most: outputs of a command, equations of a stripe.
pub const MAX_ROWS: usize = 8;
/// Most columns of a matrix.
pub const MAX_COLUMNS: usize = 64;

/// One coefficient in the forms in which instruction sets multiply by it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Coefficient {
    /// The 8x8 bit matrix of GF2P8AFFINEQB.
    pub(crate) affine: u64,
    /// The coefficient itself.
    pub(crate) value: u8,
}

impl Coefficient {
    pub(crate) const fn new(value: u8) -> Self {
        Self { affine: gf::AFFINE[value as usize], value }
    }
}

/// Coefficients: one row an output, one column a source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Matrix {
    rows: usize,
    columns: usize,
    /// Column after column, as the kernels meet them.
    prepared: Vec<Coefficient>,
}

/// An invalid matrix.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum MatrixError {
    /// Rows out of range.
    #[error("{0} rows: a command makes 1 to 8 outputs")]
    Rows(usize),
    /// Columns out of range.
    #[error("{0} columns: a command takes 1 to 64 sources")]
    Columns(usize),
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

impl Matrix {
    /// A matrix from its coefficients, row after row.
    ///
    /// # Errors
    /// If counts are out of range or do not fit together.
    pub fn new(rows: usize, columns: usize, row_major: &[u8]) -> Result<Self, MatrixError> {
        if !(1..=MAX_ROWS).contains(&rows) {
            return Err(MatrixError::Rows(rows));
        }
        if !(1..=MAX_COLUMNS).contains(&columns) {
            return Err(MatrixError::Columns(columns));
        }
        if row_major.len() != rows * columns {
            return Err(MatrixError::Length { length: row_major.len(), rows, columns });
        }
        let prepared = (0..columns)
            .flat_map(|column| (0..rows).map(move |row| row * columns + column))
            .map(|at| Coefficient::new(row_major[at]))
            .collect();
        Ok(Self { rows, columns, prepared })
    }

    /// Outputs.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Sources.
    #[must_use]
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// One coefficient.
    ///
    /// # Panics
    /// If there is no such row or column.
    #[must_use]
    pub fn get(&self, row: usize, column: usize) -> u8 {
        assert!(
            row < self.rows && column < self.columns,
            "({row}, {column}) of {}x{}",
            self.rows,
            self.columns
        );
        self.prepared[column * self.rows + row].value
    }

    /// The prepared coefficients, column after column.
    pub(crate) fn prepared(&self) -> &[Coefficient] {
        &self.prepared
    }
}
