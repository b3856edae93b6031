//! The Connect command and its data.

use super::Sqe;
use crate::bytes::{put, text, u16_at, u32_at};

/// Bytes of the data.
pub const DATA_LEN: usize = 1024;
/// The controller id that asks for any.
pub const DYNAMIC: u16 = 0xFFFF;
/// Byte offsets in the data, as a refusal names them.
pub mod offset {
    /// Host id.
    pub const HOSTID: usize = 0;
    /// Controller id.
    pub const CNTLID: usize = 16;
    /// Subsystem NQN.
    pub const SUBNQN: usize = 256;
    /// Host NQN.
    pub const HOSTNQN: usize = 512;
}

/// The fields of the command itself: recfmt 40:2, qid 42:2, sqsize 44:2, cattr 46:1, kato 48:4.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fields {
    /// Record format, 0.
    pub recfmt: u16,
    /// The queue: 0 is the admin queue.
    pub qid: u16,
    /// Entries of the queue, less one.
    pub sqsize: u16,
    /// Bit 2: without submission queue flow control.
    pub cattr: u8,
    /// Keep-alive timeout in milliseconds; 0 for none.
    pub kato_ms: u32,
}

/// Attribute: no submission queue flow control.
pub const NO_FLOW_CONTROL: u8 = 1 << 2;

/// Bit of the answer's result: the host must authenticate (ATR).
pub const AUTHENTICATE: u64 = 1 << 17;
/// Bit of the answer's result: the host must make a secure channel of its authentication (ASCR).
pub const CONCATENATE: u64 = 1 << 18;

impl Fields {
    /// Reads a command.
    #[must_use]
    pub fn decode(sqe: &Sqe) -> Self {
        let bytes = &sqe.0;
        Self {
            recfmt: u16_at(bytes, 40),
            qid: u16_at(bytes, 42),
            sqsize: u16_at(bytes, 44),
            cattr: bytes[46],
            kato_ms: u32_at(bytes, 48),
        }
    }

    /// Writes them into a command.
    pub fn encode(&self, sqe: &mut Sqe) {
        let bytes = &mut sqe.0;
        put(bytes, 40, &self.recfmt.to_le_bytes());
        put(bytes, 42, &self.qid.to_le_bytes());
        put(bytes, 44, &self.sqsize.to_le_bytes());
        bytes[46] = self.cattr;
        put(bytes, 48, &self.kato_ms.to_le_bytes());
    }
}

/// The data: hostid 0:16, cntlid 16:2, subnqn 256:256, hostnqn 512:256.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Data {
    /// The host's id.
    pub hostid: [u8; 16],
    /// The controller: [`DYNAMIC`] on the admin queue.
    pub cntlid: u16,
    /// The subsystem.
    pub subnqn: String,
    /// The host.
    pub hostnqn: String,
}

impl Data {
    /// Its bytes.
    ///
    /// # Panics
    /// If a name has more than 255 bytes.
    #[must_use]
    pub fn encode(&self) -> [u8; DATA_LEN] {
        let mut bytes = [0; DATA_LEN];
        assert!(self.subnqn.len() < 256 && self.hostnqn.len() < 256, "names end with a zero");
        put(&mut bytes, 0, &self.hostid);
        put(&mut bytes, offset::CNTLID, &self.cntlid.to_le_bytes());
        put(&mut bytes, offset::SUBNQN, self.subnqn.as_bytes());
        put(&mut bytes, offset::HOSTNQN, self.hostnqn.as_bytes());
        bytes
    }

    /// Reads 1024 bytes.
    ///
    /// # Errors
    /// The byte offset of a name that no zero ends.
    pub fn decode(bytes: &[u8]) -> Result<Self, usize> {
        let name = |at: usize| text(&bytes[at..at + 256]).map(str::to_owned).ok_or(at);
        Ok(Self {
            hostid: std::array::from_fn(|i| bytes[i]),
            cntlid: u16_at(bytes, offset::CNTLID),
            subnqn: name(offset::SUBNQN)?,
            hostnqn: name(offset::HOSTNQN)?,
        })
    }
}
