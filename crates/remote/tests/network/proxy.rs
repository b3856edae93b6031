//! A proxy between a host and a node: it hands on what both send, and can damage, cut off or hold
//! back what the node sends.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

/// Fate of a PDU for the host, and of those that follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Then {
    /// It is handed on.
    Pass,
    /// Every connection is cut.
    Cut,
    /// It is lost, and with it everything that follows on the connections that stand: the host
    /// hears nothing more, not even an end.
    Hold,
}

type Tamper = dyn Fn(&mut Vec<u8>) -> Then + Send + Sync;

struct Shared {
    node: SocketAddr,
    tamper: Box<Tamper>,
    /// Both ends of every connection: none is closed before the proxy goes, unless it is cut.
    streams: Mutex<Vec<TcpStream>>,
    held: AtomicBool,
}

/// A proxy; its connections end with it.
pub(crate) struct Proxy {
    pub(crate) address: SocketAddr,
    shared: Arc<Shared>,
}

impl Proxy {
    /// Stands before the node at `node`. `tamper` sees, and may change, every PDU for the host.
    pub(crate) fn start(
        node: SocketAddr,
        tamper: impl Fn(&mut Vec<u8>) -> Then + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (streams, held) = (Mutex::default(), AtomicBool::new(false));
        let shared = Arc::new(Shared { node, tamper: Box::new(tamper), streams, held });
        let accepting = Arc::downgrade(&shared);
        std::thread::spawn(move || {
            for host in listener.incoming() {
                let (Some(shared), Ok(host)) = (accepting.upgrade(), host) else { return };
                let Ok(node) = TcpStream::connect(shared.node) else { continue };
                host.set_nodelay(true).unwrap();
                node.set_nodelay(true).unwrap();
                let ends = [host.try_clone().unwrap(), node.try_clone().unwrap()];
                shared.streams.lock().unwrap().extend(ends);
                let (from_host, to_node) = (host.try_clone().unwrap(), node.try_clone().unwrap());
                std::thread::spawn(move || to_the_node(from_host, to_node));
                let shared = Arc::clone(&shared);
                std::thread::spawn(move || shared.to_the_host(node, host));
            }
        });
        Self { address, shared }
    }

    /// Serves new connections again. PDUs that were held back stay lost.
    pub(crate) fn release(&self) {
        self.shared.held.store(false, Ordering::SeqCst);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.shared.cut();
    }
}

fn to_the_node(mut host: TcpStream, mut node: TcpStream) {
    let mut buffer = vec![0; 64 << 10];
    while let Ok(n) = host.read(&mut buffer) {
        if n == 0 || node.write_all(&buffer[..n]).is_err() {
            break;
        }
    }
    let _ = node.shutdown(Shutdown::Both);
}

impl Shared {
    fn cut(&self) {
        for stream in self.streams.lock().unwrap().drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    fn to_the_host(&self, mut node: TcpStream, mut host: TcpStream) {
        loop {
            let mut pdu = vec![0; 8];
            if node.read_exact(&mut pdu).is_err() {
                break;
            }
            pdu.resize(u32::from_le_bytes(pdu[4..8].try_into().unwrap()) as usize, 0);
            if node.read_exact(&mut pdu[8..]).is_err() {
                break;
            }
            match (self.tamper)(&mut pdu) {
                Then::Pass => {}
                Then::Cut => self.cut(),
                Then::Hold => self.held.store(true, Ordering::SeqCst),
            }
            if self.held.load(Ordering::SeqCst) {
                return;
            }
            if host.write_all(&pdu).is_err() {
                break;
            }
        }
        let _ = host.shutdown(Shutdown::Both);
    }
}

/// Bytes of data in a C2HData PDU; 0 for any other.
pub(crate) fn data_len(pdu: &[u8]) -> usize {
    match pdu[0] {
        7 => u32::from_le_bytes(pdu[16..20].try_into().unwrap()) as usize,
        _ => 0,
    }
}
