//! Sums by which recovery knows the versions of a block.
//!
//! A host chooses the contents of its blocks, so it can make two of them equal in any sum that it
//! can compute. The sum here depends on a secret: the identity of the tag file, which no host sees.
//! `docs/reference/on-disk/tags.md`, "Sums", has the formula and the bound.

use pumice_protect::keyed::Key;

/// Words of 32 bits of a stripe: 64 bytes.
const WORDS: usize = 16;

/// The keyed sum of a block, of a multiple of 64 bytes.
///
/// # Panics
/// If the block is not a multiple of 64 bytes.
pub(crate) fn keyed(secret: u64, block: &[u8]) -> u32 {
    Key::<WORDS>::new(secret).sum(block)
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
    /// Length in bytes.
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
        let numbers = (1..=len as u64 / 8).map(|at| (seed + at).wrapping_mul(0x9E37_79B9_7F4A_7C15));
        numbers.flat_map(|number| (number ^ (number >> 29)).to_le_bytes()).collect()
    }

    /// Another content with the CRC-32C of `block`.
    fn colliding(block: &[u8]) -> Vec<u8> {
        crate::forge::with_sum(&bytes(1 << 40, block.len()), crc32c::crc32c(block))
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
}
