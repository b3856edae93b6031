//! Asks many processes for their status at once, whatever they do, until a moment.
//!
//! Every long-running process of this program has a socket of its own, and all speak the protocol
//! of `docs/reference/control.md`: one line each way, `{"ask":"status"}`. A process that hangs is
//! named, and holds up nobody.

use crate::api::{ANSWER_BYTES, Code, Request, Version};
use crate::failure::Failure;
use crate::folder::sockets;
use crate::lines::{read_line, write_line};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::io;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::Instant;

/// Sockets that are asked, at most.
const MOST: usize = 1024;

/// A process that was asked.
#[derive(Debug)]
pub struct Looked {
    /// Its socket.
    pub socket: PathBuf,
    /// The fields of its answer without `version`, or the reason why there is none.
    pub answer: Result<Map<String, Value>, Failure>,
}

/// The sockets in a folder; none if there is no such folder.
///
/// # Errors
/// If the folder cannot be read, or has too many.
pub fn in_folder(folder: &Path) -> Result<Vec<PathBuf>, Failure> {
    let found = sockets(folder)?;
    if found.len() > MOST {
        let what = format!("{}: {} sockets are more than {MOST}", folder.display(), found.len());
        return Err(Failure::new(what));
    }
    Ok(found)
}

/// Asks the processes of all these sockets at once, and waits for their answers until a moment.
/// Sockets of dead processes are left out, those without an answer by then have an error that names
/// them.
#[must_use]
pub fn at(all: Vec<PathBuf>, until: Instant) -> Vec<Looked> {
    let (tell, answers) = mpsc::channel();
    let mut waiting: BTreeMap<PathBuf, Option<Looked>> = BTreeMap::new();
    for socket in all {
        let (tell, at) = (tell.clone(), socket.clone());
        let ask = move || {
            let looked = ask(&at, until).map(|answer| Looked { socket: at.clone(), answer });
            // Nobody waits for one that comes too late.
            let _ = tell.send((at, looked));
        };
        match std::thread::Builder::new().name("look".to_owned()).spawn(ask) {
            Ok(_) => drop(waiting.insert(socket, None)),
            Err(error) => {
                let answer = Err(named(&socket, &error));
                waiting.insert(socket.clone(), Some(Looked { socket, answer }));
            }
        }
    }
    drop(tell);
    while let Ok((socket, looked)) = answers.recv_timeout(until.saturating_duration_since(Instant::now())) {
        match looked {
            Some(looked) => drop(waiting.insert(socket, Some(looked))),
            None => drop(waiting.remove(&socket)),
        }
    }
    let silent = |socket: PathBuf| Looked { answer: Err(no_answer(&socket)), socket };
    waiting.into_iter().map(|(socket, looked)| looked.unwrap_or_else(|| silent(socket))).collect()
}

fn no_answer(socket: &Path) -> Failure {
    Failure::coded(Code::Unanswered, format!("{}: its process does not answer", socket.display()))
}

fn named(socket: &Path, error: &dyn std::fmt::Display) -> Failure {
    Failure::new(format!("{}: {error}", socket.display()))
}

/// The answer of a process; `None` if it is dead.
fn ask(socket: &Path, until: Instant) -> Option<Result<Map<String, Value>, Failure>> {
    let stream = match UnixStream::connect(socket) {
        Ok(stream) => stream,
        Err(error) if matches!(error.kind(), io::ErrorKind::ConnectionRefused | io::ErrorKind::NotFound) => {
            return None;
        }
        Err(error) => return Some(Err(named(socket, &error))),
    };
    let exchange = || {
        let line =
            Request::Status.encode(Version::LAST).map_err(|fault| io::Error::other(fault.to_string()))?;
        write_line(&stream, &line)?;
        read_line(&stream, ANSWER_BYTES, until.saturating_duration_since(Instant::now()))
    };
    Some(match exchange() {
        Ok(line) => fields(&line).map_err(|why| named(socket, &why)),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Err(no_answer(socket)),
        Err(error) => Err(named(socket, &error)),
    })
}

/// The fields of an answer.
fn fields(line: &[u8]) -> Result<Map<String, Value>, String> {
    let mut fields: Map<String, Value> =
        serde_json::from_slice(line).map_err(|error| format!("the answer is invalid: {error}"))?;
    match fields.remove("version") {
        None => {}
        Some(number) if number.as_u64().and_then(Version::of).is_some() => {}
        Some(number) => return Err(format!("the answer is of version {number}, which is not known")),
    }
    match fields.get("error") {
        None => Ok(fields),
        Some(Value::String(text)) => Err(text.clone()),
        Some(error) => Err(error.get("text").and_then(Value::as_str).unwrap_or("an error").to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixListener;
    use std::time::Duration;

    #[test]
    fn a_process_that_hangs_is_named_and_holds_up_nobody() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        // It never accepts, one is dead, and one answers.
        let _hangs = UnixListener::bind(path("a.sock")).unwrap();
        drop(UnixListener::bind(path("b.sock")).unwrap());
        let answers = UnixListener::bind(path("c.sock")).unwrap();
        std::thread::spawn(move || {
            let (stream, _) = answers.accept().unwrap();
            read_line(&stream, 1 << 16, Duration::from_secs(5)).unwrap();
            write_line(&stream, b"{\"version\":2,\"node\":{\"port\":4420}}\n").unwrap();
        });
        let begun = Instant::now();
        let found = at(in_folder(folder.path()).unwrap(), begun + Duration::from_millis(500));
        assert!(begun.elapsed() < Duration::from_millis(900), "{:?}", begun.elapsed());
        assert_eq!(found.len(), 2, "{found:?}");
        let why = found[0].answer.as_ref().unwrap_err().to_string();
        assert!(why.contains("a.sock") && why.contains("does not answer"), "{why}");
        assert_eq!(found[1].answer.as_ref().unwrap()["node"]["port"], 4420);
    }

    #[test]
    fn answers_are_taken_in_each_version_and_errors_have_their_words() {
        assert!(fields(b"{\"volume\":{}}").unwrap().contains_key("volume"));
        assert!(fields(b"{\"version\":2,\"volume\":{}}").unwrap().len() == 1);
        for (line, words) in [
            (&b"{\"version\":9,\"volume\":{}}"[..], "version 9"),
            (b"{\"error\":\"held\"}", "held"),
            (b"{\"version\":2,\"error\":{\"code\":\"held\",\"text\":\"is held\"}}", "is held"),
            (b"[]", "invalid"),
            (b"", "invalid"),
        ] {
            assert!(fields(line).unwrap_err().contains(words), "{words}");
        }
    }
}
