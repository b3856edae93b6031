//! AVX-512 with GFNI, VBMI and VPCLMULQDQ: 64 bytes a register.

use super::table::table;
use super::vector::Vector;
use crate::gf;
use crate::matrix::Coefficient;
use std::arch::x86_64::*;

/// The truth table of `a ^ b ^ c`.
const XOR3: i32 = 0x96;
/// Bytes between the line that is hashed and the line that is asked for: one stream, so further
/// than with many.
const AHEAD: usize = 256;

#[derive(Clone, Copy)]
struct Zmm(__m512i);

// SAFETY: `load` and `store` use the unaligned instructions on exactly 64 bytes.
unsafe impl Vector for Zmm {
    const BYTES: usize = 64;
    const MANY_REGISTERS: bool = true;
    type Factor = __m512i;

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
    unsafe fn xor3(self, a: Self, b: Self) -> Self {
        // SAFETY: instructions by the contract.
        Self(unsafe { _mm512_ternarylogic_epi64::<XOR3>(self.0, a.0, b.0) })
    }

    #[inline(always)]
    unsafe fn or(self, other: Self) -> Self {
        // SAFETY: instructions by the contract.
        Self(unsafe { _mm512_or_si512(self.0, other.0) })
    }

    #[inline(always)]
    unsafe fn is_zero(self) -> bool {
        // SAFETY: instructions by the contract.
        unsafe { _mm512_test_epi64_mask(self.0, self.0) == 0 }
    }

    #[inline(always)]
    unsafe fn double(self) -> Self {
        // SAFETY: instructions by the contract.
        Self(unsafe {
            _mm512_gf2p8affine_epi64_epi8::<0>(self.0, _mm512_set1_epi64(gf::AFFINE[2].cast_signed()))
        })
    }

    #[inline(always)]
    unsafe fn quadruple(self) -> Self {
        // SAFETY: instructions by the contract.
        Self(unsafe {
            _mm512_gf2p8affine_epi64_epi8::<0>(self.0, _mm512_set1_epi64(gf::AFFINE[4].cast_signed()))
        })
    }

    #[inline(always)]
    unsafe fn factor(coefficient: &Coefficient) -> __m512i {
        // SAFETY: instructions by the contract.
        unsafe { _mm512_set1_epi64(coefficient.affine.cast_signed()) }
    }

    #[inline(always)]
    unsafe fn times(self, factor: __m512i) -> Self {
        // SAFETY: instructions by the contract.
        Self(unsafe { _mm512_gf2p8affine_epi64_epi8::<0>(self.0, factor) })
    }

    #[inline(always)]
    unsafe fn prefetch(at: *const u8) {
        // SAFETY: a hint: the address is not followed.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(at.cast()) }
    }
}

/// The byte transpose of 8x8 blocks: byte 8b+q of the result is byte 8q+b.
static TRANSPOSE: [u8; 64] = {
    let mut table = [0; 64];
    let mut i = 0;
    while i < 64 {
        table[i] = (8 * (i % 8) + i / 8) as u8;
        i += 1;
    }
    table
};

/// The eight bit planes of a line, one in each quadword.
///
/// With the data as the *matrix* of the affine instruction and unit vectors as its bytes, each
/// quadword comes out as its own 8x8 bit transpose; a byte permutation then brings equal bits
/// together.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi,gfni")]
fn planes(line: __m512i, units: __m512i, transpose: __m512i) -> __m512i {
    _mm512_permutexvar_epi8(transpose, _mm512_gf2p8affine_epi64_epi8::<0>(units, line))
}

/// Brings each 128-bit product down to 64 bits: x^64 = x^4 + x^3 + x + 1, twice, because the first
/// fold leaves up to four bits above.
#[inline]
#[target_feature(enable = "avx512f,vpclmulqdq")]
fn reduce(products: __m512i) -> __m512i {
    let tail = _mm512_set1_epi64(0x1B);
    let once = _mm512_clmulepi64_epi128::<0x01>(products, tail);
    let twice = _mm512_clmulepi64_epi128::<0x01>(once, tail);
    _mm512_ternarylogic_epi64::<XOR3>(products, once, twice)
}

/// # Safety
/// The processor has AVX-512 F, BW, VL, VBMI, GFNI and VPCLMULQDQ; `data` is whole lines, `keys` at
/// least as many.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi,gfni,vpclmulqdq,pclmulqdq")]
unsafe fn fingerprint(keys: &[u64], data: &[u8]) -> [u64; 8] {
    let units = _mm512_set1_epi64(0x8040_2010_0804_0201_u64.cast_signed());
    // SAFETY: the table has 64 bytes.
    let transpose = unsafe { _mm512_loadu_si512(TRANSPOSE.as_ptr().cast()) };
    // Products with even and with odd quadwords of the planes, twice: two chains each.
    let mut even = [_mm512_setzero_si512(); 2];
    let mut odd = [_mm512_setzero_si512(); 2];
    let mut pairs = data.chunks_exact(128).zip(keys.chunks_exact(2));
    for (i, (lines, keys)) in pairs.by_ref().enumerate() {
        let at = lines.as_ptr();
        // SAFETY: hints, and loads of the 128 bytes of `lines`.
        let (first, second) = unsafe {
            _mm_prefetch::<_MM_HINT_T0>(at.wrapping_add(AHEAD).cast());
            _mm_prefetch::<_MM_HINT_T0>(at.wrapping_add(AHEAD + 64).cast());
            (_mm512_loadu_si512(at.cast()), _mm512_loadu_si512(at.add(64).cast()))
        };
        let (x, y) = (planes(first, units, transpose), planes(second, units, transpose));
        let (kx, ky) = (_mm512_set1_epi64(keys[0].cast_signed()), _mm512_set1_epi64(keys[1].cast_signed()));
        let chain = i % 2;
        even[chain] = _mm512_ternarylogic_epi64::<XOR3>(
            even[chain],
            _mm512_clmulepi64_epi128::<0x00>(x, kx),
            _mm512_clmulepi64_epi128::<0x00>(y, ky),
        );
        odd[chain] = _mm512_ternarylogic_epi64::<XOR3>(
            odd[chain],
            _mm512_clmulepi64_epi128::<0x01>(x, kx),
            _mm512_clmulepi64_epi128::<0x01>(y, ky),
        );
    }
    if !data.len().is_multiple_of(128) {
        let last = data.len() / 64 - 1;
        // SAFETY: the last line's 64 bytes.
        let line = unsafe { _mm512_loadu_si512(data.as_ptr().add(64 * last).cast()) };
        let x = planes(line, units, transpose);
        let k = _mm512_set1_epi64(keys[last].cast_signed());
        even[0] = _mm512_xor_si512(even[0], _mm512_clmulepi64_epi128::<0x00>(x, k));
        odd[0] = _mm512_xor_si512(odd[0], _mm512_clmulepi64_epi128::<0x01>(x, k));
    }
    let even = reduce(_mm512_xor_si512(even[0], even[1]));
    let odd = reduce(_mm512_xor_si512(odd[0], odd[1]));
    let mut out = [0; 8];
    // SAFETY: 64 bytes of `out`.
    unsafe { _mm512_storeu_si512(out.as_mut_ptr().cast(), _mm512_unpacklo_epi64(even, odd)) };
    out
}

table!(
    Zmm,
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi,gfni,vpclmulqdq,pclmulqdq")],
    fingerprint
);
