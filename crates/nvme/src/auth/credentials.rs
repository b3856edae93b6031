//! Two names and the keys between them.

use crate::auth::keys::chap::{ChapKey, TransformedKey};
use crate::auth::nqn::Nqn;

/// Keys of a kind: the current one and the next one.
const MAX_KEYS: usize = 2;

/// A host, a subsystem, and their keys, ready for use. Both ends have the same type.
#[derive(Debug, Clone)]
pub struct Credentials {
    host: Nqn,
    subsystem: Nqn,
    host_keys: Vec<TransformedKey>,
    controller_keys: Vec<TransformedKey>,
}

/// Keys that cannot be used together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CredentialsError {
    /// There is no host key.
    #[error("key: a host needs one")]
    NoHostKey,
    /// There are more than the current and the next one.
    #[error("{0}: more than the current and the next one")]
    TooMany(&'static str),
    /// A host key is also a controller key: who hears one proof could try it as the other.
    #[error("controller_key: it has the same secret as the host's key")]
    SameSecret,
}

impl Credentials {
    /// The keys of a host and a subsystem: one or two of the host, up to two of the controller. The
    /// current key comes first.
    ///
    /// # Errors
    ///
    /// If there are too few or too many, or a host key has the secret of a controller key.
    pub fn new(
        host: Nqn,
        subsystem: Nqn,
        host_keys: &[ChapKey],
        controller_keys: &[ChapKey],
    ) -> Result<Self, CredentialsError> {
        if host_keys.is_empty() {
            return Err(CredentialsError::NoHostKey);
        }
        for (keys, name) in [(host_keys, "key"), (controller_keys, "controller_key")] {
            if keys.len() > MAX_KEYS {
                return Err(CredentialsError::TooMany(name));
            }
        }
        if host_keys.iter().any(|one| controller_keys.iter().any(|other| one.has_secret_of(other))) {
            return Err(CredentialsError::SameSecret);
        }
        let host_keys = host_keys.iter().map(|key| key.transformed(&host)).collect();
        let controller_keys = controller_keys.iter().map(|key| key.transformed(&subsystem)).collect();
        Ok(Self { host, subsystem, host_keys, controller_keys })
    }

    /// The host.
    #[must_use]
    pub fn host(&self) -> &Nqn {
        &self.host
    }

    /// The subsystem, as the host names it in Connect.
    #[must_use]
    pub fn subsystem(&self) -> &Nqn {
        &self.subsystem
    }

    /// The keys of the host: one or two.
    pub(crate) fn host_keys(&self) -> &[TransformedKey] {
        &self.host_keys
    }

    /// The keys of the controller: at most two.
    pub(crate) fn controller_keys(&self) -> &[TransformedKey] {
        &self.controller_keys
    }

    /// The key with which a controller answers a host that proved its key of this place. The two
    /// lists change together, and a Reply does not say which controller key the host has.
    pub(crate) fn controller_key_for(&self, host_key: usize) -> Option<&TransformedKey> {
        self.controller_keys.get(host_key).or(self.controller_keys.last())
    }
}
