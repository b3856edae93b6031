//! The time at which the machine received the bytes of a socket. A core that sleeps or is busy
//! reads them later, and the host waits during that time too.

use mio::net::TcpStream;
use nix::sys::socket::{ControlMessageOwned, MsgFlags, recvmsg, setsockopt, sockopt};
use nix::sys::time::TimeSpec;
use std::io::{self, IoSliceMut, Read};
use std::os::fd::AsRawFd;
use std::time::{Duration, SystemTime};

/// The kernel's stamps are of the wall clock: what seems to have waited longer than this was
/// stamped before the clock was set.
const LONGEST: Duration = Duration::from_secs(1);

/// Reads a socket, and tells how long the last of the bytes had been there, where that is asked
/// for.
#[derive(Debug, Default)]
pub(super) struct Arrival {
    /// The kernel stamps what this socket receives.
    stamped: bool,
    control: Vec<u8>,
}

impl Arrival {
    /// Reads what there is, as [`Read::read`] does, and returns how many bytes, and how long the
    /// last of them had waited: nothing unless `wanted`.
    ///
    /// # Errors
    /// Those of the socket.
    pub(super) fn read(
        &mut self,
        stream: &mut TcpStream,
        buffer: &mut [u8],
        wanted: bool,
    ) -> io::Result<(usize, Duration)> {
        if wanted != self.stamped {
            // Where the kernel has no stamps, nothing is seen to wait.
            let _ = setsockopt(stream, sockopt::ReceiveTimestampns, &wanted);
            self.stamped = wanted;
        }
        if !wanted {
            return stream.read(buffer).map(|read| (read, Duration::ZERO));
        }
        if self.control.is_empty() {
            self.control = nix::cmsg_space!(TimeSpec);
        }
        let mut parts = [IoSliceMut::new(buffer)];
        let message =
            recvmsg::<()>(stream.as_raw_fd(), &mut parts, Some(&mut self.control), MsgFlags::empty())?;
        let stamp = message.cmsgs()?.find_map(|part| match part {
            ControlMessageOwned::ScmTimestampns(at) => Some(Duration::from(at)),
            _ => None,
        });
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let waited = stamp.and_then(|at| now.checked_sub(at)).filter(|waited| *waited < LONGEST);
        Ok((message.bytes, waited.unwrap_or_default()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::net::{Ipv4Addr, TcpListener};

    #[test]
    fn what_has_waited_in_the_socket_is_told() -> io::Result<()> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let mut sender = std::net::TcpStream::connect(listener.local_addr()?)?;
        let mut receiver = TcpStream::from_std(listener.accept()?.0);
        let mut arrival = Arrival::default();
        let mut buffer = [0; 16];
        // What was received before stamps were asked for has none.
        sender.write_all(b"first")?;
        assert_eq!(arrival.read(&mut receiver, &mut buffer, false)?, (5, Duration::ZERO));
        sender.write_all(b"second")?;
        arrival.read(&mut receiver, &mut buffer, true)?;
        // The system begins to stamp a moment after it was asked to.
        let mut stamped = Duration::ZERO;
        for _ in 0..50 {
            sender.write_all(b"third")?;
            std::thread::sleep(Duration::from_millis(20));
            let (read, waited) = arrival.read(&mut receiver, &mut buffer, true)?;
            assert_eq!(&buffer[..read], b"third");
            stamped = waited;
            if !waited.is_zero() {
                break;
            }
        }
        assert!(stamped >= Duration::from_millis(20), "{stamped:?}");
        drop(sender);
        assert_eq!(arrival.read(&mut receiver, &mut buffer, true)?.0, 0, "the end is seen as without stamps");
        Ok(())
    }
}
