//! Clients that behave well, and verify what they read: two for each drive of a node. One has one
//! command under way at a time, and its latencies are measured; the other has many, on two queues.

use crate::hostile::Failed;
use crate::hostile::node::{DRIVES, GOOD};
use crate::hostile::random::{Random, mix};
use crate::hostile::wire::Target;
use pumice_nvme::pdu::Digests;
use pumice_nvme::spec::Sqe;
use pumice_nvme::spec::opcode::io;
use pumice_remote::initiator::{Command, ConnectOptions, Controller, Queue};
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Bytes of one read or write.
const PIECE: usize = 4096;
/// Time after which a connection without an answer counts as lost.
const DEADLINE: Duration = Duration::from_secs(30);

/// Clients of a drive, and their connections: the queues of one, two of the other, and an admin
/// queue each.
const OF_DRIVE: u32 = 2;
pub(crate) const CONNECTIONS: usize = (DRIVES * (2 + 3)) as usize;
/// Hosts that they are.
pub(crate) const HOSTS: u16 = (DRIVES * OF_DRIVE) as u16;
/// Commands under way of the second client; it sends as many as the first in the same time.
const DEPTH: usize = 16;

/// Time for writing all that the clients verify.
const TO_FILL: Duration = Duration::from_secs(120);

/// Observations of the clients.
#[derive(Debug, Default)]
struct Observations {
    /// Nanoseconds of each command, from when it was to be sent, since they were taken last.
    latencies: Mutex<Vec<u64>>,
    verified: AtomicU64,
    wrong: AtomicU64,
    lost: AtomicU64,
    refused: AtomicU64,
    why: Mutex<Vec<String>>,
    /// Measurements that were begun.
    measurements: AtomicU64,
    stop: AtomicBool,
}

/// Totals of the clients' observations.
#[derive(Debug, Clone, Default)]
pub(crate) struct Outcome {
    /// Reads that were compared.
    pub(crate) verified: u64,
    /// Reads that brought other bytes than were written.
    pub(crate) wrong: u64,
    /// Connections that ended, or that brought no answer in time.
    pub(crate) lost: u64,
    /// Commands that failed.
    pub(crate) refused: u64,
    /// Messages of the first failures.
    pub(crate) why: Vec<String>,
}

/// The clients of a node, at work.
pub(crate) struct Good {
    seen: Arc<Observations>,
    threads: Vec<JoinHandle<()>>,
}

impl Good {
    /// Has two clients for each drive of a node fill their parts of the drive, and then read and
    /// write them at random, one command every `period`.
    ///
    /// # Errors
    /// Where they cannot fill their parts in time.
    pub(crate) fn start(target: &Target, period: Duration) -> Result<Self, Failed> {
        Self::start_on(1..=DRIVES, target, period)
    }

