//! Finds the member that the hashes of a bad stripe's rows indicate.

use crate::check_matrix::CheckMatrix;
use crate::gf;
use crate::planes::Planes;

/// The columns that alone explain the hashes of a stripe's rows: `rows[i] = M[H[i][m]] * y` for
/// some y, not zero.
///
/// Damage of member m alone leaves syndrome rows `H[i][m] * e`, so their hashes are `M[H[i][m]] *
/// H(e)`: for RAID-6, (y, 0) for P, (0, y) for Q, and `(y, M[2^slot] * y)` for data. It is a hint,
/// to read the right member first: a hash that fits is no proof, and damage of several members fits
/// none.
///
/// # Panics
/// If there are not as many hashes as the matrix has rows.
#[must_use]
pub fn locate_column(check: &CheckMatrix, rows: &[Planes]) -> Vec<usize> {
    assert_eq!(rows.len(), check.rows(), "one hash a row");
    if rows.iter().all(Planes::is_zero) {
        return Vec::new();
    }
    (0..check.columns()).filter(|column| fits(&check.column(*column), rows)).collect()
}

fn fits(column: &[u8], rows: &[Planes]) -> bool {
    let Some((hash, inverse)) = rows.iter().zip(column).find_map(|(hash, c)| Some((hash, gf::inv(*c)?)))
    else {
        return false;
    };
    let y = hash.scaled(inverse);
    rows.iter().zip(column).all(|(hash, c)| *hash == y.scaled(*c))
}
