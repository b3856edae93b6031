//! Budgets of a connection that are reached, and places of connections: `docs/design/node.md`,
//! *Bounds*.

use crate::world::{PATIENCE, associate, command, connect, counter, host, read, serve, serve_within, used};
use pumice_blockdev::{BlockDevice, HookedDevice, MemoryDevice};
use pumice_node::serve::{Backend, Drive, Server};
use pumice_nvme::controller::Limits;
use pumice_nvme::host::{Connection, Event, Options};
use pumice_nvme::pdu::{Digests, IcReq, Kind, push, push_with_data};
use pumice_nvme::spec::connect::{DYNAMIC, Data, Fields};
use pumice_nvme::spec::opcode::{FABRICS, admin, fabrics, io};
use pumice_nvme::spec::property::{cc, csts, offset};
use pumice_nvme::spec::{Sgl, Sqe};
use pumice_remote::initiator::{Command, Controller, Queue};
use std::convert::Infallible;
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

fn memory() -> Drive {
    Drive::open(&Backend::Memory(1 << 20), 512, "node", 1).unwrap()
}

fn within_patience(what: &str, mut done: impl FnMut() -> bool) {
    let until = Instant::now() + PATIENCE;
    while !done() {
        assert!(Instant::now() < until, "{what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// An admin queue whose controller is enabled, and of which every byte is in the hands of the test.
fn admin_queue(server: &Server) -> TcpStream {
    let data = Data {
        hostid: [1; 16],
        cntlid: DYNAMIC,
        subnqn: server.nqn().as_str().to_owned(),
        hostnqn: "nqn.2026-11.example:host".to_owned(),
    };
    let digests = Digests::default();
    let options =
        Options { qid: 0, depth: 31, digests, flow_control: true, kato_ms: 0, data, capsule_data: 0 };
    let mut out = Vec::new();
    let mut host = Connection::new(options, &mut out);
    let mut stream = TcpStream::connect(server.address()).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut pending = Vec::new();
    let mut wait = |host: &mut Connection, out: &mut Vec<u8>| -> u64 {
        let mut result = None;
        while result.is_none() {
            stream.write_all(out).unwrap();
            out.clear();
            let mut buffer = [0; 4096];
            let n = stream.read(&mut buffer).unwrap();
            assert!(n > 0, "closed");
            pending.extend_from_slice(&buffer[..n]);
            let event = |event: Event<'_>| {
                if let Event::Completion(done) = event {
                    assert!(done.status.is_success(), "{}", done.status);
                    result = Some(done.result);
                }
            };
            let (consumed, _) = host.receive(&pending, out, event).unwrap();
            pending.drain(..consumed);
        }
        result.unwrap()
    };
    wait(&mut host, &mut out);
    let mut property = |kind: u8, at: u32, value: u32| {
        let mut sqe = Sqe::new(FABRICS, 0);
        sqe.0[4] = kind;
        sqe.set_dword(11, at);
        sqe.set_dword(12, value);
        host.submit_read(sqe, 0, &mut out).unwrap();
        wait(&mut host, &mut out)
    };
    property(fabrics::PROPERTY_SET, offset::CC, cc::ENABLE | cc::ENTRY_SIZES_64_16);
    within_patience("it becomes ready", || {
        property(fabrics::PROPERTY_GET, offset::CSTS, 0) as u32 & csts::READY != 0
    });
    stream
}

/// A host that asks for one page after another on its admin queue, and takes none.
#[test]
fn answers_on_an_admin_queue_are_bounded() {
    const LIMIT: f64 = 262_144.0;
    let server = serve(vec![memory()]);
    let mut stream = admin_queue(&server);
    stream.set_nonblocking(true).unwrap();
    let mut identify = Sqe::new(admin::IDENTIFY, 0);
    identify.0[40] = 1;
    identify.set_sgl(Sgl::transport(4096));
    let mut capsules = Vec::new();
    (0..1000).for_each(|_| push(&mut capsules, Kind::CapsuleCmd, 0, &identify.0, Digests::default()));
    // Until the bound is reached, and then until neither end takes any more.
    let unsent = || used(&server, "unsent_of_connection");
    let (mut sent, mut idle) = (0, 0);
    let until = Instant::now() + PATIENCE;
    while idle < 30 || unsent() < LIMIT {
        match stream.write(&capsules[sent % 72..]) {
            Ok(n) => (sent, idle) = (sent + n, 0),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::WouldBlock);
                assert!(Instant::now() < until, "{} bytes wait: the bound is not reached", unsent());
                idle += 1;
                std::thread::sleep(Duration::from_millis(20));
            }
        }
    }
    let unsent = unsent();
    // What was allowed before the last look: answers of one batch.
    assert!(unsent < LIMIT + f64::from((128 << 10) + 8192), "{unsent} bytes wait");
}

