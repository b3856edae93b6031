//! Clients of the volume that verify what they read. Each has blocks of its own.

use crate::pairs::ledger::{BLOCK, Ledger};
use crate::pairs::random::Random;
use pumice_nvme::pdu::Digests;
use pumice_nvme::spec::opcode::io;
use pumice_nvme::spec::{Nqn, Sqe};
use pumice_remote::initiator::{Command, ConnectOptions, Controller, InitiatorError, Queue};
use std::net::SocketAddr;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Blocks of a chunk, and of a stripe's data: three chunks.
pub(crate) const CHUNK: u64 = 16;
pub(crate) const STRIPE: u64 = 3 * CHUNK;
/// Commands under way of a client.
const DEPTH: usize = 4;
/// An answer that has not come by then does not come: the cell has failed before.
const DEADLINE: Duration = Duration::from_secs(90);
const HOST: &str = "nqn.2026-11.example:pairs";

/// Blocks of each client, whole stripes of the volume.
pub(crate) const PART: Range<u64> = 0..8 * STRIPE;

/// Requests under way.
#[derive(Debug, Clone)]
pub(crate) struct Wait {
    pub(crate) what: String,
    pub(crate) from: Instant,
}

/// State that the clients share with the cell.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    /// The clients end.
    pub(crate) stop: AtomicBool,
    /// They do nothing.
    pub(crate) rest: AtomicBool,
    /// They work without a pause.
    pub(crate) heavy: AtomicBool,
    /// Kills of the process that serves.
    pub(crate) kills: AtomicU64,
    pub(crate) verified: AtomicU64,
    pub(crate) written: AtomicU64,
    /// Faults: wrong content, refused commands.
    pub(crate) wrong: Mutex<Vec<String>>,
    /// A Flush failed, or a write with FUA: what was not flushed may be lost.
    pub(crate) told: Mutex<Vec<String>>,
    /// The request of each client that is under way.
    pub(crate) pending: Mutex<Vec<Option<Wait>>>,
}

impl Shared {
    fn note(&self, to: &Mutex<Vec<String>>, what: String) {
        let mut to = to.lock().unwrap_or_else(PoisonError::into_inner);
        if to.len() < 8 {
            to.push(what);
        }
    }

    pub(crate) fn stops(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }
}

/// A client.
pub(crate) struct Client<'s> {
    number: usize,
    address: SocketAddr,
    nqn: Nqn,
    shared: &'s Shared,
    ledger: Ledger,
    random: Random,
    link: Option<(Controller, Queue)>,
    /// Blocks of 4096 bytes are so many of the volume.
    per_block: u64,
    kills: u64,
}

/// A command of a batch: its blocks, and the data of a write.
enum Step {
    Read { start: usize, count: usize },
    Write { start: usize, count: usize, fua: bool, data: Vec<u8> },
    Flush,
}

impl<'s> Client<'s> {
    /// Client `number` of a volume.
    pub(crate) fn new(
        number: usize,
        (address, nqn): (SocketAddr, &str),
        shared: &'s Shared,
        seed: u64,
    ) -> Self {
        let first = number as u64 * (PART.end - PART.start);
        shared.pending.lock().unwrap_or_else(PoisonError::into_inner).push(None);
        Self {
            number,
            address,
            nqn: nqn.parse().expect("a volume's name is a name"),
            shared,
            ledger: Ledger::new(first, (PART.end - PART.start) as usize),
            random: Random::new(seed ^ (number as u64) << 32),
            link: None,
            per_block: 1,
            kills: 0,
        }
    }

    fn connect(&self) -> Result<(Controller, Queue, u64), InitiatorError> {
        let options = ConnectOptions {
            subsystem: self.nqn.clone(),
            host: HOST.parse().expect("a name"),
            hostid: [0x40 + self.number as u8; 16],
            digests: Digests::default(),
            flow_control: true,
            deadline: DEADLINE,
        };
        let mut controller = Controller::connect(self.address, options)?;
        let size = controller.namespace(1)?.map_or(512, |namespace| u64::from(namespace.format.data_bytes()));
        let queue = controller.queue(1, 32)?;
        Ok((controller, queue, BLOCK as u64 / size))
    }

    /// Connects if there is no connection; false if nobody answers.
    fn is_connected(&mut self) -> bool {
        if self.link.is_none() {
            let Ok((controller, queue, per_block)) = self.connect() else { return false };
            let kills = self.shared.kills.load(Ordering::Acquire);
            if std::mem::replace(&mut self.kills, kills) != kills {
                self.ledger.unsure();
            }
            (self.link, self.per_block) = (Some((controller, queue)), per_block);
        }
        true
    }

    fn pend(&self, what: Option<Wait>) {
        self.shared.pending.lock().unwrap_or_else(PoisonError::into_inner)[self.number] = what;
    }

    /// A place of up to `most` blocks that none of the steps so far has.
    fn place(&mut self, most: u64, taken: &[Range<usize>]) -> Option<(usize, usize)> {
        let len = self.ledger.len() as u64;
        let count = 1 + self.random.below(most);
        let start = self.random.below(len - count + 1) as usize;
        let range = start..start + count as usize;
        let is_free = taken.iter().all(|other| other.end <= range.start || range.end <= other.start);
        is_free.then_some((start, count as usize))
    }

