//! The PDUs of the TCP transport: common header, digests, framing, and what ends a connection.
//!
//! ```text
//! | common header 8 | type-specific header, to hlen | header digest 4 | padding, to pdo | data | data digest 4 |
//! |<-------------------------------------------- plen ------------------------------------------------->|
//! ```
//! (NVMe/TCP Transport Specification, PDU structure.) Header digest and data digest are there where
//! both ends agreed on them.

mod data;
mod frame;
mod ic;
mod violation;

pub use data::{C2hData, H2cData, R2t, Transfer};
pub use frame::{Frame, Framing, frame};
pub use ic::{IcReq, IcResp};
pub use violation::{Fatal, Violation};

use crate::bytes::{put, u32_at};
use pumice_protect::digest;

/// Bytes of the common header.
pub const COMMON: usize = 8;
/// Most bytes of the longest header, and of a header in a term request.
pub const MAX_HEADER: usize = 128;
/// Bytes of a digest.
pub const DIGEST: usize = 4;

/// Type of a PDU (its first byte).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Kind {
    /// Host asks for a connection.
    IcReq = 0,
    /// Controller agrees.
    IcResp = 1,
    /// Host ends the connection, naming an error.
    H2cTermReq = 2,
    /// Controller ends the connection, naming an error.
    C2hTermReq = 3,
    /// A command, with data or without.
    CapsuleCmd = 4,
    /// A completion.
    CapsuleResp = 5,
    /// Data of a write that the controller asked for.
    H2cData = 6,
    /// Data of a read.
    C2hData = 7,
    /// The controller asks for data of a write.
    R2t = 9,
}

impl Kind {
    /// The kind of a type byte.
    #[must_use]
    pub const fn of(byte: u8) -> Option<Self> {
        Some(match byte {
            0 => Self::IcReq,
            1 => Self::IcResp,
            2 => Self::H2cTermReq,
            3 => Self::C2hTermReq,
            4 => Self::CapsuleCmd,
            5 => Self::CapsuleResp,
            6 => Self::H2cData,
            7 => Self::C2hData,
            9 => Self::R2t,
            _ => return None,
        })
    }

    /// Bytes of its header, digest not counted.
    #[must_use]
    pub const fn header_len(self) -> usize {
        match self {
            Self::IcReq | Self::IcResp => 128,
            Self::CapsuleCmd => 72,
            _ => 24,
        }
    }

    /// Returns whether a host sends it.
    #[must_use]
    pub const fn is_from_host(self) -> bool {
        matches!(self, Self::IcReq | Self::H2cTermReq | Self::CapsuleCmd | Self::H2cData)
    }

    /// Returns whether it has digests where they were agreed on.
    #[must_use]
    pub const fn has_digests(self) -> bool {
        !matches!(self, Self::IcReq | Self::IcResp | Self::H2cTermReq | Self::C2hTermReq)
    }

    /// Returns whether it may carry data.
    #[must_use]
    pub const fn may_carry_data(self) -> bool {
        matches!(self, Self::CapsuleCmd | Self::H2cData | Self::C2hData)
    }
}

/// Flag: a header digest is there.
pub const HDGSTF: u8 = 1;
/// Flag: a data digest is there.
pub const DDGSTF: u8 = 1 << 1;
/// Flag: the last data PDU of its transfer.
pub const LAST: u8 = 1 << 2;
/// Flag: the command succeeded, and no completion follows.
pub const SUCCESS: u8 = 1 << 3;

/// The first eight bytes of every PDU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CommonHeader {
    /// Its type.
    pub kind: Kind,
    /// [`HDGSTF`], [`DDGSTF`], [`LAST`], [`SUCCESS`].
    pub flags: u8,
    /// Bytes of the header, digest not counted.
    pub hlen: u8,
    /// Start of the data, from the start of the PDU; 0 without data.
    pub pdo: u8,
    /// Bytes of the whole PDU.
    pub plen: u32,
}

impl CommonHeader {
    /// Writes it over the first eight bytes.
    pub fn encode(&self, bytes: &mut [u8]) {
        bytes[..4].copy_from_slice(&[self.kind as u8, self.flags, self.hlen, self.pdo]);
        put(bytes, 4, &self.plen.to_le_bytes());
    }

    /// Reads it; `None` if the type byte is unknown.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        Some(Self {
            kind: Kind::of(bytes[0])?,
            flags: bytes[1],
            hlen: bytes[2],
            pdo: bytes[3],
            plen: u32_at(bytes, 4),
        })
    }
}

/// Digests that both ends agreed on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Digests {
    /// After each header.
    pub header: bool,
    /// After data.
    pub data: bool,
}

impl Digests {
    /// The flags of a PDU that carries data or does not.
    #[must_use]
    pub const fn flags(self, with_data: bool) -> u8 {
        (if self.header { HDGSTF } else { 0 }) | (if self.data && with_data { DDGSTF } else { 0 })
    }

    /// Bytes that the header digest takes.
    #[must_use]
    pub const fn header_len(self) -> usize {
        if self.header { DIGEST } else { 0 }
    }

    /// Bytes that the data digest takes.
    #[must_use]
    pub const fn data_len(self) -> usize {
        if self.data { DIGEST } else { 0 }
    }
}

/// Appends a PDU without data; `body` is what follows the common header.
pub fn push(out: &mut Vec<u8>, kind: Kind, flags: u8, body: &[u8], digests: Digests) {
    let digests = if kind.has_digests() { digests } else { Digests::default() };
    push_header(out, kind, flags, body, digests, None);
}

/// Appends a PDU with `len` bytes of data right behind its header, which `fill` writes in place.
///
/// Where `fill` fails, nothing is appended, and its error is handed on.
///
/// # Errors
/// What `fill` returns.
pub fn push_with_data<E>(
    out: &mut Vec<u8>,
    kind: Kind,
    flags: u8,
    body: &[u8],
    digests: Digests,
    len: usize,
    fill: impl FnOnce(&mut [u8]) -> Result<(), E>,
) -> Result<(), E> {
    let at = out.len();
    push_header(out, kind, flags, body, digests, Some(len));
    let start = out.len();
    out.resize(start + len + digests.data_len(), 0);
    let (data, digest) = out[start..].split_at_mut(len);
    if let Err(error) = fill(data) {
        out.truncate(at);
        return Err(error);
    }
    if digests.data {
        digest.copy_from_slice(&digest::crc32c(data).to_le_bytes());
    }
    Ok(())
}

/// Appends the header of a PDU with its digest. Where there are data, so many bytes of them, and
/// their digest if there is one, are to follow directly.
pub(crate) fn push_header(
    out: &mut Vec<u8>,
    kind: Kind,
    flags: u8,
    body: &[u8],
    digests: Digests,
    data: Option<usize>,
) {
    let hlen = COMMON + body.len();
    let bare = hlen + digests.header_len();
    let header = CommonHeader {
        kind,
        flags: flags | digests.flags(data.is_some()),
        hlen: hlen as u8,
        pdo: if data.is_some() { bare as u8 } else { 0 },
        plen: (bare + data.map_or(0, |len| len + digests.data_len())) as u32,
    };
    let at = out.len();
    out.resize(at + bare, 0);
    let pdu = &mut out[at..];
    header.encode(pdu);
    put(pdu, COMMON, body);
    if digests.header {
        let digest = digest::crc32c(&pdu[..hlen]);
        put(pdu, hlen, &digest.to_le_bytes());
    }
}
