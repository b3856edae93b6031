//! Every kernel of every instruction set against the definition, a byte at a time.

use proptest::prelude::*;
use pumice_parity::gf;
use pumice_parity::gf64;
use pumice_parity::isa::Isa;
use pumice_parity::kernels::{Kernels, RowMask};
use pumice_parity::matrix::Matrix;
use pumice_parity::planes::Planes;

/// Bytes from a seed (xorshift).
fn noise(seed: u64, len: usize) -> Vec<u8> {
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

/// Sources that begin at odd places of larger buffers.
struct Sources {
    buffers: Vec<Vec<u8>>,
    shift: usize,
}

impl Sources {
    fn new(seed: u64, count: usize, len: usize, shift: usize) -> Self {
        let buffers = (0..count).map(|i| noise(seed * 1000 + i as u64, len + shift + 7 * (i % 3))).collect();
        Self { buffers, shift }
    }

    fn slices(&self, len: usize) -> Vec<&[u8]> {
        let start = |i: usize| self.shift + 7 * (i % 3);
        self.buffers.iter().enumerate().map(|(i, b)| &b[start(i)..start(i) + len]).collect()
    }
}

fn sum(coefficients: &[u8], sources: &[&[u8]], len: usize) -> Vec<u8> {
    (0..len).map(|at| coefficients.iter().zip(sources).fold(0, |x, (c, s)| x ^ gf::mul(*c, s[at]))).collect()
}

fn coefficients(seed: u64, rows: usize, columns: usize) -> Vec<Vec<u8>> {
    (0..rows).map(|row| noise(seed + row as u64 * 77, columns)).collect()
}

fn check_pq(kernels: Kernels, k: usize, len: usize, shift: usize) {
    let sources = Sources::new(1, k, len, shift);
    let data = sources.slices(len);
    let powers: Vec<u8> = (0..k).map(gf::exp).collect();
    let (p, q) = (sum(&vec![1; k], &data, len), sum(&powers, &data, len));
    let context = format!("{} k={k} len={len} shift={shift}", kernels.isa());
    let (mut gp, mut gq) = (vec![0x55; len + 2], vec![0xAA; len + 2]);
    kernels.pq_generate(&data, &mut gp[1..=len], &mut gq[1..=len]);
    assert_eq!((&gp[1..=len], &gq[1..=len]), (&p[..], &q[..]), "{context}");
    assert_eq!(
        (gp[0], gp[len + 1], gq[0], gq[len + 1]),
        (0x55, 0x55, 0xAA, 0xAA),
        "{context}: wrote outside"
    );
    assert_eq!(kernels.pq_check(&data, &p, &q), RowMask(0), "{context}");
    let mut x = vec![0x55; len + 2];
    kernels.xor(&data, &mut x[1..=len]);
    assert_eq!(x[1..=len], p, "{context}");
    assert_eq!((x[0], x[len + 1]), (0x55, 0x55), "{context}: wrote outside");
    let with_p: Vec<&[u8]> = data.iter().copied().chain([&p[..]]).collect();
    assert!(kernels.xor_check(&with_p), "{context}");
    for at in [0, len / 2, len.saturating_sub(1)].into_iter().filter(|at| *at < len) {
        let (mut bad_p, mut bad_q) = (p.clone(), q.clone());
        bad_p[at] ^= 0x10;
        assert_eq!(kernels.pq_check(&data, &bad_p, &q), RowMask(1), "{context} at {at}");
        bad_q[at] ^= 1;
        assert_eq!(kernels.pq_check(&data, &p, &bad_q), RowMask(2), "{context} at {at}");
        let with_bad: Vec<&[u8]> = data.iter().copied().chain([&bad_p[..]]).collect();
        assert!(!kernels.xor_check(&with_bad), "{context} at {at}");
    }
}

#[test]
fn p_and_q_for_every_source_count_and_length() {
    for kernels in Kernels::available() {
        for k in 1..=64 {
            for len in [0, 1, 63, 64, 255, 256, 257, 515] {
                check_pq(kernels, k, len, k % 5);
            }
        }
        for len in 0..600 {
            check_pq(kernels, 5, len, len % 3);
            check_pq(kernels, 22, len, 0);
        }
        check_pq(kernels, 255, 300, 1);
        check_pq(kernels, 22, 65536, 0);
    }
}

fn check_dot(kernels: Kernels, rows: usize, columns: usize, len: usize, shift: usize) {
    let sources = Sources::new(2, columns, len, shift);
    let data = sources.slices(len);
    let h = coefficients(columns as u64, rows, columns);
    let matrix = Matrix::new(rows, columns, &h.concat()).unwrap();
    let expected: Vec<Vec<u8>> = h.iter().map(|row| sum(row, &data, len)).collect();
    let context = format!("{} {rows}x{columns} len={len} shift={shift}", kernels.isa());
    let mut out: Vec<Vec<u8>> = vec![vec![0x5A; len + 3]; rows];
    let mut views: Vec<&mut [u8]> = out.iter_mut().map(|o| &mut o[1..=len]).collect();
    kernels.generate(&matrix, &data, &mut views);
    for (o, e) in out.iter().zip(&expected) {
        assert_eq!(&o[1..=len], &e[..], "{context}");
        assert_eq!((o[0], o[len + 1], o[len + 2]), (0x5A, 0x5A, 0x5A), "{context}: wrote outside");
    }
    let stored: Vec<&[u8]> = expected.iter().map(Vec::as_slice).collect();
    assert_eq!(kernels.check(&matrix, &data, &stored), RowMask(0), "{context}");
    let mut views: Vec<&mut [u8]> = out.iter_mut().map(|o| &mut o[1..=len]).collect();
    kernels.accumulate(&matrix, &data, &mut views);
    assert!(out.iter().all(|o| o[1..=len].iter().all(|b| *b == 0)), "{context}: x + x = 0");
    if len == 0 {
        return;
    }
    for row in 0..rows {
        for at in [0, len / 2, len - 1] {
            let mut bad = expected.clone();
            bad[row][at] ^= 0x80;
            let stored: Vec<&[u8]> = bad.iter().map(Vec::as_slice).collect();
            assert_eq!(
                kernels.check(&matrix, &data, &stored),
                RowMask(1 << row),
                "{context} row {row} at {at}"
            );
        }
    }
    let zero = expected.iter().enumerate().fold(0, |m, (i, e)| m | u8::from(e.iter().any(|b| *b != 0)) << i);
    assert_eq!(kernels.check(&matrix, &data, &[]), RowMask(zero), "{context}");
}

#[test]
fn sums_for_every_shape() {
    for kernels in Kernels::available() {
        for rows in 1..=8 {
            for columns in 1..=64 {
                check_dot(kernels, rows, columns, [129, 256, 300][columns % 3], columns % 4);
            }
            for len in (0..70).chain([127, 128, 511, 512, 513]) {
                check_dot(kernels, rows, 3, len, 1);
            }
        }
        check_dot(kernels, 4, 10, 16384, 0);
    }
}

/// The planes of a line, by the definition in the layout's description.
fn by_definition(keys: &[u64], data: &[u8]) -> Planes {
    let mut out = Planes::ZERO;
    for (line, key) in data.chunks(64).zip(keys) {
        for b in 0..8 {
            let mut word = 0_u64;
            for q in 0..8 {
                for i in 0..8 {
                    let byte = line.get(8 * q + 7 - i).copied().unwrap_or(0);
                    word |= u64::from(byte >> b & 1) << (8 * q + i);
                }
            }
            out.0[b] ^= gf64::mul(*key, word);
        }
    }
    out
}

#[test]
fn fingerprints_of_every_length() {
    let keys: Vec<u64> =
        noise(3, 8 * 300).chunks(8).map(|c| u64::from_le_bytes(c.try_into().unwrap())).collect();
    for kernels in Kernels::available() {
        for len in (0..700).chain([4096, 8191, 16384]) {
            let data = &noise(4, len + 5)[len % 5..][..len];
            assert_eq!(
                kernels.fingerprint(&keys, data),
                by_definition(&keys, data),
                "{} {len}",
                kernels.isa()
            );
        }
    }
}

#[test]
fn fingerprints_commute_with_every_coefficient() {
    let keys: Vec<u64> = (0..8).map(|i| 0x0123_4567_89AB_CDEF_u64.rotate_left(i * 7)).collect();
    let data = noise(5, 512);
    for kernels in Kernels::available() {
        let hash = kernels.fingerprint(&keys, &data);
        for c in 0..=255 {
            let scaled: Vec<u8> = data.iter().map(|x| gf::mul(c, *x)).collect();
            assert_eq!(kernels.fingerprint(&keys, &scaled), hash.scaled(c), "{} {c}", kernels.isa());
        }
    }
}

#[test]
fn every_single_bit_is_seen_by_the_right_row() {
    let (k, len) = (4, 320);
    let mut data: Vec<Vec<u8>> = (0..k).map(|i| noise(i as u64, len)).collect();
    let slices: Vec<&[u8]> = data.iter().map(Vec::as_slice).collect();
    let p = sum(&[1; 4], &slices, len);
    let q = sum(&[1, 2, 4, 8], &slices, len);
    for kernels in Kernels::available() {
        for source in 0..k {
            for bit in 0..len * 8 {
                data[source][bit / 8] ^= 1 << (bit % 8);
                let slices: Vec<&[u8]> = data.iter().map(Vec::as_slice).collect();
                assert_eq!(kernels.pq_check(&slices, &p, &q), RowMask(3), "{} {source} {bit}", kernels.isa());
                data[source][bit / 8] ^= 1 << (bit % 8);
            }
        }
    }
}

#[test]
fn the_first_and_last_byte_that_is_not_zero() {
    for kernels in Kernels::available() {
        for len in [0, 1, 7, 64, 255, 256, 700] {
            let mut data = vec![0; len];
            assert_eq!(kernels.nonzero_range(&data), None);
            for first in 0..len {
                for last in [first, (first + len) / 2, len - 1] {
                    (data[first], data[last]) = (1, 0x80);
                    assert_eq!(
                        kernels.nonzero_range(&data),
                        Some(first..last + 1),
                        "{} {len}",
                        kernels.isa()
                    );
                    (data[first], data[last]) = (0, 0);
                }
            }
        }
    }
}

#[test]
fn every_set_of_this_machine_passes_its_self_test() {
    for kernels in Kernels::available() {
        kernels.self_test().unwrap();
    }
    assert_eq!(Kernels::best().isa(), Kernels::available().last().unwrap().isa());
    assert_eq!(Kernels::with_isa(Isa::Scalar).unwrap().isa(), Isa::Scalar);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_shape_any_alignment(rows in 1..=8_usize, columns in 1..=64_usize, len in 0..3000_usize, shift in 0..64_usize) {
        for kernels in Kernels::available() {
            check_dot(kernels, rows, columns, len, shift);
            check_pq(kernels, columns, len, shift);
        }
    }
}
