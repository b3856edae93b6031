//! The responses of both ends. (NVMe Base, DH-HMAC-CHAP_Reply and DH-HMAC-CHAP_Success1.)

use crate::auth::hash::Hash;
use crate::auth::keys::chap::TransformedKey;
use crate::auth::nqn::Nqn;
use crate::auth::secret::Secret;

/// Secure channel concatenation, in every response: none.
pub(crate) const NO_CONCATENATION: u8 = 0;

/// Everything that a response covers but the key.
#[derive(Debug, Clone, Copy)]
pub struct Covered<'a> {
    /// The hash of the exchange.
    pub hash: Hash,
    /// The challenge, as long as the hash.
    pub challenge: &'a [u8],
    /// The shared value of the group, if there is one.
    pub shared: Option<&'a Secret>,
    /// The sequence number that came with the challenge.
    pub sequence: u32,
    /// The transaction.
    pub transaction: u16,
    /// The host.
    pub host: &'a Nqn,
    /// The subsystem.
    pub subsystem: &'a Nqn,
}

impl Covered<'_> {
    /// The response of a host, R1.
    #[must_use]
    pub fn host_response(&self, key: &TransformedKey) -> Secret {
        self.response(key, "HostHost", self.host, self.subsystem)
    }

    /// The response of a controller, R2.
    #[must_use]
    pub fn controller_response(&self, key: &TransformedKey) -> Secret {
        self.response(key, "Controller", self.subsystem, self.host)
    }

    /// The challenge, joined with the shared value: an attacker in the middle would have to be
    /// there while the exchange goes on, and a listener cannot try keys.
    fn augmented(&self) -> Secret {
        match self.shared {
            None => Secret::new(self.challenge),
            Some(shared) => {
                let key = self.hash.digest(shared.expose());
                self.hash.hmac(key.expose(), &[self.challenge])
            }
        }
    }

    fn response(&self, key: &TransformedKey, label: &str, owner: &Nqn, other: &Nqn) -> Secret {
        self.hash.hmac(
            key.expose(),
            &[
                self.augmented().expose(),
                &self.sequence.to_le_bytes(),
                &self.transaction.to_le_bytes(),
                &[NO_CONCATENATION],
                label.as_bytes(),
                owner.as_str().as_bytes(),
                &[0],
                other.as_str().as_bytes(),
            ],
        )
    }
}
