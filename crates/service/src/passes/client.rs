//! The clients' end of the sockets of passes.

use crate::api::{ANSWER_BYTES, Code, PassAnswer, PassRequest, PassState, decode_answer, encode_line};
use crate::failure::Failure;
use crate::folder::sockets;
use crate::listener::{PATIENCE, ask};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::Instant;

/// A pass that runs, and its socket.
pub type Found = (PathBuf, PassState);

/// The passes that run, each with its socket, and the sockets whose processes do not answer.
/// Sockets of dead processes are left out.
///
/// # Errors
/// If the folder cannot be read.
pub fn all(folder: &Path) -> Result<(Vec<Found>, Vec<Failure>), Failure> {
    let (tell, told) = mpsc::channel();
    let sockets = sockets(folder)?;
    for (number, socket) in sockets.iter().cloned().enumerate() {
        let tell = tell.clone();
        std::thread::Builder::new().name("ask".to_owned()).spawn(move || {
            // Nobody waits for one that comes too late.
            let _ = tell.send((number, asked(&socket, &PassRequest::Status)));
        })?;
    }
    drop(tell);
    let until = Instant::now() + 2 * PATIENCE;
    let mut answers: Vec<Option<Result<Option<PassState>, Failure>>> = sockets.iter().map(|_| None).collect();
    while let Ok((number, answer)) = told.recv_timeout(until.saturating_duration_since(Instant::now())) {
        answers[number] = Some(answer);
    }
    let (mut passes, mut silent) = (Vec::new(), Vec::new());
    for (socket, answer) in sockets.into_iter().zip(answers) {
        match answer {
            Some(Ok(Some(state))) => passes.push((socket, state)),
            Some(Ok(None)) => {}
            Some(Err(failure)) => silent.push(failure),
            None => silent.push(unanswered(&socket)),
        }
    }
    Ok((passes, silent))
}

fn unanswered(socket: &Path) -> Failure {
    Failure::coded(Code::Unanswered, format!("{}: its process does not answer", socket.display()))
}

/// The answer of a socket; `None` if its process is dead.
fn asked(socket: &Path, request: &PassRequest) -> Result<Option<PassState>, Failure> {
    let wrong = |what: &dyn std::fmt::Display| Failure::new(format!("{}: {what}", socket.display()));
    match ask(socket, &encode_line(request), ANSWER_BYTES, 2 * PATIENCE) {
        Ok(line) => match decode_answer(&line) {
            Ok(PassAnswer::Scrub(state)) => Ok(Some(*state)),
            Ok(PassAnswer::Error(fault)) => Err(Failure::of(fault)),
            Err(error) => Err(wrong(&format!("the answer is invalid: {error}"))),
        },
        Err(error) if matches!(error.kind(), io::ErrorKind::ConnectionRefused | io::ErrorKind::NotFound) => {
            Ok(None)
        }
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Err(unanswered(socket)),
        Err(error) => Err(wrong(&error)),
    }
}

/// The pass over the array of a name or UUID: its socket, and its state.
///
/// # Errors
/// If there is none or there are several, or a process that may be the one does not answer.
pub fn find(folder: &Path, name: &str) -> Result<Found, Failure> {
    let (passes, mut silent) = all(folder)?;
    let mut named: Vec<Found> = passes.into_iter().filter(|(_, pass)| pass.is(name)).collect();
    match named.len() {
        1 => Ok(named.remove(0)),
        0 if !silent.is_empty() => Err(silent.swap_remove(0)),
        0 => Err(Failure::coded(
            Code::NoSuch,
            format!(
                "{name}: no scrub of an array of that name or UUID runs (sockets in {})",
                folder.display()
            ),
        )),
        _ => Err(Failure::coded(
            Code::NoSuch,
            format!("{name}: several arrays that are scrubbed have that name; give the UUID"),
        )),
    }
}

/// Gives an order to the pass of a socket, and returns its state afterwards.
///
/// # Errors
/// If it refuses, or does not answer.
pub fn order(socket: &Path, request: &PassRequest) -> Result<PassState, Failure> {
    let gone = || Failure::coded(Code::Stopped, format!("{}: the scrub has ended", socket.display()));
    asked(socket, request)?.ok_or_else(gone)
}
