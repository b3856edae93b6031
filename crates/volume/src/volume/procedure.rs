//! Flushes and superblock updates: steps over all members, one procedure at a time.
//!
//! `docs/design/volumes.md`, *What md needs on disk*, has the order and the reasons.

use super::{Owner, Volume};
use crate::action::{ActionId, Command, Effect, RequestId};
use crate::assemble::Rule;
use crate::log::Space;
use crate::member::{CommonHead, State, faulty};
use crate::rows::Window;
use pumice_units::Role;
use std::collections::{BTreeSet, VecDeque};

/// Why the superblocks are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Change {
    /// A write is to begin.
    Dirty,
    /// Nothing is being written.
    Clean,
    /// Members failed.
    Failed,
    /// A device took an empty role.
    Joined,
    /// A member has been rebuilt.
    Rebuilt,
    /// More of a member has been rebuilt.
    Progress,
    /// What recovery found is on the members: bad blocks, failed members.
    Recovered,
}

/// What a procedure is for.
#[derive(Debug)]
enum Goal {
    Flush(Vec<(RequestId, u64)>),
    Update(Change),
    /// A new generation of the log, empty on every member.
    Generation,
    /// Nobody has the array open any more.
    Release,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Flush,
    BadBlocks,
    Heads,
    Bitmap,
    /// The superblock of a member whose rebuild has ended.
    Rebuilt,
    /// All others.
    Superblocks,
}

/// A procedure under way.
#[derive(Debug)]
pub(super) struct Procedure {
    goal: Goal,
    steps: VecDeque<Step>,
    /// The step under way waits for these.
    pub(super) waiting: BTreeSet<ActionId>,
    step: Option<Step>,
    /// Everything up to this number is flushed once the flush is done.
    horizon: u64,
    /// Its event count was taken, and no superblock with it is written yet.
    unused_count: bool,
    /// The update before is being finished on members that it has not reached.
    finishing: bool,
    /// Something of it was not done, even if its member is back since.
    pub(super) broken: bool,
}

impl Procedure {
    fn new(goal: Goal, steps: &[Step]) -> Self {
        Self {
            goal,
            steps: steps.iter().copied().collect(),
            waiting: BTreeSet::new(),
            step: None,
            horizon: 0,
            unused_count: false,
            finishing: false,
            broken: false,
        }
    }

    /// Whether operations stand still meanwhile.
    pub(super) fn is_exclusive(&self) -> bool {
        !matches!(self.goal, Goal::Flush(_) | Goal::Update(Change::Dirty))
    }

    /// Whether superblocks are being written.
    pub(super) fn writes_superblocks(&self) -> bool {
        matches!(self.step, Some(Step::Rebuilt | Step::Superblocks))
    }

    /// The requests that wait for it.
    pub(super) fn requests(self) -> Vec<(RequestId, u64)> {
        match self.goal {
            Goal::Flush(requests) => requests,
            _ => Vec::new(),
        }
    }
}

/// What finishes an update on members that lag.
const FINISH: [Step; 4] = [Step::Heads, Step::Bitmap, Step::Rebuilt, Step::Superblocks];
const FLUSH: [Step; 3] = [Step::Flush, Step::BadBlocks, Step::Heads];
const UPDATE: [Step; 6] =
    [Step::Flush, Step::BadBlocks, Step::Heads, Step::Bitmap, Step::Rebuilt, Step::Superblocks];

impl Volume {
    /// Operations that have not begun wait until the members have changed.
    pub(super) fn draining(&self) -> bool {
        !self.joins.is_empty() || self.rebuilt.is_some() || self.want_clean || self.want_progress
    }

    pub(super) fn dirtying(&self) -> bool {
        matches!(&self.running, Some(Procedure { goal: Goal::Update(Change::Dirty), .. }))
    }

    /// Whether the running procedure cannot go on although no action of it is under way.
    pub(super) fn blocked(&self) -> bool {
        let next = self.running.as_ref().and_then(|running| running.steps.front());
        let writing = self.actions.owners().any(|owner| matches!(owner, Owner::Intent));
        next == Some(&Step::Bitmap) && writing
    }

    pub(super) fn pump_procedures(&mut self) {
        if self.running.as_ref().is_some_and(|running| running.waiting.is_empty()) {
            if self.failing.is_empty() && !self.running.as_ref().is_some_and(|running| running.broken) {
                self.next_step();
            } else {
                self.give_up();
            }
        }
        if self.running.is_none() {
            self.next_procedure();
        }
    }

