//! The kernels, once for all instruction sets of x86.
//!
//! # How the loops are shaped
//! Each word of a message is multiplied by its own constant, and the products are summed without
//! carry. No step waits for another, so four registers are taken at a time, each with its own sum.
//! The reduction to 64 bits is made once for each chunk; while its dependent steps go on, the
//! processor already multiplies the words of the next block.
//!
//! # Contract of every function here
//! `src` is valid for reads of `len` bytes and, if `COPY`, `dst` for writes of `len` bytes; they do
//! not overlap. The processor has the instructions of `V` and of [`Xmm`].

use super::run::Run;
use super::vector::{Vector, Xmm};
use crate::algebra::{CASTAGNOLI, CHUNK, NVME, Polynomial, T10_DIF};
use std::arch::x86_64::{
    _mm_clmulepi64_si128, _mm_cvtsi64_si128, _mm_cvtsi128_si64, _mm_extract_epi64, _mm_slli_si128,
};
use std::marker::PhantomData;

/// One of the guards, at compile time.
pub(super) trait Code {
    /// Its numbers.
    const POLYNOMIAL: &'static Polynomial;
    /// Set if bits are reversed; if not, words are swapped.
    const REFLECTED: bool;
    /// Set if `P'` has the term 1.
    const CONSTANT_TERM: bool;
}

/// CRC-16/T10-DIF.
pub(super) struct Crc16;
/// CRC-32C.
pub(super) struct Crc32c;
/// CRC-64/NVME.
pub(super) struct Crc64;

impl Code for Crc16 {
    const POLYNOMIAL: &'static Polynomial = &T10_DIF;
    const REFLECTED: bool = false;
    const CONSTANT_TERM: bool = false;
}

impl Code for Crc32c {
    const POLYNOMIAL: &'static Polynomial = &CASTAGNOLI;
    const REFLECTED: bool = true;
    const CONSTANT_TERM: bool = false;
}

impl Code for Crc64 {
    const POLYNOMIAL: &'static Polynomial = &NVME;
    const REFLECTED: bool = true;
    const CONSTANT_TERM: bool = true;
}

/// Adds the products of the register's worth of words at `src`, and copies them.
#[inline(always)]
pub(super) unsafe fn step<V: Vector, C: Code, const COPY: bool>(
    sum: V,
    src: *const u8,
    dst: *mut u8,
    constants: *const u8,
) -> V {
    // SAFETY: by the contract of `sum`, `V::BYTES` bytes are within each of the three.
    unsafe {
        let raw = V::load(src);
        if COPY {
            raw.store(dst);
        }
        let words = if C::REFLECTED { raw } else { raw.swap() };
        sum.add_products(words, V::load(constants))
    }
}

/// A way to sum the products of a message.
pub(super) trait Sum {
    /// The guard.
    type Code: Code;
    /// The sum for a message of `len` bytes: a multiple of 16, at most [`CHUNK`].
    unsafe fn sum<const COPY: bool>(src: *const u8, dst: *mut u8, len: usize) -> Xmm;

    /// The registers of the first blocks of a run, if it is faster to take several at a time; how
    /// many these are. The contract is that of [`blocks`].
    #[inline(always)]
    unsafe fn together<const COPY: bool>(_run: &Run) -> usize {
        0
    }
}

/// By carry-less products of words and their constants.
pub(super) struct Products<V, C>(PhantomData<(V, C)>);

impl<V: Vector, C: Code> Sum for Products<V, C> {
    type Code = C;

    #[inline(always)]
    unsafe fn sum<const COPY: bool>(src: *const u8, dst: *mut u8, len: usize) -> Xmm {
        // SAFETY: the contract is the same.
        unsafe { sum::<V, C, COPY>(src, dst, len) }
    }
}

/// The sum of the products of a message of `len` bytes: a multiple of 16, at most [`CHUNK`].
#[inline(always)]
unsafe fn sum<V: Vector, C: Code, const COPY: bool>(src: *const u8, dst: *mut u8, len: usize) -> Xmm {
    // SAFETY: every access is at `at` or above and ends at `len` at most, which `src` and (if
    // `COPY`) `dst` allow by the contract; `constants` begins `len` bytes before the end of its
    // table. Without `COPY`, `dst` is never followed.
    unsafe {
        let constants = C::POLYNOMIAL.constants.as_ptr().cast::<u8>().add(CHUNK - len);
        let mut sums = [V::zero(); 4];
        let mut at = 0;
        while at + 4 * V::BYTES <= len {
            for (u, sum) in sums.iter_mut().enumerate() {
                let here = at + u * V::BYTES;
                *sum = step::<V, C, COPY>(*sum, src.add(here), dst.wrapping_add(here), constants.add(here));
            }
            at += 4 * V::BYTES;
        }
        while at + V::BYTES <= len {
            sums[0] = step::<V, C, COPY>(sums[0], src.add(at), dst.wrapping_add(at), constants.add(at));
            at += V::BYTES;
        }
        let mut rest = sums[0].xor(sums[1]).xor(sums[2].xor(sums[3])).join();
        while at < len {
            rest = step::<Xmm, C, COPY>(rest, src.add(at), dst.wrapping_add(at), constants.add(at));
            at += Xmm::BYTES;
        }
        rest
    }
}

