//! Clients that behave well, and verify what they read: one for each drive of a node.

use crate::Failed;
use crate::node::{DRIVES, GOOD};
use crate::random::{Random, mix};
use crate::wire::Target;
use pumice_initiator::{ConnectOptions, Controller, Queue};
use pumice_nvme::pdu::Digests;
use pumice_nvme::spec::Sqe;
use pumice_nvme::spec::opcode::io;
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Bytes of one read or write.
const PIECE: usize = 4096;
/// How long an answer may take before the connection counts as lost.
const DEADLINE: Duration = Duration::from_secs(30);

/// How long they may take to write all that they verify.
const TO_FILL: Duration = Duration::from_secs(120);

/// What the clients have seen.
#[derive(Debug, Default)]
struct Seen {
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

/// What came of it all.
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
    /// What was said of the failures, the first of them.
    pub(crate) why: Vec<String>,
}

/// The clients of a node, at work.
pub(crate) struct Good {
    seen: Arc<Seen>,
    threads: Vec<JoinHandle<()>>,
}

impl Good {
    /// Has a client for each drive of a node fill its part of the drive, and then read and write it
    /// at random, one command every `period`.
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
        let seen = Arc::new(Seen::default());
        let ready = Arc::new(AtomicU64::new(0));
        let client = |nsid: u32| {
            let (seen, ready, target) = (Arc::clone(&seen), Arc::clone(&ready), target.clone());
            std::thread::spawn(move || Client::new(nsid, &target, &seen).work(period, &ready))
        };
        let threads: Vec<_> = drives.map(client).collect();
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
        let Seen { verified, wrong, lost, refused, why, .. } = &*self.seen;
        let of = |count: &AtomicU64| count.load(Ordering::Acquire);
        let why = why.lock().unwrap_or_else(PoisonError::into_inner).clone();
        Outcome { verified: of(verified), wrong: of(wrong), lost: of(lost), refused: of(refused), why }
    }
}

/// A client with its part of one drive.
struct Client<'s> {
    nsid: u32,
    address: SocketAddr,
    options: ConnectOptions,
    seen: &'s Seen,
    random: Random,
    /// How often each piece was written.
    versions: Vec<u64>,
    link: Option<(Controller, Queue)>,
}

/// The content of a piece after so many writes.
fn content(nsid: u32, piece: usize, version: u64) -> Vec<u8> {
    let mut bytes = vec![0; PIECE];
    let seed = mix(u64::from(nsid) << 48 ^ (piece as u64) << 32 ^ version);
    Random::new(seed).fill(&mut bytes);
    bytes
}

impl<'s> Client<'s> {
    fn new(nsid: u32, target: &Target, seen: &'s Seen) -> Self {
        let options = ConnectOptions {
            subsystem: target.nqn.parse().expect("a node's name is a name"),
            host: "nqn.2026-11.example:good".parse().expect("a name"),
            hostid: [0x60 + nsid as u8; 16],
            digests: Digests::default(),
            flow_control: true,
            deadline: DEADLINE,
        };
        let versions = vec![0; GOOD as usize / PIECE];
        let random = Random::new(u64::from(nsid));
        Self { nsid, address: target.address.into(), options, seen, random, versions, link: None }
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

    /// The queue; made anew if it was lost.
    fn queue(&mut self) -> Option<&mut Queue> {
        while self.link.is_none() {
            let made = Controller::connect(self.address, self.options.clone())
                .and_then(|controller| controller.queue(1, 8).map(|queue| (controller, queue)));
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
        self.link.as_mut().map(|(_, queue)| queue)
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
        sqe.set_blocks((piece * PIECE / 512) as u64, (PIECE / 512) as u32);
        sqe
    }

    fn write(&mut self, piece: usize) {
        let version = self.versions[piece] + 1;
        let bytes = content(self.nsid, piece, version);
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
        if bytes != content(self.nsid, piece, self.versions[piece]) {
            let at = (0..PIECE).find(|at| bytes[*at] != content(self.nsid, piece, self.versions[piece])[*at]);
            let what =
                format!("drive {}, piece {piece}, version {}: byte {at:?}", self.nsid, self.versions[piece]);
            self.note(&self.seen.wrong, what);
        }
        self.seen.verified.fetch_add(1, Ordering::AcqRel);
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
        (0..self.versions.len()).for_each(|piece| self.read(piece));
    }
}
