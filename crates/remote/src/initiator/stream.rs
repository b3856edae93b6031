//! A socket that is polled for a while before its thread sleeps.

use crate::initiator::BusyPoll;
use crate::transport::{ByteStream, Closer, Stream};
use std::io::{self, ErrorKind, IoSlice, Read, Write};
use std::time::{Duration, Instant};

/// A blocking stream whose reads poll for as long as that has proved useful ([`BusyPoll`]), and
/// only then sleep.
#[derive(Debug)]
pub struct PollingStream {
    stream: Stream,
    poll: BusyPoll,
    /// The socket is such that a call returns at once, where it has nothing.
    looking: bool,
}

impl PollingStream {
    /// Takes a stream that blocks. Its read and write timeouts keep their meaning.
    #[must_use]
    pub fn new(stream: impl Into<Stream>, longest: Duration) -> Self {
        Self { stream: stream.into(), poll: BusyPoll::new(longest), looking: false }
    }

    /// Sets how long to poll; zero for never.
    ///
    /// # Errors
    /// If the socket refuses.
    pub fn set_busy_poll(&mut self, longest: Duration) -> io::Result<()> {
        self.look(false)?;
        self.poll = BusyPoll::new(longest);
        Ok(())
    }

    /// Ends the connection.
    pub(crate) fn close(&mut self) -> io::Result<()> {
        self.stream.close()
    }

    /// A handle that ends the connection from another thread.
    pub(crate) fn closer(&self) -> io::Result<Closer> {
        self.stream.socket().closer()
    }

    /// The stream itself, whose calls return at once from now on.
    pub(crate) fn into_looking(self) -> io::Result<Stream> {
        self.stream.socket().set_nonblocking(true)?;
        Ok(self.stream)
    }

    /// Sends something. The socket may be full: that is slept through.
    fn patiently<T>(&mut self, send: impl Fn(&mut Stream) -> io::Result<T>) -> io::Result<T> {
        loop {
            match send(&mut self.stream) {
                Err(error) if self.looking && error.kind() == ErrorKind::WouldBlock => self.look(false)?,
                done => return done,
            }
        }
    }

    fn look(&mut self, looking: bool) -> io::Result<()> {
        if self.looking != looking {
            self.stream.socket().set_nonblocking(looking)?;
            self.looking = looking;
        }
        Ok(())
    }
}

impl Read for PollingStream {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if !self.poll.is_on() {
            return self.stream.read(into);
        }
        let began = Instant::now();
        let longest = self.poll.look();
        self.look(!longest.is_zero())?;
        loop {
            match self.stream.read(into) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if self.looking && error.kind() == ErrorKind::WouldBlock => {
                    if began.elapsed() >= longest || !BusyPoll::has_the_core() {
                        self.look(false)?;
                    }
                }
                done => {
                    self.poll.waited(began.elapsed());
                    return done;
                }
            }
        }
    }
}

impl Write for PollingStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.patiently(|stream| ByteStream::write_vectored(stream, &[IoSlice::new(bytes)]))
    }

    /// Waits until the socket has taken everything that a layer made of what was written.
    fn flush(&mut self) -> io::Result<()> {
        match self.stream.unsent() {
            0 => Ok(()),
            _ => self.patiently(ByteStream::flush),
        }
    }
}
