//! A socket that is polled for a while before its thread sleeps.

use crate::BusyPoll;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

/// A blocking TCP stream whose reads poll for as long as that has proved useful ([`BusyPoll`]), and
/// only then sleep.
#[derive(Debug)]
pub struct PollingStream {
    stream: TcpStream,
    poll: BusyPoll,
    /// The socket is such that a call returns at once, where it has nothing.
    looking: bool,
}

impl PollingStream {
    /// Takes a stream that blocks. Its read and write timeouts keep their meaning.
    #[must_use]
    pub fn new(stream: TcpStream, longest: Duration) -> Self {
        Self { stream, poll: BusyPoll::new(longest), looking: false }
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
    pub(crate) fn shutdown(&self) -> io::Result<()> {
        self.stream.shutdown(Shutdown::Both)
    }

    /// The same connection once more.
    pub(crate) fn try_clone(&self) -> io::Result<TcpStream> {
        self.stream.try_clone()
    }

    /// The stream itself, whose calls return at once from now on.
    pub(crate) fn into_looking(self) -> io::Result<TcpStream> {
        self.stream.set_nonblocking(true)?;
        Ok(self.stream)
    }

    fn look(&mut self, looking: bool) -> io::Result<()> {
        if self.looking != looking {
            self.stream.set_nonblocking(looking)?;
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
        loop {
            match self.stream.write(bytes) {
                // The socket is full: that is slept through.
                Err(error) if self.looking && error.kind() == ErrorKind::WouldBlock => self.look(false)?,
                done => return done,
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
