//! One queue: a connection, and many commands in flight on it.

use crate::initiator::cut::{Cut, Cuttable};
use crate::initiator::{BusyPoll, InitiatorError, PollingStream};
use crate::transport::{Closer, Plain, Socket, Stream, Transport, prepare};
use pumice_nvme::host::{Connection, Event, Options};
use pumice_nvme::spec::{Sqe, Status};
use std::io::{ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Bytes of the receive buffer to begin with.
const RECEIVE: usize = 256 << 10;
/// Number of times in a deadline that a patient caller is asked.
const ASKED: u32 = 4;
/// Time that a connection that can be cut may take to be established: it cannot be cut before.
const ESTABLISH: Duration = Duration::from_secs(4);
/// Limit of waiting bytes, beyond which no more commands are submitted.
pub(crate) const SEND_LIMIT: usize = 1 << 20;

/// A command of a batch.
#[derive(Debug)]
pub struct Command<'a> {
    /// The command; its id and SGL are set when it is submitted.
    pub sqe: Sqe,
    /// Data for the controller.
    pub send: &'a [u8],
    /// Room for data for the host.
    pub receive: &'a mut [u8],
}

/// The outcome of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outcome {
    /// Its status.
    pub status: Status,
    /// dw0 and dw1.
    pub result: u64,
    /// Bytes of data received.
    pub received: u32,
}

/// Traffic of a queue over its socket, both ways.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Traffic {
    /// Bytes, including headers and digests.
    pub bytes: u64,
    /// PDUs.
    pub pdus: u64,
}

/// Ends a queue's connection from another thread.
#[derive(Debug)]
pub struct Stopper(Closer);

impl Stopper {
    /// Ends the connection: callers that wait for an answer on it get an error at once.
    pub fn stop(&self) {
        self.0.close();
    }
}

/// A queue over a socket.
#[derive(Debug)]
pub struct Queue {
    address: SocketAddr,
    moved: u64,
    stream: PollingStream,
    connection: Connection,
    deadline: Duration,
    out: Vec<u8>,
    buffer: Vec<u8>,
    filled: usize,
    /// By command id: the command of the batch.
    of_cid: Vec<usize>,
    broken: bool,
    _cuttable: Option<Cuttable>,
}

/// Received bytes that were not yet processed.
pub(crate) struct Rest {
    pub(crate) buffer: Vec<u8>,
    pub(crate) filled: usize,
}

fn is_timeout(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
}

impl Queue {
    /// Its connection and its stream, which does not block from now on.
    pub(crate) fn into_parts(self) -> std::io::Result<(Connection, Stream, Rest)> {
        let Self { stream, connection, buffer, filled, .. } = self;
        Ok((connection, stream.into_looking()?, Rest { buffer, filled }))
    }

    /// Connects a queue, and returns what Connect returned: the controller's id.
    ///
    /// # Errors
    /// If the controller cannot be reached, does not answer in time, or refuses.
    pub fn connect(
        address: SocketAddr,
        options: Options,
        deadline: Duration,
    ) -> Result<(Self, u16), InitiatorError> {
        Self::connect_with(&Plain, address, options, deadline, None)
    }

    /// The same for a queue that ends with the others of `cut`.
    pub(crate) fn connect_with(
        transport: &dyn Transport,
        address: SocketAddr,
        options: Options,
        deadline: Duration,
        cut: Option<&Arc<Cut>>,
    ) -> Result<(Self, u16), InitiatorError> {
        let socket = |source| InitiatorError::Socket { address, source };
        let establish = if cut.is_some() { deadline.min(ESTABLISH) } else { deadline };
        let tcp = Socket::connect(&address, establish).map_err(socket)?;
        let cuttable = cut.map(|cut| cut.add(&tcp)).transpose().map_err(socket)?;
        prepare(&tcp, address).map_err(socket)?;
        tcp.set_deadlines(deadline / ASKED, deadline).map_err(socket)?;
        let stream = transport.connected(tcp).map_err(socket)?;
        let mut out = Vec::new();
        let depth = usize::from(options.depth);
        let connection = Connection::new(options, &mut out);
        let mut queue = Self {
            address,
            moved: 0,
            stream: PollingStream::new(stream, BusyPoll::USUAL),
            connection,
            deadline,
            out,
            buffer: vec![0; RECEIVE],
            filled: 0,
            of_cid: vec![usize::MAX; depth.max(1)],
            broken: false,
            _cuttable: cuttable,
        };
        let until = Instant::now() + deadline;
        let mut answer = None;
        while answer.is_none() {
            queue.send()?;
            queue.receive(until, |event| {
                if let Event::Completion(completion) = event {
                    answer = Some(completion);
                }
            })?;
        }
        let answer = answer.expect("the loop ends with one");
        if !answer.status.is_success() {
            return Err(InitiatorError::Refused { address, what: "Connect", status: answer.status });
        }
        Ok((queue, answer.result as u16))
    }