/// A node with one drive whose reads wait until they are let through, and one core.
struct Gated {
    server: Server,
    gate: Arc<(Mutex<bool>, Condvar)>,
}

impl Gated {
    fn new() -> Self {
        let gate = Arc::new((Mutex::new(false), Condvar::new()));
        let waits = Arc::clone(&gate);
        let device: Arc<dyn BlockDevice> = Arc::new(MemoryDevice::new("m", 1 << 20));
        let hooked = HookedDevice::over(device).at_reads(move |_, _| {
            let mut open = waits.0.lock().unwrap();
            while !*open {
                open = waits.1.wait(open).unwrap();
            }
        });
        let limits = Limits { queue_depth: 512, ..Limits::default() };
        let drive = Drive::with_device(Arc::new(hooked), 512, "m").unwrap();
        Self { server: serve_within(limits, &["127.0.0.1:0"], 1, vec![drive]), gate }
    }

    /// Asks for a block so often, all at once, and lets the reads through when `seen` has returned.
    fn read_blocks<T>(&self, queue: &mut Queue, times: usize, seen: impl FnOnce() -> T) -> T {
        std::thread::scope(|scope| {
            let reads = scope.spawn(|| {
                let mut into = vec![[1; 512]; times];
                let mut commands: Vec<Command<'_>> = into
                    .iter_mut()
                    .map(|receive| Command { sqe: command(io::READ, 1, 0, 1), send: &[], receive })
                    .collect();
                let good = queue.run(&mut commands).unwrap().iter().all(|done| done.status.is_success());
                good && into.iter().all(|piece| *piece == [0; 512])
            });
            let seen = seen();
            *self.gate.0.lock().unwrap() = true;
            self.gate.1.notify_all();
            assert!(reads.join().unwrap(), "all of them are carried out");
            seen
        })
    }
}

/// The most that is seen within two looks after it has come to `least`.
fn most_of(server: &Server, budget: &str, least: f64) -> f64 {
    let until = Instant::now() + PATIENCE;
    while used(server, budget) < least && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(10));
    }
    // Time for more than one look.
    std::thread::sleep(Duration::from_millis(500));
    used(server, budget)
}

/// More commands than a connection may have with the media: the rest waits, and is carried out.
#[test]
fn commands_with_the_media_are_bounded() {
    let gated = Gated::new();
    let (_controller, mut queue) = connect(&gated.server, host(&gated.server, 1), 500);
    let most = gated.read_blocks(&mut queue, 400, || most_of(&gated.server, "commands_of_connection", 256.0));
    assert!((256.0..257.0).contains(&most), "{most} commands are with the media");
}

