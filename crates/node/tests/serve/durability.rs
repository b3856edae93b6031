//! The promise of a write cache: what was acknowledged with FUA, or before a Flush that completed,
//! is there after the power went. The real server over a device that keeps, drops or tears what was
//! not flushed.

use crate::world::{command, connect, host, run, serve};
use pumice_blockdev::{BlockDevice, DirectIo, FaultyDevice, FileDevice, HookedDevice, OpenMode, Options};
use pumice_node::serve::Drive;
use pumice_nvme::spec::opcode::io;
use pumice_nvme::spec::{Sqe, Status};
use pumice_remote::initiator::{Command, Queue};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

const ROUNDS: u64 = 200;
const SECTORS: u64 = 512;
/// Sectors of a write, at most.
const RUN: u64 = 16;
/// Writes side by side.
const BATCH: usize = 12;

struct Random(u64);

impl Random {
    /// SplitMix64.
    fn next(&mut self, below: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (z ^ (z >> 31)) % below
    }
}

/// Possible contents of each sector after a crash, as numbers of the writes that filled it.
struct Model {
    /// The last write that must have survived, and all that began later, which may have.
    allowed: Vec<BTreeSet<u64>>,
    /// The last write that was acknowledged.
    acknowledged: Vec<u64>,
}

impl Model {
    fn begun(&mut self, sectors: &[u64], number: u64) {
        for sector in sectors {
            self.allowed[*sector as usize].insert(number);
        }
    }

    fn acknowledged(&mut self, sectors: &[u64], number: u64) {
        sectors.iter().for_each(|s| self.acknowledged[*s as usize] = number);
    }

    fn durable(&mut self, sector: u64) {
        let last = self.acknowledged[sector as usize];
        // The number of a later write that was begun, and not acknowledged, may be there too; an
        // earlier one may not.
        self.allowed[sector as usize].retain(|number| *number >= last);
    }
}

fn filled(sectors: u64, number: u64) -> Vec<u8> {
    number.to_le_bytes().repeat(sectors as usize * 64)
}

/// Writes until the power goes.
fn write_until_the_end(queue: &mut Queue, random: &mut Random, model: &mut Model, number: &mut u64) {
    loop {
        let mut taken: BTreeSet<u64> = BTreeSet::new();
        let mut writes = Vec::new();
        while writes.len() < BATCH {
            let len = 1 + random.next(RUN);
            let first = random.next(SECTORS - len);
            let sectors: Vec<u64> = (first..first + len).collect();
            if sectors.iter().any(|s| taken.contains(s)) {
                continue;
            }
            taken.extend(&sectors);
            *number += 1;
            model.begun(&sectors, *number);
            let mut sqe = command(io::WRITE, 1, first, len as u32);
            let fua = random.next(3) == 0;
            if fua {
                sqe = with_fua(sqe);
            }
            writes.push((sqe, fua, sectors, *number, filled(len, *number)));
        }
        let mut commands: Vec<Command<'_>> = writes
            .iter()
            .map(|(sqe, .., data)| Command { sqe: *sqe, send: data, receive: &mut [] })
            .collect();
        let outcomes = queue.run(&mut commands).unwrap();
        let mut failed = false;
        for (outcome, (_, fua, sectors, number, _)) in outcomes.iter().zip(&writes) {
            if !outcome.status.is_success() {
                failed = true;
                continue;
            }
            model.acknowledged(sectors, *number);
            if *fua {
                sectors.iter().for_each(|s| model.durable(*s));
            }
        }
        if failed {
            return;
        }
        if random.next(4) == 0 {
            let flushed = queue.execute(Sqe::new(io::FLUSH, 1), &[], &mut []).unwrap();
            if !flushed.status.is_success() {
                return;
            }
            (0..SECTORS).for_each(|s| model.durable(s));
        }
    }
}