    /// Sets how long to poll for answers before sleeping; zero for never. The default is
    /// [`BusyPoll::USUAL`].
    ///
    /// # Errors
    /// If the socket refuses.
    pub fn set_busy_poll(&mut self, longest: Duration) -> Result<(), InitiatorError> {
        let address = self.address;
        self.stream.set_busy_poll(longest).map_err(|source| InitiatorError::Socket { address, source })
    }

    /// Deadline: how long nothing may arrive before an error.
    #[must_use]
    pub fn deadline(&self) -> Duration {
        self.deadline
    }

    /// The controller's address.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The traffic since it was connected.
    #[must_use]
    pub fn traffic(&self) -> Traffic {
        Traffic { bytes: self.moved, pdus: self.connection.pdus() }
    }

    /// A handle that ends the connection from another thread.
    ///
    /// # Errors
    /// If the system has no more descriptors.
    pub fn stopper(&self) -> Result<Stopper, InitiatorError> {
        let address = self.address;
        self.stream.closer().map(Stopper).map_err(|source| InitiatorError::Socket { address, source })
    }

    /// Ends the connection: the controller hears of it as soon as it can hear anything.
    pub fn end(&mut self) {
        self.broken = true;
        // It may have ended already.
        let _ = self.stream.close();
    }

    /// Returns whether the connection is lost.
    #[must_use]
    pub fn is_broken(&self) -> bool {
        self.broken
    }