/// Reads of the socket that fill the receive buffer make it larger, once; a connection that is not
/// used gives that back.
#[test]
fn a_receive_buffer_grows_while_it_is_filled_and_no_longer() {
    const LARGER: f64 = (240 << 10) as f64;
    let server = serve(vec![memory()]);
    let (_controller, mut queue) = connect(&server, host(&server, 1), 120);
    // Nothing is under way when this is asked, so it is the buffer alone.
    let held = || used(&server, "flight_of_host");
    assert!(held() < 16384.0, "{} at first", held());
    let data = [7; 4096];
    within_patience("it grows", || {
        let mut writes: Vec<Command<'_>> = (0..100)
            .map(|_| Command { sqe: command(io::WRITE, 1, 0, 8), send: &data, receive: &mut [] })
            .collect();
        assert!(queue.run(&mut writes).unwrap().iter().all(|done| done.status.is_success()));
        let held = held();
        assert!(held < LARGER + 16384.0, "it grew to {held}");
        held >= LARGER
    });
    within_patience("it is given back", || held() < 16384.0);
}

/// Looks whether the node has closed a connection by now.
fn is_closed(stream: &TcpStream) -> bool {
    stream.set_nonblocking(true).unwrap();
    let closed = match stream.peek(&mut [0]) {
        Ok(n) => n == 0,
        Err(error) => error.kind() == ErrorKind::ConnectionReset,
    };
    stream.set_nonblocking(false).unwrap();
    closed
}

fn answers(stream: &mut TcpStream) -> bool {
    let request = IcReq { hpda: 0, digests: Digests::default(), maxr2t: 0 };
    let mut answer = [0; 128];
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(&request.encode()).is_ok() && stream.read_exact(&mut answer).is_ok() && answer[0] == 1
}

