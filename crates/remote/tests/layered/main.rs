//! A layer over a socket, as both ends use streams: one blocks, the other waits for events.

mod toy;

use mio::{Events, Poll, Token};
use pumice_remote::transport::{ByteStream, INTEREST, Socket, Stream, Transport};
use std::io::{ErrorKind, IoSlice, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::time::Duration;
use toy::Toys;

/// The two ends of a connection. The second does not block.
fn ends(transport: &dyn Transport) -> (Stream, Stream) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let made = Socket::from(TcpStream::connect(listener.local_addr().unwrap()).unwrap());
    made.set_deadlines(Duration::from_secs(20), Duration::from_secs(20)).unwrap();
    let accepted = Socket::from(listener.accept().unwrap().0);
    accepted.set_nonblocking(true).unwrap();
    (transport.connected(made).unwrap(), transport.accepted(accepted).unwrap())
}

fn bytes(len: usize) -> Vec<u8> {
    (0..len).map(|i| ((i * 31) >> 3) as u8).collect()
}

/// Sends back all that comes, as a core of a node does: it waits for events only when neither
/// direction can go on, and holds a bounded number of bytes. Returns the most that the stream held.
fn echo(mut stream: Stream) -> usize {
    const MOST: usize = 100_000;
    let mut poll = Poll::new().unwrap();
    poll.registry().register(&mut stream, Token(0), INTEREST).unwrap();
    let mut events = Events::with_capacity(4);
    let (mut waiting, mut room) = (Vec::new(), vec![0; 7000]);
    let (mut readable, mut writable, mut ended, mut held) = (true, true, false, 0);
    loop {
        while readable && !ended && waiting.len() < MOST {
            match stream.read(&mut room) {
                Ok(0) => ended = true,
                Ok(n) => {
                    waiting.extend_from_slice(&room[..n]);
                    readable = stream.has_more(room.len(), n);
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => readable = false,
                Err(error) => panic!("{error}"),
            }
            held = held.max(stream.held());
        }
        while writable && !waiting.is_empty() {
            let (one, two) = waiting.split_at(waiting.len() / 2);
            match ByteStream::write_vectored(&mut stream, &[IoSlice::new(one), IoSlice::new(two)]) {
                Ok(n) => drop(waiting.drain(..n)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => writable = false,
                Err(_) if ended => return held,
                Err(error) => panic!("{error}"),
            }
        }
        if stream.unsent() > 0 && ByteStream::flush(&mut stream).is_err() {
            writable = false;
        }
        if ended && waiting.is_empty() {
            return held;
        }
        if readable && waiting.len() < MOST || writable && !waiting.is_empty() {
            continue;
        }
        poll.poll(&mut events, Some(Duration::from_secs(20))).unwrap();
        assert!(!events.is_empty(), "nothing happens any more");
        for event in &events {
            readable |= event.is_readable() || stream.is_entangled();
            writable |= event.is_writable() || stream.is_entangled();
        }
    }
}

/// More bytes than the socket, the layer's window and the peer's memory take together go there and
/// back at once.
#[test]
fn bytes_come_back_as_they_went() {
    let (mut here, there) = ends(&Toys);
    let closer = here.socket().closer().unwrap();
    let echoing = std::thread::spawn(move || echo(there));
    let all = bytes(8 << 20);
    let mut back = Vec::new();
    let mut room = vec![0; 10_000];
    for part in all.chunks(200_000) {
        here.write_all(part).unwrap();
        Write::flush(&mut here).unwrap();
        assert_eq!(here.unsent(), 0);
        while back.len() + 300_000 < part.as_ptr() as usize - all.as_ptr() as usize + part.len() {
            let n = here.read(&mut room).unwrap();
            back.extend_from_slice(&room[..n]);
        }
    }
    while back.len() < all.len() {
        let n = here.read(&mut room).unwrap();
        assert!(n > 0);
        back.extend_from_slice(&room[..n]);
    }
    assert!(back == all);
    closer.close();
    let held = echoing.join().unwrap();
    assert!(held > 0 && held < 1 << 20, "{held}");
}

/// The first bytes of a host wait in the layer: the one read that an event announces leaves others
/// that no event will announce.
#[test]
fn bytes_that_no_event_announces_are_told() {
    let (mut here, mut there) = ends(&Toys);
    // What each end says first.
    assert_eq!(there.read(&mut [0; 8]).unwrap_err().kind(), ErrorKind::WouldBlock);
    here.write_all(&bytes(2000)).unwrap();
    Write::flush(&mut here).unwrap();
    std::thread::sleep(Duration::from_millis(50));
    let mut room = [0; 500];
    for part in 0..4 {
        assert_eq!(there.read(&mut room).unwrap(), 500);
        assert_eq!(room, bytes(2000)[part * 500..][..500]);
        assert!(there.has_more(500, 500), "the socket is looked at again");
        assert_eq!(there.held() > 0, part < 3);
    }
    assert_eq!(there.read(&mut room).unwrap_err().kind(), ErrorKind::WouldBlock);
    assert!(!there.has_more(500, 0), "an event comes before the next byte");
}

/// A peer that reads nothing: the layer takes a bounded number of bytes, and says what it holds.
#[test]
fn a_layer_takes_no_more_than_it_may_hold() {
    let (mut here, mut there) = ends(&Toys);
    // The key of that end.
    assert_eq!(there.read(&mut [0; 8]).unwrap_err().kind(), ErrorKind::WouldBlock);
    here.write_all(b"hello").unwrap();
    std::thread::sleep(Duration::from_millis(50));
    there.read(&mut [0; 5]).unwrap();
    let (mut taken, block) = (0, bytes(100_000));
    let error = loop {
        match ByteStream::write_vectored(&mut there, &[IoSlice::new(&block)]) {
            Ok(n) => taken += n,
            Err(error) => break error,
        }
        assert!(taken < 64 << 20, "it takes everything");
        assert!(there.unsent() <= there.held() && there.held() < 100_000, "{}", there.held());
    };
    assert_eq!(error.kind(), ErrorKind::WouldBlock);
}
