//! AVX-512 F, BW and VL with VPCLMULQDQ and GFNI: 64 bytes a register.

use super::lines::Lines;
use super::table::table;
use super::vector::{Affine, Vector, Xmm};
use std::arch::x86_64::*;

/// The truth table of `a ^ b ^ c`.
const XOR3: i32 = 0x96;

#[derive(Clone, Copy)]
struct Zmm(__m512i);

impl Zmm {
    /// The halves of `a` XORed, then those of `b`.
    #[inline(always)]
    unsafe fn halves(a: Self, b: Self) -> Self {
        // SAFETY: a caller has the instructions.
        unsafe {
            Self(_mm512_shuffle_i64x2::<0b01_00_01_00>(a.0, b.0))
                .xor(Self(_mm512_shuffle_i64x2::<0b11_10_11_10>(a.0, b.0)))
        }
    }
}

// SAFETY: `load` and `store` use the unaligned instructions on exactly 64 bytes.
unsafe impl Vector for Zmm {
    const BYTES: usize = 64;

    #[inline(always)]
    unsafe fn zero() -> Self {
        // SAFETY: instructions by the trait's contract, here and below.
        Self(unsafe { _mm512_setzero_si512() })
    }

    #[inline(always)]
    unsafe fn load(from: *const u8) -> Self {
        // SAFETY: 64 readable bytes by the contract.
        Self(unsafe { _mm512_loadu_si512(from.cast()) })
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut u8) {
        // SAFETY: 64 writable bytes by the contract.
        unsafe { _mm512_storeu_si512(to.cast(), self.0) }
    }

    #[inline(always)]
    unsafe fn xor(self, other: Self) -> Self {
        // SAFETY: instructions by the contract.
        Self(unsafe { _mm512_xor_si512(self.0, other.0) })
    }

    #[inline(always)]
    unsafe fn swap(self) -> Self {
        // SAFETY: instructions by the contract.
        Self(unsafe {
            let order = _mm_set_epi64x(0x0809_0A0B_0C0D_0E0F, 0x0001_0203_0405_0607);
            _mm512_shuffle_epi8(self.0, _mm512_broadcast_i32x4(order))
        })
    }

    #[inline(always)]
    unsafe fn add_products(self, a: Self, b: Self) -> Self {
        // SAFETY: instructions by the contract.
        Self(unsafe {
            let low = _mm512_clmulepi64_epi128::<0x00>(a.0, b.0);
            let high = _mm512_clmulepi64_epi128::<0x11>(a.0, b.0);
            _mm512_ternarylogic_epi64::<XOR3>(self.0, low, high)
        })
    }

    #[inline(always)]
    unsafe fn join(self) -> Xmm {
        // SAFETY: instructions by the contract.
        unsafe {
            let half =
                _mm256_xor_si256(_mm512_castsi512_si256(self.0), _mm512_extracti64x4_epi64::<1>(self.0));
            Xmm(_mm256_castsi256_si128(half)).xor(Xmm(_mm256_extracti128_si256::<1>(half)))
        }
    }
}

// SAFETY: as above.
unsafe impl Affine for Zmm {
    #[inline(always)]
    unsafe fn broadcast(word: u64) -> Self {
        // SAFETY: instructions by the contract.
        Self(unsafe { _mm512_set1_epi64(word.cast_signed()) })
    }

    #[inline(always)]
    unsafe fn times(self, matrix: Self) -> Self {
        // SAFETY: instructions by the contract.
        Self(unsafe { _mm512_gf2p8affine_epi64_epi8::<0>(self.0, matrix.0) })
    }

    #[inline(always)]
    unsafe fn xor3(self, a: Self, b: Self) -> Self {
        // SAFETY: instructions by the contract.
        Self(unsafe { _mm512_ternarylogic_epi64::<XOR3>(self.0, a.0, b.0) })
    }

    #[inline(always)]
    unsafe fn repeat(part: Xmm) -> Self {
        // SAFETY: instructions by the contract.
        Self(unsafe { _mm512_broadcast_i32x4(part.0) })
    }

    #[inline(always)]
    unsafe fn pair_words(a: Self, b: Self) -> Self {
        // SAFETY: instructions by the contract.
        unsafe { Self(_mm512_unpacklo_epi64(a.0, b.0)).xor(Self(_mm512_unpackhi_epi64(a.0, b.0))) }
    }

    #[inline(always)]
    unsafe fn join_each(of: &[Self]) -> Self {
        // SAFETY: instructions by the contract.
        unsafe {
            // Two parts of each of two, then one part of each of four.
            let (a, b) = (Self::halves(of[0], of[1]), Self::halves(of[2], of[3]));
            Self(_mm512_shuffle_i64x2::<0b10_00_10_00>(a.0, b.0))
                .xor(Self(_mm512_shuffle_i64x2::<0b11_01_11_01>(a.0, b.0)))
        }
    }

    #[inline(always)]
    unsafe fn high_by_low(self, other: Self) -> Self {
        // SAFETY: instructions by the contract.
        Self(unsafe { _mm512_clmulepi64_epi128::<0x01>(self.0, other.0) })
    }

    #[inline(always)]
    unsafe fn high_by_high(self, other: Self) -> Self {
        // SAFETY: instructions by the contract.
        Self(unsafe { _mm512_clmulepi64_epi128::<0x11>(self.0, other.0) })
    }
}

table!(Lines<Zmm>, Zmm, "avx512f,avx512bw,avx512vl,gfni,avx2,sse4.1,ssse3,pclmulqdq,vpclmulqdq");
