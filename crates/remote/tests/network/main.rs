//! Drives of a node behind a network that is not good: a real node, and a proxy between.

mod operations;
mod proxy;
mod updates;
mod waiting;

use proxy::{Proxy, Then, data_len};
use pumice_base::buffer::AlignedBuffer;
use pumice_node::NodeOptions;
use pumice_node::serve::{Backend, Drive, HostFaces, Peer, Server, Service};
use pumice_nvme::controller::Limits;
use pumice_offload::{
    DriveId, DriveMemory, Drives, ErrorKind, Link, MemoryAddress, NodeError, PaceRequest, Piece, Presence,
};
use pumice_remote::initiator::DigestPolicy;
use pumice_remote::{Dial, RemoteNode, log_silence};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

const DRIVE: DriveId = DriveId(1);
/// An amount that nothing else of these tests has: by it a PDU is told from others.
const LEN: usize = 24 << 10;

fn node() -> Server {
    node_of(Drive::open(&Backend::Memory(1 << 20), 512, NAME, 1).unwrap())
}

const NAME: &str = "nqn.2026-11.example:node";

fn node_of(drive: Drive) -> Server {
    node_with(drive, Vec::new())
}

fn node_with(drive: Drive, peers: Vec<Peer>) -> Server {
    Server::start(Service {
        listen: vec!["127.0.0.1:0".parse().unwrap()],
        metrics: None,
        nqn: NAME.parse().unwrap(),
        instance: None,
        drives: vec![drive],
        faces: HostFaces::default(),
        limits: Limits::default(),
        cores: 1,
        busy_poll: Duration::ZERO,
        node: NodeOptions { memory_bytes: 1 << 20, ..NodeOptions::default() },
        peers,
        pacing: PaceRequest::default(),
    })
    .unwrap()
}

fn dial(address: SocketAddr, digests: DigestPolicy) -> Dial {
    let host = "nqn.2026-11.example:host".parse().unwrap();
    static HOST: AtomicU32 = AtomicU32::new(1);
    let mut hostid = [9; 16];
    hostid[..4].copy_from_slice(&HOST.fetch_add(1, Ordering::Relaxed).to_le_bytes());
    Dial { address, nqn: None, host, hostid, digests, deadline: Duration::from_secs(20), silent: log_silence }
}

fn connect(address: SocketAddr, digests: DigestPolicy) -> RemoteNode {
    RemoteNode::connect(dial(address, digests)).unwrap()
}

fn content() -> Vec<u8> {
    (0..LEN).map(|i| (i % 251) as u8).collect()
}

/// A node whose drive and local memory begin with [`content`], without a proxy.
fn filled() -> (Server, RemoteNode) {
    let server = node();
    let writer = connect(server.address(), DigestPolicy::Off);
    writer.write(DRIVE, 0, &content()).unwrap();
    (server, writer)
}

fn read(node: &RemoteNode) -> Result<Vec<u8>, NodeError> {
    let mut out = vec![0; LEN];
    node.read(DRIVE, 0, &mut out).map(|()| out)
}

fn gather(node: &RemoteNode) -> Result<Vec<u8>, NodeError> {
    let piece = Piece { drive: DRIVE, offset: 0, at: 0, len: LEN };
    let (buffer, failures) = node.gather(&[piece], AlignedBuffer::new(LEN))?;
    assert!(failures.is_empty(), "{failures:?}");
    Ok(buffer[..LEN].to_vec())
}

const MEMORY: MemoryAddress = MemoryAddress { drive: DRIVE, offset: 0 };

fn memory(node: &RemoteNode) -> Result<Vec<u8>, NodeError> {
    let mut out = vec![0; LEN];
    node.memory_read(MEMORY, &mut out).map(|()| out)
}

fn unreachable<T: std::fmt::Debug>(result: Result<T, NodeError>) -> String {
    let error = result.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unreachable, "{error}");
    error.to_string()
}

