//! Bytes that nobody else should see.

use ctutils::CtEq as _;
use std::fmt;
use zeroize::Zeroizing;

/// Secret bytes. They are overwritten when they are dropped; their debug form has their length
/// only; they are compared in constant time.
#[derive(Clone)]
pub struct Secret(Zeroizing<Box<[u8]>>);

impl Secret {
    /// Copies bytes. The caller overwrites its own.
    #[must_use]
    pub fn new(bytes: &[u8]) -> Self {
        Self(Zeroizing::new(bytes.into()))
    }

    /// The bytes themselves.
    #[must_use]
    pub fn expose(&self) -> &[u8] {
        &self.0
    }

    /// Returns whether the bytes are these, in a time that depends on the lengths only.
    #[must_use]
    pub fn is(&self, bytes: &[u8]) -> bool {
        self.0.ct_eq(bytes).to_bool()
    }
}

impl PartialEq for Secret {
    fn eq(&self, other: &Self) -> bool {
        self.is(other.expose())
    }
}

impl Eq for Secret {}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Secret({} bytes)", self.0.len())
    }
}

/// Random bytes for one step of an exchange. A step takes them by value, so that nothing is used
/// twice.
#[derive(Debug)]
pub struct Seed(Secret);

impl Seed {
    /// Bytes of a seed: a challenge, a secret exponent, a sequence number, a transaction.
    pub const BYTES: usize = CHALLENGE + EXPONENT + 4 + 2;

    /// Takes random bytes, from the generator of the operating system.
    #[must_use]
    pub fn new(bytes: &[u8; Self::BYTES]) -> Self {
        Self(Secret::new(bytes))
    }

    /// Cuts the bytes into their parts.
    pub(crate) fn split(self) -> Parts {
        let (challenge, rest) = self.0.expose().split_at(CHALLENGE);
        let (exponent, rest) = rest.split_at(EXPONENT);
        Parts {
            challenge: Secret::new(challenge),
            exponent: Secret::new(exponent),
            sequence: u32::from_le_bytes([rest[0], rest[1], rest[2], rest[3]]),
            transaction: u16::from_le_bytes([rest[4], rest[5]]),
        }
    }
}

/// The parts of a seed.
pub(crate) struct Parts {
    /// 64 bytes, the length of the longest challenge.
    pub(crate) challenge: Secret,
    /// 56 bytes, the length of the longest exponent.
    pub(crate) exponent: Secret,
    /// A number to begin with; it may be 0.
    pub(crate) sequence: u32,
    /// A transaction to begin with.
    pub(crate) transaction: u16,
}

/// Bytes of the longest challenge, and of the longest exponent.
const CHALLENGE: usize = 64;
const EXPONENT: usize = 56;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_debug_form_shows_no_byte() {
        let secret = Secret::new(&[0xAB; 32]);
        assert_eq!(format!("{secret:?}"), "Secret(32 bytes)");
        assert_eq!(format!("{:?}", Seed::new(&[0xAB; Seed::BYTES])), "Seed(Secret(126 bytes))");
    }

    #[test]
    fn secrets_are_equal_if_every_byte_is() {
        let one = Secret::new(&[7; 48]);
        assert!(one.is(&[7; 48]) && !one.is(&[7; 47]) && !one.is(&[]));
        for at in 0..48 {
            let mut other = [7; 48];
            other[at] ^= 1;
            assert!(!one.is(&other), "byte {at}");
        }
    }
}
