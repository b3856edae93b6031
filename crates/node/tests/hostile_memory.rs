//! Memory that hosts can make a node hold, measured over the whole process, which therefore runs
//! this test alone.

use pumice_blockdev::{BlockDevice, HookedDevice, MemoryDevice};
use pumice_node::NodeOptions;
use pumice_node::serve::{Drive, HostFaces, Server, Service};
use pumice_nvme::controller::Limits;
use pumice_nvme::host::{Connection, Event, Options};
use pumice_nvme::pdu::Digests;
use pumice_nvme::spec::connect::Data;
use pumice_nvme::spec::opcode::io;
use pumice_nvme::spec::{Sqe, Status};
use pumice_offload::PaceRequest;
use pumice_remote::initiator::{ConnectOptions, Controller};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

const MIB: usize = 1 << 20;
/// Queues that read and take nothing, and as many that are asked for data and do not send all of
/// it.
const QUEUES: u16 = 32;

fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() / 1024
}

fn server() -> Server {
    // Through threads, as a file is.
    let device: Arc<dyn BlockDevice> = Arc::new(MemoryDevice::with_content("m", vec![7; 2 * MIB]));
    let device = Arc::new(HookedDevice::over(device));
    Server::start(Service {
        listen: vec!["127.0.0.1:0".parse().unwrap()],
        nqn: "nqn.2026-11.example:node".parse().unwrap(),
        instance: None,
        drives: vec![Drive::with_device(device, 512, "m").unwrap()],
        faces: HostFaces::default(),
        limits: Limits::default(),
        cores: 2,
        busy_poll: Duration::ZERO,
        node: NodeOptions { memory_bytes: 4096, ..NodeOptions::default() },
        peers: Vec::new(),
        pacing: PaceRequest::default(),
        metrics: None,
    })
    .unwrap()
}

fn options(server: &Server, number: u8) -> ConnectOptions {
    ConnectOptions {
        subsystem: server.nqn().clone(),
        host: "nqn.2026-11.example:host".parse().unwrap(),
        hostid: [number; 16],
        digests: Digests::default(),
        flow_control: true,
        deadline: Duration::from_secs(30),
    }
}

/// An I/O queue of which every byte is in the hands of the test.
struct Queue {
    stream: TcpStream,
    host: Connection,
    out: Vec<u8>,
    pending: Vec<u8>,
}

impl Queue {
    fn connect(server: &Server, cntlid: u16, qid: u16) -> Self {
        let data = Data {
            hostid: [1; 16],
            cntlid,
            subnqn: server.nqn().as_str().to_owned(),
            hostnqn: "nqn.2026-11.example:host".to_owned(),
        };
        let digests = Digests::default();
        let options = Options {
            qid,
            depth: 127,
            digests,
            flow_control: true,
            kato_ms: 0,
            data,
            capsule_data: 16 << 10,
        };
        let mut out = Vec::new();
        let host = Connection::new(options, &mut out);
        let stream = TcpStream::connect(server.address()).unwrap();
        let mut queue = Self { stream, host, out, pending: Vec::new() };
        let mut connected = false;
        while !connected {
            queue.send();
            connected = queue.take().contains(&Status::SUCCESS);
        }
        queue
    }

    fn send(&mut self) {
        self.stream.write_all(&self.out).unwrap();
        self.out.clear();
    }

    /// Takes something, and returns what ended.
    fn take(&mut self) -> Vec<Status> {
        let mut buffer = [0; 4096];
        let n = self.stream.read(&mut buffer).unwrap();
        assert!(n > 0, "closed");
        self.pending.extend_from_slice(&buffer[..n]);
        let mut ended = Vec::new();
        let event = |event: Event<'_>| {
            if let Event::Completion(done) = event {
                ended.push(done.status);
            }
        };
        let (consumed, _) = self.host.receive(&self.pending, &mut self.out, event).unwrap();
        self.pending.drain(..consumed);
        ended
    }
}

fn blocks(opcode: u8) -> Sqe {
    let mut sqe = Sqe::new(opcode, 1);
    sqe.set_blocks(0, 2048);
    sqe
}

/// 32 queues with 127 reads of 1 MiB each, of which nothing is taken: 4 GiB. 32 queues that were
/// asked for 8 MiB each, of which the end does not come: 256 MiB, and twice that where the memory
/// grows by doubling. The host has 128 and 64 MiB, and another one is served meanwhile.
#[test]
fn a_host_that_takes_and_sends_nothing_holds_no_more_than_its_budget() {
    let server = server();
    let controller = Controller::connect(server.address(), options(&server, 1)).unwrap();
    let before = resident();
    let mut queues = Vec::new();
    for qid in 1..=QUEUES {
        let mut queue = Queue::connect(&server, controller.identity().cntlid, qid);
        for _ in 0..127 {
            queue.host.submit_read(blocks(io::READ), MIB as u32, &mut queue.out).unwrap();
        }
        queue.send();
        queues.push(queue);
    }
    let data = vec![1; MIB];
    for qid in QUEUES + 1..=2 * QUEUES {
        let mut queue = Queue::connect(&server, controller.identity().cntlid, qid);
        for _ in 0..8 {
            queue.host.submit(blocks(io::WRITE), &data, &mut queue.out).unwrap();
        }
        queue.send();
        queue.stream.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
        let began = Instant::now();
        let mut buffer = [0; 4096];
        while let Ok(n @ 1..) = queue.stream.read(&mut buffer) {
            queue.pending.extend_from_slice(&buffer[..n]);
            let (consumed, _) = queue.host.receive(&queue.pending, &mut queue.out, |_| {}).unwrap();
            queue.pending.drain(..consumed);
            if queue.out.len() >= 8 * MIB || began.elapsed() > Duration::from_secs(10) {
                break;
            }
        }
        // Of the last command that data were asked for the end is missing; those before are whole.
        let most = queue.out.len().saturating_sub(200 << 10);
        queue.stream.write_all(&queue.out[..most]).unwrap();
        queue.out = Vec::new();
        queues.push(queue);
    }
    let other = Controller::connect(server.address(), options(&server, 2)).unwrap();
    let mut queue = other.queue(1, 8).unwrap();
    let mut most = 0;
    let until = Instant::now() + Duration::from_secs(3);
    while Instant::now() < until {
        let mut into = vec![0; MIB];
        assert_eq!(queue.execute(blocks(io::READ), &[], &mut into).unwrap().status, Status::SUCCESS);
        assert_eq!(queue.execute(blocks(io::WRITE), &data, &mut []).unwrap().status, Status::SUCCESS);
        most = most.max(resident());
    }
    let held = most - before;
    println!("{held} MiB more than before");
    // Both budgets come to 192 MiB. The rest is the test's own, and what the allocator keeps of
    // both; without budgets it is 4 GiB and more.
    assert!(held < 512, "{held} MiB");
    drop((queues, data));
    // What the host had goes back to the system.
    let until = Instant::now() + Duration::from_secs(60);
    while resident().saturating_sub(before) > 150 {
        assert!(Instant::now() < until, "{} MiB are kept", resident() - before);
        std::thread::sleep(Duration::from_millis(100));
    }
    server.stop().unwrap();
}
