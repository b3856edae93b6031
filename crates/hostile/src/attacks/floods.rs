//! Commands that cost little, in great numbers.

use super::{Attack, Attacker};
use crate::wire::{Session, blocks, capsule};
use pumice_nvme::pdu::Digests;
use pumice_nvme::spec::opcode::{admin, io as opcode};
use pumice_nvme::spec::{Sgl, Sqe};
use std::io::{self, Read};

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
        self.admin.send()?;
        // All of them under one identifier.
        for _ in 0..64 {
            let mut read = blocks(opcode::READ, 1 + u32::from(attacker.number % 2), 0, 8);
            read.set_cid(7);
            read.set_sgl(Sgl::transport(4096));
            self.queue.out.extend(capsule(&read, &[], Digests::default()));
        }
        self.queue.send()?;
        // What comes is thrown away unseen: 64 answers of 4 KiB, and of the others what there is.
        let mut left = 64 * 4096;
        let mut sink = vec![0; 64 << 10];
        while left > 0 {
            let n = self.queue.stream.read(&mut sink)?;
            if n == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            left = usize::saturating_sub(left, n);
        }
        self.admin.stream.set_nonblocking(true)?;
        while self.admin.stream.read(&mut sink).is_ok_and(|n| n > 0) {}
        self.admin.stream.set_nonblocking(false)
    }
}
