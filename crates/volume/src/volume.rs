//! The volume: requests become operations, operations become actions.
//!
//! Every event is handled in two parts: what it says is noted, then [`Volume::pump`] lets
//! everything take its next step that may. `docs/design/volumes.md` has the states.

mod actions;
mod choosing;
mod claims;
mod daemon;
mod joining;
mod logging;
mod near;
mod numbers;
mod operation;
mod procedure;
mod rebuild;
mod recovery;
mod row_plans;
mod steps;
mod stretch;

use crate::action::{Action, ActionId, Command, Effect, Event, Outcome, Request, RequestError, RequestId};
use crate::assemble::{Assembly, MemberLook, Rule};
use crate::intent::Intent;
use crate::log::Space;
use crate::member::{Member, State, mark};
use crate::near::Near;
use crate::rows::{RowLayout, Window, Windows};
use crate::sequencer::{OpId, Sequencer};
use actions::Actions;
use claims::Claim;
use joining::Join;
use numbers::Numbers;
use operation::{Kind, Op};
use procedure::Procedure;
use pumice_base::units::{Role, Rules, SECTOR};
use pumice_raid::superblock::features::Features;
use pumice_raid::superblock::v1::{RESYNC_DONE, V1};
use recovery::Recovery;
use row_plans::KnownPlans;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use stretch::Stretch;

/// The owner that waits for an action.
#[derive(Debug, Clone, Copy)]
enum Owner {
    Op(OpId),
    Stretch(OpId),
    Procedure,
    Intent,
    Recovery,
}

/// A request that is under way.
#[derive(Debug)]
struct Pending {
    left: usize,
    error: Option<RequestError>,
    fua: bool,
}

/// Wishes to the procedures.
#[derive(Debug, Default)]
struct Wants {
    dirty: bool,
    room: bool,
    /// Flushes, with the number of the last write that each has to cover.
    flush: Vec<(RequestId, u64)>,
    clean: bool,
    /// Superblocks are to say how far a rebuild is.
    progress: bool,
}

/// An array that is being written.
pub struct Volume {
    layout: Box<dyn RowLayout>,
    windows: Windows,
    members: Vec<Member>,
    use_log: bool,
    writer: u128,
    /// Heads name the writer.
    marked: bool,
    rules: Rules<Rule>,
    intent: Option<Intent>,
    near: Option<Near>,
    /// Writes that are done: near, far.
    ways: (u64, u64),
    known_plans: RefCell<KnownPlans>,
    locks: Sequencer,
    requests: BTreeMap<RequestId, Pending>,
    ops: BTreeMap<OpId, Op>,
    claims: BTreeMap<OpId, Claim>,
    stretches: BTreeMap<OpId, Stretch>,
    /// Operations that may be able to take a step.
    ready: BTreeSet<OpId>,
    actions: Actions,
    effects: Vec<Effect>,
    next_op: u64,
    events: u64,
    now: u64,
    /// The superblocks say that parity is whole and nothing is being written.
    clean: bool,
    /// No head that counts was found, and the first superblock after the new ones is not on all
    /// members.
    log_begins: bool,
    generation: u64,
    nonce: u64,
    sums: crate::log::Sums,
    numbers: Numbers,
    /// Members that failed, which no superblock says yet.
    failing: BTreeSet<Role>,
    /// States in memory that are not on the members yet.
    unrecorded: bool,
    held: bool,
    fenced: bool,
    stopping: bool,
    running: Option<Procedure>,
    recovery: Option<Recovery>,
    want: Wants,
    /// Bytes of records, at most, of the writes that were logged and are not in place.
    to_reserve: u64,
    /// Those of them that have to be logged again before any other write is logged.
    log_again: BTreeSet<OpId>,
    joins: VecDeque<Join>,
    rebuilt: Option<Role>,
    /// A member that is rebuilt, and whose superblocks may not say so yet.
    recording: Option<Role>,
    /// The number of windows of members that may still be restored; `None`: all.
    may_restore: Option<u64>,
    /// Windows of a stretch, at most.
    most_restored: u64,
    /// Operations that restore windows of a member.
    rebuilding: BTreeMap<OpId, Window>,
    /// Ticks without a request.
    idle: u32,
    /// Blocks that were written again because the medium did not give them.
    rewritten: u64,
    /// Ticks of a rebuild since superblocks said how far it is.
    unsaved: u32,
}

