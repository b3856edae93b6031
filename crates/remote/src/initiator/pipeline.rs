//! A queue that has its own thread: commands can be submitted at any time, and end later.
//!
//! ```text
//! submit ─▶ inbox ─room on the queue─▶ in flight ─▶ ended
//!             └────the connection fails, or is closed────▶ ended: lost
//! ```
//!
//! The thread never waits for only one direction of the socket: two ends that only write would wait
//! for each other for ever.

use crate::initiator::queue::SEND_LIMIT;
use crate::initiator::{InitiatorError, Outcome, Queue};
use crate::transport::{ByteStream, INTEREST, Stream};
use mio::{Events, Poll, Token, Waker};
use pumice_nvme::host::{Connection, Event, Outgoing, Payload};
use pumice_nvme::spec::{Sqe, Status};
use std::collections::VecDeque;
use std::io::{self, ErrorKind, IoSlice};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Reads of the socket between two checks of the inbox.
const READS: usize = 16;
/// Pieces of one gathered write, at most. (Linux takes 1024.)
const PIECES: usize = 64;
const WAKE: Token = Token(0);
const SOCKET: Token = Token(1);

/// A command with the memory that its data come from or go to.
pub trait Exchange: Send + 'static {
    /// Data for the controller. A clone is the same memory: it goes into the socket from there.
    type Data: Payload + Clone + Send;
    /// The command; its id and SGL are set when it is submitted.
    fn sqe(&self) -> Sqe;
    /// Data for the controller.
    fn send(&self) -> Self::Data;
    /// Room for data for the host.
    fn receive(&mut self) -> &mut [u8];
}

/// Limits of the waits of a pipeline.
pub struct Patience {
    /// Time that nothing may arrive while a command is in flight, before `alive` is called.
    pub silence: Duration,
    /// Told how long nothing has arrived while a command is in flight, once that is half of
    /// `silence`: whoever waits for the command can say for what.
    pub quiet: Box<dyn FnMut(Duration) + Send>,
    /// Time that one command may take.
    pub command: Duration,
    /// Returns whether the controller is alive. It may wait.
    pub alive: Box<dyn FnMut() -> bool + Send>,
}

impl std::fmt::Debug for Patience {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { silence, command, .. } = self;
        f.debug_struct("Patience").field("silence", silence).field("command", command).finish_non_exhaustive()
    }
}

/// Called with the outcome of each command; for a lost command, with the reason.
pub type Told<E> = Box<dyn FnMut(E, Result<Outcome, Arc<InitiatorError>>) + Send>;

struct Shared<E> {
    inbox: Mutex<Inbox<E>>,
    sent: AtomicU64,
    received: AtomicU64,
    closed: AtomicBool,
}

struct Inbox<E> {
    waiting: VecDeque<E>,
    /// The reason why no more commands are accepted.
    lost: Option<Arc<InitiatorError>>,
}

impl<E> Shared<E> {
    fn inbox(&self) -> MutexGuard<'_, Inbox<E>> {
        self.inbox.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A queue with its thread.
pub struct Pipeline<E> {
    shared: Arc<Shared<E>>,
    waker: Waker,
    thread: Option<JoinHandle<()>>,
}

impl<E: Exchange> Pipeline<E> {
    /// Gives a queue, of which nothing is under way, a thread.
    ///
    /// # Errors
    /// If the system has no threads or descriptors left.
    pub fn start(queue: Queue, patience: Patience, told: Told<E>) -> Result<Self, InitiatorError> {
        let address = queue.address();
        let socket = |source| InitiatorError::Socket { address, source };
        let poll = Poll::new().map_err(socket)?;
        let waker = Waker::new(poll.registry(), WAKE).map_err(socket)?;
        let (connection, mut stream, rest) = queue.into_parts().map_err(socket)?;
        poll.registry().register(&mut stream, SOCKET, INTEREST).map_err(socket)?;
        let inbox = Mutex::new(Inbox { waiting: VecDeque::new(), lost: None });
        let shared = Arc::new(Shared {
            inbox,
            sent: AtomicU64::new(0),
            received: AtomicU64::new(0),
            closed: AtomicBool::new(false),
        });
        let driver = Driver {
            address,
            shared: Arc::clone(&shared),
            poll,
            stream,
            connection: connection.lending(),
            patience,
            told,
            flights: Vec::new(),
            in_flight: 0,
            out: Outgoing::default(),
            buffer: rest.buffer,
            filled: rest.filled,
            last: Instant::now(),
            quiet_since: None,
        };
        let spawned = std::thread::Builder::new().name("pipeline".to_owned()).spawn(move || driver.run());
        Ok(Self { shared, waker, thread: Some(spawned.map_err(socket)?) })
    }

