//! The kernels of one instruction set, as functions to call.

use crate::matrix::Coefficient;

/// Rows, mode, coefficients, sources, outputs, bytes: how far it came, and which rows differ.
type Dot = unsafe fn(usize, u8, &[Coefficient], &[*const u8], &[*mut u8], usize) -> (usize, u8);

/// Whole registers folded by each call: the bytes covered come back with the answer, the caller
/// does the rest.
///
/// Every function needs the instructions of its set, and the contract of [`body`](super::body).
pub(super) struct Table {
    pub(super) xor: unsafe fn(&[*const u8], *mut u8, usize) -> usize,
    pub(super) xor_check: unsafe fn(&[*const u8], usize) -> (usize, bool),
    pub(super) pq: unsafe fn(&[*const u8], *mut u8, *mut u8, usize) -> usize,
    pub(super) pq_check: unsafe fn(&[*const u8], *const u8, *const u8, usize) -> (usize, u8),
    pub(super) dot: Dot,
    pub(super) read: unsafe fn(&[u8]) -> (usize, bool),
    pub(super) read_streams: unsafe fn(&[*const u8], usize) -> bool,
    pub(super) first_nonzero: unsafe fn(&[u8]) -> Option<usize>,
    /// Keys (one a line) and whole lines of 64 bytes: plane b of the sum at index b.
    pub(super) fingerprint: unsafe fn(&[u64], &[u8]) -> [u64; 8],
}

/// Makes the table of a [`Vector`](super::vector::Vector) with the named features.
macro_rules! table {
    ($vector:ty, $(#[$features:meta])? , $fingerprint:path) => {
        mod instance {
            use super::super::body::{self, mode};
            use super::*;
            use crate::kernels::vector::Vector;
            use crate::matrix::Coefficient;

            // SAFETY (of all functions here): the table's contract is that of the bodies; the
            // features of this instruction set are enabled for the function, and the bodies are
            // inlined into it.

            $(#[$features])?
            pub(super) unsafe fn xor(sources: &[*const u8], out: *mut u8, len: usize) -> usize {
                // SAFETY: see above.
                unsafe { body::xor::<$vector, 2, false>(sources, out, len).0 }
            }

            $(#[$features])?
            pub(super) unsafe fn xor_check(sources: &[*const u8], len: usize) -> (usize, bool) {
                // SAFETY: see above.
                unsafe { body::xor::<$vector, 2, true>(sources, std::ptr::null_mut(), len) }
            }

            $(#[$features])?
            pub(super) unsafe fn pq(data: &[*const u8], p: *mut u8, q: *mut u8, len: usize) -> usize {
                // SAFETY: see above.
                unsafe { body::pq::<$vector, 2, false>(data, p, q, len).0 }
            }

            $(#[$features])?
            pub(super) unsafe fn pq_check(
                data: &[*const u8],
                p: *const u8,
                q: *const u8,
                len: usize,
            ) -> (usize, u8) {
                // SAFETY: see above; a check does not write, so the pointers may be shared ones.
                unsafe { body::pq::<$vector, 2, true>(data, p.cast_mut(), q.cast_mut(), len) }
            }

            $(#[$features])?
            pub(super) unsafe fn dot(
                rows: usize,
                mode: u8,
                coefficients: &[Coefficient],
                sources: &[*const u8],
                outputs: &[*mut u8],
                len: usize,
            ) -> (usize, u8) {
                macro_rules! rows {
                    ($rows:literal) => {{
                        // As many registers for accumulators as leave room for two sources and
                        // their factors.
                        const UNROLL: usize = match ($rows, <$vector as Vector>::MANY_REGISTERS) {
                            (1..=4, true) => 2,
                            (_, true) | (1..=2, false) => 2,
                            (_, false) => 1,
                        };
                        // SAFETY: see above.
                        unsafe {
                            match mode {
                                mode::GENERATE => body::dot::<$vector, $rows, UNROLL, { mode::GENERATE }>(
                                    coefficients, sources, outputs, len,
                                ),
                                mode::ACCUMULATE => body::dot::<$vector, $rows, UNROLL, { mode::ACCUMULATE }>(
                                    coefficients, sources, outputs, len,
                                ),
                                mode::CHECK => body::dot::<$vector, $rows, UNROLL, { mode::CHECK }>(
                                    coefficients, sources, outputs, len,
                                ),
                                _ => body::dot::<$vector, $rows, UNROLL, { mode::CHECK_ZERO }>(
                                    coefficients, sources, outputs, len,
                                ),
                            }
                        }
                    }};
                }
                match rows {
                    1 => rows!(1),
                    2 => rows!(2),
                    3 => rows!(3),
                    4 => rows!(4),
                    5 => rows!(5),
                    6 => rows!(6),
                    7 => rows!(7),
                    _ => rows!(8),
                }
            }

            $(#[$features])?
            pub(super) unsafe fn read(data: &[u8]) -> (usize, bool) {
                // SAFETY: see above.
                unsafe { body::read::<$vector>(data) }
            }

            $(#[$features])?
            pub(super) unsafe fn read_streams(sources: &[*const u8], len: usize) -> bool {
                // SAFETY: see above.
                unsafe { body::read_streams::<$vector, 4>(sources, len) }
            }

            $(#[$features])?
            pub(super) unsafe fn first_nonzero(data: &[u8]) -> Option<usize> {
                // SAFETY: see above.
                unsafe { body::first_nonzero::<$vector>(data) }
            }
        }

        /// The kernels of this instruction set.
        pub(super) static TABLE: super::table::Table = super::table::Table {
            xor: instance::xor,
            xor_check: instance::xor_check,
            pq: instance::pq,
            pq_check: instance::pq_check,
            dot: instance::dot,
            read: instance::read,
            read_streams: instance::read_streams,
            first_nonzero: instance::first_nonzero,
            fingerprint: $fingerprint,
        };
    };
}

pub(super) use table;
