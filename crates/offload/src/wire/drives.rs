//! The description of a node's drives as bytes, a page at a time.

use super::{WireError, put, wrong};
use crate::{DriveDescription, DriveId};
use pumice_protect::guard::Guard;

/// Drives of a page.
pub const DRIVES_PER_PAGE: u32 = 16;
/// Bytes of a drive.
const DRIVE: usize = 128;
/// Most bytes of a drive's name.
const DRIVE_NAME: usize = 104;
/// Bytes before the drives of a description.
pub const DESCRIPTION_HEADER: usize = 24;

/// Bytes that went over a node's sockets since it started, at the ends that others have connected
/// to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SocketBytes {
    /// Received.
    pub received: u64,
    /// Sent.
    pub sent: u64,
}

/// A guard as the description names it; 0 of a drive without tags.
fn guard_code(guard: Option<Guard>) -> u8 {
    Guard::ALL.iter().position(|known| Some(*known) == guard).map_or(0, |at| at as u8 + 1)
}

/// A page of the description of a node's drives.
#[must_use]
pub fn encode_drives(drives: &[DriveDescription], page: u32, sockets: SocketBytes) -> Vec<u8> {
    let first = (page as usize).saturating_mul(DRIVES_PER_PAGE as usize).min(drives.len());
    let part = &drives[first..drives.len().min(first + DRIVES_PER_PAGE as usize)];
    let mut out = vec![0; DESCRIPTION_HEADER];
    put(&mut out, 0, &(drives.len() as u32).to_le_bytes());
    put(&mut out, 4, &(part.len() as u32).to_le_bytes());
    put(&mut out, 8, &sockets.received.to_le_bytes());
    put(&mut out, 16, &sockets.sent.to_le_bytes());
    for (i, drive) in (first as u32 + 1..).zip(part) {
        let mut entry = [0; DRIVE];
        // A host that has not all drives is told the numbers of its own.
        let number = if drive.id.0 == i { 0 } else { drive.id.0 as u16 };
        put(&mut entry, 18, &number.to_le_bytes());
        put(&mut entry, 0, &drive.size_bytes.to_le_bytes());
        put(&mut entry, 8, &drive.memory_bytes.to_le_bytes());
        // A path too long for the field is cut at its beginning: its end tells more.
        let cut = drive.name.len().saturating_sub(DRIVE_NAME);
        let cut = (cut..drive.name.len()).find(|at| drive.name.is_char_boundary(*at)).unwrap_or(cut);
        let name = &drive.name[cut..];
        entry[16] = name.len() as u8;
        entry[17] = guard_code(drive.tags);
        put(&mut entry, 20, &drive.block_bytes.to_le_bytes());
        put(&mut entry, 24, name.as_bytes());
        out.extend_from_slice(&entry);
    }
    out
}

/// The bytes of sockets in the header of a page; `None` if it is too short.
#[must_use]
pub fn decode_sockets(bytes: &[u8]) -> Option<SocketBytes> {
    let u64_at = |at: usize| Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?));
    Some(SocketBytes { received: u64_at(8)?, sent: u64_at(16)? })
}

/// Reads a page: how many drives the node has, and those of the page.
///
/// # Errors
/// Names the field that makes no sense.
pub fn decode_drives(bytes: &[u8], page: u32) -> Result<(u32, Vec<DriveDescription>), WireError> {
    let word = |at: usize| bytes.get(at..at + 4).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]]));
    let (Some(all), Some(count)) = (word(0), word(4)) else { return wrong("description", "too short") };
    if count > DRIVES_PER_PAGE {
        return wrong("drives of the page", count);
    }
    let first = page.saturating_mul(DRIVES_PER_PAGE);
    let drive = |i: u32| {
        let at = DESCRIPTION_HEADER + i as usize * DRIVE;
        let entry = bytes
            .get(at..at + DRIVE)
            .ok_or_else(|| WireError { field: "description", found: "shorter than its drives".to_owned() })?;
        let u64_at = |at: usize| u64::from_le_bytes(std::array::from_fn(|i| entry[at + i]));
        let len = usize::from(entry[16]).min(DRIVE_NAME);
        Ok(DriveDescription {
            id: DriveId(match u16::from_le_bytes([entry[18], entry[19]]) {
                0 => first.saturating_add(i + 1),
                number => number.into(),
            }),
            name: String::from_utf8_lossy(&entry[24..24 + len]).into_owned(),
            size_bytes: u64_at(0),
            memory_bytes: u64_at(8),
            block_bytes: match (u64_at(16) >> 32) as u32 {
                // A node that does not say: the smallest there is.
                0 => 512,
                bytes if bytes.is_power_of_two() && bytes >= 512 => bytes,
                bytes => return wrong("block bytes", bytes),
            },
            tags: match entry[17] {
                0 => None,
                code => match Guard::ALL.get(usize::from(code) - 1) {
                    Some(guard) => Some(*guard),
                    None => return wrong("guard of the tags", code),
                },
            },
        })
    };
    Ok((all, (0..count).map(drive).collect::<Result<_, WireError>>()?))
}
