//! The fastest way to fold one class of stripes.
//!
//! A class is a set of stripes whose members have the same columns of the check matrix: if parity
//! rotates, each position of the rotation is a class.

use crate::gf;
use crate::kernels::{Kernels, MAX_XOR_SOURCES, RowMask};
use crate::matrix::{MAX_COLUMNS, Matrix};

/// Plan for folding one class of stripes: its columns, and a faster check if its shape has one.
#[derive(Debug, Clone)]
pub struct ClassPlan {
    /// Matrices over at most [`MAX_COLUMNS`] sources each, in order.
    tiles: Vec<Matrix>,
    check: Check,
    rows: usize,
}

#[derive(Debug, Clone)]
enum Check {
    /// One row of ones, over no more sources than a kernel takes at a time.
    Xor,
    /// P and Q as Linux md builds them: `data[i]` has the Q coefficient `2^i`.
    Pq { data: Vec<usize>, p: usize, q: usize },
    /// Anything else.
    Generic,
}

impl ClassPlan {
    /// Plans the fold of sources whose columns have `rows` coefficients, one for each parity row.
    ///
    /// # Panics
    /// If `rows` is not 1 to [`MAX_ROWS`](crate::matrix::MAX_ROWS), or a column has not `rows`
    /// coefficients.
    #[must_use]
    pub fn new(rows: usize, columns: &[&[u8]]) -> Self {
        let check = if columns.len() <= MAX_XOR_SOURCES && columns.iter().all(|column| *column == [1]) {
            Check::Xor
        } else {
            pq_order(columns).unwrap_or(Check::Generic)
        };
        Self { tiles: tiles(rows, columns), check, rows }
    }

    /// The same columns weighted: row `j` of the result is `weights[j]` applied to the columns'
    /// rows.
    ///
    /// # Panics
    /// If the weights are not 1 to [`MAX_ROWS`](crate::matrix::MAX_ROWS).
    #[must_use]
    pub fn weighted(columns: &[&[u8]], weights: &[Vec<u8>]) -> Self {
        let combined: Vec<Vec<u8>> = columns
            .iter()
            .map(|column| {
                weights
                    .iter()
                    .map(|w| w.iter().zip(*column).fold(0, |sum, (w, c)| sum ^ gf::mul(*w, *c)))
                    .collect()
            })
            .collect();
        let columns: Vec<&[u8]> = combined.iter().map(Vec::as_slice).collect();
        Self { tiles: tiles(weights.len(), &columns), check: Check::Generic, rows: weights.len() }
    }

    /// Rows that it makes.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// A source that is the XOR of the others if [`check`](Self::check) finds no row that is not
    /// zero, and a source that does not count for that.
    #[must_use]
    pub fn sum(&self) -> Option<(usize, Option<usize>)> {
        match &self.check {
            Check::Xor => Some((self.tiles.iter().map(Matrix::columns).sum::<usize>().checked_sub(1)?, None)),
            Check::Pq { p, q, .. } => Some((*p, Some(*q))),
            Check::Generic => None,
        }
    }

    /// Returns the rows that are not zero. Writes nothing but scratch memory, and that only if
    /// there are more sources than a kernel takes.
    ///
    /// # Panics
    /// If the sources are not as many as the columns, or differ in length.
    #[must_use]
    pub fn check(&self, kernels: &Kernels, sources: &[&[u8]]) -> RowMask {
        match &self.check {
            Check::Xor => RowMask(u8::from(!kernels.xor_check(sources))),
            Check::Pq { data, p, q } => {
                let data: Vec<&[u8]> = data.iter().map(|i| sources[*i]).collect();
                kernels.pq_check(&data, sources[*p], sources[*q])
            }
            Check::Generic if self.tiles.len() == 1 => kernels.check(&self.tiles[0], sources, &[]),
            Check::Generic => {
                let len = sources.first().map_or(0, |s| s.len());
                let mut rows = vec![vec![0; len]; self.rows];
                self.accumulate(
                    kernels,
                    sources,
                    &mut rows.iter_mut().map(Vec::as_mut_slice).collect::<Vec<_>>(),
                );
                let mask = rows
                    .iter()
                    .enumerate()
                    .fold(0, |mask, (i, row)| mask | u8::from(kernels.nonzero_range(row).is_some()) << i);
                RowMask(mask)
            }
        }
    }

    /// `accumulators[i] ^= row i`.
    ///
    /// # Panics
    /// If the sources are not as many as the columns, or lengths differ.
    pub fn accumulate(&self, kernels: &Kernels, sources: &[&[u8]], accumulators: &mut [&mut [u8]]) {
        for (tile, sources) in self.tiles.iter().zip(sources.chunks(MAX_COLUMNS)) {
            kernels.accumulate(tile, sources, accumulators);
        }
    }
}

fn tiles(rows: usize, columns: &[&[u8]]) -> Vec<Matrix> {
    columns
        .chunks(MAX_COLUMNS)
        .map(|tile| {
            let row_major: Vec<u8> =
                (0..rows).flat_map(|row| tile.iter().map(move |column| column[row])).collect();
            Matrix::new(rows, tile.len(), &row_major).expect("1 to 8 rows; a tile has 1 to 64 columns")
        })
        .collect()
}

/// Recognises the columns (1, 2^i) for i in 0..k, (1, 0) and (0, 1), in any order.
fn pq_order(columns: &[&[u8]]) -> Option<Check> {
    let k = columns.len().checked_sub(2).filter(|k| (1..=255).contains(k))?;
    let mut data = vec![None; k];
    let (mut p, mut q) = (None, None);
    for (source, column) in columns.iter().enumerate() {
        let place = match *column {
            [1, 0] => &mut p,
            [0, 1] => &mut q,
            [1, c] => data.get_mut(usize::from(gf::log(*c)?))?,
            _ => return None,
        };
        if place.replace(source).is_some() {
            return None;
        }
    }
    Some(Check::Pq { data: data.into_iter().collect::<Option<_>>()?, p: p?, q: q? })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every kernel, at the borders of what it takes at a time: no count of sources that a
    /// descriptor may have fails, and every source counts.
    #[test]
    fn any_number_of_sources_is_folded() {
        for (rows, sources) in [(1, 256), (1, 257), (1, 258), (1, 1920), (2, 256), (2, 258), (8, 1920)] {
            let ones = vec![1; rows];
            let plan = ClassPlan::new(rows, &vec![ones.as_slice(); sources]);
            let mut data: Vec<Vec<u8>> = (0..sources).map(|i| vec![i as u8; 100]).collect();
            let sum = (0..sources).fold(0, |sum, i| sum ^ i as u8);
            data[0].iter_mut().for_each(|byte| *byte ^= sum);
            for kernels in Kernels::available() {
                let check = |data: &[Vec<u8>]| {
                    plan.check(&kernels, &data.iter().map(Vec::as_slice).collect::<Vec<_>>())
                };
                assert!(check(&data).is_zero(), "{rows} {sources} {kernels:?}");
                for source in [0, 1, sources / 2, sources - 1] {
                    data[source][99] ^= 4;
                    assert_eq!(check(&data), RowMask(u8::MAX >> (8 - rows)), "{sources} {source}");
                    data[source][99] ^= 4;
                }
            }
        }
    }
}
