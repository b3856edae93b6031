//! Polynomials over GF(2), modulo `P' = P x^(64-w)`, at compile time.
//!
//! The page `docs/design/protection-information.md` derives what is computed here. In this module a
//! `u64` is a polynomial in plain order: bit `i` is the coefficient of `x^i`. Values that leave it
//! for a reflected guard are reversed.

/// Bytes that the kernels sum before they reduce: 4096 bytes of data, and metadata.
pub(crate) const CHUNK: usize = 4096 + 128;
/// 64-bit words of a chunk.
const WORDS: usize = CHUNK / 8;

/// Constants for the arithmetic of a guard. Aligned, so that no load of constants crosses a cache
/// line.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct Polynomial {
    /// The constant of each word of a chunk, in the order of the words: `K_d`, or `K_d / x` if
    /// reflected.
    pub(crate) constants: [u64; WORDS],
    /// Degree `w` of `P`: bits of the guard.
    width: u32,
    /// Set if bits are in reversed order, in the register and in all fields below.
    reflected: bool,
    /// `P' - x^64`, in plain order.
    low: u64,
    /// `x^(8 2^i)` in plain order.
    steps: [u64; 64],
    /// The factors of the reduction: `mu - x^64` and `P' - x^64`; if reflected, `nu` and `rho`.
    pub(crate) barrett: [u64; 2],
    /// `bytes[k][b]`: the register after byte `b` and `k` zero bytes, from register 0.
    pub(crate) bytes: [[u64; 256]; 8],
}

impl Polynomial {
    /// Computes everything from the degree and the low coefficients of `P` in plain order.
    pub(crate) const fn new(width: u32, poly: u64, reflected: bool) -> Self {
        let low = poly << (64 - width);
        let mut steps = [0; 64];
        let mut step = x_to(8, low);
        let mut i = 0;
        while i < 64 {
            steps[i] = step;
            step = multiply(step, step, low);
            i += 1;
        }
        let mut constants = [0; WORDS];
        // x^64 for the last word, or x^63 if reflected; 64 more for each word before it.
        let mut constant = x_to(if reflected { 63 } else { 64 }, low);
        let mut word = WORDS;
        while word > 0 {
            word -= 1;
            constants[word] = in_order(constant, reflected);
            let mut bit = 0;
            while bit < 64 {
                constant = times_x(constant, low);
                bit += 1;
            }
        }
        let mu = quotient(low);
        let barrett = if reflected {
            // floor(mu / x) has 64 bits with its leading one.
            [((mu >> 1) | 1 << 63).reverse_bits(), (low >> 1).reverse_bits()]
        } else {
            [mu, low]
        };
        let bytes = byte_tables(low, reflected);
        Self { constants, width, reflected, low, steps, barrett, bytes }
    }

    /// The register for a CRC value, without start value and final XOR.
    pub(crate) const fn register(&self, value: u64) -> u64 {
        if self.reflected { value } else { value << (64 - self.width) }
    }

    /// The CRC value in a register.
    pub(crate) const fn value(&self, register: u64) -> u64 {
        if self.reflected { register } else { register >> (64 - self.width) }
    }

    /// The register after `bytes` zero bytes.
    pub(crate) fn shift(&self, register: u64, bytes: u64) -> u64 {
        let mut product = in_order(register, self.reflected);
        for (i, step) in self.steps.iter().enumerate() {
            if bytes >> i & 1 == 1 {
                product = multiply(product, *step, self.low);
            }
        }
        in_order(product, self.reflected)
    }

    /// The register before `bytes` zero bytes, from that after them.
    pub(crate) const fn unshift(&self, register: u64, bytes: u64) -> u64 {
        // `P = x^w + ... + 1`, so a residue without its constant term is `x` times another, and
        // adding `P` removes that term. In the low `w` bits here, so `P'` is divided as well.
        let mut rest = in_order(register, self.reflected) >> (64 - self.width);
        let poly = self.low >> (64 - self.width);
        let mut bits = 8 * bytes;
        while bits > 0 {
            rest = if rest & 1 == 1 { (rest ^ poly) >> 1 | 1 << (self.width - 1) } else { rest >> 1 };
            bits -= 1;
        }
        in_order(rest << (64 - self.width), self.reflected)
    }

    /// The register after `data`, a byte at a time: the definition.
    pub(crate) fn by_bytes(&self, register: u64, data: &[u8]) -> u64 {
        let table = &self.bytes[0];
        data.iter().fold(register, |r, byte| {
            if self.reflected {
                r >> 8 ^ table[usize::from(r as u8 ^ byte)]
            } else {
                r << 8 ^ table[usize::from((r >> 56) as u8 ^ byte)]
            }
        })
    }

