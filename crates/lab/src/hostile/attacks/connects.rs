//! Connections before commands, and at their bounds: digests, queue sizes, Connect.

use super::{Attack, Attacker};
use crate::hostile::node::GOOD;
use crate::hostile::wire::{ANSWERED, Session, blocks, capsule, open};
use pumice_nvme::pdu::{Digests, IcReq, Kind};
use pumice_nvme::spec::connect::{DATA_LEN, DYNAMIC, Data, Fields};
use pumice_nvme::spec::opcode::{FABRICS, admin, fabrics, io as opcode};
use pumice_nvme::spec::{Cqe, Sgl, Sqe};
use std::io::{self, Read, Write};

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

/// A write with digests, one bit of which is turned: it is not carried out.
fn wrong_digest(attacker: &mut Attacker) -> io::Result<()> {
    let both = Digests { header: true, data: true };
    let (_admin, cntlid) = Session::associate(&attacker.target, &attacker.who)?;
    let (mut queue, _) = Session::connect(&attacker.target, &attacker.who, (cntlid, 1, 32), both)?;
    queue.submit(blocks(opcode::WRITE, 1, GOOD / 512, 8), &[1; 4096], 0)?;
    let at = attacker.random.below(queue.out.len() as u64) as usize;
    queue.out[at] ^= 1 << attacker.random.below(8);
    // A length that says too much is waited for in vain.
    if queue.wait()?.status.is_success() {
        attacker.breach(format!("a write of which bit {at} was turned"));
    }
    Ok(())
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
    queue.stream.set_read_timeout(Some(ANSWERED))?;
    attacker.answered("more commands than entries", queue.receive())
}

/// Admin commands on a controller that is not enabled.
fn before_enable(attacker: &mut Attacker) -> io::Result<()> {
    let who = (DYNAMIC, 0, 31);
    let (mut queue, _) = Session::connect(&attacker.target, &attacker.who, who, Digests::default())?;
    for _ in 0..8 {
        let code = attacker.random.pick(&[admin::IDENTIFY, admin::GET_LOG_PAGE, admin::ASYNC_EVENT, 0x7E]);
        queue.submit(Sqe::new(code, 0), &[], 4096)?;
        let done =
            attacker.answered("a command before the controller is enabled", queue.wait_for(ANSWERED))?;
        if done.status.is_success() {
            attacker.breach(format!("command {code:#x} on a controller that is not enabled"));
        }
    }
    Ok(())
}

/// Connect with fields at random: most of them must be refused.
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
    // This host has no controller whose queue it could be.
    let is_bad = data.len() != DATA_LEN
        || fields.recfmt != 0
        || fields.qid != 0
        || !(1..=127).contains(&fields.sqsize);
    sqe.set_sgl(Sgl::in_capsule(data.len() as u32));
    bytes.extend(capsule(&sqe, &data, digests));
    stream.write_all(&bytes)?;
    // ICResp, and the completion; or a term request, which is shorter.
    stream.set_read_timeout(Some(ANSWERED))?;
    let mut answer = [0; 128 + 24];
    attacker.answered("Connect", stream.read_exact(&mut answer[..128 + 8]))?;
    if answer[128] == Kind::CapsuleResp as u8 {
        attacker.answered("Connect", stream.read_exact(&mut answer[128 + 8..]))?;
        if is_bad && Cqe::decode(&answer[128 + 8..]).status.is_success() {
            attacker.breach(format!("Connect with {fields:?} and {} bytes of data", data.len()));
        }
    }
    Ok(())
}