impl Volume {
    /// A volume that begins with what was found. Its first effects are those of recovery.
    #[must_use]
    pub fn new(layout: Box<dyn RowLayout>, assembly: Assembly, now: u64) -> Self {
        let windows = Windows::new(&*layout);
        let (intent, members) = (intent_of(&assembly), members_of(&assembly, windows));
        let mut volume = Self {
            layout,
            windows,
            members,
            use_log: assembly.use_log,
            writer: assembly.writer,
            marked: assembly.use_log && assembly.writer != 0,
            rules: assembly.rules,
            intent,
            near: None,
            ways: (0, 0),
            known_plans: RefCell::default(),
            locks: Sequencer::default(),
            requests: BTreeMap::new(),
            ops: BTreeMap::new(),
            claims: BTreeMap::new(),
            stretches: BTreeMap::new(),
            ready: BTreeSet::new(),
            actions: Actions::default(),
            effects: Vec::new(),
            next_op: 0,
            events: assembly.newest.events,
            now,
            clean: assembly.newest.resync_offset == RESYNC_DONE,
            log_begins: !assembly.ours,
            generation: assembly.generation,
            nonce: assembly.log_nonce,
            sums: assembly.log_sums,
            numbers: Numbers::new(assembly.replay.released + 1, assembly.old_released),
            failing: BTreeSet::new(),
            unrecorded: false,
            held: false,
            fenced: false,
            stopping: false,
            running: None,
            recovery: None,
            want: Wants::default(),
            to_reserve: 0,
            log_again: BTreeSet::new(),
            joins: VecDeque::new(),
            rebuilt: None,
            recording: None,
            may_restore: None,
            most_restored: u64::MAX,
            rebuilding: BTreeMap::new(),
            idle: 0,
            rewritten: 0,
            unsaved: 0,
        };
        volume.begin_recovery(assembly);
        volume.pump();
        volume
    }