    /// The register after `data`, eight bytes at a time.
    pub(crate) fn by_words(&self, mut register: u64, data: &[u8]) -> u64 {
        let (words, rest) = data.as_chunks::<8>();
        for word in words {
            let bytes = if self.reflected {
                (register ^ u64::from_le_bytes(*word)).to_le_bytes()
            } else {
                (register ^ u64::from_be_bytes(*word)).to_be_bytes()
            };
            register = bytes.iter().zip(self.bytes.iter().rev()).fold(0, |r, (b, t)| r ^ t[usize::from(*b)]);
        }
        self.by_bytes(register, rest)
    }
}

/// Reversed if reflected.
const fn in_order(polynomial: u64, reflected: bool) -> u64 {
    if reflected { polynomial.reverse_bits() } else { polynomial }
}

/// `a x mod (x^64 + low)`.
const fn times_x(a: u64, low: u64) -> u64 {
    (a << 1) ^ if a >> 63 == 1 { low } else { 0 }
}

/// `x^n mod (x^64 + low)`, for small `n`.
const fn x_to(n: u32, low: u64) -> u64 {
    let mut power = 1;
    let mut i = 0;
    while i < n {
        power = times_x(power, low);
        i += 1;
    }
    power
}

/// `a b mod (x^64 + low)`.
const fn multiply(a: u64, b: u64, low: u64) -> u64 {
    let mut product = 0;
    let mut bit = 64;
    while bit > 0 {
        bit -= 1;
        product = times_x(product, low);
        if b >> bit & 1 == 1 {
            product ^= a;
        }
    }
    product
}

/// `floor(x^128 / (x^64 + low)) - x^64`, by long division.
const fn quotient(low: u64) -> u64 {
    // After the leading x^64 of the quotient, low x^64 is left; its bits go through the top one at
    // a time.
    let mut rest = low;
    let mut quotient = 0;
    let mut i = 0;
    while i < 64 {
        quotient = quotient << 1 | rest >> 63;
        rest = times_x(rest, low);
        i += 1;
    }
    quotient
}

const fn byte_tables(low: u64, reflected: bool) -> [[u64; 256]; 8] {
    let mut tables = [[0; 256]; 8];
    let mut byte = 0;
    while byte < 256 {
        let mut register = if reflected { (byte as u64).reverse_bits() } else { (byte as u64) << 56 };
        let mut k = 0;
        while k < 8 {
            let mut bit = 0;
            while bit < 8 {
                register = times_x(register, low);
                bit += 1;
            }
            tables[k][byte] = in_order(register, reflected);
            k += 1;
        }
        byte += 1;
    }
    tables
}

/// CRC-16/T10-DIF.
pub(crate) static T10_DIF: Polynomial = Polynomial::new(16, 0x8BB7, false);
/// CRC-32C (Castagnoli).
pub(crate) static CASTAGNOLI: Polynomial = Polynomial::new(32, 0x1EDC_6F41, true);
/// CRC-64/NVME.
pub(crate) static NVME: Polynomial = Polynomial::new(64, 0xAD93_D235_94C9_3659, true);

/// Constants of the kernels with bit matrices, for a guard of 16 bits in plain order. See
/// "Matrices" in the page. A map from a byte to 16 bits is two matrices: low byte and high byte of
/// the result.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct Matrices {
    /// For a part of 32 bytes of a chunk, in the order of the parts: the map `b -> b x^(256 d) mod
    /// P` for a part with `d` parts after it.
    pub(crate) parts: [[u64; 2]; CHUNK / 32],
    /// The constants of the last 64 bytes, times `x^8`: for the high bytes.
    pub(crate) high: [u64; 8],
    /// For the last [`LINE_WORDS`] words, in their order, with `d` words after a word: the map
    /// `b -> b x^(64 d) mod P` for low bytes, and `b -> b x^(64 d + 8) mod P` for high bytes.
    pub(crate) words: [[u64; LINE_WORDS]; 4],
    /// The constants of the last word, for low bytes and for high bytes.
    pub(crate) last: [u64; 2],
    /// For the words of a short block, line by line, with `d` words after a word: the map
    /// `b -> b x^(64 d) mod P`; first the matrices for low bytes.
    pub(crate) short: [[[u64; LINE_WORDS]; 2]; SHORT_LINES],
}

