//! The server's end of control sockets: `docs/reference/control.md`.

use crate::api::{Answer, CLIENTS, LINE_TIME, REQUEST_BYTES, Refused, Request};
use crate::failure::Failure;
use crate::folder::path_of;
use crate::lines::{Reply, read_line};
use std::fs::{self, DirBuilder, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

/// Place of a socket, and the file that it is there.
#[derive(Clone)]
pub(crate) struct SocketPlace {
    path: PathBuf,
    device_and_inode: (u64, u64),
}

impl SocketPlace {
    /// The file that is there now.
    pub(crate) fn of(path: PathBuf) -> io::Result<Self> {
        let found = fs::symlink_metadata(&path)?;
        Ok(Self { path, device_and_inode: (found.dev(), found.ino()) })
    }

    /// Removes it, unless another file is in its place by now.
    pub(crate) fn remove(&self) {
        let here = fs::symlink_metadata(&self.path);
        if here.is_ok_and(|found| (found.dev(), found.ino()) == self.device_and_inode) {
            // One that stays is replaced by the next process that serves the volume.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Removes the socket of a dead process. `error` is the outcome of connecting to it.
///
/// # Errors
/// If it is no socket, or may have a process that listens.
pub(crate) fn remove_left(path: &Path, error: &io::Error) -> io::Result<()> {
    if !fs::symlink_metadata(path)?.file_type().is_socket() {
        return Err(io::Error::other("it is no socket: move it away, or give another --run-dir"));
    }
    if error.kind() != io::ErrorKind::ConnectionRefused {
        return Err(io::Error::new(error.kind(), error.to_string()));
    }
    fs::remove_file(path)
}

/// A socket that answers. It is removed when this is dropped.
pub(crate) struct Socket {
    place: SocketPlace,
    listener: UnixListener,
}

impl Socket {
    /// Makes the folder of the sockets, and tries whether one can be made there.
    pub(crate) fn check(folder: &Path) -> Result<(), Failure> {
        let wrong = |error: io::Error| Failure::new(format!("{}: {error}", folder.display()));
        DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(wrong)?;
        let path = folder.join(format!(".{}", std::process::id()));
        UnixListener::bind(&path).map_err(wrong)?;
        fs::remove_file(&path).map_err(wrong)
    }

    /// Creates the socket of a volume. A socket left by a dead process is replaced.
    pub(crate) fn make(folder: &Path, uuid: &str) -> Result<Self, Failure> {
        let path = path_of(folder, uuid);
        let wrong = |error: io::Error| Failure::new(format!("{}: {error}", path.display()));
        DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(wrong)?;
        match UnixStream::connect(&path) {
            Ok(_) => {
                let what = format!("{}: another process serves this volume", path.display());
                return Err(Failure::new(what));
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => remove_left(&path, &error).map_err(wrong)?,
        }
        let listener = UnixListener::bind(&path).map_err(wrong)?;
        fs::set_permissions(&path, Permissions::from_mode(0o600)).map_err(wrong)?;
        let place = SocketPlace::of(path.clone()).map_err(wrong)?;
        Ok(Self { place, listener })
    }

    /// Its place.
    pub(crate) const fn place(&self) -> &SocketPlace {
        &self.place
    }

    /// Answers the requests of clients, each on a thread of its own, [`CLIENTS`] of them at a time,
    /// for as long as the process lives. `answer` returns `None` if it has taken the connection
    /// over; the value that comes with the answer is dropped once the answer is sent.
    pub(crate) fn serve<T: 'static>(
        &self,
        answer: impl Fn(Request, &Reply) -> Option<(Answer, T)> + Send + Sync + 'static,
    ) {
        let (answer, places) = (Arc::new(answer), Arc::new(Places::default()));
        for stream in self.listener.incoming() {
            let Ok(stream) = stream else {
                // No descriptors are left. Those who have some give them back in a while.
                std::thread::sleep(PAUSE);
                continue;
            };
            let (place, answer) = (Places::take(&places), Arc::clone(&answer));
            let client = std::thread::Builder::new().name("client".to_owned()).spawn(move || {
                let _place = place;
                // A client that sends no request, or does not read, gets no answer.
                let _ = one(stream, &*answer);
            });
            // Without a thread the client is told by the end of its connection.
            drop(client);
        }
    }
}

/// Pause before the next connection is taken, if one could not be.
const PAUSE: Duration = Duration::from_millis(100);

/// Clients that are served.
#[derive(Default)]
struct Places {
    taken: Mutex<usize>,
    freed: Condvar,
}

/// The place of a client.
struct PlaceOf(Arc<Places>);

impl Places {
    /// Takes one of [`CLIENTS`] places; waits if there is none: a client that sends no request
    /// leaves its place after [`LINE_TIME`].
    fn take(places: &Arc<Self>) -> PlaceOf {
        let taken = places.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let full = |taken: &mut usize| *taken >= CLIENTS;
        let mut taken = places.freed.wait_while(taken, full).unwrap_or_else(PoisonError::into_inner);
        *taken += 1;
        PlaceOf(Arc::clone(places))
    }
}

impl Drop for PlaceOf {
    fn drop(&mut self) {
        *self.0.taken.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
        self.0.freed.notify_one();
    }
}

/// Answers one client.
fn one<T>(stream: UnixStream, answer: &impl Fn(Request, &Reply) -> Option<(Answer, T)>) -> io::Result<()> {
    let line = read_line(&stream, REQUEST_BYTES, LINE_TIME)?;
    match Request::decode(&line) {
        Err(Refused { version, fault }) => Reply { stream, version }.send(&Answer::Error(fault)),
        Ok((version, request)) => {
            let reply = Reply { stream, version };
            let Some((said, _until_sent)) = answer(request, &reply) else { return Ok(()) };
            reply.send(&said)
        }
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        self.place.remove();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::{Code, Fault, Version, decode};
    use proptest::prelude::*;
    use std::io::{Read, Write};
    use std::net::Shutdown;

    /// A server that answers every request with its name; the path of its socket.
    fn echo(folder: &Path) -> PathBuf {
        let socket = Socket::make(folder, "0123").unwrap();
        let path = socket.place().path.clone();
        std::thread::spawn(move || {
            socket.serve(|request, _| Some((Answer::Note(format!("{request:?}")), ())));
        });
        path
    }

    /// The answer to bytes, after which the client's side is closed.
    fn said(path: &Path, bytes: &[u8]) -> Vec<u8> {
        let mut stream = UnixStream::connect(path).unwrap();
        // The server may have answered, and gone, before all is sent.
        let _ = stream.write_all(bytes);
        let _ = stream.shutdown(Shutdown::Write);
        let mut out = Vec::new();
        let _ = stream.read_to_end(&mut out);
        out
    }

    #[test]
    fn no_client_waits_for_those_that_send_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = echo(folder.path());
        let begun = |_| {
            let mut stream = UnixStream::connect(&path).unwrap();
            stream.write_all(b"{").unwrap();
            stream.set_nonblocking(true).unwrap();
            stream
        };
        let silent: Vec<UnixStream> = (1..CLIENTS).map(begun).collect();
        assert_eq!(said(&path, b"{\"ask\":\"status\"}\n"), b"{\"note\":\"Status\"}\n");
        let still = |stream: &UnixStream| {
            let mut stream = stream;
            stream.read(&mut [0]).is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock)
        };
        assert!(silent.iter().all(still), "they have their time");
    }

    #[test]
    fn a_request_that_is_too_long_is_told_so() {
        let folder = tempfile::tempdir().unwrap();
        let path = echo(folder.path());
        let line = |bytes: usize| {
            let begin = b"{\"ask\":\"fail\",\"version\":2,\"member\":\"";
            let mut line = begin.to_vec();
            line.resize(bytes - 3, b'x');
            line.extend(b"\"}\n");
            line
        };
        let most = REQUEST_BYTES as usize;
        let answer = decode(&said(&path, &line(most))).unwrap();
        assert!(matches!(answer, (Version::V2, Answer::Note(_))), "{answer:?}");
        // Nobody has read its version.
        let text = "the request has more than 65536 bytes".to_owned();
        let expected = (Version::V1, Answer::Error(Fault { code: None, text }));
        assert_eq!(decode(&said(&path, &line(most + 1))).unwrap(), expected);
        assert_eq!(Request::decode(&line(most + 1)).unwrap_err().fault.code, Some(Code::TooLong));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// Any bytes are answered with a line, and so is the next client.
        #[test]
        fn a_socket_outlives_any_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..2000)) {
            let folder = tempfile::tempdir().unwrap();
            let path = echo(folder.path());
            prop_assert!(decode(&said(&path, &bytes)).is_ok());
            prop_assert_eq!(said(&path, b"{\"ask\":\"stop\"}"), b"{\"note\":\"Stop\"}\n".to_vec());
        }
    }
}
