//! The trait of byte streams, and the stream that both ends hold.

use crate::transport::socket::Socket;
use mio::unix::SourceFd;
use mio::{Interest, Registry, Token};
use std::io::{self, IoSlice, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

/// The events of a socket for which streams are registered: a layer may need either at any time.
pub const INTEREST: Interest = Interest::READABLE.add(Interest::WRITABLE);

/// A stream of bytes over a socket: the socket itself, or a layer over it that gives bytes another
/// form, as TLS does.
///
/// A layer needs more than a socket does, and its callers keep to these rules:
///
/// * **Bytes may be there without an event.** A layer reads whole records, so it may hold bytes
///   that no event of the socket announces any more. After a read, [`has_more`](Self::has_more)
///   says whether the next one may bring bytes at once; a caller that stops before a read ends
///   with `WouldBlock` comes back by itself.
/// * **A read may have to write, and a write to read**: a handshake, new keys, an acknowledgement.
///   If [`is_entangled`](Self::is_entangled), every event of the socket, whichever direction it is
///   of, is a reason to try both again.
/// * **Written is not sent.** A layer copies what it takes. Bytes that the socket did not take yet
///   are [`unsent`](Self::unsent): the caller calls [`flush`](Self::flush) when the socket can be
///   written, and does not close before they are gone. A layer takes no more (`WouldBlock`) while
///   it has as many as it may have, so a peer that does not read is seen as over a socket.
/// * **It holds memory.** [`held`](Self::held) is what a caller counts for its host, beside its own
///   buffers. It has a bound, which the layer documents.
/// * **It may say goodbye.** [`close`](Self::close) sends what the layer sends last, if that can be
///   done at once, and ends the connection. A [`Closer`](crate::transport::Closer) of the socket
///   ends it without a word.
///
/// Where the socket blocks, so do calls of a layer: a read returns at least one byte, the end (0)
/// or an error, and a deadline of the socket ends it with `WouldBlock` or `TimedOut`.
pub trait ByteStream: std::fmt::Debug + Send + Sync {
    /// The socket below: its addresses, deadlines and end are those of the stream.
    fn socket(&self) -> &Socket;

    /// Reads bytes, 0 at the end.
    ///
    /// # Errors
    /// `WouldBlock` if none are there now; those of the socket; `InvalidData` if the peer violates
    /// the layer's protocol.
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize>;

    /// Reads bytes, and returns how long the last of them had waited in the machine if that is
    /// `wanted` and known; else zero.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    fn read_stamped(&mut self, into: &mut [u8], _wanted: bool) -> io::Result<(usize, Duration)> {
        Ok((self.read(into)?, Duration::ZERO))
    }

    /// Writes some of the bytes of several pieces, the first ones first, and returns how many.
    ///
    /// # Errors
    /// `WouldBlock` if none can be taken now; as [`read`](Self::read).
    fn write_vectored(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<usize>;

    /// Hands the socket what is [`unsent`](Self::unsent).
    ///
    /// # Errors
    /// `WouldBlock` if some is left; those of the socket.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }

    /// Returns whether a read after one that brought `read` bytes, with room for `room`, may bring
    /// more without an event of the socket in between.
    fn has_more(&self, room: usize, read: usize) -> bool;

    /// Returns whether a read may have to wait until the socket can be written, or a write until it
    /// can be read.
    fn is_entangled(&self) -> bool {
        false
    }

    /// Bytes that were taken by writes, or made by the layer, and that the socket has not taken.
    fn unsent(&self) -> usize {
        0
    }

    /// Bytes of memory that the layer has for data, both ways.
    fn held(&self) -> usize {
        0
    }

    /// Ends the connection.
    ///
    /// # Errors
    /// If it has ended already.
    fn close(&mut self) -> io::Result<()> {
        self.socket().shutdown()
    }
}

impl ByteStream for Socket {
    fn socket(&self) -> &Socket {
        self
    }

    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.tcp().read(into)
    }

    fn read_stamped(&mut self, into: &mut [u8], wanted: bool) -> io::Result<(usize, Duration)> {
        Socket::read_stamped(self, into, wanted)
    }

    fn write_vectored(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        match pieces {
            [one] => self.tcp().write(one),
            pieces => self.tcp().write_vectored(pieces),
        }
    }

    /// A short read has emptied the socket: what comes later has an event.
    fn has_more(&self, room: usize, read: usize) -> bool {
        read == room
    }
}

/// The stream of a connection. Which one it is costs a branch; only layers are called through a
/// table.
#[derive(Debug)]
pub enum Stream {
    /// The socket itself.
    Tcp(Socket),
    /// A layer over it.
    Layered(Box<dyn ByteStream>),
}

macro_rules! either {
    ($self:ident, $stream:ident => $call:expr) => {
        match $self {
            Self::Tcp($stream) => $call,
            Self::Layered($stream) => $call,
        }
    };
}

impl ByteStream for Stream {
    #[inline]
    fn socket(&self) -> &Socket {
        either!(self, stream => stream.socket())
    }

    #[inline]
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        either!(self, stream => stream.read(into))
    }

    #[inline]
    fn read_stamped(&mut self, into: &mut [u8], wanted: bool) -> io::Result<(usize, Duration)> {
        either!(self, stream => stream.read_stamped(into, wanted))
    }

    #[inline]
    fn write_vectored(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        either!(self, stream => stream.write_vectored(pieces))
    }

    #[inline]
    fn flush(&mut self) -> io::Result<()> {
        either!(self, stream => stream.flush())
    }

    #[inline]
    fn has_more(&self, room: usize, read: usize) -> bool {
        either!(self, stream => stream.has_more(room, read))
    }

    #[inline]
    fn is_entangled(&self) -> bool {
        either!(self, stream => stream.is_entangled())
    }

    #[inline]
    fn unsent(&self) -> usize {
        either!(self, stream => stream.unsent())
    }

    #[inline]
    fn held(&self) -> usize {
        either!(self, stream => stream.held())
    }

    fn close(&mut self) -> io::Result<()> {
        either!(self, stream => stream.close())
    }
}