/// Words of the widest register.
pub(crate) const LINE_WORDS: usize = 8;
/// Registers of a block of 512 bytes: few enough that registers hold the matrices of all its words.
pub(crate) const SHORT_LINES: usize = 8;

impl Matrices {
    pub(crate) const fn new(polynomial: &Polynomial) -> Self {
        assert!(polynomial.width == 16 && !polynomial.reflected);
        let low = polynomial.low;
        let mut parts = [[0; 2]; CHUNK / 32];
        let mut shift = 1;
        let mut part = CHUNK / 32;
        while part > 0 {
            part -= 1;
            parts[part] = Self::map(polynomial, shift);
            shift = multiply(shift, x_to(256, low), low);
        }
        let mut high = [0; 8];
        let mut word = 0;
        while word < 8 {
            high[word] = multiply(polynomial.constants[WORDS - 8 + word], x_to(8, low), low);
            word += 1;
        }
        let mut words = [[0; LINE_WORDS]; 4];
        let mut shift = 1;
        let mut word = LINE_WORDS;
        while word > 0 {
            word -= 1;
            [words[0][word], words[1][word]] = Self::map(polynomial, shift);
            [words[2][word], words[3][word]] = Self::map(polynomial, multiply(shift, x_to(8, low), low));
            shift = multiply(shift, x_to(64, low), low);
        }
        let last = [polynomial.constants[WORDS - 1], high[7]];
        let mut short = [[[0; LINE_WORDS]; 2]; SHORT_LINES];
        let mut shift = 1;
        let mut word = SHORT_LINES * LINE_WORDS;
        while word > 0 {
            word -= 1;
            let (line, at) = (word / LINE_WORDS, word % LINE_WORDS);
            [short[line][0][at], short[line][1][at]] = Self::map(polynomial, shift);
            shift = multiply(shift, x_to(64, low), low);
        }
        Self { parts, high, words, last, short }
    }

    /// The map `b -> b shift mod P`.
    const fn map(polynomial: &Polynomial, shift: u64) -> [u64; 2] {
        let mut matrices = [0; 2];
        let mut bit = 0;
        while bit < 8 {
            // In the register, the 16 bits of P are the top ones.
            let image = multiply(shift, polynomial.register(1 << bit), polynomial.low) >> 48;
            let mut out = 0;
            while out < 8 {
                // The instruction takes the row of output bit i from byte 7 - i.
                let row = 8 * (7 - out) + bit;
                matrices[0] |= (image >> out & 1) << row;
                matrices[1] |= (image >> (8 + out) & 1) << row;
                out += 1;
            }
            bit += 1;
        }
        matrices
    }
}

/// CRC-16/T10-DIF.
pub(crate) static T10_DIF_MATRICES: Matrices = Matrices::new(&T10_DIF);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn powers_of_x_are_those_of_plain_division() {
        // x^(8n) mod 18BB7h, by hand from the definition.
        for n in [1_u64, 8, 16, 64, 512, 520, 4096] {
            let mut expected = 1_u32;
            for _ in 0..8 * n {
                expected <<= 1;
                expected ^= if expected >> 16 == 1 { 0x1_8BB7 } else { 0 };
            }
            assert_eq!(T10_DIF.value(T10_DIF.shift(T10_DIF.register(1), n)), u64::from(expected), "n = {n}");
        }
    }

    #[test]
    fn the_quotient_times_the_modulus_is_almost_x_to_128() {
        // (x^64 + mu)(x^64 + low) = x^128 + (mu + low) x^64 + mu low, and all of it above x^63 but
        // x^128 cancels.
        for polynomial in [&T10_DIF, &CASTAGNOLI, &NVME] {
            let mu = quotient(polynomial.low);
            let mut product = u128::from(mu ^ polynomial.low) << 64;
            for bit in 0..64 {
                product ^= if mu >> bit & 1 == 1 { u128::from(polynomial.low) << bit } else { 0 };
            }
            assert_eq!(product >> 64, 0);
        }
    }

    #[test]
    fn words_and_bytes_agree() {
        let data: Vec<u8> = (0..100_u32).map(|i| (i * i * 7 + 3) as u8).collect();
        for polynomial in [&T10_DIF, &CASTAGNOLI, &NVME] {
            for len in 0..data.len() {
                let start = polynomial.register(0x1234);
                let data = &data[..len];
                assert_eq!(polynomial.by_words(start, data), polynomial.by_bytes(start, data), "{len}");
            }
        }
    }
}
