//! Contents as an outsider would choose them: other ones of the same CRC-32C.

/// The polynomial of CRC-32C, reflected.
const POLYNOMIAL: u32 = 0x82F6_3B78;

/// Entry of the CRC's table for a byte.
fn step(index: u32) -> u32 {
    (0..8).fold(index, |value, _| if value & 1 == 1 { value >> 1 ^ POLYNOMIAL } else { value >> 1 })
}

/// Changes the last four bytes so that all of them have this CRC-32C. It is for tests of what must
/// not rest on a CRC.
///
/// # Panics
/// If there are fewer than four bytes.
pub fn forge_crc32c(bytes: &mut [u8], crc: u32) {
    let table: Vec<u32> = (0..256).map(step).collect();
    let (first, last) = bytes.split_last_chunk_mut::<4>().expect("four bytes or more");
    let now = first
        .iter()
        .fold(u32::MAX, |state, byte| table[((state ^ u32::from(*byte)) & 0xFF) as usize] ^ state >> 8);
    // The register from which four zeros lead to the CRC. The highest byte of each entry is of that
    // entry alone.
    let before = (0..4).fold(!crc, |state, _| {
        let index = table.iter().position(|entry| entry >> 24 == state >> 24).unwrap_or_default();
        (state ^ table[index]) << 8 | index as u32
    });
    *last = (now ^ before).to_le_bytes();
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chip::Random;

    #[test]
    fn forged_bytes_have_the_crc_that_was_asked_for() {
        // The check value of CRC-32C.
        let mut digits = *b"123456789";
        forge_crc32c(&mut digits, 0xE306_9283);
        assert_eq!(&digits, b"123456789");
        let mut random = Random::new(1);
        for len in [4, 5, 64, 512] {
            let mut bytes: Vec<u8> = (0..len).map(|_| random.next_u64() as u8).collect();
            let rest = bytes[..len - 4].to_vec();
            let crc = random.next_u64() as u32;
            forge_crc32c(&mut bytes, crc);
            let register = bytes
                .iter()
                .fold(u32::MAX, |state, byte| step((state ^ u32::from(*byte)) & 0xFF) ^ state >> 8);
            assert_eq!((!register, &bytes[..len - 4]), (crc, &rest[..]));
        }
    }
}
