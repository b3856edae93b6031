//! The clients' end of control sockets: finds volumes in service, and asks them.

use crate::api::{
    ANSWER_BYTES, ANSWER_TIME, Answer, Code, Events, LINE_TIME, Request, SCRUB_LINE_BYTES, STOP_TIME,
    ScrubDone, ScrubOrder, ScrubProgress, Version, Volume, decode,
};
use crate::failure::Failure;
use crate::folder::sockets;
use crate::lines::{read_line, write_line};
use crate::name::RemoteName;
use crate::place::RemotePlace;
use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, Read};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// Time that volumes have to say which devices they have, if those of another one are looked for. A
/// silent one may have them: then they are found in use.
const LOOK_TIME: Duration = Duration::from_secs(3);
/// Time that others have to say that they have the same name.
const NAMESAKES: Duration = Duration::from_secs(1);

/// A volume in service.
#[derive(Debug, Clone)]
pub struct Found {
    /// Its socket.
    pub socket: PathBuf,
    /// The version in which its server answered.
    pub version: Version,
    /// Its state.
    pub volume: Volume,
}

/// All volumes that are served, and why sockets of processes that live gave no answer. Sockets left
/// by dead processes are skipped.
///
/// # Errors
/// If the folder cannot be read.
pub fn all(folder: &Path) -> Result<(Vec<Volume>, Vec<Failure>), Failure> {
    let (found, silent) = ask_all(folder, 2 * ANSWER_TIME, |_| false)?;
    Ok((found.into_iter().map(|found| found.volume).collect(), silent))
}

/// Asks all volumes, which have `patience`. Once a volume `is` the one that is sought, others have
/// only [`NAMESAKES`] to answer.
fn ask_all(
    folder: &Path,
    patience: Duration,
    is: impl Fn(&Volume) -> bool,
) -> Result<(Vec<Found>, Vec<Failure>), Failure> {
    let mut sockets: BTreeMap<PathBuf, Option<Result<Found, Failure>>> =
        sockets(folder)?.into_iter().map(|socket| (socket, None)).collect();
    let (tell, answers) = mpsc::channel();
    for socket in sockets.keys() {
        let (tell, socket) = (tell.clone(), socket.clone());
        // A silent one holds up nobody but its thread.
        std::thread::Builder::new().name("ask".to_owned()).spawn(move || {
            let answer = match UnixStream::connect(&socket) {
                Ok(stream) => Some(converse(&socket, &stream, Version::LAST, &Request::Status)),
                Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => None,
                Err(error) => Some(Err(Failure::new(format!("{}: {error}", socket.display())))),
            };
            let at = socket.clone();
            let found = |(version, volume): (Version, Volume)| Found { socket: at, version, volume };
            // Nobody waits for one that comes too late.
            let _ = tell.send((socket, answer.map(|answer| answer.map(found))));
        })?;
    }
    drop(tell);
    let mut until = Instant::now() + patience;
    let mut silent = sockets.len();
    while silent > 0
        && let Ok((socket, answer)) = answers.recv_timeout(until.saturating_duration_since(Instant::now()))
    {
        silent -= 1;
        if matches!(&answer, Some(Ok(found)) if is(&found.volume)) {
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
            Ok(found) => out.push(found),
            Err(failure) => failed.push(failure),
        }
    }
    Ok((out, failed))
}

fn no_answer(socket: &Path) -> Failure {
    Failure::coded(Code::Unanswered, format!("{}: its process does not answer", socket.display()))
}

/// The volume of a name or UUID.
///
/// # Errors
/// If there is none or there are several, or a process that may serve it does not answer.
pub fn find(folder: &Path, name: &str) -> Result<Found, Failure> {
    let (known, mut silent) = ask_all(folder, 2 * ANSWER_TIME, |volume| volume.is(name))?;
    let mut named: Vec<Found> = known.into_iter().filter(|found| found.volume.is(name)).collect();
    match named.len() {
        1 => Ok(named.remove(0)),
        // It may be the one.
        0 if !silent.is_empty() => Err(silent.swap_remove(0)),
        0 => Err(Failure::coded(
            Code::NoVolume,
            format!(
                "{name}: no volume of that UUID or name is served here (sockets in {})",
                folder.display()
            ),
        )),
        _ => Err(Failure::coded(
            Code::SeveralVolumes,
            format!("{name}: several volumes have that name; give the UUID"),
        )),
    }
}

