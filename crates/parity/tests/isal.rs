//! ISA-L's encoder with our coefficients: a second implementation of the products and sums.

#![expect(unsafe_code, reason = "foreign functions")]

use pumice_parity::code::{Code, CodeSpec, LrcShape, MAX_MEMBERS};
use pumice_parity::kernels::Kernels;
use pumice_parity::matrix::Matrix;
use pumice_parity::seed::Seed;
use std::ffi::{c_int, c_uchar};

#[link(name = "isal")]
unsafe extern "C" {
    fn ec_init_tables(k: c_int, rows: c_int, a: *mut c_uchar, tables: *mut c_uchar);
    fn ec_encode_data(
        len: c_int,
        k: c_int,
        rows: c_int,
        tables: *mut c_uchar,
        data: *mut *mut c_uchar,
        coding: *mut *mut c_uchar,
    );
}

/// Bytes of ISA-L's table for one coefficient.
const TABLE: usize = 32;

/// The parities of `data`, by ISA-L.
fn theirs(code: &Code, data: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let (k, rows, len) = (code.data(), code.parities(), data[0].len());
    assert!(data.len() == k && data.iter().all(|source| source.len() == len));
    let mut coefficients = code.encode_rows().concat();
    let mut tables = vec![0_u8; TABLE * rows * k];
    let mut out = vec![vec![0_u8; len]; rows];
    let mut sources: Vec<*mut u8> = data.iter().map(|source| source.as_ptr().cast_mut()).collect();
    let mut outputs: Vec<*mut u8> = out.iter_mut().map(Vec::as_mut_ptr).collect();
    // SAFETY: the first function reads rows * k coefficients and writes 32 bytes of table for each;
    // the second one reads the tables and `len` bytes of each of k sources, and writes `len` bytes
    // of each of `rows` outputs. All have these lengths.
    unsafe {
        ec_init_tables(k as c_int, rows as c_int, coefficients.as_mut_ptr(), tables.as_mut_ptr());
        ec_encode_data(
            len as c_int,
            k as c_int,
            rows as c_int,
            tables.as_mut_ptr(),
            sources.as_mut_ptr(),
            outputs.as_mut_ptr(),
        );
    }
    out
}

fn noise(seed: u64, len: usize) -> Vec<u8> {
    let seed = Seed::from_number(seed);
    (0..).flat_map(|block| seed.derive("noise", block).0).take(len).collect()
}

#[test]
fn isal_makes_the_same_parities() {
    let widest = (1..=8).map(|parities| CodeSpec::rs(MAX_MEMBERS - parities, parities).unwrap());
    let small = ["rs:4,3", "rs:10,4"].map(|name| name.parse::<CodeSpec>().unwrap());
    for spec in widest.chain(small).chain(LrcShape::OFFERED.map(CodeSpec::lrc)) {
        let code = spec.code();
        let matrix = Matrix::new(code.parities(), code.data(), &code.encode_rows().concat()).unwrap();
        for len in [1, 31, 64, 4096, 4097, 65_536 + 13] {
            let data: Vec<Vec<u8>> = (0..code.data()).map(|i| noise(i as u64, len)).collect();
            let expected = theirs(&code, &data);
            let sources: Vec<&[u8]> = data.iter().map(Vec::as_slice).collect();
            for kernels in Kernels::available() {
                let mut ours = vec![vec![0; len]; code.parities()];
                let mut views: Vec<&mut [u8]> = ours.iter_mut().map(Vec::as_mut_slice).collect();
                kernels.generate(&matrix, &sources, &mut views);
                assert_eq!(ours, expected, "{spec}, {len} bytes, {kernels:?}");
            }
        }
    }
}
