//! The parity engine against plain arithmetic: any shape, any rule, from media and from local
//! memory.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pumice_blockdev::{BlockDevice, MemoryDevice};
use pumice_fuzz::Bytes;
use pumice_node::{LocalNode, NodeOptions, Peers};
use pumice_offload::{
    DriveId, DriveMemory, ErrorKind, MemoryAddress, Mode, ParityCommand, ParityEngine, Rule, Source, Window,
};
use pumice_parity::gf;
use pumice_parity::seed::Seed;
use pumice_parity::weights::draw;
use std::sync::{Arc, OnceLock};

const SIZE: usize = 1 << 16;

fn content() -> &'static [u8] {
    static CONTENT: OnceLock<Vec<u8>> = OnceLock::new();
    CONTENT.get_or_init(|| (0..SIZE as u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect())
}

fn node() -> &'static LocalNode {
    static NODE: OnceLock<LocalNode> = OnceLock::new();
    NODE.get_or_init(|| {
        let device: Arc<dyn BlockDevice> = Arc::new(MemoryDevice::with_content("m", content().to_vec()));
        let options = NodeOptions { workers: 2, memory_bytes: 2 * SIZE as u64, ..NodeOptions::default() };
        let node = LocalNode::new("n", vec![device], &Peers::new(), options);
        // The first half is read; the second is written.
        node.memory_write(MemoryAddress { drive: DriveId(1), offset: 0 }, content()).unwrap();
        node
    })
}

const INTO: MemoryAddress = MemoryAddress { drive: DriveId(1), offset: SIZE as u64 };

/// Byte `at` of the window of a source in a repetition.
fn byte(command: &ParityCommand, source: usize, repetition: u64, at: u32) -> u8 {
    let place = match command.sources[source] {
        Source::Media { base, .. } => {
            let stripe = command.stripes.start + repetition;
            base + stripe * u64::from(command.chunk) + u64::from(command.window.start)
        }
        Source::Memory { address } => address.offset + repetition * u64::from(command.window.len),
    };
    content()[(place + u64::from(at)) as usize]
}

/// Rows of a stripe, byte by byte.
fn rows(command: &ParityCommand, repetition: u64) -> Vec<Vec<u8>> {
    let rule = &command.rule;
    let class = rule.class(command.stripes.start + repetition);
    let sum = |row: usize, at: u32| {
        (0..command.sources.len()).fold(0, |sum, source| {
            sum ^ gf::mul(rule.column(class, source)[row], byte(command, source, repetition, at))
        })
    };
    (0..rule.rows()).map(|row| (0..command.window.len).map(|at| sum(row, at)).collect()).collect()
}

fn fits(command: &ParityCommand) -> bool {
    let (end, count) = (command.stripes.end, command.stripes.end - command.stripes.start);
    command.sources.iter().all(|source| match source {
        Source::Media { base, .. } => base + end * u64::from(command.chunk) <= SIZE as u64,
        Source::Memory { address } => address.offset + count * u64::from(command.window.len) <= SIZE as u64,
    })
}

