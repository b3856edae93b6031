//! A server on loopback, and hosts that connect to it.

use crate::over::transport;
use pumice_node::NodeOptions;
use pumice_node::serve::{Drive, HostFaces, ServeError, Server, Service};
use pumice_nvme::controller::Limits;
use pumice_nvme::pdu::Digests;
use pumice_nvme::spec::opcode::io;
use pumice_nvme::spec::{Sqe, Status};
use pumice_offload::PaceRequest;
use pumice_remote::initiator::{ConnectOptions, Controller, InitiatorError, Queue};
use std::net::SocketAddr;
use std::time::Duration;

/// The longest wait of a host, unless a test says otherwise: long enough for a machine that is busy
/// with other tests.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// Serves drives. They need no local memory to speak of: nothing here asks for parity.
pub(crate) fn serve(drives: Vec<Drive>) -> Server {
    serve_on(1, drives)
}

/// The same, by so many cores.
pub(crate) fn serve_on(cores: usize, drives: Vec<Drive>) -> Server {
    serve_at(&["127.0.0.1:0"], cores, drives)
}

/// The same, on these addresses.
pub(crate) fn serve_at(listen: &[&str], cores: usize, drives: Vec<Drive>) -> Server {
    serve_within(Limits::default(), listen, cores, drives)
}

/// The same, within these bounds.
pub(crate) fn serve_within(limits: Limits, listen: &[&str], cores: usize, drives: Vec<Drive>) -> Server {
    let listen = listen.iter().map(|address| address.parse().unwrap()).collect();
    start(Service { listen, limits, cores, ..service(drives) }).unwrap()
}

/// A server whose hosts have these faces of the drives.
pub(crate) fn serve_faces(drives: Vec<Drive>, faces: HostFaces) -> Server {
    start(Service { faces, ..service(drives) }).unwrap()
}

/// A server that keeps a pace.
pub(crate) fn serve_paced(drives: Vec<Drive>, pacing: PaceRequest) -> Server {
    start(Service { pacing, ..service(drives) }).unwrap()
}

fn start(service: Service) -> Result<Server, ServeError> {
    Server::start_over(transport(), service)
}

fn service(drives: Vec<Drive>) -> Service {
    Service {
        listen: vec!["127.0.0.1:0".parse().unwrap()],
        nqn: "nqn.2026-11.example:node".parse().unwrap(),
        instance: None,
        drives,
        faces: HostFaces::default(),
        limits: Limits::default(),
        cores: 1,
        busy_poll: Duration::from_micros(100),
        node: NodeOptions { memory_bytes: 4096, ..NodeOptions::default() },
        peers: Vec::new(),
        pacing: PaceRequest::default(),
        metrics: Some("127.0.0.1:0".parse().unwrap()),
    }
}

/// Options of the host with this number: no digests, and a long deadline.
pub(crate) fn host(server: &Server, number: u8) -> ConnectOptions {
    ConnectOptions {
        subsystem: server.nqn().clone(),
        host: "nqn.2026-11.example:host".parse().unwrap(),
        hostid: [number; 16],
        digests: Digests::default(),
        flow_control: true,
        deadline: PATIENCE,
    }
}

/// Connects an admin queue.
pub(crate) fn associate(address: SocketAddr, options: ConnectOptions) -> Result<Controller, InitiatorError> {
    Controller::connect_over(transport(), address, options, None)
}

/// Connects, with one queue of `entries`. The association ends when the controller goes.
pub(crate) fn connect(server: &Server, options: ConnectOptions, entries: u16) -> (Controller, Queue) {
    let controller = associate(server.address(), options).unwrap();
    let queue = controller.queue(1, entries).unwrap();
    (controller, queue)
}

/// One of the counters that the server shows.
pub(crate) fn counter(server: &Server, name: &str) -> f64 {
    let text = server.metrics();
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("no {name}")).parse().unwrap()
}

/// The part of a budget that is in use.
pub(crate) fn used(server: &Server, budget: &str) -> f64 {
    counter(server, &format!("pumice_budget_used{{budget=\"{budget}\"}}"))
}

/// A command for `blocks` blocks from `slba` on.
pub(crate) fn command(code: u8, nsid: u32, slba: u64, blocks: u32) -> Sqe {
    let mut sqe = Sqe::new(code, nsid);
    sqe.set_blocks(slba, blocks);
    sqe
}

/// Carries out a command that reads nothing.
pub(crate) fn run(queue: &mut Queue, sqe: Sqe, send: &[u8]) -> Status {
    queue.execute(sqe, send, &mut []).unwrap().status
}

/// Reads blocks of 512 bytes.
pub(crate) fn read(queue: &mut Queue, nsid: u32, slba: u64, blocks: u32) -> (Status, Vec<u8>) {
    let mut out = vec![0; blocks as usize * 512];
    let outcome = queue.execute(command(io::READ, nsid, slba, blocks), &[], &mut out).unwrap();
    (outcome.status, out)
}
