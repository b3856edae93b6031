//! Challenge: what a controller chose, and what the host is to answer.

use super::Malformed;
use super::bytes::{Reader, begin};
use crate::auth::group::{Group, MAX_VALUE};
use crate::auth::hash::Hash;

/// The second message of an exchange.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Challenge {
    /// The hash of this exchange.
    pub hash: Hash,
    /// The group of this exchange.
    pub group: Group,
    /// S1.
    pub sequence: u32,
    /// C1, as long as the hash.
    pub challenge: Vec<u8>,
    /// The public value of the controller: at least one byte and no more than the group has, or
    /// nothing without a group.
    pub value: Vec<u8>,
}

impl Challenge {
    pub(super) fn parse(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        let length = reader.hash_bytes()?;
        reader.skip(1)?;
        let hash = reader.u8("hash")?;
        let group = reader.u8("group")?;
        let value_bytes = usize::from(reader.u16("dhvlen")?);
        let sequence = reader.u32("sequence")?;
        let hash = Hash::from_id(hash).ok_or(Malformed::Hash(hash))?;
        let group = Group::from_id(group).ok_or(Malformed::Group(group))?;
        if length != hash.bytes() {
            return Err(Malformed::Field("hl"));
        }
        let allowed = match group {
            Group::Null => 0..=0,
            Group::Ffdhe(group) => 1..=group.value_bytes(),
        };
        if !allowed.contains(&value_bytes) {
            return Err(Malformed::Field("dhvlen"));
        }
        let challenge = reader.take(length, "challenge")?.to_vec();
        let value = reader.take(value_bytes, "value")?.to_vec();
        Ok(Self { hash, group, sequence, challenge, value })
    }

    /// The bytes.
    #[must_use]
    pub fn encode(&self, transaction: u16) -> Vec<u8> {
        debug_assert!(self.challenge.len() == self.hash.bytes() && self.value.len() <= MAX_VALUE);
        let mut out = begin((0x01, 0x01), transaction, 16 + self.challenge.len() + self.value.len());
        out.extend([self.challenge.len() as u8, 0, self.hash.id(), self.group.id()]);
        out.extend((self.value.len() as u16).to_le_bytes());
        out.extend(self.sequence.to_le_bytes());
        out.extend(&self.challenge);
        out.extend(&self.value);
        out
    }
}
