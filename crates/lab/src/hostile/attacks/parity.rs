//! Parity commands with bent descriptors, the other vendor commands with fields at random, and
//! results that nobody reads.

use super::{Attack, Attacker};
use crate::hostile::random::Random;
use crate::hostile::wire::{ANSWERED, Session, vendor};
use pumice_nvme::spec::Sqe;
use pumice_offload::wire::{encode_command, encode_grant, encode_pace, encode_transfer, opcode};
use pumice_offload::{
    DriveId, Grant, MemoryAddress, Mode, PaceRequest, ParityCommand, Rule, Source, Transfer, Window,
};
use pumice_parity::seed::Seed;
use std::io;

struct Parity {
    _admin: Session,
    queue: Session,
    tag: u32,
}

pub(super) fn begin(attacker: &mut Attacker) -> io::Result<Box<dyn Attack>> {
    let (admin, queue) = Session::pair(&attacker.target, &attacker.who, 32)?;
    Ok(Box::new(Parity { _admin: admin, queue, tag: 0 }))
}

/// A command that a node carries out, and is done with soon.
pub(super) fn good(random: &mut Random) -> ParityCommand {
    let memory = MemoryAddress { drive: DriveId(1), offset: 0 };
    let count = random.pick(&[1, 2, 8, 255, 256, 257, 258, 300, 1920]) as usize;
    let source = if random.once_in(4) {
        Source::Memory { address: memory }
    } else {
        Source::Media { drive: DriveId(1 + random.below(2) as u32), base: 0 }
    };
    let seed = Seed::from_number(random.next());
    let mode = match random.below(5) {
        0 => Mode::Check,
        1 => Mode::Generate { into: memory },
        2 => Mode::Interims { into: memory, seed, accumulators: 1 + random.below(8) as u8 },
        3 => Mode::Accumulate { into: memory, seed, accumulators: 1 + random.below(8) as u8 },
        _ => Mode::Fingerprint { seed, powers: 2 + 2 * random.below(32) as u8 },
    };
    let rows = 1 + random.below(4) as usize;
    let coefficients = (0..rows * count).map(|_| random.next() as u8).collect();
    let guard = (0..4).map(|_| (0..rows).map(|_| random.next() as u8).collect()).collect();
    let len = random.pick(&[64, 512, 4096]);
    ParityCommand {
        unpaced: false,
        sources: vec![source; count],
        chunk: 4096,
        window: Window { start: 0, len },
        stripes: 0..1 + random.below(8),
        rule: Rule::new(rows, count, coefficients, guard).expect("counts that fit together"),
        mode,
    }
}

/// Turns a few bits, mostly of the header.
fn bend(bytes: &mut Vec<u8>, random: &mut Random) {
    for _ in 0..random.below(4) {
        let end = if random.once_in(3) { bytes.len() } else { bytes.len().min(120) };
        let at = random.below(end as u64) as usize;
        let turned = bytes[at] ^ 1 << random.below(8);
        bytes[at] = random.pick(&[0, 1, 0x7F, 0x80, 0xFF, turned]);
    }
    if random.once_in(8) {
        bytes.truncate(random.below(bytes.len() as u64) as usize + 1);
    }
}

/// A vendor command other than Parity Execute. No pace and no hold: those have a class of their
/// own.
fn other(random: &mut Random) -> (Sqe, Vec<u8>, u32) {
    let code = random.pick(&opcode::ALL);
    let address = MemoryAddress { drive: DriveId(1), offset: random.below(1 << 16) };
    let mut data = match code {
        opcode::TRANSFER => {
            let (len, peer) = (random.below(1 << 21), random.pick(&["127.0.0.1:1", "[::1]:4420", "x", "0"]));
            let grant = Grant([1; 16]);
            encode_transfer(&Transfer { from: address, len, peer: peer.to_owned(), to: address, grant })
        }
        opcode::MEMORY_GRANT => {
            encode_grant(&Grant([random.next() as u8; 16]), random.below(1 << 16)).to_vec()
        }
        // Taken back, which nobody has asked for.
        opcode::PACE => encode_pace(&PaceRequest::default()).to_vec(),
        opcode::MEMORY_WRITE => vec![1; 4096],
        opcode::PARITY_EXECUTE => encode_command(&good(random)),
        _ => Vec::new(),
    };
    if !data.is_empty() && code != opcode::PACE {
        bend(&mut data, random);
    }
    let mut sqe = vendor(code, random.below(4) as u32, random.next() as u32 & 0xFFF, data.len());
    if code == opcode::HOLD {
        sqe.set_dword(10, random.pick(&[0, 3, 77]));
    } else if data.is_empty() {
        sqe.set_dword(12, random.pick(&[0, 1, 4096, 8192, 1 << 20, (1 << 20) + 1, 33 << 20, u32::MAX]));
    }
    let back = if code & 3 == 2 { random.pick(&[0, 1, 4096, 1 << 20]) } else { 0 };
    (sqe, data, back)
}

impl Attack for Parity {
    fn round(&mut self, attacker: &mut Attacker) -> io::Result<()> {
        let random = &mut attacker.random;
        self.tag += 1;
        if random.once_in(2) {
            let mut descriptor = encode_command(&good(random));
            if random.once_in(2) {
                bend(&mut descriptor, random);
            }
            // The tags go on: results are kept until the node keeps no more of them.
            let sqe = vendor(opcode::PARITY_EXECUTE, 0, self.tag, descriptor.len());
            self.queue.submit(sqe, &descriptor, 0)?;
            attacker.answered("a parity command", self.queue.wait_for(ANSWERED))?;
        } else {
            let (sqe, data, back) = other(random);
            self.queue.submit(sqe, &data, back)?;
            let done = attacker.answered("a vendor command", self.queue.wait_for(ANSWERED))?;
            if sqe.opcode() == opcode::TRANSFER && done.status.is_success() {
                attacker.breach("a transfer to a peer that the node does not know".to_owned());
            }
        }
        // A queue that keeps no more results is given up from time to time.
        if self.tag == 200 { Err(io::ErrorKind::Other.into()) } else { Ok(()) }
    }
}
