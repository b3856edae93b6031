//! The SIMD kernels, behind one dispatcher value.
//!
//! [`Kernels`] is the interface for the rest of the project: safe functions over slices, for one
//! instruction set. Every set computes the same result, to the bit. The bodies are written once
//! (`body`) over a small trait of registers (`vector`), with one thin file for each set. `oracle`
//! is the definition, a byte at a time: it handles the bytes after the last whole register, and
//! every kernel is tested against it.
//!
//! Checks write nothing: accumulators stay in registers, and only whether they are zero is kept.
//! This is the main reason why they are faster than generating parity and comparing it.

#![expect(unsafe_code, reason = "SIMD instructions and raw pointers; each block has its proof")]

mod body;
mod oracle;
mod swar;
mod table;
mod vector;

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx2_gfni;
#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(target_arch = "aarch64")]
mod neon;
#[cfg(target_arch = "x86_64")]
mod ssse3;

use crate::isa::Isa;
use crate::matrix::{MAX_COLUMNS, Matrix};
use crate::planes::Planes;
use body::mode;
use oracle::LINE;
use std::ops::Range;
use std::sync::LazyLock;
use table::Table;

/// The most data sources of P and Q: the field has 255 powers of 2.
pub const MAX_PQ_DATA: usize = 255;

/// The most sources of a plain XOR: those of P and Q, and these two.
pub const MAX_XOR_SOURCES: usize = MAX_PQ_DATA + 2;

/// Rows that are not zero: bit i for row i.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RowMask(pub u8);

impl RowMask {
    /// Returns whether every row is zero.
    #[must_use]
    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }
}

/// The kernels of one instruction set.
#[derive(Clone, Copy)]
pub struct Kernels {
    isa: Isa,
    table: &'static Table,
}

impl std::fmt::Debug for Kernels {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Kernels").field(&self.isa).finish()
    }
}

fn pointers<const N: usize>(slices: &[&[u8]]) -> ([*const u8; N], usize) {
    let mut out = [std::ptr::null(); N];
    for (o, slice) in out.iter_mut().zip(slices) {
        *o = slice.as_ptr();
    }
    (out, slices.len())
}

/// Checks that every slice has `len` bytes.
fn assert_lengths<'s>(slices: impl IntoIterator<Item = &'s [u8]>, len: usize) {
    assert!(
        slices.into_iter().all(|slice| slice.len() == len),
        "all sources and outputs have the same length"
    );
}

impl Kernels {
    /// The best kernels of this processor.
    #[must_use]
    pub fn best() -> Self {
        static BEST: LazyLock<Kernels> =
            LazyLock::new(|| *Kernels::available().last().expect("the scalar kernels run everywhere"));
        *BEST
    }

    /// The kernels of an instruction set, where this processor has it.
    #[must_use]
    pub fn with_isa(isa: Isa) -> Option<Self> {
        if !isa.is_available() {
            return None;
        }
        let table = match isa {
            Isa::Scalar => &swar::TABLE,
            #[cfg(target_arch = "x86_64")]
            Isa::Ssse3 => &ssse3::TABLE,
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 => &avx2::TABLE,
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2Gfni => &avx2_gfni::TABLE,
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 => &avx512::TABLE,
            #[cfg(target_arch = "aarch64")]
            Isa::Neon => &neon::TABLE,
            _ => return None,
        };
        Some(Self { isa, table })
    }

    /// All kernels that run here, the best last.
    #[must_use]
    pub fn available() -> Vec<Self> {
        Isa::ALL.into_iter().filter_map(Self::with_isa).collect()
    }

    /// The instruction set.
    #[must_use]
    pub const fn isa(&self) -> Isa {
        self.isa
    }

    /// The XOR of all sources.
    ///
    /// # Panics
    /// If there is no source or more than [`MAX_XOR_SOURCES`], or lengths differ.
    pub fn xor(&self, sources: &[&[u8]], out: &mut [u8]) {
        let len = out.len();
        let (pointers, count) = self.xor_sources(sources, len);
        // SAFETY: `is_available` released the table; the pointers are of slices of `len` bytes;
        // `out` is borrowed exclusively, so it overlaps no source.
        let done = unsafe { (self.table.xor)(&pointers[..count], out.as_mut_ptr(), len) };
        for (at, byte) in out.iter_mut().enumerate().skip(done) {
            *byte = oracle::xor_at(sources, at);
        }
    }

