//! CRC-32C, as NVMe/TCP uses it for header and data digests.

use crate::guard::{Crc, Guard};

/// The CRC-32C of `data`.
#[must_use]
pub fn crc32c(data: &[u8]) -> u32 {
    Guard::Crc32c.of(data) as u32
}

/// The CRC-32C of `data`, which is copied to `out` in the same pass.
///
/// # Panics
/// If the lengths differ.
pub fn crc32c_copy(data: &[u8], out: &mut [u8]) -> u32 {
    let mut crc = Crc::new(Guard::Crc32c);
    crc.update_copy(data, out);
    crc.value() as u32
}

/// The CRC-32C of a message, from that of its beginning (`crc`; 0 if there is none) and the bytes
/// that follow.
#[must_use]
pub fn crc32c_append(crc: u32, data: &[u8]) -> u32 {
    let mut crc = Crc::after(Guard::Crc32c, u64::from(crc));
    crc.update(data);
    crc.value() as u32
}

/// [`crc32c_append`], and copies `data` to `out` in the same pass.
///
/// # Panics
/// If the lengths differ.
pub fn crc32c_append_copy(crc: u32, data: &[u8], out: &mut [u8]) -> u32 {
    let mut crc = Crc::after(Guard::Crc32c, u64::from(crc));
    crc.update_copy(data, out);
    crc.value() as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_division_gives_the_same() {
        let data: Vec<u8> = (0..5000_u32).map(|i| (i * i) as u8).collect();
        let whole = ::crc32c::crc32c(&data);
        assert_eq!((crc32c(&data), crc32c_append(0, &data)), (whole, whole));
        let mut out = vec![0; data.len()];
        assert_eq!(crc32c_copy(&data, &mut out), whole);
        assert_eq!(out, data);
        for at in [0, 1, 15, 16, 300, 4096, 4999, 5000] {
            let (a, b) = data.split_at(at);
            assert_eq!(crc32c_append(crc32c(a), b), whole, "{at}");
            let mut out = vec![0; b.len()];
            assert_eq!(crc32c_append_copy(crc32c(a), b, &mut out), whole, "{at}");
            assert_eq!(out, b);
        }
    }
}
