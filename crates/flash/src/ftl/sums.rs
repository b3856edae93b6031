//! The sum by which a page is known to hold the content that its tag means.
//!
//! A cut of the power may keep the tag of a page and drop its data. What lies there then is what
//! somebody wrote there before, and a host chooses that. So the sum must be one that nobody can
//! make fit without a secret. A CRC is none, whatever it is seeded with: two contents of one length
//! that have the same CRC have the same one under every seed.

use std::fmt;
use std::sync::Arc;

/// Bytes of a secret.
const SECRET: usize = 32;
/// Domain of the numbers that are drawn from a secret: other uses of it get others.
const PURPOSE: &[u8] = b"pumice flash: sums of pages 1";

/// The secret of a drive. Whoever knows it can make contents whose sums are equal.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Secret(pub [u8; SECRET]);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

/// The numbers that a secret gives for pages of one length.
struct Numbers {
    /// One for each 32-bit word of a page; two in one.
    words: Vec<u64>,
    last: [u64; 3],
}

/// The sums of the pages of a drive. Clones share their numbers.
#[derive(Clone)]
pub enum Sums {
    /// By CRC-32C, which a host can choose: drives of earlier versions, that were not opened for
    /// writing since.
    Crc32c,
    /// By a universal hash under the drive's secret.
    Keyed(Keyed),
}

impl fmt::Debug for Sums {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.are_keyed() { "Keyed" } else { "Crc32c" })
    }
}

/// A universal hash under a secret: see [`Sums::of`].
#[derive(Clone)]
pub struct Keyed(Arc<Numbers>);

impl Sums {
    /// Sums under a secret, of pages of so many bytes: a multiple of 8.
    #[must_use]
    pub fn keyed(secret: &Secret, page_bytes: u32) -> Self {
        let mut bytes = vec![0; page_bytes as usize + 24];
        blake3::Hasher::new_keyed(&secret.0).update(PURPOSE).finalize_xof().fill(&mut bytes);
        let mut numbers = bytes.as_chunks::<8>().0.iter().map(|eight| u64::from_le_bytes(*eight));
        let last = std::array::from_fn(|_| numbers.next().unwrap_or_default());
        Self::Keyed(Keyed(Arc::new(Numbers { words: numbers.collect(), last })))
    }

    /// Returns whether they are keyed.
    #[must_use]
    pub fn are_keyed(&self) -> bool {
        matches!(self, Self::Keyed(_))
    }

    /// The sum of a page.
    ///
    /// With a secret it is NH (of UMAC, RFC 4418): the words of the page and the secret's numbers
    /// are added in pairs, and the sums multiplied; then a strongly universal hash of those 64 bits
    /// (Thorup's pair-multiply-shift). Two different pages that were chosen without the secret have
    /// the same sum with a probability of 2^-31 at most.
    ///
    /// # Panics
    /// If they are keyed and the page has another length than they are made for.
    #[must_use]
    pub fn of(&self, page: &[u8]) -> u32 {
        let Self::Keyed(Keyed(numbers)) = self else { return crc32c::crc32c(page) };
        let (pairs, rest) = page.as_chunks::<8>();
        // A part that no number covers would be a part that no sum covers.
        assert!(rest.is_empty() && pairs.len() == numbers.words.len(), "a page of another length");
        let sum = pairs.iter().zip(&numbers.words).fold(0_u64, |sum, (pair, number)| {
            let word = u64::from_le_bytes(*pair);
            let low = (word as u32).wrapping_add(*number as u32);
            let high = ((word >> 32) as u32).wrapping_add((*number >> 32) as u32);
            sum.wrapping_add(u64::from(low).wrapping_mul(u64::from(high)))
        });
        let (low, high) = (sum & 0xFFFF_FFFF, sum >> 32);
        let [a, b, c] = numbers.last;
        (a.wrapping_add(low).wrapping_mul(b.wrapping_add(high)).wrapping_add(c) >> 32) as u32
    }
}

/// The sum of a page's data, as its tag has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DataSum {
    /// The sum.
    pub sum: u32,
    /// It is a keyed one; else a CRC-32C.
    pub keyed: bool,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chip::Random;

    const SECRETS: [Secret; 2] = [Secret([7; 32]), Secret([8; 32])];

    fn page(random: &mut Random) -> Vec<u8> {
        (0..512).flat_map(|_| random.next_u64().to_le_bytes()).collect()
    }

    /// A page with the CRC-32C of another one: its last four bytes are chosen for that.
    fn forged(random: &mut Random, like: &[u8]) -> Vec<u8> {
        let mut bytes = page(random);
        crate::chip::forge_crc32c(&mut bytes, crc32c::crc32c(like));
        bytes
    }

    #[test]
    fn pages_with_one_crc_have_different_sums_and_each_secret_gives_others() {
        let mut random = Random::new(1);
        let first = page(&mut random);
        let sums = SECRETS.map(|secret| Sums::keyed(&secret, 4096));
        assert_ne!(sums[0].of(&first), sums[1].of(&first));
        for _ in 0..1_000 {
            let other = forged(&mut random, &first);
            assert_eq!(crc32c::crc32c(&other), crc32c::crc32c(&first));
            // A seed before the page, whatever it is, changes nothing about that.
            let seed = random.next_u64().to_le_bytes();
            let seeded = |page: &[u8]| crc32c::crc32c_append(crc32c::crc32c(&seed), page);
            assert_eq!(seeded(&other), seeded(&first));
            assert!(sums.iter().all(|sums| sums.of(&other) != sums.of(&first)));
        }
    }

    #[test]
    fn each_bit_and_the_order_of_words_count() {
        let (mut random, sums) = (Random::new(2), Sums::keyed(&SECRETS[0], 512));
        let bytes = page(&mut random)[..512].to_vec();
        let sum = sums.of(&bytes);
        for bit in 0..4096 {
            let mut other = bytes.clone();
            other[bit / 8] ^= 1 << (bit % 8);
            assert_ne!(sums.of(&other), sum, "bit {bit}");
        }
        let mut turned = bytes.clone();
        turned.rotate_left(4);
        assert_ne!(sums.of(&turned), sum);
        turned.rotate_left(4);
        assert_ne!(sums.of(&turned), sum);
    }

    /// The byte map says how a sum is made: a drive of today must be read tomorrow.
    #[test]
    fn a_sum_is_what_the_byte_map_says() {
        let bytes: Vec<u8> = (0..4096_u32).map(|at| (at ^ at >> 8) as u8).collect();
        let sums = Sums::keyed(&Secret(std::array::from_fn(|at| at as u8)), 4096);
        assert_eq!([sums.of(&bytes), sums.of(&[0; 4096])], [1_760_103_098, 1_400_056_847]);
    }
}
