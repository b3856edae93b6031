//! Sums under a secret: nobody without the secret can make contents whose sums are equal.
//!
//! A host chooses the contents of its blocks, so it can make two of them equal in any sum that it
//! can compute, such as a CRC. `docs/reference/on-disk/tags.md`, "Sums", has the formula and the
//! bound.

/// The modulus of the polynomial, a Mersenne prime.
const PRIME: u64 = (1 << 61) - 1;

/// `SplitMix64` (Steele, Lea, Flood, 2014): one number after the other.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }
}

/// Key derived from a secret, for sums over stripes of `WORDS` words of 32 bits, an even number.
#[derive(Clone, Copy)]
pub struct Key<const WORDS: usize> {
    words: [u32; WORDS],
    point: u64,
    factor: u64,
    term: u64,
}

impl<const WORDS: usize> std::fmt::Debug for Key<WORDS> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Key(..)")
    }
}

impl<const WORDS: usize> Key<WORDS> {
    /// The key of a secret.
    #[must_use]
    pub fn new(secret: u64) -> Self {
        const { assert!(WORDS > 0 && WORDS.is_multiple_of(2), "words come in pairs") };
        let mut numbers = Numbers(secret);
        let mut words = [0_u32; WORDS];
        for pair in words.as_chunks_mut::<2>().0 {
            let key = numbers.next();
            *pair = [key as u32, (key >> 32) as u32];
        }
        let point = numbers.next() % PRIME;
        let (factor, term) = (numbers.next() | 1, numbers.next());
        Self { words, point, factor, term }
    }

    /// The sum of bytes, of whole stripes.
    ///
    /// # Panics
    /// If the bytes are not whole stripes.
    #[must_use]
    pub fn sum(&self, bytes: &[u8]) -> u32 {
        let mut running = Running::default();
        running.add(self, bytes);
        running.sum(self)
    }

    /// NH (Black, Halevi, Krawczyk, Krovetz, Rogaway, 1999): the sum of products of pairs of words,
    /// each plus its key.
    fn of_stripe(&self, stripe: &[u8]) -> u64 {
        let (low, high) = stripe.as_chunks::<4>().0.split_at(WORDS / 2);
        let (low_keys, high_keys) = self.words.split_at(WORDS / 2);
        let words = low.iter().zip(low_keys).zip(high.iter().zip(high_keys));
        words.fold(0_u64, |sum, ((low, low_key), (high, high_key))| {
            let low = u32::from_le_bytes(*low).wrapping_add(*low_key);
            let high = u32::from_le_bytes(*high).wrapping_add(*high_key);
            sum.wrapping_add(u64::from(low) * u64::from(high))
        })
    }
}

/// A sum of bytes that come in pieces.
#[derive(Debug, Clone, Copy, Default)]
pub struct Running(u64);

impl Running {
    /// Adds the next bytes, of whole stripes, under the key of all of them.
    ///
    /// # Panics
    /// If the bytes are not whole stripes.
    pub fn add<const WORDS: usize>(&mut self, key: &Key<WORDS>, bytes: &[u8]) {
        let stripes = bytes.chunks_exact(4 * WORDS);
        // A part that no stripe covers would be a part that no sum covers.
        assert!(stripes.remainder().is_empty(), "{} bytes", bytes.len());
        for stripe in stripes {
            let hash = key.of_stripe(stripe);
            self.0 = step(self.0, key.point, hash & 0xFFFF_FFFF);
            self.0 = step(self.0, key.point, hash >> 32);
        }
    }

    /// The sum of all bytes that were added.
    #[must_use]
    pub fn sum<const WORDS: usize>(&self, key: &Key<WORDS>) -> u32 {
        (key.factor.wrapping_mul(self.0).wrapping_add(key.term) >> 32) as u32
    }
}

/// One step of Horner's rule modulo [`PRIME`].
const fn step(value: u64, point: u64, next: u64) -> u64 {
    let product = value as u128 * point as u128 + next as u128;
    let folded = (product as u64 & PRIME) + (product >> 61) as u64;
    if folded >= PRIME { folded - PRIME } else { folded }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(seed: u64, len: usize) -> Vec<u8> {
        let mut numbers = Numbers(seed);
        (0..len / 8).flat_map(|_| numbers.next().to_le_bytes()).collect()
    }

    /// Plain arithmetic of wide numbers, in the order of the page.
    fn plain(secret: u64, words: usize, block: &[u8]) -> u64 {
        let mut numbers = Numbers(secret);
        let k: Vec<u64> =
            (0..words / 2).map(|_| numbers.next()).flat_map(|k| [k & 0xFFFF_FFFF, k >> 32]).collect();
        let point = u128::from(numbers.next()) % u128::from(PRIME);
        let (factor, term) = (numbers.next() | 1, numbers.next());
        let mut value = 0_u128;
        for stripe in block.chunks(4 * words) {
            let word = |at: usize| {
                let word: [u8; 4] = stripe[at * 4..][..4].try_into().unwrap();
                (u64::from(u32::from_le_bytes(word)) + k[at]) & 0xFFFF_FFFF
            };
            let pairs = 0..words / 2;
            let hash = pairs.fold(0_u64, |sum, at| sum.wrapping_add(word(at) * word(at + words / 2)));
            for half in [hash & 0xFFFF_FFFF, hash >> 32] {
                value = (value * point + u128::from(half)) % u128::from(PRIME);
            }
        }
        factor.wrapping_mul(value as u64).wrapping_add(term) >> 32
    }

    #[test]
    fn the_formula_is_the_one_on_the_page() {
        for (secret, len) in [(0, 512), (7, 1024), (u64::MAX, 4096)] {
            let block = bytes(secret ^ 5, len);
            let (short, long) = (Key::<16>::new(secret).sum(&block), Key::<128>::new(secret).sum(&block));
            assert_eq!(u64::from(short), plain(secret, 16, &block), "{secret} {len}");
            assert_eq!(u64::from(long), plain(secret, 128, &block), "{secret} {len}");
        }
    }

    #[test]
    fn any_changed_bit_changes_the_sum() {
        let block = bytes(3, 512);
        let (short, long) = (Key::<16>::new(11), Key::<128>::new(11));
        for bit in 0..512 * 8 {
            let mut changed = block.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            assert_ne!(short.sum(&changed), short.sum(&block), "bit {bit}");
            assert_ne!(long.sum(&changed), long.sum(&block), "bit {bit}");
        }
        assert_ne!(Key::<16>::new(12).sum(&block), short.sum(&block), "another secret");
    }

    #[test]
    #[should_panic(expected = "600 bytes")]
    fn bytes_that_no_stripe_covers_have_no_sum() {
        let _ = Key::<128>::new(1).sum(&[0; 600]);
    }
}
