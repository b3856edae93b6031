//! The hashes of the protocols, chosen when the program runs.

use crate::auth::secret::Secret;
use hkdf::Hkdf;
use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest as _, Sha256, Sha384, Sha512};
use std::fmt;
use std::str::FromStr;
use zeroize::Zeroizing;

/// Bytes of the longest hash.
pub const MAX_BYTES: usize = 64;

/// A hash function of DH-HMAC-CHAP. (NVMe Base, DH-HMAC-CHAP hash function identifiers.)
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Hash {
    /// SHA-256, 32 bytes.
    Sha256,
    /// SHA-384, 48 bytes.
    Sha384,
    /// SHA-512, 64 bytes.
    Sha512,
}

impl Hash {
    /// All hashes, in the order of their numbers.
    pub const ALL: [Self; 3] = [Self::Sha256, Self::Sha384, Self::Sha512];

    /// The hash with a number on the wire, or nothing if there is none.
    #[must_use]
    pub fn from_id(id: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|hash| hash.id() == id)
    }

    /// The number on the wire, 1 to 3.
    #[must_use]
    pub fn id(self) -> u8 {
        match self {
            Self::Sha256 => 1,
            Self::Sha384 => 2,
            Self::Sha512 => 3,
        }
    }

    /// Bytes of the result: 32, 48 or 64.
    #[must_use]
    pub fn bytes(self) -> usize {
        match self {
            Self::Sha256 => 32,
            Self::Sha384 => 48,
            Self::Sha512 => 64,
        }
    }

    /// The hash of bytes.
    pub(crate) fn digest(self, bytes: &[u8]) -> Secret {
        match self {
            Self::Sha256 => Secret::new(&Sha256::digest(bytes)),
            Self::Sha384 => Secret::new(&Sha384::digest(bytes)),
            Self::Sha512 => Secret::new(&Sha512::digest(bytes)),
        }
    }

    /// HMAC of parts, one after the other. (RFC 2104.)
    pub(crate) fn hmac(self, key: &[u8], parts: &[&[u8]]) -> Secret {
        match self {
            Self::Sha256 => hmac::<Hmac<Sha256>>(key, parts),
            Self::Sha384 => hmac::<Hmac<Sha384>>(key, parts),
            Self::Sha512 => hmac::<Hmac<Sha512>>(key, parts),
        }
    }

    /// HKDF-Extract with a salt of zeros, then HKDF-Expand to the length of the hash. (RFC 5869.)
    pub(crate) fn hkdf(self, secret: &[u8], information: &[u8]) -> Secret {
        let mut buffer = Zeroizing::new([0; MAX_BYTES]);
        let out = &mut buffer[..self.bytes()];
        let expanded = match self {
            Self::Sha256 => Hkdf::<Sha256>::new(None, secret).expand(information, out),
            Self::Sha384 => Hkdf::<Sha384>::new(None, secret).expand(information, out),
            Self::Sha512 => Hkdf::<Sha512>::new(None, secret).expand(information, out),
        };
        expanded.expect("HKDF gives 255 times the length of its hash, and this is once");
        Secret::new(out)
    }
}

fn hmac<M: Mac + KeyInit>(key: &[u8], parts: &[&[u8]]) -> Secret {
    let mut mac = <M as KeyInit>::new_from_slice(key).expect("HMAC takes keys of any length");
    parts.iter().for_each(|part| mac.update(part));
    Secret::new(&mac.finalize().into_bytes())
}

impl FromStr for Hash {
    type Err = UnknownHash;

    /// Reads a name as it is written here: `SHA-256`, `SHA-384`, `SHA-512`.
    fn from_str(text: &str) -> Result<Self, UnknownHash> {
        Self::ALL.into_iter().find(|hash| hash.to_string() == text).ok_or(UnknownHash)
    }
}

/// A text is the name of no hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("hash: the hashes are SHA-256, SHA-384 and SHA-512")]
pub struct UnknownHash;

impl fmt::Display for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Sha256 => "SHA-256",
            Self::Sha384 => "SHA-384",
            Self::Sha512 => "SHA-512",
        })
    }
}
