//! PDUs that are bent, in every state of a connection.

use super::{Attack, Attacker};
use crate::hostile::node::DRIVES;
use crate::hostile::wire::{CAPSULE, Session, blocks, capsule, open, refused};
use pumice_nvme::pdu::{Digests, H2cData, IcReq, Kind, Transfer};
use pumice_nvme::spec::Sqe;
use pumice_nvme::spec::opcode::{FABRICS, io as code};
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// Lengths at the edges of what fields can say.
const EDGES: [u32; 14] =
    [0, 1, 7, 8, 23, 24, 71, 72, 128, 4096, CAPSULE + 73, 256 << 10, u32::MAX - 7, u32::MAX];

struct Pdus;

pub(super) fn begin(_: &mut Attacker) -> io::Result<Box<dyn Attack>> {
    Ok(Box::new(Pdus))
}

fn request() -> Vec<u8> {
    IcReq { hpda: 0, digests: Digests::default(), maxr2t: 0 }.encode().to_vec()
}

/// Any PDU, and then something of it changed.
fn bent(attacker: &mut Attacker) -> Vec<u8> {
    let random = &mut attacker.random;
    let none = Digests::default();
    let mut pdu = match random.below(4) {
        0 => request(),
        1 => capsule(&blocks(code::READ, 1 + random.below(u64::from(DRIVES)) as u32, 0, 8), &[], none),
        2 => capsule(&Sqe::new(FABRICS, 0), &[0; 1024], none),
        _ => {
            let mut out = Vec::new();
            let transfer = Transfer { cccid: 0, ttag: 1, offset: 0, len: 64 };
            H2cData::push(&mut out, transfer, true, &[1; 64], none);
            out
        }
    };
    match random.below(6) {
        0 => pdu[0] = random.next() as u8,
        1 => pdu[1] = random.next() as u8,
        2 => pdu[2] = random.next() as u8,
        3 => pdu[3] = random.next() as u8,
        4 => pdu[4..8].copy_from_slice(&random.pick(&EDGES).to_le_bytes()),
        _ => {
            let at = random.below(pdu.len() as u64) as usize;
            pdu[at] ^= 1 << random.below(8);
        }
    }
    if random.once_in(4) {
        pdu.truncate(random.below(pdu.len() as u64) as usize + 1);
    }
    pdu
}

/// Returns whether the first eight bytes of a PDU are there, and are those of none that a host
/// sends: then the connection must end, whatever its state.
fn must_end(pdu: &[u8]) -> bool {
    let known = [Kind::IcReq, Kind::H2cTermReq, Kind::CapsuleCmd, Kind::H2cData];
    let is_known = |kind: &Kind| *kind as u8 == pdu[0] && kind.header_len() == usize::from(pdu[2]);
    pdu.len() >= 8 && !known.iter().any(is_known)
}

/// Sends a bent PDU, and takes what comes back: the end of the connection, if that must be, and
/// else a little.
fn send(attacker: &Attacker, mut stream: &TcpStream, before: &[u8], pdu: &[u8]) -> io::Result<()> {
    stream.write_all(before)?;
    stream.write_all(pdu)?;
    if must_end(pdu) {
        let what = format!("a PDU of type {:#x} with a header of {} bytes", pdu[0], pdu[2]);
        return attacker.answered(&what, refused(stream));
    }
    stream.set_read_timeout(Some(Duration::from_millis(5)))?;
    // That nothing comes is as good as an answer here: what counts is what becomes of others.
    let _ = stream.read(&mut [0; 1024]);
    Ok(())
}

impl Attack for Pdus {
    fn round(&mut self, attacker: &mut Attacker) -> io::Result<()> {
        let pdu = bent(attacker);
        match attacker.random.below(8) {
            0..3 => send(attacker, &open(&attacker.target, attacker.who.from)?, &[], &pdu),
            3..6 => send(attacker, &open(&attacker.target, attacker.who.from)?, &request(), &pdu),
            6 => {
                let (admin, _) = Session::associate(&attacker.target, &attacker.who)?;
                send(attacker, &admin.stream, &[], &pdu)
            }
            _ => {
                let (_admin, queue) = Session::pair(&attacker.target, &attacker.who, 32)?;
                send(attacker, &queue.stream, &[], &pdu)
            }
        }
    }
}
