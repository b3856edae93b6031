//! Operations that a kernel needs of an instruction set, on one register's worth of bytes.

use crate::matrix::Coefficient;

/// A register of bytes, with the arithmetic of GF(2^8).
///
/// # Safety
/// Every method may execute instructions of its set. A caller makes sure that the processor has
/// them; within this crate that is so because kernels are reached only through a table that
/// [`Isa::is_available`](crate::isa::Isa::is_available) has released. `load` and `store` touch
/// exactly [`BYTES`](Self::BYTES) bytes at the pointer, which need not be aligned.
pub(super) unsafe trait Vector: Copy {
    /// Bytes of a register.
    const BYTES: usize;
    /// Set for 32 registers rather than 16; decides how many accumulators fit.
    const MANY_REGISTERS: bool;
    /// A coefficient, ready to multiply by.
    type Factor: Copy;

    unsafe fn zero() -> Self;
    unsafe fn load(from: *const u8) -> Self;
    unsafe fn store(self, to: *mut u8);
    unsafe fn xor(self, other: Self) -> Self;
    unsafe fn or(self, other: Self) -> Self;
    unsafe fn is_zero(self) -> bool;
    /// Every byte times 2.
    unsafe fn double(self) -> Self;
    unsafe fn factor(coefficient: &Coefficient) -> Self::Factor;
    unsafe fn times(self, factor: Self::Factor) -> Self;
    /// Asks for the cache line at an address, which need not be valid, to be brought near.
    unsafe fn prefetch(at: *const u8);

    /// `self ^ a ^ b`.
    #[inline(always)]
    unsafe fn xor3(self, a: Self, b: Self) -> Self {
        // SAFETY: as for every method: the caller has made sure of the instructions.
        unsafe { self.xor(a).xor(b) }
    }

    /// Every byte times 4.
    #[inline(always)]
    unsafe fn quadruple(self) -> Self {
        // SAFETY: as above.
        unsafe { self.double().double() }
    }
}
