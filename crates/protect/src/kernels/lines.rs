//! The 16-bit guard by bit matrices (GFNI).
//!
//! Carry-less products are slow on some processors (Zen 4: two cycles for a register, and each
//! register needs two), products of bytes and bit matrices are not (one cycle). The 16-bit guard
//! needs two of these for a line, the others four and eight: only it is summed so.
//!
//! Of short blocks, four are finished together: the last steps of one wait for one another. Their
//! bytes are read in order nevertheless, or the processor would not fetch them ahead from memory.
//! The contract of the functions is that of [`body`](super::body).

use super::body::{Crc16, Sum, step};
use super::run::Run;
use super::vector::{Affine, Vector, Xmm};
use crate::algebra::{CHUNK, LINE_WORDS, SHORT_LINES, T10_DIF, T10_DIF_MATRICES};
use std::marker::PhantomData;

/// By bit matrices, for guards of 16 bits.
pub(super) struct Lines<V>(PhantomData<V>);

/// From so many bytes on, the last steps of a block are hidden by the first ones of the next.
const LONG: usize = 1024;
/// Bytes of the blocks whose matrices stay in registers, if these are of the widest kind.
const SHORT: usize = SHORT_LINES * LINE_WORDS * 8;

impl<V: Affine> Sum for Lines<V> {
    type Code = Crc16;

    #[inline(always)]
    unsafe fn sum<const COPY: bool>(src: *const u8, dst: *mut u8, len: usize) -> Xmm {
        // Bytes that fill no whole line go in front: a line counts the lines after it. Four lines
        // are worth the matrices.
        let front = if len < 4 * V::BYTES { len } else { len % V::BYTES };
        // SAFETY: every access is at `front` or above and ends at `len` at most, or ends at `front`
        // at most; `src` and (if `COPY`) `dst` allow it by the contract. `constants` begins `len`
        // bytes before the end of its table.
        unsafe {
            let constants = T10_DIF.constants.as_ptr().cast::<u8>().add(CHUNK - len);
            let mut sum = Xmm::zero();
            let mut at = 0;
            while at < front {
                let (src, dst) = (src.add(at), dst.wrapping_add(at));
                sum = step::<Xmm, Crc16, COPY>(sum, src, dst, constants.add(at));
                at += Xmm::BYTES;
            }
            if at == len {
                return sum;
            }
            let (src, dst, len) = (src.add(at), dst.wrapping_add(at), len - at);
            // Low and high bytes are now two messages of one line, the second of which is to be
            // shifted by a byte.
            let (low, high) = lines::<V, COPY>(src, dst, len);
            let low_constants = V::load(T10_DIF.constants.as_ptr().cast::<u8>().add(CHUNK - V::BYTES));
            let high_constants = T10_DIF_MATRICES.high.as_ptr().cast::<u8>().add(64 - V::BYTES);
            let lines = V::zero().add_products(low.swap(), low_constants);
            sum.xor(lines.add_products(high.swap(), V::load(high_constants)).join())
        }
    }

    #[inline(always)]
    unsafe fn together<const COPY: bool>(run: &Run) -> usize {
        let len = run.len;
        // The start value of this guard is 0.
        if run.start != 0 || len < 4 * V::BYTES || len >= LONG || !len.is_multiple_of(V::BYTES) {
            return 0;
        }
        let whole = run.count - run.count % 4;
        for first in (0..whole).step_by(4) {
            // SAFETY: four blocks from `first` on are within the run.
            unsafe {
                let mut words = [V::zero(); 4];
                for (i, words) in (first..).zip(&mut words) {
                    let (src, dst) =
                        (run.src.add(i * run.src_pitch), run.dst.wrapping_add(i * run.dst_pitch));
                    *words = if len == SHORT && V::BYTES == LINE_WORDS * 8 {
                        short::<V, COPY>(src, dst)
                    } else {
                        let (low, high) = lines::<V, COPY>(src, dst, len);
                        folded(low, high, &maps())
                    };
                }
                finish(&words, run.registers.add(first));
            }
        }
        whole
    }
}

/// A line, which is copied if `COPY`.
#[inline(always)]
unsafe fn line<V: Vector, const COPY: bool>(src: *const u8, dst: *mut u8) -> V {
    // SAFETY: a register's worth of bytes by the contract.
    unsafe {
        let line = V::load(src);
        if COPY {
            line.store(dst);
        }
        line
    }
}

/// The maps of the words of a register.
#[inline(always)]
unsafe fn maps<V: Affine>() -> [V; 4] {
    // SAFETY: instructions by the contract.
    let mut maps = [unsafe { V::zero() }; 4];
    for (map, row) in maps.iter_mut().zip(&T10_DIF_MATRICES.words) {
        // SAFETY: a register of words, the last of the row.
        *map = unsafe { V::load(row[LINE_WORDS - V::BYTES / 8..].as_ptr().cast()) };
    }
    maps
}

