//! Violations of the protocol: fatal errors, as term requests name them.

use super::{COMMON, Kind, MAX_HEADER, push};
use crate::bytes::{put, u16_at, u32_at};

/// The fatal error status (FES) of a term request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u16)]
pub enum Fatal {
    /// A field of a PDU header makes no sense.
    InvalidHeaderField = 1,
    /// A PDU that may not come now.
    Sequence = 2,
    /// The header digest does not fit.
    HeaderDigest = 3,
    /// Data outside of what was asked for.
    DataOutOfRange = 4,
    /// More data than the limit.
    LimitExceeded = 5,
    /// A parameter that is not supported.
    UnsupportedParameter = 6,
}

impl Fatal {
    /// The status of a number; `None` if it is reserved.
    #[must_use]
    pub const fn of(number: u16) -> Option<Self> {
        Some(match number {
            1 => Self::InvalidHeaderField,
            2 => Self::Sequence,
            3 => Self::HeaderDigest,
            4 => Self::DataOutOfRange,
            5 => Self::LimitExceeded,
            6 => Self::UnsupportedParameter,
            _ => return None,
        })
    }
}

/// A fatal error, and the header that it was found in.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what} (FES {} at byte {fei})", *fes as u16)]
pub struct Violation {
    /// The kind.
    pub fes: Fatal,
    /// Byte offset of the field within the PDU, for [`Fatal::InvalidHeaderField`] and
    /// [`Fatal::UnsupportedParameter`]; the received digest for [`Fatal::HeaderDigest`]; else 0.
    pub fei: u32,
    /// The header of the offending PDU, 1 to 128 bytes, as far as it had come.
    pub header: Vec<u8>,
    /// In words.
    pub what: &'static str,
}

impl Violation {
    /// An error in the PDU that begins with `header` (as far as it has come).
    #[must_use]
    pub fn new(fes: Fatal, fei: u32, header: &[u8], what: &'static str) -> Self {
        Self { fes, fei, header: header[..header.len().min(MAX_HEADER)].to_vec(), what }
    }

    /// Appends the term request: from the controller, or from the host.
    pub fn encode(&self, from_host: bool, out: &mut Vec<u8>) {
        let kind = if from_host { Kind::H2cTermReq } else { Kind::C2hTermReq };
        let at = out.len();
        let mut body = [0; 16];
        put(&mut body, 0, &(self.fes as u16).to_le_bytes());
        put(&mut body, 2, &self.fei.to_le_bytes());
        push(out, kind, 0, &body, super::Digests::default());
        out.extend_from_slice(&self.header);
        let plen = (out.len() - at) as u32;
        put(out, at + 4, &plen.to_le_bytes());
    }

    /// The status and information of a term request that was received.
    #[must_use]
    pub fn decode(header: &[u8]) -> (u16, u32) {
        (u16_at(header, COMMON), u32_at(header, COMMON + 2))
    }
}
