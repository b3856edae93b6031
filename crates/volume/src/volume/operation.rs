//! One request's, or the volume's own, work on one window.

use super::{Owner, Volume};
use crate::action::{ActionId, Command, Effect, Outcome, RequestError, RequestId};
use crate::assemble::Rule;
use crate::choice::Begun;
use crate::near::NearOp;
use crate::plan::{Method, RowPlan, Tie};
use crate::rows::{Rows, Touch, Window};
use crate::sequencer::OpId;
use pumice_base::units::Role;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

/// The purpose of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Read(RequestId),
    Write(RequestId),
    /// Blocks of a member from the others'.
    Rebuild {
        role: Role,
        rows: Rows,
    },
    /// Blocks of a member that its medium did not give, if it still does not.
    Rewrite {
        role: Role,
        rows: Rows,
    },
    /// Parity from data.
    Resync {
        rows: Rows,
    },
}

impl Kind {
    pub(super) const fn writes(self) -> bool {
        !matches!(self, Self::Read(_))
    }

    pub(super) const fn own(self) -> bool {
        !matches!(self, Self::Read(_) | Self::Write(_))
    }
}

/// The phase of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Phase {
    /// Nothing was done.
    Start,
    /// Waits for the superblocks to be dirty and for its bits.
    Intent,
    /// A block that the medium did not give is asked for again.
    Asking,
    Reading,
    Folding,
    /// Waits for room in the log, and for a place in local memory.
    Room,
    /// Near: new data go to their places.
    Filling,
    /// Near: nodes send interims.
    Sending,
    /// Records are written; near: with the new parities.
    Logging,
    Applying,
    /// It failed after it had logged: its records have to be released.
    Voiding,
}

/// An operation.
#[derive(Debug)]
pub(super) struct Op {
    pub(super) kind: Kind,
    pub(super) window: Window,
    pub(super) touches: Vec<Touch>,
    pub(super) phase: Phase,
    waiting: Vec<ActionId>,
    pub(super) locked: bool,
    /// Its regions count it as a user.
    entered: bool,
    plans: Vec<(u32, Arc<RowPlan>)>,
    pub(super) stored: Arc<BTreeMap<Role, Rows>>,
    pub(super) unreadable: BTreeMap<Role, Rows>,
    pub(super) sequences: Vec<u64>,
    /// Bytes of each of its records, at most, once it is logged.
    pub(super) reserved: u64,
    /// It goes the near way.
    pub(super) near: Option<NearOp>,
    /// An update of it was not done: it turns to the far way.
    pub(super) refused: bool,
    /// It stays on the far way.
    pub(super) barred: bool,
    /// The measurement of it.
    pub(super) begun: Option<Begun>,
}

impl Op {
    /// An action of it is over.
    pub(super) fn returned(&mut self, action: ActionId, outcome: Outcome, role: Option<Role>) {
        self.waiting.retain(|waiting| *waiting != action);
        // Also one of a member that is known to be missing: nothing else is done about that.
        let not_done = matches!(outcome, Outcome::Refused | Outcome::Failed);
        self.refused |= not_done && self.near.as_ref().is_some_and(|near| !near.made);
        if let (Outcome::Unreadable(rows), Some(role)) = (outcome, role) {
            self.unreadable.entry(role).or_default().0 |= rows.0;
            self.phase = Phase::Intent;
        }
    }

    /// Returns whether no action of it is under way.
    pub(super) fn is_done(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Blocks of a member that the medium did not give to it.
    pub(super) fn misses(&self, role: Role) -> Rows {
        self.unreadable.get(&role).copied().unwrap_or_default()
    }

    /// Returns whether it has done something that must not be left half done while members change.
    /// Others wait until one that was logged is logged again, so it never waits for them.
    pub(super) fn is_active(&self) -> bool {
        self.phase > Phase::Intent || self.reserved > 0
    }
}

impl Volume {
    pub(super) fn add_op(&mut self, kind: Kind, window: Window, touches: Vec<Touch>) -> OpId {
        let id = OpId(self.next_op);
        self.next_op += 1;
        let alone = kind.writes() && self.keeps(Rule::OneWrite);
        let locked = self.locks.acquire(id, window, alone);
        let op = Op {
            kind,
            window,
            touches,
            phase: Phase::Start,
            waiting: Vec::new(),
            locked,
            entered: false,
            plans: Vec::new(),
            stored: Arc::default(),
            unreadable: BTreeMap::new(),
            sequences: Vec::new(),
            reserved: 0,
            near: None,
            refused: false,
            barred: false,
            begun: None,
        };
        self.ops.insert(id, op);
        self.ready.insert(id);
        id
    }

