//! The coefficients of generator 1 of `docs/design/codes.md`: rows of one extended Cauchy matrix.
//! The first two are P and Q of RAID-6.

use crate::gf;

/// The most data columns: 2^-255 = 2^0 would name one twice.
pub(super) const MAX_DATA: usize = 255;
/// The most data columns and parities together: with one more, the last row has a pole.
pub(super) const MAX_COLUMNS: usize = 257;

/// Factor of the data column with this exponent in parity `row`; `None` at a pole.
///
/// Row 0 is 1, row 1 is 2^e, and row j is `(1 + 2^(j-1)) / (2^-e + 2^(j-1))`.
pub(super) fn coefficient(row: usize, exponent: usize) -> Option<u8> {
    match row {
        0 => Some(1),
        1 => Some(gf::exp(exponent)),
        row => {
            let y = gf::exp(row - 1);
            gf::div(1 ^ y, gf::exp(255 - exponent % 255) ^ y)
        }
    }
}
