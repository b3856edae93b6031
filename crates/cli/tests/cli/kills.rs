//! `kill -9` of a node whose drive has tags, under a load that verifies: every block reads, and is
//! the version that was acknowledged last or one that was sent after it. All versions have one
//! CRC-32C.
//!
//! `PUMICE_KILLS` is how often; `cargo xtask kill-tags --rounds 100` sets it.

use crate::network::Node;
use pumice_nvme::spec::{Sqe, opcode};
use pumice_protect::digest::crc32c;
use pumice_remote::initiator::{Command, Controller, Queue};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Bytes of the drive.
const SIZE: u64 = 4 << 20;
/// Commands side by side.
const DEPTH: usize = 8;

/// The versions of a block: the last that was acknowledged, the last that was sent.
#[derive(Debug, Clone, Copy, Default)]
struct Versions {
    acknowledged: u64,
    sent: u64,
}

struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % n
    }
}

/// Sets the last four bytes so that the CRC-32C is `sum`: a host chooses its contents, and may hope
/// that one version of a block is taken for another.
pub(crate) fn forge(bytes: &mut [u8], sum: u32) {
    let entry =
        |byte: u32| (0..8).fold(byte, |crc: u32, _| (crc >> 1) ^ if crc & 1 == 1 { 0x82F6_3B78 } else { 0 });
    let (before, last) = bytes.split_at_mut(bytes.len() - 4);
    let mut register = !sum;
    for _ in 0..4 {
        let byte = (0..256).find(|byte| entry(*byte) >> 24 == register >> 24).expect("one of 256");
        register = ((register ^ entry(byte)) << 8) | byte;
    }
    last.copy_from_slice(&(register ^ !crc32c(before)).to_le_bytes());
    assert_eq!(crc32c(bytes), sum, "a forged content");
}

fn content(block: u64, version: u64, size: u64) -> Vec<u8> {
    let mut out: Vec<u8> = (0..size).map(|i| (i * 7 + block * 31 + version * 101) as u8).collect();
    out[..8].copy_from_slice(&version.to_le_bytes());
    forge(&mut out, 7);
    out
}

fn connect(node: &Node) -> (Controller, Queue) {
    let controller = Controller::connect(node.address, node.options()).unwrap();
    let queue = controller.queue(1, 16).unwrap();
    (controller, queue)
}

/// Writes until the node is gone.
fn load(queue: &mut Queue, versions: &mut [Versions], size: u64, random: &mut Random, busy: &AtomicBool) {
    let slots = versions.len() as u64 / DEPTH as u64;
    loop {
        // Each command has a part of the drive of its own: the order of versions is known.
        let ranges: Vec<(u64, u64)> = (0..DEPTH as u64)
            .map(|part| {
                let count = 1 + random.below(4);
                (part * slots + random.below(slots - count), count)
            })
            .collect();
        let data: Vec<Vec<u8>> = ranges
            .iter()
            .map(|(first, count)| {
                let block = |block: u64| {
                    let versions = &mut versions[block as usize];
                    versions.sent += 1;
                    content(block, versions.sent, size)
                };
                (*first..first + count).flat_map(block).collect()
            })
            .collect();
        let mut commands: Vec<Command<'_>> = ranges
            .iter()
            .zip(&data)
            .map(|((first, count), data)| {
                let mut sqe = Sqe::new(opcode::io::WRITE, 1);
                sqe.set_blocks(*first, *count as u32);
                Command { sqe, send: data, receive: &mut [] }
            })
            .collect();
        let Ok(outcomes) = queue.run(&mut commands) else { return };
        busy.store(true, Ordering::Relaxed);
        for ((first, count), outcome) in ranges.iter().zip(outcomes) {
            assert!(outcome.status.is_success(), "a write: {:?}", outcome.status);
            for block in *first..first + count {
                let versions = &mut versions[block as usize];
                versions.acknowledged = versions.sent;
            }
        }
    }
}

/// Reads every block: none is refused, none is older than what was acknowledged.
fn verify(queue: &mut Queue, versions: &mut [Versions], size: u64, round: u64) {
    for (block, known) in (0_u64..).zip(versions.iter_mut()) {
        let mut bytes = vec![0; size as usize];
        let mut sqe = Sqe::new(opcode::io::READ, 1);
        sqe.set_blocks(block, 1);
        let outcome = queue.execute(sqe, &[], &mut bytes).unwrap();
        assert!(outcome.status.is_success(), "round {round}: block {block}: {:?}", outcome.status);
        let version = u64::from_le_bytes(std::array::from_fn(|i| bytes[i]));
        let range = known.acknowledged..=known.sent;
        assert!(range.contains(&version), "round {round}: block {block}: {version} is not of {range:?}");
        let expected = if version == 0 { vec![0; size as usize] } else { content(block, version, size) };
        assert!(bytes == expected, "round {round}: block {block} is torn");
        *known = Versions { acknowledged: version, sent: known.sent };
    }
}

fn kill_rounds(folder: &Path, size: u64, rounds: u64) {
    let image = folder.join(format!("image{size}"));
    std::fs::File::create_new(&image).unwrap().set_len(SIZE).unwrap();
    let drive: PathBuf = format!("{0},pi=16,tags={0}.tags", image.display()).into();
    let block_size = size.to_string();
    let start = || {
        Node::start(&["--listen", "127.0.0.1:0", "--block-size", &block_size], std::slice::from_ref(&drive))
    };
    let mut versions = vec![Versions::default(); (SIZE / size) as usize];
    let mut random = Random(0x1234_5678 + size);
    for round in 0..rounds {
        let mut node = start();
        let busy = Arc::new(AtomicBool::new(false));
        versions = std::thread::scope(|scope| {
            let (mut versions, mut own, busy_there) = (versions, Random(random.0), Arc::clone(&busy));
            let (_controller, mut queue) = connect(&node);
            let writer = scope.spawn(move || {
                load(&mut queue, &mut versions, size, &mut own, &busy_there);
                versions
            });
            while !busy.load(Ordering::Relaxed) {
                assert!(!writer.is_finished(), "round {round}: the load ended before it had begun");
                std::thread::sleep(Duration::from_millis(1));
            }
            std::thread::sleep(Duration::from_millis(random.below(200)));
            node.child.kill().unwrap();
            node.child.wait().unwrap();
            writer.join().unwrap()
        });
        let node = start();
        let (_controller, mut queue) = connect(&node);
        verify(&mut queue, &mut versions, size, round);
    }
}

#[test]
fn every_block_reads_and_none_is_lost_after_every_kill() {
    let rounds = std::env::var("PUMICE_KILLS").ok().map_or(4, |text| text.parse().expect("a number"));
    let folder = tempfile::tempdir().unwrap();
    // Blocks of 4096 bytes go through the log: a file is written in sectors of 512.
    kill_rounds(folder.path(), 4096, rounds / 2);
    kill_rounds(folder.path(), 512, rounds - rounds / 2);
}
