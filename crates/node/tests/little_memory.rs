//! Memory that a small command may take, measured over the whole process, which therefore runs this
//! test alone.

use pumice_blockdev::{BlockDevice, MemoryDevice};
use pumice_node::{LocalNode, NodeOptions, Peers};
use pumice_offload::{DriveId, MemoryAddress, Mode, ParityCommand, ParityEngine, Rule, Source, Window};
use pumice_parity::seed::Seed;
use std::sync::Arc;

/// The most memory that this process ever had, in MiB.
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() / 1024
}

/// The keys of the longest chunk would take half a GiB: for a window of 64 bytes none of that is
/// drawn, and nothing at all for a drive that does not exist.
#[test]
fn a_small_fingerprint_of_a_long_chunk_takes_little_memory() {
    let device: Arc<dyn BlockDevice> = Arc::new(MemoryDevice::new("m", 4096));
    let node = LocalNode::new("n", vec![device], &Peers::new(), NodeOptions::default());
    let before = peak();
    let media = |drive| Source::Media { drive: DriveId(drive), base: 0 };
    let memory = Source::Memory { address: MemoryAddress { drive: DriveId(1), offset: 0 } };
    // The last window of a command ends before its chunk does; the one before it needs the chunk.
    let cases = [(media(99), 1, false), (media(1), 1, true), (media(1), 2, false), (memory, 1, true)];
    for (source, stripes, good) in cases {
        let command = ParityCommand {
            unpaced: false,
            sources: vec![source],
            chunk: u32::MAX,
            window: Window { start: 0, len: 64 },
            stripes: 0..stripes,
            rule: Rule::sum(1),
            mode: Mode::Fingerprint { seed: Seed::from_number(1), powers: 2 },
        };
        assert_eq!(node.parity(&command).is_ok(), good, "{source:?}");
    }
    assert!(peak() - before < 32, "{} MiB", peak() - before);
}
