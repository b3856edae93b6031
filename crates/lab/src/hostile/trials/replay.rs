//! Old PDUs of connections that have ended: what a host sent before it was cut off must not come
//! after what it writes when it is back, wherever it lay meanwhile, and whoever sends it again.

use super::{Host, PIECE, command, content, host_id, row};
use crate::hostile::good::Good;
use crate::hostile::measure::{PERIOD, Row};
use crate::hostile::node::{GOOD, Node};
use crate::hostile::wire::{Session, Target, Who, blocks, capsule, open, reset};
use crate::hostile::{Failed, Options};
use pumice_nvme::pdu::{Digests, H2cData, IcReq, Transfer};
use pumice_nvme::spec::connect::{Data, Fields};
use pumice_nvme::spec::opcode::{FABRICS, fabrics, io as code};
use pumice_nvme::spec::{Sgl, Sqe, Status};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpStream};
use std::path::Path;
use std::time::Duration;

/// Pieces that old writes and new ones are for.
const PIECES: u32 = 512;
/// Queues of the association that is cut off.
const QUEUES: u16 = 4;
/// Time for what is late to come.
const LATE: Duration = Duration::from_millis(300);

/// Ways of cutting the association off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cut {
    Reset,
    Close,
    /// The sending half is closed, and the other one stays open.
    Half,
    /// By a close, in peace; what it had sent is sent again afterwards.
    Again,
}

/// An old write of a piece.
fn old_write(nsid: u32, piece: u32, seed: u64) -> Vec<u8> {
    let mut sqe = command(code::WRITE, nsid, piece);
    let data = content(seed);
    sqe.set_cid(piece as u16 % 100);
    sqe.set_sgl(Sgl::in_capsule(data.len() as u32));
    capsule(&sqe, &data, Digests::default())
}

fn stale(seed: u64, piece: u32) -> u64 {
    seed << 32 | 1 << 31 | u64::from(piece)
}

fn fresh(seed: u64, piece: u32) -> u64 {
    seed << 32 | u64::from(piece)
}

/// Sends as much as the socket takes at once.
fn stuff(stream: &mut TcpStream, bytes: &[u8]) -> io::Result<usize> {
    stream.set_nonblocking(true)?;
    let mut sent = 0;
    while sent < bytes.len() {
        match stream.write(&bytes[sent..]) {
            Ok(n) => sent += n,
            Err(error) if error.kind() == ErrorKind::WouldBlock => break,
            Err(error) => return Err(error),
        }
    }
    stream.set_nonblocking(false)?;
    Ok(sent)
}

struct Trial<'n> {
    node: &'n Node,
    who: Who,
    nsid: u32,
    seed: u64,
    breaches: Vec<String>,
    /// Bytes of old writes that lay in sockets.
    laid: usize,
}

