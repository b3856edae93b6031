//! The view that a scrub, a repair, a rebuild or a volume has of an array: the number of columns,
//! the equations of a stripe, and the place of each column's chunk.
//!
//! # Bands and classes
//! An array is a sequence of stripes, numbered from 0. A *band* is a run of stripes whose chunks
//! lie on the same columns, each column's chunks at equal distances. Within a band the *classes*
//! take turns: the stripe with index i in its band is of class i mod (number of classes), and
//! stripes of one class have the same equations.
//!
//! | array | bands | classes of a band |
//! |---|---|---|
//! | RAID-4/5/6 | one | one for each place of parity |
//! | RAID-1 | one, and one for the end | one: all copies are equal |
//! | RAID-10 | one for each set of members that hold copies of a chunk | one |
//!
//! # The equations come from a code
//! A class is a [`Code`] and the place of each of the code's columns: [`StripeClass::of_code`]. A
//! code with more parities therefore needs no change here, nor in the users of this module.

use crate::check_matrix::CheckMatrix;
use crate::code::{Code, ColumnRole};
use std::ops::Range;
use thiserror::Error;

/// Kinds of redundant columns of a stripe.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Redundancy {
    /// Parity: the column of each parity row, in the order of the rows.
    Parity(Vec<usize>),
    /// Every column of the stripe holds the same bytes, and none is the original.
    Copies,
}

/// The equations of a class of stripes, and what its columns hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StripeClass {
    check: CheckMatrix,
    redundancy: Redundancy,
    /// By column: which data chunk of the stripe it holds.
    data: Vec<Option<u64>>,
    data_chunks: u64,
}

impl StripeClass {
    /// The class whose column `i` of `columns` is the column `columns[i]` of a code. Code columns
    /// that occur nowhere hold zeros. `order` names the columns with data in the order of the
    /// array's addresses.
    ///
    /// # Panics
    /// If a role is not one of the code's, if a parity row of the code occurs never or twice, or if
    /// `order` names a column that there is not.
    #[must_use]
    pub fn of_code(code: &Code, columns: &[ColumnRole], order: &[usize]) -> Self {
        let rows = code.parities();
        let mut parities = vec![None; rows];
        let mut coefficients = vec![0; rows * columns.len()];
        for (column, role) in columns.iter().enumerate() {
            let of_code = match *role {
                ColumnRole::Data(data) => {
                    assert!(data < code.data(), "data {data} of a code with {}", code.data());
                    data
                }
                ColumnRole::Parity(row) => {
                    assert!(parities[row].replace(column).is_none(), "parity {row} has one column");
                    code.data() + row
                }
            };
            for row in 0..rows {
                coefficients[row * columns.len() + column] = code.check().get(row, of_code);
            }
        }
        let parities = parities.into_iter().map(|column| column.expect("each parity has a column")).collect();
        let check = CheckMatrix::new(rows, columns.len(), &coefficients).expect("rows of a code, columns");
        let check = check.with_any(code.check().any_independent());
        Self::new(check, Redundancy::Parity(parities), columns.len(), order, order.len() as u64)
    }

    /// The class whose columns `copies`, of `columns` in all, hold the same bytes.
    ///
    /// # Panics
    /// If there are fewer than two copies or more than [`MAX_COPIES`], or one is not a column.
    #[must_use]
    pub fn of_copies(columns: usize, copies: &[usize]) -> Self {
        let code = Code::copies(copies.len()).expect("as many copies as a code has");
        let rows = code.parities();
        let mut coefficients = vec![0; rows * columns];
        for (of_code, column) in copies.iter().enumerate() {
            for row in 0..rows {
                coefficients[row * columns + column] = code.check().get(row, of_code);
            }
        }
        let check = CheckMatrix::new(rows, columns, &coefficients).expect("rows of a code, columns");
        let check = check.with_any(code.check().any_independent());
        let mut out = Self::new(check, Redundancy::Copies, columns, &[], 1);
        copies.iter().for_each(|column| out.data[*column] = Some(0));
        out
    }

    fn new(
        check: CheckMatrix,
        redundancy: Redundancy,
        columns: usize,
        order: &[usize],
        data_chunks: u64,
    ) -> Self {
        let mut data = vec![None; columns];
        for (index, column) in order.iter().enumerate() {
            data[*column] = Some(index as u64);
        }
        Self { check, redundancy, data, data_chunks }
    }

