//! The roots of a locator polynomial among the locators of a batch, without trying each.
//!
//! # Derivation
//! The numbers below 2^i are a subspace V_i of GF(2^64) over GF(2). Its *subspace polynomial*
//! `S_i(z) = product over v in V_i of (z - v)` is additive, `S_i(a + b) = S_i(a) + S_i(b)`, and
//!
//! ```text
//! S_0(z) = z        S_(i+1)(z) = S_i(z) * S_i(z + 2^i) = S_i(z)^2 + S_i(2^i) * S_i(z)
//! ```
//!
//! A polynomial f has all its roots in V_k, each once, if and only if it divides S_k: k squarings
//! modulo f tell. If it does, the roots are separated bit by bit from the top. A root whose bits
//! from i + 1 up are those of c is c + r with r in V_(i+1), and S_i(r) is 0 where bit i of r is
//! clear and S_i(2^i) where it is set. So gcd(f, S_i + S_i(c)) has the roots with that bit clear,
//! and f divided by it those with the bit set.
//!
//! The work depends on the degree and on the bits of an index, not on the length of the batch.
//!
//! Worked example: the roots 5 = 101 and 7 = 111 agree in bit 2; bit 1 separates them.
//!
//! # References
//! E. R. Berlekamp, *Factoring polynomials over large finite fields*, Math. Comp. 24, 1970
//! (separation by gcd); O. Ore, *On a special class of polynomials*, 1933 (linearised polynomials).

use crate::gf64;

/// Bits of a locator, at most: a batch has less than 2^32 stripes.
const BITS: usize = 32;

/// The roots of a monic polynomial (lowest coefficient first), if they are distinct and all of them
/// numbers from 1 to `largest`. In order.
pub(super) fn roots_up_to(polynomial: &[u64], largest: u32) -> Option<Vec<u64>> {
    let bits = BITS - largest.leading_zeros() as usize;
    let subspaces = Subspaces::new();
    // S_i mod f for every i.
    let mut residues = vec![remainder(vec![0, 1], polynomial)];
    for i in 0..bits {
        residues.push(next_residue(&residues[i], subspaces.step(i), polynomial));
    }
    if residues[bits].iter().any(|c| *c != 0) {
        return None;
    }
    let mut roots = Vec::with_capacity(polynomial.len());
    separate(polynomial.to_vec(), bits, 0, &residues, &subspaces, &mut roots);
    roots.sort_unstable();
    let in_range = roots.iter().all(|root| (1..=u64::from(largest)).contains(root));
    (in_range && roots.len() + 1 == polynomial.len()).then_some(roots)
}

/// `S_i(2^j)` at `[i][j]`.
struct Subspaces([[u64; BITS]; BITS]);

impl Subspaces {
    fn new() -> Self {
        let mut values = [[0; BITS]; BITS];
        values[0] = std::array::from_fn(|j| 1 << j);
        for i in 1..BITS {
            let (before, step) = (values[i - 1], values[i - 1][i - 1]);
            values[i] = before.map(|value| gf64::square(value) ^ gf64::mul(step, value));
        }
        Self(values)
    }

    /// `S_i(2^i)`.
    fn step(&self, i: usize) -> u64 {
        self.0[i][i]
    }

    /// `S_i(c)`, by additivity.
    fn value(&self, i: usize, c: u64) -> u64 {
        self.0[i].iter().enumerate().fold(0, |sum, (j, value)| sum ^ if c >> j & 1 == 0 { 0 } else { *value })
    }
}

/// `S_(i+1) mod f` from `S_i mod f` and `S_i(2^i)`.
fn next_residue(residue: &[u64], step: u64, polynomial: &[u64]) -> Vec<u64> {
    // In characteristic 2 a square has the squares of the coefficients at twice the places.
    let mut next = vec![0; 2 * residue.len()];
    for (i, c) in residue.iter().enumerate() {
        next[2 * i] ^= gf64::square(*c);
        next[i] ^= gf64::mul(step, *c);
    }
    remainder(next, polynomial)
}

