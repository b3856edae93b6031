//! The thread of a volume: events to [`Volume`], its actions to the drives.

mod commands;
mod orders;
mod standing;

use crate::back::{Epochs, PAUSE, Watch};
use crate::buffers::Buffers;
use crate::carry::{Came, Carrier};
use crate::claim::Granted;
use crate::kept::{Asked, Kept, refuse};
use crate::look::Back;
use crate::message::Message;
use crate::near::Nodes;
use crate::pace::Pace;
use crate::reply::{Failed, Reply, Wake};
use crate::state::{ControlError, Facts};
use commands::Logged;
use pumice_base::buffer::SharedBuffer;
use pumice_offload::Completion;
use pumice_parity::kernels::Kernels;
use pumice_volume::sequencer::OpId;
use pumice_volume::{ClaimId, Effect, Event, Request, RequestId, Volume};
use standing::chosen;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Messages that are taken before effects are looked at.
const AT_ONCE: usize = 64;

/// The end of a round of the volume.
pub(crate) enum End {
    /// A member failed during recovery: look again.
    Again,
    /// The members of a held volume are there again.
    Back(Box<Back>),
    /// As told.
    Stopped,
    /// As it was.
    Abandoned,
}

pub(crate) struct Timing {
    pub(crate) tick: Duration,
    pub(crate) hold_timeout: Duration,
    pub(crate) rebuild: Option<Pace>,
}

pub(crate) struct Engine<'m> {
    pub(crate) volume: Volume,
    pub(crate) carrier: Carrier,
    pub(crate) messages: &'m Receiver<Message>,
    /// Sends to it.
    own: Sender<Message>,
    pub(crate) facts: Facts,
    /// Nodes that make parity, or why this host does.
    nodes: Result<Nodes, String>,
    kernels: Kernels,
    buffers: BTreeMap<OpId, Buffers>,
    /// The events that the volume is told next.
    events: Vec<Event>,
    /// Empty, but not its memory.
    effects: Vec<Effect>,
    /// Records that it has issued and that are not on their way yet.
    records: Vec<Logged>,
    /// Users who wait for answers that were given.
    wakes: Vec<Wake>,
    /// Operations that have ended, and what came of one: empty, but not their memory.
    ended: Vec<Completion>,
    came: Vec<Came>,
    /// The state that outlasts this round.
    pub(crate) kept: Kept,
    epochs: Epochs,
    /// Claims that are not granted yet.
    claimers: BTreeMap<ClaimId, Sender<Granted>>,
    /// Claims that are not given back yet.
    granted: BTreeSet<ClaimId>,
    timing: Timing,
    began: Instant,
    pub(crate) ready: bool,
    end: Option<End>,
    /// Bytes that were copied between users' memory and the volume's.
    copied: Arc<AtomicU64>,
}

