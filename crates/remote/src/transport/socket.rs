//! A TCP socket: the stream that has no layer over it, and what every other one lies on.

use nix::sys::socket::{ControlMessageOwned, MsgFlags, recvmsg, setsockopt, sockopt};
use nix::sys::time::TimeSpec;
use std::io::{self, IoSliceMut, Read};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::time::{Duration, SystemTime};

/// The kernel's stamps are of the wall clock: what seems to have waited longer than this was
/// stamped before the clock was set.
const LONGEST: Duration = Duration::from_secs(1);

/// A connected TCP socket.
#[derive(Debug)]
pub struct Socket {
    tcp: TcpStream,
    /// The kernel stamps received bytes.
    stamped: bool,
    /// Room for a stamp.
    control: Vec<u8>,
}

impl Socket {
    /// Connects, within `patience`. The socket blocks.
    ///
    /// # Errors
    /// If the peer cannot be reached, does not answer in time, or the system has no descriptors.
    pub fn connect(address: &SocketAddr, patience: Duration) -> io::Result<Self> {
        TcpStream::connect_timeout(address, patience).map(Self::from)
    }

    /// The address of the peer.
    ///
    /// # Errors
    /// If the connection is gone.
    pub fn peer(&self) -> io::Result<SocketAddr> {
        self.tcp.peer_addr()
    }

    /// The address of this end.
    ///
    /// # Errors
    /// If the connection is gone.
    pub fn local(&self) -> io::Result<SocketAddr> {
        self.tcp.local_addr()
    }

    /// Sets whether calls return at once ([`WouldBlock`](io::ErrorKind::WouldBlock)) instead of
    /// waiting.
    ///
    /// # Errors
    /// If the socket refuses.
    pub fn set_nonblocking(&self, nonblocking: bool) -> io::Result<()> {
        self.tcp.set_nonblocking(nonblocking)
    }

    /// Sets how long a read, and a write, waits for the peer if calls wait; then they end with
    /// `WouldBlock` or `TimedOut`.
    ///
    /// # Errors
    /// If the socket refuses, or a deadline is zero.
    pub fn set_deadlines(&self, read: Duration, write: Duration) -> io::Result<()> {
        self.tcp.set_write_timeout(Some(write))?;
        self.tcp.set_read_timeout(Some(read))
    }

    /// Ends the connection, both ways.
    ///
    /// # Errors
    /// If it has ended already.
    pub fn shutdown(&self) -> io::Result<()> {
        self.tcp.shutdown(Shutdown::Both)
    }

    /// A handle that ends the connection from another thread.
    ///
    /// # Errors
    /// If the system has no more descriptors.
    pub fn closer(&self) -> io::Result<Closer> {
        self.tcp.try_clone().map(Closer)
    }

    /// The socket as the standard library has it.
    pub(crate) fn tcp(&mut self) -> &mut TcpStream {
        &mut self.tcp
    }

    /// Reads bytes, and returns how long the last of them had waited if that is `wanted`.
    pub(crate) fn read_stamped(&mut self, into: &mut [u8], wanted: bool) -> io::Result<(usize, Duration)> {
        if wanted != self.stamped {
            // Where the kernel has no stamps, nothing is seen to wait.
            let _ = setsockopt(&self.tcp, sockopt::ReceiveTimestampns, &wanted);
            self.stamped = wanted;
        }
        if wanted { self.read_with_stamp(into) } else { Ok((self.tcp.read(into)?, Duration::ZERO)) }
    }

    fn read_with_stamp(&mut self, into: &mut [u8]) -> io::Result<(usize, Duration)> {
        if self.control.is_empty() {
            self.control = nix::cmsg_space!(TimeSpec);
        }
        let mut parts = [IoSliceMut::new(into)];
        let fd = self.tcp.as_raw_fd();
        let message = recvmsg::<()>(fd, &mut parts, Some(&mut self.control), MsgFlags::empty())?;
        let stamp = message.cmsgs()?.find_map(|part| match part {
            ControlMessageOwned::ScmTimestampns(at) => Some(Duration::from(at)),
            _ => None,
        });
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let waited = stamp.and_then(|at| now.checked_sub(at)).filter(|waited| *waited < LONGEST);
        Ok((message.bytes, waited.unwrap_or_default()))
    }
}

impl From<TcpStream> for Socket {
    fn from(tcp: TcpStream) -> Self {
        Self { tcp, stamped: false, control: Vec::new() }
    }
}

impl From<mio::net::TcpStream> for Socket {
    fn from(tcp: mio::net::TcpStream) -> Self {
        TcpStream::from(tcp).into()
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.tcp.as_fd()
    }
}

/// Ends a connection from another thread, whatever lies over its socket.
#[derive(Debug)]
pub struct Closer(TcpStream);

impl Closer {
    /// Ends the connection: callers that wait on it get an error, or the end, at once.
    pub fn close(&self) {
        // It may have ended already.
        let _ = self.0.shutdown(Shutdown::Both);
    }
}
