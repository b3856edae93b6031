//! Steps of flushes and superblock updates: commands to the members, and what holds when all of
//! them have ended.

use super::procedure::{Change, Goal, Procedure, Step};
use super::{Owner, Volume};
use crate::action::{Command, Effect, RequestId};
use crate::assemble::Rule;
use crate::member::{CommonHead, Member, State};
use pumice_base::units::Role;

impl Volume {
    /// The step under way is done on every member.
    pub(super) fn next_step(&mut self) {
        let Some(mut running) = self.running.take() else { return };
        if let Some(step) = running.step.take() {
            self.step_ended(step, &mut running);
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

    /// Notes that a step has ended on every member.
    fn step_ended(&mut self, step: Step, running: &mut Procedure) {
        match step {
            Step::Bitmap => {
                if let Some(intent) = &mut self.intent {
                    intent.written();
                }
                self.ready.extend(self.ops.keys());
            }
            Step::Flush => {
                for member in self.members.iter_mut().filter(|member| member.here()) {
                    member.restored = member.flushing;
                }
                if !self.keeps(Rule::RoomAfterHorizon) {
                    self.free_records(running.horizon);
                }
            }
            Step::Superblocks if running.finishing => {
                running.finishing = false;
                self.settle_bitmap();
            }
            Step::Superblocks => {
                self.log_begins = false;
                self.settle_bitmap();
                for member in self.members.iter_mut().filter(|member| member.here()) {
                    member.fresh = false;
                }
            }
            Step::Heads if running.horizon > self.numbers.released() => {
                self.may_release(running);
                self.numbers.release(running.horizon);
                self.free_records(running.horizon);
            }
            Step::Heads | Step::BadBlocks | Step::Rebuilt => {}
        }
    }

    /// Asserts what was waited for before R rises.
    fn may_release(&self, running: &Procedure) {
        let has_it = |member: &Member| member.place.log.is_none() || member.head_released >= running.horizon;
        let all = self.members.iter().filter(|member| member.here()).all(has_it);
        assert!(!self.asserts() || all, "L4: R is durable on every member in sync before it counts");
        assert!(
            !self.asserts() || !matches!(running.goal, Goal::Update(Change::Failed)),
            "L8: the update that records a failure does not raise R"
        );
    }

    /// Frees the room of records up to a number, on every member.
    fn free_records(&mut self, upto: u64) {
        assert!(
            !self.asserts() || upto <= self.numbers.released(),
            "L3: the room of a record is free when R covers it, durably, on every member"
        );
        self.members.iter_mut().for_each(|member| member.space.release(upto));
    }

    /// The command of one step to one member; `None` if there is nothing to do on it.
    fn command(&mut self, step: Step, role: Role, running: &mut Procedure) -> Option<Command> {
        let put = |(at, bytes)| Command::Put { role, at, bytes };
        match step {
            Step::Flush => Some(self.flush_member(role, running)),
            Step::BadBlocks => self.bad_blocks_of(role).map(put),
            Step::Heads => self.head_of(role, running).map(put),
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
            Step::Rebuilt | Step::Superblocks => self.superblock_of(role, running).map(put),
        }
    }

    fn flush_member(&mut self, role: Role, running: &mut Procedure) -> Command {
        // During recovery the old horizon stands until bad blocks are on the members. And a member
        // that failed has not flushed: until the superblocks say so it may come back, and be
        // believed.
        let failed = matches!(running.goal, Goal::Update(Change::Failed));
        if self.recovery.is_none() && !(failed && self.keeps(Rule::FailureBeforeHorizon)) {
            running.horizon = self.numbers.all_in_place();
        }
        let member = &mut self.members[role.index()];
        member.flushing = member.lowest();
        if member.listed != member.bad {
            member.listed.clone_from(&member.bad);
            member.list_changed = true;
        }
        Command::Flush { role }
    }

    /// The bad-block log of a member, and its place, if it has changed.
    fn bad_blocks_of(&mut self, role: Role) -> Option<(u64, Vec<u8>)> {
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
        bytes
    }

    /// The next head of a member, and its place. The first one of an update settles the next
    /// superblocks of all.
    fn head_of(&mut self, role: Role, running: &mut Procedure) -> Option<(u64, Vec<u8>)> {
        let first = self.members.iter().position(Member::here) == Some(role.index());
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
            released: running.horizon.max(self.numbers.released()),
            writer: if matches!(running.goal, Goal::Release) { 0 } else { self.writer },
            begins: self.log_begins,
        };
        self.members[role.index()].head(role, common)
    }

    /// The superblock of a member that was announced, and its place.
    fn superblock_of(&self, role: Role, running: &mut Procedure) -> Option<(u64, Vec<u8>)> {
        running.unused_count = false;
        let member = &self.members[role.index()];
        let (mark, bytes) = member.next.clone()?;
        let begins = running.finishing && self.log_begins;
        assert!(
            !self.asserts() || begins || member.place.log.is_none() || member.headed == Some(mark),
            "L9: a head that announces a superblock is durable before it: {role}"
        );
        let clean = matches!(running.goal, Goal::Update(Change::Clean)) && !running.finishing;
        assert!(
            !clean || self.numbers.released() + 1 == self.numbers.next(),
            "V20: superblocks call the array clean when R covers every write"
        );
        Some((member.place.superblock, bytes))
    }

    /// Works out the next superblocks.
    fn announce(&mut self, change: Change) {
        let here = || self.members.iter().filter(|member| member.here());
        assert!(
            here().all(|member| member.next.is_none()),
            "V13: an update begins when the one before is finished on all members"
        );
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
        let (flushed, asserts) = (self.keeps(Rule::RestoredIsFlushed), self.asserts());
        for member in self.members.iter_mut().filter(|member| member.here()) {
            if !flushed {
                member.restored = member.lowest();
            }
            let rebuilding = matches!(member.state, State::Rebuilding(_));
            assert!(
                !asserts || !rebuilding || member.restored <= member.flushing,
                "V17: superblocks name no window as restored that was not flushed"
            );
            member.announce(events, clean, now, window);
        }
    }

    fn end(&mut self, running: Procedure) {
        self.ready.extend(self.ops.keys());
        if matches!(running.goal, Goal::Update(_)) {
            self.recording = None;
        }
        match running.goal {
            Goal::Flush(requests) => self.answer_flushes(requests),
            Goal::Update(Change::Dirty) => self.clean = false,
            Goal::Update(Change::Clean) => self.clean = true,
            Goal::Update(Change::Failed) => {
                self.unrecorded = false;
                // Full stripes that are in place become safe from the loss of another member.
                self.want.room = true;
                self.thaw();
            }
            Goal::Update(Change::Recovered) | Goal::Generation => self.recovery_went_on(),
            Goal::Release => self.marked = false,
            Goal::Update(Change::Joined | Change::Rebuilt) => self.choose_again(),
            Goal::Update(Change::Progress) => {}
        }
    }

    fn answer_flushes(&mut self, requests: Vec<(RequestId, u64)>) {
        self.want.room = false;
        for (id, upto) in requests {
            assert!(
                !self.asserts() || upto <= self.numbers.released(),
                "L7: a Flush is answered when R covers every write that was answered before it"
            );
            self.effects.push(Effect::Answer(id, Ok(())));
        }
    }
}
