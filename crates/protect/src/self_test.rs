//! The test at start-up: a processor (or a compiler) that computes wrongly must not judge anybody's
//! data.

use crate::guard::{Crc, Guard};
use crate::isa::Isa;
use crate::kernels::{Compared, Kernels, Spacing};
use thiserror::Error;

/// Bytes of the test's buffers: a chunk, whole registers of every set, and a tail.
const LEN: usize = 4096 + 16 + 37;

/// Kernels that compute wrongly.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("self-test: {guard} of instruction set {isa} is wrong on this processor")]
pub struct SelfTestError {
    /// The guard that is computed wrongly.
    pub guard: Guard,
    /// Its instruction set.
    pub isa: Isa,
}

impl Kernels {
    /// Runs every kernel once against the definition, a byte at a time. Takes about 50 µs.
    ///
    /// # Errors
    /// If one computes wrongly.
    pub fn self_test(&self) -> Result<(), SelfTestError> {
        // Bytes without a pattern that a wrong kernel could hit by chance.
        let data: Vec<u8> =
            (0..LEN as u64).map(|i| (i.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40) as u8).collect();
        for guard in Guard::ALL {
            let expected = |data| guard.finish(guard.polynomial().by_bytes(guard.start(), data));
            let (mut crc, mut copied) = (Crc::new(guard), Crc::new(guard));
            let mut out = vec![0; LEN];
            self.update(&mut crc, &data);
            self.update_copy(&mut copied, &data, &mut out);
            let mut good = [crc, copied].iter().all(|crc| crc.value() == expected(&data)) && out == data;

            let (blocks, mut guards) = (Spacing { len: 512, pitch: 520 }, [[0; 7]; 2]);
            out.fill(0);
            self.blocks(guard, &data, blocks, &mut guards[0]);
            self.blocks_copy(guard, &data, blocks, &mut out, 512, &mut guards[1]);
            for (i, block) in data.chunks(520).take(7).enumerate() {
                let guard = expected(&block[..512]);
                good &= guards.iter().all(|guards| guards[i] == guard);
                good &= out[i * 512..(i + 1) * 512] == block[..512];
            }
            let (size, bytes) = (if guard == Guard::Crc16 { 8 } else { 16 }, guard.bits() as usize / 8);
            let mut tuples = vec![0; 7 * size];
            for (tuple, guard) in tuples.chunks_mut(size).zip(&guards[0]) {
                tuple[..bytes].copy_from_slice(&guard.to_be_bytes()[8 - bytes..]);
            }
            good &= self.compare(guard, &guards[0], &tuples) == Compared { differ: false, escapes: false };
            tuples[6 * size] ^= 1;
            good &= self.compare(guard, &guards[0], &tuples).differ;
            if !good {
                return Err(SelfTestError { guard, isa: self.isa() });
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_set_of_this_machine_passes() {
        for kernels in Kernels::available() {
            assert_eq!(kernels.self_test(), Ok(()), "{}", kernels.isa());
        }
    }
}
