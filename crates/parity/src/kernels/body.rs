//! The kernels, once for all instruction sets.
//!
//! # How the loops are shaped
//! Sources are walked *vertically*: a few registers' worth of every source, then the next place. So
//! each byte is read once, accumulators stay in registers, and a check writes nothing. `UNROLL`
//! registers of a source are taken at a time. Many streams of a processor's prefetcher are not
//! enough for 24 sources, so each line is asked for [`AHEAD`] bytes before it is needed.
//!
//! # Q by Horner
//! `Q = d0 + 2*d1 + 4*d2 + ...` is `d0 + 2*(d1 + 2*(d2 + ...))`, from the last source to the first.
//! Two steps at once, `q = 4q + 2*b + a`, halve the chain of dependent instructions, and all of
//! them multiply by the constants 2 and 4.
//!
//! # Contract of every function here
//! Pointers in `sources`, `stored` and `outputs` are valid for `len` bytes; outputs overlap
//! nothing. The processor has the instructions of `V`. Functions cover the largest multiple of
//! `V::BYTES` not above `len` and return how far they came; the caller does the tail.

#![expect(clippy::needless_range_loop, reason = "registers of several arrays are walked in step, by number")]

use super::vector::Vector;
use crate::matrix::Coefficient;

/// Bytes between the place that is folded and the place that is asked for.
const AHEAD: usize = 256;

/// Uses of folded rows.
pub(super) mod mode {
    /// Written to the outputs.
    pub(in super::super) const GENERATE: u8 = 0;
    /// Added to the outputs.
    pub(in super::super) const ACCUMULATE: u8 = 1;
    /// Compared with what is stored.
    pub(in super::super) const CHECK: u8 = 2;
    /// Compared with zero.
    pub(in super::super) const CHECK_ZERO: u8 = 3;
}

/// Asks for the lines of `UNROLL` registers, [`AHEAD`] of `at`.
#[inline(always)]
unsafe fn ask<V: Vector, const UNROLL: usize>(at: *const u8) {
    let mut line = 0;
    while line < UNROLL * V::BYTES {
        // SAFETY: instructions by the contract; the address is never followed.
        unsafe { V::prefetch(at.wrapping_add(AHEAD + line)) };
        line += 64;
    }
}

/// P and Q of `data` into `p` and `q` (generate), or compared with them. Returns how far it came,
/// and which rows differ.
#[inline(always)]
pub(super) unsafe fn pq<V: Vector, const UNROLL: usize, const CHECK: bool>(
    data: &[*const u8],
    p: *mut u8,
    q: *mut u8,
    len: usize,
) -> (usize, u8) {
    // SAFETY: by the contract, `data`, `p` and `q` are valid for `len` bytes, and every access is
    // at an offset below `at + UNROLL * BYTES` with that sum at most `len`; `q` is written only
    // when generating.
    unsafe {
        let (mut bad_p, mut bad_q) = (V::zero(), V::zero());
        let mut at = 0;
        while at + UNROLL * V::BYTES <= len {
            let mut sp = [V::zero(); UNROLL];
            let mut sq = [V::zero(); UNROLL];
            if CHECK {
                ask::<V, UNROLL>(p.add(at));
                ask::<V, UNROLL>(q.add(at));
                for u in 0..UNROLL {
                    sp[u] = V::load(p.add(at + u * V::BYTES));
                }
            }
            let mut i = data.len();
            if i % 2 == 1 {
                i -= 1;
                let a = *data.get_unchecked(i);
                ask::<V, UNROLL>(a.add(at));
                for u in 0..UNROLL {
                    let x = V::load(a.add(at + u * V::BYTES));
                    sp[u] = sp[u].xor(x);
                    sq[u] = x;
                }
            }
            while i > 0 {
                i -= 2;
                let (a, b) = (*data.get_unchecked(i), *data.get_unchecked(i + 1));
                ask::<V, UNROLL>(a.add(at));
                ask::<V, UNROLL>(b.add(at));
                for u in 0..UNROLL {
                    let x = V::load(a.add(at + u * V::BYTES));
                    let y = V::load(b.add(at + u * V::BYTES));
                    sp[u] = sp[u].xor3(x, y);
                    sq[u] = sq[u].quadruple().xor3(y.double(), x);
                }
            }
            for u in 0..UNROLL {
                if CHECK {
                    bad_p = bad_p.or(sp[u]);
                    bad_q = bad_q.or(sq[u].xor(V::load(q.add(at + u * V::BYTES))));
                } else {
                    sp[u].store(p.add(at + u * V::BYTES));
                    sq[u].store(q.add(at + u * V::BYTES));
                }
            }
            at += UNROLL * V::BYTES;
        }
        (at, u8::from(!bad_p.is_zero()) | u8::from(!bad_q.is_zero()) << 1)
    }
}

