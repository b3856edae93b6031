//! The 16-bit guard by bit matrices (GFNI).
//!
//! Carry-less products are slow on some processors (Zen 4: two cycles for a register, and each
//! register needs two), products of bytes and bit matrices are not (one cycle). The 16-bit guard
//! needs two of these for a line, the others four and eight: only it is summed so.
//!
//! Four lines of the same number share their matrices: loading these would take longer than the
//! products. They are the lines of four short blocks, or the four quarters of a wide line of a long
//! block. The contract of the functions is that of [`body`](super::body).

use super::body::{Crc16, Sum, step};
use super::run::Run;
use super::vector::{Affine, Vector, Xmm};
use crate::algebra::{CHUNK, LINE_WORDS, T10_DIF, T10_DIF_MATRICES};
use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
use std::marker::PhantomData;

/// By bit matrices, for guards of 16 bits.
pub(super) struct Lines<V>(PhantomData<V>);

/// From so many bytes on, a block is summed by wide lines.
const LONG: usize = 1024;

/// The low bytes and the high bytes of the sums of four columns.
struct Columns<V> {
    low: [V; 4],
    high: [V; 4],
}

impl<V: Affine> Sum for Lines<V> {
    type Code = Crc16;

    #[inline(always)]
    unsafe fn sum<const COPY: bool>(src: *const u8, dst: *mut u8, len: usize) -> Xmm {
        // What is no whole line goes in front: a line counts the lines after it.
        let rest = len % (4 * V::BYTES);
        let wide = len >= LONG && rest <= V::BYTES;
        let front = match wide {
            true => rest,
            // Four lines are worth the matrices.
            false if len < 4 * V::BYTES => len,
            false => len % V::BYTES,
        };
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
            sum.xor(if wide { long::<V, COPY>(src, dst, len) } else { short::<V, COPY>(src, dst, len) })
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
                let src = std::array::from_fn(|i| run.src.add((first + i) * run.src_pitch));
                let dst = std::array::from_fn(|i| run.dst.wrapping_add((first + i) * run.dst_pitch));
                let more = first + 4 < whole;
                let next = if more { src[3].add(run.src_pitch) } else { std::ptr::null() };
                let columns = columns::<V, COPY>(src, dst, V::BYTES, len / V::BYTES, next);
                finish(&columns, run.registers.add(first));
            }
        }
        whole
    }
}

/// The sums of four columns of `lines` lines each, `step` bytes apart: at least one.
///
/// As many bytes from `next` on are fetched meanwhile, unless it is null. In their order: four
/// columns of short lines are no stream that the processor notices by itself.
#[inline(always)]
unsafe fn columns<V: Affine, const COPY: bool>(
    src: [*const u8; 4],
    dst: [*mut u8; 4],
    step: usize,
    lines: usize,
    mut next: *const u8,
) -> Columns<V> {
    let parts = step / 32;
    // SAFETY: by the contract each column has its lines. The map of a line is that of its last
    // part: there are as many maps before the end of their table as there are parts after it.
    unsafe {
        let mut map = T10_DIF_MATRICES.parts.as_ptr().add(CHUNK / 32 - 1 - (lines - 1) * parts);
        let (mut low, mut high) = ([V::zero(); 4], [V::zero(); 4]);
        let mut at = 0;
        for _ in 0..lines / 2 {
            let (a, b) = (map.read(), map.add(parts).read());
            let (a, b) = ([V::broadcast(a[0]), V::broadcast(a[1])], [V::broadcast(b[0]), V::broadcast(b[1])]);
            for column in 0..4 {
                let (src, dst) = (src[column].add(at), dst[column].wrapping_add(at));
                if !next.is_null() {
                    for _ in 0..(2 * step).div_ceil(64) {
                        fetch(next);
                        next = next.wrapping_add(64);
                    }
                }
                let (x, y) =
                    (line::<V, COPY>(src, dst), line::<V, COPY>(src.add(step), dst.wrapping_add(step)));
                low[column] = low[column].xor3(x.times(a[0]), y.times(b[0]));
                high[column] = high[column].xor3(x.times(a[1]), y.times(b[1]));
            }
            map = map.wrapping_add(2 * parts);
            at += 2 * step;
        }
        if lines % 2 == 1 {
            let a = map.read();
            for column in 0..4 {
                let x = line::<V, COPY>(src[column].add(at), dst[column].wrapping_add(at));
                low[column] = low[column].xor(x.times(V::broadcast(a[0])));
                high[column] = high[column].xor(x.times(V::broadcast(a[1])));
            }
        }
        Columns { low, high }
    }
}