    /// Bytes of the volume.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.windows.array_bytes()
    }

    /// Members that are missing or being rebuilt.
    #[must_use]
    pub fn missing(&self) -> Vec<Role> {
        let missing = |(role, member): (u16, &Member)| (member.state != State::InSync).then_some(Role(role));
        (0..).zip(&self.members).filter_map(missing).collect()
    }

    /// Members that are in sync or being rebuilt, with their device_uuid.
    #[must_use]
    pub fn members_here(&self) -> Vec<(Role, [u8; 16])> {
        let here = |(role, member): (u16, &Member)| {
            member.here().then_some((Role(role), member.superblock.device_uuid))
        };
        (0..).zip(&self.members).filter_map(here).collect()
    }

    /// Members that failed, which no superblock says yet.
    #[must_use]
    pub fn failing(&self) -> Vec<Role> {
        self.failing.iter().copied().collect()
    }

    /// Returns whether the superblocks say that nothing is being written.
    #[must_use]
    pub const fn is_clean(&self) -> bool {
        self.clean
    }

    /// The event count of its superblocks, or of those that are being written.
    #[must_use]
    pub const fn events(&self) -> u64 {
        self.events
    }

    /// Returns whether members may have writes in their caches alone: no flush covers them, and
    /// their blocks are not in the log.
    #[must_use]
    pub const fn rests_on_caches(&self) -> bool {
        self.numbers.rest_on_caches()
    }

    /// Takes an event. What follows from it is in [`effects`](Self::effects).
    pub fn handle(&mut self, event: Event) {
        self.handle_all([event]);
    }

    /// The same of several events, which may have happened in any order: none of them is known to
    /// whoever made another one happen.
    pub fn handle_all(&mut self, events: impl IntoIterator<Item = Event>) {
        for event in events {
            self.note(event);
        }
        self.pump();
    }

    fn note(&mut self, event: Event) {
        match event {
            Event::Request(id, request) => self.request(id, request),
            Event::Done(action, outcome) => self.done(action, outcome),
            Event::Returned(role) => self.returned(role),
            Event::Join { role, superblock, place, nonce, serial, node, kept } => {
                self.joins.push_back(Join { role, superblock, place, nonce, serial, node, kept });
            }
            Event::Claim { id, stripes, alone } => self.claim(id, &stripes, alone),
            Event::Unclaim(id) => self.unclaim(id),
            Event::Restore(windows) => {
                self.may_restore = self.may_restore.map(|left| left.saturating_add(windows));
            }
            Event::Tick(now) => self.tick(now),
            Event::Stop => {
                self.stopping = true;
                self.refuse_claims(RequestError::Stopped);
            }
        }
    }

    /// The effects that are to be carried out, in the order in which they were decided.
    pub fn effects(&mut self) -> Vec<Effect> {
        std::mem::take(&mut self.effects)
    }

    /// The same, into memory that is used again: `into` is emptied before.
    pub fn effects_into(&mut self, into: &mut Vec<Effect>) {
        into.clear();
        std::mem::swap(into, &mut self.effects);
    }

    fn request(&mut self, id: RequestId, request: Request) {
        self.idle = 0;
        if self.fenced || self.stopping {
            let why = if self.fenced { RequestError::Fenced } else { RequestError::Stopped };
            return self.effects.push(Effect::Answer(id, Err(why)));
        }
        let (offset, len, fua, writes) = match request {
            Request::Flush => return self.want.flush.push((id, self.numbers.in_place())),
            Request::Read { offset, len } => (offset, len, false, false),
            Request::Write { offset, len, fua } => (offset, len, fua, true),
        };
        let inside = offset.checked_add(len).is_some_and(|end| end <= self.bytes());
        if !inside || len == 0 || (offset | len) % SECTOR != 0 {
            return self.effects.push(Effect::Answer(id, Err(RequestError::Range)));
        }
        let parts = self.windows.split(&*self.layout, offset, len);
        self.requests.insert(id, Pending { left: parts.len(), error: None, fua });
        for (window, touches) in parts {
            let kind = if writes { Kind::Write(id) } else { Kind::Read(id) };
            self.add_op(kind, window, touches);
        }
    }

    fn issue(&mut self, owner: Owner, command: Command) -> ActionId {
        assert!(!self.fenced, "V30: a volume that is fenced, or has ended, sends nothing");
        let id = self.actions.insert(owner, command.role());
        self.effects.push(Effect::Issue(Action { id, command }));
        id
    }

    fn done(&mut self, action: ActionId, outcome: Outcome) {
        let Some((owner, role)) = self.actions.remove(action) else { return };
        // A member that is back before all is looked at again has still missed a step.
        self.unrecorded |= self.recovery.is_some() && outcome == Outcome::Failed;
        match (outcome, role) {
            (Outcome::Fenced, _) => self.fence(),
            (Outcome::Failed, Some(role)) if self.members[role.index()].here() => {
                self.failing.insert(role);
            }
            // It cannot be done another way any more.
            (Outcome::Refused, Some(role))
                if matches!(owner, Owner::Op(id) if self.is_made(id))
                    && self.members[role.index()].here() =>
            {
                self.failing.insert(role);
            }
            _ => {}
        }
        match owner {
            Owner::Op(id) => {
                if let Some(op) = self.ops.get_mut(&id) {
                    op.returned(action, outcome, role);
                    self.ready.insert(id);
                }
            }
            Owner::Stretch(id) => self.stretch_returned(id, action, outcome),
            Owner::Procedure => {
                if let Some(running) = &mut self.running {
                    running.waiting.remove(&action);
                    running.broken |= outcome != Outcome::Done;
                    if let (Outcome::Done, Some(role), true) = (outcome, role, running.writes_superblocks()) {
                        // Whatever becomes of the others: this one's next head has to know it.
                        self.members[role.index()].announced_is_written();
                    }
                }
            }
            Owner::Intent => {
                let last = !self.actions.owners().any(|owner| matches!(owner, Owner::Intent));
                if let (true, Some(intent)) = (last, &mut self.intent) {
                    intent.written();
                    self.ready.extend(self.ops.keys());
                }
            }
            Owner::Recovery => {
                if let Some(recovery) = &mut self.recovery {
                    recovery.copying -= 1;
                }
            }
        }
    }

    /// Nothing takes a step until something is recorded.
    fn frozen(&self) -> bool {
        !self.failing.is_empty()
            || self.unrecorded
            || self.running.as_ref().is_some_and(Procedure::is_exclusive)
    }

    /// Members that are missing, or would be if everything were recorded.
    fn gone(&self) -> impl Iterator<Item = Role> {
        let gone =
            |(role, member): &(Role, &Member)| member.state != State::InSync || self.failing.contains(role);
        (0..).map(Role).zip(&self.members).filter(gone).map(|(role, _)| role)
    }

    fn keeps(&self, rule: Rule) -> bool {
        self.rules.keep(rule)
    }

    /// Returns whether assertions of rules that a test can leave out are checked.
    const fn asserts(&self) -> bool {
        self.rules.are_asserted()
    }

    /// Lets everything take its next step that may.
    fn pump(&mut self) {
        loop {
            if self.fenced {
                return;
            }
            self.pump_intent();
            self.pump_procedures();
            if self.pump_recovery() || self.pump_stretches() || self.pump_rebuild() {
                continue;
            }
            self.grant_claims();
            let Some(op) = self.next_ready() else {
                // A procedure whose step needed no action goes on at once.
                if self.running.as_ref().is_some_and(|running| running.waiting.is_empty()) && !self.blocked()
                {
                    continue;
                }
                return;
            };
            self.ready.remove(&op);
            self.step(op);
        }
    }
}

