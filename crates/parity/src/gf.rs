//! GF(2^8) with the polynomial x^8+x^4+x^3+x^2+1 (0x11D) and generator 2: the field of Linux md's
//! RAID-6.
//!
//! Addition is XOR. Every table is computed at compile time from the definition, so no table needs
//! to be written by hand or initialised. References: H. P. Anvin, *The mathematics of RAID-6*;
//! Linux md's on-disk behaviour (data 01 02 80 FF 5A has Q = 5D).

/// The field polynomial without its x^8 term.
pub const POLY: u8 = 0x1D;

/// `x * 2`.
#[must_use]
pub const fn double(x: u8) -> u8 {
    (x << 1) ^ if x & 0x80 == 0 { 0 } else { POLY }
}

/// Product by shift and add: the definition, from which the tables are made.
#[must_use]
const fn mul_by_definition(mut a: u8, mut b: u8) -> u8 {
    let mut product = 0;
    while b != 0 {
        if b & 1 != 0 {
            product ^= a;
        }
        a = double(a);
        b >>= 1;
    }
    product
}

/// `MUL[c][x] = c * x`.
pub static MUL: [[u8; 256]; 256] = {
    let mut table = [[0; 256]; 256];
    let mut c = 0;
    while c < 256 {
        let mut x = 0;
        while x < 256 {
            table[c][x] = mul_by_definition(c as u8, x as u8);
            x += 1;
        }
        c += 1;
    }
    table
};

/// `EXP[i] = 2^i` for `i` in 0..510, so that the sum of two logarithms needs no reduction.
pub static EXP: [u8; 510] = {
    let mut table = [0; 510];
    let mut value = 1;
    let mut i = 0;
    while i < 510 {
        table[i] = value;
        value = double(value);
        i += 1;
    }
    table
};

/// `LOG[x]` with `2^LOG[x] = x`, for `x` in 1..=255. `LOG[0]` means nothing and is 0; see [`log`].
pub static LOG: [u8; 256] = {
    let mut table = [0; 256];
    let mut i = 0;
    while i < 255 {
        table[EXP[i] as usize] = i as u8;
        i += 1;
    }
    table
};

/// Multiplication by each constant as an 8x8 bit matrix in the form of the x86 instruction
/// GF2P8AFFINEQB: byte 7-i of the quadword is the row that makes bit i of the product.
pub static AFFINE: [u64; 256] = {
    let mut table = [0; 256];
    let mut c = 0;
    while c < 256 {
        let mut bit = 0;
        while bit < 8 {
            // The product's bit `bit` is the parity of (row AND x); column j is c * 2^j.
            let mut row = 0_u64;
            let mut j = 0;
            while j < 8 {
                row |= ((mul_by_definition(c as u8, 1 << j) as u64 >> bit) & 1) << j;
                j += 1;
            }
            table[c] |= row << (8 * (7 - bit));
            bit += 1;
        }
        c += 1;
    }
    table
};

/// `NIBBLES[c]`: the products of `c` with 0..16 and with 0x00, 0x10 … 0xF0, for byte-shuffle
/// instructions.
pub static NIBBLES: [[u8; 32]; 256] = {
    let mut table = [[0; 32]; 256];
    let mut c = 0;
    while c < 256 {
        let mut i = 0;
        while i < 16 {
            table[c][i] = mul_by_definition(c as u8, i as u8);
            table[c][16 + i] = mul_by_definition(c as u8, (i << 4) as u8);
            i += 1;
        }
        c += 1;
    }
    table
};

/// `a * b`.
#[must_use]
pub const fn mul(a: u8, b: u8) -> u8 {
    MUL[a as usize][b as usize]
}

/// `2^exponent`, for any exponent.
#[must_use]
pub const fn exp(exponent: usize) -> u8 {
    EXP[exponent % 255]
}

/// The logarithm to base 2 in 0..255, or `None` for zero.
#[must_use]
pub const fn log(x: u8) -> Option<u8> {
    if x == 0 { None } else { Some(LOG[x as usize]) }
}

/// The multiplicative inverse, or `None` for zero.
#[must_use]
pub const fn inv(x: u8) -> Option<u8> {
    match log(x) {
        None => None,
        Some(l) => Some(EXP[255 - l as usize]),
    }
}

/// `a / b`, or `None` if `b` is zero.
#[must_use]
pub const fn div(a: u8, b: u8) -> Option<u8> {
    match inv(b) {
        None => None,
        Some(i) => Some(mul(a, i)),
    }
}

/// `sum += factor * row`, element by element up to the shorter of the two. One byte at a time: for
/// what is small or rare; the rest is the kernels'.
pub fn add_scaled(sum: &mut [u8], row: &[u8], factor: u8) {
    let table = &MUL[usize::from(factor)];
    for (s, r) in sum.iter_mut().zip(row) {
        *s ^= table[usize::from(*r)];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_powers_of_two() {
        for (i, value) in
            [(0, 0x01), (7, 0x80), (8, 0x1D), (9, 0x3A), (25, 0x03), (50, 0x05), (100, 0x11), (254, 0x8E)]
        {
            assert_eq!(exp(i), value, "2^{i}");
        }
        assert_eq!(div(1, 3), Some(0xF4));
    }

    #[test]
    fn the_field_axioms_hold_everywhere() {
        for a in 0..=255_u8 {
            assert_eq!(mul(a, 1), a);
            assert_eq!(mul(a, 0), 0);
            if let Some(i) = inv(a) {
                assert_eq!(mul(a, i), 1);
            }
            for b in 0..=255_u8 {
                assert_eq!(mul(a, b), mul(b, a));
                for c in [1, 2, 3, 0x1D, 0x80, 0xFF] {
                    assert_eq!(mul(a, b ^ c), mul(a, b) ^ mul(a, c));
                    assert_eq!(mul(mul(a, b), c), mul(a, mul(b, c)));
                }
            }
        }
    }

    #[test]
    fn the_matrix_and_nibble_forms_agree_with_the_product() {
        for c in 0..=255_u8 {
            for x in 0..=255_u8 {
                let affine = (0..8).fold(0_u8, |y, i| {
                    let row = (AFFINE[c as usize] >> (8 * (7 - i))) as u8;
                    y | (((row & x).count_ones() as u8 & 1) << i)
                });
                assert_eq!(affine, mul(c, x));
                let n = &NIBBLES[c as usize];
                assert_eq!(n[(x & 15) as usize] ^ n[16 + (x >> 4) as usize], mul(c, x));
            }
        }
    }

    #[test]
    fn linux_md_golden_bytes() {
        let data = [0x01, 0x02, 0x80, 0xFF, 0x5A];
        let p = data.iter().fold(0, |a, d| a ^ d);
        let q = data.iter().enumerate().fold(0, |a, (i, d)| a ^ mul(exp(i), *d));
        assert_eq!((p, q), (0x26, 0x5D));
    }
}
