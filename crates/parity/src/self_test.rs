//! The test at start-up: a processor (or a compiler) that computes wrongly must not judge anybody's
//! data.

use crate::gf;
use crate::isa::Isa;
use crate::kernels::{Kernels, RowMask};
use crate::matrix::Matrix;
use crate::planes::Planes;
use thiserror::Error;

/// Bytes of the test's buffers: whole registers of every set, and a tail.
const LEN: usize = 4096 + 37;
/// Data sources.
const SOURCES: usize = 5;

/// A kernel that computes wrongly.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("self-test: kernel '{kernel}' of instruction set {isa} computes wrongly on this processor")]
pub struct SelfTestError {
    /// The kernel.
    pub kernel: &'static str,
    /// Its instruction set.
    pub isa: Isa,
}

impl Kernels {
    /// Runs every kernel once against plain arithmetic. Takes about a millisecond.
    ///
    /// # Errors
    /// If one computes wrongly.
    pub fn self_test(&self) -> Result<(), SelfTestError> {
        let expect = |kernel, holds: bool| {
            if holds { Ok(()) } else { Err(SelfTestError { kernel, isa: self.isa() }) }
        };
        let data: Vec<Vec<u8>> = (0..SOURCES).map(|s| bytes(s as u64 + 1)).collect();
        let sources: Vec<&[u8]> = data.iter().map(Vec::as_slice).collect();
        let sum = |coefficient: &dyn Fn(usize) -> u8| -> Vec<u8> {
            (0..LEN).map(|at| (0..SOURCES).fold(0, |x, s| x ^ gf::mul(coefficient(s), data[s][at]))).collect()
        };
        let (p, q) = (sum(&|_| 1), sum(&gf::exp));

        let mut out = vec![0; LEN];
        self.xor(&sources, &mut out);
        expect("xor", out == p)?;
        let with_p: Vec<&[u8]> = sources.iter().copied().chain([p.as_slice()]).collect();
        expect("xor_check", self.xor_check(&with_p) && !self.xor_check(&sources))?;

        let (mut gp, mut gq) = (vec![0; LEN], vec![0; LEN]);
        self.pq_generate(&sources, &mut gp, &mut gq);
        expect("pq_generate", gp == p && gq == q)?;
        let mut wrong = q.clone();
        wrong[LEN / 2] ^= 1;
        let checks = self.pq_check(&sources, &p, &q) == RowMask(0)
            && self.pq_check(&sources, &p, &wrong) == RowMask(2);
        expect("pq_check", checks)?;

        let coefficient = |row: usize, s: usize| gf::exp(row * 7 + s * 31);
        let flat: Vec<u8> = (0..3).flat_map(|row| (0..SOURCES).map(move |s| coefficient(row, s))).collect();
        let matrix = Matrix::new(3, SOURCES, &flat).expect("3 rows of 5");
        let mut rows = vec![vec![0; LEN]; 3];
        self.generate(&matrix, &sources, &mut rows.iter_mut().map(Vec::as_mut_slice).collect::<Vec<_>>());
        expect("generate", (0..3).all(|row| rows[row] == sum(&|s| coefficient(row, s))))?;
        let stored: Vec<&[u8]> = rows.iter().map(Vec::as_slice).collect();
        expect("check", self.check(&matrix, &sources, &stored) == RowMask(0))?;
        self.accumulate(&matrix, &sources, &mut rows.iter_mut().map(Vec::as_mut_slice).collect::<Vec<_>>());
        expect("accumulate", rows.iter().all(|row| self.nonzero_range(row).is_none()))?;
        rows[0][LEN - 1] = 1;
        rows[0][17] = 1;
        expect("nonzero_range", self.nonzero_range(&rows[0]) == Some(17..LEN))?;
        expect("fingerprint", self.fingerprint_holds(&data[0], &data[1]))
    }

    /// The hash is linear, and commutes with coefficients; and one line with key 1 is its own
    /// planes.
    fn fingerprint_holds(&self, a: &[u8], b: &[u8]) -> bool {
        let keys: Vec<u64> = bytes(99).chunks(8).take(LEN.div_ceil(64)).map(le).collect();
        let mixed: Vec<u8> = a.iter().zip(b).map(|(x, y)| x ^ gf::mul(0xD3, *y)).collect();
        let mut expected = self.fingerprint(&keys, a);
        expected.add(&self.fingerprint(&keys, b).scaled(0xD3));
        let mut line = [0; 64];
        // Byte 8q+7-i gives bit 8q+i: byte 13 is q = 1, i = 2.
        line[13] = 0x81;
        let mut one = Planes::ZERO;
        (one.0[0], one.0[7]) = (1 << 10, 1 << 10);
        self.fingerprint(&keys, &mixed) == expected && self.fingerprint(&[1], &line) == one
    }
}

fn le(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte))
}

/// Bytes without a pattern that a wrong kernel could hit by chance: xorshift (Marsaglia, 2003).
fn bytes(seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (0..LEN)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 24) as u8
        })
        .collect()
}