/// The part of a register before a message of `len` bytes in the message's sum: the register times
/// the constant of the first word.
#[inline(always)]
unsafe fn carried<C: Code>(register: u64, len: usize) -> Xmm {
    let constant = C::POLYNOMIAL.constants[(CHUNK - len) / 8];
    // SAFETY: instructions by the contract.
    unsafe {
        let (register, constant) =
            (_mm_cvtsi64_si128(register.cast_signed()), _mm_cvtsi64_si128(constant.cast_signed()));
        Xmm(_mm_clmulepi64_si128::<0x00>(register, constant))
    }
}

/// A sum modulo `P'` (Barrett). In plain order the low half is the low word; reversed, the high
/// word.
#[inline(always)]
unsafe fn reduce<C: Code>(sum: Xmm) -> u64 {
    // SAFETY: instructions by the contract; the factors are 16 bytes.
    unsafe {
        let factors = Xmm::load(C::POLYNOMIAL.barrett.as_ptr().cast()).0;
        let rest = if C::REFLECTED {
            let quotient = Xmm(_mm_clmulepi64_si128::<0x00>(sum.0, factors));
            let rest = sum.xor(Xmm(_mm_clmulepi64_si128::<0x10>(quotient.0, factors)));
            let rest = if C::CONSTANT_TERM { rest.xor(Xmm(_mm_slli_si128::<8>(quotient.0))) } else { rest };
            _mm_extract_epi64::<1>(rest.0)
        } else {
            let quotient = sum.xor(Xmm(_mm_clmulepi64_si128::<0x01>(sum.0, factors)));
            _mm_cvtsi128_si64(sum.xor(Xmm(_mm_clmulepi64_si128::<0x11>(quotient.0, factors))).0)
        };
        rest.cast_unsigned()
    }
}

/// The register after a message of at least 16 bytes.
#[inline(always)]
pub(super) unsafe fn message<S: Sum, const COPY: bool>(
    mut register: u64,
    mut src: *const u8,
    mut dst: *mut u8,
    mut len: usize,
) -> u64 {
    // SAFETY: by the contract; the pieces taken off the front together are `len` bytes. `head` is
    // 32 bytes, read in safe code and summed whole.
    unsafe {
        let odd = len % 16;
        if odd != 0 {
            let mut head = [0; 32];
            std::ptr::copy_nonoverlapping(src, head[16 - odd..].as_mut_ptr(), 16 + odd);
            if COPY {
                std::ptr::copy_nonoverlapping(src, dst, 16 + odd);
            }
            let begin = if S::Code::REFLECTED { register.to_le_bytes() } else { register.to_be_bytes() };
            for (byte, r) in head[16 - odd..].iter_mut().zip(begin) {
                *byte ^= r;
            }
            register = reduce::<S::Code>(sum::<Xmm, S::Code, false>(head.as_ptr(), std::ptr::null_mut(), 32));
            (src, dst, len) = (src.add(16 + odd), dst.wrapping_add(16 + odd), len - 16 - odd);
        }
        while len > 0 {
            let now = len.min(CHUNK - CHUNK % 256);
            let sum = S::sum::<COPY>(src, dst, now);
            register = reduce::<S::Code>(sum.xor(carried::<S::Code>(register, now)));
            (src, dst, len) = (src.add(now), dst.wrapping_add(now), len - now);
        }
        register
    }
}

/// The registers of `run.count` blocks of `run.len` bytes: a multiple of 16 from 16 to [`CHUNK`].
///
/// The contract holds for each block, and `run.registers` is valid for writes of `run.count` words.
#[inline(always)]
pub(super) unsafe fn blocks<S: Sum, const COPY: bool>(run: &Run) {
    // SAFETY: by the contract.
    unsafe {
        let start = carried::<S::Code>(run.start, run.len);
        for i in S::together::<COPY>(run)..run.count {
            let (src, dst) = (run.src.add(i * run.src_pitch), run.dst.wrapping_add(i * run.dst_pitch));
            let sum = S::sum::<COPY>(src, dst, run.len);
            run.registers.add(i).write(reduce::<S::Code>(sum.xor(start)));
        }
    }
}
