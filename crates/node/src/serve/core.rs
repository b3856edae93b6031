//! One thread with its sockets.

mod ending;

use self::ending::Ending;
use super::acceptor::Acceptor;
use super::blocks::Blocks;
use super::direct::{Completed, Direct};
use super::done::Done;
use super::fair::HostKey;
use super::handle::{CoreHandle, Inbox};
use super::lanes::Lanes;
use super::metrics::{Class, CoreCounts, Fullest};
use super::newcomers::GOING;
use super::order::{Order, SLICE};
use super::pool::{Policy, Pool};
use super::shared::Shared;
use super::socket::{Socket, Turn};
use mio::net::TcpListener;
use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token, Waker};
use pumice_nvme::controller::{Connection, EndReason};
use pumice_nvme::spec::Status;
use pumice_remote::initiator::BusyPoll;
use pumice_remote::transport::{ByteStream, INTEREST, Stream};
use std::collections::{HashMap, HashSet, VecDeque};
use std::io::{self, ErrorKind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

const WAKER: Token = Token(0);
/// The kernel is done with commands.
const DIRECT: Token = Token(1);
/// Listeners are numbered from here on.
const LISTENER: usize = 2;
/// Connections are numbered from here on, and no number comes twice.
const FIRST: usize = LISTENER + super::listen::MOST;
/// Interval at which connections are told the time.
const TICK: Duration = Duration::from_millis(100);
/// Time that commands in flight may take to end when the server stops.
const STOP_PATIENCE: Duration = Duration::from_secs(5);
/// Bytes of answers that are copied in one round: others are served between two of them.
const ROUND: usize = 4 << 20;
/// Time that a core waits from the beginning of a round to that of the next.
const ROUND_PAUSE: Duration = Duration::from_millis(1);
/// Statuses of commands that the medium or the node failed. A file system that is full is the node
/// operator's to know: hosts see a drive that lies about its size.
const FAULTS: [Status; 4] = [Status::WRITE_FAULT, Status::READ_ERROR, Status::INTERNAL, Status::CAPACITY];
/// Threads that wait for media, of each core. No host has all of them: what another one asks for
/// finds one.
const MEDIA: Policy = Policy { name: "medium", threads: 10, of_host: 8, one_for_each: false };
/// The same where a drive has tags beside it: a thread carries every command of it, and as many
/// writes as are under way share a sync of the log.
const TAGGED: Policy = Policy { threads: 40, of_host: 32, ..MEDIA };
/// The same where all drives are in memory: for the commands that are not done at once.
const MEMORY: Policy = Policy { threads: 2, of_host: 1, ..MEDIA };
/// Short commands of the parity command set, which wait for no medium.
const CONTROL: Policy = Policy { name: "control", threads: 2, of_host: 1, one_for_each: false };
/// Parity commands and transfers under way, of each core. Of parity commands as many work at a time
/// as there are turns.
const ENGINE: Policy = Policy { name: "engine", threads: 4, of_host: 4, one_for_each: true };

/// Events that one poll tells, at most: of all connections, also of those that were told to go, and
/// the others. What a poll does not tell has not happened when a round is asked for.
fn most_events(connections: usize) -> usize {
    connections.saturating_add(FIRST + GOING)
}

/// A core: its poll, its sockets.
pub(super) struct Core {
    number: usize,
    shared: Arc<Shared>,
    poll: Poll,
    handle: CoreHandle,
    workers: Pool,
    lanes: Arc<Lanes>,
    direct: Option<Direct>,
    engine: Pool,
    control: Pool,
    acceptor: Acceptor,
    sockets: HashMap<usize, Socket>,
    /// Closed connections of which writes are with the workers: the host, and how many.
    orphans: HashMap<usize, ([u8; 16], usize)>,
    /// Connections that have a turn now; and memory for those of the next round.
    turns: Vec<usize>,
    spare_turns: Vec<usize>,
    order: Order,
    /// Connections that are over, and the round that is made; the last that was begun, and when.
    ending: Ending,
    round: u64,
    rounded: Instant,
    /// Admin queues that wait until all cores have made a round, and which.
    waiting: HashMap<usize, u64>,
    /// Commands that have ended and are not answered yet; and whether there are more of them than
    /// one round answers.
    done: VecDeque<Done>,
    has_more: bool,
    /// Connections with commands for which there was no room, and whether any has become free
    /// since.
    full: HashSet<usize>,
    freed: bool,
    busy_poll: BusyPoll,
    counts: Arc<CoreCounts>,
}

impl Core {
    pub(super) fn new(
        number: usize,
        shared: Arc<Shared>,
        lanes: Arc<Lanes>,
        busy_poll: Duration,
    ) -> io::Result<Self> {
        let poll = Poll::new()?;
        let handle = CoreHandle::new(Waker::new(poll.registry(), WAKER)?);
        let waiting = !shared.all_immediate();
        let workers = Pool::start(match waiting {
            true if shared.has_tags_beside() => TAGGED,
            true => MEDIA,
            false => MEMORY,
        })?;
        let direct = if waiting { Direct::new(handle.clone()) } else { None };
        if let Some(direct) = &direct {
            poll.registry().register(&mut SourceFd(&direct.fd()), DIRECT, Interest::READABLE)?;
        }
        let engine = Pool::start(ENGINE)?;
        let control = Pool::start(CONTROL)?;
        let counts = shared.metrics().core();
        Ok(Self {
            number,
            shared,
            counts,
            poll,
            handle,
            workers,
            lanes,
            direct,
            engine,
            control,
            acceptor: Acceptor::default(),
            sockets: HashMap::new(),
            orphans: HashMap::new(),
            turns: Vec::new(),
            spare_turns: Vec::new(),
            order: Order::default(),
            ending: Ending::default(),
            round: 0,
            rounded: Instant::now(),
            waiting: HashMap::new(),
            done: VecDeque::new(),
            has_more: false,
            full: HashSet::new(),
            freed: false,
            busy_poll: BusyPoll::new(busy_poll),
        })
    }

    pub(super) fn handle(&self) -> CoreHandle {
        self.handle.clone()
    }

    /// Accepts connections, and deals them out to `cores` in turn.
    pub(super) fn listen(&mut self, listeners: Vec<TcpListener>, cores: Vec<CoreHandle>) -> io::Result<()> {
        self.acceptor = Acceptor::new(listeners, cores, self.poll.registry(), LISTENER)?;
        Ok(())
    }

    /// Runs until the server stops.
    ///
    /// # Errors
    /// If the system does not say any more what happens on its sockets.
    pub(super) fn run(&mut self) -> io::Result<()> {
        let mut events = Events::with_capacity(most_events(self.shared.limits().connections));
        let mut ticked = Instant::now();
        let mut stop_at = None;
        loop {
            let round = self.shared.rounds().asked();
            self.wait(&mut events)?;
            for event in &events {
                match event.token() {
                    WAKER | DIRECT => {}
                    Token(LISTENER..FIRST) => self.acceptor.look_again(),
                    Token(number) => {
                        if let Some(socket) = self.sockets.get_mut(&number) {
                            if event.is_read_closed() {
                                socket.hang_up();
                                self.ending.add(number, &mut socket.ending);
                            }
                            if event.is_readable() || event.is_error() {
                                socket.readable();
                            }
                            if event.is_writable() || event.is_error() {
                                socket.writable();
                            }
                            self.turns.push(number);
                        }
                    }
                }
            }
            self.acceptor.accept(&self.shared);
            self.take_inbox();
            self.answer();
            self.take_turns();
            if let Some(direct) = &mut self.direct {
                direct.enter(|job| self.control.submit(job));
            }
            self.shared.pacing().wake();
            if ticked.elapsed() >= TICK {
                ticked = Instant::now();
                // Those that had to wait for a descriptor have no event of their own.
                self.acceptor.look_again();
                self.tick();
            }
            self.end_some(round);
            if self.shared.is_stopping() {
                self.acceptor.stop();
                let until = *stop_at.get_or_insert_with(|| Instant::now() + STOP_PATIENCE);
                if self.sockets.values().all(Socket::is_idle) || Instant::now() >= until {
                    break;
                }
            }
        }
        for number in self.sockets.keys().copied().collect::<Vec<_>>() {
            if let Some(socket) = self.sockets.get_mut(&number) {
                socket.connection.end(EndReason::Stopped);
            }
            self.close(number);
        }
        Ok(())
    }

    /// Waits until there is something to do, or time to be told.
    fn wait(&mut self, events: &mut Events) -> io::Result<()> {
        if self.acceptor.is_wanted()
            || self.has_more
            || !self.turns.is_empty()
            || self.ending.is_under_way()
            || self.direct.as_ref().is_some_and(Direct::must_enter)
        {
            return self.look(events, Duration::ZERO);
        }
        if self.shared.rounds().asked() > self.round {
            return self.look(events, ROUND_PAUSE);
        }
        if !self.busy_poll.is_on() {
            return self.look(events, TICK);
        }
        let began = Instant::now();
        let longest = self.busy_poll.look();
        let mut wait = Duration::ZERO;
        loop {
            if began.elapsed() >= longest {
                wait = TICK;
            }
            self.look(events, wait)?;
            if !events.is_empty() || !wait.is_zero() {
                break;
            }
            if !BusyPoll::has_the_core() {
                wait = TICK;
            }
        }
        self.busy_poll.waited(began.elapsed());
        Ok(())
    }

    fn look(&mut self, events: &mut Events, wait: Duration) -> io::Result<()> {
        let mut wait = wait;
        loop {
            match self.poll.poll(events, Some(wait)) {
                // A round must not take this for a look at the sockets.
                Err(error) if error.kind() == ErrorKind::Interrupted => wait = Duration::ZERO,
                done => return done,
            }
        }
    }

    fn take_inbox(&mut self) {
        let Inbox { streams, dismissed, done } = self.handle.take();
        for (number, stream) in streams {
            self.adopt(FIRST + number, stream);
        }
        for number in dismissed {
            // It may have gone, or said whose it is, before that was heard here.
            if self.sockets.get(&(FIRST + number)).is_some_and(|socket| socket.newcomer) {
                self.close(FIRST + number);
            }
        }
        self.done.extend(done);
    }

    /// Answers commands that have ended, as much as a round may copy. There is no other event for
    /// the rest: it is looked for again at once.
    fn answer(&mut self) {
        let mut left = ROUND;
        let mut now = None;
        while left > 0 {
            let Some(done) = self.done.pop_front() else { break };
            left = left.saturating_sub(done.data().map_or(1, <[u8]>::len));
            let now = *now.get_or_insert_with(|| self.shared.now());
            self.ended(done, now);
        }
        while left > 0 {
            match self.direct.as_mut().and_then(Direct::completed) {
                Some(Completed::Done(done)) => {
                    left = left.saturating_sub(done.data().map_or(1, <[u8]>::len));
                    let now = *now.get_or_insert_with(|| self.shared.now());
                    self.ended(done, now);
                }
                Some(Completed::Again(job)) => self.workers.submit(*job),
                None => break,
            }
        }
        self.has_more = left == 0;
        if self.freed {
            self.freed = false;
            let (sockets, turns) = (&self.sockets, &mut self.turns);
            self.full.retain(|number| {
                let goes_on = sockets.get(number).is_none_or(Socket::may_go_on);
                if goes_on {
                    turns.push(*number);
                }
                !goes_on
            });
        }
    }

    /// A command has ended.
    fn ended(&mut self, mut done: Done, now: u64) {
        self.freed = true;
        if let Some((index, request, bytes)) = done.foreground() {
            self.shared.pacing().completed(index, request, bytes);
            let (class, good) = (Class::of(done.op), done.status.is_success());
            self.counts.ended(index, class, done.bytes, good, Some(now.saturating_sub(done.began)));
            if FAULTS.contains(&Status(done.status.code())) {
                self.shared.log().failed(index, self.shared.devices()[index].name(), done.status);
            }
        }
        let number = done.ticket.connection;
        // The connection may be gone: then nobody waits for the command any more.
        if let Some(socket) = self.sockets.get_mut(&number) {
            socket.complete(&self.shared, &mut done);
            self.turns.push(number);
        } else if done.wrote {
            self.orphan_ended(number);
        }
        // Its buffers go with it: they are in the answer, or nobody wants them.
        drop(done.held);
    }

    fn adopt(&mut self, number: usize, mut stream: Stream) {
        let registered = self.poll.registry().register(&mut stream, Token(number), INTEREST);
        let socket = stream.socket();
        let (Ok(()), Ok(local), Ok(peer)) = (registered, socket.local(), socket.peer()) else {
            self.shared.newcomers().leave(number - FIRST);
            return;
        };
        let connection = Connection::new(self.shared.limits(), local, self.shared.now()).with_peer(peer.ip());
        self.sockets.insert(number, Socket::new(stream, connection, local, peer));
        self.turns.push(number);
    }

    /// Gives each connection its turn, or as many as there is time for: the others come after what
    /// is new meanwhile.
    fn take_turns(&mut self) {
        let mut turns = std::mem::replace(&mut self.turns, std::mem::take(&mut self.spare_turns));
        turns.sort_unstable();
        turns.dedup();
        let sockets = &self.sockets;
        let host = |number: usize| sockets.get(&number).map_or_else(HostKey::unknown, Socket::host);
        self.order.arrange(&mut turns, host);
        let began = self.shared.now();
        let (mut now, mut cut) = (began, false);
        for number in turns.iter().copied() {
            let Some(socket) = self.sockets.get(&number) else { continue };
            if socket.ending {
                continue;
            }
            if now - began >= SLICE {
                self.turns.push(number);
                cut = true;
                continue;
            }
            let host = self.order.is_behind().then(|| socket.host());
            self.take_turn(number, began);
            if turns.len() > 1 {
                let then = self.shared.now();
                if let Some(host) = host {
                    self.order.used(host, number, then - now);
                }
                now = then;
            }
        }
        self.order.ended(cut);
        turns.clear();
        self.spare_turns = turns;
    }

    fn take_turn(&mut self, number: usize, now: u64) {
        let Some(socket) = self.sockets.get_mut(&number) else { return };
        let (mut in_flight, mut writes) = (socket.in_flight, socket.writes);
        let mut expected = std::mem::take(&mut socket.expected);
        let account = socket.account.clone();
        let mut flying = socket.flying;
        let gone = Arc::clone(&socket.gone);
        let mut blocks = Blocks {
            shared: &self.shared,
            workers: &self.workers,
            lanes: &self.lanes,
            direct: self.direct.as_mut(),
            engine: &self.engine,
            control: &self.control,
            host: socket.host(),
            granted: socket.granted,
            account: account.as_ref(),
            flying: &mut flying,
            unsent: 0,
            gone: &gone,
            core: &self.handle,
            connection: number,
            core_number: self.number,
            in_flight: &mut in_flight,
            writes: &mut writes,
            expected: &mut expected,
            loans: Vec::new(),
            counts: &self.counts,
            now,
            waited: Duration::ZERO,
        };
        let turn = socket.turn(&self.shared, &mut blocks, now);
        (socket.in_flight, socket.writes, socket.expected) = (in_flight, writes, expected);
        socket.flying = flying;
        if socket.unbound && socket.connection.host().is_some() {
            socket.unbound = false;
            socket.newcomer = !self.shared.newcomers().settle(number - FIRST);
        }
        if socket.waits_for_room() {
            self.full.insert(number);
        }
        match turn {
            Turn::Waits => {}
            Turn::Again => self.turns.push(number),
            Turn::AfterRound(round) => {
                self.waiting.insert(number, round);
            }
            Turn::Over => self.close(number),
        }
    }

    fn tick(&mut self) {
        let now = self.shared.now();
        let mut fullest = Fullest::default();
        for (number, socket) in &mut self.sockets {
            fullest = fullest.or(socket.fullness());
            if socket.tick(&self.shared, now) == Turn::Over {
                self.ending.add(*number, &mut socket.ending);
            } else if socket.waits_for_room() && socket.may_go_on() {
                // Another core may have given room back.
                self.turns.push(*number);
            }
        }
        self.counts.look(fullest);
        self.order.tick();
    }
}

impl Drop for Core {
    /// It ends, or it panicked: nothing is carried out by it any more, and nobody needs to wait for
    /// it.
    fn drop(&mut self) {
        self.sockets.values().for_each(|socket| socket.gone.store(true, Ordering::Relaxed));
        self.sockets.clear();
        if let Some(direct) = &mut self.direct {
            direct.finish(|job| self.control.submit(job), STOP_PATIENCE);
        }
        self.direct = None;
        self.workers.stop();
        self.lanes.wait_for(self.number);
        self.shared.rounds().made(self.number, u64::MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::serve::newcomers::{Arrival, Newcomers};

    /// With room for fewer, a poll would leave out the end of a connection, and a round would be
    /// made over it.
    #[test]
    fn a_poll_has_room_for_an_event_of_every_connection() {
        let newcomers = Newcomers::new(100);
        let comes = |number| newcomers.arrive(Arrival { number, core: 0 }, [127, 0, 0, 1].into()).admitted;
        let stand = (0..).take_while(|number| comes(*number)).count();
        assert!(most_events(100) >= stand + FIRST, "{stand}");
    }
}
