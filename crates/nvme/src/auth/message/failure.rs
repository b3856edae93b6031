//! Failure1 and Failure2: an end gives up.

use super::Malformed;
use super::bytes::{Reader, begin};

/// The reason "authentication failure", the only one.
const REASON: u8 = 1;

/// Reason for the failure of an exchange, as told to the peer. (NVMe Base, AUTH_Failure reason code
/// explanations.)
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Explanation {
    /// 1: a proof is wrong or missing.
    Failed,
    /// 2: no usable protocol.
    Protocol,
    /// 3: secure channel concatenation.
    Concatenation,
    /// 4: no usable hash.
    Hash,
    /// 5: no usable group.
    Group,
    /// 6: a field has no allowed value.
    Payload,
    /// 7: a message that was not to come now.
    Message,
}

impl Explanation {
    /// The number on the wire, 1 to 7.
    #[must_use]
    pub fn id(self) -> u8 {
        match self {
            Self::Failed => 1,
            Self::Protocol => 2,
            Self::Concatenation => 3,
            Self::Hash => 4,
            Self::Group => 5,
            Self::Payload => 6,
            Self::Message => 7,
        }
    }

    /// The Failure1 that a controller sends.
    #[must_use]
    pub fn failure1(self, transaction: u16) -> Vec<u8> {
        self.encode((0x00, 0xF1), transaction)
    }

    /// The Failure2 that a host sends.
    #[must_use]
    pub fn failure2(self, transaction: u16) -> Vec<u8> {
        self.encode((0x00, 0xF0), transaction)
    }

    fn encode(self, kind: (u8, u8), transaction: u16) -> Vec<u8> {
        let mut out = begin(kind, transaction, 8);
        out.extend([REASON, self.id()]);
        out
    }
}

/// Reason given by a peer that gave up. Any numbers: they change nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Notice {
    /// The reason, 1.
    pub reason: u8,
    /// The explanation, 1 to 7.
    pub explanation: u8,
}

impl Notice {
    pub(super) fn parse(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self { reason: reader.u8("reason")?, explanation: reader.u8("explanation")? })
    }
}
