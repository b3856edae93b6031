//! A node's records of superblocks, as bytes.

use super::{WireError, wrong};
use crate::{DriveId, SuperblockSeen};

/// Bytes before the first entry.
pub const SUPERBLOCKS_HEADER: usize = 16;
/// Bytes of an entry.
pub const SUPERBLOCK_BYTES: usize = 64;
/// Drives of a page.
pub const SUPERBLOCKS_PAGE: usize = 64;
/// Entries of a page, at most: a drive has four places where a superblock may stand.
const MAX_ENTRIES: usize = 4 * SUPERBLOCKS_PAGE;
/// Flag: the association that wrote last stands and has written a clean superblock.
const CLEAN: u32 = 1;

/// The bytes of a page. `drives` is how many the node has.
#[must_use]
pub fn encode_superblocks(seen: &[SuperblockSeen], drives: u32) -> Vec<u8> {
    let told = &seen[..seen.len().min(MAX_ENTRIES)];
    let mut out = Vec::with_capacity(SUPERBLOCKS_HEADER + told.len() * SUPERBLOCK_BYTES);
    out.extend_from_slice(&drives.to_le_bytes());
    out.extend_from_slice(&(told.len() as u32).to_le_bytes());
    out.resize(SUPERBLOCKS_HEADER, 0);
    for entry in told {
        let end = out.len() + SUPERBLOCK_BYTES;
        out.extend_from_slice(&entry.drive.0.to_le_bytes());
        out.extend_from_slice(&(if entry.clean { CLEAN } else { 0 }).to_le_bytes());
        out.extend_from_slice(&entry.events.to_le_bytes());
        out.extend_from_slice(&entry.array);
        out.resize(end, 0);
    }
    out
}

/// Reads a page: the entries, and how many drives the node has.
///
/// # Errors
/// Names the field that makes no sense.
pub fn decode_superblocks(bytes: &[u8]) -> Result<(Vec<SuperblockSeen>, u32), WireError> {
    let field = |at: usize, len: usize| {
        bytes.get(at..at + len).ok_or_else(|| WireError {
            field: "superblocks",
            found: format!("{} bytes, too short", bytes.len()),
        })
    };
    let u32_at = |at| field(at, 4).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]]));
    let count = u32_at(4)? as usize;
    if count > MAX_ENTRIES {
        return wrong("superblocks", count);
    }
    let entry = |i: usize| {
        let at = SUPERBLOCKS_HEADER + i * SUPERBLOCK_BYTES;
        let (events, array) = (field(at + 8, 8)?, field(at + 16, 16)?);
        Ok(SuperblockSeen {
            drive: DriveId(u32_at(at)?),
            array: std::array::from_fn(|i| array[i]),
            clean: u32_at(at + 4)? & CLEAN != 0,
            events: u64::from_le_bytes(std::array::from_fn(|i| events[i])),
        })
    };
    let seen = (0..count).map(entry).collect::<Result<_, WireError>>()?;
    Ok((seen, u32_at(0)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn superblocks_come_back_and_short_bytes_do_not() {
        let seen = |drive, clean| SuperblockSeen { drive: DriveId(drive), array: [9; 16], clean, events: 77 };
        let list = vec![seen(1, true), seen(2, false)];
        let bytes = encode_superblocks(&list, 5);
        assert_eq!(bytes.len(), 16 + 2 * 64);
        assert_eq!(decode_superblocks(&bytes).unwrap(), (list, 5));
        for len in 0..16 + 64 + 32 {
            assert!(decode_superblocks(&bytes[..len]).is_err(), "{len}");
        }
        let mut many = bytes;
        many[4..8].copy_from_slice(&257_u32.to_le_bytes());
        assert_eq!(decode_superblocks(&many).unwrap_err().field, "superblocks");
    }
}
