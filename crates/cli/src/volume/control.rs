//! The control socket of a process that serves a volume.
//!
//! `docs/design/volumes.md`, *Control socket*: one JSON document on a line, and one answer to each.

use super::order::ScrubOrder;
use super::report::Shown;
use crate::access::folder;
use crate::failure::Failure;
use clap::Args;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, Permissions};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, PoisonError, mpsc};
use std::time::{Duration, Instant};

/// Most bytes of a request.
const QUESTION: u64 = 64 << 10;
/// Most bytes of an answer.
const ANSWER: u64 = 4 << 20;
/// How long a request or an answer may take to arrive, as a whole.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);
/// How long an answer may take: some wait for members, or for an order before.
const ANSWER_TIME: Duration = Duration::from_secs(20);
/// How long volumes have to say which devices they have, to who looks for those of another one. A
/// silent one may have them: then they are found in use.
const LOOK_TIME: Duration = Duration::from_secs(3);
/// Clients that are served at a time; the next one waits.
const CLIENTS: usize = 32;
/// How long others may take to say that they have the same name.
const NAMESAKES: Duration = Duration::from_secs(1);
/// How long a stop may take.
pub(super) const STOP_TIME: Duration = Duration::from_secs(120);
const ENDING: &str = "sock";

/// The folder of the sockets.
#[derive(Debug, Clone, Args)]
pub(super) struct RunDir {
    /// Folder of the sockets of served volumes [default: /run/pumice/volumes for root, else
    /// $XDG_RUNTIME_DIR/pumice/volumes]
    #[arg(long, value_name = "DIR", value_parser = folder())]
    run_dir: Option<PathBuf>,
}

impl RunDir {
    pub(super) const fn at(run_dir: Option<PathBuf>) -> Self {
        Self { run_dir }
    }

    pub(super) fn folder(&self) -> Result<PathBuf, Failure> {
        if let Some(folder) = &self.run_dir {
            return Ok(folder.clone());
        }
        if is_root() {
            return Ok(PathBuf::from("/run/pumice/volumes"));
        }
        let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|p| p.is_absolute());
        let runtime = runtime.ok_or_else(|| {
            Failure::new("XDG_RUNTIME_DIR is not set: name the folder of the sockets with --run-dir")
        })?;
        Ok(runtime.join("pumice/volumes"))
    }
}

fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|meta| meta.uid() == 0)
}

/// A request to a volume.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "ask", rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum Ask {
    Status,
    Fail { member: String },
    Add { device: PathBuf, force: bool },
    Replace { member: String, device: PathBuf, force: bool },
    Scrub { order: Box<ScrubOrder> },
    Stop,
}

/// Its answer.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Answer {
    Volume(Box<Shown>),
    Error(String),
}

/// The sockets of a folder.
fn sockets(folder: &Path) -> Result<Vec<PathBuf>, Failure> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(Failure::new(format!("{}: {error}", folder.display()))),
    };
    let mut out: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    out.retain(|path| path.extension().is_some_and(|ending| ending == ENDING));
    out.sort();
    Ok(out)
}

/// All volumes that are served, and why sockets of processes that live gave no answer. Sockets left
/// by dead processes are skipped.
pub(super) fn all(folder: &Path) -> Result<(Vec<Shown>, Vec<Failure>), Failure> {
    ask_all(folder, 2 * ANSWER_TIME, |_| false)
}

/// The volumes that answer at once.
pub(super) fn awake(folder: &Path) -> Result<Vec<Shown>, Failure> {
    Ok(ask_all(folder, LOOK_TIME, |_| false)?.0)
}