impl Trial<'_> {
    fn target(&self) -> &Target {
        &self.node.target
    }

    /// The old association is cut off while the node stands still, with its sockets full of writes.
    /// The host is back before the node goes on.
    fn cut_off(&mut self, cut: Cut) -> io::Result<()> {
        let (admin, cntlid) = Session::associate(self.target(), &self.who)?;
        let mut streams = vec![admin.stream];
        for qid in 1..=QUEUES {
            let which = (cntlid, qid, 127);
            streams.push(Session::connect(self.target(), &self.who, which, Digests::default())?.0.stream);
        }
        self.node.pause();
        for (i, stream) in (0..).zip(&mut streams[1..]) {
            let mine = (i..PIECES).step_by(usize::from(QUEUES));
            let writes = mine.map(|piece| old_write(self.nsid, piece, stale(self.seed, piece)));
            let bytes: Vec<u8> = writes.flatten().collect();
            self.laid += stuff(stream, &bytes)?;
        }
        let mut kept = Vec::new();
        for stream in streams {
            match cut {
                Cut::Reset => reset(stream),
                Cut::Half => {
                    stream.shutdown(Shutdown::Write)?;
                    kept.push(stream);
                }
                Cut::Close | Cut::Again => drop(stream),
            }
        }
        self.write_anew(true);
        Ok(())
    }

    /// The host is back, and writes other data; then everything must be as it wrote it, and stay
    /// so.
    fn write_anew(&mut self, paused: bool) {
        let (target, number) = (self.target().clone(), self.who.id[15]);
        let node = self.node;
        let host = std::thread::scope(|scope| {
            let back = scope.spawn(|| Host::come_back(&target, number));
            if paused {
                std::thread::sleep(Duration::from_millis(50));
                node.resume();
            }
            back.join().expect("it does not panic")
        });
        let mut host = match host {
            Ok(host) => host,
            Err(Failed(why)) => return self.breaches.push(format!("the host cannot come back: {why}")),
        };
        for piece in 0..PIECES {
            let new = content(fresh(self.seed, piece));
            if !host.run(command(code::WRITE, self.nsid, piece), &new).is_some_and(Status::is_success) {
                return self.breaches.push(format!("piece {piece} is not written anew"));
            }
        }
        std::thread::sleep(LATE);
        self.check(&mut host);
    }

    fn check(&mut self, host: &mut Host) {
        for piece in 0..PIECES {
            let read = host.read(self.nsid, piece);
            if !read.is_some_and(|(status, bytes)| {
                status.is_success() && bytes == content(fresh(self.seed, piece))
            }) {
                return self
                    .breaches
                    .push(format!("piece {piece} of drive {} is not the new one", self.nsid));
            }
        }
    }

    /// Sends the bytes of an I/O queue again after its association has ended: with their beginning,
    /// or without, or in the middle of another connection.
    fn again(&mut self) -> io::Result<()> {
        let digests = Digests::default();
        let (admin, cntlid) = Session::associate(self.target(), &self.who)?;
        let (queue, _) = Session::connect(self.target(), &self.who, (cntlid, 1, 127), digests)?;
        let writes: Vec<u8> =
            (0..64).flat_map(|piece| old_write(self.nsid, piece, stale(self.seed, piece))).collect();
        drop((admin, queue));
        self.write_anew(false);
        let mut connect = Sqe::new(FABRICS, 0);
        connect.0[4] = fabrics::CONNECT;
        Fields { recfmt: 0, qid: 1, sqsize: 127, cattr: 0, kato_ms: 0 }.encode(&mut connect);
        let data = Data {
            hostid: self.who.id,
            cntlid,
            subnqn: self.target().nqn.clone(),
            hostnqn: self.who.nqn.clone(),
        };
        let data = data.encode();
        connect.set_sgl(Sgl::in_capsule(data.len() as u32));
        let connect = capsule(&connect, &data, digests);
        let request = IcReq { hpda: 0, digests, maxr2t: 0 }.encode().to_vec();
        let all = [&request[..], &connect, &writes].concat();
        let without_connect = [&request[..], &writes].concat();
        self.laid += all.len() + without_connect.len() + writes.len();
        for bytes in [all, without_connect, writes] {
            let mut stream = open(self.target(), self.who.from)?;
            // The node may close in the middle of it.
            let _ = stream.write_all(&bytes);
            stream.set_read_timeout(Some(LATE))?;
            while stream.read(&mut [0; 4096]).is_ok_and(|n| n > 0) {}
        }
        self.data_again()?;
        let mut host =
            Host::come_back(self.target(), self.who.id[15]).map_err(|Failed(why)| io::Error::other(why))?;
        self.check(&mut host);
        Ok(())
    }

    /// Data that a former queue was asked for come over a new one, which was asked for other data.
    fn data_again(&self) -> io::Result<()> {
        let (_admin, mut queue) = Session::pair(self.target(), &self.who, 127)?;
        // Larger than a capsule may be, and behind the pieces.
        let first = GOOD / 512 + u64::from(PIECES * PIECE);
        queue.submit(blocks(code::WRITE, self.nsid, first, 64), &[1; 64 * 512], 0)?;
        queue.send()?;
        let mut bytes = Vec::new();
        for ttag in 1..=127 {
            let data = content(stale(self.seed, 0));
            let transfer = Transfer { cccid: 99, ttag, offset: 0, len: data.len() as u32 };
            H2cData::push(&mut bytes, transfer, true, &data, Digests::default());
        }
        let _ = queue.stream.write_all(&bytes);
        queue.stream.set_read_timeout(Some(LATE))?;
        while queue.stream.read(&mut [0; 4096]).is_ok_and(|n| n > 0) {}
        Ok(())
    }
}

/// See the module.
pub(super) fn run(options: &Options, folder: &Path) -> Result<Row, Failed> {
    let node = Node::start(&options.binary, folder, "replay", options.cores)?;
    let good = Good::start(&node.target, PERIOD)?;
    let (mut breaches, mut laid, mut seed) = (Vec::new(), 0, 0);
    for _ in 0..options.rounds {
        for cut in [Cut::Reset, Cut::Close, Cut::Half, Cut::Again] {
            for nsid in [1, 2] {
                seed += 1;
                let mut who = Who::at(Ipv4Addr::LOCALHOST, 0);
                // The same host as the one that comes back.
                (who.id, who.nqn) =
                    (host_id(seed as u8), format!("nqn.2026-11.example:trial-{}", seed as u8));
                let mut trial = Trial { node: &node, who, nsid, seed, breaches: Vec::new(), laid: 0 };
                let done = if cut == Cut::Again { trial.again() } else { trial.cut_off(cut) };
                node.resume();
                if let Err(error) = done {
                    trial.breaches.push(error.to_string());
                }
                laid += trial.laid;
                breaches.extend(trial.breaches.iter().map(|what| format!("{cut:?}, drive {nsid}: {what}")));
            }
        }
    }
    crate::hostile::say(&format!("replay: {seed} times, {} MiB of old writes", laid >> 20));
    if laid == 0 {
        breaches.push("no old write was sent".to_owned());
    }
    let outcome = good.stop();
    Ok(row("replay", outcome, node, breaches, options))
}