/// All places are taken by connections that say nothing, and by one host. Another host comes in at
/// once, as often as it likes, and nobody who has said who it is must go.
#[test]
fn connections_that_say_nothing_keep_no_host_out() {
    const PLACES: usize = 40;
    let limits = Limits { connections: PLACES, ..Limits::default() };
    let server = serve_within(limits, &["127.0.0.1:0"], 2, vec![memory()]);
    let (_first, mut first) = connect(&server, host(&server, 1), 8);
    // It is answered before it counts as settled; a second command comes after that.
    assert!(read(&mut first, 1, 0, 1).0.is_success());
    let silent: Vec<TcpStream> =
        (0..2 * PLACES).map(|_| TcpStream::connect(server.address()).unwrap()).collect();
    let closed = || silent.iter().filter(|stream| is_closed(stream)).count();
    let until = Instant::now() + PATIENCE;
    while closed() < PLACES + 2 {
        assert!(Instant::now() < until, "{} of them gave way", closed());
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(closed(), PLACES + 2, "and no more than had to");
    assert!(silent[..PLACES + 2].iter().all(is_closed), "those that came first");
    for number in 2..5 {
        let (controller, mut queue) = connect(&server, host(&server, number), 8);
        assert!(read(&mut queue, 1, 0, 1).0.is_success());
        drop((queue, controller));
    }
    assert!(read(&mut first, 1, 0, 1).0.is_success(), "it keeps its place");
    assert!(counter(&server, "pumice_connections_displaced_total") >= PLACES as f64);
    let now = || counter(&server, "pumice_connections");
    within_patience("no more than there are places for", || now() <= PLACES as f64);
    let mut last = TcpStream::connect(server.address()).unwrap();
    assert!(answers(&mut last));
}

/// The next connection is closed at once if hosts have all places.
#[test]
fn places_of_hosts_are_not_taken_from_them() {
    let limits = Limits { connections: 4, ..Limits::default() };
    let server = serve_within(limits, &["127.0.0.1:0"], 1, vec![memory()]);
    let mut hosts: Vec<_> = (1..=2).map(|number| connect(&server, host(&server, number), 8)).collect();
    let late = TcpStream::connect(server.address()).unwrap();
    within_patience("no room", || is_closed(&late));
    assert!(associate(server.address(), host(&server, 9)).is_err());
    assert!(hosts.iter_mut().all(|(_, queue)| read(queue, 1, 0, 1).0.is_success()));
    hosts.pop();
    within_patience("there is room again", || associate(server.address(), host(&server, 9)).is_ok());
}

/// The system asks after a host that fell silent: its timer is set, to a minute at most.
#[test]
fn a_silent_host_is_asked_whether_it_is_there() {
    let server = serve(vec![memory()]);
    let stream = TcpStream::connect(server.address()).unwrap();
    let (here, there) = (stream.local_addr().unwrap().port(), server.address().port());
    let ends = (format!(":{there:04X}"), format!(":{here:04X}"));
    // Of /proc/net/tcp: the local and the remote address, the state, queues, and the timer: its
    // kind, 2 for keep alive, and when it ends, in hundredths of a second.
    let timer = || {
        let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
        table.lines().find_map(|line| {
            let fields: Vec<&str> = line.split_whitespace().collect();
            let is = fields.len() > 5 && fields[1].ends_with(&ends.0) && fields[2].ends_with(&ends.1);
            is.then(|| fields[5].to_owned())
        })
    };
    within_patience("the timer runs", || timer().is_some_and(|timer| timer.starts_with("02:")));
    let left = u64::from_str_radix(&timer().unwrap()[3..], 16).unwrap();
    assert!(left <= 6100, "{left} hundredths of a second");
}

/// Sends ICReq, Connect of I/O queue `qid` and reads in one piece.
fn connect_and_read(server: &Server, number: u8, cntlid: u16, qid: u16, reads: &[Sqe]) -> TcpStream {
    let digests = Digests::default();
    let data = Data {
        hostid: [number; 16],
        cntlid,
        subnqn: server.nqn().as_str().to_owned(),
        hostnqn: "nqn.2026-11.example:host".to_owned(),
    };
    let data = data.encode();
    let mut sqe = Sqe::new(FABRICS, 0);
    sqe.0[4] = fabrics::CONNECT;
    Fields { recfmt: 0, qid, sqsize: 127, cattr: 0, kato_ms: 0 }.encode(&mut sqe);
    sqe.set_sgl(Sgl::in_capsule(data.len() as u32));
    let mut bytes = IcReq { hpda: 0, digests, maxr2t: 0 }.encode().to_vec();
    let Ok(()) = push_with_data(&mut bytes, Kind::CapsuleCmd, 0, &sqe.0, digests, data.len(), |to| {
        to.copy_from_slice(&data);
        Ok::<(), Infallible>(())
    });
    reads.iter().for_each(|read| push(&mut bytes, Kind::CapsuleCmd, 0, &read.0, digests));
    let mut stream = TcpStream::connect(server.address()).unwrap();
    stream.write_all(&bytes).unwrap();
    stream
}

fn reads(count: u16, slba: u64, blocks: u32) -> Vec<Sqe> {
    let read = |cid: u16| {
        let mut read = command(io::READ, 1, slba, blocks);
        read.set_cid(cid);
        read.set_sgl(Sgl::transport(blocks * 512));
        read
    };
    (0..count).map(read).collect()
}

/// Commands behind Connect, in the same piece, count for the host like all others.
#[test]
fn what_comes_with_connect_counts_for_its_host() {
    const MIB: f64 = 1_048_576.0;
    let gated = Gated::new();
    let server = &gated.server;
    let controller = associate(server.address(), host(server, 1)).unwrap();
    let cntlid = controller.identity().cntlid;
    let streams: Vec<_> =
        (1..=4).map(|qid| connect_and_read(server, 1, cntlid, qid, &reads(16, 0, 2048))).collect();
    // A connection has 16 MiB; the first of its commands that has no room waits.
    let flight = most_of(server, "flight_of_host", 60.0 * MIB);
    assert!((60.0 * MIB..72.0 * MIB).contains(&flight), "{flight} bytes are counted");
    *gated.gate.0.lock().unwrap() = true;
    gated.gate.1.notify_all();
    drop((streams, controller));
}

/// They are carried out within the host's share of the threads, so another host finds one.
#[test]
fn what_comes_with_connect_takes_no_more_than_its_hosts_threads() {
    const SLOW: u64 = 1 << 19;
    let gate = Arc::new((Mutex::new(false), Condvar::new()));
    let waits = Arc::clone(&gate);
    let device: Arc<dyn BlockDevice> = Arc::new(MemoryDevice::new("m", 1 << 20));
    let hooked = HookedDevice::over(device).at_reads(move |offset, _| {
        let mut open = waits.0.lock().unwrap();
        while !*open && offset >= SLOW {
            open = waits.1.wait(open).unwrap();
        }
    });
    let drive = Drive::with_device(Arc::new(hooked), 512, "m").unwrap();
    let server = serve_within(Limits::default(), &["127.0.0.1:0"], 1, vec![drive]);
    let controller = associate(server.address(), host(&server, 1)).unwrap();
    let cntlid = controller.identity().cntlid;
    let mut first = connect_and_read(&server, 1, cntlid, 1, &reads(16, SLOW / 512, 1));
    // And as many again, when it is known whose they are.
    let mut answer = [0; 128 + 24];
    first.set_read_timeout(Some(PATIENCE)).unwrap();
    first.read_exact(&mut answer).unwrap();
    let mut more = Vec::new();
    for read in reads(16, SLOW / 512, 1) {
        push(&mut more, Kind::CapsuleCmd, 0, &read.0, Digests::default());
    }
    first.write_all(&more).unwrap();
    let under_way = most_of(&server, "commands_of_connection", 32.0);
    assert_eq!(under_way, 32.0);
    let (_other, mut other) = connect(&server, host(&server, 2), 8);
    assert!(read(&mut other, 1, 0, 1).0.is_success());
    *gate.0.lock().unwrap() = true;
    gate.1.notify_all();
    drop((first, controller));
}

/// One address has every place that it can get, all with hosts: a host of another address comes in.
#[test]
fn one_address_does_not_keep_the_hosts_of_others_out() {
    const PLACES: usize = 40;
    if TcpListener::bind("[::1]:0").is_err() {
        println!("SKIPPED: no second loopback address");
        return;
    }
    let limits = Limits { connections: PLACES, ..Limits::default() };
    let server = serve_within(limits, &["127.0.0.1:0", "[::1]:0"], 2, vec![memory()]);
    let controllers: Vec<Controller> =
        (1..=4).map(|number| associate(server.address(), host(&server, number)).unwrap()).collect();
    let mut queues = Vec::new();
    for qid in 1..=9 {
        queues.extend(controllers.iter().map(|controller| controller.queue(qid, 8).unwrap()));
    }
    within_patience("all places are taken", || counter(&server, "pumice_connections") >= PLACES as f64);
    within_patience("and kept as far as they may be", || used(&server, "connections_of_address") == 35.0);
    let there = server.addresses()[1];
    let other = associate(there, host(&server, 9)).expect("a place is left for it");
    let mut queue = other.queue(1, 8).unwrap();
    assert!(read(&mut queue, 1, 0, 1).0.is_success());
    // Two gave way, and no others.
    let is_lost = |queue: &mut Queue| queue.execute(command(io::READ, 1, 0, 1), &[], &mut [0; 512]).is_err();
    assert_eq!(queues.iter_mut().filter_map(|queue| is_lost(queue).then_some(())).count(), 2);
}

/// Data of a drive in memory are there at once. The bound on data that wait to be sent holds for
/// them too, even within a turn.
#[test]
fn answers_of_a_drive_in_memory_are_bounded() {
    const MIB: f64 = 1_048_576.0;
    let server = serve(vec![memory()]);
    let controller = associate(server.address(), host(&server, 1)).unwrap();
    let stream = connect_and_read(&server, 1, controller.identity().cntlid, 1, &reads(100, 0, 2048));
    let unsent = most_of(&server, "unsent_of_connection", 3.0 * MIB);
    // As many as a bound, the last command, and its header.
    assert!((3.0 * MIB..5.0 * MIB + 4096.0).contains(&unsent), "{unsent} bytes wait");
    drop((stream, controller));
}

/// Opens a gate when it is dropped, so that a test that fails ends.
struct Opens<'g>(&'g (Mutex<bool>, Condvar));

