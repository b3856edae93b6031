//! AVX2 and VPCLMULQDQ: 32 bytes a register.

use super::body::{Crc16, Products};
use super::table::table;
use super::vector::{Affine, Vector, Xmm};
use std::arch::x86_64::*;

#[derive(Clone, Copy)]
pub(super) struct Ymm(__m256i);

// SAFETY: `load` and `store` use the unaligned instructions on exactly 32 bytes.
unsafe impl Vector for Ymm {
    const BYTES: usize = 32;

    #[inline(always)]
    unsafe fn zero() -> Self {
        // SAFETY: instructions by the trait's contract, here and below.
        Self(unsafe { _mm256_setzero_si256() })
    }

    #[inline(always)]
    unsafe fn load(from: *const u8) -> Self {
        // SAFETY: 32 readable bytes by the contract.
        Self(unsafe { _mm256_loadu_si256(from.cast()) })
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut u8) {
        // SAFETY: 32 writable bytes by the contract.
        unsafe { _mm256_storeu_si256(to.cast(), self.0) }
    }

    #[inline(always)]
    unsafe fn xor(self, other: Self) -> Self {
        // SAFETY: instructions by the contract.
        Self(unsafe { _mm256_xor_si256(self.0, other.0) })
    }

    #[inline(always)]
    unsafe fn swap(self) -> Self {
        // SAFETY: instructions by the contract.
        Self(unsafe {
            let order = _mm_set_epi64x(0x0809_0A0B_0C0D_0E0F, 0x0001_0203_0405_0607);
            _mm256_shuffle_epi8(self.0, _mm256_broadcastsi128_si256(order))
        })
    }

    #[inline(always)]
    unsafe fn add_products(self, a: Self, b: Self) -> Self {
        // SAFETY: instructions by the contract.
        unsafe {
            let low = Self(_mm256_clmulepi64_epi128::<0x00>(a.0, b.0));
            let high = Self(_mm256_clmulepi64_epi128::<0x11>(a.0, b.0));
            self.xor(low).xor(high)
        }
    }

    #[inline(always)]
    unsafe fn join(self) -> Xmm {
        // SAFETY: instructions by the contract.
        unsafe { Xmm(_mm256_castsi256_si128(self.0)).xor(Xmm(_mm256_extracti128_si256::<1>(self.0))) }
    }
}

// SAFETY: as above; these instructions need GFNI, which the table of `avx2_gfni` has.
unsafe impl Affine for Ymm {
    #[inline(always)]
    unsafe fn broadcast(word: u64) -> Self {
        // SAFETY: instructions by the contract.
        Self(unsafe { _mm256_set1_epi64x(word.cast_signed()) })
    }

    #[inline(always)]
    unsafe fn times(self, matrix: Self) -> Self {
        // SAFETY: instructions by the contract.
        Self(unsafe { _mm256_gf2p8affine_epi64_epi8::<0>(self.0, matrix.0) })
    }

    #[inline(always)]
    unsafe fn xor3(self, a: Self, b: Self) -> Self {
        // SAFETY: instructions by the contract.
        unsafe { self.xor(a.xor(b)) }
    }

    #[inline(always)]
    unsafe fn repeat(part: Xmm) -> Self {
        // SAFETY: instructions by the contract.
        Self(unsafe { _mm256_broadcastsi128_si256(part.0) })
    }

    #[inline(always)]
    unsafe fn pair_words(a: Self, b: Self) -> Self {
        // SAFETY: instructions by the contract.
        unsafe { Self(_mm256_unpacklo_epi64(a.0, b.0)).xor(Self(_mm256_unpackhi_epi64(a.0, b.0))) }
    }

    #[inline(always)]
    unsafe fn join_each(of: &[Self]) -> Self {
        // SAFETY: instructions by the contract.
        unsafe {
            Self(_mm256_permute2x128_si256::<0x20>(of[0].0, of[1].0)).xor(Self(_mm256_permute2x128_si256::<
                0x31,
            >(
                of[0].0, of[1].0
            )))
        }
    }

    #[inline(always)]
    unsafe fn high_by_low(self, other: Self) -> Self {
        // SAFETY: instructions by the contract.
        Self(unsafe { _mm256_clmulepi64_epi128::<0x01>(self.0, other.0) })
    }

    #[inline(always)]
    unsafe fn high_by_high(self, other: Self) -> Self {
        // SAFETY: instructions by the contract.
        Self(unsafe { _mm256_clmulepi64_epi128::<0x11>(self.0, other.0) })
    }
}

table!(Products<Ymm, Crc16>, Ymm, "avx2,sse4.1,ssse3,pclmulqdq,vpclmulqdq");