/// The volume whose devices are named; `None` if no volume that is served here has any of them.
///
/// # Errors
/// If only some of the devices are such a volume's.
pub fn serving(folder: &Path, paths: &[PathBuf]) -> Result<Option<Found>, Failure> {
    for found in ask_all(folder, LOOK_TIME, |_| false).unwrap_or_default().0 {
        let Volume { uuid, name, members, .. } = &found.volume;
        let devices: Vec<&str> = members.iter().filter_map(|m| m.device.as_deref()).collect();
        let mut others = Vec::new();
        for path in paths {
            if !is_of(path, &devices)? {
                others.push(path);
            }
        }
        if others.len() == paths.len() {
            continue;
        }
        if let Some(other) = others.first() {
            let name = if name.is_empty() { uuid } else { name };
            return Err(Failure::new(format!(
                "{}: no member of {name}, which is being served and has the other devices",
                other.display()
            )));
        }
        return Ok(Some(found));
    }
    Ok(None)
}

/// Returns whether a device, or any drive of a node, is among those of a volume.
fn is_of(path: &Path, devices: &[&str]) -> Result<bool, Failure> {
    let Some(name) = RemoteName::of(path)? else {
        let real = |path: &Path| path.canonicalize().ok();
        let this = real(path);
        return Ok(this.is_some() && devices.iter().any(|device| real(Path::new(device)) == this));
    };
    let place = RemotePlace::of(&name)?;
    Ok(match place.nsid {
        Some(_) => devices.contains(&place.to_string().as_str()),
        None => devices.iter().any(|device| device.starts_with(&format!("{place}/"))),
    })
}

/// Sends a request to a volume, and waits for its state afterwards.
///
/// # Errors
/// If the volume refuses it, or does not answer.
pub fn ask(found: &Found, request: &Request) -> Result<Volume, Failure> {
    let socket = &found.socket;
    Ok(converse(socket, &connected(socket)?, found.version, request)?.1)
}

fn connected(socket: &Path) -> Result<UnixStream, Failure> {
    UnixStream::connect(socket).map_err(|error| wrong(socket, error))
}

fn wrong(socket: &Path, what: impl std::fmt::Display) -> Failure {
    Failure::new(format!("{}: {what}", socket.display()))
}

/// Asks a server that may be older than this program: in the version of its refusal then.
fn converse(
    socket: &Path,
    stream: &UnixStream,
    version: Version,
    request: &Request,
) -> Result<(Version, Volume), Failure> {
    let (answered, answer) = exchange(socket, stream, version, request)?;
    match answer {
        Answer::Error(fault) if fault.code == Some(Code::UnknownVersion) && answered < version => {
            converse(socket, &connected(socket)?, answered, request)
        }
        Answer::Volume(volume) => Ok((answered, *volume)),
        Answer::Error(fault) => Err(Failure::of(fault)),
        other => Err(wrong(socket, format!("the answer is not to that request: {other:?}"))),
    }
}

/// The events of a volume after number `after`.
///
/// # Errors
/// If its server is of an earlier version, or does not answer.
pub fn events(found: &Found, after: u64) -> Result<Events, Failure> {
    let socket = &found.socket;
    if found.version < Version::V3 {
        let what = "the process that serves the volume is of an earlier version, and tells no events";
        return Err(Failure::coded(Code::UnknownRequest, what));
    }
    match exchange(socket, &connected(socket)?, found.version, &Request::Events { after })?.1 {
        Answer::Events(events) => Ok(events),
        Answer::Error(fault) => Err(Failure::of(fault)),
        other => Err(wrong(socket, format!("the answer is not to that request: {other:?}"))),
    }
}