/// The registers of four blocks, from words of low bytes and words of high bytes that are to be
/// summed.
#[inline(always)]
unsafe fn finish<V: Affine>(words: &[V; 4], registers: *mut u64) {
    // SAFETY: `registers` has four words; a register of `V` has at most eight.
    unsafe {
        let last = V::repeat(Xmm::load(T10_DIF_MATRICES.last.as_ptr().cast()));
        let factors = V::repeat(Xmm::load(T10_DIF.barrett.as_ptr().cast()));
        let lanes = V::BYTES / 16;
        for (i, words) in words.chunks_exact(lanes).enumerate() {
            // As `body::reduce`, for several blocks at a time.
            let sum = V::zero().add_products(V::join_each(words).swap(), last);
            let quotient = sum.xor(sum.high_by_low(factors));
            let rest = sum.xor(quotient.high_by_high(factors));
            let mut out = [0_u64; 8];
            rest.store(out.as_mut_ptr().cast());
            for lane in 0..lanes {
                registers.add(i * lanes + lane).write(out[2 * lane]);
            }
        }
    }
}

/// A block of [`SHORT`] bytes: in each part of 128 bits a word of low bytes and a word of high
/// bytes that are to be summed. `V` is of the widest registers.
#[inline(always)]
unsafe fn short<V: Affine, const COPY: bool>(src: *const u8, dst: *mut u8) -> V {
    // SAFETY: every access ends at `SHORT` at most; the matrices of a line are as long as a
    // register.
    unsafe {
        let (mut low, mut high) = (V::zero(), V::zero());
        for (i, [a, b]) in T10_DIF_MATRICES.short.as_chunks::<2>().0.iter().enumerate() {
            let [x, y] = [2 * i, 2 * i + 1]
                .map(|i| line::<V, COPY>(src.add(i * V::BYTES), dst.wrapping_add(i * V::BYTES)));
            let matrices = |of: &[u64; LINE_WORDS]| V::load(of.as_ptr().cast());
            low = low.xor3(x.times(matrices(&a[0])), y.times(matrices(&b[0])));
            high = high.xor3(x.times(matrices(&a[1])), y.times(matrices(&b[1])));
        }
        V::pair_words(low, high)
    }
}

/// The low bytes and the high bytes of a register's words, each folded into words that are to be
/// summed: in each part of 128 bits, low ones and high ones.
#[inline(always)]
unsafe fn folded<V: Affine>(low: V, high: V, maps: &[V; 4]) -> V {
    // SAFETY: instructions by the contract.
    unsafe {
        V::pair_words(
            low.times(maps[0]).xor(high.times(maps[2])),
            low.times(maps[1]).xor(high.times(maps[3])),
        )
    }
}

/// The low bytes and the high bytes of the sums of at least four lines.
#[inline(always)]
unsafe fn lines<V: Affine, const COPY: bool>(src: *const u8, dst: *mut u8, len: usize) -> (V, V) {
    // SAFETY: every access ends at `len` at most. `parts` begins as many parts before the end of
    // its table as there are in the lines.
    unsafe {
        let per_line = V::BYTES / 32;
        // Of the parts of a line, the last has the same bytes after it as the line.
        let first = (CHUNK - len) / 32 + per_line - 1;
        let mut parts = T10_DIF_MATRICES.parts.as_ptr().wrapping_add(first);
        let (mut low, mut high) = ([V::zero(); 2], [V::zero(); 2]);
        let mut at = 0;
        while at + 4 * V::BYTES <= len {
            let mut lines = [V::zero(); 4];
            for (u, here) in lines.iter_mut().enumerate() {
                let at = at + u * V::BYTES;
                *here = line::<V, COPY>(src.add(at), dst.wrapping_add(at));
            }
            for u in 0..2 {
                let [a, b] = [2 * u, 2 * u + 1].map(|line| parts.add(line * per_line).read());
                let (x, y) = (lines[2 * u], lines[2 * u + 1]);
                low[u] = low[u].xor3(x.times(V::broadcast(a[0])), y.times(V::broadcast(b[0])));
                high[u] = high[u].xor3(x.times(V::broadcast(a[1])), y.times(V::broadcast(b[1])));
            }
            parts = parts.wrapping_add(4 * per_line);
            at += 4 * V::BYTES;
        }
        while at < len {
            let line = line::<V, COPY>(src.add(at), dst.wrapping_add(at));
            let matrices = parts.read();
            low[0] = low[0].xor(line.times(V::broadcast(matrices[0])));
            high[0] = high[0].xor(line.times(V::broadcast(matrices[1])));
            parts = parts.wrapping_add(per_line);
            at += V::BYTES;
        }
        (low[0].xor(low[1]), high[0].xor(high[1]))
    }
}