    /// Carries out commands, as many at a time as the queue takes. Outcomes are in the order of the
    /// commands.
    ///
    /// # Errors
    /// If the connection fails, or nothing at all comes within the deadline. The queue is then
    /// lost.
    pub fn run(&mut self, commands: &mut [Command<'_>]) -> Result<Vec<Outcome>, InitiatorError> {
        let result = self.batch(commands, self.deadline, || false);
        self.broken |= result.is_err();
        result
    }

    /// The same for commands that may take longer than the deadline: whenever nothing arrived for a
    /// quarter of it, `patient` decides whether to continue waiting.
    ///
    /// # Errors
    /// As [`run`](Self::run), but only once `patient` returns false.
    pub fn run_while(
        &mut self,
        commands: &mut [Command<'_>],
        patient: impl FnMut() -> bool,
    ) -> Result<Vec<Outcome>, InitiatorError> {
        let result = self.batch(commands, self.deadline / ASKED, patient);
        self.broken |= result.is_err();
        result
    }

    /// Carries out one command.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub fn execute(&mut self, sqe: Sqe, send: &[u8], receive: &mut [u8]) -> Result<Outcome, InitiatorError> {
        let mut command = [Command { sqe, send, receive }];
        Ok(self.run(&mut command)?[0])
    }

    /// Carries out one command that may take longer than the deadline: whenever nothing arrived for
    /// a quarter of it, `patient` decides whether to continue waiting.
    ///
    /// # Errors
    /// As [`run`](Self::run), but only once `patient` returns false.
    pub fn execute_while(
        &mut self,
        sqe: Sqe,
        send: &[u8],
        receive: &mut [u8],
        patient: impl FnMut() -> bool,
    ) -> Result<Outcome, InitiatorError> {
        Ok(self.run_while(&mut [Command { sqe, send, receive }], patient)?[0])
    }

    /// Keeps the queue full with commands from `next` (a command, data for the controller, bytes
    /// for the host) until it returns none and all have ended. `done` is called with the time and
    /// the outcome of each command. Data for the host is discarded: this is for measurements.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub fn stream<'d>(
        &mut self,
        mut next: impl FnMut() -> Option<(Sqe, &'d [u8], u32)>,
        mut done: impl FnMut(Duration, Status),
    ) -> Result<(), InitiatorError> {
        let mut began = vec![Instant::now(); self.of_cid.len()];
        let (mut in_flight, mut more) = (0_usize, true);
        loop {
            // One look at the clock for all that are sent together, and one for all that come
            // together.
            let now = Instant::now();
            while more && self.connection.room() > 0 && self.out.len() < SEND_LIMIT {
                let Some((sqe, send, expected)) = next() else {
                    more = false;
                    break;
                };
                let cid = if send.is_empty() {
                    self.connection.submit_read(sqe, expected, &mut self.out)
                } else {
                    self.connection.submit(sqe, send, &mut self.out)
                };
                began[usize::from(cid.expect("there is room on a live queue"))] = now;
                in_flight += 1;
            }
            self.send()?;
            if in_flight == 0 && !more {
                return Ok(());
            }
            let mut came = None;
            let result = self.receive(Instant::now() + self.deadline, |event| {
                if let Event::Completion(completion) = event {
                    in_flight -= 1;
                    let now = *came.get_or_insert_with(Instant::now);
                    done(now - began[usize::from(completion.cid)], completion.status);
                }
            });
            if let Err(error) = result {
                self.broken = true;
                return Err(error);
            }
        }
    }

    fn batch(
        &mut self,
        commands: &mut [Command<'_>],
        silence: Duration,
        mut patient: impl FnMut() -> bool,
    ) -> Result<Vec<Outcome>, InitiatorError> {
        let nothing = Outcome { status: Status::HOST_PATH, result: 0, received: 0 };
        let mut outcomes = vec![nothing; commands.len()];
        let (mut next, mut ended) = (0, 0);
        let mut until = Instant::now() + silence;
        while ended < commands.len() {
            while next < commands.len() && self.connection.room() > 0 && self.out.len() < SEND_LIMIT {
                let command = &commands[next];
                let cid = if command.send.is_empty() {
                    self.connection.submit_read(command.sqe, command.receive.len() as u32, &mut self.out)
                } else {
                    self.connection.submit(command.sqe, command.send, &mut self.out)
                };
                let cid = cid.expect("there is room on a live queue");
                self.of_cid[usize::from(cid)] = next;
                next += 1;
            }
            self.send()?;
            let of_cid = std::mem::take(&mut self.of_cid);
            let mut progress = false;
            let done = self.receive(until, |event| match event {
                Event::Data { cid, offset, data } => {
                    progress = true;
                    let which = of_cid[usize::from(cid)];
                    let at = offset as usize;
                    // The connection holds data to what the command expects.
                    commands[which].receive[at..at + data.len()].copy_from_slice(data);
                    outcomes[which].received += data.len() as u32;
                }
                Event::Completion(completion) => {
                    progress = true;
                    let outcome = &mut outcomes[of_cid[usize::from(completion.cid)]];
                    outcome.status = completion.status;
                    outcome.result = completion.result;
                    ended += 1;
                }
            });
            self.of_cid = of_cid;
            match done {
                Err(InitiatorError::Deadline { .. }) if patient() => progress = true,
                done => done?,
            }
            if progress {
                until = Instant::now() + silence;
            }
        }
        // Whichever end found it: what else came over this connection is not to be trusted more
        // than the rest.
        if outcomes.iter().any(|outcome| outcome.status.code() == Status::TRANSIENT_TRANSPORT.code()) {
            return Err(InitiatorError::Digest { address: self.address });
        }
        Ok(outcomes)
    }

    fn failed(&self, source: std::io::Error) -> InitiatorError {
        if is_timeout(&source) {
            return InitiatorError::Deadline { address: self.address, seconds: self.deadline.as_secs() };
        }
        InitiatorError::Socket { address: self.address, source }
    }

    fn send(&mut self) -> Result<(), InitiatorError> {
        if self.out.is_empty() {
            return Ok(());
        }
        let done = self.stream.write_all(&self.out).and_then(|()| self.stream.flush());
        done.map_err(|source| self.failed(source))?;
        self.moved += self.out.len() as u64;
        self.out.clear();
        Ok(())
    }

    /// Waits for bytes, once, and hands on what they bring.
    fn receive(&mut self, until: Instant, each: impl FnMut(Event<'_>)) -> Result<(), InitiatorError> {
        if Instant::now() >= until {
            return Err(InitiatorError::Deadline { address: self.address, seconds: self.deadline.as_secs() });
        }
        let read = loop {
            match self.stream.read(&mut self.buffer[self.filled..]) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                // It returns a few times in a deadline.
                Err(error) if is_timeout(&error) && Instant::now() < until => {}
                other => break other,
            }
        };
        let n = read.map_err(|source| self.failed(source))?;
        if n == 0 {
            return Err(self.failed(ErrorKind::ConnectionReset.into()));
        }
        self.filled += n;
        self.moved += n as u64;
        let done = self.connection.receive(&self.buffer[..self.filled], &mut self.out, each);
        let (consumed, needed) = match done {
            Ok(done) => done,
            Err(violation) => {
                // Said as a courtesy; the connection ends either way.
                let _ = self.send();
                return Err(InitiatorError::Protocol { address: self.address, violation });
            }
        };
        self.buffer.copy_within(consumed..self.filled, 0);
        self.filled -= consumed;
        if self.buffer.len() < needed {
            self.buffer.resize(needed, 0);
        }
        Ok(())
    }
}
