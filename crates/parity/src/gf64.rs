//! GF(2^64) = GF(2)\[x\]/(x^64+x^4+x^3+x+1): the field of the fingerprints. Addition is XOR.
//!
//! # Derivation
//! An element is a polynomial over GF(2), bit i of the number being the coefficient of x^i. A
//! product is the carry-less product of the numbers, 127 bits, reduced by x^64 = x^4+x^3+x+1: the
//! upper half h adds `h * (1 + x + x^3 + x^4)`, and the three bits at most that this pushes past
//! x^63 once more. The polynomial is the one of degree 64 in G. Seroussi, *Table of low-weight
//! binary irreducible polynomials*, HP Labs HPL-98-135, 1998.
//!
//! Worked example: x^63 * x = x^64 = x^4+x^3+x+1, that is `8000000000000000 * 2 = 1B`.
//!
//! Portable code, without carry-less multiply instructions: these products are taken per stripe or
//! per finding, never per byte of data.

use crate::planes::Planes;

/// x^64 in the field: x^4+x^3+x+1.
const TAIL: u64 = 0x1B;

/// `a * x`.
#[must_use]
pub const fn double(a: u64) -> u64 {
    (a << 1) ^ (TAIL & (a >> 63).wrapping_neg())
}

/// `a * b`.
///
/// A window of four bits at a time: sixteen multiples of `a`, then Horner over the nibbles of `b`.
#[must_use]
pub fn mul(a: u64, b: u64) -> u64 {
    Multiplier::new(a).times(b)
}

/// The multiples of one element, for many products with it.
#[derive(Debug, Clone)]
pub struct Multiplier([u64; 16]);

impl Multiplier {
    /// Prepares `a`.
    #[must_use]
    pub fn new(a: u64) -> Self {
        let mut multiples = [0; 16];
        multiples[1] = a;
        for i in 2..16 {
            multiples[i] = if i % 2 == 0 { double(multiples[i / 2]) } else { multiples[i - 1] ^ a };
        }
        Self(multiples)
    }

    /// `a * b`.
    #[must_use]
    pub fn times(&self, b: u64) -> u64 {
        let mut product = 0_u64;
        for shift in (0..16).rev() {
            // product * x^4: the four bits that leave at the top come back as their multiples of
            // x^64.
            let top = product >> 60;
            product = (product << 4) ^ top ^ (top << 1) ^ (top << 3) ^ (top << 4);
            product ^= self.0[(b >> (4 * shift)) as usize & 15];
        }
        product
    }
}

/// `a * small` for a small factor: one doubling a bit of it.
#[must_use]
pub const fn mul_small(mut a: u64, mut small: u32) -> u64 {
    let mut product = 0;
    while small != 0 {
        if small & 1 != 0 {
            product ^= a;
        }
        a = double(a);
        small >>= 1;
    }
    product
}

/// `a * a`: in characteristic 2, the square of a sum is the sum of the squares, so every bit moves
/// to twice its place.
#[must_use]
pub const fn square(a: u64) -> u64 {
    reduce(spread(a as u32), spread((a >> 32) as u32))
}

/// Bit i to bit 2i.
const fn spread(half: u32) -> u64 {
    let mut bits = half as u64;
    bits = (bits | (bits << 16)) & 0x0000_FFFF_0000_FFFF;
    bits = (bits | (bits << 8)) & 0x00FF_00FF_00FF_00FF;
    bits = (bits | (bits << 4)) & 0x0F0F_0F0F_0F0F_0F0F;
    bits = (bits | (bits << 2)) & 0x3333_3333_3333_3333;
    (bits | (bits << 1)) & 0x5555_5555_5555_5555
}

/// `a^exponent`; 1 for exponent 0.
#[must_use]
pub fn pow(mut a: u64, mut exponent: u64) -> u64 {
    let mut power = 1;
    while exponent != 0 {
        if exponent & 1 != 0 {
            power = mul(power, a);
        }
        a = square(a);
        exponent >>= 1;
    }
    power
}

/// The inverse, or `None` for zero: `a^(2^64 - 2)` (Fermat).
///
/// With `run(n) = a^(2^n - 1)`, `run(2n) = run(n)^(2^n) * run(n)` and `run(n + 1) = run(n)^2 * a`:
/// ten products and cheap squares to run(63), whose square it is (T. Itoh, S. Tsujii, *A fast
/// algorithm for computing multiplicative inverses in GF(2^m) using normal bases*, Information and
/// Computation 78, 1988).
#[must_use]
pub fn inv(a: u64) -> Option<u64> {
    if a == 0 {
        return None;
    }
    let (mut run, mut length) = (a, 1);
    while length < 63 {
        let shifted = (0..length).fold(run, |r, _| square(r));
        run = mul(square(mul(shifted, run)), a);
        length = 2 * length + 1;
    }
    Some(square(run))
}