impl Write for Stream {
    #[inline]
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        ByteStream::write_vectored(self, &[IoSlice::new(bytes)])
    }

    #[inline]
    fn write_vectored(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        ByteStream::write_vectored(self, pieces)
    }

    #[inline]
    fn flush(&mut self) -> io::Result<()> {
        ByteStream::flush(self)
    }
}

/// The events are those of the socket; [`ByteStream`] says what they mean for a layer.
impl mio::event::Source for Stream {
    fn register(&mut self, registry: &Registry, token: Token, interests: Interest) -> io::Result<()> {
        SourceFd(&self.socket().as_fd().as_raw_fd()).register(registry, token, interests)
    }

    fn reregister(&mut self, registry: &Registry, token: Token, interests: Interest) -> io::Result<()> {
        SourceFd(&self.socket().as_fd().as_raw_fd()).reregister(registry, token, interests)
    }

    fn deregister(&mut self, registry: &Registry) -> io::Result<()> {
        SourceFd(&self.socket().as_fd().as_raw_fd()).deregister(registry)
    }
}

impl From<Socket> for Stream {
    fn from(socket: Socket) -> Self {
        Self::Tcp(socket)
    }
}

impl From<TcpStream> for Stream {
    fn from(tcp: TcpStream) -> Self {
        Self::Tcp(tcp.into())
    }
}

/// Makes the streams of connections: one for all that an end has.
pub trait Transport: std::fmt::Debug + Send + Sync {
    /// The stream of a connection that this end has made. The socket blocks, and its deadlines are
    /// set.
    ///
    /// # Errors
    /// If the layer cannot begin.
    fn connected(&self, socket: Socket) -> io::Result<Stream>;

    /// The stream of a connection that this end has accepted. The socket does not block, and
    /// nothing may wait here: what a layer has to exchange first belongs to its first reads and
    /// writes.
    ///
    /// # Errors
    /// If the layer cannot begin.
    fn accepted(&self, socket: Socket) -> io::Result<Stream>;
}

/// TCP without a layer.
#[derive(Debug, Clone, Copy, Default)]
pub struct Plain;

impl Transport for Plain {
    fn connected(&self, socket: Socket) -> io::Result<Stream> {
        Ok(socket.into())
    }

    fn accepted(&self, socket: Socket) -> io::Result<Stream> {
        Ok(socket.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{Ipv4Addr, TcpListener};

    fn pair() -> io::Result<(TcpStream, Socket)> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let sender = TcpStream::connect(listener.local_addr()?)?;
        Ok((sender, listener.accept()?.0.into()))
    }

    #[test]
    fn bytes_that_waited_in_the_socket_say_how_long() -> io::Result<()> {
        let (mut sender, mut receiver) = pair()?;
        let mut buffer = [0; 16];
        // Bytes that were received before stamps were asked for have none.
        sender.write_all(b"first")?;
        assert_eq!(receiver.read_stamped(&mut buffer, false)?, (5, Duration::ZERO));
        sender.write_all(b"second")?;
        receiver.read_stamped(&mut buffer, true)?;
        // The system begins to stamp a moment after it was asked to.
        let mut stamped = Duration::ZERO;
        for _ in 0..50 {
            sender.write_all(b"third")?;
            std::thread::sleep(Duration::from_millis(20));
            let (read, waited) = receiver.read_stamped(&mut buffer, true)?;
            assert_eq!(&buffer[..read], b"third");
            stamped = waited;
            if !waited.is_zero() {
                break;
            }
        }
        assert!(stamped >= Duration::from_millis(20), "{stamped:?}");
        drop(sender);
        assert_eq!(receiver.read_stamped(&mut buffer, true)?.0, 0, "the end is seen as without stamps");
        Ok(())
    }

    #[test]
    fn pieces_are_written_and_read_in_order() -> io::Result<()> {
        let (sender, mut receiver) = pair()?;
        let mut sender = Socket::from(sender);
        let pieces = [IoSlice::new(b"one"), IoSlice::new(b""), IoSlice::new(b"two")];
        assert_eq!(sender.write_vectored(&pieces)?, 6);
        let mut all = [0; 11];
        let read = receiver.read(&mut all)?;
        assert_eq!((read, &all[..6]), (6, &b"onetwo"[..]));
        Ok(())
    }

    #[test]
    fn a_closer_ends_a_read_of_another_thread() -> io::Result<()> {
        let (_sender, mut receiver) = pair()?;
        let closer = receiver.closer()?;
        let reading = std::thread::spawn(move || receiver.read(&mut [0; 4]));
        std::thread::sleep(Duration::from_millis(20));
        closer.close();
        assert_eq!(reading.join().expect("it does not panic")?, 0);
        Ok(())
    }

    #[test]
    fn a_deadline_ends_a_read() -> io::Result<()> {
        let (_sender, mut receiver) = pair()?;
        receiver.set_deadlines(Duration::from_millis(10), Duration::from_secs(1))?;
        let error = receiver.read(&mut [0; 4]).expect_err("nothing comes");
        assert!(matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut));
        Ok(())
    }
}