/// The XOR of all sources into `out`, or (with `out` null) whether it is not zero.
#[inline(always)]
pub(super) unsafe fn xor<V: Vector, const UNROLL: usize, const CHECK: bool>(
    sources: &[*const u8],
    out: *mut u8,
    len: usize,
) -> (usize, bool) {
    // SAFETY: by the contract, every access is within `len` bytes of a valid pointer; `out` is
    // touched only when generating.
    unsafe {
        let mut bad = V::zero();
        let mut at = 0;
        while at + UNROLL * V::BYTES <= len {
            let mut sum = [V::zero(); UNROLL];
            let mut i = 0;
            if sources.len() % 2 == 1 {
                let a = *sources.get_unchecked(0);
                ask::<V, UNROLL>(a.add(at));
                for u in 0..UNROLL {
                    sum[u] = V::load(a.add(at + u * V::BYTES));
                }
                i = 1;
            }
            while i < sources.len() {
                let (a, b) = (*sources.get_unchecked(i), *sources.get_unchecked(i + 1));
                ask::<V, UNROLL>(a.add(at));
                ask::<V, UNROLL>(b.add(at));
                for u in 0..UNROLL {
                    sum[u] =
                        sum[u].xor3(V::load(a.add(at + u * V::BYTES)), V::load(b.add(at + u * V::BYTES)));
                }
                i += 2;
            }
            for u in 0..UNROLL {
                if CHECK {
                    bad = bad.or(sum[u]);
                } else {
                    sum[u].store(out.add(at + u * V::BYTES));
                }
            }
            at += UNROLL * V::BYTES;
        }
        (at, !bad.is_zero())
    }
}

