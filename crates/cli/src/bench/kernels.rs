//! The speed of kernels beside a plain read of the same memory.
//!
//! # Method
//! All kernels take turns in every round, in an order that changes from round to round; a kernel's
//! speed is the median over the rounds, its ratio to the plain read the median of the rounds' own
//! ratios. Time is the thread's processor time, so that other programs disturb only through the
//! caches.

use super::median;
use crate::system::thread_seconds;
use pumice_base::buffer::AlignedBuffer;
use pumice_parity::gf;
use pumice_parity::kernels::Kernels;
use pumice_parity::planes::Planes;
use std::hint::black_box;

/// Streams: 22 data, P and Q.
pub const STREAMS: usize = 24;
/// Streams do not begin on the same sets of a cache.
const SKEW: usize = 1792;
/// Seconds of a turn, at least.
const TURN: f64 = 0.002;
/// Bytes of a chunk, for the fingerprint.
const CHUNK: usize = 64 << 10;
/// Kernels that go through one stream after another; all others go through the streams side by
/// side.
const ONE_BY_ONE: [&str; 5] = ["read", "fingerprint_pq", "crc16", "crc32c", "crc64"];

/// One pass over the streams given; returns the source bytes that it went through.
pub type Turn<'w> = Box<dyn FnMut(&[&[u8]]) -> usize + 'w>;

/// A kernel to measure.
pub struct Candidate<'w> {
    /// Its name.
    pub kernel: &'static str,
    /// The instruction set that it uses.
    pub isa: String,
    /// Its work.
    pub turn: Turn<'w>,
}

/// The plain reads among candidates.
#[derive(Debug, Clone, Copy)]
pub struct Plain {
    /// The place of the read of one stream after another.
    pub read: usize,
    streams: usize,
}

impl Plain {
    /// Finds them: those of the last instruction set.
    ///
    /// # Panics
    /// If a read is not among them.
    #[must_use]
    pub fn of(candidates: &[Candidate<'_>]) -> Self {
        let find = |name| {
            candidates.iter().rposition(|candidate| candidate.kernel == name).expect("always a candidate")
        };
        Self { read: find("read"), streams: find("read_streams") }
    }

    /// The place of the read that goes through the streams in the order of this kernel.
    #[must_use]
    pub fn beside(&self, kernel: &str) -> usize {
        if ONE_BY_ONE.contains(&kernel) { self.read } else { self.streams }
    }
}

/// The median of the ratios of one candidate's speeds to another's, round by round.
#[must_use]
pub fn ratio(one: &[f64], other: &[f64]) -> f64 {
    median(one.iter().zip(other).map(|(one, other)| one / other).collect())
}

/// Memory for [`STREAMS`] streams of `len` bytes with consistent P and Q: data made up, parity
/// generated.
#[must_use]
pub fn streams(len: usize) -> AlignedBuffer {
    let pitch = len + SKEW;
    let mut memory = AlignedBuffer::new(STREAMS * pitch);
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    for word in memory.chunks_exact_mut(8) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        word.copy_from_slice(&state.to_le_bytes());
    }
    let (data, parity) = memory.split_at_mut((STREAMS - 2) * pitch);
    let data: Vec<&[u8]> = data.chunks_exact(pitch).map(|stream| &stream[..len]).collect();
    let (p, q) = parity.split_at_mut(pitch);
    Kernels::best().pq_generate(&data, &mut p[..len], &mut q[..len]);
    memory
}

/// The speeds of candidates, for each its GB/s in each of `rounds` rounds. `memory` has the streams
/// of `len` bytes that [`streams`] made; a turn takes `window` bytes of each, and the next turn
/// other ones.
#[must_use]
pub fn speeds(
    candidates: &mut [Candidate<'_>],
    memory: &AlignedBuffer,
    (len, window): (usize, usize),
    rounds: u32,
) -> Vec<Vec<f64>> {
    let pitch = len + SKEW;
    let mut speeds: Vec<Vec<f64>> = vec![Vec::new(); candidates.len()];
    let mut turn = 0;
    // The first round warms up and is not counted.
    for round in 0..=rounds as usize {
        for step in 0..candidates.len() {
            let which = (step * 7 + round * 3) % candidates.len();
            let which =
                if candidates.len().is_multiple_of(7) { (step + round) % candidates.len() } else { which };
            let (mut bytes, began) = (0, thread_seconds());
            let seconds = loop {
                let start = turn * window % len;
                turn += 1;
                let views: Vec<&[u8]> =
                    (0..STREAMS).map(|s| &memory[s * pitch + start..s * pitch + start + window]).collect();
                bytes += (candidates[which].turn)(&views);
                let seconds = thread_seconds() - began;
                if seconds >= TURN {
                    break seconds;
                }
            };
            if round > 0 {
                speeds[which].push(bytes as f64 / seconds / 1e9);
            }
        }
    }
    speeds
}

/// The kernels of a scrub on one instruction set, and plain reads; `window` is the bytes of a
/// stream that a turn takes.
#[must_use]
pub fn candidates(k: Kernels, window: usize) -> Vec<Candidate<'static>> {
    let mut out = Vec::new();
    let mut add = |kernel, turn: Turn<'static>| {
        out.push(Candidate { kernel, isa: k.isa().to_string(), turn });
    };
    let all = STREAMS * window;
    let data = STREAMS - 2;
    add(
        "read",
        Box::new(move |s| {
            s.iter().for_each(|stream| {
                black_box(k.read(stream));
            });
            all
        }),
    );
    add(
        "read_streams",
        Box::new(move |s| {
            black_box(k.read_streams(s));
            all
        }),
    );
    add(
        "xor_check",
        Box::new(move |s| {
            black_box(k.xor_check(s));
            all
        }),
    );
    add(
        "pq_check",
        Box::new(move |s| {
            assert!(k.pq_check(&s[..data], s[data], s[data + 1]).is_zero(), "the streams are consistent");
            all
        }),
    );
    let (mut p, mut q) = (vec![0; window], vec![0; window]);
    add(
        "pq_generate",
        Box::new(move |s| {
            k.pq_generate(&s[..data], &mut p, &mut q);
            data * window
        }),
    );
    let keys: Vec<u64> = (1..=CHUNK as u64 / 64).map(|i| i.wrapping_mul(0x9E37_79B9_7F4A_7C15)).collect();
    add(
        "fingerprint_pq",
        Box::new(move |s| {
            let mut rows = [Planes::ZERO; 2];
            for (slot, stream) in s.iter().enumerate() {
                for chunk in stream.chunks(CHUNK) {
                    let hash = k.fingerprint(&keys, chunk);
                    rows[0].add(&hash);
                    rows[1].add(&hash.scaled(gf::exp(slot)));
                }
            }
            black_box(rows);
            all
        }),
    );
    out
}