/// Asks all volumes, which have `patience`. Once a volume `is` the one that is sought, others have
/// only [`NAMESAKES`] to answer.
fn ask_all(
    folder: &Path,
    patience: Duration,
    is: impl Fn(&Shown) -> bool,
) -> Result<(Vec<Shown>, Vec<Failure>), Failure> {
    let mut sockets: BTreeMap<PathBuf, Option<Result<Shown, Failure>>> =
        sockets(folder)?.into_iter().map(|socket| (socket, None)).collect();
    let (tell, answers) = mpsc::channel();
    for socket in sockets.keys() {
        let (tell, socket) = (tell.clone(), socket.clone());
        // A silent one holds up nobody but its thread.
        std::thread::Builder::new().name("ask".to_owned()).spawn(move || {
            let answer = match UnixStream::connect(&socket) {
                Ok(stream) => Some(converse(&socket, &stream, &Ask::Status)),
                Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => None,
                Err(error) => Some(Err(Failure::new(format!("{}: {error}", socket.display())))),
            };
            // Nobody waits for one that comes too late.
            let _ = tell.send((socket, answer));
        })?;
    }
    drop(tell);
    let mut until = Instant::now() + patience;
    let mut silent = sockets.len();
    while silent > 0
        && let Ok((socket, answer)) = answers.recv_timeout(until.saturating_duration_since(Instant::now()))
    {
        silent -= 1;
        if matches!(&answer, Some(Ok(shown)) if is(shown)) {
            until = until.min(Instant::now() + NAMESAKES);
        }
        match answer {
            Some(answer) => drop(sockets.insert(socket, Some(answer))),
            None => drop(sockets.remove(&socket)),
        }
    }
    let (mut out, mut failed) = (Vec::new(), Vec::new());
    for (socket, answer) in sockets {
        match answer.unwrap_or_else(|| Err(no_answer(&socket))) {
            Ok(shown) => out.push(shown),
            Err(failure) => failed.push(failure),
        }
    }
    Ok((out, failed))
}

fn no_answer(socket: &Path) -> Failure {
    Failure::new(format!("{}: its process does not answer", socket.display()))
}

/// Where the socket of a volume is.
pub(super) fn socket(folder: &Path, shown: &Shown) -> PathBuf {
    folder.join(format!("{}.{ENDING}", shown.uuid.replace(':', "")))
}

/// The socket of a volume.
pub(super) fn find(folder: &Path, volume: &str) -> Result<PathBuf, Failure> {
    let is = |shown: &Shown| shown.uuid == volume || shown.name == volume;
    let (known, mut silent) = ask_all(folder, 2 * ANSWER_TIME, is)?;
    let named: Vec<&Shown> = known.iter().filter(|shown| is(shown)).collect();
    match named[..] {
        [one] => Ok(socket(folder, one)),
        // It may be the one.
        [] if !silent.is_empty() => Err(silent.swap_remove(0)),
        [] => Err(Failure::new(format!(
            "{volume}: no volume of that UUID or name is served here (sockets in {})",
            folder.display()
        ))),
        _ => Err(Failure::new(format!("{volume}: several volumes have that name; give the UUID"))),
    }
}

/// Sends a request, and waits for the answer.
pub(super) fn ask(socket: &Path, ask: &Ask) -> Result<Shown, Failure> {
    let stream = UnixStream::connect(socket)
        .map_err(|error| Failure::new(format!("{}: {error}", socket.display())))?;
    converse(socket, &stream, ask)
}

fn converse(socket: &Path, stream: &UnixStream, ask: &Ask) -> Result<Shown, Failure> {
    let wrong = |what: String| Failure::new(format!("{}: {what}", socket.display()));
    let patience = if *ask == Ask::Stop { STOP_TIME + PATIENCE } else { ANSWER_TIME };
    let mut line = serde_json::to_vec(ask).map_err(|error| wrong(error.to_string()))?;
    line.push(b'\n');
    Timed::new(stream, PATIENCE).write_all(&line).map_err(|error| wrong(error.to_string()))?;
    let mut answer = Vec::new();
    let mut reader = BufReader::new(Timed::new(stream, patience).take(ANSWER));
    reader.read_until(b'\n', &mut answer).map_err(|error| match error.kind() {
        io::ErrorKind::WouldBlock => no_answer(socket),
        _ => wrong(error.to_string()),
    })?;
    match serde_json::from_slice(&answer) {
        Ok(Answer::Volume(shown)) => Ok(*shown),
        Ok(Answer::Error(why)) => Err(Failure::new(why)),
        Err(error) => Err(wrong(format!("the answer is invalid: {error}"))),
    }
}

/// Where a socket lies, and which file it is there.
#[derive(Clone)]
pub(super) struct SocketPlace {
    path: PathBuf,
    device_and_inode: (u64, u64),
}

impl SocketPlace {
    fn of(path: PathBuf) -> io::Result<Self> {
        let found = fs::symlink_metadata(&path)?;
        Ok(Self { path, device_and_inode: (found.dev(), found.ino()) })
    }

