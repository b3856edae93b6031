//! The server's end of the sockets of passes: one line each way, a status for
//! everybody who can connect, orders for few. `docs/reference/control.md` has the bounds.

use crate::api::{Code, Fault, REQUEST_BYTES, encode_line};
use crate::lines::{read_line, write_within};
use crate::socket::{SocketPlace, remove_left};
use nix::sys::socket::{getsockopt, sockopt};
use serde::Serialize;
use std::fs::{self, DirBuilder, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt, chown};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// Clients that are served at a time, of each of the two kinds: those that may order, and others.
const CLIENTS: usize = 16;
/// Time for a request to arrive, and for an answer to be taken.
pub(crate) const PATIENCE: Duration = Duration::from_secs(2);
/// Pause before the next connection is taken, if one could not be.
const PAUSE: Duration = Duration::from_millis(100);
/// The group that may ask for states.
const GROUP: &str = "pumice";

/// The user of this process.
pub(crate) fn own_user() -> u32 {
    fs::metadata("/proc/self").map_or(u32::MAX, |found| found.uid())
}

/// The number of the group that may ask for states.
fn group() -> Option<u32> {
    let text = fs::read_to_string("/etc/group").ok()?;
    let mut groups = text.lines().filter_map(|line| {
        let mut fields = line.split(':');
        (fields.next() == Some(GROUP)).then(|| fields.nth(1)?.parse().ok())?
    });
    groups.next()
}

/// A client of a socket.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Peer {
    /// True if it may give orders.
    pub(crate) may_order: bool,
}

impl Peer {
    /// Refuses an order of a client that may give none.
    pub(crate) fn check(self) -> Result<(), Fault> {
        let text = "orders need user 0, or the user of the process";
        if self.may_order { Ok(()) } else { Err(Fault::new(Code::NotAllowed, text)) }
    }
}

/// An error as a line.
#[derive(Serialize)]
struct Refusal {
    error: Fault,
}

/// The line of an error.
pub(crate) fn refusal(error: Fault) -> Vec<u8> {
    encode_line(&Refusal { error })
}

/// A socket. It is removed when this is dropped.
pub(crate) struct Listener {
    place: SocketPlace,
    listener: UnixListener,
}

impl Listener {
    /// Creates a socket; one left by a dead process is replaced. `None` if a process answers there.
    pub(crate) fn open(path: &Path) -> io::Result<Option<Self>> {
        if let Some(folder) = path.parent() {
            DirBuilder::new().recursive(true).mode(0o755).create(folder)?;
        }
        match UnixStream::connect(path) {
            Ok(_) => return Ok(None),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => remove_left(path, &error)?,
        }
        let listener = UnixListener::bind(path)?;
        // Without the group, its own user asks.
        let shared = group().is_some_and(|group| chown(path, None, Some(group)).is_ok());
        fs::set_permissions(path, Permissions::from_mode(if shared { 0o660 } else { 0o600 }))?;
        Ok(Some(Self { place: SocketPlace::of(path.to_owned())?, listener }))
    }

    /// Another handle, by which the socket can be removed.
    pub(crate) fn place(&self) -> SocketPlace {
        self.place.clone()
    }

    /// Answers clients, each on a thread of its own, for as long as the process lives.
    pub(crate) fn serve(&self, answer: impl Fn(&[u8], Peer) -> Vec<u8> + Send + Sync + 'static) {
        let (answer, own) = (Arc::new(answer), own_user());
        let places = [Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0))];
        for stream in self.listener.incoming() {
            let Ok(stream) = stream else {
                std::thread::sleep(PAUSE);
                continue;
            };
            let user = getsockopt(&stream, sockopt::PeerCredentials).map(|peer| peer.uid());
            let may_order = user.is_ok_and(|user| user == 0 || user == own);
            // Others never take the places of those who may order.
            let places = &places[usize::from(may_order)];
            if places.load(Ordering::Relaxed) >= CLIENTS {
                // A socket that is new has room for a line: this waits for nobody.
                let _ = stream.set_nonblocking(true);
                let busy = Fault::new(Code::Busy, format!("{CLIENTS} clients are there; ask again"));
                let _ = io::Write::write(&mut &stream, &refusal(busy));
                continue;
            }
            places.fetch_add(1, Ordering::Relaxed);
            let place = Place(Arc::clone(places));
            let answer = Arc::clone(&answer);
            let client = std::thread::Builder::new().name("client".to_owned()).spawn(move || {
                let _place = place;
                let Ok(line) = read_line(&stream, REQUEST_BYTES, PATIENCE) else { return };
                // A client that does not read gets no answer.
                let _ = write_within(&stream, &answer(&line, Peer { may_order }), PATIENCE);
            });
            // Without a thread the client is told by the end of its connection.
            drop(client);
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.place.remove();
    }
}

/// The place of a client.
struct Place(Arc<AtomicUsize>);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Asks a socket, and returns the line of its answer.
///
/// # Errors
/// If nobody listens, or no answer comes within `patience`.
pub(crate) fn ask(path: &Path, request: &[u8], most: u64, patience: Duration) -> io::Result<Vec<u8>> {
    let stream = UnixStream::connect(path)?;
    // A socket that is full of clients closes without having read.
    let sent = write_within(&stream, request, PATIENCE);
    let line = read_line(&stream, most, patience)?;
    if line.is_empty() { sent.and(Err(io::ErrorKind::UnexpectedEof.into())) } else { Ok(line) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::time::Instant;

    #[test]
    fn a_place_is_free_again_and_a_client_past_the_last_is_told_so() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("deep/socket.sock");
        let listener = Listener::open(&path).unwrap().unwrap();
        assert!(Listener::open(&path).unwrap().is_none(), "a process answers there");
        std::thread::spawn(move || listener.serve(|line, peer| [&[u8::from(peer.may_order)], line].concat()));
        let hanging: Vec<UnixStream> = (0..CLIENTS).map(|_| UnixStream::connect(&path).unwrap()).collect();
        let mut told = Vec::new();
        let mut one_more = UnixStream::connect(&path).unwrap();
        one_more.read_to_end(&mut told).unwrap();
        assert!(String::from_utf8(told).unwrap().contains("\"busy\""));
        let asked = Instant::now();
        let mut answered = Err(io::ErrorKind::Other.into());
        while asked.elapsed() < 3 * PATIENCE {
            answered = ask(&path, b"x\n", 100, PATIENCE);
            if answered.as_ref().is_ok_and(|line| line.ends_with(b"x\n")) {
                break;
            }
            std::thread::sleep(PAUSE);
        }
        assert_eq!(answered.unwrap(), b"\x01x\n", "clients that say nothing lose their places after 2 s");
        assert!(asked.elapsed() > PATIENCE / 2, "{:?}: they had their time", asked.elapsed());
        drop(hanging);
    }
}
