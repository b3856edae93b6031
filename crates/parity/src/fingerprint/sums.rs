//! The sums F (of a node) and T (of all nodes).

use super::alpha;
use crate::matrix::MAX_ROWS;
use crate::planes::Planes;
use std::ops::RangeInclusive;
use thiserror::Error;

/// Power sums a row, at most.
pub const MAX_POWERS: usize = 64;
/// Bytes of one sum on the wire.
pub const SUM_BYTES: usize = 64;

const ROWS: RangeInclusive<usize> = 1..=MAX_ROWS;
const POWERS: RangeInclusive<usize> = 2..=MAX_POWERS;

/// The power sums of a batch: for each parity row, J sums.
///
/// # Layout (part of the wire format)
/// `rows * powers * 64` bytes: row after row, within it power after power, within it plane after
/// plane, each a little-endian 64-bit word.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PowerSums {
    rows: usize,
    powers: usize,
    /// Row after row, power after power.
    sums: Vec<Planes>,
}

/// Bytes that are no power sums.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum PowerSumsError {
    /// Rows out of range.
    #[error("rows is {0}: a code has 1 to 8")]
    Rows(usize),
    /// Powers out of range, or odd.
    #[error("powers is {0}: it must be even, 2 to 64")]
    Powers(usize),
    /// Not as many bytes as the shape has.
    #[error("power sums of {expected} bytes are {length} long")]
    Length {
        /// Bytes given.
        length: usize,
        /// Bytes that the shape has.
        expected: usize,
    },
}

impl PowerSums {
    /// Zero sums.
    ///
    /// # Panics
    /// If rows are not 1 to 8, or powers not even and 2 to 64.
    #[must_use]
    pub fn new(rows: usize, powers: usize) -> Self {
        match Self::of_shape(rows, powers) {
            Ok(sums) => sums,
            Err(error) => panic!("{error}"),
        }
    }

    fn of_shape(rows: usize, powers: usize) -> Result<Self, PowerSumsError> {
        if !ROWS.contains(&rows) {
            return Err(PowerSumsError::Rows(rows));
        }
        if !POWERS.contains(&powers) || !powers.is_multiple_of(2) {
            return Err(PowerSumsError::Powers(powers));
        }
        Ok(Self { rows, powers, sums: vec![Planes::ZERO; rows * powers] })
    }

    /// Parity rows.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Sums a row. Half as many bad stripes can be named.
    #[must_use]
    pub fn powers(&self) -> usize {
        self.powers
    }

    /// The sum of row `row` and power `power`.
    ///
    /// # Panics
    /// If there is no such row or power.
    #[must_use]
    pub fn get(&self, row: usize, power: usize) -> &Planes {
        assert!(power < self.powers, "power {power} of {}", self.powers);
        &self.sums[row * self.powers + power]
    }

    /// Adds a stripe, or some members' part of it: its index in the batch, its key b, and the hash
    /// of each row.
    ///
    /// # Panics
    /// If there are not as many hashes as rows.
    pub fn add(&mut self, index: u32, key: u64, rows: &[Planes]) {
        assert_eq!(rows.len(), self.rows, "one hash a row");
        for (row, sums) in rows.iter().zip(self.sums.chunks_exact_mut(self.powers)) {
            if row.is_zero() {
                continue;
            }
            for_each_power(index, key, row, sums.len(), |power, term| sums[power].add(term));
        }
    }

    /// Adds one member of a stripe: the stripe's index in the batch, its key b, the member's
    /// coefficient in each row, and the hash of its chunk.
    ///
    /// For all members of a stripe, it is cheaper to combine their hashes by row first, and
    /// [`add`](Self::add) those.
    ///
    /// # Panics
    /// If there are not as many coefficients as rows.
    pub fn add_member(&mut self, index: u32, key: u64, coefficients: &[u8], hash: &Planes) {
        assert_eq!(coefficients.len(), self.rows, "one coefficient a row");
        let powers = self.powers;
        // M_c mixes planes and b * alpha^j works within them, so the order does not matter: powers
        // once for all rows.
        for_each_power(index, key, hash, powers, |power, term| {
            for (row, coefficient) in coefficients.iter().enumerate() {
                let sum = &mut self.sums[row * powers + power];
                match coefficient {
                    0 => {}
                    1 => sum.add(term),
                    c => sum.add(&term.scaled(*c)),
                }
            }
        });
    }

