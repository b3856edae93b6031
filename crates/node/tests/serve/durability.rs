//! The promise of a write cache: what was acknowledged with FUA, or before a Flush that completed, is there after the power went. The real server
//! over a device that keeps, drops or tears what was not flushed.

use crate::world::{command, connect, host, serve};
use pumice_blockdev::{BlockDevice, FaultyDevice};
use pumice_initiator::{Command, Queue};
use pumice_node::serve::Drive;
use pumice_nvme::spec::Sqe;
use pumice_nvme::spec::opcode::io;
use std::collections::BTreeSet;
use std::sync::Arc;

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

/// What each sector may hold after a crash: the number of the write that filled it.
struct Model {
    /// What it holds at least, and what has come since without a promise.
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
        // The number of a later write that was begun, and not acknowledged, may be there too; an earlier one may not.
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
                sqe.0[51] |= (Sqe::FUA >> 8) as u8;
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
