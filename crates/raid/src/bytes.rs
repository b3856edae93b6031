//! Little-endian fields at fixed offsets, read without panics: bytes past the end read as zero, so
//! the caller checks the length of a structure once, when it obtains the bytes.

/// The `N` bytes at `at`.
pub(crate) fn array<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let mut out = [0; N];
    if let Some(from) = at.checked_add(N).and_then(|end| bytes.get(at..end)) {
        out.copy_from_slice(from);
    }
    out
}

pub(crate) fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes(array(bytes, at))
}

pub(crate) fn i16_at(bytes: &[u8], at: usize) -> i16 {
    i16::from_le_bytes(array(bytes, at))
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

/// Puts `value` at `at`; used only on buffers that the writer itself sized.
pub(crate) fn put(bytes: &mut [u8], at: usize, value: &[u8]) {
    bytes[at..at + value.len()].copy_from_slice(value);
}

/// Returns whether every byte is zero.
pub(crate) fn all_zero(bytes: &[u8]) -> bool {
    bytes.iter().all(|b| *b == 0)
}
