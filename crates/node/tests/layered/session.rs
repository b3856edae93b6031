//! Functions of the initiator alone: a pipeline, discovery, and cuts by another thread.

use crate::over::transport;
use crate::world::{associate, command, connect, host, serve};
use pumice_blockdev::MemoryDevice;
use pumice_node::serve::{Drive, Server};
use pumice_nvme::spec::opcode::io;
use pumice_nvme::spec::{Sqe, Status};
use pumice_remote::initiator::{Command, Cut, Exchange, InitiatorError, Patience, Pipeline, discover_over};
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

const BYTES: usize = 8 << 20;
const PIECE: usize = 64 << 10;

/// A node with a drive of memory.
fn node() -> Server {
    serve(vec![Drive::with_device(Arc::new(MemoryDevice::new("m", BYTES as u64)), 512, "m").unwrap()])
}

/// A write of its data, or a read if it has none.
struct Moved {
    sqe: Sqe,
    send: Vec<u8>,
    receive: Vec<u8>,
}

impl Exchange for Moved {
    type Data = Vec<u8>;
    fn sqe(&self) -> Sqe {
        self.sqe
    }
    fn send(&self) -> Vec<u8> {
        self.send.clone()
    }
    fn receive(&mut self) -> &mut [u8] {
        &mut self.receive
    }
}

fn content(piece: usize) -> Vec<u8> {
    (0..PIECE).map(|i| ((i * 7 + piece * 13) >> 2) as u8).collect()
}

/// Data for the node and data from it are under way at a time, far more than the layer holds.
#[test]
fn a_pipeline_moves_data_both_ways_at_a_time() {
    let server = node();
    let (_controller, queue) = connect(&server, host(&server, 1), 64);
    let (told, ended) = channel();
    let patience = Patience {
        silence: Duration::from_secs(20),
        quiet: Box::new(|_| {}),
        command: Duration::from_secs(60),
        alive: Box::new(|| false),
    };
    let told = Box::new(move |moved, outcome| told.send((moved, outcome)).unwrap());
    let pipeline = Pipeline::start(queue, patience, told).unwrap();
    let moved = |code, piece: usize, send: Vec<u8>, receive| Moved {
        sqe: command(code, 1, (piece * PIECE / 512) as u64, (PIECE / 512) as u32),
        send,
        receive: vec![0; receive],
    };
    let pieces = BYTES / PIECE;
    // Each is written, and then read while others are written.
    for piece in 0..pieces {
        pipeline.submit(moved(io::WRITE, piece, content(piece), 0)).map_err(|(_, e)| e).unwrap();
    }
    let mut read = 0;
    while read < pieces {
        let (done, outcome): (Moved, Result<_, Arc<InitiatorError>>) = ended.recv().unwrap();
        assert_eq!(outcome.unwrap().status, Status::SUCCESS);
        let piece = done.sqe.slba() as usize * 512 / PIECE;
        if done.receive.is_empty() {
            pipeline.submit(moved(io::READ, piece, Vec::new(), PIECE)).map_err(|(_, e)| e).unwrap();
        } else {
            assert!(done.receive == content(piece), "piece {piece}");
            read += 1;
        }
    }
    let (sent, received) = pipeline.moved();
    assert!(sent > BYTES as u64 && received > BYTES as u64);
}

#[test]
fn a_batch_of_a_queue_is_as_large_as_over_a_socket() {
    let server = node();
    let (_controller, mut queue) = connect(&server, host(&server, 1), 128);
    let datas: Vec<Vec<u8>> = (0..32).map(content).collect();
    let at = |code, piece: usize| command(code, 1, (piece * PIECE / 512) as u64, (PIECE / 512) as u32);
    let write = |(piece, data)| Command { sqe: at(io::WRITE, piece), send: data, receive: &mut [] };
    let mut writes: Vec<Command<'_>> = datas.iter().map(Vec::as_slice).enumerate().map(write).collect();
    assert!(queue.run(&mut writes).unwrap().iter().all(|done| done.status.is_success()));
    let mut rooms = vec![vec![0; PIECE]; datas.len()];
    let read = |(piece, room)| Command { sqe: at(io::READ, piece), send: &[], receive: room };
    let mut reads: Vec<Command<'_>> = rooms.iter_mut().map(Vec::as_mut_slice).enumerate().map(read).collect();
    assert!(queue.run(&mut reads).unwrap().iter().all(|done| done.status.is_success()));
    assert!(rooms == datas);
}

#[test]
fn a_discovery_service_answers() {
    let server = node();
    let found = discover_over(transport(), server.address(), &host(&server, 1), None).unwrap();
    assert!(found.iter().any(|entry| entry.subnqn == server.nqn().as_str()), "{found:?}");
}

/// The connection ends under a caller that waits for an answer which the layer would have to make.
#[test]
fn a_cut_ends_a_call_at_once() {
    let server = node();
    let cut = Arc::new(Cut::default());
    let options = host(&server, 1);
    let made = pumice_remote::initiator::Controller::connect_over(
        transport(),
        server.address(),
        options,
        Some(Arc::clone(&cut)),
    );
    let mut controller = made.unwrap();
    let began = Instant::now();
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| {
            // It waits for an event that does not come.
            let event = Sqe::new(pumice_nvme::spec::opcode::admin::ASYNC_EVENT, 0);
            controller.admin().execute(event, &[], &mut [])
        });
        std::thread::sleep(Duration::from_millis(100));
        cut.cut();
        assert!(waiting.join().unwrap().is_err());
    });
    assert!(began.elapsed() < Duration::from_secs(5));
    // The node has seen the end, and lets the host in again.
    while associate(server.address(), host(&server, 1)).is_err() {
        assert!(began.elapsed() < Duration::from_secs(20));
    }
}
