//! `pumice-lab bench guards`.
//!
//! # Method
//! All cases take turns in every round; a case's speed is the median over the rounds, its ratio to
//! a copy of the same bytes the median of the rounds' own ratios. Time is the thread's processor
//! time, so that other programs disturb only through the caches. `hot` buffers are 4 KiB, `l2` 128
//! KiB, `dram` 256 MiB, of which each turn takes other parts.

use clap::Args;
use pumice::bench::median;
use pumice::system::thread_seconds;
use pumice::text::{print, print_json, table};
use pumice_base::buffer::AlignedBuffer;
use pumice_protect::command::{Prchk, Tags};
use pumice_protect::format::{Format, Place, Type};
use pumice_protect::guard::Guard;
use pumice_protect::isa::Isa;
use pumice_protect::kernels::{Kernels, Spacing};
use pumice_protect::stream::{CheckStream, MakeStream};
use pumice_service::failure::Failure;
use serde::Serialize;
use std::hint::black_box;
use std::process::ExitCode;

/// Kinds of buffers: name, bytes, and bytes that a pass takes of them.
const BUFFERS: [(&str, usize, usize); 3] =
    [("hot", 4 << 10, 4 << 10), ("l2", 128 << 10, 128 << 10), ("dram", 256 << 20, 1 << 20)];
/// Seconds of a turn, at least.
const TURN: f64 = 0.001;
/// Source and target do not begin on the same sets of a cache.
const SKEW: usize = 1792;

/// Measures the guards of protection information and NVMe/TCP digests, and streams that insert and
/// strip tuples: GB/s (1e9 bytes) of data on one core, beside a copy of the same bytes
#[derive(Debug, Args)]
pub(crate) struct GuardsArgs {
    /// Only this instruction set: scalar, sse, avx2, avx2-gfni, avx512
    #[arg(long)]
    isa: Option<Isa>,
    /// Only cases whose name contains this (and the plain copy)
    #[arg(long, value_name = "TEXT")]
    case: Option<String>,
    /// Rounds
    #[arg(long, default_value_t = 11, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
    /// Only buffers of this kind: hot, l2 or dram
    #[arg(long, value_parser = ["hot", "l2", "dram"])]
    buffers: Option<String>,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Serialize)]
struct Document {
    rounds: u32,
    cases: Vec<Case>,
}

#[derive(Debug, Serialize)]
struct Case {
    case: String,
    isa: String,
    buffers: &'static str,
    gb_per_s: f64,
    /// Nanoseconds for 4 KiB of data.
    ns_per_4_kib: f64,
    /// To a copy of the same bytes.
    ratio_to_copy: f64,
}

/// One pass over data of whole blocks of 4 KiB; the target has room for extended blocks.
type Pass<'w> = Box<dyn FnMut(&[u8], &mut [u8]) + 'w>;

struct Candidate<'w> {
    case: String,
    isa: String,
    pass: Pass<'w>,
}

/// Runs the command.
pub(crate) fn run(args: &GuardsArgs) -> Result<ExitCode, Failure> {
    let sets: Vec<Kernels> = match args.isa {
        Some(isa) => vec![
            Kernels::with_isa(isa)
                .ok_or_else(|| Failure::new(format!("--isa: this processor has no {isa}")))?,
        ],
        None => Kernels::available(),
    };
    let mut cases = Vec::new();
    for (name, bytes, window) in BUFFERS {
        if args.buffers.as_deref().is_none_or(|only| only == name) {
            cases.extend(measure(args, &sets, name, bytes, window));
        }
    }
    if args.json {
        print_json(&Document { rounds: args.rounds, cases });
    } else {
        print(&human(&cases));
    }
    Ok(ExitCode::SUCCESS)
}

fn measure(
    args: &GuardsArgs,
    sets: &[Kernels],
    buffers: &'static str,
    bytes: usize,
    window: usize,
) -> Vec<Case> {
    let mut data = AlignedBuffer::new(bytes);
    for (i, word) in data.chunks_exact_mut(8).enumerate() {
        word.copy_from_slice(&(i as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15).to_le_bytes());
    }
    // Room for tuples: 8 bytes to 512.
    let mut target = AlignedBuffer::new(SKEW + bytes + bytes / 64);
    target.fill(1);
    let mut candidates = candidates(sets);
    candidates
        .retain(|c| c.case == COPY || args.case.as_ref().is_none_or(|only| c.case.contains(only.as_str())));
    let mut speeds: Vec<Vec<f64>> = vec![Vec::new(); candidates.len()];
    let mut turn = 0;
    // The first round warms up and is not counted.
    for round in 0..=args.rounds as usize {
        for step in 0..candidates.len() {
            let which = (step + round * 5) % candidates.len();
            let (mut passes, began) = (0, thread_seconds());
            let seconds = loop {
                let start = turn * window % bytes;
                let room = &mut target[SKEW + start..SKEW + start + window + window / 64];
                // The clock costs more than a hot block: look at it now and then.
                for _ in 0..(65_536 / window).max(1) {
                    (candidates[which].pass)(&data[start..start + window], room);
                    passes += 1;
                }
                turn += 1;
                let seconds = thread_seconds() - began;
                if seconds >= TURN {
                    break seconds;
                }
            };
            if round > 0 {
                speeds[which].push((passes * window) as f64 / seconds / 1e9);
            }
        }
    }
    let copy = candidates.iter().position(|c| c.case == COPY).expect("always a candidate");
    let ratio = |i: usize| median(speeds[i].iter().zip(&speeds[copy]).map(|(a, b)| a / b).collect());
    candidates
        .iter()
        .enumerate()
        .map(|(i, candidate)| {
            let gb_per_s = median(speeds[i].clone());
            Case {
                case: candidate.case.clone(),
                isa: candidate.isa.clone(),
                buffers,
                gb_per_s,
                ns_per_4_kib: 4096.0 / gb_per_s,
                ratio_to_copy: ratio(i),
            }
        })
        .collect()
}