    /// The first operation that may take a step. Those that wait for an action or for their lock
    /// are not looked at again until it has come, which makes them ready.
    pub(super) fn next_ready(&mut self) -> Option<OpId> {
        let mut asleep = Vec::new();
        let next = self.ready.iter().copied().find(|id| {
            let sleeps = self.ops.get(id).is_none_or(|op| !op.locked || !op.waiting.is_empty());
            if sleeps {
                asleep.push(*id);
            }
            !sleeps && self.may_step(*id)
        });
        for id in asleep {
            self.ready.remove(&id);
        }
        next
    }

    fn may_step(&self, id: OpId) -> bool {
        let Some(op) = self.ops.get(&id) else { return false };
        let begun = op.is_active() || !self.draining();
        let recovered = self.recovery.is_none() || op.kind.own();
        op.locked && op.waiting.is_empty() && begun && recovered && !self.frozen() && !self.waits(op)
    }

    /// Returns whether it waits for something that is not there yet.
    fn waits(&self, op: &Op) -> bool {
        let bits = |op: &Op| {
            let range = self.bytes_of(op.window);
            !self.keeps(Rule::BitsFirst) || self.intent.as_ref().is_none_or(|intent| intent.durable(&range))
        };
        match (op.phase, op.kind) {
            _ if op.refused => false,
            (Phase::Intent, Kind::Write(_)) => self.want.dirty || self.clean && self.dirtying() || !bits(op),
            (Phase::Voiding, _) => self.want.room,
            (Phase::Room, Kind::Write(_)) => {
                let first = !self.log_again.is_empty() && op.sequences.is_empty();
                let full = self.use_log && self.want.room && !self.fits(op);
                !bits(op) || first || full || self.needs_place(op)
            }
            (Phase::Room, _) => self.needs_place(op),
            _ => false,
        }
    }

    pub(super) fn bytes_of(&self, window: Window) -> Range<u64> {
        let start = self.windows.start(window);
        start..start + self.windows.bytes()
    }

    /// Takes the operation's next step. It has its window and waits for nothing.
    pub(super) fn step(&mut self, id: OpId) {
        assert!(!self.frozen(), "V15: no operation takes a step while a failure is not recorded");
        let dirty_first = self.keeps(Rule::DirtyFirst);
        let Some(op) = self.ops.get_mut(&id) else { return };
        match op.phase {
            _ if op.refused => self.turn_far(id),
            Phase::Start => {
                op.phase = Phase::Intent;
                if let (Kind::Write(_), false) = (op.kind, std::mem::replace(&mut op.entered, true)) {
                    let range = self.bytes_of(self.ops[&id].window);
                    if let Some(intent) = &mut self.intent {
                        intent.enter(&range);
                    }
                }
                self.ready.insert(id);
            }
            Phase::Intent if self.clean && dirty_first && matches!(op.kind, Kind::Write(_)) => {
                self.want.dirty = true;
                self.ready.insert(id);
            }
            Phase::Intent => self.plan(id),
            Phase::Asking => self.finish(id, Ok(())),
            Phase::Reading => self.fold(id),
            Phase::Folding => self.folded(id),
            Phase::Room => self.log(id),
            Phase::Filling => self.near_send(id),
            Phase::Sending => self.near_make(id),
            Phase::Logging => self.logged(id),
            Phase::Applying => self.applied(id),
            Phase::Voiding => self.finish(id, Err(RequestError::Lost)),
        }
    }