    /// Submits a command.
    ///
    /// # Errors
    /// Returns it with the reason if the connection is lost.
    pub fn submit(&self, exchange: E) -> Result<(), (E, Arc<InitiatorError>)> {
        let all = self.submit_all(vec![exchange]);
        all.map_err(|(mut all, lost)| (all.remove(0), lost))
    }

    /// Submits commands together: they are sent as one, if there is room.
    ///
    /// # Errors
    /// Returns all of them with the reason if the connection is lost.
    pub fn submit_all(&self, exchanges: Vec<E>) -> Result<(), (Vec<E>, Arc<InitiatorError>)> {
        let mut inbox = self.shared.inbox();
        if let Some(lost) = &inbox.lost {
            let lost = Arc::clone(lost);
            return Err((exchanges, lost));
        }
        let first = inbox.waiting.is_empty() && !exchanges.is_empty();
        inbox.waiting.extend(exchanges);
        drop(inbox);
        if first {
            // If that fails, the descriptor is gone, and with it the thread.
            let _ = self.waker.wake();
        }
        Ok(())
    }

    /// Ends the connection: commands under way, and later ones, are lost. Returns at once.
    pub fn close(&self) {
        self.shared.closed.store(true, Ordering::Release);
        // If that fails, the descriptor is gone, and with it the thread.
        let _ = self.waker.wake();
    }

    /// Bytes that it has sent over its socket, and received.
    pub fn moved(&self) -> (u64, u64) {
        // Relaxed: sums that are read when nothing is under way.
        (self.shared.sent.load(Ordering::Relaxed), self.shared.received.load(Ordering::Relaxed))
    }
}

impl<E> Drop for Pipeline<E> {
    fn drop(&mut self) {
        self.shared.closed.store(true, Ordering::Release);
        // As above.
        let _ = self.waker.wake();
        if let Some(thread) = self.thread.take() {
            // Its panic has been printed.
            let _ = thread.join();
        }
    }
}

impl<E> std::fmt::Debug for Pipeline<E> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pipeline").finish_non_exhaustive()
    }
}

struct Flight<E> {
    exchange: E,
    began: Instant,
    received: u32,
}

struct Driver<E: Exchange> {
    address: SocketAddr,
    shared: Arc<Shared<E>>,
    poll: Poll,
    stream: Stream,
    connection: Connection<E::Data>,
    patience: Patience,
    told: Told<E>,
    /// By command id.
    flights: Vec<Option<Flight<E>>>,
    in_flight: usize,
    out: Outgoing<E::Data>,
    buffer: Vec<u8>,
    filled: usize,
    /// Time of the last received data, or of the beginning of the wait.
    last: Instant,
    /// The value of `last` for which `quiet` was called.
    quiet_since: Option<Instant>,
}

impl<E: Exchange> Driver<E> {
    fn run(mut self) {
        let error = Arc::new(self.drive());
        let mut inbox = self.shared.inbox();
        inbox.lost = Some(Arc::clone(&error));
        let waiting = std::mem::take(&mut inbox.waiting);
        drop(inbox);
        let flying = self.flights.drain(..).flatten().map(|flight| flight.exchange);
        for exchange in flying.chain(waiting) {
            (self.told)(exchange, Err(Arc::clone(&error)));
        }
    }

    /// Carries commands until the connection is lost, and returns the reason.
    fn drive(&mut self) -> InitiatorError {
        let mut events = Events::with_capacity(8);
        loop {
            if self.shared.closed.load(Ordering::Acquire) {
                return self.failed(io::Error::new(ErrorKind::ConnectionAborted, "closed by this host"));
            }
            let waits = self.begin();
            let more = match self.send().and_then(|()| self.receive()) {
                Ok(more) => more,
                Err(error) => return error,
            };
            // With what was sent there is room for more.
            if more || waits && self.out.is_empty() {
                continue;
            }
            if let Err(error) = self.check_time() {
                return error;
            }
            let often = (self.patience.silence / 2).min(Duration::from_secs(1));
            let timeout = (self.in_flight > 0).then_some(often);
            match self.poll.poll(&mut events, timeout) {
                Err(error) if error.kind() != ErrorKind::Interrupted => return self.failed(error),
                _ => {}
            }
        }
    }

    fn failed(&self, source: io::Error) -> InitiatorError {
        InitiatorError::Socket { address: self.address, source }
    }

    /// Submits waiting commands while there is room. Returns whether some must wait until earlier
    /// data is sent.
    fn begin(&mut self) -> bool {
        let mut inbox = self.shared.inbox();
        while self.connection.room() > 0 && self.out.len() < SEND_LIMIT {
            let Some(mut exchange) = inbox.waiting.pop_front() else { return false };
            let sqe = exchange.sqe();
            let data = exchange.send();
            let cid = if data.size() == 0 {
                let expected = exchange.receive().len() as u32;
                self.connection.submit_read(sqe, expected, &mut self.out)
            } else {
                self.connection.submit_data(sqe, data, &mut self.out)
            };
            let cid = usize::from(cid.expect("there is room on a live queue"));
            if self.flights.len() <= cid {
                self.flights.resize_with(cid + 1, || None);
            }
            let now = Instant::now();
            if self.in_flight == 0 {
                self.last = now;
            }
            self.flights[cid] = Some(Flight { exchange, began: now, received: 0 });
            self.in_flight += 1;
        }
        !inbox.waiting.is_empty() && self.connection.room() > 0
    }