/// `ROWS` weighted sums of all sources. `coefficients` are column after column. Returns how far it
/// came, and (when checking) which rows differ.
#[inline(always)]
pub(super) unsafe fn dot<V: Vector, const ROWS: usize, const UNROLL: usize, const MODE: u8>(
    coefficients: &[Coefficient],
    sources: &[*const u8],
    outputs: &[*mut u8],
    len: usize,
) -> (usize, u8) {
    // SAFETY: by the contract, every access is within `len` bytes of a valid pointer.
    // `coefficients` has ROWS entries a source and `outputs` ROWS entries (none when checking
    // against zero): the dispatcher asserts that.
    unsafe {
        let mut bad = [V::zero(); ROWS];
        let mut at = 0;
        while at + UNROLL * V::BYTES <= len {
            let mut sum = [[V::zero(); UNROLL]; ROWS];
            if MODE == mode::ACCUMULATE || MODE == mode::CHECK {
                for r in 0..ROWS {
                    let out = *outputs.get_unchecked(r);
                    ask::<V, UNROLL>(out.add(at));
                    for u in 0..UNROLL {
                        sum[r][u] = V::load(out.add(at + u * V::BYTES));
                    }
                }
            }
            let mut i = 0;
            while i + 1 < sources.len() {
                let (a, b) = (*sources.get_unchecked(i), *sources.get_unchecked(i + 1));
                ask::<V, UNROLL>(a.add(at));
                ask::<V, UNROLL>(b.add(at));
                let mut x = [V::zero(); UNROLL];
                let mut y = [V::zero(); UNROLL];
                for u in 0..UNROLL {
                    x[u] = V::load(a.add(at + u * V::BYTES));
                    y[u] = V::load(b.add(at + u * V::BYTES));
                }
                for r in 0..ROWS {
                    let fa = V::factor(coefficients.get_unchecked(i * ROWS + r));
                    let fb = V::factor(coefficients.get_unchecked((i + 1) * ROWS + r));
                    for u in 0..UNROLL {
                        sum[r][u] = sum[r][u].xor3(x[u].times(fa), y[u].times(fb));
                    }
                }
                i += 2;
            }
            if i < sources.len() {
                let a = *sources.get_unchecked(i);
                ask::<V, UNROLL>(a.add(at));
                for r in 0..ROWS {
                    let fa = V::factor(coefficients.get_unchecked(i * ROWS + r));
                    for u in 0..UNROLL {
                        sum[r][u] = sum[r][u].xor(V::load(a.add(at + u * V::BYTES)).times(fa));
                    }
                }
            }
            for r in 0..ROWS {
                for u in 0..UNROLL {
                    if MODE == mode::GENERATE || MODE == mode::ACCUMULATE {
                        sum[r][u].store(outputs.get_unchecked(r).add(at + u * V::BYTES));
                    } else {
                        bad[r] = bad[r].or(sum[r][u]);
                    }
                }
            }
            at += UNROLL * V::BYTES;
        }
        let mut mask = 0;
        for (r, bad) in bad.iter().enumerate() {
            mask |= u8::from(!bad.is_zero()) << r;
        }
        (at, mask)
    }
}

/// Reads every whole register of `data`, and nothing else: no prefetch, one accumulator in four.
/// Returns how far it came, and whether any byte is not zero.
#[inline(always)]
pub(super) unsafe fn read<V: Vector>(data: &[u8]) -> (usize, bool) {
    let mut at = 0;
    // SAFETY: every load ends within `data`.
    unsafe {
        let mut sum = [V::zero(); 4];
        while at + 4 * V::BYTES <= data.len() {
            for (u, sum) in sum.iter_mut().enumerate() {
                *sum = sum.or(V::load(data.as_ptr().add(at + u * V::BYTES)));
            }
            at += 4 * V::BYTES;
        }
        (at, !sum[0].or(sum[1]).or(sum[2].or(sum[3])).is_zero())
    }
}

/// Reads every whole register of all sources, vertically as the folds do, and nothing else: no
/// prefetch, no arithmetic but an OR.
#[inline(always)]
pub(super) unsafe fn read_streams<V: Vector, const UNROLL: usize>(sources: &[*const u8], len: usize) -> bool {
    // SAFETY: by the contract, every access is within `len` bytes of a valid pointer.
    unsafe {
        let mut sum = [V::zero(); UNROLL];
        let mut at = 0;
        while at + UNROLL * V::BYTES <= len {
            for source in sources {
                for u in 0..UNROLL {
                    sum[u] = sum[u].or(V::load(source.add(at + u * V::BYTES)));
                }
            }
            at += UNROLL * V::BYTES;
        }
        sum.iter().any(|register| !register.is_zero())
    }
}

/// The first register of `data` from the front that is not zero, as a byte offset; `None` if all
/// whole registers are zero.
#[inline(always)]
pub(super) unsafe fn first_nonzero<V: Vector>(data: &[u8]) -> Option<usize> {
    let mut at = 0;
    // SAFETY: every load ends within `data`.
    unsafe {
        while at + 4 * V::BYTES <= data.len() {
            let p = data.as_ptr().add(at);
            let (a, b) = (V::load(p), V::load(p.add(V::BYTES)));
            let (c, d) = (V::load(p.add(2 * V::BYTES)), V::load(p.add(3 * V::BYTES)));
            if !a.or(b).or(c.or(d)).is_zero() {
                return Some(at);
            }
            at += 4 * V::BYTES;
        }
    }
    data[at..].iter().position(|byte| *byte != 0).map(|i| at + i)
}