/// Adds the roots of `f` to `roots`. All of them have the bits of `c` from bit `bits` up.
fn separate(
    f: Vec<u64>,
    bits: usize,
    c: u64,
    residues: &[Vec<u64>],
    subspaces: &Subspaces,
    roots: &mut Vec<u64>,
) {
    if f.len() == 2 {
        roots.push(f[0]);
        return;
    }
    let Some(bit) = bits.checked_sub(1).filter(|_| f.len() > 2) else { return };
    let mut split = remainder(residues[bit].clone(), &f);
    split[0] ^= subspaces.value(bit, c);
    let clear = gcd(f.clone(), split);
    let (set, _) = divide(f, &clear);
    separate(clear, bit, c, residues, subspaces, roots);
    separate(set, bit, c | 1 << bit, residues, subspaces, roots);
}

/// `a mod m` for a monic m: as many coefficients as m has degree, and at least one.
fn remainder(a: Vec<u64>, m: &[u64]) -> Vec<u64> {
    let (_, mut rest) = divide(a, m);
    rest.resize((m.len() - 1).max(1), 0);
    rest
}

/// Quotient and rest of `a` by a monic m.
fn divide(mut a: Vec<u64>, m: &[u64]) -> (Vec<u64>, Vec<u64>) {
    let degree = m.len() - 1;
    for top in (degree..a.len()).rev() {
        let factor = a[top];
        if factor != 0 {
            // The leading coefficient stays: it is the quotient's.
            for (i, c) in m[..degree].iter().enumerate() {
                a[top - degree + i] ^= gf64::mul(factor, *c);
            }
        }
    }
    let quotient = a.split_off(degree.min(a.len()));
    (quotient, a)
}

/// The monic greatest common divisor of a monic polynomial and another.
fn gcd(mut a: Vec<u64>, mut b: Vec<u64>) -> Vec<u64> {
    loop {
        while b.last() == Some(&0) {
            b.pop();
        }
        let Some(inverse) = b.last().and_then(|top| gf64::inv(*top)) else { return a };
        for c in &mut b {
            *c = gf64::mul(*c, inverse);
        }
        let (_, rest) = divide(a, &b);
        a = std::mem::replace(&mut b, rest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_roots(roots: &[u64]) -> Vec<u64> {
        roots.iter().fold(vec![1], |product, root| {
            let mut next = vec![0; product.len() + 1];
            for (i, c) in product.iter().enumerate() {
                next[i + 1] ^= c;
                next[i] ^= gf64::mul(*c, *root);
            }
            next
        })
    }

    #[test]
    fn the_example_of_the_header() {
        assert_eq!(roots_up_to(&with_roots(&[7, 5]), 7), Some(vec![5, 7]));
        assert_eq!(roots_up_to(&with_roots(&[7, 5]), 6), None);
    }

    #[test]
    fn every_set_of_small_roots_is_found_exactly_where_the_batch_has_it() {
        for set in 0_u32..1 << 9 {
            let roots: Vec<u64> = (0..9).filter(|r| set >> r & 1 == 1).collect();
            let polynomial = with_roots(&roots);
            for largest in 1..10 {
                let valid = roots.iter().all(|r| (1..=u64::from(largest)).contains(r));
                assert_eq!(
                    roots_up_to(&polynomial, largest),
                    valid.then(|| roots.clone()),
                    "{roots:?} {largest}"
                );
            }
        }
    }

    #[test]
    fn large_locators_are_found() {
        let roots: Vec<u64> = (0..32).map(|i| u64::from(u32::MAX) >> i).collect();
        let found = roots_up_to(&with_roots(&roots), u32::MAX).unwrap();
        assert_eq!(found, roots.iter().rev().copied().collect::<Vec<_>>());
    }

    #[test]
    fn repeated_roots_and_roots_elsewhere_are_none() {
        assert_eq!(roots_up_to(&with_roots(&[5, 5]), 100), None);
        assert_eq!(roots_up_to(&with_roots(&[5, 1 << 40]), u32::MAX), None);
    }
}
