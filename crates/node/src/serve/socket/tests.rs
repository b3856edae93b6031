//! A socket beside a peer that takes what it likes.

use super::time::UNREAD_LEAST;
use super::*;
use crate::serve::access::Shares;
use crate::serve::handle::CoreHandle;
use crate::serve::lanes::Lanes;
use crate::serve::pool::{Policy, Pool};
use mio::{Poll, Token, Waker};
use pumice_nvme::controller::{Limits, Request, Submitted};
use pumice_nvme::pdu::{Digests, IcReq, Kind, push, push_with_data};
use pumice_nvme::spec::connect::{DYNAMIC, Data, Fields};
use pumice_nvme::spec::{Sgl, Sqe, Status, opcode};
use std::convert::Infallible;
use std::net::{Ipv4Addr, TcpListener};
use std::time::Duration;

/// Many may be full at a time, and to ask one of them costs as much as to send: a socket that
/// was full is left alone until it says that it has room.
#[test]
fn a_socket_that_is_full_is_left_alone_until_it_has_room() -> io::Result<()> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let mut peer = std::net::TcpStream::connect(listener.local_addr()?)?;
    let (stream, local) = (listener.accept()?.0, listener.local_addr()?);
    stream.set_nonblocking(true)?;
    let mut socket = Socket::new(stream.into(), Connection::new(Limits::default(), local, 0), local, local);
    socket.out.bytes().resize(64 << 20, 7);
    socket.send(&[]);
    let sent = socket.sent;
    assert!(sent > 0 && !socket.out.is_empty());
    let mut taken = vec![0; sent as usize];
    io::Read::read_exact(&mut peer, &mut taken)?;
    socket.send(&[]);
    assert_eq!(socket.sent, sent, "it was not asked");
    socket.writable();
    socket.send(&[]);
    assert!(socket.sent > sent);
    Ok(())
}

#[test]
fn a_host_that_takes_next_to_nothing_is_closed_after_half_a_minute() -> io::Result<()> {
    const SECOND: u64 = 1_000_000_000;
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let _peer = std::net::TcpStream::connect(listener.local_addr()?)?;
    let stream = listener.accept()?.0;
    let local = listener.local_addr()?;
    let mut socket = Socket::new(stream.into(), Connection::new(Limits::default(), local, 0), local, local);
    assert!(!socket.is_stuck(0) && !socket.is_stuck(100 * SECOND), "nothing waits");
    socket.out.bytes().extend_from_slice(&[0; 100]);
    assert!(!socket.is_stuck(100 * SECOND) && !socket.is_stuck(129 * SECOND));
    socket.sent += UNREAD_LEAST;
    assert!(!socket.is_stuck(130 * SECOND), "it takes enough");
    socket.sent += UNREAD_LEAST - 1;
    assert!(!socket.is_stuck(159 * SECOND) && socket.is_stuck(160 * SECOND), "it does not any more");
    socket.out.shrink();
    assert!(!socket.out.is_empty(), "what waits stays");
    Ok(())
}

/// It takes little, but more than it must: the socket does not say so, because most of its memory
/// is still taken.
#[test]
fn a_host_that_takes_a_little_is_not_given_up() -> io::Result<()> {
    const SECOND: u64 = 1_000_000_000;
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let mut peer = std::net::TcpStream::connect(listener.local_addr()?)?;
    let (stream, local) = (listener.accept()?.0, listener.local_addr()?);
    stream.set_nonblocking(true)?;
    let mut socket = Socket::new(stream.into(), Connection::new(Limits::default(), local, 0), local, local);
    socket.out.bytes().resize(256 << 20, 7);
    assert!(!socket.gives_up(&[], 0) && !socket.out.is_empty());
    let (mut taken, mut now) = (vec![0; 1 << 20], 0);
    for _ in 0..3 {
        io::Read::read_exact(&mut peer, &mut taken)?;
        // Until the system has moved what it can.
        std::thread::sleep(Duration::from_millis(100));
        now += 30 * SECOND;
        assert!(!socket.gives_up(&[], now));
    }
    assert!(socket.gives_up(&[], now + 30 * SECOND), "it takes nothing any more");
    Ok(())
}

/// A medium that is not asked for anything.
struct NoMedium;

impl Media for NoMedium {
    fn read_now(&mut self, _: u32, _: u64, _: &mut [u8]) -> Status {
        Status::INTERNAL
    }

    fn is_immediate(&self, _: u32) -> bool {
        false
    }

    fn has_room(&self) -> bool {
        true
    }

    fn submit(&mut self, _: &Request<'_>) -> Submitted {
        Submitted::Done(Status::INTERNAL)
    }
}

