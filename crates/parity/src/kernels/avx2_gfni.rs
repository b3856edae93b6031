//! AVX2 with GFNI and VPCLMULQDQ: 32 bytes a register.

use super::table::table;
use super::vector::Vector;
use crate::gf;
use crate::matrix::Coefficient;
use std::arch::x86_64::*;

/// Bytes between the line that is hashed and the line that is asked for.
const AHEAD: usize = 2048;

#[derive(Clone, Copy)]
struct Ymm(__m256i);

// SAFETY: `load` and `store` use the unaligned instructions on exactly 32 bytes.
unsafe impl Vector for Ymm {
    const BYTES: usize = 32;
    const MANY_REGISTERS: bool = false;
    type Factor = __m256i;

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
        // SAFETY: instructions by the contract.
        Self(unsafe {
            _mm256_gf2p8affine_epi64_epi8::<0>(self.0, _mm256_set1_epi64x(gf::AFFINE[2].cast_signed()))
        })
    }

    #[inline(always)]
    unsafe fn quadruple(self) -> Self {
        // SAFETY: instructions by the contract.
        Self(unsafe {
            _mm256_gf2p8affine_epi64_epi8::<0>(self.0, _mm256_set1_epi64x(gf::AFFINE[4].cast_signed()))
        })
    }

    #[inline(always)]
    unsafe fn factor(coefficient: &Coefficient) -> Self::Factor {
        // SAFETY: instructions by the contract.
        unsafe { _mm256_set1_epi64x(coefficient.affine.cast_signed()) }
    }

    #[inline(always)]
    unsafe fn times(self, factor: Self::Factor) -> Self {
        // SAFETY: instructions by the contract.
        Self(unsafe { _mm256_gf2p8affine_epi64_epi8::<0>(self.0, factor) })
    }

    #[inline(always)]
    unsafe fn prefetch(at: *const u8) {
        // SAFETY: a hint: the address is not followed.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(at.cast()) }
    }
}

/// # Safety
/// The processor has AVX2, GFNI, PCLMULQDQ and VPCLMULQDQ; `data` is whole lines, `keys` at least
/// as many.
///
/// Two lines at a time, one in each half of the registers. The affine instruction transposes the
/// bits of each quadword (data as its matrix); unpacking then brings equal planes together.
#[target_feature(enable = "avx2,gfni,vpclmulqdq,pclmulqdq")]
unsafe fn fingerprint(keys: &[u64], data: &[u8]) -> [u64; 8] {
    let units = _mm256_set1_epi64x(0x8040_2010_0804_0201_u64.cast_signed());
    let pair = _mm256_setr_epi8(
        0, 8, 1, 9, 2, 10, 3, 11, 4, 12, 5, 13, 6, 14, 7, 15, 0, 8, 1, 9, 2, 10, 3, 11, 4, 12, 5, 13, 6, 14,
        7, 15,
    );
    let mut sums = [_mm256_setzero_si256(); 8];
    for (lines, keys) in data.chunks(128).zip(keys.chunks(2)) {
        let at = lines.as_ptr();
        let whole = lines.len() == 128;
        let mut quarters = [_mm256_setzero_si256(); 4];
        for (i, quarter) in quarters.iter_mut().enumerate() {
            // SAFETY: hints; 16 bytes of the first line, and of the second where there is one.
            let both = unsafe {
                _mm_prefetch::<_MM_HINT_T0>(at.wrapping_add(AHEAD + 64 * (i % 2)).cast());
                let first = _mm_loadu_si128(at.add(16 * i).cast());
                let second =
                    if whole { _mm_loadu_si128(at.add(64 + 16 * i).cast()) } else { _mm_setzero_si128() };
                _mm256_inserti128_si256::<1>(_mm256_castsi128_si256(first), second)
            };
            *quarter = _mm256_shuffle_epi8(_mm256_gf2p8affine_epi64_epi8::<0>(units, both), pair);
        }
        let [a, b, c, d] = quarters;
        let (low_ab, high_ab) = (_mm256_unpacklo_epi16(a, b), _mm256_unpackhi_epi16(a, b));
        let (low_cd, high_cd) = (_mm256_unpacklo_epi16(c, d), _mm256_unpackhi_epi16(c, d));
        let planes = [
            _mm256_unpacklo_epi32(low_ab, low_cd),
            _mm256_unpackhi_epi32(low_ab, low_cd),
            _mm256_unpacklo_epi32(high_ab, high_cd),
            _mm256_unpackhi_epi32(high_ab, high_cd),
        ];
        let second = keys.get(1).copied().unwrap_or(0);
        let key = _mm256_set_epi64x(0, second.cast_signed(), 0, keys[0].cast_signed());
        for (i, two) in planes.into_iter().enumerate() {
            sums[2 * i] = _mm256_xor_si256(sums[2 * i], _mm256_clmulepi64_epi128::<0x00>(two, key));
            sums[2 * i + 1] = _mm256_xor_si256(sums[2 * i + 1], _mm256_clmulepi64_epi128::<0x01>(two, key));
        }
    }
    sums.map(|sum| {
        super::avx2::reduce(_mm_xor_si128(_mm256_castsi256_si128(sum), _mm256_extracti128_si256::<1>(sum)))
    })
}

table!(Ymm, #[target_feature(enable = "avx2,gfni,vpclmulqdq,pclmulqdq")], fingerprint);
