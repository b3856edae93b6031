//! A server for the counters: one thread for all requests, which never waits for a single client.
//! The time and length of each request are bounded, and so is the number of requests at a time.

use super::text::render;
use crate::serve::shared::Shared;
use mio::net::{TcpListener, TcpStream};
use mio::{Events, Interest, Poll, Token};
use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

/// Time that the head of a request may take to come.
const TO_ASK: Duration = Duration::from_secs(2);
/// Time that a client may take to read an answer.
const TO_TAKE: Duration = Duration::from_secs(5);
/// Bytes of the head of a request, at most.
const LONGEST: usize = 8 << 10;
/// Fields of the head, at most.
const FIELDS: usize = 64;
/// Requests at a time. One more takes the place of the oldest.
const REQUESTS: usize = 64;
/// Time that the server sleeps while nobody asks.
const PAUSE: Duration = Duration::from_millis(50);

/// Listens where the counters are to be served.
pub(in crate::serve) fn bind(address: SocketAddr) -> io::Result<std::net::TcpListener> {
    let listener = std::net::TcpListener::bind(address)?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// Serves the counters until the node stops.
pub(in crate::serve) fn serve(
    listener: std::net::TcpListener,
    shared: Arc<Shared>,
) -> io::Result<JoinHandle<()>> {
    let poll = Poll::new()?;
    let mut listener = TcpListener::from_std(listener);
    poll.registry().register(&mut listener, Token(0), Interest::READABLE)?;
    Builder::new().name("metrics".to_owned()).spawn(move || run(poll, &listener, &shared))
}

fn run(mut poll: Poll, listener: &TcpListener, shared: &Arc<Shared>) {
    let mut events = Events::with_capacity(REQUESTS + 1);
    let mut requests: VecDeque<Request> = VecDeque::new();
    while !shared.is_stopping() {
        if poll.poll(&mut events, Some(PAUSE)).is_err() {
            // Interrupted; or it does not say any more what happens, and is asked less often.
            std::thread::park_timeout(PAUSE);
        }
        for _ in 0..REQUESTS {
            let Ok((mut stream, _)) = listener.accept() else { break };
            let interest = Interest::READABLE | Interest::WRITABLE;
            if poll.registry().register(&mut stream, Token(1), interest).is_ok() {
                requests.push_back(Request::new(stream));
            }
        }
        requests.drain(..requests.len().saturating_sub(REQUESTS));
        let now = Instant::now();
        // Whoever asked may be gone: nobody is waiting then.
        requests.retain_mut(|request| now < request.until && request.go_on(shared).unwrap_or(false));
    }
}

/// A request, and how far it is.
struct Request {
    stream: TcpStream,
    /// The deadline of the present step.
    until: Instant,
    head: Vec<u8>,
    /// The rest of the answer, once there is one.
    answer: Option<VecDeque<u8>>,
}

impl Request {
    fn new(stream: TcpStream) -> Self {
        Self { stream, until: Instant::now() + TO_ASK, head: Vec::new(), answer: None }
    }

    /// Does what can be done now; false where that was the last.
    fn go_on(&mut self, shared: &Arc<Shared>) -> io::Result<bool> {
        if self.answer.is_none() {
            let Some(asked) = self.asked()? else { return Ok(true) };
            self.answer = Some(answer(asked, shared).into());
            self.until = Instant::now() + TO_TAKE;
        }
        let Some(rest) = &mut self.answer else { return Ok(true) };
        while !rest.is_empty() {
            match self.stream.write(rest.as_slices().0) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(sent) => drop(rest.drain(..sent)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(true),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.stream.shutdown(std::net::Shutdown::Write)?;
        Ok(false)
    }

    /// The request, once its head has come.
    fn asked(&mut self) -> io::Result<Option<Asked>> {
        let mut part = [0; 1024];
        loop {
            match self.stream.read(&mut part) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(read) => self.head.extend_from_slice(&part[..read]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(None),
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            }
            if let Some(asked) = parse(&self.head) {
                return Ok(Some(asked));
            }
        }
    }
}

fn answer(asked: Asked, shared: &Arc<Shared>) -> Vec<u8> {
    let (status, kind, body) = match asked {
        Asked::Metrics => {
            ("200 OK", "application/openmetrics-text; version=1.0.0; charset=utf-8", render(shared))
        }
        Asked::Nothing(status) => (status, "text/plain; charset=utf-8", format!("{status}\n")),
    };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    [head.as_bytes(), body.as_bytes()].concat()
}

/// A request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Asked {
    Metrics,
    /// Nothing that there is.
    Nothing(&'static str),
}

/// Parses the head of a request; `None` if more of it is to come.
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
