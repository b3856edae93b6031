//! The coefficients of a command's sources in the parity rows, for every stripe of an array with
//! rotating parity.

use pumice_parity::check_matrix::CheckMatrix;
use pumice_parity::matrix::MAX_ROWS;
use thiserror::Error;

/// The coefficients of one node's sources in the parity-check matrix, for every stripe.
///
/// Parity rotates with a period: stripe `s` is of class `s mod period`, and every class has its own
/// column for every source. A batch of thousands of stripes therefore stays one small command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    rows: usize,
    sources: usize,
    /// `[class][source][row]`.
    coefficients: Vec<u8>,
    /// `[column][row]`: every column that the whole code has in any class.
    guard: Vec<Vec<u8>>,
}

/// The reasons why a rule is invalid.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum RuleError {
    /// Rows must be 1 to 8.
    #[error("rows is {0}: a code has 1 to 8 parity rows")]
    Rows(usize),
    /// At least one source.
    #[error("a rule needs at least one source")]
    NoSources,
    /// The coefficients must fill whole classes.
    #[error("{length} coefficients do not fill whole classes of {per_class}")]
    Length {
        /// Coefficients given.
        length: usize,
        /// Coefficients of one class.
        per_class: usize,
    },
    /// A guard column must have one coefficient a row.
    #[error("a guard column has {0} coefficients")]
    Guard(usize),
}

impl Rule {
    /// A rule from explicit coefficients, `[class][source][row]`, and the columns of the whole
    /// code.
    ///
    /// `guard` has the columns whose coefficient under random weights must never be zero (`weights`
    /// in the parity crate); it may be empty if a command draws no weights.
    ///
    /// # Errors
    /// If counts do not fit together.
    pub fn new(
        rows: usize,
        sources: usize,
        coefficients: Vec<u8>,
        guard: Vec<Vec<u8>>,
    ) -> Result<Self, RuleError> {
        if rows == 0 || rows > MAX_ROWS {
            return Err(RuleError::Rows(rows));
        }
        if sources == 0 {
            return Err(RuleError::NoSources);
        }
        let per_class = rows * sources;
        if coefficients.is_empty() || !coefficients.len().is_multiple_of(per_class) {
            return Err(RuleError::Length { length: coefficients.len(), per_class });
        }
        if let Some(column) = guard.iter().find(|column| column.len() != rows) {
            return Err(RuleError::Guard(column.len()));
        }
        Ok(Self { rows, sources, coefficients, guard })
    }

    /// One row of ones over `sources` sources: their plain sum. It folds interims that are already
    /// weighted.
    ///
    /// # Panics
    /// If `sources` is zero.
    #[must_use]
    pub fn sum(sources: usize) -> Self {
        Self::new(1, sources, vec![1; sources], Vec::new()).expect("one row over at least one source")
    }

    /// The rule of a node that holds the columns `columns` of a code whose class `c` has the matrix
    /// `classes[c]`.
    ///
    /// # Errors
    /// If there is no class, no column, or no row.
    pub fn for_columns(classes: &[CheckMatrix], columns: &[usize]) -> Result<Self, RuleError> {
        let rows = classes.first().map_or(0, CheckMatrix::rows);
        let mut guard: Vec<Vec<u8>> = Vec::new();
        for class in classes {
            for column in 0..class.columns() {
                let column = class.column(column);
                // A member that is missing takes no part in any row, and nothing can be seen of it.
                if column.iter().any(|c| *c != 0) && !guard.contains(&column) {
                    guard.push(column);
                }
            }
        }
        let coefficients = classes
            .iter()
            .flat_map(|class| columns.iter().flat_map(move |column| class.column(*column)))
            .collect();
        Self::new(rows, columns.len(), coefficients, guard)
    }

    /// Parity rows.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Sources for which it has coefficients.
    #[must_use]
    pub fn sources(&self) -> usize {
        self.sources
    }

    /// The number of classes.
    #[must_use]
    pub fn period(&self) -> u64 {
        (self.coefficients.len() / (self.rows * self.sources)) as u64
    }

    /// The class of a stripe.
    #[must_use]
    pub fn class(&self, stripe: u64) -> usize {
        usize::try_from(stripe % self.period()).expect("a class is less than the period")
    }

    /// The column of a source in a class: one coefficient a row.
    ///
    /// # Panics
    /// If class or source are out of range.
    #[must_use]
    pub fn column(&self, class: usize, source: usize) -> &[u8] {
        assert!(source < self.sources, "source {source} of {}", self.sources);
        let at = (class * self.sources + source) * self.rows;
        &self.coefficients[at..at + self.rows]
    }

    /// The columns of a class, in the order of the sources: what
    /// [`ClassPlan`](pumice_parity::class_plan::ClassPlan) folds by.
    ///
    /// # Panics
    /// If there is no such class.
    #[must_use]
    pub fn columns(&self, class: usize) -> Vec<&[u8]> {
        (0..self.sources).map(|source| self.column(class, source)).collect()
    }

    /// Every column that the whole code has in any class.
    #[must_use]
    pub fn guard(&self) -> &[Vec<u8>] {
        &self.guard
    }
}
