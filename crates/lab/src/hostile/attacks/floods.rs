//! Commands that cost little, in great numbers.

use super::{Attack, Attacker};
use crate::hostile::wire::{ANSWERED, Session, answers, blocks, capsule};
use pumice_nvme::pdu::Digests;
use pumice_nvme::spec::opcode::{admin, io as opcode};
use pumice_nvme::spec::{Sgl, Sqe};
use std::io::{self, Read};

/// The identifier of the command behind a flood.
const LAST: u16 = 999;

struct Floods {
    admin: Session,
    queue: Session,
}

pub(super) fn begin(attacker: &mut Attacker) -> io::Result<Box<dyn Attack>> {
    let (admin, queue) = Session::pair(&attacker.target, &attacker.who, 127)?;
    Ok(Box::new(Floods { admin, queue }))
}

impl Attack for Floods {
    fn round(&mut self, attacker: &mut Attacker) -> io::Result<()> {
        let code = attacker.random.pick(&[admin::ASYNC_EVENT, admin::ABORT, admin::KEEP_ALIVE]);
        for cid in 0..20_u16 {
            let mut sqe = Sqe::new(code, 0);
            sqe.set_cid(cid);
            sqe.set_dword(10, u32::from(cid) << 16);
            self.admin.out.extend(capsule(&sqe, &[], Digests::default()));
        }
        let mut last = Sqe::new(admin::KEEP_ALIVE, 0);
        last.set_cid(LAST);
        self.admin.out.extend(capsule(&last, &[], Digests::default()));
        self.admin.send()?;
        // All of them under one identifier.
        for _ in 0..64 {
            let mut read = blocks(opcode::READ, 1 + u32::from(attacker.number % 2), 0, 8);
            read.set_cid(7);
            read.set_sgl(Sgl::transport(4096));
            self.queue.out.extend(capsule(&read, &[], Digests::default()));
        }
        self.queue.send()?;
        // 64 answers of 4 KiB, each with its header and its completion; and what was asked behind
        // the flood.
        self.queue.stream.set_read_timeout(Some(ANSWERED))?;
        let mut sink = vec![0; 64 * (24 + 4096 + 24)];
        attacker.answered("one identifier for many commands", self.queue.stream.read_exact(&mut sink))?;
        attacker.answered("a flood", answers(&self.admin.stream, [LAST].into_iter())).map(drop)
    }
}
