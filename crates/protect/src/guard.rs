//! The three guards: which checksum, incremental computation, joining.

use crate::algebra::{self, Polynomial};
use std::fmt;

/// The checksum of a protection information format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Guard {
    /// CRC-16/T10-DIF, of the format with 16-bit guards.
    Crc16,
    /// CRC-32C, of the format with 32-bit guards and of NVMe/TCP digests.
    Crc32c,
    /// CRC-64/NVME, of the format with 64-bit guards.
    Crc64,
}

impl Guard {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Crc16, Self::Crc32c, Self::Crc64];

    /// Bits of a value: 16, 32 or 64.
    #[must_use]
    pub const fn bits(self) -> u32 {
        match self {
            Self::Crc16 => 16,
            Self::Crc32c => 32,
            Self::Crc64 => 64,
        }
    }

    pub(crate) const fn polynomial(self) -> &'static Polynomial {
        match self {
            Self::Crc16 => &algebra::T10_DIF,
            Self::Crc32c => &algebra::CASTAGNOLI,
            Self::Crc64 => &algebra::NVME,
        }
    }

    /// The start value, which is also the XOR at the end.
    const fn ones(self) -> u64 {
        match self {
            Self::Crc16 => 0,
            Self::Crc32c => 0xFFFF_FFFF,
            Self::Crc64 => u64::MAX,
        }
    }

    /// The register before the first byte.
    pub(crate) const fn start(self) -> u64 {
        self.polynomial().register(self.ones())
    }

    /// The finished value of a register.
    pub(crate) const fn finish(self, register: u64) -> u64 {
        self.polynomial().value(register) ^ self.ones()
    }

    /// The guard of `data`, in the low [`bits`](Self::bits) of the result.
    #[must_use]
    pub fn of(self, data: &[u8]) -> u64 {
        let mut crc = Crc::new(self);
        crc.update(data);
        crc.value()
    }

    /// The guard of `A` followed by `B`, from their own guards and the length of `B` in bytes.
    ///
    /// Takes about 0.1 µs for each bit that is set in `len_b`. Bits of `a` and `b` above
    /// [`bits`](Self::bits) must be 0.
    #[must_use]
    pub fn combine(self, a: u64, b: u64, len_b: u64) -> u64 {
        // Finished values go in as they are: start value and final XOR cancel, see
        // docs/design/protection-information.md.
        let polynomial = self.polynomial();
        polynomial.value(polynomial.shift(polynomial.register(a), len_b)) ^ b
    }

    /// The guard of `A`, from that of `A` followed by `b`: [`Crc::after`] and
    /// [`update`](Crc::update) the other way. Takes some ns for each byte of `b`. Bits of `whole`
    /// above [`bits`](Self::bits) must be 0.
    #[must_use]
    pub fn without(self, whole: u64, b: &[u8]) -> u64 {
        // The CRC is linear: the part of `b` in it does not depend on `A`. The rest is the guard of
        // `A` after as many zero bytes, start value and final XOR included.
        let mut zeros = Crc { guard: self, register: 0 };
        zeros.update(b);
        let polynomial = self.polynomial();
        let shifted = polynomial.register(whole ^ self.ones()) ^ zeros.register;
        polynomial.value(polynomial.unshift(shifted, b.len() as u64)) ^ self.ones()
    }

    /// Turns the XORs of the guards of `count` messages of `len` bytes each into the guards of the
    /// XORs of these messages.
    ///
    /// A guard is a linear function of the message, plus the guard of as many zeros: of an even
    /// number of messages, the latter cancels.
    ///
    /// # Panics
    /// If `len` is above 4096.
    pub fn sums(self, guards: &mut [u64], count: usize, len: usize) {
        if count.is_multiple_of(2) && self.ones() != 0 {
            let zeros = self.of(&[0; 4096][..len]);
            guards.iter_mut().for_each(|guard| *guard ^= zeros);
        }
    }
}

impl fmt::Display for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Crc16 => "CRC-16/T10-DIF",
            Self::Crc32c => "CRC-32C",
            Self::Crc64 => "CRC-64/NVME",
        })
    }
}

/// A guard under computation: may stop after any byte and go on later.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Crc {
    guard: Guard,
    register: u64,
}

impl Crc {
    /// Before the first byte.
    #[must_use]
    pub const fn new(guard: Guard) -> Self {
        Self { guard, register: guard.start() }
    }

    /// After bytes whose guard was `value`. Bits above [`Guard::bits`] must be 0.
    #[must_use]
    pub const fn after(guard: Guard, value: u64) -> Self {
        Self { guard, register: guard.polynomial().register(value ^ guard.ones()) }
    }

    /// The checksum that is computed.
    #[must_use]
    pub const fn guard(&self) -> Guard {
        self.guard
    }

    pub(crate) const fn register(&self) -> u64 {
        self.register
    }

    pub(crate) const fn set_register(&mut self, register: u64) {
        self.register = register;
    }

    /// The guard of all bytes so far.
    #[must_use]
    pub const fn value(&self) -> u64 {
        self.guard.finish(self.register)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_guard_of_a_sum_follows_from_those_of_its_terms() {
        for (guard, len) in Guard::ALL.into_iter().flat_map(|guard| [(guard, 512), (guard, 4096)]) {
            let (mut sum, mut guards) = (vec![0; len], 0);
            for count in 1..6 {
                let term: Vec<u8> = (0..len).map(|i| (i * count + i / 7 + count) as u8).collect();
                sum.iter_mut().zip(&term).for_each(|(sum, byte)| *sum ^= byte);
                guards ^= guard.of(&term);
                let mut found = [guards];
                guard.sums(&mut found, count, len);
                assert_eq!(found, [guard.of(&sum)], "{guard} {len} {count}");
            }
        }
    }
}
