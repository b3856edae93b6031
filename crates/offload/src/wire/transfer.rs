//! Descriptors of transfers as bytes.

use super::{Fields, VERSION, WireError, put, wrong, zeros};
use crate::{DriveId, Grant, MemoryAddress, Transfer};

/// Bytes before the peer's name.
const FIXED: usize = 56;
/// Most bytes of a peer's name.
const MAX_NAME: usize = 223;

/// The descriptor of a transfer.
#[must_use]
pub fn encode_transfer(transfer: &Transfer) -> Vec<u8> {
    let mut out = vec![0; FIXED];
    out[0] = VERSION;
    put(&mut out, 4, &transfer.from.drive.0.to_le_bytes());
    put(&mut out, 8, &transfer.from.offset.to_le_bytes());
    put(&mut out, 16, &transfer.to.drive.0.to_le_bytes());
    put(&mut out, 20, &(transfer.peer.len() as u32).to_le_bytes());
    put(&mut out, 24, &transfer.to.offset.to_le_bytes());
    put(&mut out, 32, &transfer.len.to_le_bytes());
    put(&mut out, 40, &transfer.grant.0);
    out.extend_from_slice(transfer.peer.as_bytes());
    out
}

/// Reads the descriptor of a transfer.
///
/// # Errors
/// Names the field that makes no sense.
pub fn decode_transfer(bytes: &[u8]) -> Result<Transfer, WireError> {
    let f = Fields::new(bytes, "descriptor", FIXED)?;
    let len = f.u32(20) as usize;
    if !(1..=MAX_NAME).contains(&len) {
        return wrong("bytes of the peer's name", len);
    }
    let name = f.slice(FIXED, len)?;
    if FIXED + len != bytes.len() {
        return wrong("descriptor", format!("{} bytes, longer than its counts say", bytes.len()));
    }
    zeros(bytes, 1..4)?;
    let Ok(peer) = std::str::from_utf8(name) else { return wrong("peer", "no UTF-8") };
    Ok(Transfer {
        from: MemoryAddress { drive: DriveId(f.u32(4)), offset: f.u64(8) },
        len: f.u64(32),
        peer: peer.to_owned(),
        to: MemoryAddress { drive: DriveId(f.u32(16)), offset: f.u64(24) },
        grant: Grant(f.array(40)),
    })
}
