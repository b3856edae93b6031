//! Linear recurrences over GF(2^64): from power sums to the polynomial of their locators, and from
//! locators to amplitudes.
//!
//! # Derivation
//! `s[j] = sum over i of v[i] * alpha[i]^j` with L distinct alphas and no v zero obeys `sum over i
//! of c[i] * s[n - i] = 0` for n >= L, where `C(x) = 1 + c[1] x + ... = product of (1 - alpha[i]
//! x)`, and no shorter recurrence. 2L terms determine it, and Berlekamp and Massey find it. Read
//! backwards, C is the *locator polynomial* `product of (z - alpha[i])`.
//!
//! # References
//! J. L. Massey, *Shift-register synthesis and BCH decoding*, IEEE Trans. Inf. Theory 15(1), 1969.

use crate::gf64;

/// The locator polynomial of the shortest recurrence that a sequence obeys: monic, lowest
/// coefficient first, of degree at most half the length. `None` if the shortest one is longer
/// than that, and so need not be the right one.
pub(super) fn locator_polynomial(sequence: &[u64]) -> Option<Vec<u64>> {
    let mut current = vec![1_u64];
    let mut length = 0;
    // The last polynomial before the length grew, its discrepancy, and how many terms ago that was.
    let (mut before, mut before_discrepancy, mut ago) = (vec![1_u64], 1_u64, 1);
    for n in 0..sequence.len() {
        let discrepancy = (0..=length).zip(&current).fold(0, |d, (i, c)| d ^ gf64::mul(*c, sequence[n - i]));
        if discrepancy == 0 {
            ago += 1;
            continue;
        }
        let grows = 2 * length <= n;
        let kept = if grows { current.clone() } else { Vec::new() };
        let factor = gf64::mul(discrepancy, gf64::inv(before_discrepancy)?);
        if current.len() < before.len() + ago {
            current.resize(before.len() + ago, 0);
        }
        for (c, b) in current[ago..].iter_mut().zip(&before) {
            *c ^= gf64::mul(factor, *b);
        }
        ago += 1;
        if grows {
            length = n + 1 - length;
            if length > sequence.len() / 2 {
                return None;
            }
            (before, before_discrepancy, ago) = (kept, discrepancy, 1);
        }
    }
    current.resize(length + 1, 0);
    current.reverse();
    Some(current)
}

/// The amplitudes v with `sum over i of v[i] * locators[i]^j = sequence[j]` for j below the number
/// of locators, which are distinct roots of the monic `polynomial` and all of them.
///
/// Let `Q = polynomial / (z - alpha[i])`: it is zero at all other locators, so adding up its
/// coefficients times the sequence leaves `v[i] * Q(alpha[i])`.
pub(super) fn amplitudes(polynomial: &[u64], locators: &[u64], sequence: &[u64]) -> Option<Vec<u64>> {
    let degree = polynomial.len().checked_sub(1)?;
    locators
        .iter()
        .map(|locator| {
            // Synthetic division from the top, and Q(alpha) and the weighted sum on the way.
            let (mut quotient, mut value, mut weighted) = (0, 0, 0);
            for j in (0..degree).rev() {
                quotient = gf64::mul(quotient, *locator) ^ polynomial[j + 1];
                value = gf64::mul(value, *locator) ^ quotient;
                weighted ^= gf64::mul(quotient, *sequence.get(j)?);
            }
            Some(gf64::mul(weighted, gf64::inv(value)?))
        })
        .collect()
}

/// Returns whether the amplitudes at the locators give every term of the sequence.
pub(super) fn explains(locators: &[u64], amplitudes: &[u64], sequence: &[u64]) -> bool {
    let mut terms = amplitudes.to_vec();
    sequence.iter().all(|s| {
        let sum = terms.iter().fold(0, |sum, term| sum ^ term);
        for (term, locator) in terms.iter_mut().zip(locators) {
            *term = gf64::mul(*term, *locator);
        }
        sum == *s
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sequence(parts: &[(u64, u64)], len: u64) -> Vec<u64> {
        (0..len).map(|j| parts.iter().fold(0, |s, (a, v)| s ^ gf64::mul(*v, gf64::pow(*a, j)))).collect()
    }

    #[test]
    fn known_locators_come_back() {
        let parts = [(3, 0xDEAD_BEEF), (200, 1), (77, u64::MAX)];
        let s = sequence(&parts, 6);
        let polynomial = locator_polynomial(&s).unwrap();
        let expected = parts.iter().fold(vec![1], |product, (a, _)| {
            let mut next = vec![0; product.len() + 1];
            for (i, c) in product.iter().enumerate() {
                next[i + 1] ^= c;
                next[i] ^= gf64::mul(*c, *a);
            }
            next
        });
        assert_eq!(polynomial, expected);
        let locators = parts.map(|(a, _)| a);
        let found = amplitudes(&polynomial, &locators, &s).unwrap();
        assert_eq!(found, parts.map(|(_, v)| v));
        assert!(explains(&locators, &found, &s));
        assert!(!explains(&locators[1..], &found[1..], &s));
    }

    #[test]
    fn one_stripe_is_the_quotient_of_two_sums() {
        let s = sequence(&[(42, 0x1234)], 2);
        assert_eq!(locator_polynomial(&s), Some(vec![gf64::mul(s[1], gf64::inv(s[0]).unwrap()), 1]));
    }

    #[test]
    fn what_starts_with_zeros_is_longer_than_its_half() {
        assert_eq!(locator_polynomial(&[0, 0, 0, 5]), None);
        assert_eq!(locator_polynomial(&[0, 0, 0, 0]), Some(vec![1]));
    }
}