    /// `self += other`.
    ///
    /// # Panics
    /// If the shapes differ.
    pub fn merge(&mut self, other: &Self) {
        assert_eq!((self.rows, self.powers), (other.rows, other.powers), "sums of one batch");
        for (a, b) in self.sums.iter_mut().zip(&other.sums) {
            a.add(b);
        }
    }

    /// Returns whether every sum is zero.
    #[must_use]
    pub fn is_zero(&self) -> bool {
        self.sums.iter().all(Planes::is_zero)
    }

    /// Bytes on the wire.
    #[must_use]
    pub fn encoded_len(&self) -> usize {
        self.sums.len() * SUM_BYTES
    }

    /// The bytes on the wire.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        self.sums.iter().flat_map(|sum| sum.0).flat_map(u64::to_le_bytes).collect()
    }

    /// From the bytes on the wire.
    ///
    /// # Errors
    /// If rows are not 1 to 8, powers not even and 2 to 64, or the bytes not exactly as many as
    /// that shape has.
    pub fn from_bytes(rows: usize, powers: usize, bytes: &[u8]) -> Result<Self, PowerSumsError> {
        let mut out = Self::of_shape(rows, powers)?;
        if bytes.len() != out.encoded_len() {
            return Err(PowerSumsError::Length { length: bytes.len(), expected: out.encoded_len() });
        }
        let (words, _) = bytes.as_chunks::<8>();
        for (plane, word) in out.sums.iter_mut().flat_map(|sum| &mut sum.0).zip(words) {
            *plane = u64::from_le_bytes(*word);
        }
        Ok(out)
    }
}

/// Calls `each` with every power j below `powers` and `b * alpha^j * hash`.
fn for_each_power(index: u32, key: u64, hash: &Planes, powers: usize, mut each: impl FnMut(usize, &Planes)) {
    let locator = alpha(index);
    let mut term = hash.times(key);
    each(0, &term);
    for power in 1..powers {
        // Locators are small numbers: a few shifts a step, whatever the power.
        term = term.times(locator);
        each(power, &term);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gf64;

    const HASH: Planes = Planes([1, 2, 3, 1 << 63, u64::MAX, 0, 0x1234_5678, 99]);

    #[test]
    fn sums_are_the_formula() {
        let mut sums = PowerSums::new(2, 4);
        let rows = [HASH, HASH.scaled(7)];
        sums.add(9, 0xABCD_EF01_2345_6789, &rows);
        for (row, hash) in rows.iter().enumerate() {
            for power in 0..4 {
                let factor = gf64::mul(0xABCD_EF01_2345_6789, gf64::pow(10, power));
                assert_eq!(*sums.get(row, power as usize), hash.times(factor));
            }
        }
    }

    #[test]
    fn a_member_enters_each_row_by_its_coefficient() {
        let (mut by_rows, mut by_member) = (PowerSums::new(4, 6), PowerSums::new(4, 6));
        let coefficients = [0, 1, 2, 0xB7];
        by_member.add_member(u32::MAX, 5, &coefficients, &HASH);
        by_rows.add(u32::MAX, 5, &coefficients.map(|c| HASH.scaled(c)));
        assert_eq!(by_member, by_rows);
        by_member.merge(&by_rows);
        assert!(by_member.is_zero() && !by_rows.is_zero());
    }

    #[test]
    fn bytes_and_back() {
        let mut sums = PowerSums::new(2, 4);
        sums.add(7, 3, &[HASH, HASH.scaled(2)]);
        let bytes = sums.to_bytes();
        assert_eq!(bytes.len(), sums.encoded_len());
        // Row 1, power 2, plane 3.
        let at = ((4 + 2) * 8 + 3) * 8;
        assert_eq!(bytes[at..at + 8], sums.get(1, 2).0[3].to_le_bytes());
        assert_eq!(PowerSums::from_bytes(2, 4, &bytes), Ok(sums));
        assert_eq!(
            PowerSums::from_bytes(2, 4, &bytes[1..]),
            Err(PowerSumsError::Length { length: 511, expected: 512 })
        );
        assert_eq!(PowerSums::from_bytes(9, 4, &bytes), Err(PowerSumsError::Rows(9)));
        assert_eq!(PowerSums::from_bytes(2, 3, &bytes), Err(PowerSumsError::Powers(3)));
        assert_eq!(PowerSums::from_bytes(2, 66, &bytes), Err(PowerSumsError::Powers(66)));
    }
}
