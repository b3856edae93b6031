//! Lines on a stream, with bounds of bytes and of time.

use crate::api::{Answer, LINE_TIME, Version, encode};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// A stream on which everything together has a deadline: a call beyond it fails with `WouldBlock`.
struct Timed<'s> {
    stream: &'s UnixStream,
    until: Instant,
}

impl<'s> Timed<'s> {
    fn new(stream: &'s UnixStream, patience: Duration) -> Self {
        Self { stream, until: Instant::now() + patience }
    }

    fn left(&self) -> io::Result<Duration> {
        let left = self.until.saturating_duration_since(Instant::now());
        if left.is_zero() { Err(io::ErrorKind::WouldBlock.into()) } else { Ok(left) }
    }
}

impl Read for Timed<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.stream.set_read_timeout(Some(self.left()?))?;
        self.stream.read(into)
    }
}

impl Write for Timed<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.set_write_timeout(Some(self.left()?))?;
        self.stream.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Reads one line within `patience`; of a longer one than `most` bytes, `most` + 1 bytes.
pub(crate) fn read_line(stream: &UnixStream, most: u64, patience: Duration) -> io::Result<Vec<u8>> {
    let mut line = Vec::new();
    BufReader::new(Timed::new(stream, patience).take(most + 1)).read_until(b'\n', &mut line)?;
    Ok(line)
}

/// Writes a line within [`LINE_TIME`].
pub(crate) fn write_line(stream: &UnixStream, line: &[u8]) -> io::Result<()> {
    write_within(stream, line, LINE_TIME)
}

/// Writes a line within `patience`.
pub(crate) fn write_within(stream: &UnixStream, line: &[u8], patience: Duration) -> io::Result<()> {
    Timed::new(stream, patience).write_all(line)
}

/// A connection on which answers are sent, in the version of its request.
pub(crate) struct Reply {
    /// The connection.
    pub(crate) stream: UnixStream,
    /// The version.
    pub(crate) version: Version,
}

impl Reply {
    /// Another handle of the same connection.
    pub(crate) fn try_clone(&self) -> io::Result<Self> {
        Ok(Self { stream: self.stream.try_clone()?, version: self.version })
    }

    /// Sends one line.
    pub(crate) fn send(&self, answer: &Answer) -> io::Result<()> {
        write_line(&self.stream, &encode(self.version, answer))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_that_sends_byte_by_byte_has_one_deadline() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let sending = std::thread::spawn(move || {
            while theirs.write_all(b"x").is_ok() {
                std::thread::sleep(Duration::from_millis(5));
            }
        });
        let ended = read_line(&ours, 1 << 16, Duration::from_millis(200));
        assert_eq!(ended.unwrap_err().kind(), io::ErrorKind::WouldBlock);
        drop(ours);
        sending.join().unwrap();
    }

    #[test]
    fn a_long_line_is_cut_off_one_byte_after_the_bound() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        theirs.write_all(b"12345678\n").unwrap();
        assert_eq!(read_line(&ours, 4, Duration::from_secs(5)).unwrap(), b"12345");
    }
}