/// The case that all others are compared with.
const COPY: &str = "copy";

fn short(guard: Guard) -> &'static str {
    match guard {
        Guard::Crc16 => "crc16",
        Guard::Crc32c => "crc32c",
        Guard::Crc64 => "crc64",
    }
}

fn candidates<'w>(sets: &[Kernels]) -> Vec<Candidate<'w>> {
    let mut out = vec![Candidate {
        case: COPY.to_owned(),
        isa: "memcpy".to_owned(),
        pass: Box::new(|data, to| black_box(&mut to[..data.len()]).copy_from_slice(data)),
    }];
    for kernels in sets {
        for guard in Guard::ALL {
            of_guard(*kernels, guard, &mut out);
        }
        streams(*kernels, &mut out);
    }
    foreign(&mut out);
    out
}

/// Guards of blocks, alone and with a copy.
fn of_guard(kernels: Kernels, guard: Guard, out: &mut Vec<Candidate<'_>>) {
    for len in [512, 4096] {
        let isa = kernels.isa().to_string();
        let blocks = Spacing { len, pitch: len };
        let mut guards = vec![0; (1 << 20) / len];
        out.push(Candidate {
            case: format!("{} {len}", short(guard)),
            isa: isa.clone(),
            pass: Box::new(move |data, _| {
                kernels.blocks(guard, data, blocks, &mut guards[..data.len() / len]);
                black_box(&guards);
            }),
        });
        let mut guards = vec![0; (1 << 20) / len];
        out.push(Candidate {
            case: format!("{} {len} copy", short(guard)),
            isa,
            pass: Box::new(move |data, to| {
                kernels.blocks_copy(guard, data, blocks, to, len, &mut guards[..data.len() / len]);
                black_box(&guards);
            }),
        });
    }
}

/// Tuples of 16-bit guards, 512 + 8 bytes, made and checked by streams.
fn streams(kernels: Kernels, out: &mut Vec<Candidate<'_>>) {
    let format = Format::new(512, 8, Guard::Crc16, Type::One, Place::Last).expect("the commonest format");
    let tags = Tags::at(&format, 0);
    let isa = || kernels.isa().to_string();
    out.push(Candidate {
        case: "insert 512+8".to_owned(),
        isa: isa(),
        pass: Box::new(move |data, to| {
            MakeStream::new(format, tags).with_kernels(kernels).insert(data, to);
        }),
    });
    let mut made: Vec<u8> = Vec::new();
    out.push(Candidate {
        case: "strip 512+8".to_owned(),
        isa: isa(),
        pass: Box::new(move |data, to| {
            // The same blocks again and again: a source that is not of the turn would be another
            // cache's.
            if made.len() != data.len() / 512 * 520 {
                made = vec![0; data.len() / 512 * 520];
                MakeStream::new(format, tags).insert(data, &mut made);
            }
            let mut stream = CheckStream::new(format, tags, Prchk::ALL).with_kernels(kernels);
            stream.strip(&made, to);
            assert_eq!(stream.fault(), None, "the blocks are good");
        }),
    });
    let mut metadata: Vec<u8> = vec![0; (1 << 20) / 64];
    out.push(Candidate {
        case: "fill_separate 512+8".to_owned(),
        isa: isa(),
        pass: Box::new(move |data, _| {
            MakeStream::new(format, tags).with_kernels(kernels).fill_separate(data, None, &mut metadata);
            black_box(&metadata);
        }),
    });
}

/// Crates that others have.
fn foreign(out: &mut Vec<Candidate<'_>>) {
    for len in [512, 4096] {
        out.push(Candidate {
            case: format!("crc32c {len}"),
            isa: "crate crc32c".to_owned(),
            pass: Box::new(move |data, _| {
                data.chunks_exact(len).for_each(|block| {
                    black_box(crc32c::crc32c(block));
                });
            }),
        });
        #[cfg(feature = "crc-fast")]
        for (guard, algorithm) in [
            (Guard::Crc16, crc_fast::CrcAlgorithm::Crc16T10Dif),
            (Guard::Crc32c, crc_fast::CrcAlgorithm::Crc32Iscsi),
            (Guard::Crc64, crc_fast::CrcAlgorithm::Crc64Nvme),
        ] {
            assert_eq!(crc_fast::checksum(algorithm, b"123456789"), guard.of(b"123456789"));
            out.push(Candidate {
                case: format!("{} {len}", short(guard)),
                isa: "crate crc-fast".to_owned(),
                pass: Box::new(move |data, _| {
                    data.chunks_exact(len).for_each(|block| {
                        black_box(crc_fast::checksum(algorithm, block));
                    });
                }),
            });
        }
    }
}

fn human(cases: &[Case]) -> String {
    let mut rows =
        vec![["case", "isa", "buffers", "GB/s", "ns for 4 KiB", "of a copy"].map(str::to_owned).to_vec()];
    for case in cases {
        rows.push(vec![
            case.case.clone(),
            case.isa.clone(),
            case.buffers.to_owned(),
            format!("{:.1}", case.gb_per_s),
            format!("{:.1}", case.ns_per_4_kib),
            format!("{:.0} %", case.ratio_to_copy * 100.0),
        ]);
    }
    table(&rows)
}
