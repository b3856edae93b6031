//! The bad-block log: ranges of a member that md could neither read nor repair.
//!
//! A log is a run of 64-bit little-endian entries: bits 10 to 63 the start, bits 0 to 9 the length
//! (1 to 512), both in units of 2^shift sectors; all ones ends it. Places count from the **start of
//! the device**, the offset of the data area included, as an [`Area`] does. An entry of length 0
//! names no block: mdadm before 4.5 adds devices with a log of zeros.

use crate::area::Area;
use crate::bytes::u64_at;
use crate::invalid::Invalid;

const STRUCTURE: &str = "bad-block log";
/// The most units of one entry.
const MAX_LENGTH: u64 = 512;

/// Oddities of a device's log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Oddity {
    /// It begins with an entry of length 0.
    Zeros,
    /// It cannot be read or made out, for this reason. Only on a device without a role: what it
    /// cannot give back concerns nobody.
    Unread(String),
}

/// Returns whether a log begins with an entry that names no block.
#[must_use]
pub fn begins_with_zeros(bytes: &[u8]) -> bool {
    bytes.len() >= 8 && u64_at(bytes, 0) & 0x3FF == 0
}

/// Reads a log, entries in units of 2^`shift` sectors, up to its end mark or the end of `bytes`.
///
/// # Errors
/// If an entry has an impossible length, or lies beyond 64 bits.
pub fn parse(bytes: &[u8], shift: u8) -> Result<Vec<Area>, Invalid> {
    let mut ranges = Vec::new();
    for (i, entry) in bytes.chunks_exact(8).map(|entry| u64_at(entry, 0)).enumerate() {
        if entry == u64::MAX {
            break;
        }
        let (start, length) = (entry >> 10, entry & 0x3FF);
        if length == 0 {
            continue;
        }
        if length > MAX_LENGTH {
            return Err(Invalid::new(STRUCTURE, "length", format_args!("{length} (entry {i})"), "1 to 512"));
        }
        let scaled = |n: u64| n.checked_mul(1_u64.checked_shl(shift.into())?);
        let range = scaled(start)
            .zip(scaled(length))
            .filter(|(start, sectors)| start.checked_add(*sectors).is_some());
        let Some((start, sectors)) = range else {
            let found = format_args!("{start} << {shift} (entry {i})").to_string();
            return Err(Invalid::new(STRUCTURE, "start", found, "a sector below 2^64"));
        };
        ranges.push(Area { start, sectors });
    }
    Ok(ranges)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(entries: &[u64]) -> Vec<u8> {
        entries.iter().flat_map(|e| e.to_le_bytes()).collect()
    }

    #[test]
    fn entries_up_to_the_end_mark() {
        let bytes = log(&[4096 << 10 | 8, 10 << 10 | 512, u64::MAX, 0]);
        assert_eq!(
            parse(&bytes, 0).unwrap(),
            [Area { start: 4096, sectors: 8 }, Area { start: 10, sectors: 512 }]
        );
        assert_eq!(parse(&bytes, 3).unwrap()[0], Area { start: 32768, sectors: 64 });
        assert_eq!(parse(&[], 0).unwrap(), []);
        assert_eq!(parse(&log(&[1 << 10 | 1]), 0).unwrap().len(), 1);
    }

    #[test]
    fn an_entry_of_length_0_names_no_block() {
        let zeros = log(&[0; 512]);
        assert_eq!(parse(&zeros, 0).unwrap(), []);
        assert!(begins_with_zeros(&zeros));
        let one = log(&[5 << 10, 7 << 10 | 2, u64::MAX]);
        assert_eq!(parse(&one, 0).unwrap(), [Area { start: 7, sectors: 2 }]);
        assert!(!begins_with_zeros(&log(&[u64::MAX])) && !begins_with_zeros(&[]));
    }

    #[test]
    fn impossible_entries_are_refused() {
        assert_eq!(parse(&log(&[5 << 10 | 513]), 0).unwrap_err().field, "length");
        assert_eq!(parse(&log(&[(1 << 53) << 10 | 1]), 11).unwrap_err().field, "start");
        assert_eq!(parse(&log(&[1 << 10 | 1]), 64).unwrap_err().field, "start");
    }
}
