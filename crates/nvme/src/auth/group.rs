//! Diffie-Hellman in the finite-field groups of RFC 7919.

mod primes;

use crate::auth::secret::Secret;
use crypto_bigint::modular::{BoxedMontyForm, BoxedMontyParams};
use crypto_bigint::{BoxedUint, Odd};
use std::fmt;
use std::str::FromStr;
use std::sync::LazyLock;
use zeroize::{Zeroize as _, Zeroizing};

/// Bytes of the longest public value.
pub const MAX_VALUE: usize = 1024;

/// A group of DH-HMAC-CHAP. (NVMe Base, DH-HMAC-CHAP group identifiers.)
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Group {
    /// No exchange of values: a listener can try keys against a response.
    Null,
    /// A group of RFC 7919.
    Ffdhe(Ffdhe),
}

/// A group of RFC 7919, with the generator 2.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Ffdhe {
    /// 2048 bits.
    F2048,
    /// 3072 bits.
    F3072,
    /// 4096 bits.
    F4096,
    /// 6144 bits.
    F6144,
    /// 8192 bits.
    F8192,
}

impl Group {
    /// All groups, in the order of their numbers.
    pub const ALL: [Self; 6] = [
        Self::Null,
        Self::Ffdhe(Ffdhe::F2048),
        Self::Ffdhe(Ffdhe::F3072),
        Self::Ffdhe(Ffdhe::F4096),
        Self::Ffdhe(Ffdhe::F6144),
        Self::Ffdhe(Ffdhe::F8192),
    ];

    /// The group with a number on the wire, or nothing if there is none.
    #[must_use]
    pub fn from_id(id: u8) -> Option<Self> {
        Self::ALL.get(usize::from(id)).copied()
    }

    /// The number on the wire, 0 to 5.
    #[must_use]
    pub fn id(self) -> u8 {
        match self {
            Self::Null => 0,
            Self::Ffdhe(Ffdhe::F2048) => 1,
            Self::Ffdhe(Ffdhe::F3072) => 2,
            Self::Ffdhe(Ffdhe::F4096) => 3,
            Self::Ffdhe(Ffdhe::F6144) => 4,
            Self::Ffdhe(Ffdhe::F8192) => 5,
        }
    }
}

impl FromStr for Group {
    type Err = UnknownGroup;

    /// Reads a name as it is written here: `none`, `ffdhe2048` to `ffdhe8192`.
    fn from_str(text: &str) -> Result<Self, UnknownGroup> {
        Self::ALL.into_iter().find(|group| group.to_string() == text).ok_or(UnknownGroup)
    }
}

/// A text is the name of no group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("group: the groups are none, ffdhe2048, ffdhe3072, ffdhe4096, ffdhe6144 and ffdhe8192")]
pub struct UnknownGroup;

impl fmt::Display for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("none"),
            Self::Ffdhe(group) => write!(f, "ffdhe{}", group.bits()),
        }
    }
}

impl Ffdhe {
    /// Bits of the prime.
    #[must_use]
    pub fn bits(self) -> u32 {
        match self {
            Self::F2048 => 2048,
            Self::F3072 => 3072,
            Self::F4096 => 4096,
            Self::F6144 => 6144,
            Self::F8192 => 8192,
        }
    }

    /// Bytes of a public value.
    #[must_use]
    pub fn value_bytes(self) -> usize {
        self.bits() as usize / 8
    }

    /// Bits of a secret exponent: no less than RFC 7919, appendix A, asks for (225, 275, 325, 375
    /// and 400), in whole words. A longer one costs time and gives nothing.
    fn exponent_bits(self) -> u32 {
        match self {
            Self::F2048 => 256,
            Self::F3072 => 320,
            Self::F4096 | Self::F6144 => 384,
            Self::F8192 => 448,
        }
    }

    /// The prime, prepared for multiplication.
    fn modulus(self) -> &'static BoxedMontyParams {
        static MODULI: [LazyLock<BoxedMontyParams>; 5] = [
            LazyLock::new(|| prepared(primes::P2048, 2048)),
            LazyLock::new(|| prepared(primes::P3072, 3072)),
            LazyLock::new(|| prepared(primes::P4096, 4096)),
            LazyLock::new(|| prepared(primes::P6144, 6144)),
            LazyLock::new(|| prepared(primes::P8192, 8192)),
        ];
        &MODULI[self as usize]
    }
}

fn prepared(prime: &str, bits: u32) -> BoxedMontyParams {
    let prime = BoxedUint::from_be_hex(prime, bits).expect("the constant is hexadecimal of this length");
    BoxedMontyParams::new(Odd::new(prime).expect("the constant is odd"))
}

/// A secret exponent.
#[derive(Debug, Clone)]
pub(crate) struct Exponent {
    group: Ffdhe,
    bytes: Secret,
}

/// An exponent and the public value of a peer in the same group.
#[derive(Debug, Clone)]
pub(crate) struct Agreement {
    exponent: Exponent,
    peer: BoxedUint,
}

impl Exponent {
    /// An exponent from random bytes, 56 or more. Its highest bit is set: it is never small.
    pub(crate) fn new(group: Ffdhe, random: &Secret) -> Self {
        let random = &random.expose()[..group.exponent_bits() as usize / 8];
        let mut bytes = Zeroizing::new(random.to_vec());
        bytes[0] |= 0x80;
        Self { group, bytes: Secret::new(&bytes) }
    }

    /// The public value, 2 to the exponent, with all bytes of the prime.
    pub(crate) fn public(&self) -> Vec<u8> {
        let two = BoxedUint::from_be_slice(&[2], self.group.bits()).expect("one byte fits");
        self.power(two).expose().to_vec()
    }

    /// Takes the value of a peer, highest byte first; leading zeros may be missing. Nothing if it
    /// is longer than the prime or not between 2 and p - 2. (RFC 7919, 5.1.) In these groups every
    /// such value has an order of at least (p - 1) / 2.
    pub(crate) fn with(&self, peer: &[u8]) -> Option<Agreement> {
        let bits = self.group.bits();
        let peer = BoxedUint::from_be_slice(peer, bits).ok()?;
        let one = BoxedUint::one_with_precision(bits);
        let last = self.group.modulus().modulus().as_ref().wrapping_sub(&one);
        (peer > one && peer < last).then(|| Agreement { exponent: self.clone(), peer })
    }

    /// A power in constant time.
    fn power(&self, base: BoxedUint) -> Secret {
        let bits = self.group.exponent_bits();
        let mut exponent = BoxedUint::from_be_slice(self.bytes.expose(), bits)
            .expect("an exponent has as many bytes as its group says");
        let mut power = BoxedMontyForm::new(base, self.group.modulus()).pow_bounded_exp(&exponent, bits);
        exponent.zeroize();
        let mut value = power.retrieve();
        // Not the parameters, which are everybody's.
        power.zeroize();
        let bytes = Zeroizing::new(value.to_be_bytes());
        value.zeroize();
        Secret::new(&bytes)
    }
}

impl Agreement {
    /// Our public value, with all bytes of the prime.
    pub(crate) fn public(&self) -> Vec<u8> {
        self.exponent.public()
    }

    /// The shared value, with all bytes of the prime.
    pub(crate) fn shared(&self) -> Secret {
        self.exponent.power(self.peer.clone())
    }
}

#[cfg(test)]
mod tests;
