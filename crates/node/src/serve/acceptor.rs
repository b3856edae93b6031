//! Accepts connections, up to a bound, and assigns them to the cores in turn.

use super::handle::CoreHandle;
use super::newcomers::{Arrival, Entry};
use super::shared::Shared;
use mio::net::TcpListener;
use mio::{Interest, Registry, Token};
use pumice_blockdev::ask_silent_peer;
use pumice_remote::transport::{Socket, prepare};
use std::io::{self, ErrorKind};
use std::net::SocketAddr;

/// Connections that are accepted at a time of each address, so that a burst of them does not hold
/// up those that stand.
const ACCEPTS: usize = 32;

/// The listeners, and the cores that connections are dealt to.
#[derive(Default)]
pub(super) struct Acceptor {
    listeners: Vec<TcpListener>,
    cores: Vec<CoreHandle>,
    /// Connections that have come so far: the number of the next.
    came: usize,
    /// More connections may wait to be accepted.
    waiting: bool,
}

impl Acceptor {
    /// Listens; the first listener has token `first`, and so on.
    pub(super) fn new(
        mut listeners: Vec<TcpListener>,
        cores: Vec<CoreHandle>,
        registry: &Registry,
        first: usize,
    ) -> io::Result<Self> {
        for (i, listener) in listeners.iter_mut().enumerate() {
            registry.register(listener, Token(first + i), Interest::READABLE)?;
        }
        Ok(Self { listeners, cores, came: 0, waiting: false })
    }

    /// Returns whether connections may wait.
    pub(super) fn is_wanted(&self) -> bool {
        self.waiting
    }

    /// Connections may wait: a listener says so, or those that had to wait for a descriptor, which
    /// have no event of their own, are to be looked for again.
    pub(super) fn look_again(&mut self) {
        self.waiting = !self.listeners.is_empty();
    }

    /// Listens no more.
    pub(super) fn stop(&mut self) {
        self.listeners.clear();
        self.waiting = false;
    }

    /// Accepts some of the connections that wait, of each listener as many; the others' turn comes
    /// after those that stand already.
    pub(super) fn accept(&mut self, shared: &Shared) {
        if !std::mem::take(&mut self.waiting) {
            return;
        }
        let Self { listeners, cores, came, waiting } = self;
        for listener in &*listeners {
            *waiting |= accept_some(
                || {
                    // The next tick looks again.
                    let later = shared.newcomers().are_going();
                    if later { Err(ErrorKind::WouldBlock.into()) } else { listener.accept() }
                },
                |stream, peer| {
                    let arrival = Arrival { number: *came, core: *came % cores.len() };
                    let Entry { admitted, leave } =
                        shared.newcomers().arrive(arrival, peer.ip().to_canonical());
                    for Arrival { number, core } in leave {
                        shared.metrics().gave_way.add(1);
                        cores[core].dismiss(number);
                    }
                    if !admitted {
                        // Dropped: the peer sees the connection closed.
                        shared.metrics().no_room.add(1);
                        shared.log().no_room(peer, shared.limits().connections);
                        return;
                    }
                    shared.metrics().accepted.add(1);
                    *came += 1;
                    let socket = Socket::from(stream);
                    // A peer that is gone already shows when it is read.
                    let _ = prepare(&socket, peer).and_then(|()| ask_silent_peer(&socket));
                    match shared.transport().accepted(socket) {
                        Ok(stream) => cores[arrival.core].give(arrival.number, stream),
                        // Dropped: the peer sees the connection closed.
                        Err(_) => shared.newcomers().leave(arrival.number),
                    }
                },
            );
        }
    }
}

/// Accepts at most [`ACCEPTS`] connections, and says whether more may wait.
fn accept_some<S>(
    mut accept: impl FnMut() -> io::Result<(S, SocketAddr)>,
    mut take: impl FnMut(S, SocketAddr),
) -> bool {
    for _ in 0..ACCEPTS {
        match accept() {
            Ok((stream, peer)) => take(stream, peer),
            // A peer that went away: the next is tried.
            Err(error) if error.kind() == ErrorKind::ConnectionAborted => {}
            // None waits; or there are no descriptors, and the next tick tries again.
            Err(_) => return false,
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{Ipv4Addr, TcpListener, TcpStream};

    #[test]
    fn of_a_burst_of_connections_32_come_in_at_a_time() -> io::Result<()> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let _peers = (0..70).map(|_| TcpStream::connect(address)).collect::<io::Result<Vec<_>>>()?;
        let mut rounds = Vec::new();
        loop {
            let mut came = 0;
            let more = accept_some(|| listener.accept(), |_, _| came += 1);
            rounds.push(came);
            if !more {
                break;
            }
        }
        assert_eq!(rounds, [32, 32, 6]);
        Ok(())
    }

    /// A connection that its peer has given up counts like any other: none of them is for nothing.
    #[test]
    fn connections_that_were_given_up_are_passed_over() {
        let peer = SocketAddr::from((Ipv4Addr::LOCALHOST, 1));
        let (mut asked, mut came) = (0, 0);
        let accept = || {
            asked += 1;
            if asked % 2 == 0 { Ok(((), peer)) } else { Err(ErrorKind::ConnectionAborted.into()) }
        };
        assert!(accept_some(accept, |(), _| came += 1));
        assert_eq!((asked, came), (ACCEPTS, ACCEPTS / 2));
    }
}
