//! Hosts that take no answers, and hosts that do not send what they were asked for.

use super::{Attack, Attacker};
use crate::hostile::node::{DRIVE, GOOD};
use crate::hostile::random::Random;
use crate::hostile::wire::{PATIENCE, Session, Target, Who, blocks, capsule};
use pumice_nvme::pdu::{Digests, H2cData, Kind, Transfer};
use pumice_nvme::spec::Sgl;
use pumice_nvme::spec::opcode::io as opcode;
use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// Queues of an attacker.
const QUEUES: u16 = 16;
/// Bytes of each command, the most there may be.
const BYTES: u32 = 1 << 20;
/// Bytes of one PDU of data, the most that the node takes.
const PART: u32 = 128 << 10;
/// Time after which the node has closed the connections for their behaviour; the attacker begins
/// anew.
const CLOSED: Duration = Duration::from_secs(35);

/// Nothing is read, and nothing more is sent.
struct Held {
    _admin: Session,
    _queues: Vec<TcpStream>,
    began: Instant,
}

impl Attack for Held {
    fn round(&mut self, _: &mut Attacker) -> io::Result<()> {
        if self.began.elapsed() < CLOSED { Ok(()) } else { Err(ErrorKind::TimedOut.into()) }
    }
}

fn begin(
    attacker: &mut Attacker,
    fill: fn(&Target, &Who, (u16, u16), &mut Random) -> io::Result<TcpStream>,
) -> io::Result<Box<dyn Attack>> {
    let (admin, cntlid) = Session::associate(&attacker.target, &attacker.who)?;
    let mut queues = Vec::new();
    for qid in 1..=QUEUES {
        queues.push(fill(&attacker.target, &attacker.who, (cntlid, qid), &mut attacker.random)?);
    }
    Ok(Box::new(Held { _admin: admin, _queues: queues, began: Instant::now() }))
}

pub(super) fn begin_reads(attacker: &mut Attacker) -> io::Result<Box<dyn Attack>> {
    begin(attacker, reads)
}

pub(super) fn begin_writes(attacker: &mut Attacker) -> io::Result<Box<dyn Attack>> {
    begin(attacker, writes)
}

/// A queue full of reads of 1 MiB, of the drive in memory or of the file.
///
/// # Errors
/// Those of the socket; that the node refuses the queue is one.
pub(crate) fn reads(
    target: &Target,
    who: &Who,
    (cntlid, qid): (u16, u16),
    random: &mut Random,
) -> io::Result<TcpStream> {
    let (mut queue, _) = Session::connect(target, who, (cntlid, qid, 127), Digests::default())?;
    let nsid = 1 + u32::from(qid & 1);
    while queue.host.room() > 0 {
        let first = random.below((DRIVE - u64::from(BYTES)) / 512);
        queue.submit(blocks(opcode::READ, nsid, first, BYTES / 512), &[], BYTES)?;
    }
    queue.send()?;
    Ok(queue.stream)
}

/// A queue that is asked for the data of as many writes as the node asks for, and that sends all of
/// them but the last part.
///
/// # Errors
/// As [`reads`].
pub(crate) fn writes(
    target: &Target,
    who: &Who,
    (cntlid, qid): (u16, u16),
    random: &mut Random,
) -> io::Result<TcpStream> {
    let digests = Digests::default();
    let (queue, _) = Session::connect(target, who, (cntlid, qid, 127), digests)?;
    let mut stream = queue.stream;
    let nsid = 1 + u32::from(qid & 1);
    let mut out = Vec::new();
    for cid in 0..16 {
        let first = GOOD / 512 + random.below((DRIVE - GOOD - u64::from(BYTES)) / 512);
        let mut write = blocks(opcode::WRITE, nsid, first, BYTES / 512);
        write.set_cid(cid);
        write.set_sgl(Sgl::transport(BYTES));
        out.extend(capsule(&write, &[], digests));
    }
    stream.write_all(&out)?;
    stream.set_read_timeout(Some(Duration::from_millis(50)))?;
    let data = vec![6; PART as usize];
    loop {
        let mut asked = [0; 24];
        match stream.read_exact(&mut asked) {
            Ok(()) => {}
            // The node asks for no more.
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => break,
            Err(error) => return Err(error),
        }
        if asked[0] != Kind::R2t as u8 {
            return Err(io::Error::other("no request for data"));
        }
        let asked = Transfer::decode(&asked);
        let mut parts = Vec::new();
        for offset in (0..asked.len.saturating_sub(PART)).step_by(PART as usize) {
            let part = Transfer { offset, len: PART, ..asked };
            H2cData::push(&mut parts, part, false, &data, digests);
        }
        stream.write_all(&parts)?;
    }
    stream.set_read_timeout(Some(PATIENCE))?;
    Ok(stream)
}
