//! SSSE3 with SSE4.1 and PCLMULQDQ: 16 bytes a register.

use super::avx2::reduce;
use super::table::table;
use super::vector::Vector;
use crate::gf;
use crate::matrix::Coefficient;
use std::arch::x86_64::*;

/// Bytes between the line that is hashed and the line that is asked for.
const AHEAD: usize = 1024;

#[derive(Clone, Copy)]
struct Xmm(__m128i);

// SAFETY: `load` and `store` use the unaligned instructions on exactly 16 bytes.
unsafe impl Vector for Xmm {
    const BYTES: usize = 16;
    const MANY_REGISTERS: bool = false;
    type Factor = (__m128i, __m128i);

    #[inline(always)]
    unsafe fn zero() -> Self {
        // SAFETY: instructions by the trait's contract, here and below.
        Self(unsafe { _mm_setzero_si128() })
    }

    #[inline(always)]
    unsafe fn load(from: *const u8) -> Self {
        // SAFETY: 16 readable bytes by the contract.
        Self(unsafe { _mm_loadu_si128(from.cast()) })
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut u8) {
        // SAFETY: 16 writable bytes by the contract.
        unsafe { _mm_storeu_si128(to.cast(), self.0) }
    }

    #[inline(always)]
    unsafe fn xor(self, other: Self) -> Self {
        // SAFETY: instructions by the contract.
        Self(unsafe { _mm_xor_si128(self.0, other.0) })
    }

    #[inline(always)]
    unsafe fn or(self, other: Self) -> Self {
        // SAFETY: instructions by the contract.
        Self(unsafe { _mm_or_si128(self.0, other.0) })
    }

    #[inline(always)]
    unsafe fn is_zero(self) -> bool {
        // SAFETY: instructions by the contract.
        unsafe { _mm_testz_si128(self.0, self.0) != 0 }
    }

    #[inline(always)]
    unsafe fn double(self) -> Self {
        // A byte with its top bit set is negative: the comparison with zero makes the mask for the
        // polynomial. SAFETY: instructions by the contract.
        Self(unsafe {
            let carry = _mm_cmpgt_epi8(_mm_setzero_si128(), self.0);
            let polynomial = _mm_and_si128(carry, _mm_set1_epi8(gf::POLY.cast_signed()));
            _mm_xor_si128(_mm_add_epi8(self.0, self.0), polynomial)
        })
    }

    #[inline(always)]
    unsafe fn factor(coefficient: &Coefficient) -> Self::Factor {
        let nibbles = &gf::NIBBLES[coefficient.value as usize];
        // SAFETY: the tables have 16 bytes each.
        unsafe {
            (_mm_loadu_si128(nibbles.as_ptr().cast()), _mm_loadu_si128(nibbles.as_ptr().add(16).cast()))
        }
    }

    #[inline(always)]
    unsafe fn times(self, factor: Self::Factor) -> Self {
        // Products of the low and the high half of each byte, by table.
        // SAFETY: instructions by the contract.
        Self(unsafe {
            let half = _mm_set1_epi8(15);
            let low = _mm_shuffle_epi8(factor.0, _mm_and_si128(self.0, half));
            let high = _mm_shuffle_epi8(factor.1, _mm_and_si128(_mm_srli_epi64::<4>(self.0), half));
            _mm_xor_si128(low, high)
        })
    }

    #[inline(always)]
    unsafe fn prefetch(at: *const u8) {
        // SAFETY: a hint: the address is not followed.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(at.cast()) }
    }
}

/// # Safety
/// The processor has SSSE3 and PCLMULQDQ; `data` is whole lines, `keys` at least as many.
///
/// As for AVX2, with four registers a line.
#[target_feature(enable = "ssse3,sse4.1,pclmulqdq")]
unsafe fn fingerprint(keys: &[u64], data: &[u8]) -> [u64; 8] {
    let turn = _mm_setr_epi8(7, 6, 5, 4, 3, 2, 1, 0, 15, 14, 13, 12, 11, 10, 9, 8);
    let mut sums = [_mm_setzero_si128(); 8];
    for (line, key) in data.chunks_exact(64).zip(keys) {
        let at = line.as_ptr();
        let mut quarters = [_mm_setzero_si128(); 4];
        for (i, quarter) in quarters.iter_mut().enumerate() {
            // SAFETY: hints; 16 of the 64 bytes of the line.
            let bytes = unsafe {
                _mm_prefetch::<_MM_HINT_T0>(at.wrapping_add(AHEAD).cast());
                _mm_loadu_si128(at.add(16 * i).cast())
            };
            *quarter = _mm_shuffle_epi8(bytes, turn);
        }
        let key = _mm_cvtsi64_si128(key.cast_signed());
        for sum in sums.iter_mut().rev() {
            let mut plane = 0_u64;
            for (i, quarter) in quarters.iter_mut().enumerate() {
                plane |= u64::from(_mm_movemask_epi8(*quarter).cast_unsigned()) << (16 * i);
                *quarter = _mm_add_epi8(*quarter, *quarter);
            }
            let plane = _mm_cvtsi64_si128(plane.cast_signed());
            *sum = _mm_xor_si128(*sum, _mm_clmulepi64_si128::<0x00>(plane, key));
        }
    }
    sums.map(|sum| reduce(sum))
}

table!(Xmm, #[target_feature(enable = "ssse3,sse4.1,pclmulqdq")], fingerprint);