    /// Returns whether the XOR of all sources is zero.
    ///
    /// # Panics
    /// As [`xor`](Self::xor).
    #[must_use]
    pub fn xor_check(&self, sources: &[&[u8]]) -> bool {
        let len = sources.first().map_or(0, |source| source.len());
        let (pointers, count) = self.xor_sources(sources, len);
        // SAFETY: as in `xor`; nothing is written.
        let (done, bad) = unsafe { (self.table.xor_check)(&pointers[..count], len) };
        !bad && (done..len).all(|at| oracle::xor_at(sources, at) == 0)
    }

    fn xor_sources(&self, sources: &[&[u8]], len: usize) -> ([*const u8; MAX_XOR_SOURCES], usize) {
        assert!((1..=MAX_XOR_SOURCES).contains(&sources.len()), "{} sources", sources.len());
        assert_lengths(sources.iter().copied(), len);
        pointers(sources)
    }

    /// P and Q of data sources; the coefficient of `data[i]` in Q is `2^i`.
    ///
    /// # Panics
    /// If there is no source or more than [`MAX_PQ_DATA`], or lengths differ.
    pub fn pq_generate(&self, data: &[&[u8]], p: &mut [u8], q: &mut [u8]) {
        let len = p.len();
        assert!((1..=MAX_PQ_DATA).contains(&data.len()), "{} data sources", data.len());
        assert_lengths(data.iter().copied().chain([&*q]), len);
        let (pointers, count) = pointers::<MAX_PQ_DATA>(data);
        // SAFETY: `is_available` released the table; all pointers are of slices of `len` bytes; `p`
        // and `q` are borrowed exclusively, so they overlap nothing.
        let done = unsafe { (self.table.pq)(&pointers[..count], p.as_mut_ptr(), q.as_mut_ptr(), len) };
        for at in done..len {
            (p[at], q[at]) = oracle::pq_at(data, at);
        }
    }

    /// Returns the parities that do not agree with the data: P in bit 0, Q in bit 1. Writes
    /// nothing.
    ///
    /// # Panics
    /// As [`pq_generate`](Self::pq_generate).
    #[must_use]
    pub fn pq_check(&self, data: &[&[u8]], p: &[u8], q: &[u8]) -> RowMask {
        let len = p.len();
        assert!((1..=MAX_PQ_DATA).contains(&data.len()), "{} data sources", data.len());
        assert_lengths(data.iter().copied().chain([q]), len);
        let (pointers, count) = pointers::<MAX_PQ_DATA>(data);
        // SAFETY: `is_available` released the table; all pointers are of slices of `len` bytes;
        // nothing is written.
        let (done, mut mask) =
            unsafe { (self.table.pq_check)(&pointers[..count], p.as_ptr(), q.as_ptr(), len) };
        for at in done..len {
            let (sp, sq) = oracle::pq_at(data, at);
            mask |= u8::from(sp != p[at]) | u8::from(sq != q[at]) << 1;
        }
        RowMask(mask)
    }

    /// `outputs[i] = sum over j of m[i][j] * sources[j]`.
    ///
    /// # Panics
    /// If sources or outputs are not as many as the matrix has, or lengths differ.
    pub fn generate(&self, m: &Matrix, sources: &[&[u8]], outputs: &mut [&mut [u8]]) {
        self.dot_into::<{ mode::GENERATE }>(m, sources, outputs);
    }

    /// `accumulators[i] += sum over j of m[i][j] * sources[j]`.
    ///
    /// # Panics
    /// As [`generate`](Self::generate).
    pub fn accumulate(&self, m: &Matrix, sources: &[&[u8]], accumulators: &mut [&mut [u8]]) {
        self.dot_into::<{ mode::ACCUMULATE }>(m, sources, accumulators);
    }

    fn dot_into<const MODE: u8>(&self, m: &Matrix, sources: &[&[u8]], outputs: &mut [&mut [u8]]) {
        let len = outputs.first().map_or(0, |output| output.len());
        assert_eq!(
            (sources.len(), outputs.len()),
            (m.columns(), m.rows()),
            "sources and outputs of the matrix"
        );
        assert_lengths(sources.iter().copied().chain(outputs.iter().map(|o| &**o)), len);
        let (pointers, count) = pointers::<MAX_COLUMNS>(sources);
        let targets: Vec<*mut u8> = outputs.iter_mut().map(|output| output.as_mut_ptr()).collect();
        // SAFETY: `is_available` released the table; all pointers are of slices of `len` bytes;
        // outputs are borrowed exclusively, so they overlap nothing; `prepared` has one entry for
        // each row and column.
        let (done, _) =
            unsafe { (self.table.dot)(m.rows(), MODE, m.prepared(), &pointers[..count], &targets, len) };
        for (i, output) in outputs.iter_mut().enumerate() {
            for (at, byte) in output.iter_mut().enumerate().skip(done) {
                let sum = oracle::dot_at((0..count).map(|j| m.get(i, j)), sources, at);
                *byte = if MODE == mode::ACCUMULATE { *byte ^ sum } else { sum };
            }
        }
    }

