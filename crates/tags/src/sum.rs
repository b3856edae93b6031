//! Sums by which recovery knows the versions of a block.
//!
//! A host chooses the contents of its blocks, so it can make two of them equal in any sum that it
//! can compute. The sum here depends on a secret: the identity of the tag file, which no host sees.
//! `docs/reference/on-disk/tags.md`, "Sums", has the formula and the bound.

/// Bytes of a stripe.
const STRIPE: usize = 64;
/// Words of 32 bits of a stripe, each with its key.
const WORDS: usize = STRIPE / 4;
/// The modulus of the polynomial, a Mersenne prime.
const PRIME: u64 = (1 << 61) - 1;

/// SplitMix64 (Steele, Lea, Flood, 2014): one key after the other.
struct Keys(u64);

impl Keys {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }
}

/// The keyed sum of a block, of a multiple of 64 bytes.
///
/// # Panics
/// If the block is not a multiple of 64 bytes.
pub(crate) fn keyed(secret: u64, block: &[u8]) -> u32 {
    assert!(block.len().is_multiple_of(STRIPE), "a block of {} bytes", block.len());
    let mut keys = Keys(secret);
    let mut words = [0_u32; WORDS];
    for pair in words.as_chunks_mut::<2>().0 {
        let key = keys.next();
        *pair = [key as u32, (key >> 32) as u32];
    }
    let point = keys.next() % PRIME;
    let (factor, term) = (keys.next() | 1, keys.next());
    let mut value = 0;
    for stripe in block.as_chunks::<STRIPE>().0 {
        let hash = of_stripe(&words, stripe);
        value = step(value, point, hash & 0xFFFF_FFFF);
        value = step(value, point, hash >> 32);
    }
    (factor.wrapping_mul(value).wrapping_add(term) >> 32) as u32
}

/// NH (Black, Halevi, Krawczyk, Krovetz, Rogaway, 1999): the sum of products of pairs of words,
/// each plus its key.
fn of_stripe(keys: &[u32; WORDS], stripe: &[u8; STRIPE]) -> u64 {
    let words = stripe.as_chunks::<4>().0;
    let mut sum = 0_u64;
    for at in 0..WORDS / 2 {
        let word = |at: usize| u32::from_le_bytes(words[at]).wrapping_add(keys[at]);
        sum = sum.wrapping_add(u64::from(word(at)) * u64::from(word(at + WORDS / 2)));
    }
    sum
}

/// One step of Horner's rule modulo [`PRIME`].
const fn step(value: u64, point: u64, next: u64) -> u64 {
    let product = value as u128 * point as u128 + next as u128;
    let folded = (product as u64 & PRIME) + (product >> 61) as u64;
    if folded >= PRIME { folded - PRIME } else { folded }
}

/// The sums of the blocks of a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Sums {
    /// CRC-32C, as earlier versions wrote them: recovery asks for the guard as well.
    Plain(Vec<u32>),
    /// Sums under the secret of the tag file.
    Keyed(Vec<u32>),
}

/// The sum of one block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sum {
    /// CRC-32C.
    Plain(u32),
    /// Under the secret of the tag file.
    Keyed(u32),
}

impl Sums {
    /// How many.
    pub(crate) fn len(&self) -> usize {
        self.all().len()
    }

    /// The sum of block `at`.
    pub(crate) fn of(&self, at: usize) -> Sum {
        match self {
            Self::Plain(sums) => Sum::Plain(sums[at]),
            Self::Keyed(sums) => Sum::Keyed(sums[at]),
        }
    }

    /// The numbers.
    pub(crate) fn all(&self) -> &[u32] {
        match self {
            Self::Plain(sums) | Self::Keyed(sums) => sums,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(seed: u64, len: usize) -> Vec<u8> {
        let mut keys = Keys(seed);
        (0..len / 8).flat_map(|_| keys.next().to_le_bytes()).collect()
    }

    /// Another content with the CRC-32C of `block`.
    fn colliding(block: &[u8]) -> Vec<u8> {
        crate::forge::with_sum(&bytes(1 << 40, block.len()), crc32c::crc32c(block))
    }

    #[test]
    fn the_formula_is_the_one_on_the_page() {
        // Plain arithmetic of wide numbers, in the order of the page.
        for (secret, len) in [(0, 64), (7, 512), (u64::MAX, 4096)] {
            let block = bytes(secret ^ 5, len);
            let mut keys = Keys(secret);
            let k: Vec<u64> = (0..8).map(|_| keys.next()).flat_map(|k| [k & 0xFFFF_FFFF, k >> 32]).collect();
            let point = u128::from(keys.next()) % u128::from(PRIME);
            let (factor, term) = (keys.next() | 1, keys.next());
            let mut value = 0_u128;
            for stripe in block.chunks(64) {
                let word = |at: usize| {
                    let word: [u8; 4] = stripe[at * 4..][..4].try_into().unwrap();
                    (u64::from(u32::from_le_bytes(word)) + k[at]) & 0xFFFF_FFFF
                };
                let hash = (0..8).fold(0_u64, |sum, at| sum.wrapping_add(word(at) * word(at + 8)));
                for half in [hash & 0xFFFF_FFFF, hash >> 32] {
                    value = (value * point + u128::from(half)) % u128::from(PRIME);
                }
            }
            let sum = factor.wrapping_mul(value as u64).wrapping_add(term) >> 32;
            assert_eq!(u64::from(keyed(secret, &block)), sum, "{secret} {len}");
        }
    }

    #[test]
    fn contents_that_a_host_made_equal_in_crc_differ_under_every_secret() {
        for secret in 0..2_000 {
            let one = bytes(secret, 512);
            let other = colliding(&one);
            assert_eq!(crc32c::crc32c(&one), crc32c::crc32c(&other));
            assert_ne!(keyed(secret, &one), keyed(secret, &other), "{secret}");
        }
    }

    #[test]
    fn any_changed_bit_changes_the_sum() {
        let block = bytes(3, 512);
        let sum = keyed(11, &block);
        for bit in 0..512 * 8 {
            let mut changed = block.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            assert_ne!(keyed(11, &changed), sum, "bit {bit}");
        }
        assert_ne!(keyed(12, &block), sum, "another secret");
    }
}