    fn plan(&mut self, id: OpId) {
        if self.asks(id) {
            return;
        }
        let op = &self.ops[&id];
        let Some((mut plans, spoiled)) = self.row_plans(op, Tie::Reconstruct) else {
            return self.finish(id, Err(RequestError::Lost));
        };
        let (window, base) = (op.window, op.window.0 * self.windows.rows);
        for (role, row) in spoiled {
            self.members[role.index()].bad.insert(base + u64::from(row));
        }
        let mut stored: BTreeMap<Role, Rows> = BTreeMap::new();
        for (row, plan) in &plans {
            for output in plan.outputs.iter().filter(|output| output.stored) {
                stored.entry(output.role).or_default().0 |= 1 << row;
            }
        }
        if let Some(op) = self.ops.get_mut(&id) {
            op.stored = Arc::new(stored);
        }
        let wants_near = self.wants_near(id, &plans);
        let op = &self.ops[&id];
        let logs = self.use_log && matches!(op.kind, Kind::Write(_));
        let log = logs.then(|| self.record_kind(op));
        let mut near = if wants_near { self.near_of(op, &plans, log) } else { None };
        // On a tie, the way that needs fewer commands of the host. Both store the same.
        if let Some(first) = &near
            && plans.iter().all(|(_, plan)| plan.method == Method::Reconstruct)
            && let Some((others, _)) = self.row_plans(op, Tie::ReadModifyWrite)
            && let Some(second) = self.near_of(op, &others, log)
            && second.plan.moved(self.near_nodes()) < first.plan.moved(self.near_nodes())
        {
            (plans, near) = (others, Some(second));
        }
        let mut reads: BTreeMap<Role, Rows> = BTreeMap::new();
        for (row, plan) in &plans {
            for role in &plan.reads {
                reads.entry(*role).or_default().0 |= 1 << row;
            }
        }
        self.ready.insert(id);
        let is_near = near.is_some();
        if let Some(op) = self.ops.get_mut(&id) {
            (op.plans, op.near) = (plans, near);
            op.phase = if is_near { Phase::Room } else { Phase::Reading };
        }
        if is_near {
            return;
        }
        for (role, rows) in reads {
            let at = self.at(role, window);
            self.issue_for(id, Command::Read { op: id, role, at, rows });
        }
    }

    /// The place where a window begins on a member's device.
    pub(super) fn at(&self, role: Role, window: Window) -> u64 {
        self.members[role.index()].place.data + self.windows.start(window)
    }

    pub(super) fn issue_for(&mut self, id: OpId, command: Command) {
        let action = self.issue(Owner::Op(id), command);
        if let Some(op) = self.ops.get_mut(&id) {
            op.waiting.push(action);
        }
    }

    fn fold(&mut self, id: OpId) {
        let Some(op) = self.ops.get_mut(&id) else { return };
        op.phase = Phase::Folding;
        let request = match op.kind {
            Kind::Read(request) | Kind::Write(request) => Some(request),
            _ => None,
        };
        // Whoever folds again plans again.
        let (plans, touches) = (std::mem::take(&mut op.plans), op.touches.clone());
        self.issue_for(id, Command::Fold { op: id, plans, touches, request });
    }

    fn folded(&mut self, id: OpId) {
        let Some(op) = self.ops.get_mut(&id) else { return };
        op.phase = Phase::Room;
        if !op.kind.writes() {
            return self.applied(id);
        }
        self.ready.insert(id);
    }

    /// All new blocks are in place, or what is read is here.
    fn applied(&mut self, id: OpId) {
        match self.ops.get(&id) {
            Some(Op { kind: Kind::Read(request), touches, .. }) => {
                self.effects.push(Effect::Deliver { op: id, request: *request, touches: touches.clone() });
            }
            Some(Op { kind: Kind::Write(_), stored, .. }) => {
                let here = |role: &Role| self.members[role.index()].here();
                assert!(
                    !self.asserts() || stored.keys().all(here),
                    "L6: a write that a member missed ends when it was logged again without the member"
                );
            }
            _ => {}
        }
        self.finish(id, Ok(()));
    }

    /// An operation that had logged cannot be done. Some of its records are on their members; if
    /// the others are lost, replay takes the write for logged. It must not do that once the row was
    /// written again, so the window is free when the records are released.
    fn is_void(&mut self, id: OpId) -> bool {
        let sequences = self.ops.get(&id).map_or_else(Vec::new, |op| op.sequences.clone());
        let released = sequences.last().is_none_or(|last| *last <= self.numbers.released());
        if released || !self.use_log || !self.keeps(Rule::FailedIsVoid) {
            return true;
        }
        for sequence in &sequences {
            self.numbers.give_up(*sequence);
        }
        self.unreserve(id);
        if let Some(op) = self.ops.get_mut(&id) {
            op.phase = Phase::Voiding;
        }
        self.want.room = true;
        self.ready.insert(id);
        false
    }

