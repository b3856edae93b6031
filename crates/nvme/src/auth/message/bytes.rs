//! Reading and writing fields.

use super::{MAX_MESSAGE, Malformed};
use crate::auth::hash::Hash;

/// The bytes of a message that are not read yet.
pub(super) struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    /// Reads the first six bytes: type and id, transaction.
    pub(super) fn begin(bytes: &'a [u8]) -> Result<(Self, (u8, u8), u16), Malformed> {
        if bytes.len() > MAX_MESSAGE {
            return Err(Malformed::Field("message"));
        }
        let mut reader = Self(bytes);
        let kind = (reader.u8("type")?, reader.u8("id")?);
        reader.skip(2)?;
        let transaction = reader.u16("transaction")?;
        Ok((reader, kind, transaction))
    }

    /// The next bytes.
    pub(super) fn take(&mut self, count: usize, field: &'static str) -> Result<&'a [u8], Malformed> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or(Malformed::Field(field))?;
        self.0 = rest;
        Ok(taken)
    }

    /// Passes over reserved bytes.
    pub(super) fn skip(&mut self, count: usize) -> Result<(), Malformed> {
        self.take(count, "reserved").map(|_| ())
    }

    pub(super) fn u8(&mut self, field: &'static str) -> Result<u8, Malformed> {
        self.take(1, field).map(|bytes| bytes[0])
    }

    pub(super) fn u16(&mut self, field: &'static str) -> Result<u16, Malformed> {
        self.take(2, field).map(|bytes| u16::from_le_bytes([bytes[0], bytes[1]]))
    }

    pub(super) fn u32(&mut self, field: &'static str) -> Result<u32, Malformed> {
        self.take(4, field).map(|bytes| u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
    }

    /// A flag of one byte.
    pub(super) fn flag(&mut self, field: &'static str) -> Result<bool, Malformed> {
        match self.u8(field)? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(Malformed::Field(field)),
        }
    }

    /// The length of a hash.
    pub(super) fn hash_bytes(&mut self) -> Result<usize, Malformed> {
        let bytes = usize::from(self.u8("hl")?);
        let known = Hash::ALL.iter().any(|hash| hash.bytes() == bytes);
        if known { Ok(bytes) } else { Err(Malformed::Field("hl")) }
    }

    /// Checks that nothing is left.
    pub(super) fn end(&self) -> Result<(), Malformed> {
        if self.0.is_empty() { Ok(()) } else { Err(Malformed::Field("message")) }
    }
}

/// A message that begins with type, id and transaction, and has room for its fields.
pub(super) fn begin(kind: (u8, u8), transaction: u16, bytes: usize) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes);
    out.extend([kind.0, kind.1, 0, 0]);
    out.extend(transaction.to_le_bytes());
    out
}
