//! Intel's ISA-L, to be measured beside our kernels.

#![expect(unsafe_code, reason = "foreign functions")]

use std::ffi::{c_int, c_uchar, c_void};

#[link(name = "isal")]
unsafe extern "C" {
    fn pq_check(vects: c_int, len: c_int, array: *mut *mut c_void) -> c_int;
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

/// Bytes of a table for one coefficient.
const TABLE: usize = 32;

/// Returns whether P and Q agree with the data: sources, then P, then Q, each on a border of 32
/// bytes.
pub(super) fn check_pq(sources: &[&[u8]]) -> bool {
    let mut array: Vec<*mut c_void> = sources.iter().map(|s| s.as_ptr().cast_mut().cast()).collect();
    let len = sources[0].len() as c_int;
    // SAFETY: the function reads `len` bytes at each of the pointers (all slices have that length)
    // and writes nothing.
    unsafe { pq_check(array.len() as c_int, len, array.as_mut_ptr()) == 0 }
}

/// An encoder of given coefficients, with room for its outputs.
pub(super) struct Encoder {
    tables: Vec<u8>,
    rows: usize,
    outputs: Vec<Vec<u8>>,
}

impl Encoder {
    /// For `rows` outputs of `columns` sources; coefficients row after row.
    pub(super) fn new(rows: usize, columns: usize, row_major: &[u8], len: usize) -> Self {
        let mut tables = vec![0; TABLE * rows * columns];
        let mut coefficients = row_major.to_vec();
        // SAFETY: the function reads rows * columns coefficients and writes 32 bytes of table for
        // each.
        unsafe {
            ec_init_tables(columns as c_int, rows as c_int, coefficients.as_mut_ptr(), tables.as_mut_ptr());
        }
        Self { tables, rows, outputs: vec![vec![0; len]; rows] }
    }

    /// Encodes, and compares with what is stored: the check that this library offers.
    pub(super) fn check(&mut self, sources: &[&[u8]], stored: &[&[u8]]) -> bool {
        let mut data: Vec<*mut u8> = sources.iter().map(|s| s.as_ptr().cast_mut()).collect();
        let mut coding: Vec<*mut u8> = self.outputs.iter_mut().map(Vec::as_mut_ptr).collect();
        let (len, k) = (sources[0].len(), sources.len());
        assert!(self.outputs.iter().all(|output| output.len() >= len), "outputs hold the longest source");
        // SAFETY: the function reads `len` bytes of each source and writes `len` bytes of each
        // output, which hold that many.
        unsafe {
            ec_encode_data(
                len as c_int,
                k as c_int,
                self.rows as c_int,
                self.tables.as_mut_ptr(),
                data.as_mut_ptr(),
                coding.as_mut_ptr(),
            );
        }
        self.outputs.iter().zip(stored).all(|(output, stored)| output[..len] == **stored)
    }
}
