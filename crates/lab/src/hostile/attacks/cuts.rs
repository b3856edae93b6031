//! Sessions that end in the middle, by FIN or RST.

use super::{Attack, Attacker};
use crate::hostile::node::GOOD;
use crate::hostile::wire::{Session, blocks, capsule, open, property, reset};
use pumice_nvme::pdu::{Digests, IcReq};
use pumice_nvme::spec::connect::{DYNAMIC, Data, Fields};
use pumice_nvme::spec::opcode::{FABRICS, admin, fabrics, io as opcode};
use pumice_nvme::spec::property::{cc, offset};
use pumice_nvme::spec::{Sgl, Sqe};
use std::io::{self, Write};
use std::net::TcpStream;

struct Cuts {
    /// Places of the next cuts: of the next admin session, and of the next I/O session.
    at: [usize; 2],
}

pub(super) fn begin(attacker: &mut Attacker) -> io::Result<Box<dyn Attack>> {
    // Attackers begin at different places.
    let at = usize::from(attacker.number) * 700;
    Ok(Box::new(Cuts { at: [at; 2] }))
}

/// All that a host says in an admin session.
fn admin_session(attacker: &Attacker) -> Vec<u8> {
    let digests = Digests::default();
    let mut bytes = IcReq { hpda: 0, digests, maxr2t: 0 }.encode().to_vec();
    let data = Data {
        hostid: attacker.who.id,
        cntlid: DYNAMIC,
        subnqn: attacker.target.nqn.clone(),
        hostnqn: attacker.who.nqn.clone(),
    }
    .encode();
    let mut connect = Sqe::new(FABRICS, 0);
    connect.0[4] = fabrics::CONNECT;
    Fields { recfmt: 0, qid: 0, sqsize: 31, cattr: 0, kato_ms: 0 }.encode(&mut connect);
    connect.set_sgl(Sgl::in_capsule(data.len() as u32));
    bytes.extend(capsule(&connect, &data, digests));
    let enable = property(fabrics::PROPERTY_SET, offset::CC, cc::ENABLE | cc::ENTRY_SIZES_64_16);
    let mut identify = Sqe::new(admin::IDENTIFY, 0);
    identify.0[40] = 1;
    identify.set_sgl(Sgl::transport(4096));
    for sqe in [enable, property(fabrics::PROPERTY_GET, offset::CSTS, 0), identify] {
        bytes.extend(capsule(&sqe, &[], digests));
    }
    bytes
}

fn cut(stream: TcpStream, attacker: &mut Attacker) {
    if attacker.random.once_in(2) {
        reset(stream);
    }
}

impl Attack for Cuts {
    fn round(&mut self, attacker: &mut Attacker) -> io::Result<()> {
        let bytes = admin_session(attacker);
        let mut stream = open(&attacker.target, attacker.who.from)?;
        stream.write_all(&bytes[..self.at[0] % bytes.len()])?;
        cut(stream, attacker);
        self.at[0] += 1;
        // A write whose data are in the capsule, and one whose data are asked for.
        let (_admin, mut queue) = Session::pair(&attacker.target, &attacker.who, 32)?;
        let write = |first: u64, count| blocks(opcode::WRITE, 2, GOOD / 512 + first, count);
        queue.submit(write(0, 16), &[3; 8192], 0)?;
        queue.submit(write(64, 128), &[4; 65_536], 0)?;
        let len = self.at[1] % (queue.out.len() + 65_536);
        let now = len.min(queue.out.len());
        queue.stream.write_all(&queue.out[..now])?;
        let rest = len - now;
        queue.out.clear();
        if rest > 0 {
            while queue.out.is_empty() {
                queue.receive()?;
            }
            let rest = rest.min(queue.out.len());
            queue.stream.write_all(&queue.out[..rest])?;
        }
        self.at[1] += 61;
        cut(queue.stream, attacker);
        Ok(())
    }
}
