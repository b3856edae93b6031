//! Flushes and superblock updates: steps over all members, one procedure at a time.
//!
//! `docs/design/volumes.md`, *What md needs on disk*, has the order and the reasons.

use super::{Owner, Volume};
use crate::action::{ActionId, Effect, RequestId};
use crate::assemble::Rule;
use crate::log::Space;
use crate::member::{State, faulty};
use crate::rows::Window;
use pumice_base::units::Role;
use std::collections::{BTreeSet, VecDeque};

/// Reasons why the superblocks are written.
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
    /// The findings of recovery are on the members: bad blocks, failed members.
    Recovered,
}

/// The purpose of a procedure.
#[derive(Debug)]
pub(super) enum Goal {
    Flush(Vec<(RequestId, u64)>),
    Update(Change),
    /// A new generation of the log, empty on every member.
    Generation,
    /// Nobody has the array open any more.
    Release,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
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
    pub(super) goal: Goal,
    pub(super) steps: VecDeque<Step>,
    /// The step under way waits for these.
    pub(super) waiting: BTreeSet<ActionId>,
    pub(super) step: Option<Step>,
    /// Everything up to this number is flushed once the flush is done.
    pub(super) horizon: u64,
    /// Its event count was taken, and no superblock with it is written yet.
    pub(super) unused_count: bool,
    /// The update before is being finished on members that it has not reached.
    pub(super) finishing: bool,
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

    /// Returns whether operations stand still meanwhile.
    pub(super) fn is_exclusive(&self) -> bool {
        !matches!(self.goal, Goal::Flush(_) | Goal::Update(Change::Dirty))
    }

    /// Returns whether superblocks are being written.
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

/// The steps that finish an update on members that lag.
const FINISH: [Step; 4] = [Step::Heads, Step::Bitmap, Step::Rebuilt, Step::Superblocks];
const FLUSH: [Step; 3] = [Step::Flush, Step::BadBlocks, Step::Heads];
const UPDATE: [Step; 6] =
    [Step::Flush, Step::BadBlocks, Step::Heads, Step::Bitmap, Step::Rebuilt, Step::Superblocks];

impl Volume {
    /// Operations that have not begun wait until the members have changed.
    pub(super) fn draining(&self) -> bool {
        !self.joins.is_empty() || self.rebuilt.is_some() || self.want.clean || self.want.progress
    }

    pub(super) fn dirtying(&self) -> bool {
        matches!(&self.running, Some(Procedure { goal: Goal::Update(Change::Dirty), .. }))
    }

    /// Returns whether the running procedure cannot go on although no action of it is under way.
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
            Goal::Flush(requests) => self.want.flush.extend(requests),
            Goal::Update(Change::Dirty) => self.want.dirty = true,
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
        if std::mem::take(&mut self.want.dirty) {
            return self.start(Goal::Update(Change::Dirty), &FINISH);
        }
        // The horizon is one number: an older write that is still on its way would keep it below
        // what is to be flushed.
        let oldest = self.numbers.first_not_in_place().unwrap_or(u64::MAX);
        let covered = |upto: u64| upto < oldest || !self.keeps(Rule::FlushWaits);
        let in_place = self.numbers.all_in_place();
        let any = self.want.flush.iter().any(|(_, upto)| covered(*upto));
        if (self.want.room && in_place > self.numbers.released()) || any {
            let (requests, later): (Vec<_>, Vec<_>) =
                self.want.flush.iter().copied().partition(|(_, upto)| covered(*upto));
            self.want.flush = later;
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
        } else if std::mem::take(&mut self.want.progress) {
            self.start(Goal::Update(Change::Progress), &UPDATE);
        } else if self.want.clean || (self.stopping && !self.clean && self.is_quiet()) {
            self.want.clean = false;
            if self.is_quiet() {
                self.start(Goal::Update(Change::Clean), &UPDATE);
            }
        } else if self.stopping && self.is_quiet() && self.claims.is_empty() && self.marked {
            self.start(Goal::Release, &[Step::Heads]);
        } else if self.stopping && self.is_quiet() && self.claims.is_empty() && self.clean {
            self.stopped();
        }
    }

    /// The array is clean, and nobody has it open any more.
    fn stopped(&mut self) {
        assert!(
            self.numbers.first_not_in_place().is_none() && !self.marked,
            "V19: a volume stops when nothing of it is under way, and no head names its writer"
        );
        self.fenced = true;
        self.effects.push(Effect::Stopped);
    }

    /// Returns whether the log has records that count. Without a log writes have numbers as well,
    /// and one that has begun again waits for the device that joins: nothing must wait for it.
    pub(super) fn counts(&self) -> bool {
        self.use_log && self.numbers.released() + 1 < self.numbers.next()
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
        assert!(
            self.layout.corrects(&self.gone().chain(roles.iter().copied()).collect()),
            "V14: superblocks record no more failures than the code corrects"
        );
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
}