    /// All equations; columns are those of the array. A column without a part in the stripe is
    /// zero.
    #[must_use]
    pub const fn check(&self) -> &CheckMatrix {
        &self.check
    }

    /// Returns the kind of the redundant columns.
    #[must_use]
    pub const fn redundancy(&self) -> &Redundancy {
        &self.redundancy
    }
}

/// The most copies of a chunk that are compared: one equation fewer than copies, and a matrix has
/// at most 8.
pub const MAX_COPIES: usize = crate::matrix::MAX_ROWS + 1;

/// A run of stripes with one rule of placement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Band {
    /// Its stripes.
    pub stripes: Range<u64>,
    /// Bytes of a chunk.
    pub chunk_bytes: u32,
    /// By column: bytes from the start of the column's data area to the chunk of the band's first
    /// stripe. `None` for a column without a part in the band.
    pub starts: Vec<Option<u64>>,
    /// Bytes from one stripe's chunk to the next one's, on every column; at least a chunk.
    pub pitch: u64,
    /// The array address of the first stripe's first data chunk, in bytes.
    pub array_start: u64,
    /// Bytes from one stripe's first address to the next one's.
    pub array_pitch: u64,
    /// The classes, which take turns.
    pub classes: Vec<StripeClass>,
}

impl Band {
    /// The class of a stripe of the band.
    ///
    /// # Panics
    /// If the stripe is not of the band.
    #[must_use]
    pub fn class(&self, stripe: u64) -> &StripeClass {
        assert!(self.stripes.contains(&stripe), "stripe {stripe} of {:?}", self.stripes);
        &self.classes[((stripe - self.stripes.start) % self.classes.len() as u64) as usize]
    }
}

/// Bands that make no array.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum LayoutError {
    /// There is no stripe.
    #[error("an array has at least one stripe")]
    Empty,
    /// Bands do not follow one another.
    #[error("a band begins at stripe {found}, the one before ends at {expected}")]
    Gap {
        /// First stripe of the band.
        found: u64,
        /// First stripe that the band must have.
        expected: u64,
    },
    /// A band is not of the array's shape.
    #[error("the band from stripe {0} on has other columns or rows, no class, or chunks that overlap")]
    Shape(u64),
}

/// The map from stripes of an array to its columns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArrayLayout {
    columns: usize,
    /// In order, without gaps.
    bands: Vec<Band>,
}

impl ArrayLayout {
    /// An array of `columns` members.
    ///
    /// # Errors
    /// If the bands do not follow one another from stripe 0 on, or one is not of the array's shape.
    pub fn new(columns: usize, bands: Vec<Band>) -> Result<Self, LayoutError> {
        let mut expected = 0;
        for band in &bands {
            if band.stripes.start != expected || band.stripes.is_empty() {
                return Err(LayoutError::Gap { found: band.stripes.start, expected });
            }
            expected = band.stripes.end;
            let rows = band.classes.first().map_or(0, |class| class.check.rows());
            let fits = |class: &StripeClass| (class.check.rows(), class.check.columns()) == (rows, columns);
            let whole = rows > 0 && band.classes.iter().all(fits) && band.starts.len() == columns;
            if !whole || band.chunk_bytes == 0 || band.pitch < u64::from(band.chunk_bytes) {
                return Err(LayoutError::Shape(band.stripes.start));
            }
        }
        if expected == 0 { Err(LayoutError::Empty) } else { Ok(Self { columns, bands }) }
    }

    /// Members, present or not.
    #[must_use]
    pub const fn columns(&self) -> usize {
        self.columns
    }

    /// Bytes of a chunk; of bands that differ, the most.
    #[must_use]
    pub fn chunk_bytes(&self) -> u32 {
        self.bands.iter().map(|band| band.chunk_bytes).max().unwrap_or(0)
    }

    /// Stripes.
    #[must_use]
    pub fn stripes(&self) -> u64 {
        self.bands.last().map_or(0, |band| band.stripes.end)
    }

    /// The bands, in order.
    #[must_use]
    pub fn bands(&self) -> &[Band] {
        &self.bands
    }

    /// The band of a stripe.
    ///
    /// # Panics
    /// If there is no such stripe.
    #[must_use]
    pub fn band(&self, stripe: u64) -> &Band {
        &self.bands[self.bands.partition_point(|band| band.stripes.end <= stripe)]
    }

