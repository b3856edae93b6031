//! The messages, each read once into its type. `docs/reference/wire-format/authentication.md` has
//! the bytes.

mod bytes;
mod challenge;
mod failure;
mod negotiate;
mod reply;
mod success;

pub use challenge::Challenge;
pub use failure::{Explanation, Notice};
pub use negotiate::{Negotiate, Offer};
pub use reply::Reply;
pub use success::{Success1, success2};

use bytes::Reader;

/// Bytes of the longest message.
pub const MAX_MESSAGE: usize = 4096;

/// Bytes that are no message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// A type and id that this end does not know or does not receive.
    #[error("type and id: {0:02X}h {1:02X}h is no message for this end")]
    Kind(u8, u8),
    /// The message ends too early, goes on too long, or a field has no allowed value.
    #[error("{0}: its value or length is not allowed")]
    Field(&'static str),
    /// A hash that is not known.
    #[error("hash: {0} is not known")]
    Hash(u8),
    /// A group that is not known.
    #[error("group: {0} is not known")]
    Group(u8),
}

/// A message of a host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FromHost {
    /// The offer.
    Negotiate(Negotiate),
    /// The response, and perhaps a challenge.
    Reply(Reply),
    /// The controller has proven itself.
    Success2,
    /// The host gives up.
    Failure2(Notice),
}

/// A message of a controller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FromController {
    /// The challenge.
    Challenge(Challenge),
    /// The host has proven itself.
    Success1(Success1),
    /// The controller gives up.
    Failure1(Notice),
}

/// A message and the exchange that it belongs to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Envelope<T> {
    /// The number that the host chose for the exchange.
    pub transaction: u16,
    /// The message.
    pub message: T,
}

impl FromHost {
    /// Reads the data of Authentication Send. Nothing may follow the message.
    ///
    /// # Errors
    ///
    /// If a field has no allowed value, or the length is not that of the message.
    pub fn parse(bytes: &[u8]) -> Result<Envelope<Self>, Malformed> {
        let (mut reader, kind, transaction) = Reader::begin(bytes)?;
        let message = match kind {
            (0x00, 0x00) => Self::Negotiate(Negotiate::parse(&mut reader)?),
            (0x01, 0x02) => Self::Reply(Reply::parse(&mut reader)?),
            (0x01, 0x04) => success::parse2(&mut reader).map(|()| Self::Success2)?,
            (0x00, 0xF0) => Self::Failure2(Notice::parse(&mut reader)?),
            (kind, id) => return Err(Malformed::Kind(kind, id)),
        };
        reader.end()?;
        Ok(Envelope { transaction, message })
    }
}

impl FromController {
    /// Reads the data of Authentication Receive. Bytes after the message are not read: some
    /// controllers fill the room with zeros.
    ///
    /// # Errors
    ///
    /// If a field has no allowed value, or the bytes end before the message does.
    pub fn parse(bytes: &[u8]) -> Result<Envelope<Self>, Malformed> {
        let (mut reader, kind, transaction) = Reader::begin(&bytes[..bytes.len().min(MAX_MESSAGE)])?;
        let message = match kind {
            (0x01, 0x01) => Self::Challenge(Challenge::parse(&mut reader)?),
            (0x01, 0x03) => Self::Success1(Success1::parse(&mut reader)?),
            (0x00, 0xF1) => Self::Failure1(Notice::parse(&mut reader)?),
            (kind, id) => return Err(Malformed::Kind(kind, id)),
        };
        Ok(Envelope { transaction, message })
    }
}

/// The transaction of bytes that may be no message, 0 if they end before it.
pub(crate) fn transaction_of(bytes: &[u8]) -> u16 {
    bytes.get(4..6).map_or(0, |field| u16::from_le_bytes([field[0], field[1]]))
}

#[cfg(test)]
mod tests;