    /// A member failed in the middle: what was wanted is wanted still.
    fn give_up(&mut self) {
        let Some(running) = self.running.take() else { return };
        self.give_up_bitmap(running.step == Some(Step::Bitmap));
        if running.unused_count {
            // Or members whose superblocks are not written yet when the power goes would be two
            // counts behind the others, and nobody's members any more.
            self.events -= 1;
            self.members.iter_mut().for_each(|member| member.next = None);
        }
        match running.goal {
            Goal::Flush(requests) => self.want_flush.extend(requests),
            Goal::Update(Change::Dirty) => self.want_dirty = true,
            // The states are in memory; the update for the failure carries them.
            Goal::Update(_) => self.unrecorded = true,
            Goal::Generation | Goal::Release => {}
        }
    }

    fn next_procedure(&mut self) {
        if !self.failing.is_empty() || self.unrecorded {
            return self.record_failures();
        }
        self.release_hold();
        if self.recovery.is_some() {
            return;
        }
        if std::mem::take(&mut self.want_dirty) {
            return self.start(Goal::Update(Change::Dirty), &FINISH);
        }
        // The horizon is one number: an older write that is still on its way would keep it below
        // what is to be flushed.
        let oldest = self.unapplied.first().copied().unwrap_or(u64::MAX);
        let covered = |upto: u64| upto < oldest || !self.keeps(Rule::FlushWaits);
        let in_place = oldest.min(self.next_sequence) - 1;
        let any = self.want_flush.iter().any(|(_, upto)| covered(*upto));
        if (self.want_room && in_place > self.released) || any {
            let (requests, later): (Vec<_>, Vec<_>) =
                self.want_flush.iter().copied().partition(|(_, upto)| covered(*upto));
            self.want_flush = later;
            return self.start(Goal::Flush(requests), &FLUSH);
        }
        if self.ops.values().any(super::Op::is_active) || self.has_begun_stretches() {
            return;
        }
        if !self.joins.is_empty() && self.counts() && self.keeps(Rule::HorizonBeforeJoin) {
            // It begins a generation, and so makes all records void; also those of a member that
            // fails before it was flushed, and is believed if the power goes.
            self.start(Goal::Flush(Vec::new()), &FLUSH);
        } else if let Some(join) = self.joins.pop_front() {
            self.join(join);
        } else if let Some(role) = self.rebuilt.take() {
            // It may have failed since its last window was restored.
            let member = &mut self.members[role.index()];
            if member.state == State::Rebuilding(Window(self.windows.count)) {
                member.state = State::InSync;
                self.recording = Some(role);
                self.start(Goal::Update(Change::Rebuilt), &UPDATE);
            }
        } else if std::mem::take(&mut self.want_progress) {
            self.start(Goal::Update(Change::Progress), &UPDATE);
        } else if self.want_clean || (self.stopping && !self.clean && self.is_quiet()) {
            self.want_clean = false;
            if self.is_quiet() {
                self.start(Goal::Update(Change::Clean), &UPDATE);
            }
        } else if self.stopping && self.is_quiet() && self.claims.is_empty() && self.marked {
            self.start(Goal::Release, &[Step::Heads]);
        } else if self.stopping && self.is_quiet() && self.claims.is_empty() && self.clean {
            self.fenced = true;
            self.effects.push(Effect::Stopped);
        }
    }

    /// Whether the log has records that count. Without a log writes have numbers as well, and one
    /// that has begun again waits for the device that joins: nothing must wait for it.
    fn counts(&self) -> bool {
        self.use_log && self.released + 1 < self.next_sequence
    }

    /// Superblocks of the others are made to say which members failed, unless the code does not
    /// survive that.
    fn record_failures(&mut self) {
        if !self.actions.is_empty() {
            return;
        }
        if self.recovery.is_some() {
            // Everything is looked at again, without them.
            self.fenced = true;
            return self.effects.push(Effect::AssembleAgain);
        }
        if !self.layout.corrects(&self.gone().collect()) {
            if !std::mem::replace(&mut self.held, true) {
                self.effects.push(Effect::Held(true));
            }
            return;
        }
        self.release_hold();
        let failing = std::mem::take(&mut self.failing);
        self.call_faulty(&failing);
        if !self.keeps(Rule::FailureFirst) {
            return self.thaw();
        }
        self.unrecorded = true;
        self.start(Goal::Update(Change::Failed), &UPDATE);
    }

