//! The checksum of a page.

use crate::geometry::PAGE_BYTES;
use pumice_protect::digest::{crc32c, crc32c_append};
use pumice_protect::guard::Guard;
use std::sync::LazyLock;

/// The checksum of a sector: CRC-32C of the identity, its number, and all but the first 4 bytes.
pub(super) fn checksum(sector: &[u8; PAGE_BYTES], identity: u64, number: u64) -> u32 {
    let mut head = [0; 16];
    head[..8].copy_from_slice(&identity.to_le_bytes());
    head[8..].copy_from_slice(&number.to_le_bytes());
    crc32c_append(crc32c(&head), &sector[4..])
}

/// The CRC-32C of an identity.
pub(super) fn of_identity(identity: u64) -> u32 {
    crc32c(&identity.to_le_bytes())
}

/// [`checksum`], from the CRC-32C of the whole sector.
///
/// For any messages `crc(A || B) = crc(A) x^(8 |B|) + crc(B)`. The sector is its first 4 bytes and
/// the rest, and the checksum is that of identity and number with the same rest; so the two differ
/// by the difference of what is in front, times `x^(8 |rest|)`. A sector is a message for which the
/// kernels are fast, and several are summed in one call.
///
/// `of_identity` is [that of the identity](of_identity), which is the same for all pages.
pub(super) fn checksum_by_sum(sector: &[u8; PAGE_BYTES], of_identity: u32, number: u64, sum: u32) -> u32 {
    let head = crc32c_append(of_identity, &number.to_le_bytes());
    let differ = head ^ crc32c(&sector[..4]);
    let shifted =
        SHIFT.iter().enumerate().fold(0, |sum, (i, table)| sum ^ table[(differ >> (4 * i) & 15) as usize]);
    shifted ^ sum
}

/// The CRC-32C that follows from another if the rest of a sector follows, for each value of each
/// four of its bits.
static SHIFT: LazyLock<[[u32; 16]; 8]> = LazyLock::new(|| {
    std::array::from_fn(|i| {
        std::array::from_fn(|bits| {
            Guard::Crc32c.combine((bits as u64) << (4 * i), 0, PAGE_BYTES as u64 - 4) as u32
        })
    })
});