    /// Removes it, unless another file is in its place by now.
    pub(super) fn remove(&self) {
        let here = fs::symlink_metadata(&self.path);
        if here.is_ok_and(|found| (found.dev(), found.ino()) == self.device_and_inode) {
            // One that stays is replaced by the next process that serves the volume.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Removes the socket of a dead process. `error` is what came of connecting to it.
///
/// # Errors
/// If it is no socket, or may have a process that listens.
fn remove_left(path: &Path, error: &io::Error) -> io::Result<()> {
    if !fs::symlink_metadata(path)?.file_type().is_socket() {
        return Err(io::Error::other("it is no socket: move it away, or give another --run-dir"));
    }
    if error.kind() != io::ErrorKind::ConnectionRefused {
        return Err(io::Error::new(error.kind(), error.to_string()));
    }
    fs::remove_file(path)
}

/// A socket that answers. It is removed when this is dropped.
pub(super) struct Socket {
    place: SocketPlace,
    listener: UnixListener,
}

impl Socket {
    /// Makes the folder of the sockets, and tries whether one can be made there.
    pub(super) fn check(folder: &Path) -> Result<(), Failure> {
        let wrong = |error: io::Error| Failure::new(format!("{}: {error}", folder.display()));
        DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(wrong)?;
        let path = folder.join(format!(".{}", std::process::id()));
        UnixListener::bind(&path).map_err(wrong)?;
        fs::remove_file(&path).map_err(wrong)
    }

    /// Creates the socket of a volume. A socket left by a dead process is replaced.
    pub(super) fn make(folder: &Path, uuid: &str) -> Result<Self, Failure> {
        let path = folder.join(format!("{}.{ENDING}", uuid.replace(':', "")));
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

    /// Where it lies.
    pub(super) const fn place(&self) -> &SocketPlace {
        &self.place
    }

    /// Answers the requests of clients, each on a thread of its own, [`CLIENTS`] of them at a time,
    /// for as long as the process lives. `answer` returns `None` if it has taken the connection
    /// over; what is beside the answer is dropped once the answer is sent.
    pub(super) fn serve<T: 'static>(
        &self,
        answer: impl Fn(Ask, &UnixStream) -> Option<(Answer, T)> + Send + Sync + 'static,
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
                let _ = one(&stream, &*answer);
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
    /// leaves its place after [`PATIENCE`].
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

fn one<T>(stream: &UnixStream, answer: &impl Fn(Ask, &UnixStream) -> Option<(Answer, T)>) -> io::Result<()> {
    let mut line = Vec::new();
    BufReader::new(Timed::new(stream, PATIENCE).take(QUESTION)).read_until(b'\n', &mut line)?;
    let ask = match serde_json::from_slice(&line) {
        Ok(ask) => ask,
        Err(error) => return write_line(stream, &Answer::Error(format!("the request is invalid: {error}"))),
    };
    let Some((said, _until_sent)) = answer(ask, stream) else { return Ok(()) };
    write_line(stream, &said)
}

fn write_line(stream: &UnixStream, said: &impl Serialize) -> io::Result<()> {
    let mut bytes = serde_json::to_vec(said)?;
    bytes.push(b'\n');
    Timed::new(stream, PATIENCE).write_all(&bytes)
}

/// A connection on which more than one line is answered.
pub(super) struct Reply(pub(super) UnixStream);

impl Reply {
    /// Sends one line of JSON.
    pub(super) fn line(&self, said: &impl Serialize) -> io::Result<()> {
        write_line(&self.0, said)
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

    #[test]
    fn a_client_that_sends_byte_by_byte_has_one_deadline() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let sending = std::thread::spawn(move || {
            while theirs.write_all(b"x").is_ok() {
                std::thread::sleep(Duration::from_millis(5));
            }
        });
        let mut reader = BufReader::new(Timed::new(&ours, Duration::from_millis(200)).take(QUESTION));
        let ended = reader.read_until(b'\n', &mut Vec::new());
        assert_eq!(ended.unwrap_err().kind(), io::ErrorKind::WouldBlock);
        drop(ours);
        sending.join().unwrap();
    }

    #[test]
    fn no_client_waits_for_those_that_send_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let socket = Socket::make(folder.path(), "0123").unwrap();
        let path = socket.place().path.clone();
        std::thread::spawn(move || {
            socket.serve(|ask, _| Some((Answer::Error(format!("asked: {ask:?}")), ())));
        });
        let begun = |_| {
            let mut stream = UnixStream::connect(&path).unwrap();
            stream.write_all(b"{").unwrap();
            stream.set_nonblocking(true).unwrap();
            stream
        };
        let silent: Vec<UnixStream> = (1..CLIENTS).map(begun).collect();
        let said = ask(&path, &Ask::Status).unwrap_err().to_string();
        assert_eq!(said, "asked: Status");
        let still = |stream: &UnixStream| {
            let mut stream = stream;
            stream.read(&mut [0]).is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock)
        };
        assert!(silent.iter().all(still), "they have their time");
    }
}
