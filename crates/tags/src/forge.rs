//! Contents of equal CRC-32C, as a hostile host makes them. For tests.

/// The polynomial of CRC-32C, reflected.
const POLYNOMIAL: u32 = 0x82F6_3B78;

/// A content with other last four bytes, so that its CRC-32C is `sum`.
pub(crate) fn with_sum(content: &[u8], sum: u32) -> Vec<u8> {
    let table: Vec<u32> = (0..256_u32)
        .map(|byte| (0..8).fold(byte, |crc, _| (crc >> 1) ^ if crc & 1 == 1 { POLYNOMIAL } else { 0 }))
        .collect();
    let mut bytes = content[..content.len() - 4].to_vec();
    let before = !crc32c::crc32c(&bytes);
    // The register is run backwards over four bytes of zeros, from where it must end.
    let mut register = !sum;
    for _ in 0..4 {
        let at = table.iter().position(|entry| entry >> 24 == register >> 24).expect("one of 256");
        register = ((register ^ table[at]) << 8) | at as u32;
    }
    bytes.extend_from_slice(&(register ^ before).to_le_bytes());
    bytes
}

#[test]
fn forged_contents_have_the_sum_that_was_asked_for() {
    for sum in [0, 1, 0x1234_ABCD, u32::MAX] {
        for len in [64, 512, 4096] {
            let forged = with_sum(&vec![0xA5; len], sum);
            assert_eq!((crc32c::crc32c(&forged), forged.len()), (sum, len));
            assert_eq!(forged[..len - 4], vec![0xA5; len - 4]);
        }
    }
}