#[test]
fn digests_are_in_use_where_they_are_asked_for() {
    let (server, plain) = filled();
    assert!(!plain.link_figures().digests);
    let guarded = connect(server.address(), DigestPolicy::On);
    assert_eq!((read(&guarded).unwrap(), guarded.lacks_digests()), (content(), false));
    let figures = guarded.link_figures();
    assert!(figures.digests && figures.loopback);
    assert!(figures.bytes > LEN as u64 && figures.pdus > 10, "{figures:?}");
    let near = connect(server.address(), DigestPolicy::Auto);
    assert!(!near.link_figures().digests && !near.lacks_digests(), "it is on the loopback");
}

#[test]
fn a_bit_that_flips_on_the_way_is_an_error_with_digests_and_bad_data_without() {
    let (server, _) = filled();
    for (digests, offset) in [(DigestPolicy::Off, 100), (DigestPolicy::On, 100), (DigestPolicy::On, LEN)] {
        let flips = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&flips);
        let proxy = Proxy::start(server.address(), move |pdu| {
            if data_len(pdu) == LEN && counted.fetch_add(1, Ordering::SeqCst) == 0 {
                // Within the data, or within the digest behind them.
                let at = usize::from(pdu[3]) + offset;
                pdu[at] ^= 4;
            }
            Then::Pass
        });
        let node = connect(proxy.address, digests);
        if digests == DigestPolicy::Off {
            let mut wrong = content();
            wrong[100] ^= 4;
            assert_eq!(read(&node).unwrap(), wrong);
            continue;
        }
        let why = unreachable(read(&node));
        assert!(why.contains("digest"), "{why}");
        unreachable(read(&node));
        assert!(node.reconnect().unwrap());
        assert_eq!(read(&node).unwrap(), content());
        assert!(!node.reconnect().unwrap(), "nothing is lost");
    }
}

#[test]
fn a_success_that_brings_fewer_bytes_is_an_error() {
    let (server, _) = filled();
    for what in ["read", "gather", "memory"] {
        let short = Arc::new(OnceLock::new());
        let seen = Arc::clone(&short);
        let proxy = Proxy::start(server.address(), move |pdu| {
            if data_len(pdu) == LEN && seen.set(()).is_ok() {
                let half = LEN / 2;
                pdu.truncate(pdu.len() - half);
                let len = pdu.len() as u32;
                pdu[4..8].copy_from_slice(&len.to_le_bytes());
                pdu[16..20].copy_from_slice(&(half as u32).to_le_bytes());
            }
            Then::Pass
        });
        let node = connect(proxy.address, DigestPolicy::Off);
        node.memory_write(MEMORY, &content()).unwrap();
        let ask = |node: &RemoteNode| match what {
            "read" => read(node),
            "gather" => gather(node),
            _ => memory(node),
        };
        assert!(ask(&node).is_err(), "{what}");
        assert!(short.get().is_some());
        assert_eq!(ask(&node).unwrap(), content(), "{what}: the next one came whole");
    }
}

/// A node that says nothing from the first read of [`LEN`] bytes on, until the proxy is released.
fn falls_silent(server: &Server) -> (Proxy, RemoteNode) {
    let once = OnceLock::new();
    let proxy = Proxy::start(server.address(), move |pdu| match data_len(pdu) == LEN {
        true if once.set(()).is_ok() => Then::Hold,
        _ => Then::Pass,
    });
    let dial = Dial { deadline: Duration::from_millis(500), ..dial(proxy.address, DigestPolicy::Off) };
    let node = RemoteNode::connect(dial).unwrap();
    (proxy, node)
}

#[test]
fn a_silent_node_is_noticed_and_can_be_reached_again() {
    let (server, _) = filled();
    let (proxy, node) = falls_silent(&server);
    let why = unreachable(read(&node));
    assert!(why.contains("no answer"), "{why}");
    let why = unreachable(memory(&node));
    assert!(why.contains("the connection is lost"), "nobody waits for it a second time: {why}");
    unreachable(node.reconnect());
    proxy.release();
    assert!(node.reconnect().unwrap());
    assert_eq!(read(&node).unwrap(), content());
}