    /// Returns the rows `sum over j of m[i][j] * sources[j]` that differ from `stored`; with
    /// nothing stored, those that are not zero. Writes nothing.
    ///
    /// # Panics
    /// If sources or (unless empty) stored rows are not as many as the matrix has, or lengths
    /// differ.
    #[must_use]
    pub fn check(&self, m: &Matrix, sources: &[&[u8]], stored: &[&[u8]]) -> RowMask {
        let len = sources.first().map_or(0, |source| source.len());
        assert_eq!(sources.len(), m.columns(), "sources of the matrix");
        assert!(stored.is_empty() || stored.len() == m.rows(), "stored rows of the matrix, or none");
        assert_lengths(sources.iter().chain(stored).copied(), len);
        let (pointers, count) = pointers::<MAX_COLUMNS>(sources);
        // The modes that check do not write through these.
        let targets: Vec<*mut u8> = stored.iter().map(|row| row.as_ptr().cast_mut()).collect();
        let mode = if stored.is_empty() { mode::CHECK_ZERO } else { mode::CHECK };
        // SAFETY: as in `dot_into`; nothing is written.
        let (done, mut mask) =
            unsafe { (self.table.dot)(m.rows(), mode, m.prepared(), &pointers[..count], &targets, len) };
        for i in 0..m.rows() {
            let differs = (done..len).any(|at| {
                let sum = oracle::dot_at((0..count).map(|j| m.get(i, j)), sources, at);
                sum != stored.get(i).map_or(0, |row| row[at])
            });
            mask |= u8::from(differs) << i;
        }
        RowMask(mask)
    }

    /// The bit-plane hash of `data`: the sum over its lines of `keys[line] * planes(line)`. A last
    /// line that is short counts as filled with zeros.
    ///
    /// # Panics
    /// If there are fewer keys than lines.
    #[must_use]
    pub fn fingerprint(&self, keys: &[u64], data: &[u8]) -> Planes {
        assert!(keys.len() >= data.len().div_ceil(LINE), "one key a line");
        let (whole, rest) = data.split_at(data.len() / LINE * LINE);
        // SAFETY: `is_available` released the table; `whole` is whole lines, and there is a key for
        // each.
        let mut sum = Planes(unsafe { (self.table.fingerprint)(&keys[..whole.len() / LINE], whole) });
        if !rest.is_empty() {
            sum.add(&oracle::fingerprint(&keys[whole.len() / LINE..], rest));
        }
        sum
    }

    /// Reads every byte once and does nothing else with it but to say whether any is not zero: the
    /// limit that the other kernels are measured against.
    #[must_use]
    pub fn read(&self, data: &[u8]) -> bool {
        // SAFETY: `is_available` released the table.
        let (done, any) = unsafe { (self.table.read)(data) };
        any | data[done..].iter().any(|byte| *byte != 0)
    }

    /// Reads many sources side by side, as a fold does, and does nothing else: the limit of every
    /// kernel over these sources. Whole registers only.
    ///
    /// # Panics
    /// As [`xor`](Self::xor).
    #[must_use]
    pub fn read_streams(&self, sources: &[&[u8]]) -> bool {
        let len = sources.first().map_or(0, |source| source.len());
        let (pointers, count) = self.xor_sources(sources, len);
        // SAFETY: `is_available` released the table; the pointers are of slices of `len` bytes;
        // nothing is written.
        unsafe { (self.table.read_streams)(&pointers[..count], len) }
    }

    /// From the first to the last byte that is not zero; `None` if all are zero.
    #[must_use]
    pub fn nonzero_range(&self, data: &[u8]) -> Option<Range<usize>> {
        // SAFETY: `is_available` released the table.
        let near = unsafe { (self.table.first_nonzero)(data) }?;
        let first = near + data[near..].iter().position(|byte| *byte != 0)?;
        let last = data.iter().rposition(|byte| *byte != 0)?;
        Some(first..last + 1)
    }
}
