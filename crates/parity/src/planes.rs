//! The 64-byte fingerprint as eight bit planes, and what multiplies it.
//!
//! # Layout (part of the wire format: the same for every instruction set)
//! A 64-byte line is eight planes of 64 bits. Plane `b` takes bit `b` of every byte; within the
//! plane, bit `8*q + i` comes from byte `8*q + 7 - i` of the line (q, i in 0..8). Any fixed order
//! would do, as long as all members use it; this one is what an 8x8 bit transpose by one affine
//! instruction produces.
//!
//! A chunk's hash is, per plane, `sum over lines l of a[l] * plane_b(line l)` in GF(2^64) =
//! GF(2)\[x\]/(x^64+x^4+x^3+x+1). Multiplying every data byte by `c` in GF(2^8) is an 8x8 bit
//! matrix on the planes, and the hash treats the planes alike, so `H(c*D) = M_c * H(D)`.

use crate::gf;

/// The hash of a chunk, or a sum of such hashes: plane `b` at index `b`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Planes(pub [u64; 8]);

impl Planes {
    /// The hash of zeros.
    pub const ZERO: Self = Self([0; 8]);

    /// Returns whether every plane is zero.
    #[must_use]
    pub fn is_zero(&self) -> bool {
        self.0.iter().all(|p| *p == 0)
    }

    /// `self += other`.
    pub fn add(&mut self, other: &Self) {
        for (a, b) in self.0.iter_mut().zip(&other.0) {
            *a ^= b;
        }
    }

    /// `M_c * self`: the hash of the data with every byte multiplied by `c`.
    ///
    /// Bit j of a byte contributes `c * 2^j` to the product, so plane j is added to every plane i
    /// whose bit is set in `c * 2^j`.
    #[must_use]
    pub fn scaled(&self, c: u8) -> Self {
        let mut out = [0_u64; 8];
        for (j, plane) in self.0.iter().enumerate() {
            let column = gf::mul(c, 1 << j);
            for (i, o) in out.iter_mut().enumerate() {
                // All ones where the bit is set: no branch on data.
                *o ^= plane & (u64::from(column >> i) & 1).wrapping_neg();
            }
        }
        Self(out)
    }
}
