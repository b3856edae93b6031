//! Pre-shared keys of TLS 1.3.

use super::identity::{Identity, PskHash, Version};
use super::text::{Form, KeyError};
use crate::auth::nqn::Nqn;
use crate::auth::secret::Secret;
use std::str::FromStr;
use zeroize::Zeroizing;

const FORM: Form = Form {
    prefix: "NVMeTLSkey-1",
    transforms: (2, "00, 01 or 02"),
    lengths: (&[32, 48], "32 (SHA-256) or 48 (SHA-384)"),
};

/// A configured pre-shared key: a secret as long as its hash. (NVMe TCP Transport, PSK interchange
/// format.)
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfiguredPsk {
    hash: PskHash,
    /// True if the retained key is derived from the secret; otherwise it is the secret.
    transformed: bool,
    secret: Secret,
}

/// Ways of composing the information for HKDF-Expand-Label.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Derivation {
    /// As TLS 1.3 has it. (RFC 8446, 7.1.)
    Standard,
    /// As nvme-cli 2.13 and libnvme 1.13 of Debian 13 have it: no lengths of label and context, and
    /// the length of the output in the other order.
    Compat,
}

/// The key that is kept for one host, from which the keys of its connections come.
#[derive(Debug, Clone)]
pub struct RetainedPsk {
    hash: PskHash,
    derivation: Derivation,
    host: Nqn,
    secret: Secret,
}

/// An identity and the key that belongs to it, as a TLS library takes them.
#[derive(Debug, Clone)]
pub struct TlsPsk {
    /// The identity.
    pub identity: Identity,
    /// The form of its information.
    pub derivation: Derivation,
    /// The key, as long as the hash.
    pub key: Secret,
}

impl ConfiguredPsk {
    /// A key of these bytes: 32 are one of SHA-256, 48 one of SHA-384. If it is not `transformed`,
    /// the secret is retained as it is.
    ///
    /// # Errors
    ///
    /// If there are not 32 or 48 bytes.
    pub fn new(transformed: bool, secret: &[u8]) -> Result<Self, KeyError> {
        let secret = FORM.secret(secret)?;
        Ok(Self { hash: hash_of(&secret), transformed, secret })
    }

    /// The text that other programs read, `NVMeTLSkey-1:hh:base64:`.
    #[must_use]
    pub fn to_text(&self) -> Zeroizing<String> {
        FORM.print(if self.transformed { self.hash.id() } else { 0 }, &self.secret)
    }

    /// The hash, which decides the cipher suite.
    #[must_use]
    pub fn hash(&self) -> PskHash {
        self.hash
    }

    /// Returns whether the secrets are the same. In constant time.
    #[must_use]
    pub fn has_secret_of(&self, other: &Self) -> bool {
        self.secret == other.secret
    }

    /// The key that a host retains.
    #[must_use]
    pub fn retained(&self, host: &Nqn, derivation: Derivation) -> RetainedPsk {
        let secret = if self.transformed {
            expand(self.hash, &self.secret, "HostNQN", host.as_str(), derivation)
        } else {
            self.secret.clone()
        };
        RetainedPsk { hash: self.hash, derivation, host: host.clone(), secret }
    }

    /// Every identity under which `host` may come to `subsystem` with this key, and its key:
    /// version 1 of both derivations, and version 0 of the standard one. A secret that is retained
    /// as it is has the same identity in both derivations, and then it means the standard one.
    #[must_use]
    pub fn accepted(&self, host: &Nqn, subsystem: &Nqn) -> Vec<TlsPsk> {
        let standard = self.retained(host, Derivation::Standard);
        let compat = self.transformed.then(|| self.retained(host, Derivation::Compat));
        let first = standard.tls(Version::One, subsystem);
        let second = compat.and_then(|retained| retained.tls(Version::One, subsystem));
        let third = standard.tls(Version::Zero, subsystem);
        [first, second, third].into_iter().flatten().collect()
    }
}

impl FromStr for ConfiguredPsk {
    type Err = KeyError;

    fn from_str(text: &str) -> Result<Self, KeyError> {
        let (transform, secret) = FORM.parse(text)?;
        let hash = hash_of(&secret);
        if transform != 0 && transform != hash.id() {
            return Err(KeyError::Length("32 under 01, or 48 under 02"));
        }
        Ok(Self { hash, transformed: transform != 0, secret })
    }
}

impl RetainedPsk {
    /// The bytes themselves.
    #[must_use]
    pub fn expose(&self) -> &[u8] {
        self.secret.expose()
    }

    /// The digest that names the key in identities of version 1. It is public.
    #[must_use]
    pub fn digest(&self, subsystem: &Nqn) -> String {
        let parts = [self.host.as_str(), " ", subsystem.as_str(), " NVMe-over-Fabrics"];
        let digest = self.hash.hash().hmac(self.secret.expose(), &parts.map(str::as_bytes));
        super::identity::base64(digest.expose())
    }

    /// The identity and the key for a subsystem. Nothing for version 0 if the names are too long
    /// for it.
    #[must_use]
    pub fn tls(&self, version: Version, subsystem: &Nqn) -> Option<TlsPsk> {
        let digest = (version == Version::One).then(|| self.digest(subsystem));
        let identity = Identity::new(self.hash, &self.host, subsystem, digest);
        let context = match identity.digest() {
            Some(digest) => format!("{:02} {digest}", self.hash.id()),
            None => identity.to_string(),
        };
        // One byte has its length.
        u8::try_from(context.len()).ok()?;
        let key = expand(self.hash, &self.secret, "nvme-tls-psk", &context, self.derivation);
        Some(TlsPsk { identity, derivation: self.derivation, key })
    }
}

/// The only hash that is as long as the secret.
fn hash_of(secret: &Secret) -> PskHash {
    if secret.expose().len() == 32 { PskHash::Sha256 } else { PskHash::Sha384 }
}

/// HKDF-Extract without salt and HKDF-Expand-Label. Label and context have at most 255 bytes.
fn expand(hash: PskHash, secret: &Secret, label: &str, context: &str, derivation: Derivation) -> Secret {
    let length = if hash == PskHash::Sha256 { 32_u16 } else { 48 };
    let label = format!("tls13 {label}");
    let (label, context) = (label.as_bytes(), context.as_bytes());
    let byte = |text: &[u8]| [u8::try_from(text.len()).expect("labels and contexts are short")];
    let information = match derivation {
        Derivation::Standard => {
            [&length.to_be_bytes()[..], &byte(label), label, &byte(context), context].concat()
        }
        Derivation::Compat => [&length.to_le_bytes()[..], label, context].concat(),
    };
    hash.hash().hkdf(secret.expose(), &information)
}
