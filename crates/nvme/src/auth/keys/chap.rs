//! Keys of DH-HMAC-CHAP.

use super::text::{Form, KeyError};
use crate::auth::hash::Hash;
use crate::auth::nqn::Nqn;
use crate::auth::secret::Secret;
use std::str::FromStr;
use zeroize::Zeroizing;

const FORM: Form =
    Form { prefix: "DHHC-1", transforms: (3, "00, 01, 02 or 03"), lengths: (&[32, 48, 64], "32, 48 or 64") };

/// A configured key of DH-HMAC-CHAP: a secret of 32, 48 or 64 bytes, and the hash that transforms
/// it. (NVMe Base, DH-HMAC-CHAP secret representation.)
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChapKey {
    transform: Option<Hash>,
    secret: Secret,
}

impl ChapKey {
    /// A key of these bytes. Without a transformation the secret is used as it is.
    ///
    /// # Errors
    ///
    /// If there are not 32, 48 or 64 bytes.
    pub fn new(transform: Option<Hash>, secret: &[u8]) -> Result<Self, KeyError> {
        Ok(Self { transform, secret: FORM.secret(secret)? })
    }

    /// The text that other programs read, `DHHC-1:hh:base64:`.
    #[must_use]
    pub fn to_text(&self) -> Zeroizing<String> {
        FORM.print(self.transform.map_or(0, Hash::id), &self.secret)
    }

    /// The hash that transforms the secret, if one does.
    #[must_use]
    pub fn transform(&self) -> Option<Hash> {
        self.transform
    }

    /// Bytes of the secret: 32, 48 or 64.
    #[must_use]
    pub fn secret_bytes(&self) -> usize {
        self.secret.expose().len()
    }

    /// Returns whether the secrets are the same, whatever transforms them. In constant time.
    #[must_use]
    pub fn has_secret_of(&self, other: &Self) -> bool {
        self.secret == other.secret
    }

    /// The key for one owner: the host of a host key, the subsystem of a controller key.
    #[must_use]
    pub fn transformed(&self, owner: &Nqn) -> TransformedKey {
        TransformedKey(match self.transform {
            None => self.secret.clone(),
            Some(hash) => hash.hmac(self.secret.expose(), &[owner.as_str().as_bytes(), b"NVMe-over-Fabrics"]),
        })
    }
}

impl FromStr for ChapKey {
    type Err = KeyError;

    fn from_str(text: &str) -> Result<Self, KeyError> {
        let (transform, secret) = FORM.parse(text)?;
        Ok(Self { transform: Hash::from_id(transform), secret })
    }
}

/// A key of DH-HMAC-CHAP as its owner uses it, 32 to 64 bytes.
#[derive(Debug, Clone)]
pub struct TransformedKey(Secret);

impl TransformedKey {
    /// The bytes themselves.
    #[must_use]
    pub fn expose(&self) -> &[u8] {
        self.0.expose()
    }
}
