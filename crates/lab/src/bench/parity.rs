//! `pumice-lab bench parity`.
//!
//! The method is that of `pumice::bench::kernels`. `l2` buffers fit a second-level cache of 1 MiB
//! and are gone over until the clock can tell; `dram` buffers are 1.5 GiB, and every turn takes
//! another sixteenth of each, so that no cache of any size holds them.

use clap::Args;
use pumice::bench::kernels::{Candidate, Plain, ratio, speeds, streams};
use pumice::bench::{kernels, median};
use pumice::text::{print, print_json, table};
use pumice_parity::gf;
use pumice_parity::isa::Isa;
use pumice_parity::kernels::Kernels;
use pumice_parity::matrix::Matrix;
use pumice_service::failure::Failure;
use serde::Serialize;
use std::hint::black_box;
use std::process::ExitCode;

/// Bytes of a stream in second-level cache.
const L2_STREAM: usize = 16 << 10;
/// Bytes of a stream in memory, and how much of it a turn takes.
const DRAM_STREAM: usize = 64 << 20;
const DRAM_TURN: usize = DRAM_STREAM / 16;

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
    /// together, one stream after another for what takes each by itself.
    ratio_to_read: f64,
    /// To a plain read one stream after another, whatever the kernel's order: the most that the
    /// memory gives.
    ratio_to_sequential_read: f64,
    /// Factor by which our best kernel for the same work is faster, in the same rounds; of foreign
    /// libraries only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pumice_is_faster_by: Option<f64>,
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

fn measure(args: &ParityArgs, sets: &[Kernels], buffers: &'static str) -> Vec<Case> {
    let (len, window) = if buffers == "l2" { (L2_STREAM, L2_STREAM) } else { (DRAM_STREAM, DRAM_TURN) };
    let memory = streams(len);
    let mut candidates = candidates(sets, window);
    candidates.retain(|c| {
        c.kernel.starts_with("read") || args.kernel.as_ref().is_none_or(|k| c.kernel.contains(k.as_str()))
    });
    let speeds = speeds(&mut candidates, &memory, (len, window), args.rounds);
    let plain = Plain::of(&candidates);
    let of = |i: usize, candidate: &Candidate<'_>| Case {
        kernel: candidate.kernel.to_owned(),
        isa: candidate.isa.clone(),
        buffers,
        gb_per_s: median(speeds[i].clone()),
        ratio_to_read: ratio(&speeds[i], &speeds[plain.beside(candidate.kernel)]),
        ratio_to_sequential_read: ratio(&speeds[i], &speeds[plain.read]),
        pumice_is_faster_by: ours(candidate.kernel).and_then(|ours| {
            let ours = candidates.iter().rposition(|c| c.kernel == ours)?;
            Some(ratio(&speeds[ours], &speeds[i]))
        }),
    };
    candidates.iter().enumerate().map(|(i, candidate)| of(i, candidate)).collect()
}

/// Our kernel that does the work of a foreign library's.
fn ours(kernel: &str) -> Option<&'static str> {
    match kernel {
        "isal_pq_check" => Some("pq_check"),
        "isal_encode_compare_8x8" => Some("check_8x8"),
        _ => None,
    }
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

fn of_set<'w>(k: Kernels, window: usize, out: &mut Vec<Candidate<'w>>) {
    let mut of_scrubs = kernels::candidates(k, window);
    let fingerprint = of_scrubs.pop();
    out.append(&mut of_scrubs);
    let mut add = |kernel, turn: kernels::Turn<'w>| {
        out.push(Candidate { kernel, isa: k.isa().to_string(), turn });
    };
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
    out.extend(fingerprint);
}

#[cfg(feature = "isal")]
fn foreign(window: usize, out: &mut Vec<Candidate<'_>>) {
    use super::isal;
    let isa = || "isa-l".to_owned();
    let turn = Box::new(move |s: &[&[u8]]| {
        black_box(isal::check_pq(s));
        s.iter().map(|stream| stream.len()).sum()
    });
    out.push(Candidate { kernel: "isal_pq_check", isa: isa(), turn });
    let mut encoder = isal::Encoder::new(8, 8, &cauchy(8, 8), window);
    let turn = Box::new(move |s: &[&[u8]]| {
        black_box(encoder.check(&s[..8], &s[8..16]));
        16 * window
    });
    out.push(Candidate { kernel: "isal_encode_compare_8x8", isa: isa(), turn });
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
