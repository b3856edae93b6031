//! `pumice bench parity`.
//!
//! # Method
//! All cases take turns in every round, in an order that changes from round to round; a case's
//! speed is the median over the rounds, its ratio to the plain read the median of the rounds' own
//! ratios. Time is the thread's processor time, so that other programs disturb only through the
//! caches. `l2` buffers fit a second-level cache of 1 MiB and are gone over until the clock can
//! tell; `dram` buffers are 1.5 GiB, and every turn takes another sixteenth of each, so that no
//! cache of any size holds them.

use super::scrub::median;
use crate::failure::Failure;
use crate::system::thread_seconds;
use crate::text::{print, print_json, table};
use clap::Args;
use pumice_buffer::AlignedBuffer;
use pumice_parity::gf;
use pumice_parity::isa::Isa;
use pumice_parity::kernels::Kernels;
use pumice_parity::matrix::Matrix;
use pumice_parity::planes::Planes;
use serde::Serialize;
use std::hint::black_box;
use std::process::ExitCode;

/// Streams: 22 data, P and Q.
const STREAMS: usize = 24;
/// Bytes of a stream in second-level cache.
const L2_STREAM: usize = 16 << 10;
/// Bytes of a stream in memory, and how much of it a turn takes.
const DRAM_STREAM: usize = 64 << 20;
const DRAM_TURN: usize = DRAM_STREAM / 16;
/// Streams do not begin on the same sets of a cache.
const SKEW: usize = 1792;
/// Seconds of a turn, at least.
const TURN: f64 = 0.002;
/// Bytes of a chunk, for the fingerprint.
const CHUNK: usize = 64 << 10;

/// Measures the parity kernels: GB/s (1e9 bytes) of source data on one core, beside a plain read of
/// the same memory.
#[derive(Debug, Args)]
pub(crate) struct ParityArgs {
    /// Only this instruction set: scalar, ssse3, avx2, avx2-gfni, avx512, neon
    #[arg(long)]
    isa: Option<Isa>,
    /// Only kernels whose name contains this (and the plain read)
    #[arg(long, value_name = "TEXT")]
    kernel: Option<String>,
    /// Rounds
    #[arg(long, default_value_t = 11, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
    /// Only buffers of this kind: l2 or dram
    #[arg(long, value_parser = ["l2", "dram"])]
    buffers: Option<String>,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Serialize)]
struct Document {
    machine: Machine,
    rounds: u32,
    cases: Vec<Case>,
}

#[derive(Debug, Serialize)]
struct Machine {
    cpu: String,
    cores: usize,
}

#[derive(Debug, Serialize)]
struct Case {
    kernel: String,
    isa: String,
    buffers: &'static str,
    gb_per_s: f64,
    /// To a plain read of the same buffers in the same order: side by side for what folds streams
    /// together, one stream after another for what takes each by itself ([`ONE_BY_ONE`]).
    ratio_to_read: f64,
    /// To a plain read one stream after another, whatever the kernel's order: the most that the
    /// memory gives.
    ratio_to_sequential_read: f64,
    /// How many times as fast our best kernel for the same work is, in the same rounds; of foreign
    /// libraries only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pumice_is_faster_by: Option<f64>,
}

/// Kernels that go through one stream after another; all others go through the streams side by
/// side.
const ONE_BY_ONE: [&str; 2] = ["read", "fingerprint_pq"];

/// One pass over the streams given; returns the source bytes that it went through.
type Turn<'w> = Box<dyn FnMut(&[&[u8]]) -> usize + 'w>;

/// A thing to measure: what it is called, and what does it once over the streams given. Returns
/// source bytes.
struct Candidate<'w> {
    kernel: &'static str,
    isa: String,
    /// Our kernel that does the same, for foreign libraries.
    ours: Option<&'static str>,
    turn: Turn<'w>,
}

/// Runs the command.
pub(crate) fn run(args: &ParityArgs) -> Result<ExitCode, Failure> {
    let sets: Vec<Kernels> = match args.isa {
        Some(isa) => vec![
            Kernels::with_isa(isa)
                .ok_or_else(|| Failure::new(format!("--isa: this processor has no {isa}")))?,
        ],
        None => Kernels::available(),
    };
    let mut cases = Vec::new();
    for buffers in ["l2", "dram"] {
        if args.buffers.as_deref().is_none_or(|only| only == buffers) {
            cases.extend(measure(args, &sets, buffers));
        }
    }
    if args.json {
        let cores = std::thread::available_parallelism().map_or(0, usize::from);
        print_json(&Document { machine: Machine { cpu: cpu_name(), cores }, rounds: args.rounds, cases });
    } else {
        print(&human(&cases));
    }
    Ok(ExitCode::SUCCESS)
}

fn cpu_name() -> String {
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let line = info.lines().find(|line| line.starts_with("model name"));
    line.and_then(|line| line.split_once(':')).map_or_else(String::new, |(_, name)| name.trim().to_owned())
}

