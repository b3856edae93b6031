//! Reasons for the failure of an exchange: exactly, for our log, and as told to the peer.

use crate::auth::group::Group;
use crate::auth::hash::Hash;
use crate::auth::message::{Explanation, Malformed, Notice};

/// Reason for the failure of an exchange.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// The bytes are no message.
    #[error(transparent)]
    Malformed(#[from] Malformed),
    /// A message or command came when another was to come.
    #[error("{0} is out of turn")]
    OutOfTurn(&'static str),
    /// A message of another exchange.
    #[error("transaction: {found} in exchange {expected}")]
    Transaction {
        /// The number of the exchange.
        expected: u16,
        /// The number in the message.
        found: u16,
    },
    /// DH-HMAC-CHAP is not offered.
    #[error("descriptors: DH-HMAC-CHAP is not offered")]
    NoProtocol,
    /// Secure channel concatenation is wanted.
    #[error("sc_c: {0}, and secure channel concatenation is not supported")]
    Concatenation(u8),
    /// None of our hashes is offered.
    #[error("hashes: none of ours is offered")]
    NoHash,
    /// None of our groups is offered.
    #[error("groups: none of ours is offered")]
    NoGroup,
    /// The controller chose a hash that was not offered.
    #[error("hash: {0} was not offered")]
    HashNotOffered(Hash),
    /// The controller chose a group that was not offered.
    #[error("group: {0} was not offered")]
    GroupNotOffered(Group),
    /// A value is not as long as the hash of the exchange.
    #[error("hl: not the length of the hash")]
    HashLength,
    /// A public value that the group does not have, or that gives the shared value away.
    #[error("value: not between 2 and p - 2")]
    Value,
    /// A sequence number is 0.
    #[error("sequence: 0")]
    SequenceZero,
    /// A sequence number is that of the last exchange.
    #[error("sequence: {0} was used in the last exchange")]
    SequenceRepeated(u32),
    /// The host's challenge is ours.
    #[error("challenge: the same as the one that was sent")]
    SameChallenge,
    /// A response is wrong: another key, another name, or a change on the way.
    #[error("response: it does not fit the key")]
    Response,
    /// The host wants a proof, and there is no key for it.
    #[error("cvalid: a proof is wanted, and no controller key is configured")]
    NoControllerKey,
    /// The controller was asked for a proof and gives none.
    #[error("rvalid: the controller does not prove itself")]
    NoProof,
    /// The controller proves what it was not asked for.
    #[error("rvalid: a response that was not asked for")]
    Unasked,
    /// The controller lets hosts in without authentication, and is to prove itself.
    #[error("connect: the controller does not ask for authentication")]
    NotRequired,
    /// Authentication Receive has no room for the message.
    #[error("allocation length: {room} bytes for a message of {message}")]
    Room {
        /// Bytes of the room.
        room: usize,
        /// Bytes of the message.
        message: usize,
    },
    /// The next step did not come in time.
    #[error("the next step did not come in time")]
    Deadline,
    /// The peer gave up.
    #[error("the peer gave up: reason {}, explanation {}", .0.reason, .0.explanation)]
    Peer(Notice),
}

impl Failure {
    /// Reason as told to the peer; `None` if the peer is told nothing.
    #[must_use]
    pub fn explanation(&self) -> Option<Explanation> {
        Some(match self {
            Self::Malformed(Malformed::Kind(..)) | Self::OutOfTurn(_) => Explanation::Message,
            Self::Malformed(Malformed::Hash(_)) | Self::NoHash | Self::HashNotOffered(_) => Explanation::Hash,
            Self::Malformed(Malformed::Group(_)) | Self::NoGroup | Self::GroupNotOffered(_) => {
                Explanation::Group
            }
            Self::Malformed(Malformed::Field(_))
            | Self::Transaction { .. }
            | Self::HashLength
            | Self::Value
            | Self::SequenceZero
            | Self::SequenceRepeated(_)
            | Self::Unasked
            | Self::Room { .. } => Explanation::Payload,
            Self::NoProtocol => Explanation::Protocol,
            Self::Concatenation(_) => Explanation::Concatenation,
            Self::SameChallenge | Self::Response | Self::NoControllerKey | Self::NoProof => {
                Explanation::Failed
            }
            Self::NotRequired | Self::Deadline | Self::Peer(_) => return None,
        })
    }
}