    /// The class of a stripe.
    ///
    /// # Panics
    /// If there is no such stripe.
    #[must_use]
    pub fn class(&self, stripe: u64) -> &StripeClass {
        self.band(stripe).class(stripe)
    }

    /// Bytes from the start of a column's data area to its chunk of a stripe; `None` if it has
    /// none.
    ///
    /// # Panics
    /// If there is no such stripe.
    #[must_use]
    pub fn place(&self, stripe: u64, column: usize) -> Option<u64> {
        let band = self.band(stripe);
        let start = (*band.starts.get(column)?)?;
        Some(start + (stripe - band.stripes.start) * band.pitch)
    }

    /// The array address of a byte of a column's chunk; `None` for parity, and for a column without
    /// a chunk.
    ///
    /// # Panics
    /// If there is no such stripe.
    #[must_use]
    pub fn array_offset(&self, stripe: u64, column: usize, offset: u64) -> Option<u64> {
        let band = self.band(stripe);
        let data = (*band.class(stripe).data.get(column)?)?;
        let first = band.array_start + (stripe - band.stripes.start) * band.array_pitch;
        Some(first + data * u64::from(band.chunk_bytes) + offset)
    }

    /// The most equations that a stripe has with all members.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.bands.iter().map(|band| band.classes[0].check.rows()).max().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn band(stripes: Range<u64>, class: StripeClass) -> Band {
        let starts = vec![Some(0); class.check.columns()];
        Band {
            stripes,
            chunk_bytes: 4096,
            starts,
            pitch: 4096,
            array_start: 0,
            array_pitch: 8192,
            classes: vec![class],
        }
    }

    #[test]
    fn a_layout_takes_a_code_with_three_parities() {
        let code = Code::reed_solomon(2, 3).unwrap();
        let roles = [
            ColumnRole::Parity(2),
            ColumnRole::Data(1),
            ColumnRole::Parity(0),
            ColumnRole::Data(0),
            ColumnRole::Parity(1),
        ];
        let class = StripeClass::of_code(&code, &roles, &[3, 1]);
        assert_eq!(class.redundancy(), &Redundancy::Parity(vec![2, 4, 0]));
        let layout = ArrayLayout::new(5, vec![band(0..7, class)]).unwrap();
        assert_eq!(layout.rows(), 3);
        assert_eq!(layout.place(3, 4), Some(3 * 4096));
        assert_eq!(layout.array_offset(2, 1, 5), Some(2 * 8192 + 4096 + 5));
        assert_eq!(layout.array_offset(2, 0, 5), None, "parity has no address");
        // Each column of the class is the code's.
        for (column, role) in roles.iter().enumerate() {
            let of_code = match role {
                ColumnRole::Data(i) => *i,
                ColumnRole::Parity(i) => 2 + i,
            };
            assert_eq!(layout.class(0).check().column(column), code.check().column(of_code));
        }
    }

    #[test]
    fn copies_are_equal_columns() {
        let class = StripeClass::of_copies(5, &[4, 1, 2]);
        let sum = |bytes: [u8; 5]| -> Vec<u8> {
            let dot = |row: &[u8]| row.iter().zip(bytes).fold(0, |a, (c, x)| a ^ crate::gf::mul(*c, x));
            (0..class.check().rows()).map(|row| dot(class.check().row(row))).collect()
        };
        assert_eq!(sum([1, 9, 9, 2, 9]), [0, 0]);
        assert_ne!(sum([1, 9, 8, 2, 9]), [0, 0]);
    }

    #[test]
    fn bands_must_follow_one_another() {
        let class = || StripeClass::of_copies(2, &[0, 1]);
        let new = |bands| ArrayLayout::new(2, bands).unwrap_err();
        assert_eq!(new(vec![]), LayoutError::Empty);
        let gap = new(vec![band(0..2, class()), band(3..4, class())]);
        assert_eq!(gap, LayoutError::Gap { found: 3, expected: 2 });
        let short = Band { pitch: 4095, ..band(0..2, class()) };
        assert_eq!(new(vec![short]), LayoutError::Shape(0));
        assert_eq!(new(vec![band(0..2, StripeClass::of_copies(3, &[0, 1]))]), LayoutError::Shape(0));
    }
}
