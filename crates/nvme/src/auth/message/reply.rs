//! Reply: the host's response, and perhaps its challenge to the controller.

use super::Malformed;
use super::bytes::{Reader, begin};
use crate::auth::group::MAX_VALUE;

/// The third message of an exchange.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    /// True if the controller is to prove itself.
    pub wants_proof: bool,
    /// S2.
    pub sequence: u32,
    /// R1: 32, 48 or 64 bytes.
    pub response: Vec<u8>,
    /// C2, as long as R1. It counts only if a proof is wanted.
    pub challenge: Vec<u8>,
    /// The public value of the host, at most 1024 bytes.
    pub value: Vec<u8>,
}

impl Reply {
    pub(super) fn parse(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        let length = reader.hash_bytes()?;
        reader.skip(1)?;
        let wants_proof = reader.flag("cvalid")?;
        reader.skip(1)?;
        let value_bytes = usize::from(reader.u16("dhvlen")?);
        if value_bytes > MAX_VALUE {
            return Err(Malformed::Field("dhvlen"));
        }
        let sequence = reader.u32("sequence")?;
        let response = reader.take(length, "response")?.to_vec();
        let challenge = reader.take(length, "challenge")?.to_vec();
        let value = reader.take(value_bytes, "value")?.to_vec();
        Ok(Self { wants_proof, sequence, response, challenge, value })
    }

    /// The bytes.
    #[must_use]
    pub fn encode(&self, transaction: u16) -> Vec<u8> {
        debug_assert!(self.response.len() == self.challenge.len() && self.value.len() <= MAX_VALUE);
        let bytes = 16 + 2 * self.response.len() + self.value.len();
        let mut out = begin((0x01, 0x02), transaction, bytes);
        out.extend([self.response.len() as u8, 0, u8::from(self.wants_proof), 0]);
        out.extend((self.value.len() as u16).to_le_bytes());
        out.extend(self.sequence.to_le_bytes());
        out.extend(&self.response);
        out.extend(&self.challenge);
        out.extend(&self.value);
        out
    }
}
