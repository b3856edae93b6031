//! The kernels by definition, a byte at a time: what all others are tested against, and what
//! finishes their tails.

use crate::gf;
use crate::gf64;
use crate::planes::Planes;

/// Bytes of a line.
pub(super) const LINE: usize = 64;

/// P and Q at one position.
pub(super) fn pq_at(data: &[&[u8]], at: usize) -> (u8, u8) {
    data.iter().rev().fold((0, 0), |(p, q), source| (p ^ source[at], gf::double(q) ^ source[at]))
}

/// The XOR of all sources at one position.
pub(super) fn xor_at(sources: &[&[u8]], at: usize) -> u8 {
    sources.iter().fold(0, |sum, source| sum ^ source[at])
}

/// One row at one position.
pub(super) fn dot_at(coefficients: impl Iterator<Item = u8>, sources: &[&[u8]], at: usize) -> u8 {
    coefficients.zip(sources).fold(0, |sum, (c, source)| sum ^ gf::mul(c, source[at]))
}

/// Plane `b` of a line; a short line is filled with zeros.
fn plane(line: &[u8], b: usize) -> u64 {
    (0..LINE).fold(0, |word, bit| {
        // Bit 8q+i comes from byte 8q+7-i.
        let byte = line.get(bit / 8 * 8 + 7 - bit % 8).copied().unwrap_or(0);
        word | u64::from(byte >> b & 1) << bit
    })
}

/// The fingerprint of `data`: `sum over lines of keys[l] * plane(line l)`.
pub(super) fn fingerprint(keys: &[u64], data: &[u8]) -> Planes {
    let mut out = Planes::ZERO;
    for (key, line) in keys.iter().zip(data.chunks(LINE)) {
        for (b, sum) in out.0.iter_mut().enumerate() {
            *sum ^= gf64::mul(*key, plane(line, b));
        }
    }
    out
}
