//! Operations that a kernel needs of an instruction set, on one register's worth of words.

use std::arch::x86_64::{
    __m128i, _mm_clmulepi64_si128, _mm_loadu_si128, _mm_set_epi64x, _mm_setzero_si128, _mm_shuffle_epi8,
    _mm_storeu_si128, _mm_xor_si128,
};

/// A register of 64-bit words.
///
/// # Safety
/// Every method may execute instructions of its set. A caller makes sure that the processor has
/// them; within this crate kernels are reached only through a table that
/// [`Isa::is_available`](crate::isa::Isa::is_available) has released. `load` and `store` touch
/// exactly [`BYTES`](Self::BYTES) bytes at the pointer, which need not be aligned.
pub(super) unsafe trait Vector: Copy {
    /// Bytes of a register.
    const BYTES: usize;

    unsafe fn zero() -> Self;
    unsafe fn load(from: *const u8) -> Self;
    unsafe fn store(self, to: *mut u8);
    unsafe fn xor(self, other: Self) -> Self;
    /// Each word with its bytes in the opposite order.
    unsafe fn swap(self) -> Self;
    /// `self` and the carry-less products of the words of `a` and `b`, two products into each 128
    /// bits.
    unsafe fn add_products(self, a: Self, b: Self) -> Self;
    /// The XOR of all parts of 128 bits.
    unsafe fn join(self) -> Xmm;
}

/// A register with bit matrices (GFNI).
///
/// # Safety
/// As [`Vector`].
pub(super) unsafe trait Affine: Vector {
    /// Eight bytes in every word.
    unsafe fn broadcast(word: u64) -> Self;
    /// Each byte times the bit matrix of its word.
    unsafe fn times(self, matrix: Self) -> Self;
    /// `self ^ a ^ b`.
    unsafe fn xor3(self, a: Self, b: Self) -> Self;
    /// The same 16 bytes in every part of 128 bits.
    unsafe fn repeat(part: Xmm) -> Self;
    /// In each part of 128 bits the XOR of the words of `a`, then that of the words of `b`.
    unsafe fn pair_words(a: Self, b: Self) -> Self;
    /// In each part of 128 bits the [`join`](Vector::join) of another register, in their order:
    /// `of` has as many registers as a register has parts.
    unsafe fn join_each(of: &[Self]) -> Self;
    /// The carry-less product of the high word of each part and the low word of `other`'s.
    unsafe fn high_by_low(self, other: Self) -> Self;
    /// The carry-less product of the high words of each part.
    unsafe fn high_by_high(self, other: Self) -> Self;
}

/// 16 bytes: the smallest register of every set, and the form of a sum that is to be reduced.
#[derive(Clone, Copy)]
pub(super) struct Xmm(pub(super) __m128i);

// SAFETY: `load` and `store` use the unaligned instructions on exactly 16 bytes.
unsafe impl Vector for Xmm {
    const BYTES: usize = 16;

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
    unsafe fn swap(self) -> Self {
        // SAFETY: instructions by the contract.
        Self(unsafe {
            _mm_shuffle_epi8(self.0, _mm_set_epi64x(0x0809_0A0B_0C0D_0E0F, 0x0001_0203_0405_0607))
        })
    }

    #[inline(always)]
    unsafe fn add_products(self, a: Self, b: Self) -> Self {
        // SAFETY: instructions by the contract.
        unsafe {
            let low = Self(_mm_clmulepi64_si128::<0x00>(a.0, b.0));
            let high = Self(_mm_clmulepi64_si128::<0x11>(a.0, b.0));
            self.xor(low).xor(high)
        }
    }

    #[inline(always)]
    unsafe fn join(self) -> Self {
        self
    }
}
