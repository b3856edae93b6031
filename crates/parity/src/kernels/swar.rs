//! 64-bit words of any machine: eight bytes at a time in an ordinary register.

use super::oracle;
use super::table::table;
use super::vector::Vector;
use crate::gf;
use crate::matrix::Coefficient;

/// 0x01 in every byte.
const ONES: u64 = 0x0101_0101_0101_0101;

#[derive(Clone, Copy)]
struct Word(u64);

// SAFETY: `load` and `store` move exactly eight bytes, unaligned; no special instructions are used.
unsafe impl Vector for Word {
    const BYTES: usize = 8;
    const MANY_REGISTERS: bool = false;
    type Factor = &'static [u8; 256];

    #[inline(always)]
    unsafe fn zero() -> Self {
        Self(0)
    }

    #[inline(always)]
    unsafe fn load(from: *const u8) -> Self {
        // SAFETY: eight readable bytes by the trait's contract.
        Self(unsafe { from.cast::<u64>().read_unaligned() })
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut u8) {
        // SAFETY: eight writable bytes by the trait's contract.
        unsafe { to.cast::<u64>().write_unaligned(self.0) }
    }

    #[inline(always)]
    unsafe fn xor(self, other: Self) -> Self {
        Self(self.0 ^ other.0)
    }

    #[inline(always)]
    unsafe fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    #[inline(always)]
    unsafe fn is_zero(self) -> bool {
        self.0 == 0
    }

    #[inline(always)]
    unsafe fn double(self) -> Self {
        // The top bit of each byte, spread over the byte, selects the polynomial.
        let top = (self.0 >> 7) & ONES;
        let carry = top * u64::from(gf::POLY);
        Self(((self.0 << 1) & !ONES) ^ carry)
    }

    #[inline(always)]
    unsafe fn factor(coefficient: &Coefficient) -> Self::Factor {
        &gf::MUL[coefficient.value as usize]
    }

    #[inline(always)]
    unsafe fn times(self, factor: Self::Factor) -> Self {
        Self(u64::from_ne_bytes(self.0.to_ne_bytes().map(|byte| factor[byte as usize])))
    }

    #[inline(always)]
    unsafe fn prefetch(_: *const u8) {}
}

/// # Safety
/// None: it is here to have the type of the others.
unsafe fn fingerprint(keys: &[u64], data: &[u8]) -> [u64; 8] {
    oracle::fingerprint(keys, data).0
}

table!(Word, , fingerprint);
