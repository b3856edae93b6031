//! Little-endian fields in byte arrays: everything of NVMe but protection information.

pub(crate) fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

pub(crate) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from(u32_at(bytes, at)) | u64::from(u32_at(bytes, at + 4)) << 32
}

/// Puts `field` at `at`.
pub(crate) fn put(bytes: &mut [u8], at: usize, field: &[u8]) {
    bytes[at..at + field.len()].copy_from_slice(field);
}

/// Text of a fixed-size field that ends at its first zero; `None` if no zero ends it or it is
/// not UTF-8.
pub(crate) fn text(field: &[u8]) -> Option<&str> {
    let end = field.iter().position(|b| *b == 0)?;
    std::str::from_utf8(&field[..end]).ok()
}

/// Puts text, padded with blanks, as serial and model numbers are.
pub(crate) fn put_padded(bytes: &mut [u8], at: usize, len: usize, text: &str) {
    let field = &mut bytes[at..at + len];
    field.fill(b' ');
    for (to, from) in field.iter_mut().zip(text.bytes()) {
        *to = from;
    }
}