    /// The operation is over: everything is in place, or it could not be done and nothing was
    /// stored.
    pub(super) fn finish(&mut self, id: OpId, result: Result<(), RequestError>) {
        if result.is_err() && !self.is_void(id) {
            return;
        }
        self.unreserve(id);
        let Some(op) = self.ops.remove(&id) else { return };
        let released = |number: &u64| *number <= self.numbers.released();
        assert!(
            !self.asserts() || result.is_ok() || !self.use_log || op.sequences.last().is_none_or(released),
            "L10: a write that failed after it had logged ends when R covers its records"
        );
        self.ready.remove(&id);
        for sequence in &op.sequences {
            self.numbers.placed(*sequence);
            if !self.use_log {
                self.numbers.has_no_blocks(*sequence);
            }
        }
        if result.is_ok() && op.kind.writes() {
            let base = op.window.0 * self.windows.rows;
            // An operation of the volume's own has no number, and a flush may be under way.
            let number = op.sequences.last().copied().unwrap_or(self.numbers.next());
            for (role, rows) in &*op.stored {
                let member = &mut self.members[role.index()];
                for row in rows.iter() {
                    if member.bad.remove(&(base + u64::from(row))) {
                        member.mended = number;
                    }
                }
            }
        }
        match (&op.near, op.kind) {
            (Some(_), Kind::Write(_)) => self.ways.0 += 1,
            (None, Kind::Write(_)) if result.is_ok() => self.ways.1 += 1,
            _ => {}
        }
        self.ended(&op, result.is_ok());
        let range = self.bytes_of(op.window);
        if let (true, Kind::Write(_), Some(intent)) = (op.entered, op.kind, &mut self.intent) {
            intent.leave(&range, op.sequences.last().copied().unwrap_or(0));
        }
        match (self.rebuilding.remove(&id), op.kind) {
            (Some(window), Kind::Rebuild { role, .. }) => {
                self.members[role.index()].under_way.remove(&window);
                self.rewrite(&op);
            }
            (None, Kind::Rewrite { role, .. }) => self.was_rewritten(role, &op),
            (None, Kind::Read(_) | Kind::Write(_)) if result.is_ok() => self.rewrite(&op),
            _ => {}
        }
        let next = self.locks.release(id, op.window);
        self.admit(next);
        self.leave_place(op.near);
        self.effects.push(Effect::Forget(id));
        if let Kind::Read(request) | Kind::Write(request) = op.kind {
            self.part_done(request, result);
        }
    }

    fn part_done(&mut self, id: RequestId, result: Result<(), RequestError>) {
        let Some(pending) = self.requests.get_mut(&id) else { return };
        assert!(pending.left > 0, "V12: a request is answered once, when all its parts have ended");
        pending.left -= 1;
        pending.error = pending.error.or(result.err());
        if pending.left > 0 {
            return;
        }
        let (error, fua) = (pending.error, pending.fua);
        self.requests.remove(&id);
        match (error, fua) {
            (Some(error), _) => self.effects.push(Effect::Answer(id, Err(error))),
            (None, true) => self.want.flush.push((id, self.numbers.in_place())),
            (None, false) => self.effects.push(Effect::Answer(id, Ok(()))),
        }
    }

    /// Members changed, or may have missed something: operations that had begun do it again. New
    /// blocks that were made stay right: they are absolute, and the row was not written by anybody
    /// else.
    pub(super) fn thaw(&mut self) {
        self.choose_again();
        let gone: Vec<Role> =
            (0..).zip(&self.members).filter(|(_, m)| !m.here()).map(|(role, _)| Role(role)).collect();
        let again = if self.keeps(Rule::LogAgain) { Phase::Room } else { Phase::Applying };
        let keep = self.keeps(Rule::KeepMade);
        for (id, op) in &mut self.ops {
            if let Some(near) = &op.near
                && !(near.made && keep)
            {
                op.refused = true;
                self.ready.insert(*id);
                continue;
            }
            op.phase = match op.phase {
                Phase::Start => Phase::Start,
                Phase::Intent | Phase::Asking | Phase::Reading | Phase::Folding => Phase::Intent,
                Phase::Room | Phase::Filling | Phase::Sending => Phase::Room,
                Phase::Logging | Phase::Applying => again,
                Phase::Voiding => Phase::Voiding,
            };
            if op.phase == Phase::Room {
                Arc::make_mut(&mut op.stored).retain(|role, _| !gone.contains(role));
            }
            self.ready.insert(*id);
        }
        let back = self.ops.iter().filter(|(_, op)| op.refused || op.phase <= Phase::Room);
        for id in back.map(|(id, _)| *id).collect::<Vec<_>>() {
            self.goes_back(id);
        }
        self.end_those_for(&gone);
        self.doubt_stretches(&gone);
    }
}
