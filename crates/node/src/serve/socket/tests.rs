//! A socket beside a peer that takes what it likes.

use super::time::UNREAD_LEAST;
use super::*;
use pumice_nvme::controller::Limits;
use std::net::{Ipv4Addr, TcpListener};

/// Many may be full at a time, and to ask one of them costs as much as to send: a socket that
/// was full is left alone until it says that it has room.
#[test]
fn a_socket_that_is_full_is_left_alone_until_it_has_room() -> io::Result<()> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let mut peer = std::net::TcpStream::connect(listener.local_addr()?)?;
    let (stream, local) = (listener.accept()?.0, listener.local_addr()?);
    stream.set_nonblocking(true)?;
    let stream = TcpStream::from_std(stream);
    let mut socket = Socket::new(stream, Connection::new(Limits::default(), local, 0), local);
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
    let stream = TcpStream::from_std(listener.accept()?.0);
    let local = listener.local_addr()?;
    let mut socket = Socket::new(stream, Connection::new(Limits::default(), local, 0), local);
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
    let stream = TcpStream::from_std(stream);
    let mut socket = Socket::new(stream, Connection::new(Limits::default(), local, 0), local);
    socket.out.bytes().resize(256 << 20, 7);
    assert!(!socket.gives_up(&[], 0) && !socket.out.is_empty());
    let (mut taken, mut now) = (vec![0; 1 << 20], 0);
    for _ in 0..3 {
        io::Read::read_exact(&mut peer, &mut taken)?;
        // Until the system has moved what it can.
        std::thread::sleep(std::time::Duration::from_millis(100));
        now += 30 * SECOND;
        assert!(!socket.gives_up(&[], now));
    }
    assert!(socket.gives_up(&[], now + 30 * SECOND), "it takes nothing any more");
    Ok(())
}
