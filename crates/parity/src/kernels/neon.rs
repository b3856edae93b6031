//! Arm's Advanced SIMD: 16 bytes a register. Written and compiled for; not measured.

use super::oracle;
use super::table::table;
use super::vector::Vector;
use crate::gf;
use crate::matrix::Coefficient;
use std::arch::aarch64::*;

#[derive(Clone, Copy)]
struct Neon(uint8x16_t);

// SAFETY: `load` and `store` move exactly 16 bytes, unaligned.
unsafe impl Vector for Neon {
    const BYTES: usize = 16;
    const MANY_REGISTERS: bool = true;
    type Factor = (uint8x16_t, uint8x16_t);

    #[inline(always)]
    unsafe fn zero() -> Self {
        // SAFETY: instructions by the trait's contract, here and below.
        Self(unsafe { vdupq_n_u8(0) })
    }

    #[inline(always)]
    unsafe fn load(from: *const u8) -> Self {
        // SAFETY: 16 readable bytes by the contract.
        Self(unsafe { vld1q_u8(from) })
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut u8) {
        // SAFETY: 16 writable bytes by the contract.
        unsafe { vst1q_u8(to, self.0) }
    }

    #[inline(always)]
    unsafe fn xor(self, other: Self) -> Self {
        // SAFETY: instructions by the contract.
        Self(unsafe { veorq_u8(self.0, other.0) })
    }

    #[inline(always)]
    unsafe fn or(self, other: Self) -> Self {
        // SAFETY: instructions by the contract.
        Self(unsafe { vorrq_u8(self.0, other.0) })
    }

    #[inline(always)]
    unsafe fn is_zero(self) -> bool {
        // SAFETY: instructions by the contract.
        unsafe { vmaxvq_u8(self.0) == 0 }
    }

    #[inline(always)]
    unsafe fn double(self) -> Self {
        // SAFETY: instructions by the contract.
        Self(unsafe {
            let carry = vcltzq_s8(vreinterpretq_s8_u8(self.0));
            veorq_u8(vshlq_n_u8::<1>(self.0), vandq_u8(carry, vdupq_n_u8(gf::POLY)))
        })
    }

    #[inline(always)]
    unsafe fn factor(coefficient: &Coefficient) -> Self::Factor {
        let nibbles = &gf::NIBBLES[coefficient.value as usize];
        // SAFETY: the tables have 16 bytes each.
        unsafe { (vld1q_u8(nibbles.as_ptr()), vld1q_u8(nibbles.as_ptr().add(16))) }
    }

    #[inline(always)]
    unsafe fn times(self, factor: Self::Factor) -> Self {
        // SAFETY: instructions by the contract.
        Self(unsafe {
            let low = vqtbl1q_u8(factor.0, vandq_u8(self.0, vdupq_n_u8(15)));
            veorq_u8(low, vqtbl1q_u8(factor.1, vshrq_n_u8::<4>(self.0)))
        })
    }

    #[inline(always)]
    unsafe fn prefetch(_: *const u8) {}
}

/// # Safety
/// None: it is here to have the type of the others.
unsafe fn fingerprint(keys: &[u64], data: &[u8]) -> [u64; 8] {
    oracle::fingerprint(keys, data).0
}

table!(Neon, #[target_feature(enable = "neon")], fingerprint);
