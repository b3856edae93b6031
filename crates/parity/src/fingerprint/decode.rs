//! Decodes the power sums of a batch into the bad stripes.
//!
//! # Derivation
//! For each row and plane the shortest recurrence of the J sums is sought. If e <= J/2 stripes are
//! bad in that plane, it is theirs. If more are, something else may come out, and is refused by
//! three tests: its length is at most J/2, its roots are distinct locators of the batch, and the
//! amplitudes at the roots give all J sums again.
//!
//! *Can a wrong answer pass?* It would have a set of at most J/2 stripes L with values that give
//! the same sums as the bad set S of more than J/2. The difference is supported on S and L and has
//! J zero power sums; any J columns of a Vandermonde matrix are independent, so that S and L
//! together have more than J stripes. The values at L can be eliminated, and J/2 independent
//! equations remain on the more than J/2 values b*y outside L. The b are independent and uniform
//! over 2^64 - 1 values, so all of them hold with probability at most (2^64 - 1)^(-J/2). For a
//! batch of B stripes there are at most B^(J/2) / (J/2)! sets L. With J = 8 and B = 65536 that is
//! 2^-196.
//!
//! Worked example with J = 2: alpha = T1/T0 is some element of GF(2^64); with two bad stripes it is
//! none of a batch of 65536, except with probability 2^-48.

use super::recurrence::{amplitudes, explains, locator_polynomial};
use super::roots::roots_up_to;
use super::sums::PowerSums;
use crate::gf64;
use crate::planes::Planes;
use std::collections::{BTreeMap, HashMap};

/// A bad stripe that the sums name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadStripe {
    /// Its index in the batch.
    pub index: u32,
    /// The hash of each of its syndrome rows; not all of them are zero.
    pub rows: Vec<Planes>,
}

/// Result of decoding the power sums of a batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decoded {
    /// Every row of every stripe holds.
    Clean,
    /// These stripes explain every sum of every row exactly. In order.
    Stripes(Vec<BadStripe>),
    /// More than half as many bad stripes as powers, or bad in ways that no stripes of the batch
    /// explain.
    TooMany,
}

impl PowerSums {
    /// Finds the bad stripes of a batch of `batch` stripes. `key` gives the key b of the stripe at
    /// an index of the batch, the same that its hashes were added with.
    #[must_use]
    pub fn decode(&self, batch: u32, key: impl Fn(u32) -> u64) -> Decoded {
        if self.is_zero() {
            return Decoded::Clean;
        }
        let mut found: BTreeMap<u32, Vec<Planes>> = BTreeMap::new();
        let mut search = Search { batch, known: HashMap::new() };
        for row in 0..self.rows() {
            for plane in 0..8 {
                let sequence: Vec<u64> =
                    (0..self.powers()).map(|power| self.get(row, power).0[plane]).collect();
                let Some(stripes) = search.explain(&sequence) else { return Decoded::TooMany };
                for (index, value) in stripes {
                    let Some(inverse) = gf64::inv(key(index)) else { return Decoded::TooMany };
                    let rows = found.entry(index).or_insert_with(|| vec![Planes::ZERO; self.rows()]);
                    rows[row].0[plane] = gf64::mul(value, inverse);
                }
            }
        }
        Decoded::Stripes(found.into_iter().map(|(index, rows)| BadStripe { index, rows }).collect())
    }
}

struct Search {
    batch: u32,
    /// Locator polynomials and their roots. Most planes of an error show the same stripes.
    known: HashMap<Vec<u64>, Vec<u64>>,
}

impl Search {
    /// The indices of the stripes that explain a sequence of power sums, each with b*y; `None`
    /// where none do.
    fn explain(&mut self, sequence: &[u64]) -> Option<Vec<(u32, u64)>> {
        if sequence.iter().all(|s| *s == 0) {
            return Some(Vec::new());
        }
        let polynomial = locator_polynomial(sequence)?;
        if !self.known.contains_key(&polynomial) {
            let roots = roots_up_to(&polynomial, self.batch)?;
            self.known.insert(polynomial.clone(), roots);
        }
        let locators = self.known.get(&polynomial)?;
        let values = amplitudes(&polynomial, locators, sequence)?;
        if !explains(locators, &values, sequence) {
            return None;
        }
        locators.iter().zip(values).map(|(locator, value)| Some((index_of(*locator)?, value))).collect()
    }
}

/// The inverse of [`alpha`](super::alpha).
fn index_of(locator: u64) -> Option<u32> {
    u32::try_from(locator.checked_sub(1)?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(index: u32) -> u64 {
        u64::from(index) * 77 + 5
    }

    fn plane(at: usize, value: u64) -> Planes {
        let mut planes = Planes::ZERO;
        planes.0[at] = value;
        planes
    }

    #[test]
    fn planes_that_an_error_does_not_touch_are_made_up_by_others() {
        // Eight bad stripes, each in a bit of its own: one a plane, so that eight sums are plenty.
        let mut sums = PowerSums::new(2, 8);
        let expected: Vec<BadStripe> = (0..8)
            .map(|i| BadStripe { index: i * 30, rows: vec![plane(i as usize, 0x1234), Planes::ZERO] })
            .collect();
        for stripe in &expected {
            sums.add(stripe.index, key(stripe.index), &stripe.rows);
        }
        assert_eq!(sums.decode(255, key), Decoded::Stripes(expected));
    }

    #[test]
    fn a_stripe_outside_the_batch_explains_nothing() {
        let mut sums = PowerSums::new(1, 2);
        sums.add(100, key(100), &[plane(3, 9)]);
        assert_eq!(sums.decode(100, key), Decoded::TooMany);
        assert_eq!(sums.decode(0, key), Decoded::TooMany);
        assert!(matches!(sums.decode(101, key), Decoded::Stripes(found) if found[0].index == 100));
        // A key that is zero cannot have been used.
        assert_eq!(sums.decode(101, |_| 0), Decoded::TooMany);
    }

    #[test]
    fn the_last_stripe_of_the_largest_batch() {
        let mut sums = PowerSums::new(1, 4);
        let stripes: Vec<BadStripe> = [0, u32::MAX - 1]
            .map(|index| BadStripe { index, rows: vec![plane(0, 0xFEED)] })
            .into_iter()
            .collect();
        for stripe in &stripes {
            sums.add(stripe.index, 3, &stripe.rows);
        }
        assert_eq!(sums.decode(u32::MAX, |_| 3), Decoded::Stripes(stripes));
    }

    #[test]
    fn sums_that_no_stripes_leave_are_refused() {
        // One sum changed on the way: no recurrence of four closes.
        let mut sums = PowerSums::new(1, 8);
        sums.add(1, key(1), &[plane(0, 5)]);
        let mut bytes = sums.to_bytes();
        bytes[7 * 64] ^= 1;
        assert_eq!(PowerSums::from_bytes(1, 8, &bytes).unwrap().decode(4096, key), Decoded::TooMany);
    }
}