    fn send(&mut self) -> Result<(), InitiatorError> {
        while !self.out.is_empty() {
            let mut pieces = [IoSlice::new(&[]); PIECES];
            let waiting = self.out.pieces().map(IoSlice::new);
            let count = pieces.iter_mut().zip(waiting).map(|(place, piece)| *place = piece).count();
            match self.stream.write_vectored(&pieces[..count]) {
                Ok(0) => return Err(self.failed(ErrorKind::WriteZero.into())),
                Ok(n) => {
                    self.out.advance(n);
                    self.shared.sent.fetch_add(n as u64, Ordering::Relaxed);
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(self.failed(error)),
            }
        }
        match self.stream.unsent() {
            0 => Ok(()),
            // An event of the socket comes when it takes more.
            _ => match self.stream.flush() {
                Err(error) if error.kind() != ErrorKind::WouldBlock => Err(self.failed(error)),
                _ => Ok(()),
            },
        }
    }

    /// Processes received data. Returns whether there may be more, or something must be sent.
    fn receive(&mut self) -> Result<bool, InitiatorError> {
        let mut came = false;
        for _ in 0..READS {
            match self.stream.read(&mut self.buffer[self.filled..]) {
                Ok(0) => return Err(self.failed(ErrorKind::ConnectionReset.into())),
                Ok(n) => {
                    self.filled += n;
                    self.shared.received.fetch_add(n as u64, Ordering::Relaxed);
                    self.take()?;
                    came = true;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    // What was asked for meanwhile is sent, and rooms that became free are used.
                    return Ok(came);
                }
                Err(error) => return Err(self.failed(error)),
            }
        }
        Ok(true)
    }

    fn take(&mut self) -> Result<(), InitiatorError> {
        let Self { connection, flights, in_flight, last, told, out, buffer, filled, .. } = self;
        let mut damaged = false;
        let done = connection.receive(&buffer[..*filled], out, |event| match event {
            Event::Data { cid, offset, data } => {
                *last = Instant::now();
                if let Some(Some(flight)) = flights.get_mut(usize::from(cid)) {
                    let at = offset as usize;
                    // The connection holds data to what the command expects.
                    flight.exchange.receive()[at..at + data.len()].copy_from_slice(data);
                    flight.received += data.len() as u32;
                }
            }
            Event::Completion(completion) => {
                *last = Instant::now();
                // Whichever end found it: nothing that comes over this connection is to be trusted.
                damaged |= completion.status.code() == Status::TRANSIENT_TRANSPORT.code();
                let slot = flights.get_mut(usize::from(completion.cid));
                if let (false, Some(flight)) = (damaged, slot.and_then(Option::take)) {
                    *in_flight -= 1;
                    let Flight { exchange, received, .. } = flight;
                    let (status, result) = (completion.status, completion.result);
                    told(exchange, Ok(Outcome { status, result, received }));
                }
            }
        });
        let (consumed, needed) = match done {
            Ok(done) => done,
            Err(violation) => {
                // Said as a courtesy; the connection ends either way.
                let _ = self.send();
                return Err(InitiatorError::Protocol { address: self.address, violation });
            }
        };
        if damaged {
            return Err(InitiatorError::Digest { address: self.address });
        }
        self.buffer.copy_within(consumed..self.filled, 0);
        self.filled -= consumed;
        if self.buffer.len() < needed {
            self.buffer.resize(needed, 0);
        }
        Ok(())
    }

    /// Checks whether a command takes too long.
    fn check_time(&mut self) -> Result<(), InitiatorError> {
        if self.in_flight == 0 {
            return Ok(());
        }
        let late = |seconds: Duration| InitiatorError::Deadline {
            address: self.address,
            seconds: seconds.as_secs(),
        };
        let now = Instant::now();
        let oldest = self.flights.iter().flatten().map(|flight| flight.began).min();
        if oldest.is_some_and(|began| now - began >= self.patience.command) {
            return Err(late(self.patience.command));
        }
        let silent = now - self.last;
        if silent >= self.patience.silence / 2 && self.quiet_since != Some(self.last) {
            self.quiet_since = Some(self.last);
            (self.patience.quiet)(silent);
        }
        if silent >= self.patience.silence {
            if !(self.patience.alive)() {
                return Err(late(self.patience.silence));
            }
            self.last = Instant::now();
        }
        Ok(())
    }
}