/// The first bytes of a host: ICReq, and Connect of an admin queue.
fn connect_bytes() -> Vec<u8> {
    let digests = Digests::default();
    let data = Data {
        hostid: [1; 16],
        cntlid: DYNAMIC,
        subnqn: "nqn.2026-11.example:node".to_owned(),
        hostnqn: "nqn.2026-11.example:host".to_owned(),
    };
    let data = data.encode();
    let mut connect = Sqe::new(opcode::FABRICS, 0);
    connect.0[4] = opcode::fabrics::CONNECT;
    Fields { recfmt: 0, qid: 0, sqsize: 31, cattr: 0, kato_ms: 0 }.encode(&mut connect);
    connect.set_sgl(Sgl::in_capsule(data.len() as u32));
    let mut bytes = IcReq { hpda: 0, digests, maxr2t: 0 }.encode().to_vec();
    let Ok(()) = push_with_data(&mut bytes, Kind::CapsuleCmd, 0, &connect.0, digests, data.len(), |to| {
        to.copy_from_slice(&data);
        Ok::<(), Infallible>(())
    });
    bytes
}

/// A host that has sent half a PDU when the node stops taking anything: the other half is not late.
#[test]
fn what_is_not_taken_from_a_socket_is_not_late() -> io::Result<()> {
    const SECOND: u64 = 1_000_000_000;
    let shared = crate::serve::workers::tests::shared();
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let _peer = std::net::TcpStream::connect(listener.local_addr()?)?;
    let (stream, local) = (listener.accept()?.0, listener.local_addr()?);
    stream.set_nonblocking(true)?;
    let connection = Connection::new(Limits::default(), local, 0);
    let mut socket = Socket::new(stream.into(), connection, local, local);
    let mut bytes = connect_bytes();
    let half = bytes.len();
    let keep_alive = Sqe::new(opcode::admin::KEEP_ALIVE, 0);
    push(&mut bytes, Kind::CapsuleCmd, 0, &keep_alive.0, Digests::default());
    bytes.truncate(half + 40);
    let subsystem = shared.subsystem();
    let received = socket.connection.receive(0, &bytes, subsystem, &mut NoMedium, socket.out.bytes());
    assert_eq!((received.consumed, socket.connection.host()), (half, Some([1; 16])));
    socket.readable = false;
    socket.in_flight = IN_FLIGHT_LIMIT;
    assert_eq!(socket.tick(&shared, 31 * SECOND), Turn::Waits, "it has no room");
    socket.in_flight = 0;
    socket.readable = true;
    assert_eq!(socket.tick(&shared, 70 * SECOND), Turn::Waits, "its turn has not come");
    socket.readable = false;
    assert_eq!(socket.tick(&shared, 99 * SECOND), Turn::Waits, "it has as long as ever");
    assert_eq!(socket.tick(&shared, 101 * SECOND), Turn::Over);
    Ok(())
}

/// A turn of a socket, with nothing around it.
fn turn(socket: &mut Socket, shared: &Arc<Shared>) -> io::Result<Turn> {
    let poll = Poll::new()?;
    let core = CoreHandle::new(Waker::new(poll.registry(), Token(0))?);
    let pool = Pool::start(Policy { name: "t", threads: 0, of_host: 1, one_for_each: false })?;
    let lanes = Lanes::start(shared, 1)?;
    let (account, gone) = (socket.account.clone(), Arc::default());
    let (mut flying, mut in_flight, mut writes, mut expected) = (0, 0, 0, HashMap::new());
    let mut blocks = Blocks {
        shared,
        workers: &pool,
        lanes: &lanes,
        direct: None,
        engine: &pool,
        control: &pool,
        host: socket.host(),
        granted: socket.granted,
        account: account.as_ref(),
        flying: &mut flying,
        unsent: 0,
        gone: &gone,
        core: &core,
        connection: 0,
        core_number: 0,
        in_flight: &mut in_flight,
        writes: &mut writes,
        expected: &mut expected,
        loans: Vec::new(),
        counts: &shared.metrics().core(),
        now: 0,
        waited: Duration::ZERO,
    };
    Ok(socket.turn(shared, &mut blocks, 0))
}

/// A host sends commands that are answered with next to nothing, as fast as they are taken: it has
/// its turn, and then others have theirs.
#[test]
fn a_turn_takes_so_many_commands_and_no_more() -> io::Result<()> {
    const CAPSULE: usize = 72;
    let shared = crate::serve::workers::tests::shared();
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let _peer = std::net::TcpStream::connect(listener.local_addr()?)?;
    let (stream, local) = (listener.accept()?.0, listener.local_addr()?);
    stream.set_nonblocking(true)?;
    let connection = Connection::new(Limits::default(), local, 0);
    let mut socket = Socket::new(stream.into(), connection, local, local);
    let subsystem = shared.subsystem();
    let received =
        socket.connection.receive(0, &connect_bytes(), subsystem, &mut NoMedium, socket.out.bytes());
    assert_eq!((received.needed, socket.connection.host()), (8, Some([1; 16])));
    // As if all cores had made a round, and the buffer had filled meanwhile.
    (socket.look, socket.readable, socket.left) = (Look::Over, false, true);
    socket.receive.clear();
    let keep_alive = Sqe::new(opcode::admin::KEEP_ALIVE, 0);
    (0..4000).for_each(|_| {
        push(&mut socket.receive, Kind::CapsuleCmd, 0, &keep_alive.0, Digests::default());
    });
    socket.filled = socket.receive.len();
    assert_eq!(turn(&mut socket, &shared)?, Turn::Again);
    assert_eq!(socket.filled, (4000 - WORK as usize) * CAPSULE);
    assert_eq!(turn(&mut socket, &shared)?, Turn::Waits);
    assert_eq!(socket.filled, 0);
    Ok(())
}