/// Brings a line into the caches while other work goes on.
#[inline(always)]
fn fetch(line: *const u8) {
    // SAFETY: every processor of this architecture has SSE. The instruction changes nothing that a
    // program can see, whatever the address.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(line.cast()) };
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

/// The maps of the words of a register with `after` words after it.
#[inline(always)]
unsafe fn maps<V: Affine>(after: usize) -> [V; 4] {
    let first = LINE_WORDS - after - V::BYTES / 8;
    // SAFETY: instructions by the contract.
    let mut maps = [unsafe { V::zero() }; 4];
    for (map, row) in maps.iter_mut().zip(&T10_DIF_MATRICES.words) {
        // SAFETY: a register of words from `first` on is within the row.
        *map = unsafe { V::load(row[first..].as_ptr().cast()) };
    }
    maps
}

/// The registers of four blocks, which are the columns.
#[inline(always)]
unsafe fn finish<V: Affine>(columns: &Columns<V>, registers: *mut u64) {
    // SAFETY: `registers` has four words; a register of `V` has at most eight.
    unsafe {
        let maps = maps::<V>(0);
        let last = V::repeat(Xmm::load(T10_DIF_MATRICES.last.as_ptr().cast()));
        let factors = V::repeat(Xmm::load(T10_DIF.barrett.as_ptr().cast()));
        let mut words = [V::zero(); 4];
        for (words, (low, high)) in words.iter_mut().zip(columns.low.iter().zip(&columns.high)) {
            *words = folded(*low, *high, &maps);
        }
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

/// The sum for a message of wide lines: a multiple of four registers.
#[inline(always)]
unsafe fn long<V: Affine, const COPY: bool>(src: *const u8, dst: *mut u8, len: usize) -> Xmm {
    // SAFETY: the four columns of all wide lines are the message.
    unsafe {
        let src = std::array::from_fn(|column| src.add(column * V::BYTES));
        let dst = std::array::from_fn(|column| dst.wrapping_add(column * V::BYTES));
        let columns = columns::<V, COPY>(src, dst, 4 * V::BYTES, len / (4 * V::BYTES), std::ptr::null());
        let mut words = V::zero();
        for column in 0..4 {
            let maps = maps::<V>((3 - column) * V::BYTES / 8);
            words = words.xor(folded(columns.low[column], columns.high[column], &maps));
        }
        let last = Xmm::load(T10_DIF_MATRICES.last.as_ptr().cast());
        Xmm::zero().add_products(words.join().swap(), last)
    }
}

/// The sum for a message of at least four lines.
#[inline(always)]
unsafe fn short<V: Affine, const COPY: bool>(src: *const u8, dst: *mut u8, len: usize) -> Xmm {
    // SAFETY: every access ends at `len` at most. `parts` begins as many parts before the end of
    // its table as there are in the lines; `high` and the end of the constants hold 64 bytes.
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
        // Low and high bytes are now two messages of one line, the second of which is to be
        // shifted by a byte.
        let table = T10_DIF.constants.as_ptr().cast::<u8>();
        let low_constants = V::load(table.add(CHUNK - V::BYTES));
        let high_constants = V::load(T10_DIF_MATRICES.high.as_ptr().cast::<u8>().add(64 - V::BYTES));
        V::zero()
            .add_products(low[0].xor(low[1]).swap(), low_constants)
            .add_products(high[0].xor(high[1]).swap(), high_constants)
            .join()
    }
}