impl<'m> Engine<'m> {
    pub(crate) fn new(
        volume: Volume,
        carrier: Carrier,
        (messages, own): (&'m Receiver<Message>, Sender<Message>),
        facts: Facts,
        (nodes, epochs): (Result<Nodes, String>, Epochs),
        timing: Timing,
        copied: Arc<AtomicU64>,
    ) -> Self {
        Self {
            nodes,
            volume,
            carrier,
            messages,
            own,
            facts,
            kernels: Kernels::best(),
            buffers: BTreeMap::new(),
            events: Vec::new(),
            effects: Vec::new(),
            records: Vec::new(),
            wakes: Vec::new(),
            ended: Vec::new(),
            came: Vec::new(),
            kept: Kept::default(),
            epochs,
            claimers: BTreeMap::new(),
            granted: BTreeSet::new(),
            timing,
            began: Instant::now(),
            ready: false,
            end: None,
            copied,
        }
    }

    /// Runs until the volume ends. `ready` is called once, when requests are carried out.
    pub(crate) fn run(&mut self, mut ready: impl FnMut(&Facts)) -> End {
        let mut told = false;
        let mut next_tick = Instant::now() + self.timing.tick;
        self.effects();
        for message in std::mem::take(&mut self.kept.late) {
            self.message(message);
        }
        self.effects();
        loop {
            if self.ready && !std::mem::replace(&mut told, true) {
                ready(&self.facts);
            }
            if let Some(end) = self.end.take() {
                self.drain(matches!(end, End::Again | End::Back(_)));
                return end;
            }
            let pause = self.pace_rebuild();
            let mut wait = next_tick.saturating_duration_since(Instant::now());
            if let (Some(watch), true) = (&mut self.kept.watch, self.granted.is_empty()) {
                watch.poll();
                wait = wait.min(PAUSE);
            }
            let others = [pause, self.kept.hold_left(self.timing.hold_timeout)];
            let wait = others.into_iter().flatten().fold(wait, Duration::min);
            match self.messages.recv_timeout(wait) {
                Ok(message) => {
                    self.pass_time();
                    self.message(message);
                    let more = self.messages.try_iter().take(AT_ONCE);
                    for message in more {
                        self.message(message);
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
                // The carrier has a sender too.
                Err(RecvTimeoutError::Disconnected) => self.end = Some(End::Abandoned),
            }
            // Also if messages never cease.
            if Instant::now() >= next_tick {
                next_tick = Instant::now() + self.timing.tick;
                self.tell();
                self.volume.handle(Event::Tick(now()));
            }
            self.kept.check_hold(self.timing.hold_timeout);
            self.check_claims();
            self.effects();
        }
    }

    /// Lets a rebuild go on as far as its pace allows. Returns how long it then has to wait.
    fn pace_rebuild(&mut self) -> Option<Duration> {
        while let Some(windows) = self.volume.awaits_pace() {
            let wait = self.timing.rebuild.as_mut().and_then(|pace| pace.wait(windows));
            if wait.is_some() {
                return wait;
            }
            self.volume.handle(Event::Restore(windows));
            self.effects();
        }
        None
    }

    /// Waits for every operation that is under way: none may land later. `on`: a round follows,
    /// which takes the messages that come.
    fn drain(&mut self, on: bool) {
        while !self.carrier.is_idle() {
            if on {
                self.kept.check_hold(self.timing.hold_timeout);
            }
            match self.messages.recv_timeout(PAUSE) {
                Err(RecvTimeoutError::Timeout) => {}
                Ok(Message::Ended) => {
                    self.carrier.take_ended(&mut self.ended);
                    for completion in self.ended.drain(..) {
                        self.carrier.ended(completion, &mut self.came);
                    }
                    self.came.clear();
                    self.carrier.hand_over();
                }
                Ok(message) if on => self.kept.late.push_back(message),
                Ok(Message::Status(reply)) => drop(reply.send(self.status())),
                Ok(Message::Stop(reply) | Message::Abandon(reply)) => self.kept.stopping.push(reply),
                Ok(message) => refuse(message, ControlError::Stopped),
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    /// Takes over what the round before has left.
    pub(crate) fn take_over(&mut self, mut kept: Kept) {
        self.carrier.moved = kept.moved;
        self.carrier.errors = std::mem::take(&mut kept.errors);
        self.kept = kept;
    }

    /// Gives the state that outlasts the round, which has ended.
    pub(crate) fn hand_over(&mut self) -> Kept {
        let mut status = self.status();
        let why = if self.kept.held.is_some() { ControlError::Held } else { ControlError::Stopped };
        for claimer in std::mem::take(&mut self.claimers).into_values() {
            drop(claimer.send(Some(Err(why.clone()))));
        }
        let mut kept = std::mem::take(&mut self.kept);
        (kept.moved, kept.errors) = (self.carrier.moved, std::mem::take(&mut self.carrier.errors));
        if self.ready {
            kept.events = Some(self.volume.events());
            kept.rests = self.volume.rests_on_caches();
        }
        status.held = true;
        kept.status = Some(status);
        kept
    }

    /// Takes what has ended on drives.
    fn operations_ended(&mut self) {
        let (mut ended, mut all) = (std::mem::take(&mut self.ended), std::mem::take(&mut self.came));
        self.carrier.take_ended(&mut ended);
        for completion in ended.drain(..) {
            self.carrier.ended(completion, &mut all);
            all.drain(..).for_each(|came| self.came(came));
        }
        (self.ended, self.came) = (ended, all);
    }

    fn came(&mut self, came: Came) {
        match came {
            Came::Rows { op, role, rows, buffer } => {
                // An operation that was forgotten needs them no more.
                if let Some(buffers) = self.buffers.get_mut(&op) {
                    buffers.came(role, rows, buffer);
                }
            }
            Came::Made { op, of, rows, buffer } => {
                if let Some(buffers) = self.buffers.get_mut(&op) {
                    buffers.made(of, rows, buffer);
                }
            }
            Came::Sent { op, node, targets, sums } => {
                if let Ok(nodes) = &mut self.nodes {
                    nodes.sent(op, node, &targets, sums);
                }
            }
            Came::Done(action, outcome) => self.events.push(Event::Done(action, outcome)),
        }
    }

    fn message(&mut self, message: Message) {
        match message {
            Message::Ended => return self.operations_ended(),
            Message::Request { request, data, reply } => return self.request(request, data, reply),
            _ => {}
        }
        // What is asked or told below rests on what came before.
        self.tell();
        match message {
            Message::Ended | Message::Request { .. } => {}
            Message::Settle(reply) if self.kept.is_held_for_long(self.timing.hold_timeout) => {
                reply.send(Err(Failed::Held));
            }
            Message::Settle(reply) => {
                self.ask(Asked { tells: false, ..Asked::new(Request::Flush, None, Some(reply)) });
            }
            Message::Back(attempt) => {
                let back = self.kept.watch.as_mut().and_then(|watch| watch.ended(attempt));
                if let (Some(back), true) = (back, self.granted.is_empty()) {
                    self.end = Some(End::Back(back));
                }
            }
            // Who asked and has gone needs no answer: so below as well.
            Message::Status(reply) => drop(reply.send(self.status())),
            Message::Fail(role, order) => order.carry_out(|| self.fail(role)),
            Message::Model(reply) => drop(reply.send(self.model())),
            Message::MemberOn(drive, device_uuid, reply) => {
                let _ = reply.send(self.member_on(&drive, device_uuid));
            }
            Message::Join(joining, order) => order.carry_out(|| self.join(*joining)),
            Message::Claim { stripes, alone, reply } => {
                let id = ClaimId(self.kept.next_claim);
                self.kept.next_claim += 1;
                self.claimers.insert(id, reply);
                self.volume.handle(Event::Claim { id, stripes, alone });
            }
            Message::Unclaim(id) => {
                self.granted.remove(&id);
                self.volume.handle(Event::Unclaim(id));
            }
            Message::Members(reply) => drop(reply.send(self.members())),
            // It cannot be made clean, and is not waited for: that is the answer.
            Message::Stop(_) if self.kept.held.is_some() => self.end = Some(End::Abandoned),
            Message::Stop(reply) => {
                self.kept.stopping.push(reply);
                self.volume.handle(Event::Stop);
            }
            Message::Abandon(reply) => {
                self.kept.stopping.push(reply);
                self.end = Some(End::Abandoned);
            }
        }
    }

    /// Tells the volume what came, all at once.
    fn tell(&mut self) {
        if !self.events.is_empty() {
            self.volume.handle_all(self.events.drain(..));
        }
    }

    fn request(&mut self, request: Request, data: Option<SharedBuffer>, reply: Reply) {
        if self.kept.is_held_for_long(self.timing.hold_timeout) {
            return reply.send(Err(Failed::Held));
        }
        match request {
            Request::Read { len, .. } => self.kept.user_read += len,
            Request::Write { len, .. } => self.kept.user_written += len,
            Request::Flush => {}
        }
        self.ask(Asked::new(request, data, Some(reply)));
    }

    fn ask(&mut self, asked: Asked) {
        let (id, request) = (RequestId(self.kept.next_request), asked.request);
        self.kept.next_request += 1;
        self.kept.asked.insert(id, asked);
        // What comes during recovery is asked when the volume is ready.
        if self.ready {
            self.events.push(Event::Request(id, request));
        }
    }

    /// Recovery has ended: everything that waited for it is asked.
    fn begin_asked(&mut self) {
        self.ready = true;
        self.kept.goes_on();
        let asked: Vec<_> = self.kept.asked.iter().map(|(id, asked)| (*id, asked.request)).collect();
        for (id, request) in asked {
            self.volume.handle(Event::Request(id, request));
        }
        if !self.kept.stopping.is_empty() {
            self.volume.handle(Event::Stop);
        }
    }

    fn effects(&mut self) {
        let mut effects = std::mem::take(&mut self.effects);
        loop {
            self.tell();
            self.volume.effects_into(&mut effects);
            if effects.is_empty() {
                self.wakes.clear();
                self.write_records();
                self.effects = effects;
                return self.carrier.hand_over();
            }
            for effect in effects.drain(..) {
                self.effect(effect);
            }
        }
    }

    fn effect(&mut self, effect: Effect) {
        match effect {
            Effect::Issue(action) => self.issue(action),
            Effect::Deliver { op, request, touches } => {
                let asked = self.kept.asked.get_mut(&request);
                if let (Some(asked), Some(buffers)) = (asked, self.buffers.get(&op)) {
                    asked.pieces.extend(buffers.deliver(&touches));
                }
            }
            Effect::Answer(id, result) => {
                let asked = self.kept.asked.remove(&id);
                let Some(Asked { pieces, reply: Some(reply), .. }) = asked else { return };
                self.wakes.extend(reply.give(result.map(|()| pieces).map_err(Failed::from)));
            }
            Effect::Forget(op) => {
                self.write_records_of(op);
                if let Some(buffers) = self.buffers.remove(&op) {
                    buffers.give_back(&mut self.carrier.pool);
                }
                if let Ok(nodes) = &mut self.nodes {
                    nodes.forget(op);
                }
            }
            Effect::Chosen(standing) => chosen(standing),
            Effect::Claimed(id, result) => self.claimed(id, result),
            Effect::Held(held) => {
                tracing::warn!(held, "more members are missing than the volume survives");
                if held && !self.kept.stopping.is_empty() {
                    // As for a stop that comes now.
                    self.kept.stopping.clear();
                    self.end = Some(End::Abandoned);
                }
                self.kept.held = held.then(Instant::now);
                let watch = Watch::new(self.sought(), self.epochs.clone(), self.own.clone());
                self.kept.watch = held.then_some(watch);
            }
            Effect::AssembleAgain => self.end = Some(End::Again),
            Effect::Ready => self.begin_asked(),
            Effect::Stopped => {
                self.end = Some(End::Stopped);
            }
        }
    }

    /// Takes the replies to those who wait for the end.
    pub(crate) fn waiting_for_the_end(&mut self) -> Vec<SyncSender<()>> {
        std::mem::take(&mut self.kept.stopping)
    }
}

/// Seconds since 1970.
pub(crate) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}
