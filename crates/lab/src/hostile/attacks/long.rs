//! Commands that take as long as a command can, more of them than there are threads.

use super::newcomer::Newcomer;
use super::{Attack, Attacker};
use crate::hostile::node::{DRIVE, GOOD};
use crate::hostile::random::Random;
use crate::hostile::wire::{Answer, Session, answers, blocks, capsule, vendor};
use pumice_nvme::pdu::Digests;
use pumice_nvme::spec::opcode::io as opcode;
use pumice_nvme::spec::{Sgl, Sqe, Status};
use pumice_offload::wire::{self, encode_command};
use pumice_offload::{DriveId, MemoryAddress, Mode, ParityCommand, Rule, Source, Window};
use pumice_parity::seed::Seed;
use std::io;
use std::time::{Duration, Instant};

/// Commands under way of an attacker.
const COMMANDS: u16 = 12;
/// After this an attacker leaves what it has asked for behind, and asks anew.
const LEAVES: Duration = Duration::from_secs(4);

struct Long {
    _admin: Session,
    _queue: Session,
    began: Instant,
    newcomer: Newcomer,
}

impl Attack for Long {
    /// The commands go on; a host that comes meanwhile is served.
    fn round(&mut self, attacker: &mut Attacker) -> io::Result<()> {
        self.newcomer.look(attacker);
        if self.began.elapsed() < LEAVES { Ok(()) } else { Err(io::ErrorKind::TimedOut.into()) }
    }
}

/// A parity command of minutes or days.
fn parity(random: &mut Random) -> ParityCommand {
    let memory = MemoryAddress { drive: DriveId(1), offset: 0 };
    let media = |drive| Source::Media { drive: DriveId(drive), base: 0 };
    let seed = Seed::from_number(1);
    let whole = |chunk: u32| 0..DRIVE / u64::from(chunk);
    let shaped = |sources: Vec<Source>, rows: usize, guard, chunk: u32, mode| {
        let coefficients = (0..rows * sources.len()).map(|i| (i % 251) as u8 + 1).collect();
        let rule = Rule::new(rows, sources.len(), coefficients, guard).expect("counts that fit together");
        ParityCommand {
            unpaced: false,
            sources,
            chunk,
            window: Window { start: 0, len: chunk },
            stripes: whole(chunk),
            rule,
            mode,
        }
    };
    match random.below(4) {
        // Every drive a thousand times, in eight rows.
        0 => shaped(vec![media(1); 1920], 8, Vec::new(), 4096, Mode::Check),
        1 => shaped(vec![media(2); 1920], 8, Vec::new(), 65_536, Mode::Check),
        // As many directions of weights as there may be.
        2 => {
            let guard = (0..=255).map(|b| vec![1, b]).collect();
            let into = memory;
            shaped(vec![media(1); 2], 2, guard, 512, Mode::Accumulate { into, seed, accumulators: 8 })
        }
        // The longest chunk, and so the most keys.
        _ => {
            let mut keys =
                shaped(vec![media(2)], 1, Vec::new(), DRIVE as u32, Mode::Fingerprint { seed, powers: 64 });
            keys.stripes = 0..1;
            keys
        }
    }
}

pub(super) fn begin_parity(attacker: &mut Attacker) -> io::Result<Box<dyn Attack>> {
    let (admin, mut queue) = Session::pair(&attacker.target, &attacker.who, 127)?;
    queue.run(vendor(wire::opcode::MEMORY_LEASE, 1, 0, 4 << 20), &[], 0)?;
    for tag in 0..COMMANDS {
        let descriptor = encode_command(&parity(&mut attacker.random));
        let sqe = vendor(wire::opcode::PARITY_EXECUTE, 0, u32::from(tag), descriptor.len());
        queue.submit(sqe, &descriptor, 0)?;
    }
    queue.send()?;
    // Some descriptors are longer than a capsule: their data are asked for.
    queue.stream.set_read_timeout(Some(Duration::from_millis(100)))?;
    while queue.receive().is_ok() {
        queue.send()?;
    }
    let (began, newcomer) = (Instant::now(), Newcomer::new());
    Ok(Box::new(Long { _admin: admin, _queue: queue, began, newcomer }))
}

/// A command that makes long work of a whole drive, except for the part that is verified.
fn media(random: &mut Random, cid: u16) -> (Sqe, Vec<u8>) {
    let (first, count) = (GOOD / 512, ((DRIVE - GOOD) / 512) as u32);
    let nsid = 1 + random.below(2) as u32;
    let longest = 65_536;
    let (mut sqe, data) = match random.below(3) {
        0 => {
            let mut sqe = Sqe::new(opcode::DATASET_MANAGEMENT, nsid);
            sqe.set_dword(10, 255);
            sqe.set_dword(11, 4);
            let mut range = vec![0; 4];
            range.extend_from_slice(&count.to_le_bytes());
            range.extend_from_slice(&first.to_le_bytes());
            (sqe, range.repeat(256))
        }
        1 => (blocks(opcode::WRITE_ZEROES, nsid, first, longest), Vec::new()),
        _ => (blocks(opcode::VERIFY, nsid, 0, longest), Vec::new()),
    };
    sqe.set_cid(cid);
    sqe.set_sgl(if data.is_empty() { Sgl::transport(0) } else { Sgl::in_capsule(data.len() as u32) });
    (sqe, data)
}

/// Commands of a round.
const ROUND: u16 = 16;

struct Media {
    _admin: Session,
    queue: Session,
    newcomer: Newcomer,
}

pub(super) fn begin_media(attacker: &mut Attacker) -> io::Result<Box<dyn Attack>> {
    let (admin, queue) = Session::pair(&attacker.target, &attacker.who, 127)?;
    Ok(Box::new(Media { _admin: admin, queue, newcomer: Newcomer::new() }))
}

impl Attack for Media {
    /// Many commands, and all of their answers. A host that comes meanwhile is served.
    fn round(&mut self, attacker: &mut Attacker) -> io::Result<()> {
        self.newcomer.look(attacker);
        for cid in 0..ROUND {
            let (sqe, data) = media(&mut attacker.random, cid);
            self.queue.out.extend(capsule(&sqe, &data, Digests::default()));
        }
        self.queue.send()?;
        let answers = attacker.answered("long commands on media", answers(&self.queue.stream, 0..ROUND))?;
        for (cid, answer) in answers {
            if answer != Answer::Done(Status::SUCCESS) {
                attacker.breach(format!("long command {cid} on media: {answer:?}"));
            }
        }
        Ok(())
    }
}
