//! Code that the tests share: a second implementation of guards and tuples, written from the tables
//! of the specification, a bit at a time. It shares no code with the crate.

#![allow(dead_code, clippy::allow_attributes, reason = "each test file uses a part of it")]

use pumice_protect::guard::Guard;

/// A CRC by long division: polynomial in plain order, one bit of the message after another.
pub(crate) fn slow_guard(guard: Guard, data: &[u8]) -> u64 {
    let (width, poly, ones, reflected) = match guard {
        Guard::Crc16 => (16, 0x8BB7_u64, 0_u64, false),
        Guard::Crc32c => (32, 0x1EDC_6F41, 0xFFFF_FFFF, true),
        Guard::Crc64 => (64, 0xAD93_D235_94C9_3659, u64::MAX, true),
    };
    let mut register = ones;
    for byte in data {
        for i in 0..8 {
            let bit = u64::from(if reflected { byte >> i & 1 } else { byte >> (7 - i) & 1 });
            let out = register >> (width - 1) & 1;
            register = register << 1 & (u64::MAX >> (64 - width));
            if out ^ bit == 1 {
                register ^= poly;
            }
        }
    }
    let value = if reflected { register.reverse_bits() >> (64 - width) } else { register };
    value ^ ones
}

/// Bytes from a seed (xorshift).
pub(crate) fn noise(seed: u64, len: usize) -> Vec<u8> {
    let mut x = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    (0..len)
        .map(|_| {
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
            (x >> 24) as u8
        })
        .collect()
}

/// A format and the tags of a command, in plain fields.
#[derive(Debug, Clone)]
pub(crate) struct Plain {
    pub(crate) data: usize,
    pub(crate) metadata: usize,
    pub(crate) guard: Guard,
    /// 1, 2 or 3.
    pub(crate) kind: u8,
    pub(crate) first: bool,
    pub(crate) sts: u32,
    pub(crate) storage_mask: u64,
    pub(crate) application: u16,
    pub(crate) application_mask: u16,
    pub(crate) storage: u64,
    pub(crate) reference: u64,
}

/// The checks: guard, application, storage, reference.
pub(crate) type Checks = [bool; 4];

fn bits(value: u64, count: usize) -> Vec<bool> {
    (0..count).rev().map(|i| i < 64 && value >> i & 1 == 1).collect()
}

fn number(bits: &[bool]) -> u64 {
    bits.iter().fold(0, |n, bit| n << 1 | u64::from(*bit))
}

impl Plain {
    pub(crate) fn tuple_bytes(&self) -> usize {
        if self.guard == Guard::Crc16 { 8 } else { 16 }
    }

    /// Bits of the reference tag: what is left of the tuple.
    fn reference_bits(&self) -> usize {
        8 * self.tuple_bytes() - self.guard.bits() as usize - 16 - self.sts as usize
    }

    pub(crate) fn tuple_at(&self) -> usize {
        self.data + if self.first { 0 } else { self.metadata - self.tuple_bytes() }
    }

    /// Storage and reference tag of a command, as one number.
    pub(crate) fn space(&self) -> u128 {
        let bits = bits(self.storage, self.sts as usize).into_iter();
        bits.chain(self.reference_of(0)).fold(0, |n, bit| n << 1 | u128::from(bit))
    }

    pub(crate) fn block_bytes(&self) -> usize {
        self.data + self.metadata
    }

    fn reference_of(&self, index: u64) -> Vec<bool> {
        let value = if self.kind == 3 { self.reference } else { self.reference.wrapping_add(index) };
        bits(value, self.reference_bits())
    }

    /// Puts the tuple into an extended block.
    pub(crate) fn make(&self, index: u64, block: &mut [u8]) {
        let at = self.tuple_at();
        let mut tuple = bits(slow_guard(self.guard, &block[..at]), self.guard.bits() as usize);
        tuple.extend(bits(u64::from(self.application), 16));
        tuple.extend(bits(self.storage, self.sts as usize));
        tuple.extend(self.reference_of(index));
        for (byte, bits) in block[at..at + self.tuple_bytes()].iter_mut().zip(tuple.chunks(8)) {
            *byte = number(bits) as u8;
        }
    }

    /// The status of an extended block, if it is bad.
    pub(crate) fn judge(&self, checks: Checks, index: u64, block: &[u8]) -> Option<u16> {
        let at = self.tuple_at();
        let tuple: Vec<bool> =
            block[at..at + self.tuple_bytes()].iter().flat_map(|b| bits(u64::from(*b), 8)).collect();
        let (guard, tags) = tuple.split_at(self.guard.bits() as usize);
        let (application, tags) = tags.split_at(16);
        let (storage, reference) = tags.split_at(self.sts as usize);
        let application = number(application) as u16;
        if application == 0xFFFF && (self.kind != 3 || reference.iter().all(|bit| *bit)) {
            return None;
        }
        let [check_guard, check_application, check_storage, check_reference] = checks;
        if check_guard && number(guard) != slow_guard(self.guard, &block[..at]) {
            return Some(0x282);
        }
        if check_application
            && application & self.application_mask != self.application & self.application_mask
        {
            return Some(0x283);
        }
        if check_storage && number(storage) & self.storage_mask != self.storage & self.storage_mask {
            return Some(0x288);
        }
        if check_reference && self.kind != 3 && reference != self.reference_of(index) {
            return Some(0x284);
        }
        None
    }

    /// The first bad block, and its status.
    pub(crate) fn judge_all(&self, checks: Checks, blocks: &[u8]) -> Option<(u64, u16)> {
        let blocks = blocks.chunks_exact(self.block_bytes()).enumerate();
        blocks
            .into_iter()
            .find_map(|(i, block)| self.judge(checks, i as u64, block).map(|status| (i as u64, status)))
    }
}
