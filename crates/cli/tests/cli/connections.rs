//! Ten thousand connections to a node: the last of them, as many as it takes, are served, those
//! before give way, and a load among them notices nothing.

use crate::network::{Node, PATIENCE};
use pumice_blockdev::raise_descriptor_limit;
use pumice_nvme::pdu::{Digests, IcReq};
use pumice_nvme::spec::opcode::io;
use pumice_nvme::spec::{Sqe, Status};
use pumice_remote::initiator::{Command, ConnectOptions, Controller, InitiatorError};
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

const CONNECTIONS: usize = 10_000;
const BLOCKS: u32 = 16;
const DEPTH: usize = 16;

fn options(node: &Node) -> ConnectOptions {
    ConnectOptions { digests: Digests { header: true, data: true }, ..node.options() }
}

fn start(connections: usize) -> Node {
    // Every address, so a name of its own: nodes of other tests serve meanwhile.
    static NAMES: AtomicU32 = AtomicU32::new(0);
    let (process, number) = (std::process::id(), NAMES.fetch_add(1, Ordering::Relaxed));
    let nqn = format!("nqn.2026-11.example:connections-{process}-{number}");
    let limit = connections.to_string();
    let args = ["--listen", "0.0.0.0:0", "--nqn", &nqn, "--connections", &limit];
    Node::start(&args, &["mem:16MiB".into()])
}

fn reachable(node: &Node) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], node.address.port()))
}

/// A load with digests: writes, reads back, compares, until it is told to stop. Counts the rounds,
/// and keeps the longest.
struct Load {
    rounds: AtomicU64,
    longest_us: AtomicU64,
    stop: AtomicBool,
}

impl Load {
    fn new() -> Self {
        Self { rounds: AtomicU64::new(0), longest_us: AtomicU64::new(0), stop: AtomicBool::new(false) }
    }

    fn run(&self, controller: &Controller) {
        let mut queue = controller.queue(1, DEPTH as u16).unwrap();
        let len = BLOCKS as usize * 512;
        for round in 0.. {
            if self.stop.load(Ordering::Relaxed) {
                return;
            }
            let began = Instant::now();
            let command = |code, i: usize| {
                let mut sqe = Sqe::new(code, 1);
                sqe.set_blocks((i as u64 + round) % 1000 * u64::from(BLOCKS), BLOCKS);
                sqe
            };
            let written: Vec<Vec<u8>> =
                (0..DEPTH).map(|i| (0..len).map(|at| (at + i + round as usize) as u8).collect()).collect();
            let mut read = vec![vec![0; len]; DEPTH];
            let mut writes: Vec<Command<'_>> = written
                .iter()
                .enumerate()
                .map(|(i, data)| Command { sqe: command(io::WRITE, i), send: data, receive: &mut [] })
                .collect();
            let outcomes = queue.run(&mut writes).expect("the load goes on");
            assert!(outcomes.iter().all(|outcome| outcome.status == Status::SUCCESS), "{outcomes:?}");
            let mut reads: Vec<Command<'_>> = read
                .iter_mut()
                .enumerate()
                .map(|(i, data)| Command { sqe: command(io::READ, i), send: &[], receive: data })
                .collect();
            let outcomes = queue.run(&mut reads).expect("the load goes on");
            assert!(outcomes.iter().all(|outcome| outcome.status == Status::SUCCESS), "{outcomes:?}");
            assert!(read == written, "round {round}: what was read is not what was written");
            self.longest_us.fetch_max(began.elapsed().as_micros() as u64, Ordering::Relaxed);
            self.rounds.fetch_add(1, Ordering::Relaxed);
            // The connections are the matter, not the processor.
            std::thread::sleep(Duration::from_millis(3));
        }
    }

    fn tell(&self) {
        let value = |number: &AtomicU64| number.load(Ordering::Relaxed);
        let (rounds, longest) = (value(&self.rounds), value(&self.longest_us));
        println!("the load: {rounds} rounds of {} commands, the longest {longest} us", 2 * DEPTH);
    }

    /// Waits until it has gone on.
    fn goes_on(&self) {
        let (before, began) = (self.rounds.load(Ordering::Relaxed), Instant::now());
        while self.rounds.load(Ordering::Relaxed) < before + 3 {
            assert!(began.elapsed() < PATIENCE, "the load stands still");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// Ends a load where a test fails, so that its thread can be joined.
struct Stop<'a>(&'a Load);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.stop.store(true, Ordering::Relaxed);
    }
}

/// Returns whether descriptors suffice. Says loudly what is not tested where they do not.
fn enough_descriptors() -> bool {
    let allowed = raise_descriptor_limit().unwrap();
    let enough = allowed >= CONNECTIONS as u64 + 512;
    if !enough {
        eprintln!(
            "SKIPPED: {CONNECTIONS} connections need as many descriptors; the hard limit is {allowed} (see `ulimit -Hn`)"
        );
    }
    enough
}

