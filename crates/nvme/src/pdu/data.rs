//! Data PDUs and the request for them. Sixteen bytes after the common header, much alike:
//!
//! | PDU | 8:2 | 10:2 | 12:4 | 16:4 | 20:4 |
//! |---|---|---|---|---|---|
//! | H2CData | cccid | ttag | datao | datal | – |
//! | C2HData | cccid | – | datao | datal | – |
//! | R2T | cccid | ttag | r2to | r2tl | – |

use super::{COMMON, Digests, Kind, LAST, SUCCESS, push, push_header, push_with_data};
use crate::bytes::{put, u16_at, u32_at};

/// The fields of all three.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Transfer {
    /// The command that the data belong to.
    pub cccid: u16,
    /// The controller's tag of the transfer; 0 in C2HData.
    pub ttag: u16,
    /// Bytes from the start of the command's data.
    pub offset: u32,
    /// Bytes.
    pub len: u32,
}

impl Transfer {
    /// The sixteen bytes behind the common header.
    #[must_use]
    pub fn body(&self) -> [u8; 16] {
        let mut body = [0; 16];
        put(&mut body, 0, &self.cccid.to_le_bytes());
        put(&mut body, 2, &self.ttag.to_le_bytes());
        put(&mut body, 4, &self.offset.to_le_bytes());
        put(&mut body, 8, &self.len.to_le_bytes());
        body
    }

    /// Reads the header of a framed PDU.
    #[must_use]
    pub fn decode(header: &[u8]) -> Self {
        Self {
            cccid: u16_at(header, COMMON),
            ttag: u16_at(header, COMMON + 2),
            offset: u32_at(header, COMMON + 4),
            len: u32_at(header, COMMON + 8),
        }
    }
}

/// Data of a write, asked for by an R2T.
pub struct H2cData;

impl H2cData {
    /// Appends one.
    pub fn push(out: &mut Vec<u8>, transfer: Transfer, last: bool, data: &[u8], digests: Digests) {
        let flags = if last { LAST } else { 0 };
        let fill = |to: &mut [u8]| {
            to.copy_from_slice(data);
            Ok::<(), std::convert::Infallible>(())
        };
        let Ok(()) = push_with_data(out, Kind::H2cData, flags, &transfer.body(), digests, data.len(), fill);
    }

    /// Appends the header of one; its data, and their digest if there is one, are to follow
    /// directly.
    pub(crate) fn push_header(out: &mut Vec<u8>, transfer: Transfer, last: bool, digests: Digests) {
        let flags = if last { LAST } else { 0 };
        push_header(out, Kind::H2cData, flags, &transfer.body(), digests, Some(transfer.len as usize));
    }
}

/// Data of a read.
pub struct C2hData;

impl C2hData {
    /// Appends one with the whole of a command's data, which `fill` writes in place. `success` says
    /// that no completion follows.
    ///
    /// # Errors
    /// What `fill` returns; then nothing is appended.
    pub fn push<E>(
        out: &mut Vec<u8>,
        cccid: u16,
        len: u32,
        success: bool,
        digests: Digests,
        fill: impl FnOnce(&mut [u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let (flags, body) = Self::whole(cccid, len, success);
        push_with_data(out, Kind::C2hData, flags, &body, digests, len as usize, fill)
    }

    /// Appends the header of one with the whole of a command's data, which are to follow directly.
    pub(crate) fn push_header(out: &mut Vec<u8>, cccid: u16, len: u32, success: bool, digests: Digests) {
        let (flags, body) = Self::whole(cccid, len, success);
        push_header(out, Kind::C2hData, flags, &body, digests, Some(len as usize));
    }

    /// Flags and body of one that has all data of a command.
    fn whole(cccid: u16, len: u32, success: bool) -> (u8, [u8; 16]) {
        let flags = LAST | if success { SUCCESS } else { 0 };
        (flags, Transfer { cccid, ttag: 0, offset: 0, len }.body())
    }
}

/// The controller asks for data of a write.
pub struct R2t;

impl R2t {
    /// Appends one.
    pub fn push(out: &mut Vec<u8>, transfer: Transfer, digests: Digests) {
        push(out, Kind::R2t, 0, &transfer.body(), digests);
    }
}