    fn release_hold(&mut self) {
        if std::mem::take(&mut self.held) {
            self.effects.push(Effect::Held(false));
        }
    }

    fn call_faulty(&mut self, roles: &BTreeSet<Role>) {
        let numbers: Vec<u32> =
            roles.iter().map(|role| self.members[role.index()].superblock.dev_number).collect();
        for role in roles {
            let member = &mut self.members[role.index()];
            member.state = State::Failed;
            member.space = Space::new(0);
            member.next = None;
        }
        self.set_roles(&faulty(numbers));
    }

    pub(super) fn set_roles(&mut self, roles: &[(u32, u16)]) {
        for member in &mut self.members {
            for (number, role) in roles {
                if let Some(entry) = member.superblock.dev_roles.get_mut(*number as usize) {
                    *entry = *role;
                }
            }
        }
    }

    pub(super) fn start_recovered(&mut self) {
        self.start(Goal::Update(Change::Recovered), &UPDATE);
    }

    pub(super) fn start_generation(&mut self) {
        self.start(Goal::Generation, &[Step::Heads]);
    }

    pub(super) fn start_joined(&mut self) {
        self.start(Goal::Update(Change::Joined), &UPDATE);
    }

    fn start(&mut self, goal: Goal, steps: &[Step]) {
        let mut running = Procedure::new(goal, steps);
        let lags = self.members.iter().any(|member| member.here() && member.next.is_some());
        if lags && matches!(running.goal, Goal::Update(_)) {
            // The next count on some, and the one before the last on others, would be a gap of two.
            running.finishing = true;
            for step in FINISH.into_iter().rev() {
                running.steps.push_front(step);
            }
        }
        self.running = Some(running);
        self.next_step();
    }

    /// The step under way is done on every member.
    fn next_step(&mut self) {
        let Some(mut running) = self.running.take() else { return };
        match running.step.take() {
            Some(Step::Bitmap) => {
                if let Some(intent) = &mut self.intent {
                    intent.written();
                }
                self.ready.extend(self.ops.keys());
            }
            Some(Step::Flush) => {
                for member in self.members.iter_mut().filter(|member| member.here()) {
                    member.restored = member.flushing;
                }
                if !self.keeps(Rule::RoomAfterHorizon) {
                    self.members.iter_mut().for_each(|member| member.space.release(running.horizon));
                }
            }
            Some(Step::Superblocks) if running.finishing => {
                running.finishing = false;
                self.settle_bitmap();
            }
            Some(Step::Superblocks) => {
                self.log_begins = false;
                self.settle_bitmap();
                for member in self.members.iter_mut().filter(|member| member.here()) {
                    member.fresh = false;
                }
            }
            Some(Step::Heads) if running.horizon > self.released => {
                self.released = running.horizon;
                for member in &mut self.members {
                    member.space.release(running.horizon);
                }
                self.unlogged.retain(|sequence| *sequence > running.horizon);
            }
            _ => {}
        }
        let Some(step) = running.steps.pop_front() else { return self.end(running) };
        if step == Step::Bitmap && self.intent.as_mut().is_some_and(|intent| !intent.hold()) {
            running.steps.push_front(step);
            self.running = Some(running);
            return;
        }
        running.step = Some(step);
        for role in (0..self.layout.members()).map(Role) {
            if self.members[role.index()].here()
                && let Some(command) = self.command(step, role, &mut running)
            {
                let action = self.issue(Owner::Procedure, command);
                running.waiting.insert(action);
            }
        }
        self.running = Some(running);
    }