/// Streams with consistent P and Q: data made up, parity generated.
fn streams(len: usize) -> AlignedBuffer {
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

fn measure(args: &ParityArgs, sets: &[Kernels], buffers: &'static str) -> Vec<Case> {
    let (len, window) = if buffers == "l2" { (L2_STREAM, L2_STREAM) } else { (DRAM_STREAM, DRAM_TURN) };
    let memory = streams(len);
    let pitch = len + SKEW;
    let mut candidates = candidates(sets, window);
    candidates.retain(|c| {
        c.kernel.starts_with("read") || args.kernel.as_ref().is_none_or(|k| c.kernel.contains(k.as_str()))
    });
    let mut speeds: Vec<Vec<f64>> = vec![Vec::new(); candidates.len()];
    let mut turn = 0;
    // The first round warms up and is not counted.
    for round in 0..=args.rounds as usize {
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
    let read = candidates.iter().rposition(|c| c.kernel == "read").expect("always a candidate");
    let streams = candidates.iter().rposition(|c| c.kernel == "read_streams").expect("always a candidate");
    let ratio = |a: usize, b: usize| median(speeds[a].iter().zip(&speeds[b]).map(|(a, b)| a / b).collect());
    candidates
        .iter()
        .enumerate()
        .map(|(i, candidate)| Case {
            kernel: candidate.kernel.to_owned(),
            isa: candidate.isa.clone(),
            buffers,
            gb_per_s: median(speeds[i].clone()),
            ratio_to_read: ratio(i, if ONE_BY_ONE.contains(&candidate.kernel) { read } else { streams }),
            ratio_to_sequential_read: ratio(i, read),
            pumice_is_faster_by: candidate.ours.and_then(|ours| {
                candidates.iter().rposition(|c| c.kernel == ours).map(|ours| ratio(ours, i))
            }),
        })
        .collect()
}

/// A Cauchy matrix: every coefficient another, none zero or one in most.
fn cauchy(rows: usize, columns: usize) -> Vec<u8> {
    let entry = |i: usize, j: usize| gf::inv((i ^ (rows + j)) as u8).expect("i and rows + j differ");
    (0..rows).flat_map(|i| (0..columns).map(move |j| entry(i, j))).collect()
}

fn candidates<'w>(sets: &[Kernels], window: usize) -> Vec<Candidate<'w>> {
    let mut out = Vec::new();
    for kernels in sets {
        of_set(*kernels, window, &mut out);
    }
    #[cfg(feature = "isal")]
    foreign(window, &mut out);
    out
}

fn of_set(k: Kernels, window: usize, out: &mut Vec<Candidate<'_>>) {
    let mut add = |kernel, turn: Turn<'static>| {
        out.push(Candidate { kernel, isa: k.isa().to_string(), ours: None, turn });
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
    for (name, rows, columns) in [("check_8x8", 8, 8), ("check_4x10", 4, 10), ("check_2x22", 2, 22)] {
        let matrix = Matrix::new(rows, columns, &cauchy(rows, columns)).expect("a small matrix");
        add(
            name,
            Box::new(move |s| {
                black_box(k.check(&matrix, &s[..columns], &s[columns..columns + rows]));
                (rows + columns) * window
            }),
        );
    }
    for (name, rows, columns) in
        [("encode_8x8", 8, 8), ("accumulate_1x8", 1, 8), ("accumulate_2x8", 2, 8), ("accumulate_4x8", 4, 8)]
    {
        let matrix = Matrix::new(rows, columns, &cauchy(rows, columns)).expect("a small matrix");
        let mut sums = vec![vec![0; window]; rows];
        add(
            name,
            Box::new(move |s| {
                let mut views: Vec<&mut [u8]> = sums.iter_mut().map(Vec::as_mut_slice).collect();
                if name == "encode_8x8" {
                    k.generate(&matrix, &s[..columns], &mut views);
                } else {
                    k.accumulate(&matrix, &s[..columns], &mut views);
                }
                columns * window
            }),
        );
    }
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
}

#[cfg(feature = "isal")]
fn foreign(window: usize, out: &mut Vec<Candidate<'_>>) {
    use super::isal;
    let isa = || "isa-l".to_owned();
    let turn = Box::new(move |s: &[&[u8]]| {
        black_box(isal::check_pq(s));
        STREAMS * window
    });
    out.push(Candidate { kernel: "isal_pq_check", isa: isa(), ours: Some("pq_check"), turn });
    let mut encoder = isal::Encoder::new(8, 8, &cauchy(8, 8), window);
    let turn = Box::new(move |s: &[&[u8]]| {
        black_box(encoder.check(&s[..8], &s[8..16]));
        16 * window
    });
    out.push(Candidate { kernel: "isal_encode_compare_8x8", isa: isa(), ours: Some("check_8x8"), turn });
}

fn human(cases: &[Case]) -> String {
    let mut rows = vec![
        ["kernel", "isa", "buffers", "GB/s", "of a plain read", "of a sequential one", "ours is"]
            .map(str::to_owned)
            .to_vec(),
    ];
    for case in cases {
        rows.push(vec![
            case.kernel.clone(),
            case.isa.clone(),
            case.buffers.to_owned(),
            format!("{:.1}", case.gb_per_s),
            format!("{:.0} %", case.ratio_to_read * 100.0),
            format!("{:.0} %", case.ratio_to_sequential_read * 100.0),
            case.pumice_is_faster_by.map_or_else(String::new, |by| format!("{by:.2} x")),
        ]);
    }
    table(&rows)
}
