//! Values of damage at known columns.

use crate::check_matrix::CheckMatrix;
use crate::gf::add_scaled;
use crate::linear::solve_for;

/// Computes the bytes to XOR into each of the named columns so that every equation holds: one
/// vector for each, as long as a syndrome row. `None` if no bytes do, or if the equations do not
/// determine them.
///
/// Gauss-Jordan on the named columns of H beside the identity gives T with `T * H_S = (I over 0)`.
/// So the first rows of `T * syndromes` are the errors, and the others must be zero everywhere.
///
/// # Panics
/// If there is no such column, where there are not as many rows as the matrix has, or where they
/// differ in length.
#[must_use]
pub fn error_values(check: &CheckMatrix, columns: &[usize], syndromes: &[&[u8]]) -> Option<Vec<Vec<u8>>> {
    assert_eq!(syndromes.len(), check.rows(), "one syndrome a row");
    let len = syndromes.first().map_or(0, |row| row.len());
    assert!(syndromes.iter().all(|row| row.len() == len), "rows of one length");
    let (rows, width) = (check.rows(), columns.len());
    let mut work: Vec<Vec<u8>> = (0..rows)
        .map(|i| {
            columns.iter().map(|c| check.get(i, *c)).chain((0..rows).map(|j| u8::from(i == j))).collect()
        })
        .collect();
    solve_for(&mut work, &(0..width).collect::<Vec<_>>())?;
    let mut out: Vec<Vec<u8>> = work
        .iter()
        .map(|row| {
            let mut sum = vec![0; len];
            for (factor, syndrome) in row[width..].iter().zip(syndromes) {
                add_scaled(&mut sum, syndrome, *factor);
            }
            sum
        })
        .collect();
    let rest = out.split_off(width);
    rest.iter().all(|row| row.iter().all(|byte| *byte == 0)).then_some(out)
}