/// Hosts have a part of their own so that their commands always find room. A receive buffer that
/// has grown is something that a host can do without.
#[test]
fn a_buffer_that_has_grown_takes_nothing_of_what_a_host_has_for_itself() -> io::Result<()> {
    const OWN: u64 = 4 << 20;
    let shared = crate::serve::workers::tests::shared();
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let _peer = std::net::TcpStream::connect(listener.local_addr()?)?;
    let (stream, local) = (listener.accept()?.0, listener.local_addr()?);
    let connection = Connection::new(Limits::default(), local, 0);
    let mut socket = Socket::new(stream.into(), connection, local, local);
    let subsystem = shared.subsystem();
    socket.connection.receive(0, &connect_bytes(), subsystem, &mut NoMedium, &mut Vec::new());
    socket.receive.resize(FIRST_BUFFER + OWN as usize, 0);
    socket.account_for(&shared);
    let other = shared.accounts().of(HostKey::new(Ipv4Addr::LOCALHOST.into(), [9; 16]), &Shares::EACH);
    let _all = other.flight.hold(1 << 30);
    let mine = socket.account.as_ref().map(|account| &account.flight);
    assert!(mine.is_some_and(|flight| flight.has_room(OWN) && !flight.has_room(OWN + 1)));
    Ok(())
}

/// A layer that holds bytes, and sends when it is told to.
#[derive(Debug)]
struct Holding {
    socket: pumice_remote::transport::Socket,
    unsent: Arc<std::sync::atomic::AtomicUsize>,
}

impl ByteStream for Holding {
    fn socket(&self) -> &pumice_remote::transport::Socket {
        &self.socket
    }

    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        Err(ErrorKind::WouldBlock.into())
    }

    fn write_vectored(&mut self, pieces: &[io::IoSlice<'_>]) -> io::Result<usize> {
        Ok(pieces.iter().map(|piece| piece.len()).sum())
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.unsent() == 0 { Ok(()) } else { Err(ErrorKind::WouldBlock.into()) }
    }

    fn has_more(&self, _: usize, _: usize) -> bool {
        false
    }

    fn is_entangled(&self) -> bool {
        true
    }

    fn unsent(&self) -> usize {
        self.unsent.load(std::sync::atomic::Ordering::Relaxed)
    }

    fn held(&self) -> usize {
        self.unsent()
    }
}

/// Bytes that a layer has taken are not sent: they count for the host, the connection does not end
/// before it is gone, and a host that does not take it is given up.
#[test]
fn bytes_in_a_layer_are_not_sent() -> io::Result<()> {
    const SECOND: u64 = 1_000_000_000;
    const HELD: usize = 5 << 20;
    let shared = crate::serve::workers::tests::shared();
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let _peer = std::net::TcpStream::connect(listener.local_addr()?)?;
    let (stream, local) = (listener.accept()?.0, listener.local_addr()?);
    let unsent = Arc::new(std::sync::atomic::AtomicUsize::new(HELD));
    let layer = Holding { socket: stream.into(), unsent: Arc::clone(&unsent) };
    let connection = Connection::new(Limits::default(), local, 0);
    let mut socket = Socket::new(Stream::Layered(Box::new(layer)), connection, local, local);
    let (subsystem, bytes) = (shared.subsystem(), connect_bytes());
    socket.connection.receive(0, &bytes, subsystem, &mut NoMedium, socket.out.bytes());
    let answers = socket.out.len() as u64;
    assert_eq!(turn(&mut socket, &shared)?, Turn::Waits);
    assert_eq!((socket.sent, socket.out.len()), (answers, 0), "the layer has all of it");
    let held = socket.account.as_ref().map(|account| account.flight.has_room((128 << 20) - HELD as u64));
    assert_eq!(held, Some(false), "its bytes count");
    assert!(!socket.writable, "it waits for the socket");
    socket.readable();
    assert!(socket.writable, "either event lets a layer go on");
    socket.connection.end(EndReason::HostEnded);
    assert!(turn(&mut socket, &shared)? != Turn::Over, "it is not closed before they are gone");
    assert!(!socket.is_stuck(0) && socket.is_stuck(30 * SECOND), "the host takes nothing");
    unsent.store(0, std::sync::atomic::Ordering::Relaxed);
    assert!(!socket.is_stuck(60 * SECOND));
    assert_eq!(turn(&mut socket, &shared)?, Turn::Over);
    Ok(())
}
