//! Policies for the digests that connections to a controller ask for.

use crate::initiator::InitiatorError;
use pumice_nvme::pdu::{Digests, Fatal};
use std::fmt;
use std::net::SocketAddr;
use std::str::FromStr;

/// The byte of ICResp that says which digests the controller uses.
const DIGESTS_FIELD: u32 = 11;
const BOTH: Digests = Digests { header: true, data: true };

/// Policy for the header and data digests that connections to a controller ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DigestPolicy {
    /// For both, unless the controller is on this machine's loopback; without, if it has none.
    #[default]
    Auto,
    /// For both; a controller that has none is refused.
    On,
    /// For none.
    Off,
}

impl DigestPolicy {
    /// The digests that are asked of a controller at `peer`.
    #[must_use]
    pub fn asked(self, peer: SocketAddr) -> Digests {
        match self {
            Self::Auto if peer.ip().to_canonical().is_loopback() => Digests::default(),
            Self::Auto | Self::On => BOTH,
            Self::Off => Digests::default(),
        }
    }

    /// Connects with `connect`, which is given the digests to ask for. Returns what it made, and
    /// the digests that are in use: none if they were asked for, the controller has none, and
    /// the policy leaves that to it.
    ///
    /// # Errors
    /// As `connect`.
    pub fn connect<T>(
        self,
        peer: SocketAddr,
        mut connect: impl FnMut(Digests) -> Result<T, InitiatorError>,
    ) -> Result<(T, Digests), InitiatorError> {
        let asked = self.asked(peer);
        match connect(asked) {
            Err(error) if self == Self::Auto && asked == BOTH && error.is_about_digests() => {
                Ok((connect(Digests::default())?, Digests::default()))
            }
            done => Ok((done?, asked)),
        }
    }
}

impl InitiatorError {
    /// Returns whether the controller did not agree to the digests that were asked for.
    fn is_about_digests(&self) -> bool {
        matches!(self, Self::Protocol { violation, .. }
            if violation.fes == Fatal::UnsupportedParameter && violation.fei == DIGESTS_FIELD)
    }
}

impl FromStr for DigestPolicy {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "auto" => Ok(Self::Auto),
            "on" => Ok(Self::On),
            "off" => Ok(Self::Off),
            _ => Err(format!("'{text}' is not auto, on or off")),
        }
    }
}

impl fmt::Display for DigestPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Auto => "auto",
            Self::On => "on",
            Self::Off => "off",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pumice_nvme::pdu::Violation;

    fn address(text: &str) -> SocketAddr {
        text.parse().unwrap()
    }

    #[test]
    fn digests_are_asked_for_unless_the_peer_is_on_the_loopback() {
        for (peer, loopback) in [
            ("192.0.2.1:4420", false),
            ("[2001:db8::1]:4420", false),
            ("127.0.0.5:4420", true),
            ("[::1]:4420", true),
            ("[::ffff:127.0.0.1]:4420", true),
        ] {
            let none = Digests::default();
            let auto = DigestPolicy::Auto.asked(address(peer));
            assert_eq!(auto, if loopback { none } else { BOTH }, "{peer}");
            assert_eq!(DigestPolicy::On.asked(address(peer)), BOTH);
            assert_eq!(DigestPolicy::Off.asked(address(peer)), none);
        }
    }

    #[test]
    fn a_controller_without_digests_is_used_without_them_only_if_that_was_left_open() {
        let peer = address("192.0.2.1:4420");
        let without = |asked: Digests| match asked == BOTH {
            true => {
                let violation = Violation::new(Fatal::UnsupportedParameter, DIGESTS_FIELD, &[0; 128], "none");
                Err(InitiatorError::Protocol { address: peer, violation })
            }
            false => Ok(()),
        };
        assert_eq!(DigestPolicy::Auto.connect(peer, without).unwrap().1, Digests::default());
        assert!(DigestPolicy::On.connect(peer, without).is_err());
        let (mut calls, gone) = (0, || InitiatorError::Deadline { address: peer, seconds: 1 });
        let failed = DigestPolicy::Auto.connect(peer, |_| {
            calls += 1;
            Err::<(), _>(gone())
        });
        assert!(failed.is_err() && calls == 1, "another failure is not about digests");
    }
}
