//! Trials: what happens to a node once, or again and again, and what must be so afterwards. Clients
//! that verify are there too; latencies are not compared.

mod deadlines;
mod descriptors;
mod full;
mod kill;
mod lost;
mod replay;

use crate::hostile::bound::{Load, bound};
use crate::hostile::good::Outcome;
use crate::hostile::measure::{Row, end_of};
use crate::hostile::node::Node;
use crate::hostile::wire::Target;
use crate::hostile::{Failed, Options};
use pumice_nvme::pdu::Digests;
use pumice_nvme::spec::opcode::io;
use pumice_nvme::spec::{Sqe, Status};
use pumice_remote::initiator::{ConnectOptions, Controller, Queue};
use std::path::Path;
use std::time::{Duration, Instant};

/// Time for anything that must happen in the end.
const PATIENCE: Duration = Duration::from_secs(20);
/// Blocks of 512 bytes of a piece.
const PIECE: u32 = 8;
/// Bytes of a piece.
const PIECE_BYTES: usize = PIECE as usize * 512;

/// A trial.
pub(crate) struct Trial {
    pub(crate) name: &'static str,
    pub(crate) what: &'static str,
    pub(crate) run: fn(&Options, &Path) -> Result<Row, Failed>,
}

/// All trials.
pub(crate) const TRIALS: [Trial; 6] = [
    Trial {
        name: "kill",
        what: "a node that is killed under load, and started again on the same drive",
        run: kill::run,
    },
    Trial { name: "replay", what: "old PDUs of connections that have ended", run: replay::run },
    Trial {
        name: "lost",
        what: "a file behind a drive that is truncated or removed under load",
        run: lost::run,
    },
    Trial { name: "full", what: "a state folder without room", run: full::run },
    Trial {
        name: "descriptors",
        what: "600 connections to a node that may have 300 descriptors",
        run: descriptors::run,
    },
    Trial {
        name: "deadlines",
        what: "connections that do not go on, until the node closes them",
        run: deadlines::run,
    },
];

/// Row of a trial. The node is asked to end.
fn row(name: &'static str, outcome: Outcome, node: Node, breaches: Vec<String>, options: &Options) -> Row {
    let load =
        Load { hosts: 16, connections: 700, queues: 64, cores: u64::from(options.cores), parity: false };
    let largest = node.largest();
    Row {
        name,
        outcome,
        pairs: Vec::new(),
        kept: Vec::new(),
        open: Vec::new(),
        largest,
        bound: bound(&load),
        ended: end_of(node),
        breaches,
        skipped: None,
    }
}

/// The content of a piece, different for each seed.
fn content(seed: u64) -> Vec<u8> {
    let mut bytes = vec![0; PIECE_BYTES];
    crate::hostile::random::Random::new(crate::hostile::random::mix(seed)).fill(&mut bytes);
    bytes
}

/// A host that keeps to the rules.
struct Host {
    _controller: Controller,
    queue: Queue,
}

impl Host {
    /// Connects host `number`.
    fn connect(target: &Target, number: u8) -> Result<Self, Failed> {
        let wrong = |error: pumice_remote::initiator::InitiatorError| Failed(format!("connecting: {error}"));
        let options = ConnectOptions {
            subsystem: target.nqn.parse().expect("a node's name is a name"),
            host: format!("nqn.2026-11.example:trial-{number}").parse().expect("a name"),
            hostid: host_id(number),
            digests: Digests::default(),
            flow_control: true,
            deadline: PATIENCE,
        };
        let controller = Controller::connect(target.address.into(), options).map_err(wrong)?;
        let queue = controller.queue(1, 32).map_err(wrong)?;
        Ok(Self { _controller: controller, queue })
    }

    /// The same, of a host that may be refused for a while.
    fn come_back(target: &Target, number: u8) -> Result<Self, Failed> {
        let until = Instant::now() + PATIENCE;
        loop {
            match Self::connect(target, number) {
                Err(_) if Instant::now() < until => std::thread::sleep(Duration::from_millis(20)),
                done => return done,
            }
        }
    }

    /// Carries out a command; `None` where the connection is lost.
    fn run(&mut self, sqe: Sqe, send: &[u8]) -> Option<Status> {
        self.queue.execute(sqe, send, &mut []).ok().map(|outcome| outcome.status)
    }

    /// Reads a piece.
    fn read(&mut self, nsid: u32, piece: u32) -> Option<(Status, Vec<u8>)> {
        let mut bytes = vec![0; PIECE_BYTES];
        let outcome = self.queue.execute(command(io::READ, nsid, piece), &[], &mut bytes).ok()?;
        Some((outcome.status, bytes))
    }
}

/// The identifier of host `number`.
fn host_id(number: u8) -> [u8; 16] {
    let mut id = *b"host in a trial ";
    id[15] = number;
    id
}

/// A command for a piece: pieces are counted from behind the part of the clients that verify.
fn command(code: u8, nsid: u32, piece: u32) -> Sqe {
    let mut sqe = Sqe::new(code, nsid);
    sqe.set_blocks(crate::hostile::node::GOOD / 512 + u64::from(piece * PIECE), PIECE);
    sqe
}