impl Drop for Opens<'_> {
    fn drop(&mut self) {
        *self.0.0.lock().unwrap() = true;
        self.0.1.notify_all();
    }
}

/// A host has as many queues whose receive buffers have grown as there is room for in its own part,
/// and all of them are full of commands when other hosts take all the rest: its own part is left
/// for its commands, and every queue goes on.
#[test]
fn queues_with_grown_buffers_go_on_when_others_have_all_the_rest() {
    const MIB: f64 = 1_048_576.0;
    const QUEUES: u16 = 16;
    let gate = Arc::new((Mutex::new(false), Condvar::new()));
    let waits = Arc::clone(&gate);
    let device: Arc<dyn BlockDevice> = Arc::new(MemoryDevice::new("m", 1 << 20));
    let hooked = HookedDevice::over(device).at_reads(move |_, _| {
        let mut open = waits.0.lock().unwrap();
        while !*open {
            open = waits.1.wait(open).unwrap();
        }
    });
    let gated = Drive::with_device(Arc::new(hooked), 512, "m").unwrap();
    let server = serve_within(Limits::default(), &["127.0.0.1:0"], 1, vec![gated, memory()]);
    let _opens = Opens(&gate);
    let victim = associate(server.address(), host(&server, 1)).unwrap();
    let mut queues: Vec<Queue> = (1..=QUEUES).map(|qid| victim.queue(qid, 120).unwrap()).collect();
    let (rounds, stop) = (Vec::from_iter(queues.iter().map(|_| AtomicU64::new(0))), AtomicBool::new(false));
    let all = || rounds.iter().map(|count| count.load(Ordering::Relaxed)).collect::<Vec<_>>();
    let goes_on = std::thread::scope(|scope| {
        for (queue, count) in queues.iter_mut().zip(&rounds) {
            let stop = &stop;
            scope.spawn(move || {
                let data = [7; 4096];
                while !stop.load(Ordering::Relaxed) {
                    let mut writes: Vec<Command<'_>> = (0..100)
                        .map(|_| Command { sqe: command(io::WRITE, 2, 0, 8), send: &data, receive: &mut [] })
                        .collect();
                    if queue.run(&mut writes).is_err() {
                        return;
                    }
                    count.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        let until = |done: &dyn Fn() -> bool| {
            let end = Instant::now() + PATIENCE;
            while !done() && Instant::now() < end {
                std::thread::sleep(Duration::from_millis(10));
            }
            done()
        };
        let grown = until(&|| used(&server, "flight_of_host") >= 3.0 * MIB);
        // Reads that wait for the gate, of which 128 MiB are counted for each host.
        let others: Vec<Controller> =
            (2..=6).map(|number| associate(server.address(), host(&server, number)).unwrap()).collect();
        let mut streams = Vec::new();
        for (number, other) in (2..).zip(&others) {
            let cntlid = other.identity().cntlid;
            let queue = |qid| connect_and_read(&server, number, cntlid, qid, &reads(16, 0, 2048));
            streams.extend((1..=8).map(queue));
        }
        let full = until(&|| used(&server, "flight_shared") > 510.0 * MIB);
        let before = all();
        let goes_on = until(&|| all().iter().zip(&before).all(|(now, before)| *now >= before + 3));
        stop.store(true, Ordering::Relaxed);
        drop(streams);
        (grown, full, goes_on)
    });
    assert_eq!(goes_on, (true, true, true), "rounds of the queues: {:?}", all());
}
