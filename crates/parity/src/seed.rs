//! The seed of a pass: everything random comes from it, the same on every machine.
//!
//! # Layout (part of the wire format)
//! A seed is the 256-bit key of ChaCha8 (D. J. Bernstein, *ChaCha, a variant of Salsa20*, 2008).
//! Each use has a *domain*, an ASCII word of at most 8 bytes, which is the 64-bit stream number
//! (little-endian, zero-padded). Within a domain, item `i` has the block of 64 bytes with counter
//! `i`; an item that needs more runs on into the next blocks.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use std::fmt;
use std::str::FromStr;

/// 32-bit words of a ChaCha block.
const BLOCK_WORDS: u128 = 16;

/// 256 bits from which weights and keys are drawn.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Seed(pub [u8; 32]);

impl Seed {
    /// A seed from a number, for reproducible runs: the number, little-endian, then zeros.
    #[must_use]
    pub fn from_number(number: u64) -> Self {
        let mut bytes = [0; 32];
        bytes[..8].copy_from_slice(&number.to_le_bytes());
        Self(bytes)
    }

    /// The random bytes of item `index` of a domain.
    ///
    /// # Panics
    /// If the domain is longer than 8 bytes.
    #[must_use]
    pub(crate) fn stream(&self, domain: &str, index: u64) -> ChaCha8Rng {
        let mut name = [0; 8];
        name[..domain.len()].copy_from_slice(domain.as_bytes());
        let mut stream = ChaCha8Rng::from_seed(self.0);
        stream.set_stream(u64::from_le_bytes(name));
        stream.set_word_pos(u128::from(index) * BLOCK_WORDS);
        stream
    }

    /// Another seed for a use of its own.
    ///
    /// # Panics
    /// If the domain is longer than 8 bytes.
    #[must_use]
    pub fn derive(&self, domain: &str, index: u64) -> Self {
        let mut bytes = [0; 32];
        self.stream(domain, index).fill_bytes(&mut bytes);
        Self(bytes)
    }
}

impl fmt::Display for Seed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Seed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Seed({self})")
    }
}

/// A text that is no seed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is no seed: write 64 hexadecimal digits, or a whole number")]
pub struct ParseSeedError(String);

impl FromStr for Seed {
    type Err = ParseSeedError;

    /// 64 hexadecimal digits, or a whole number for [`Seed::from_number`].
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = || ParseSeedError(text.to_owned());
        if text.len() != 64 {
            return text.parse().map(Self::from_number).map_err(|_| wrong());
        }
        let mut bytes = [0; 32];
        for (byte, pair) in bytes.iter_mut().zip(text.as_bytes().chunks(2)) {
            let digits = std::str::from_utf8(pair).map_err(|_| wrong())?;
            if !digits.bytes().all(|b| b.is_ascii_hexdigit()) {
                return Err(wrong());
            }
            *byte = u8::from_str_radix(digits, 16).map_err(|_| wrong())?;
        }
        Ok(Self(bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_back() {
        let seed = Seed::from_number(7).derive("test", 3);
        assert_eq!(seed.to_string().parse(), Ok(seed));
        assert_eq!("12".parse(), Ok(Seed::from_number(12)));
        for bad in ["", "-1", "0x10", "+zz", &"g".repeat(64), &"é".repeat(32)] {
            assert!(bad.parse::<Seed>().is_err(), "{bad}");
        }
    }

    #[test]
    fn domains_and_items_are_apart() {
        let seed = Seed::from_number(1);
        assert_ne!(seed.derive("a", 0), seed.derive("b", 0));
        assert_ne!(seed.derive("a", 0), seed.derive("a", 1));
    }
}
