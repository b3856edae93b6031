//! A local reconstruction code over two groups.
//!
//! # Derivation
//! Groups x (data 0 to `x` - 1) and y (the `y` after them) have a local parity each, Px and Py, the
//! XOR of the group; two global parities span both groups:
//!
//! ```text
//! Px = sum x_i        Py = sum y_i
//! P0 = sum alpha_i x_i   + sum beta_i y_i
//! P1 = sum alpha_i^2 x_i + sum beta_i^2 y_i
//! ```
//!
//! One lost chunk of a group is rebuilt from its group alone: that is what the code is for. No code
//! of this shape can restore more than one loss a group and two anywhere, because no more equations
//! reach them; the best is to restore all of those, and a code that does is called *maximally
//! recoverable*. Take a pattern with at most that many losses, use each local parity that is there
//! for one loss of its group, and look at the equations that are left:
//! * three data of x: rows 1, alpha, alpha^2 of a Vandermonde matrix, regular for distinct alphas;
//! * two of x and two of y: subtracting columns leaves (a, a^2) and (b, b^2) with a the sum of two
//!   alphas, b of two betas: regular when a and b are neither zero nor equal;
//! * Px, one of x and two of y: (alpha, alpha^2) and (b, b^2): regular when alpha != b;
//! * Px, Py, one of x and one of y: alpha != beta; with two of x instead: alphas distinct and not
//!   zero;
//! * P0 or P1 lost as well: the other gives one equation more; a, b and alpha must not be zero, and
//!   squares are distinct where their roots are (squaring is a bijection in characteristic 2).
//!
//! All of it follows when the alphas are distinct and non-zero in one 4-dimensional subspace of
//! GF(2^8) over GF(2), the betas in another that shares only 0 with it. Sums of alphas then stay
//! among the alphas' subspace, and never meet those of the betas. Here `alpha_i = i + 1` (the low
//! nibble) and `beta_i = (i + 1) << 4` (the high one): up to 15 data chunks a group.
//!
//! Worked example, 6+2+2: alpha = 01 02 03, beta = 10 20 30; P1's coefficients are 01 04 05 and 1D
//! 74 69.
//!
//! # Which patterns decode
//! With e_x and e_y losses among group x with Px and y with Py, and e_g among P0 and P1: exactly
//! those with `max(0, e_x - 1) + max(0, e_y - 1) + e_g <= 2`. Any three losses do, and 6+2+2
//! restores 180 of its 210 patterns of four.
//!
//! # References
//! C. Huang et al., *Erasure coding in Windows Azure Storage*, USENIX ATC 2012 (the construction
//! and its conditions); P. Gopalan et al., *Explicit maximally recoverable codes with locality*,
//! IEEE Trans. Inf. Theory 60(9), 2014.

use super::{Code, CodeError, in_range};
use crate::gf;

/// Data chunks of a group, at most: the non-zero elements of a 4-dimensional subspace.
const MAX_GROUP: usize = 15;

impl Code {
    /// A local reconstruction code: `x` and `y` data columns in two groups, then Px and Py (local),
    /// P0 and P1 (global).
    ///
    /// It is maximally recoverable: one loss in each group (with its local parity) and any two
    /// more.
    ///
    /// # Errors
    /// If a group does not have 1 to 15 data columns.
    pub fn lrc(x: usize, y: usize) -> Result<Self, CodeError> {
        in_range("x", x, 1, MAX_GROUP)?;
        in_range("y", y, 1, MAX_GROUP)?;
        let coefficients: Vec<u8> = (1..=x).map(|i| i as u8).chain((1..=y).map(|i| (i as u8) << 4)).collect();
        let member = |of_x: bool| (0..x + y).map(|i| u8::from((i < x) == of_x)).collect();
        let squares = coefficients.iter().map(|c| gf::mul(*c, *c)).collect();
        Self::systematic(&[member(true), member(false), coefficients, squares])
    }
}
