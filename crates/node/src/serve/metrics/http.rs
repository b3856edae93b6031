//! A server for the counters: one request at a time, each with bounds of time and length.

use super::text::render;
use crate::serve::shared::Shared;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

/// How long the head of a request may take to come.
const TO_ASK: Duration = Duration::from_secs(2);
/// How long an answer may take to be taken.
const TO_TAKE: Duration = Duration::from_secs(5);
/// Bytes of the head of a request, at most.
const LONGEST: usize = 8 << 10;
/// Fields of the head, at most.
const FIELDS: usize = 64;
/// How long the server sleeps where nobody asks.
const PAUSE: Duration = Duration::from_millis(50);

/// Listens where the counters are to be served.
pub(in crate::serve) fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    let listener = TcpListener::bind(address)?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// Serves the counters until the node stops. To unpark the thread saves the pause.
pub(in crate::serve) fn serve(listener: TcpListener, shared: Arc<Shared>) -> io::Result<JoinHandle<()>> {
    Builder::new().name("metrics".to_owned()).spawn(move || {
        while !shared.is_stopping() {
            match listener.accept() {
                // Whoever asked may be gone: nobody is waiting then.
                Ok((stream, _)) => drop(answer(stream, &shared)),
                Err(_) => std::thread::park_timeout(PAUSE),
            }
        }
    })
}

fn answer(mut stream: TcpStream, shared: &Arc<Shared>) -> io::Result<()> {
    stream.set_nonblocking(false)?;
    let (status, kind, body) = match asked(&mut stream, Instant::now() + TO_ASK, shared)? {
        Asked::Metrics => {
            ("200 OK", "application/openmetrics-text; version=1.0.0; charset=utf-8", render(shared))
        }
        Asked::Nothing(status) => (status, "text/plain; charset=utf-8", format!("{status}\n")),
    };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    let until = Instant::now() + TO_TAKE;
    let mut rest = [head.as_bytes(), body.as_bytes()].concat();
    while !rest.is_empty() && !shared.is_stopping() {
        stream.set_write_timeout(Some(left(until)?))?;
        let sent = stream.write(&rest)?;
        if sent == 0 {
            return Err(ErrorKind::WriteZero.into());
        }
        rest.drain(..sent);
    }
    stream.shutdown(std::net::Shutdown::Write)
}

/// What a request asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Asked {
    Metrics,
    /// Nothing that there is.
    Nothing(&'static str),
}

/// The time that is left, in steps that let a node that stops be seen.
fn left(until: Instant) -> io::Result<Duration> {
    let left = until.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(ErrorKind::TimedOut.into()) } else { Ok(left) }
}

fn asked(stream: &mut TcpStream, until: Instant, shared: &Shared) -> io::Result<Asked> {
    let mut head = Vec::new();
    let mut part = [0; 1024];
    loop {
        if shared.is_stopping() {
            return Err(ErrorKind::Interrupted.into());
        }
        stream.set_read_timeout(Some(left(until)?))?;
        let read = stream.read(&mut part)?;
        if read == 0 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        head.extend_from_slice(&part[..read]);
        if let Some(asked) = parse(&head) {
            return Ok(asked);
        }
    }
}

/// What the head of a request asks for; `None` where more of it is to come.
fn parse(head: &[u8]) -> Option<Asked> {
    let mut fields = [httparse::EMPTY_HEADER; FIELDS];
    let mut request = httparse::Request::new(&mut fields);
    match request.parse(head) {
        Err(_) => Some(Asked::Nothing("400 Bad Request")),
        Ok(httparse::Status::Partial) if head.len() >= LONGEST => {
            Some(Asked::Nothing("431 Request Header Fields Too Large"))
        }
        Ok(httparse::Status::Partial) => None,
        Ok(httparse::Status::Complete(_)) => Some(match (request.method, request.path) {
            (Some("GET"), Some(path)) if path.split('?').next() == Some("/metrics") => Asked::Metrics,
            (Some("GET"), _) => Asked::Nothing("404 Not Found"),
            _ => Asked::Nothing("405 Method Not Allowed"),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_bounded_and_told_apart() {
        let long = format!("GET /metrics HTTP/1.1\r\nx: {}", "y".repeat(LONGEST));
        let many = format!("GET /metrics HTTP/1.1\r\n{}\r\n", "a: b\r\n".repeat(FIELDS + 1));
        for (head, expected) in [
            ("GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n", Some(Asked::Metrics)),
            ("GET /metrics?x=1 HTTP/1.0\r\n\r\n", Some(Asked::Metrics)),
            ("GET /metrics HTTP/1.1\r\nHost", None),
            ("GET / HTTP/1.1\r\n\r\n", Some(Asked::Nothing("404 Not Found"))),
            ("POST /metrics HTTP/1.1\r\n\r\n", Some(Asked::Nothing("405 Method Not Allowed"))),
            ("\u{1}\u{0}", Some(Asked::Nothing("400 Bad Request"))),
            (&many, Some(Asked::Nothing("400 Bad Request"))),
            (&long, Some(Asked::Nothing("431 Request Header Fields Too Large"))),
        ] {
            assert_eq!(parse(head.as_bytes()), expected, "{head:.60}");
        }
    }
}
