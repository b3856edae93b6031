//! Identities of pre-shared keys: what a host shows before it has proven anything.

use crate::auth::hash::Hash;
use crate::auth::nqn::{Nqn, NqnError};
use base64ct::{Base64, Encoding as _};
use std::fmt;

/// Bytes of the longest identity that is read.
pub const MAX_IDENTITY: usize = 1024;

/// The hash of a pre-shared key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum PskHash {
    /// SHA-256: the cipher suite is TLS_AES_128_GCM_SHA256.
    Sha256,
    /// SHA-384: the cipher suite is TLS_AES_256_GCM_SHA384.
    Sha384,
}

impl PskHash {
    /// The number in texts and identities, 1 or 2.
    #[must_use]
    pub fn id(self) -> u8 {
        self.hash().id()
    }

    /// The hash function.
    #[must_use]
    pub fn hash(self) -> Hash {
        match self {
            Self::Sha256 => Hash::Sha256,
            Self::Sha384 => Hash::Sha384,
        }
    }
}

/// The version of an identity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Version {
    /// 0: names only.
    Zero,
    /// 1: names, and the digest of the retained key.
    One,
}

/// An identity of a retained key: `NVMe1R01 <host> <subsystem> <digest>`, or `NVMe0R01 <host>
/// <subsystem>`. (NVMe TCP Transport, PSK identity.) It proves nothing.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Identity {
    hash: PskHash,
    host: Nqn,
    subsystem: Nqn,
    digest: Option<String>,
}

/// Bytes that are no identity that we know.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IdentityError {
    /// Too many bytes.
    #[error("identity: {0} bytes, more than {MAX_IDENTITY}")]
    Length(usize),
    /// No UTF-8, or not the parts of an identity.
    #[error("identity: it is not the parts of a name of version 0 or 1, with one space between them")]
    Form,
    /// The first part is not of a retained key and a known hash.
    #[error("identity: its kind is none of NVMe0R01, NVMe0R02, NVMe1R01, NVMe1R02")]
    Kind,
    /// A name is no qualified name.
    #[error("{0}: {1}")]
    Name(&'static str, NqnError),
    /// The digest is not Base64 of the length of the hash.
    #[error("digest: it is not Base64 of as many bytes as the hash has")]
    Digest,
}

impl Identity {
    /// An identity: of version 1 if there is a digest, else of version 0.
    pub(super) fn new(hash: PskHash, host: &Nqn, subsystem: &Nqn, digest: Option<String>) -> Self {
        Self { hash, host: host.clone(), subsystem: subsystem.clone(), digest }
    }

    /// Reads what a peer sent.
    ///
    /// # Errors
    ///
    /// If it is not exactly an identity of version 0 or 1 of a retained key.
    pub fn parse(bytes: &[u8]) -> Result<Self, IdentityError> {
        if bytes.len() > MAX_IDENTITY {
            return Err(IdentityError::Length(bytes.len()));
        }
        let text = std::str::from_utf8(bytes).map_err(|_| IdentityError::Form)?;
        let parts: Vec<&str> = text.split(' ').collect();
        let (kind, host, subsystem, digest) = match parts[..] {
            [kind, host, subsystem] => (kind, host, subsystem, None),
            [kind, host, subsystem, digest] => (kind, host, subsystem, Some(digest)),
            _ => return Err(IdentityError::Form),
        };
        let (hash, version) = match kind {
            "NVMe0R01" => (PskHash::Sha256, Version::Zero),
            "NVMe0R02" => (PskHash::Sha384, Version::Zero),
            "NVMe1R01" => (PskHash::Sha256, Version::One),
            "NVMe1R02" => (PskHash::Sha384, Version::One),
            _ => return Err(IdentityError::Kind),
        };
        if (version == Version::One) != digest.is_some() {
            return Err(IdentityError::Form);
        }
        if let Some(digest) = digest {
            let decoded = Base64::decode_vec(digest).map_err(|_| IdentityError::Digest)?;
            if decoded.len() != hash.hash().bytes() {
                return Err(IdentityError::Digest);
            }
        }
        let host = host.parse().map_err(|error| IdentityError::Name("host", error))?;
        let subsystem = subsystem.parse().map_err(|error| IdentityError::Name("subsystem", error))?;
        Ok(Self { hash, host, subsystem, digest: digest.map(str::to_owned) })
    }

    /// The version.
    #[must_use]
    pub fn version(&self) -> Version {
        if self.digest.is_some() { Version::One } else { Version::Zero }
    }

    /// The hash of the key.
    #[must_use]
    pub fn hash(&self) -> PskHash {
        self.hash
    }

    /// The host that it names.
    #[must_use]
    pub fn host(&self) -> &Nqn {
        &self.host
    }

    /// The subsystem that it names.
    #[must_use]
    pub fn subsystem(&self) -> &Nqn {
        &self.subsystem
    }

    /// The digest of the retained key, if it is of version 1.
    #[must_use]
    pub fn digest(&self) -> Option<&str> {
        self.digest.as_deref()
    }
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let version = u8::from(self.digest.is_some());
        write!(f, "NVMe{version}R{:02} {} {}", self.hash.id(), self.host, self.subsystem)?;
        match &self.digest {
            Some(digest) => write!(f, " {digest}"),
            None => Ok(()),
        }
    }
}

/// Base64 with padding.
pub(super) fn base64(bytes: &[u8]) -> String {
    Base64::encode_string(bytes)
}