/// Both tests with thousands of connections would be too many for one process.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// Connection `i` to the node, which listens on every address of this machine: its ports would be
/// used up sooner.
fn open(node: &Node, i: usize) -> TcpStream {
    let address = SocketAddr::from(([127, 0, 0, 1 + (i % 100) as u8], node.address.port()));
    let stream = TcpStream::connect_timeout(&address, PATIENCE);
    let stream = stream.unwrap_or_else(|error| panic!("connection {i} to {address}: {error}"));
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

fn ask(stream: &mut TcpStream) -> bool {
    stream.write_all(&IcReq { hpda: 0, digests: Digests::default(), maxr2t: 0 }.encode()).is_ok()
}

fn is_answered(stream: &mut TcpStream) -> bool {
    let mut answer = [0; 128];
    stream.read_exact(&mut answer).is_ok() && answer[0] == 1
}

/// Returns whether the node has closed a connection by now.
fn is_closed(stream: &TcpStream) -> bool {
    stream.set_nonblocking(true).unwrap();
    let closed = match stream.peek(&mut [0]) {
        Ok(n) => n == 0,
        Err(error) => error.kind() == ErrorKind::ConnectionReset,
    };
    stream.set_nonblocking(false).unwrap();
    closed
}

fn within_patience(what: &str, mut done: impl FnMut() -> bool) {
    let until = Instant::now() + PATIENCE;
    while !done() {
        assert!(Instant::now() < until, "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Does something while a load goes on, which is to go on from before it to after it.
fn beside_a_load(node: &Node, act: impl FnOnce(&Load)) {
    let controller = Controller::connect(reachable(node), options(node)).unwrap();
    let load = Load::new();
    std::thread::scope(|scope| {
        let _stop = Stop(&load);
        scope.spawn(|| load.run(&controller));
        load.goes_on();
        act(&load);
    });
    load.tell();
}

#[test]
fn what_is_beyond_the_limit_takes_the_place_of_the_oldest_and_no_load_notices() {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    if !enough_descriptors() {
        return;
    }
    let node = start(4096);
    beside_a_load(&node, |load| {
        let began = Instant::now();
        let mut streams: Vec<TcpStream> = (0..CONNECTIONS).map(|i| open(&node, i)).collect();
        // The load has two of those that are taken.
        let surplus = CONNECTIONS - (4096 - 2);
        within_patience("as many are closed as there are too many", || {
            streams.iter().filter(|stream| is_closed(stream)).count() == surplus
        });
        println!("{CONNECTIONS} connections opened and {surplus} of them closed in {:?}", began.elapsed());
        load.goes_on();
        streams.retain(|stream| !is_closed(stream));
        for stream in streams.iter_mut().step_by(97) {
            assert!(ask(stream) && is_answered(stream), "one of those that were taken");
        }
        let mut late = open(&node, 0);
        assert!(ask(&mut late) && is_answered(&mut late), "one more takes the place of another");
        within_patience("which is closed", || streams.iter().filter(|stream| is_closed(stream)).count() == 1);
        streams.retain(|stream| !is_closed(stream));
        // Where some go, others may come.
        streams.truncate(3900);
        within_patience("there is room again", || {
            let mut stream = open(&node, 0);
            ask(&mut stream) && is_answered(&mut stream)
        });
        load.goes_on();
    });
}

#[test]
fn as_many_as_are_allowed_are_served() {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    if !enough_descriptors() {
        return;
    }
    let node = start(CONNECTIONS + 100);
    beside_a_load(&node, |load| {
        let began = Instant::now();
        let mut streams = Vec::with_capacity(CONNECTIONS);
        for i in 0..CONNECTIONS {
            let mut stream = open(&node, i);
            assert!(ask(&mut stream), "connection {i}");
            streams.push(stream);
        }
        for (i, stream) in streams.iter_mut().enumerate() {
            assert!(is_answered(stream), "connection {i}");
        }
        println!("{CONNECTIONS} connections opened and initialized in {:?}", began.elapsed());
        load.goes_on();
        drop(streams);
        load.goes_on();
    });
}

#[test]
fn one_association_of_a_host_too_many_is_told_so() {
    let node = start(4096);
    let mut held: Vec<Controller> =
        (0..16).map(|_| Controller::connect(reachable(&node), options(&node)).unwrap()).collect();
    let refused = Controller::connect(reachable(&node), options(&node)).unwrap_err();
    assert!(
        matches!(refused, InitiatorError::Refused { status, .. } if status == Status::CONNECT_BUSY),
        "it may be tried again: {refused}"
    );
    held.pop();
    within_patience("there is room again", || Controller::connect(reachable(&node), options(&node)).is_ok());
}