    /// The same, on some of the drives.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub(crate) fn start_on(
        drives: RangeInclusive<u32>,
        target: &Target,
        period: Duration,
    ) -> Result<Self, Failed> {
        let seen = Arc::new(Observations::default());
        let ready = Arc::new(AtomicU64::new(0));
        let client = |(nsid, deep): (u32, bool)| {
            let (seen, ready, target) = (Arc::clone(&seen), Arc::clone(&ready), target.clone());
            std::thread::spawn(move || Client::new(nsid, deep, &target, &seen).work(period, &ready))
        };
        let both = drives.flat_map(|nsid| [(nsid, false), (nsid, true)]);
        let threads: Vec<_> = both.map(client).collect();
        let count = threads.len() as u64;
        let good = Self { seen, threads };
        let until = Instant::now() + TO_FILL;
        while ready.load(Ordering::Acquire) < count {
            if Instant::now() >= until {
                return Err(Failed(format!("clients cannot begin: {}", good.stop().why.join("; "))));
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(good)
    }

    /// Begins a measurement: what the clients are late with from before it does not count.
    pub(crate) fn begin_measurement(&self) {
        self.seen.measurements.fetch_add(1, Ordering::AcqRel);
        self.take_latencies();
    }

    /// The times of all commands since this was asked last, in nanoseconds.
    pub(crate) fn take_latencies(&self) -> Vec<u64> {
        std::mem::take(&mut self.seen.latencies.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Ends the clients, each of which reads all that it has written once more.
    pub(crate) fn stop(self) -> Outcome {
        self.seen.stop.store(true, Ordering::Release);
        for thread in self.threads {
            thread.join().expect("a client does not panic");
        }
        let Observations { verified, wrong, lost, refused, why, .. } = &*self.seen;
        let of = |count: &AtomicU64| count.load(Ordering::Acquire);
        let why = why.lock().unwrap_or_else(PoisonError::into_inner).clone();
        Outcome { verified: of(verified), wrong: of(wrong), lost: of(lost), refused: of(refused), why }
    }
}

/// A client with its part of one drive.
struct Client<'s> {
    nsid: u32,
    /// It has many commands under way.
    deep: bool,
    address: SocketAddr,
    options: ConnectOptions,
    seen: &'s Observations,
    random: Random,
    /// The first piece of its part, and how often each was written.
    first: usize,
    versions: Vec<u64>,
    link: Option<(Controller, Vec<Queue>)>,
    /// Batches so far: the queues have their turns.
    batches: usize,
}

/// The content of a piece after so many writes.
fn content(nsid: u32, piece: usize, version: u64) -> Vec<u8> {
    let mut bytes = vec![0; PIECE];
    let seed = mix(u64::from(nsid) << 48 ^ (piece as u64) << 32 ^ version);
    Random::new(seed).fill(&mut bytes);
    bytes
}

impl<'s> Client<'s> {
    fn new(nsid: u32, deep: bool, target: &Target, seen: &'s Observations) -> Self {
        let options = ConnectOptions {
            subsystem: target.nqn.parse().expect("a node's name is a name"),
            host: "nqn.2026-11.example:good".parse().expect("a name"),
            hostid: [0x60 + 2 * nsid as u8 + u8::from(deep); 16],
            digests: Digests::default(),
            flow_control: true,
            deadline: DEADLINE,
        };
        let pieces = GOOD as usize / PIECE / OF_DRIVE as usize;
        let versions = vec![0; pieces];
        let first = usize::from(deep) * pieces;
        let random = Random::new(2 * u64::from(nsid) + u64::from(deep));
        let address = target.address.into();
        Self { nsid, deep, address, options, seen, random, first, versions, link: None, batches: 0 }
    }

    fn stops(&self) -> bool {
        self.seen.stop.load(Ordering::Acquire)
    }

    fn note(&self, count: &AtomicU64, what: String) {
        count.fetch_add(1, Ordering::AcqRel);
        let mut why = self.seen.why.lock().unwrap_or_else(PoisonError::into_inner);
        if why.len() < 5 {
            why.push(what);
        }
    }

    /// The queue whose turn it is; all are made anew if one was lost.
    fn queue(&mut self) -> Option<&mut Queue> {
        while self.link.is_none() {
            let queues = if self.deep { 1..=2 } else { 1..=1 };
            let made = Controller::connect(self.address, self.options.clone()).and_then(|controller| {
                let queues =
                    queues.map(|qid| controller.queue(qid, 2 * DEPTH as u16)).collect::<Result<_, _>>()?;
                Ok((controller, queues))
            });
            match made {
                Ok(link) => self.link = Some(link),
                Err(error) => {
                    self.note(&self.seen.lost, format!("connecting: {error}"));
                    if self.stops() {
                        return None;
                    }
                    std::thread::sleep(Duration::from_millis(200));
                }
            }
        }
        self.link.as_mut().map(|(_, queues)| {
            let turn = self.batches % queues.len();
            &mut queues[turn]
        })
    }

    /// Carries out a command; false where it was not done. A write that was not answered may have
    /// been carried out: it is sent again until it is.
    fn run(&mut self, sqe: Sqe, send: &[u8], receive: &mut [u8]) -> bool {
        let Some(queue) = self.queue() else { return false };
        match queue.execute(sqe, send, receive) {
            Ok(outcome) if outcome.status.is_success() => true,
            Ok(outcome) => {
                self.note(&self.seen.refused, format!("drive {}: {}", self.nsid, outcome.status));
                false
            }
            Err(error) => {
                self.link = None;
                self.note(&self.seen.lost, format!("drive {}: {error}", self.nsid));
                false
            }
        }
    }

    fn command(&self, code: u8, piece: usize) -> Sqe {
        let mut sqe = Sqe::new(code, self.nsid);
        sqe.set_blocks(((self.first + piece) * PIECE / 512) as u64, (PIECE / 512) as u32);
        sqe
    }

    fn write(&mut self, piece: usize) {
        let version = self.versions[piece] + 1;
        let bytes = content(self.nsid, self.first + piece, version);
        while !self.run(self.command(io::WRITE, piece), &bytes, &mut []) {
            if self.stops() {
                return;
            }
        }
        self.versions[piece] = version;
    }

    fn read(&mut self, piece: usize) {
        let mut bytes = vec![0; PIECE];
        if !self.run(self.command(io::READ, piece), &[], &mut bytes) {
            return;
        }
        self.compare(piece, &bytes);
    }

    /// Compares what was read of a piece.
    fn compare(&self, piece: usize, bytes: &[u8]) {
        let version = self.versions[piece];
        let right = content(self.nsid, self.first + piece, version);
        if bytes != right {
            let at = bytes.iter().zip(&right).position(|(is, right)| is != right);
            let piece = self.first + piece;
            let what = format!("drive {}, piece {piece}, version {version}: byte {at:?}", self.nsid);
            self.note(&self.seen.wrong, what);
        }
        self.seen.verified.fetch_add(1, Ordering::AcqRel);
    }

    /// Reads and writes as many pieces as may be under way, at once, on the next queue. Each is
    /// another piece, so what it holds is known whatever the order.
    fn batch(&mut self) {
        let mut pieces: Vec<usize> = Vec::with_capacity(DEPTH);
        while pieces.len() < DEPTH {
            let piece = self.random.below(self.versions.len() as u64) as usize;
            if !pieces.contains(&piece) {
                pieces.push(piece);
            }
        }
        let (writes, reads) = pieces.split_at(DEPTH / 2);
        let data: Vec<Vec<u8>> = writes
            .iter()
            .map(|piece| content(self.nsid, self.first + piece, self.versions[*piece] + 1))
            .collect();
        let mut read = vec![vec![0; PIECE]; reads.len()];
        let sent = writes.iter().zip(&data).map(|(piece, send)| (self.command(io::WRITE, *piece), send));
        let asked = reads.iter().zip(&mut read).map(|(piece, into)| (self.command(io::READ, *piece), into));
        let mut commands: Vec<Command<'_>> = sent
            .map(|(sqe, send)| Command { sqe, send, receive: &mut [] })
            .chain(asked.map(|(sqe, receive)| Command { sqe, send: &[], receive }))
            .collect();
        self.batches += 1;
        let Some(queue) = self.queue() else { return };
        let done = queue.run(&mut commands);
        drop(commands);
        match done {
            Ok(done) => {
                for (i, outcome) in done.iter().enumerate() {
                    if !outcome.status.is_success() {
                        self.note(&self.seen.refused, format!("drive {}: {}", self.nsid, outcome.status));
                    } else if i < writes.len() {
                        self.versions[writes[i]] += 1;
                    } else {
                        self.compare(reads[i - writes.len()], &read[i - writes.len()]);
                    }
                }
                // What may have been carried out, or not, is written until it is.
                let failed = |(i, piece): (usize, &usize)| (!done[i].status.is_success()).then_some(*piece);
                let again: Vec<usize> = writes.iter().enumerate().filter_map(failed).collect();
                again.into_iter().for_each(|piece| self.write(piece));
            }
            Err(error) => {
                self.link = None;
                self.note(&self.seen.lost, format!("drive {}: {error}", self.nsid));
                writes.iter().for_each(|piece| self.write(*piece));
            }
        }
    }

    fn work(mut self, period: Duration, ready: &AtomicU64) {
        (0..self.versions.len()).for_each(|piece| self.write(piece));
        ready.fetch_add(1, Ordering::AcqRel);
        let (mut next, mut measurement) = (Instant::now(), 0);
        while !self.stops() {
            let now = self.seen.measurements.load(Ordering::Acquire);
            if std::mem::replace(&mut measurement, now) != now {
                next = Instant::now();
            }
            if self.deep {
                self.batch();
                next = (next + period * DEPTH as u32).max(Instant::now());
                std::thread::sleep(next.saturating_duration_since(Instant::now()));
                continue;
            }
            let piece = self.random.below(self.versions.len() as u64) as usize;
            if self.random.once_in(2) {
                self.write(piece);
            } else {
                self.read(piece);
            }
            // From when it was to be sent: one that takes long makes those behind it late, and that
            // must show as often as it happens.
            let ns = u64::try_from(next.elapsed().as_nanos()).unwrap_or(u64::MAX);
            self.seen.latencies.lock().unwrap_or_else(PoisonError::into_inner).push(ns);
            next += period;
            std::thread::sleep(next.saturating_duration_since(Instant::now()));
        }
        for piece in 0..self.versions.len() {
            self.read(piece);
            if self.link.is_none() {
                // A node that does not answer: each further read would take until the deadline.
                return;
            }
        }
    }
}
