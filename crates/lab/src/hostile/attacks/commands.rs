//! Commands with fields at random. What changes media stays out of the part that clients verify.

use super::{Attack, Attacker};
use crate::hostile::node::{DRIVE, DRIVES, GOOD};
use crate::hostile::random::Random;
use crate::hostile::wire::{ANSWERED, Answer, Session, answers, capsule};
use pumice_nvme::pdu::Digests;
use pumice_nvme::spec::opcode::io as opcode;
use pumice_nvme::spec::{Sgl, Sqe, Status};
use std::io;

struct Commands {
    admin: Session,
    queue: Session,
}

pub(super) fn begin(attacker: &mut Attacker) -> io::Result<Box<dyn Attack>> {
    let (admin, queue) = Session::pair(&attacker.target, &attacker.who, 32)?;
    Ok(Box::new(Commands { admin, queue }))
}

/// A first block behind the part that is verified, mostly at an edge.
fn block(random: &mut Random) -> u64 {
    let inside = GOOD / 512 + random.below((DRIVE - GOOD) / 512);
    random.pick(&[inside, DRIVE / 512 - 1, DRIVE / 512, 1 << 32, 1 << 55, 1 << 63, u64::MAX - 1, u64::MAX])
}

/// An I/O command, and data for its capsule.
fn bent(random: &mut Random, cid: u16) -> (Sqe, Vec<u8>) {
    let known = [
        opcode::FLUSH,
        opcode::WRITE,
        opcode::READ,
        opcode::WRITE_UNCORRECTABLE,
        opcode::COMPARE,
        opcode::WRITE_ZEROES,
        opcode::DATASET_MANAGEMENT,
        opcode::VERIFY,
    ];
    // The vendor's own have a class of their own.
    let code = if random.once_in(8) { random.below(0x80) as u8 } else { random.pick(&known) };
    let mut sqe = Sqe::new(code, random.pick(&[0, 1, 1, 2, 2, 3, u32::MAX]));
    random.fill(&mut sqe.0[40..64]);
    sqe.0[40..48].copy_from_slice(&block(random).to_le_bytes());
    sqe.set_cid(cid);
    if random.once_in(6) {
        sqe.0[1] = random.next() as u8;
    }
    let mut data = Vec::new();
    if code == opcode::DATASET_MANAGEMENT {
        let ranges = random.below(32) as usize + 1;
        sqe.set_dword(10, random.pick(&[ranges as u32 - 1, 0, 255, u32::MAX]));
        sqe.set_dword(11, random.pick(&[4, 0, 7, u32::MAX]));
        for _ in 0..ranges {
            data.extend_from_slice(&0_u32.to_le_bytes());
            data.extend_from_slice(&(random.next() as u32).to_le_bytes());
            data.extend_from_slice(&block(random).to_le_bytes());
        }
    } else if random.once_in(2) {
        data.resize(random.pick(&[512, 4096, 8192]), 5);
    }
    let mut sgl = if data.is_empty() {
        Sgl::transport(random.pick(&[0, 1, 512, 4096, 1 << 20, (1 << 20) + 1, u32::MAX]))
    } else {
        Sgl::in_capsule(data.len() as u32)
    };
    if random.once_in(6) {
        sgl.kind = random.next() as u8;
    }
    if random.once_in(6) {
        sgl.len ^= 1 << random.below(32);
    }
    sqe.set_sgl(sgl);
    (sqe, data)
}

/// Returns whether a command names blocks, and blocks that are not there: it must fail.
fn must_fail(sqe: &Sqe) -> bool {
    let of_blocks = [
        opcode::WRITE,
        opcode::READ,
        opcode::WRITE_UNCORRECTABLE,
        opcode::COMPARE,
        opcode::WRITE_ZEROES,
        opcode::VERIFY,
    ];
    let end = sqe.slba().checked_add(u64::from(sqe.blocks()));
    let outside = end.is_none_or(|end| end > DRIVE / 512) || !(1..=DRIVES).contains(&sqe.nsid());
    of_blocks.contains(&sqe.opcode()) && outside
}

impl Attack for Commands {
    fn round(&mut self, attacker: &mut Attacker) -> io::Result<()> {
        let random = &mut attacker.random;
        let mut admin =
            Sqe::new(random.pick(&[0x02, 0x06, 0x08, 0x09, 0x0A, 0x18, 0x7D]), random.pick(&[0, 1, 9]));
        random.fill(&mut admin.0[40..64]);
        admin.0[40] = random.below(0x20) as u8;
        let expected = random.pick(&[0, 16, 4096, 8192]);
        self.admin.submit(admin, &[], expected)?;
        attacker.answered("an admin command at random", self.admin.wait_for(ANSWERED))?;
        // Sent past the host's bookkeeping: the data that some of them are asked for do not come,
        // so the session ends with the round.
        let mut sent = Vec::new();
        for cid in 0..8 {
            let (sqe, data) = bent(&mut attacker.random, cid);
            self.queue.out.extend(capsule(&sqe, &data, Digests::default()));
            sent.push(sqe);
        }
        self.queue.send()?;
        let answers = attacker.answered("commands at random", answers(&self.queue.stream, 0..8))?;
        for (cid, answer) in answers {
            let Some(sqe) = sent.get(usize::from(cid)) else { continue };
            if answer == Answer::Done(Status::SUCCESS) && must_fail(sqe) {
                attacker.breach(format!("command {:#x} past the end of its drive", sqe.opcode()));
            }
        }
        Err(io::ErrorKind::ConnectionAborted.into())
    }
}