    /// The commands of a batch. The second client writes whole stripes too, over blocks that it has
    /// written in part before.
    fn steps(&mut self) -> Vec<Step> {
        if self.random.once_in(12) {
            return vec![Step::Flush];
        }
        let mut taken: Vec<Range<usize>> = Vec::new();
        let mut out = Vec::new();
        for _ in 0..DEPTH {
            let wide = self.number == 1 && self.random.once_in(3);
            let place = if wide {
                let stripe = self.random.below(self.ledger.len() as u64 / STRIPE) as usize;
                let start = stripe * STRIPE as usize;
                let range = start..start + STRIPE as usize;
                let is_free = taken.iter().all(|t| t.end <= range.start || range.end <= t.start);
                is_free.then_some((start, STRIPE as usize))
            } else {
                self.place(6, &taken)
            };
            let Some((start, count)) = place else { continue };
            taken.push(start..start + count);
            if !wide && self.random.once_in(3) {
                out.push(Step::Read { start, count });
            } else {
                let fua = self.random.once_in(8);
                out.push(Step::Write { start, count, fua, data: self.ledger.write(start, count) });
            }
        }
        out
    }

    fn sqe(&self, code: u8, start: usize, count: usize) -> Sqe {
        let mut sqe = Sqe::new(code, 1);
        let block = self.ledger.first + start as u64;
        sqe.set_blocks(block * self.per_block, (count as u64 * self.per_block) as u32);
        sqe
    }

    /// Carries out a batch; false if the connection ended.
    fn run(&mut self, steps: &[Step]) -> bool {
        let mut reads: Vec<Vec<u8>> = steps
            .iter()
            .map(|step| vec![0; if let Step::Read { count, .. } = step { count * BLOCK } else { 0 }])
            .collect();
        let mut commands: Vec<Command<'_>> = Vec::new();
        for (step, receive) in steps.iter().zip(&mut reads) {
            let (sqe, send): (Sqe, &[u8]) = match step {
                Step::Read { start, count } => (self.sqe(io::READ, *start, *count), &[]),
                Step::Flush => (Sqe::new(io::FLUSH, 1), &[]),
                Step::Write { start, count, fua, data } => {
                    let mut sqe = self.sqe(io::WRITE, *start, *count);
                    if *fua {
                        sqe.set_dword(12, sqe.dword(12) | u32::from(Sqe::FUA) << 16);
                    }
                    (sqe, data)
                }
            };
            commands.push(Command { sqe, send, receive });
        }
        let what = format!("client {}: {} requests, such as {}", self.number, steps.len(), name(&steps[0]));
        self.pend(Some(Wait { what, from: Instant::now() }));
        let done = self.link.as_mut().map(|(_, queue)| queue.run(&mut commands));
        drop(commands);
        self.pend(None);
        let Some(Ok(done)) = done else {
            self.link = None;
            return false;
        };
        for ((step, outcome), read) in steps.iter().zip(done).zip(&reads) {
            let is_done = outcome.status.is_success();
            match step {
                Step::Read { start, .. } if is_done => {
                    if let Err(why) = self.ledger.compare(*start, read) {
                        self.shared.note(&self.shared.wrong, format!("client {}: {why}", self.number));
                    }
                    self.shared.verified.fetch_add(1, Ordering::AcqRel);
                }
                Step::Write { start, count, fua, .. } if is_done => {
                    self.ledger.acknowledged(*start, *count, *fua);
                    self.shared.written.fetch_add(1, Ordering::AcqRel);
                }
                Step::Flush if is_done => self.ledger.flushed(),
                Step::Flush | Step::Write { fua: true, .. } => {
                    self.ledger.unsure();
                    self.shared.note(&self.shared.told, format!("{}: {}", name(step), outcome.status));
                }
                _ => {
                    let what = format!("client {}: {} refused: {}", self.number, name(step), outcome.status);
                    self.shared.note(&self.shared.wrong, what);
                }
            }
        }
        true
    }

    /// Writes all its blocks, and flushes them.
    ///
    /// # Errors
    /// If the volume does not take them.
    pub(crate) fn fill(&mut self) -> Result<(), String> {
        let is_there = self.is_connected();
        let count = CHUNK as usize;
        let mut starts = (0..self.ledger.len()).step_by(count);
        let is_written = is_there
            && starts.all(|start| {
                let data = self.ledger.write(start, count);
                self.run(&[Step::Write { start, count, fua: false, data }])
            })
            && self.run(&[Step::Flush]);
        if is_written { Ok(()) } else { Err(format!("client {}: the volume takes no writes", self.number)) }
    }

    /// Ends the connection.
    pub(crate) fn leave(&mut self) {
        self.link = None;
    }

    /// Writes and reads until it is stopped.
    pub(crate) fn work(&mut self) {
        while !self.shared.stops() {
            if self.shared.rest.load(Ordering::Acquire) || !self.is_connected() {
                std::thread::sleep(Duration::from_millis(20));
                continue;
            }
            let steps = self.steps();
            self.run(&steps);
            if !self.shared.heavy.load(Ordering::Acquire) {
                std::thread::sleep(Duration::from_millis(2));
            }
        }
    }

    /// Flushes, and reads all that it has written.
    ///
    /// # Errors
    /// If it cannot.
    pub(crate) fn verify(&mut self) -> Result<(), String> {
        self.link = None;
        if !self.is_connected() {
            return Err(format!("client {}: the volume does not answer", self.number));
        }
        // Once more if it fails: that may tell of a loss.
        let flushed = self.run(&[Step::Flush]) && self.run(&[Step::Flush]);
        let all = (0..self.ledger.len()).step_by(CHUNK as usize);
        let is_read =
            all.map(|start| Step::Read { start, count: CHUNK as usize }).all(|step| self.run(&[step]));
        if flushed && is_read {
            Ok(())
        } else {
            Err(format!("client {}: the connection ended while all was read", self.number))
        }
    }
}

const fn name(step: &Step) -> &'static str {
    match step {
        Step::Read { .. } => "a read",
        Step::Write { fua: true, .. } => "a write with FUA",
        Step::Write { .. } => "a write",
        Step::Flush => "a flush",
    }
}