    /// What one step does on one member.
    fn command(&mut self, step: Step, role: Role, running: &mut Procedure) -> Option<Command> {
        let first = self.members.iter().position(super::Member::here) == Some(role.index());
        let put = |(at, bytes)| Command::Put { role, at, bytes };
        match step {
            Step::Flush => {
                // During recovery the old horizon stands until bad blocks are on the members. And a
                // member that failed has not flushed: until the superblocks say so it may come
                // back, and be believed.
                let failed = matches!(running.goal, Goal::Update(Change::Failed));
                if self.recovery.is_none() && !(failed && self.keeps(Rule::FailureBeforeHorizon)) {
                    running.horizon = self.unapplied.first().map_or(self.next_sequence, |first| *first) - 1;
                }
                let member = &mut self.members[role.index()];
                member.flushing = member.lowest();
                if member.listed != member.bad {
                    member.listed.clone_from(&member.bad);
                    member.list_changed = true;
                }
                Some(Command::Flush { role })
            }
            Step::BadBlocks => {
                let member = &mut self.members[role.index()];
                if !std::mem::take(&mut member.list_changed) && !member.fresh {
                    return None;
                }
                if member.place.bad_blocks.is_none() && member.listed.is_empty() {
                    // Nowhere to list them, and nothing to list.
                    return None;
                }
                let bytes = member.bad_block_bytes();
                if bytes.is_none() {
                    // No room to remember them: a member that cannot be trusted is no member.
                    self.failing.insert(role);
                }
                bytes.map(put)
            }
            Step::Heads => {
                if running.finishing && self.log_begins {
                    // No head vouches for what is there: they begin with the next superblocks.
                    return None;
                }
                if let (true, false, Goal::Update(change)) = (first, running.finishing, &running.goal) {
                    let change = *change;
                    self.announce(change);
                    running.unused_count = true;
                }
                let left_out = match running.goal {
                    Goal::Flush(_) => !first && !self.keeps(Rule::HorizonEverywhere),
                    Goal::Update(_) => !self.keeps(Rule::HeadsFirst),
                    Goal::Generation | Goal::Release => false,
                };
                if left_out {
                    return None;
                }
                let common = CommonHead {
                    generation: self.generation,
                    nonce: self.nonce,
                    sums: self.sums,
                    released: running.horizon.max(self.released),
                    writer: if matches!(running.goal, Goal::Release) { 0 } else { self.writer },
                    begins: self.log_begins,
                };
                self.members[role.index()].head(role, common).map(put)
            }
            Step::Bitmap => {
                let (events, whole) = (self.events, self.missing().is_empty());
                let member = &self.members[role.index()];
                let (area, intent) = (member.place.bitmap?, self.intent.as_mut()?);
                let header = intent.header(events, whole.then_some(events));
                let bytes = if member.fresh { intent.bytes() } else { header };
                Some(put((area.start, bytes)))
            }
            // First, in case the update also says that another member failed: by its old superblock
            // the one that is rebuilt is missing as well.
            Step::Rebuilt if self.recording != Some(role) || !self.keeps(Rule::RebuiltFirst) => None,
            Step::Rebuilt | Step::Superblocks => {
                running.unused_count = false;
                let member = &self.members[role.index()];
                let (_, bytes) = member.next.clone()?;
                Some(put((member.place.superblock, bytes)))
            }
        }
    }

    /// Works out the next superblocks.
    fn announce(&mut self, change: Change) {
        self.events += 1;
        let clean = match change {
            Change::Dirty => false,
            Change::Clean => true,
            _ => self.clean,
        };
        if self.missing().is_empty() {
            // Nothing that failed so far comes back as it is: its number is free.
            self.forget_failed();
        }
        let (events, now, window) = (self.events, self.now, self.windows.bytes());
        let flushed = self.keeps(Rule::RestoredIsFlushed);
        for member in self.members.iter_mut().filter(|member| member.here()) {
            if !flushed {
                member.restored = member.lowest();
            }
            member.announce(events, clean, now, window);
        }
    }

    fn end(&mut self, running: Procedure) {
        self.ready.extend(self.ops.keys());
        if matches!(running.goal, Goal::Update(_)) {
            self.recording = None;
        }
        match running.goal {
            Goal::Flush(requests) => {
                self.want_room = false;
                self.effects.extend(requests.into_iter().map(|(id, _)| Effect::Answer(id, Ok(()))));
            }
            Goal::Update(Change::Dirty) => self.clean = false,
            Goal::Update(Change::Clean) => self.clean = true,
            Goal::Update(Change::Failed) => {
                self.unrecorded = false;
                // Full stripes that are in place become safe from the loss of another member.
                self.want_room = true;
                self.thaw();
            }
            Goal::Update(Change::Recovered) | Goal::Generation => self.recovery_went_on(),
            Goal::Release => self.marked = false,
            Goal::Update(Change::Joined | Change::Rebuilt) => self.choose_again(),
            Goal::Update(Change::Progress) => {}
        }
    }
}
