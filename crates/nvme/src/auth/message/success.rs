//! Success1 and Success2: who has proven what.

use super::Malformed;
use super::bytes::{Reader, begin};
use crate::auth::hash::Hash;

/// The fourth message of an exchange: the host has proven itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Success1 {
    /// R2, if the controller proves itself: 32, 48 or 64 bytes.
    pub response: Option<Vec<u8>>,
}

impl Success1 {
    pub(super) fn parse(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        // Without a response its length counts for nothing, and not every program sets it.
        let length = usize::from(reader.u8("hl")?);
        reader.skip(1)?;
        let proves = reader.flag("rvalid")?;
        reader.skip(7)?;
        if !proves {
            return Ok(Self { response: None });
        }
        if !Hash::ALL.iter().any(|hash| hash.bytes() == length) {
            return Err(Malformed::Field("hl"));
        }
        Ok(Self { response: Some(reader.take(length, "response")?.to_vec()) })
    }

    /// The bytes, in an exchange with this hash. Its length is there even without a response: Linux
    /// looks at it.
    #[must_use]
    pub fn encode(&self, hash: Hash, transaction: u16) -> Vec<u8> {
        let mut out = begin((0x01, 0x03), transaction, 16 + hash.bytes());
        out.extend([hash.bytes() as u8, 0, u8::from(self.response.is_some())]);
        out.extend([0; 7]);
        out.extend(self.response.iter().flatten());
        out
    }
}

/// Checks the rest of a Success2, which has no fields.
pub(super) fn parse2(reader: &mut Reader<'_>) -> Result<(), Malformed> {
    reader.skip(10)
}

/// The bytes of a Success2.
#[must_use]
pub fn success2(transaction: u16) -> Vec<u8> {
    let mut out = begin((0x01, 0x04), transaction, 16);
    out.extend([0; 10]);
    out
}
