//! What comes before commands, and at their bounds: digests, queue sizes, Connect.

use super::{Attack, Attacker};
use crate::wire::{Session, blocks, capsule, open};
use pumice_nvme::pdu::{Digests, IcReq};
use pumice_nvme::spec::connect::{DYNAMIC, Data, Fields};
use pumice_nvme::spec::opcode::{FABRICS, admin, fabrics, io as opcode};
use pumice_nvme::spec::{Sgl, Sqe};
use std::io::{self, Read, Write};
use std::time::Duration;

struct Connects;

pub(super) fn begin(_: &mut Attacker) -> io::Result<Box<dyn Attack>> {
    Ok(Box::new(Connects))
}

impl Attack for Connects {
    fn round(&mut self, attacker: &mut Attacker) -> io::Result<()> {
        match attacker.random.below(4) {
            0 => wrong_digest(attacker),
            1 => too_many(attacker),
            2 => before_enable(attacker),
            _ => bent_connect(attacker),
        }
    }
}

/// Commands with digests, one bit of which is turned.
fn wrong_digest(attacker: &mut Attacker) -> io::Result<()> {
    let both = Digests { header: true, data: true };
    let (_admin, cntlid) = Session::associate(&attacker.target, &attacker.who)?;
    let (mut queue, _) = Session::connect(&attacker.target, &attacker.who, (cntlid, 1, 32), both)?;
    queue.submit(blocks(opcode::COMPARE, 1, 0, 8), &[1; 4096], 0)?;
    let at = attacker.random.below(queue.out.len() as u64) as usize;
    queue.out[at] ^= 1 << attacker.random.below(8);
    queue.wait().map(drop)
}

/// Twice as many commands as the queue has entries, at once.
fn too_many(attacker: &mut Attacker) -> io::Result<()> {
    let (_admin, mut queue) = Session::pair(&attacker.target, &attacker.who, 127)?;
    for cid in 0..256 {
        let mut read = blocks(opcode::READ, 2, 0, 8);
        read.set_cid(cid);
        read.set_sgl(Sgl::transport(4096));
        queue.out.extend(capsule(&read, &[], Digests::default()));
    }
    queue.send()?;
    queue.receive()
}

/// Admin commands on a controller that is not enabled.
fn before_enable(attacker: &mut Attacker) -> io::Result<()> {
    let who = (DYNAMIC, 0, 31);
    let (mut queue, _) = Session::connect(&attacker.target, &attacker.who, who, Digests::default())?;
    for _ in 0..8 {
        let code = attacker.random.pick(&[admin::IDENTIFY, admin::GET_LOG_PAGE, admin::ASYNC_EVENT, 0x7E]);
        queue.run(Sqe::new(code, 0), &[], 4096)?;
    }
    Ok(())
}

/// Connect with fields at random: most of them are refused.
fn bent_connect(attacker: &mut Attacker) -> io::Result<()> {
    let random = &mut attacker.random;
    let mut stream = open(&attacker.target, attacker.who.from)?;
    let digests = Digests::default();
    let mut bytes = IcReq { hpda: 0, digests, maxr2t: 0 }.encode().to_vec();
    let data = Data {
        hostid: attacker.who.id,
        cntlid: random.pick(&[0, 1, 2, 0xFFEF, 0xFFFE, DYNAMIC]),
        subnqn: attacker.target.nqn.clone(),
        hostnqn: attacker.who.nqn.clone(),
    };
    let mut data = data.encode().to_vec();
    if random.once_in(2) {
        let at = random.below(data.len() as u64) as usize;
        data[at] = random.next() as u8;
    }
    data.truncate(random.pick(&[0, 1, 512, 1023, 1024]));
    let mut sqe = Sqe::new(FABRICS, 0);
    sqe.0[4] = fabrics::CONNECT;
    let fields = Fields {
        recfmt: random.pick(&[0, 0, 0, 1]),
        qid: random.pick(&[0, 1, 64, 65, 65_535]),
        sqsize: random.pick(&[0, 1, 127, 128, 65_535]),
        cattr: random.next() as u8,
        kato_ms: random.next() as u32,
    };
    fields.encode(&mut sqe);
    sqe.set_sgl(Sgl::in_capsule(data.len() as u32));
    bytes.extend(capsule(&sqe, &data, digests));
    stream.write_all(&bytes)?;
    stream.set_read_timeout(Some(Duration::from_millis(20)))?;
    let mut answer = [0; 512];
    stream.read(&mut answer).map(drop)
}
