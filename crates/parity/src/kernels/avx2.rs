//! AVX2 with PCLMULQDQ: 32 bytes a register.

use super::table::table;
use super::vector::Vector;
use crate::gf;
use crate::matrix::Coefficient;
use std::arch::x86_64::*;

/// Bytes between the line that is hashed and the line that is asked for.
const AHEAD: usize = 1024;

#[derive(Clone, Copy)]
struct Ymm(__m256i);

// SAFETY: `load` and `store` use the unaligned instructions on exactly 32 bytes.
unsafe impl Vector for Ymm {
    const BYTES: usize = 32;
    const MANY_REGISTERS: bool = false;
    type Factor = (__m256i, __m256i);

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
    unsafe fn or(self, other: Self) -> Self {
        // SAFETY: instructions by the contract.
        Self(unsafe { _mm256_or_si256(self.0, other.0) })
    }

    #[inline(always)]
    unsafe fn is_zero(self) -> bool {
        // SAFETY: instructions by the contract.
        unsafe { _mm256_testz_si256(self.0, self.0) != 0 }
    }

    #[inline(always)]
    unsafe fn double(self) -> Self {
        // A byte with its top bit set is negative: the comparison with zero makes the mask for the
        // polynomial. SAFETY: instructions by the contract.
        Self(unsafe {
            let carry = _mm256_cmpgt_epi8(_mm256_setzero_si256(), self.0);
            let polynomial = _mm256_and_si256(carry, _mm256_set1_epi8(gf::POLY.cast_signed()));
            _mm256_xor_si256(_mm256_add_epi8(self.0, self.0), polynomial)
        })
    }

    #[inline(always)]
    unsafe fn factor(coefficient: &Coefficient) -> Self::Factor {
        let nibbles = &gf::NIBBLES[coefficient.value as usize];
        // SAFETY: the tables have 16 bytes each.
        unsafe {
            let low = _mm_loadu_si128(nibbles.as_ptr().cast());
            let high = _mm_loadu_si128(nibbles.as_ptr().add(16).cast());
            (_mm256_broadcastsi128_si256(low), _mm256_broadcastsi128_si256(high))
        }
    }

    #[inline(always)]
    unsafe fn times(self, factor: Self::Factor) -> Self {
        // Products of the low and the high half of each byte, by table.
        // SAFETY: instructions by the contract.
        Self(unsafe {
            let half = _mm256_set1_epi8(15);
            let low = _mm256_shuffle_epi8(factor.0, _mm256_and_si256(self.0, half));
            let high = _mm256_shuffle_epi8(factor.1, _mm256_and_si256(_mm256_srli_epi64::<4>(self.0), half));
            _mm256_xor_si256(low, high)
        })
    }

    #[inline(always)]
    unsafe fn prefetch(at: *const u8) {
        // SAFETY: a hint: the address is not followed.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(at.cast()) }
    }
}

/// Brings a 128-bit product down to 64 bits: x^64 = x^4 + x^3 + x + 1, twice.
#[inline]
#[target_feature(enable = "pclmulqdq")]
pub(super) fn reduce(product: __m128i) -> u64 {
    let tail = _mm_set_epi64x(0, 0x1B);
    let once = _mm_clmulepi64_si128::<0x01>(product, tail);
    let twice = _mm_clmulepi64_si128::<0x01>(once, tail);
    _mm_cvtsi128_si64(_mm_xor_si128(product, _mm_xor_si128(once, twice))).cast_unsigned()
}

/// # Safety
/// The processor has AVX2 and PCLMULQDQ; `data` is whole lines, `keys` at least as many.
///
/// A plane is what the sign bits of all bytes say; doubling the bytes brings the next plane to the
/// top. The bytes of each quadword are turned round first: that is the order of a plane's bits.
#[target_feature(enable = "avx2,pclmulqdq")]
unsafe fn fingerprint(keys: &[u64], data: &[u8]) -> [u64; 8] {
    let turn = _mm256_setr_epi8(
        7, 6, 5, 4, 3, 2, 1, 0, 15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0, 15, 14, 13, 12, 11, 10,
        9, 8,
    );
    let mut sums = [_mm_setzero_si128(); 8];
    for (line, key) in data.chunks_exact(64).zip(keys) {
        let at = line.as_ptr();
        // SAFETY: a hint; the 64 bytes of the line.
        let (mut x, mut y) = unsafe {
            _mm_prefetch::<_MM_HINT_T0>(at.wrapping_add(AHEAD).cast());
            (_mm256_loadu_si256(at.cast()), _mm256_loadu_si256(at.add(32).cast()))
        };
        x = _mm256_shuffle_epi8(x, turn);
        y = _mm256_shuffle_epi8(y, turn);
        let key = _mm_cvtsi64_si128(key.cast_signed());
        for sum in sums.iter_mut().rev() {
            let low = u64::from(_mm256_movemask_epi8(x).cast_unsigned());
            let high = u64::from(_mm256_movemask_epi8(y).cast_unsigned());
            let plane = _mm_cvtsi64_si128((low | high << 32).cast_signed());
            *sum = _mm_xor_si128(*sum, _mm_clmulepi64_si128::<0x00>(plane, key));
            x = _mm256_add_epi8(x, x);
            y = _mm256_add_epi8(y, y);
        }
    }
    sums.map(|sum| reduce(sum))
}

table!(Ymm, #[target_feature(enable = "avx2,pclmulqdq")], fingerprint);
