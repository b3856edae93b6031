//! A node that is silent holds up those who ask it, and nobody else.

use super::*;
use pumice_offload::{DriveMemory, Grant, Link, Transfer};
use std::net::TcpListener;
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{Receiver, Sender, channel};

/// Holds back what it is shown until it is opened.
struct Gate {
    came: Mutex<Sender<()>>,
    open: Mutex<Receiver<()>>,
}

/// A gate, what tells of each arrival, and what opens it when it is dropped.
fn gate() -> (Arc<Gate>, Receiver<()>, Sender<()>) {
    let (came, arrived) = channel();
    let (opener, open) = channel();
    (Arc::new(Gate { came: Mutex::new(came), open: Mutex::new(open) }), arrived, opener)
}

impl Gate {
    fn pass(&self) {
        let _ = self.came.lock().unwrap().send(());
        let _ = self.open.lock().unwrap().recv();
    }
}

/// A completion without data.
fn is_completion(pdu: &[u8]) -> bool {
    pdu[0] == 5
}

/// An answer to the request for a connection.
fn is_of_connect(pdu: &[u8]) -> bool {
    pdu[0] == 1
}

/// The node that was last told to be silent.
static SILENT: Mutex<Option<SocketAddr>> = Mutex::new(None);

fn quick(address: SocketAddr) -> Arc<RemoteNode> {
    let silent = |node, _| *SILENT.lock().unwrap() = Some(node);
    let dial = Dial { deadline: Duration::from_secs(3), silent, ..dial(address, DigestPolicy::Off) };
    Arc::new(RemoteNode::connect(dial).unwrap())
}

#[test]
fn nobody_waits_for_the_keep_alive_of_another_caller() {
    let (server, _) = filled();
    let ((data, sent, open_data), (alive, asked, open_alive)) = (gate(), gate());
    let silent = Arc::new(AtomicBool::new(false));
    let is_silent = Arc::clone(&silent);
    let first = AtomicBool::new(true);
    let proxy = Proxy::start(server.address(), move |pdu| {
        if is_silent.load(Ordering::SeqCst) {
            match () {
                () if data_len(pdu) == LEN => data.pass(),
                // The first is that of the Keep Alive.
                () if is_completion(pdu) && first.swap(false, Ordering::SeqCst) => alive.pass(),
                () => {}
            }
        }
        Then::Pass
    });
    let node = quick(proxy.address);
    memory(&node).unwrap();
    silent.store(true, Ordering::SeqCst);
    let there = Arc::clone(&node);
    let reading = std::thread::spawn(move || read(&there));
    sent.recv().unwrap();
    asked.recv().unwrap();
    // The Keep Alive of the one who reads has no answer, and he says for whom he waits.
    while *SILENT.lock().unwrap() != Some(proxy.address) {
        assert!(!reading.is_finished(), "nobody was told of a silent node");
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(!node.reconnect().unwrap(), "nothing is lost yet");
    let before = node.link_figures();
    node.memory_read(MEMORY, &mut [0; 512]).unwrap();
    assert!(node.link_figures().pdus > before.pdus, "the queue has come back");
    drop((open_alive, open_data));
    assert_eq!(reading.join().unwrap().unwrap(), content());
}

#[test]
fn nobody_waits_for_the_queue_of_another_caller() {
    let (server, _) = filled();
    let ((data, sent, open_data), (connect, dialled, open_connect)) = (gate(), gate());
    let silent = Arc::new(AtomicBool::new(false));
    let is_silent = Arc::clone(&silent);
    let proxy = Proxy::start(server.address(), move |pdu| {
        if is_silent.load(Ordering::SeqCst) {
            match () {
                () if data_len(pdu) == LEN => data.pass(),
                () if is_of_connect(pdu) => connect.pass(),
                () => {}
            }
        }
        Then::Pass
    });
    let node = quick(proxy.address);
    silent.store(true, Ordering::SeqCst);
    let (one, other) = (Arc::clone(&node), Arc::clone(&node));
    let reading = std::thread::spawn(move || read(&one));
    sent.recv().unwrap();
    let waiting = std::thread::spawn(move || other.memory_read(MEMORY, &mut [0; 512]));
    dialled.recv().unwrap();
    assert!(!node.reconnect().unwrap(), "nothing is lost yet");
    drop(open_data);
    assert_eq!(reading.join().unwrap().unwrap(), content());
    assert!(!node.reconnect().unwrap(), "nothing is lost yet");
    drop(open_connect);
    waiting.join().unwrap().unwrap();
}

#[test]
fn a_node_stops_while_its_peer_stands_still() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = silent.local_addr().unwrap();
    let peer = Peer { address, nqn: None, digests: DigestPolicy::Off };
    let server = node_with(Drive::open(&Backend::Memory(1 << 20), 512, NAME, 1).unwrap(), vec![peer]);
    let host = connect(server.address(), DigestPolicy::Off);
    let waiting = std::thread::spawn(move || {
        let (peer, grant) = (address.to_string(), Grant([1; 16]));
        host.transfer(&Transfer { from: MEMORY, len: 512, peer, to: MEMORY, grant }).unwrap_err();
    });
    let _held = silent.accept().unwrap();
    server.stop().unwrap();
    waiting.join().unwrap();
}