/// Sends a request, and waits for the first line of the answer.
fn exchange(
    socket: &Path,
    stream: &UnixStream,
    version: Version,
    request: &Request,
) -> Result<(Version, Answer), Failure> {
    let patience = if *request == Request::Stop { STOP_TIME + LINE_TIME } else { ANSWER_TIME };
    let line = request.encode(version).map_err(Failure::of)?;
    write_line(stream, &line).map_err(|error| wrong(socket, error))?;
    let answer = read_line(stream, ANSWER_BYTES, patience).map_err(|error| match error.kind() {
        io::ErrorKind::WouldBlock => no_answer(socket),
        _ => wrong(socket, error),
    })?;
    decode(&answer).map_err(|error| wrong(socket, format!("the answer is invalid: {error}")))
}

/// A scrub that the process of a volume carries out.
#[derive(Debug)]
pub struct Scrubbing {
    socket: PathBuf,
    reader: BufReader<UnixStream>,
}

/// A step of a scrub.
#[derive(Debug)]
pub enum Step {
    /// Progress so far.
    Progress(ScrubProgress),
    /// A note for the operator.
    Note(String),
    /// Its end.
    Done(ScrubDone),
}

impl Scrubbing {
    /// Begins one.
    ///
    /// # Errors
    /// If the process of the volume cannot be reached.
    pub fn begin(found: &Found, order: ScrubOrder) -> Result<Self, Failure> {
        let stream = connected(&found.socket)?;
        let request = Request::Scrub { order: Box::new(order) };
        let line = request.encode(found.version).map_err(Failure::of)?;
        write_line(&stream, &line).map_err(|error| wrong(&found.socket, error))?;
        Ok(Self { socket: found.socket.clone(), reader: BufReader::new(stream) })
    }

    /// A stop for another thread: a call ends the scrub, whose end is told as ever.
    ///
    /// # Errors
    /// If the system has no descriptor for it.
    pub fn stop(&self) -> io::Result<impl Fn() + Send + use<>> {
        let stream = self.reader.get_ref().try_clone()?;
        Ok(move || {
            // It may have ended just now.
            let _ = stream.shutdown(Shutdown::Write);
        })
    }

    /// Waits for the next step.
    ///
    /// # Errors
    /// If the scrub cannot begin, or the process of the volume ends.
    pub fn step(&mut self) -> Result<Step, Failure> {
        let mut line = Vec::new();
        let read = self.reader.by_ref().take(SCRUB_LINE_BYTES).read_until(b'\n', &mut line);
        read.map_err(|error| wrong(&self.socket, error))?;
        if line.is_empty() {
            return Err(wrong(&self.socket, "the process that serves the volume has ended"));
        }
        match decode(&line) {
            Ok((_, Answer::Progress(progress))) => Ok(Step::Progress(progress)),
            Ok((_, Answer::Note(note))) => Ok(Step::Note(note)),
            Ok((_, Answer::Done(done))) => Ok(Step::Done(done)),
            Ok((_, Answer::Error(fault))) => Err(Failure::of(fault)),
            Ok((_, Answer::Volume(_) | Answer::Events(_))) => {
                Err(wrong(&self.socket, "the answer is not to a scrub"))
            }
            Err(error) => Err(wrong(&self.socket, format!("the answer is invalid: {error}"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_are_known_by_any_name() {
        let folder = tempfile::tempdir().unwrap();
        let (drive, link) = (folder.path().join("drive"), folder.path().join("link"));
        std::fs::write(&drive, "").unwrap();
        std::os::unix::fs::symlink(&drive, &link).unwrap();
        let names = [drive.to_str().unwrap(), "nvme://127.0.0.1:4420/2"];
        let is = |path: &str| is_of(Path::new(path), &names).unwrap();
        assert!(is(drive.to_str().unwrap()) && is(link.to_str().unwrap()));
        assert!(is("nvme://127.0.0.1:4420/2") && is("nvme://127.0.0.1:4420"));
        assert!(!is("nvme://127.0.0.1:4420/1") && !is("nvme://127.0.0.1:442"));
        assert!(!is(folder.path().to_str().unwrap()) && !is("/nonexistent"));
    }
}