fuzz_target!(|data: &[u8]| {
    let mut bytes = Bytes::new(data);
    let rows_count = 1 + usize::from(bytes.byte() % 8);
    // Few mostly, and at times as many as no kernel takes at once.
    let sources = match bytes.byte() {
        many @ 250.. => 240 + usize::from(many - 250) * 60,
        few => 1 + usize::from(few % 70),
    };
    let classes = 1 + usize::from(bytes.byte() % 3);
    let chunk = 1 + u32::from(bytes.byte()) * u32::from(1 + bytes.byte() % 16);
    let start = u32::from(bytes.byte()) % chunk;
    let start = if bytes.byte() % 2 == 0 { start / 64 * 64 } else { start };
    let len = 1 + u32::from(bytes.byte()) * 7 % (chunk - start);
    let first = u64::from(bytes.byte() % 5);
    let stripes = first..first + 1 + u64::from(bytes.byte() % 6);
    let plain = bytes.byte() % 3 == 0;
    let coefficients: Vec<u8> =
        (0..classes * sources * rows_count).map(|_| if plain { 1 } else { bytes.byte() }).collect();
    let guard: Vec<Vec<u8>> = (0..1 + bytes.byte() % 4)
        .map(|_| (0..rows_count).map(|_| bytes.byte()).collect())
        .collect();
    let memory = bytes.byte() % 2 == 0;
    let list: Vec<Source> = (0..sources)
        .map(|_| {
            let at = u64::from(bytes.byte()) * 61;
            if memory {
                Source::Memory { address: MemoryAddress { drive: DriveId(1), offset: at } }
            } else {
                Source::Media { drive: DriveId(1), base: at }
            }
        })
        .collect();
    let seed = Seed::from_number(u64::from(bytes.byte()));
    let accumulators = 1 + bytes.byte() % 3;
    let mode = match bytes.byte() % 4 {
        0 => Mode::Check,
        1 => Mode::Generate { into: INTO },
        2 => Mode::Interims { into: INTO, seed: seed.clone(), accumulators },
        _ => Mode::Accumulate { into: INTO, seed: seed.clone(), accumulators },
    };
    let rule = Rule::new(rows_count, sources, coefficients, guard.clone()).unwrap();
    let window = Window { start, len };
    let command = ParityCommand { unpaced: false, sources: list, chunk, window, stripes, rule, mode };
    let count = command.count();
    let output = command.output().is_none_or(|(_, bytes)| bytes <= SIZE as u64);
    let result = match node().parity(&command) {
        Ok(result) => result,
        Err(error) => {
            assert!(matches!(error.kind(), ErrorKind::InvalidField(_)), "{error}");
            assert!(!fits(&command) || !output, "{error}: {command:?}");
            return;
        }
    };
    assert!(fits(&command) && output);
    let all: Vec<Vec<Vec<u8>>> = (0..count).map(|repetition| rows(&command, repetition)).collect();
    let written = |at: u64| {
        let mut out = vec![0; len as usize];
        let offset = INTO.offset + at * u64::from(len);
        node().memory_read(MemoryAddress { offset, ..INTO }, &mut out).unwrap();
        out
    };
    let weighted = |repetition: u64, a: u32| -> Vec<u8> {
        let weights = draw(&seed, command.stripes.start + repetition, a, &guard).unwrap();
        let mut out = vec![0; len as usize];
        for (row, w) in all[repetition as usize].iter().zip(&weights) {
            out.iter_mut().zip(row).for_each(|(o, r)| *o ^= gf::mul(*w, *r));
        }
        out
    };
    match command.mode {
        Mode::Check | Mode::Generate { .. } => {
            let bad = |of: &&u64| all[**of as usize].iter().flatten().any(|byte| *byte != 0);
            let expected: Vec<u64> = (0..count).collect::<Vec<_>>().iter().filter(bad).copied().collect();
            assert_eq!(result.nonzero.ones().collect::<Vec<_>>(), expected, "{command:?}");
            if matches!(command.mode, Mode::Generate { .. }) {
                for (i, row) in all.iter().flatten().enumerate() {
                    assert_eq!(&written(i as u64), row, "row {i} of {command:?}");
                }
            }
        }
        Mode::Interims { .. } => {
            for repetition in 0..count {
                for a in 0..u32::from(accumulators) {
                    let at = repetition * u64::from(accumulators) + u64::from(a);
                    assert_eq!(written(at), weighted(repetition, a), "{command:?}");
                }
            }
        }
        Mode::Accumulate { .. } => {
            for a in 0..u32::from(accumulators) {
                let mut sum = vec![0; len as usize];
                for repetition in 0..count {
                    sum.iter_mut().zip(weighted(repetition, a)).for_each(|(s, w)| *s ^= w);
                }
                assert_eq!(written(u64::from(a)), sum, "{command:?}");
            }
        }
        Mode::Fingerprint { .. } => {}
    }
});