/// The association that held it has ended for this host, so it must end for the node.
#[test]
fn a_node_that_was_held_and_silent_is_taken_again_when_it_answers() {
    let (server, writer) = filled();
    drop(writer);
    let (proxy, node) = falls_silent(&server);
    while let Err(error) = node.hold() {
        assert_eq!(error.kind(), ErrorKind::Busy, "the writer has not gone yet: {error}");
    }
    unreachable(read(&node));
    proxy.release();
    let until = Instant::now() + Duration::from_secs(20);
    let taken = loop {
        match node.retake() {
            Err(error) if Instant::now() < until => {
                assert!(error.to_string().contains("controller busy"), "{error}");
                std::thread::sleep(Duration::from_millis(50));
            }
            taken => break taken,
        }
    };
    assert!(taken.unwrap());
    assert_eq!(read(&node).unwrap(), content());
}

/// Cuts every connection at the first PDU with so many bytes of data.
fn cutting(server: &Server, len: usize) -> Proxy {
    let cut = OnceLock::new();
    Proxy::start(server.address(), move |pdu| match data_len(pdu) == len {
        true if cut.set(()).is_ok() => Then::Cut,
        _ => Then::Pass,
    })
}

#[test]
fn local_memory_is_leased_anew_with_the_connection() {
    let (server, other) = filled();
    let proxy = cutting(&server, LEN);
    let node = connect(proxy.address, DigestPolicy::Off);
    node.memory_write(MEMORY, &content()).unwrap();
    let before = node.absolute(MEMORY).unwrap();
    unreachable(read(&node));
    // What it had is free by now, or soon: another host takes it.
    let theirs = loop {
        let theirs = connect(server.address(), DigestPolicy::Off);
        if theirs.absolute(MEMORY).unwrap() == before {
            break theirs;
        }
    };
    theirs.memory_write(MEMORY, &[7; LEN]).unwrap();
    assert!(node.reconnect().unwrap());
    assert_ne!(node.absolute(MEMORY).unwrap(), before);
    node.memory_write(MEMORY, &content()).unwrap();
    assert_eq!((memory(&theirs).unwrap(), memory(&node).unwrap()), (vec![7; LEN], content()));
    drop(other);
}

#[test]
fn a_hold_that_was_lost_is_not_taken_anew() {
    let (server, writer) = filled();
    drop(writer);
    let proxy = cutting(&server, LEN);
    let node = connect(proxy.address, DigestPolicy::Off);
    while let Err(error) = node.hold() {
        assert_eq!(error.kind(), ErrorKind::Busy, "the writer has not gone yet: {error}");
    }
    let refused = RemoteNode::connect(dial(server.address(), DigestPolicy::Off)).err().unwrap().to_string();
    assert!(refused.contains("controller busy") && refused.contains("holds the node"), "{refused}");
    unreachable(read(&node));
    let error = node.reconnect().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Busy, "others may have written since");
    assert!(error.to_string().contains("the hold on it ended"), "{error}");
    unreachable(node.write(DRIVE, 0, &[0; 512]));
}

#[test]
fn what_is_read_ahead_is_what_a_read_gives_and_what_cannot_be_is_left_out() {
    let (_server, node) = filled();
    let piece = |offset, at, len| Piece { drive: DRIVE, offset, at, len };
    // Whole blocks, and bytes that begin and end within some.
    let pieces = [piece(4096, 0, 4096), piece(700, 4096, 1000)];
    let mut buffer = vec![0; 5096];
    assert_eq!(node.read_ahead(&pieces, &mut buffer), [0, 1]);
    assert_eq!(buffer[..4096], content()[4096..8192]);
    assert_eq!(buffer[4096..], content()[700..1700]);
    // Past the drive's end: a read says so.
    assert_eq!(node.read_ahead(&[piece(1 << 20, 0, 512)], &mut buffer), [0; 0]);
}
