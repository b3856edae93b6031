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
/// Flag: the entry says where the superblock stands. A node that is older does not say it.
const PLACED: u32 = 2;

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
        let clean = if entry.clean { CLEAN } else { 0 };
        let placed = if entry.offset.is_some() { PLACED } else { 0 };
        out.extend_from_slice(&(clean | placed).to_le_bytes());
        out.extend_from_slice(&entry.events.to_le_bytes());
        out.extend_from_slice(&entry.array);
        out.extend_from_slice(&entry.offset.unwrap_or(0).to_le_bytes());
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
        let (flags, array) = (u32_at(at + 4)?, field(at + 16, 16)?);
        let u64_at = |at| field(at, 8).map(|b| u64::from_le_bytes(std::array::from_fn(|i| b[i])));
        let (events, offset) = (u64_at(at + 8)?, u64_at(at + 32)?);
        Ok(SuperblockSeen {
            drive: DriveId(u32_at(at)?),
            offset: (flags & PLACED != 0).then_some(offset),
            array: std::array::from_fn(|i| array[i]),
            clean: flags & CLEAN != 0,
            events,
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
        let seen = |drive, offset, clean| {
            let drive = DriveId(drive);
            SuperblockSeen { drive, offset, array: [9; 16], clean, events: 77 }
        };
        let list = vec![seen(1, Some(4096), true), seen(2, Some(0), false)];
        let bytes = encode_superblocks(&list, 5);
        assert_eq!(bytes.len(), 16 + 2 * 64);
        assert_eq!(decode_superblocks(&bytes).unwrap(), (list, 5));
        for len in 0..16 + 64 + 40 {
            assert!(decode_superblocks(&bytes[..len]).is_err(), "{len}");
        }
        // A node that does not say where has zeros there, and no flag.
        let older = vec![seen(1, None, true), seen(2, None, false)];
        assert_eq!(decode_superblocks(&encode_superblocks(&older, 5)).unwrap(), (older, 5));
        let mut many = bytes;
        many[4..8].copy_from_slice(&257_u32.to_le_bytes());
        assert_eq!(decode_superblocks(&many).unwrap_err().field, "superblocks");
    }
}