/// The polynomial `low + high * x^64`, of degree at most 126, as an element.
const fn reduce(low: u64, high: u64) -> u64 {
    // A product has degree 126 at most, so `high` has 63 bits; this is what high * (x^3 + x^4)
    // pushes past x^63.
    let over = (high >> 61) ^ (high >> 60);
    let high = high ^ over;
    low ^ high ^ (high << 1) ^ (high << 3) ^ (high << 4)
}

impl Planes {
    /// `factor * self`, plane by plane, in GF(2^64).
    ///
    /// One shift of all planes for each bit of the factor: small factors, such as locators, are
    /// cheap.
    #[must_use]
    pub fn times(&self, factor: u64) -> Self {
        let (mut low, mut high) = ([0_u64; 8], [0_u64; 8]);
        let mut bits = factor;
        while bits != 0 {
            let shift = bits.trailing_zeros();
            for (i, plane) in self.0.iter().enumerate() {
                low[i] ^= plane << shift;
                // In two steps, because a shift by 64 is none.
                high[i] ^= (plane >> 1) >> (63 - shift);
            }
            bits &= bits - 1;
        }
        for (l, h) in low.iter_mut().zip(high) {
            *l = reduce(*l, h);
        }
        Self(low)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The definition: shift and add.
    fn by_definition(mut a: u64, mut b: u64) -> u64 {
        let mut product = 0;
        while b != 0 {
            if b & 1 != 0 {
                product ^= a;
            }
            a = double(a);
            b >>= 1;
        }
        product
    }

    fn samples() -> Vec<u64> {
        let mut x = 0x9E37_79B9_7F4A_7C15_u64;
        let random = std::iter::repeat_with(move || {
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
            x
        });
        [0, 1, 2, 3, 1 << 63, u64::MAX, TAIL].into_iter().chain(random.take(40)).collect()
    }

    #[test]
    fn products_agree_with_the_definition() {
        for a in samples() {
            for b in samples() {
                assert_eq!(mul(a, b), by_definition(a, b), "{a:x} * {b:x}");
                assert_eq!(mul_small(a, b as u32), by_definition(a, u64::from(b as u32)));
            }
        }
    }

    #[test]
    fn every_sample_has_its_inverse() {
        assert_eq!(inv(0), None);
        for a in samples().into_iter().filter(|a| *a != 0) {
            assert_eq!(mul(a, inv(a).unwrap()), 1, "{a:x}");
        }
    }

    #[test]
    fn planes_are_multiplied_one_by_one() {
        let samples = samples();
        for planes in samples.chunks_exact(8) {
            for factor in &samples {
                let expected = Planes(std::array::from_fn(|i| mul(planes[i], *factor)));
                assert_eq!(Planes(std::array::from_fn(|i| planes[i])).times(*factor), expected, "{factor:x}");
            }
        }
    }

    #[test]
    fn powers_are_repeated_products() {
        for a in samples() {
            let mut product = 1;
            for exponent in 0..70 {
                assert_eq!(pow(a, exponent), product, "{a:x}^{exponent}");
                product = mul(product, a);
            }
            assert_eq!(square(a), mul(a, a));
            // The order of the group divides 2^64 - 1.
            assert_eq!(pow(a, u64::MAX), u64::from(a != 0));
        }
    }

    /// Ben-Or and Rabin: of degree 64 is irreducible what divides x^(2^64) - x and is prime to
    /// x^(2^32) - x.
    #[test]
    fn the_polynomial_is_irreducible() {
        let frobenius = |times: u32| (0..times).fold(2, |a, _| square(a));
        assert_eq!(frobenius(64), 2);
        let difference = frobenius(32) ^ 2;
        // An inverse of it exists only where it is prime to the polynomial.
        assert_eq!(mul(difference, inv(difference).unwrap()), 1);
    }

    #[test]
    fn the_modulus_is_what_it_says() {
        // x^63 * x = x^4 + x^3 + x + 1
        assert_eq!(mul(1 << 63, 2), 0x1B);
    }
}