#[test]
fn acknowledged_writes_outlive_two_hundred_power_cuts() {
    let device = Arc::new(FaultyDevice::new("faulty", vec![0; SECTORS as usize * 512], 11));
    let mut random = Random(5);
    let all = |number| vec![number; SECTORS as usize];
    let mut model = Model { allowed: vec![BTreeSet::from([0]); SECTORS as usize], acknowledged: all(0) };
    let (mut number, mut kept) = (0, 0);
    for round in 0..ROUNDS {
        let drive = Drive::with_device(Arc::clone(&device) as Arc<dyn BlockDevice>, 512, "one").unwrap();
        let server = serve(vec![drive]);
        let (controller, mut queue) = connect(&server, host(&server, 3), 64);
        device.cut_power_after(1 + random.next(150));
        write_until_the_end(&mut queue, &mut random, &mut model, &mut number);
        drop((queue, controller, server));
        device.crash();
        let content = device.content();
        for sector in 0..SECTORS {
            let bytes = &content[sector as usize * 512..][..512];
            let found = u64::from_le_bytes(bytes[..8].try_into().unwrap());
            assert!(
                bytes.chunks(8).all(|b| b == found.to_le_bytes()),
                "round {round}: sector {sector} is torn"
            );
            let allowed = &mut model.allowed[sector as usize];
            assert!(
                allowed.contains(&found),
                "round {round}: sector {sector} holds {found}, not one of {allowed:?}"
            );
            kept += u64::from(found != 0);
            // What is there now is there for good.
            *allowed = BTreeSet::from([found]);
            model.acknowledged[sector as usize] = found;
        }
    }
    assert!(kept > ROUNDS * SECTORS / 2, "most sectors hold something: {kept}");
}

fn with_fua(mut sqe: Sqe) -> Sqe {
    sqe.0[51] |= (Sqe::FUA >> 8) as u8;
    sqe
}

#[test]
fn what_a_read_with_fua_has_seen_outlives_a_power_cut() {
    let mut lost = 0;
    for seed in 0..32 {
        let device = Arc::new(FaultyDevice::new("faulty", vec![0; 64 << 10], seed));
        let drive = Drive::with_device(Arc::clone(&device) as Arc<dyn BlockDevice>, 512, "one").unwrap();
        let server = serve(vec![drive]);
        let (controller, mut queue) = connect(&server, host(&server, 3), 8);
        for slba in [0, 64] {
            assert_eq!(run(&mut queue, command(io::WRITE, 1, slba, 8), &[7; 4096]), Status::SUCCESS);
            let sqe = command(io::READ, 1, slba, 8);
            // The second is seen by a plain read, which promises nothing.
            let sqe = if slba == 0 { with_fua(sqe) } else { sqe };
            let mut seen = [0; 4096];
            assert!(queue.execute(sqe, &[], &mut seen).unwrap().status.is_success());
            assert!(seen == [7; 4096]);
        }
        device.crash();
        drop((queue, controller, server));
        let content = device.content();
        assert!(content[..4096] == [7; 4096], "seed {seed}");
        lost += u64::from(content[64 * 512..][..4096] != [7; 4096]);
    }
    assert!(lost > 0, "a cut that loses nothing shows nothing");
}

/// Reads with FUA go to a thread even if the kernel's ring carries the other commands: the ring has
/// no read with a flush.
#[test]
fn a_read_with_fua_is_flushed_for_on_a_drive_with_direct_io() {
    // On the disk of the build, where direct I/O is real.
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = folder.path().join("drive");
    std::fs::write(&path, vec![0; 64 << 10]).unwrap();
    let file = FileDevice::open(&path, OpenMode::ReadWrite, Options::default()).unwrap();
    if file.descriptor().is_none() {
        eprintln!("SKIPPED: no direct I/O here");
        return;
    }
    // Flushes by a thread: those by the kernel's ring go past the device.
    let flushed = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&flushed);
    let device = HookedDevice::over(Arc::new(file)).at_flushes(move || {
        count.fetch_add(1, Ordering::SeqCst);
    });
    let drive = Drive::with_device(Arc::new(device), 4096, "one").unwrap();
    let server = serve(vec![drive]);
    let (_controller, mut queue) = connect(&server, host(&server, 3), 8);
    let mut seen = [0; 4096];
    for (round, flushes) in [(1, 1), (2, 2)] {
        assert_eq!(run(&mut queue, command(io::WRITE, 1, 1, 1), &[round; 4096]), Status::SUCCESS);
        let plain = command(io::READ, 1, 1, 1);
        for (sqe, flushes) in [(plain, flushes - 1), (with_fua(plain), flushes)] {
            assert!(queue.execute(sqe, &[], &mut seen).unwrap().status.is_success());
            assert!(seen == [round; 4096]);
            assert_eq!(flushed.load(Ordering::SeqCst), flushes, "round {round}");
        }
    }
}