/// The bitmap that was found, to be gone on with.
fn intent_of(assembly: &Assembly) -> Option<Intent> {
    let looks = || assembly.members.iter().flatten();
    let size = looks().map(|look| look.superblock.size).next().unwrap_or(0);
    let header = looks().find_map(|look| look.bitmap.as_ref().map(|bitmap| *bitmap.header()));
    header.filter(|_| !assembly.bitmap.is_empty()).map(|header| {
        let region = u64::from(header.chunk_bytes);
        Intent::new(assembly.bitmap.clone(), region, (size * SECTOR).div_ceil(region))
    })
}

/// The members that were found, and the missing ones.
fn members_of(assembly: &Assembly, windows: Windows) -> Vec<Member> {
    let like = assembly.members.iter().flatten().next().map(|look| (look.superblock.clone(), look.place));
    let member = |look: &Option<MemberLook>| match look {
        Some(look) => Some(found_member(look, &assembly.newest, windows)),
        None => like.clone().map(|(superblock, place)| Member::missing(superblock, place)),
    };
    assembly.members.iter().filter_map(member).collect()
}

/// A member as it was found.
fn found_member(look: &MemberLook, newest: &V1, windows: Windows) -> Member {
    let rebuilding = look.superblock.feature_map & Features::RECOVERY_OFFSET != 0;
    // Of whole windows.
    let restored = Window(look.superblock.recovery_offset.saturating_mul(SECTOR) / windows.bytes());
    let restored = if rebuilding { restored.min(Window(windows.count)) } else { Window(0) };
    let mut member = Member {
        state: if rebuilding { State::Rebuilding(restored) } else { State::InSync },
        space: Space::new(look.place.log.map_or(0, |log| log.len)),
        bad: look.bad.clone(),
        listed: look.bad.clone(),
        last: mark(&look.superblock),
        serial: look.head.map_or(0, |head| head.serial),
        fresh: false,
        restored,
        flushing: restored,
        ..Member::missing(look.superblock.clone(), look.place)
    };
    member.follow(newest);
    member
}
