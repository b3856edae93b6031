//! Little-endian fields at fixed offsets, read without panics: bytes past the end read as zero, so
//! the caller checks the length of a structure once.

use std::fmt;

use crate::invalid::Invalid;

/// The `N` bytes at `at`.
pub(crate) fn array<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let mut out = [0; N];
    if let Some(from) = at.checked_add(N).and_then(|end| bytes.get(at..end)) {
        out.copy_from_slice(from);
    }
    out
}

pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(array(bytes, at))
}

pub(crate) fn i32_at(bytes: &[u8], at: usize) -> i32 {
    i32::from_le_bytes(array(bytes, at))
}

pub(crate) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(array(bytes, at))
}

/// LVM's checksum: CRC-32 whose register begins with F597A6CFh and is not inverted at the end.
pub(crate) fn crc(bytes: &[u8]) -> u32 {
    // The crate inverts at both ends.
    let mut hasher = crc32fast::Hasher::new_with_initial(!0xF597_A6CF);
    hasher.update(bytes);
    !hasher.finalize()
}

/// `field` of `structure` has the value `found`; unless `ok`, this is an error that names the
/// `allowed` values.
pub(crate) fn check(
    ok: bool,
    structure: &'static str,
    field: &'static str,
    found: impl fmt::Display,
    allowed: impl fmt::Display,
) -> Result<(), Invalid> {
    if ok {
        Ok(())
    } else {
        Err(Invalid { structure, field, found: found.to_string(), allowed: allowed.to_string() })
    }
}
