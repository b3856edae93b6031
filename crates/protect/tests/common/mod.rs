//! What the tests share: a second implementation of guards and tuples, written from the tables of the specification, a
//! bit at a time. It shares no code with the crate.

#![allow(dead_code, clippy::allow_attributes, reason = "each test file uses a part of it")]

use pumice_protect::guard::Guard;

/// A CRC by long division: polynomial in plain order, one bit of the message after another.
pub(crate) fn slow_guard(guard: Guard, data: &[u8]) -> u64 {
    let (width, poly, ones, reflected) = match guard {
        Guard::Crc16 => (16, 0x8BB7_u64, 0_u64, false),
        Guard::Crc32c => (32, 0x1EDC_6F41, 0xFFFF_FFFF, true),
        Guard::Crc64 => (64, 0xAD93_D235_94C9_3659, u64::MAX, true),
    };
    let mut register = ones;
    for byte in data {
        for i in 0..8 {
            let bit = u64::from(if reflected { byte >> i & 1 } else { byte >> (7 - i) & 1 });
            let out = register >> (width - 1) & 1;
            register = register << 1 & (u64::MAX >> (64 - width));
            if out ^ bit == 1 {
                register ^= poly;
            }
        }
    }
    let value = if reflected { register.reverse_bits() >> (64 - width) } else { register };
    value ^ ones
}

/// Bytes from a seed (xorshift).
pub(crate) fn noise(seed: u64, len: usize) -> Vec<u8> {
    let mut x = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    (0..len)
        .map(|_| {
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
            (x >> 24) as u8
        })
        .collect()
}
