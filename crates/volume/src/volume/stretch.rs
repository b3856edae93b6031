//! Stretches: neighbouring windows of a member that its node and the others restore together, so
//! that the host sends a few commands for all of them. `docs/design/near-path.md`, *Stretches*.
//!
//! Whatever goes wrong: nothing of a stretch counts before its end, and its windows are restored
//! one by one.

use super::{Owner, Volume};
use crate::action::{ActionId, Command, Effect, Outcome};
use crate::assemble::Rule;
use crate::member::State;
use crate::near::{MAX_TERMS, NearTerm, NodeNumber, StretchStep};
use crate::plan::{RowMap, RowState, Term};
use crate::rows::Window;
use crate::sequencer::OpId;
use pumice_base::units::Role;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// The phase of a stretch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// It waits for locks.
    Locking,
    /// Nodes send interims.
    Sending,
    /// The blocks are made.
    Making,
    /// They go to the medium.
    Storing,
}

/// An operation that restores neighbouring windows.
#[derive(Debug)]
pub(super) struct Stretch {
    role: Role,
    windows: Range<u64>,
    place: u32,
    /// Windows whose locks it does not have yet.
    pub(super) locks: u64,
    phase: Phase,
    waiting: BTreeSet<ActionId>,
    /// The step that makes the blocks when all interims are there.
    make: Option<StretchStep>,
    /// A step was not done, or members changed.
    refused: bool,
}

/// Steps of a stretch: of nodes that send, with the members that are asked, and the one that makes
/// the blocks.
type Steps = (Vec<(Role, StretchStep)>, StretchStep);

impl Volume {
    /// The windows from `next` on that may be restored together; `None` if there are not two.
    pub(super) fn next_stretch(&self, role: Role, next: Window) -> Option<Range<u64>> {
        let near = self.near.as_ref()?;
        let (windows, first) = (&self.windows, next.0);
        let most = near.stretch_windows.min(self.most_restored).min(windows.count - first);
        let dirty = |window: &u64| {
            let start = windows.start(Window(*window));
            self.intent.as_ref().is_none_or(|intent| intent.next_set(start) == Some(start))
        };
        let most = match self.members[role.index()].kept && self.keeps(Rule::MissedHasBits) {
            true => (first..first + most).take_while(dirty).count() as u64,
            false => most,
        };
        // Coefficients change with the chunk: whole chunks, or a part of one.
        let of_chunk = windows.per_chunk - first % windows.per_chunk;
        let count = match of_chunk == windows.per_chunk && most >= of_chunk {
            true => most - most % windows.per_chunk,
            false => most.min(of_chunk),
        };
        (count >= 2).then_some(first..first + count)
    }

    /// Returns whether nodes can restore these windows together.
    pub(super) fn can_stretch(&self, role: Role, windows: &Range<u64>) -> bool {
        self.stretch_steps(role, windows, 0).is_some()
    }

    pub(super) fn has_room_for_stretches(&self) -> bool {
        self.near.as_ref().is_some_and(|near| !near.free_stretches.is_empty())
    }

    /// Returns whether stretches have done something that must not be left half done while members
    /// change.
    pub(super) fn has_begun_stretches(&self) -> bool {
        self.stretches.values().any(|stretch| stretch.phase != Phase::Locking)
    }

    /// Returns whether nothing is under way.
    pub(super) fn is_quiet(&self) -> bool {
        self.ops.is_empty() && self.stretches.is_empty()
    }

    /// Asks for the locks of a stretch: of all windows at once, so that whoever waits for another
    /// one has asked later.
    pub(super) fn begin_stretch(&mut self, role: Role, windows: Range<u64>) {
        let Some(place) = self.near.as_mut().and_then(|near| near.free_stretches.pop()) else { return };
        let id = OpId(self.next_op);
        self.next_op += 1;
        let alone = self.keeps(Rule::OneWrite);
        let mut locks = 0;
        for window in windows.clone().map(Window) {
            locks += u64::from(!self.locks.acquire(id, window, alone));
        }
        let (phase, waiting) = (Phase::Locking, BTreeSet::new());
        let stretch = Stretch { role, windows, place, locks, phase, waiting, make: None, refused: false };
        self.stretches.insert(id, stretch);
    }

    /// The blocks of the rows of all these windows that can be used; `None` if that differs, or
    /// blocks are bad.
    fn state_of(&self, windows: &Range<u64>) -> Option<RowState> {
        let rows = self.windows.rows;
        let blocks = windows.start * rows..windows.end * rows;
        let mut state = RowState::default();
        for (role, member) in (0..).map(Role).zip(&self.members) {
            let has = windows.clone().filter(|window| member.has(Window(*window))).count() as u64;
            if has == 0 {
                state.absent.insert(role);
            }
            let differs = has != 0 && has != windows.end - windows.start;
            let bad = member.here() && member.bad.range(blocks.clone()).next().is_some();
            if differs && self.keeps(Rule::StretchAllOrNone) || bad && self.keeps(Rule::StretchAvoidsBad) {
                return None;
            }
        }
        Some(state)
    }

    /// The steps that restore windows of a member; `None` if nodes cannot.
    fn stretch_steps(&self, role: Role, windows: &Range<u64>, place: u32) -> Option<Steps> {
        let nodes = self.near_nodes();
        let node_of = |role: Role| nodes.get(role.index()).copied().flatten();
        let (home, state) = (node_of(role)?, self.state_of(windows)?);
        let count = windows.end - windows.start;
        let per_chunk = self.windows.per_chunk.min(count);
        let first = self.windows.stripe_of(Window(windows.start)).get();
        let stripes = first..first + count / per_chunk;
        let classes = stripes.start..stripes.end.min(stripes.start + self.layout.period());
        let mut factors: Vec<BTreeMap<Role, u8>> = Vec::new();
        for stripe in classes {
            let map = RowMap::new(&*self.layout, pumice_base::units::StripeIndex(stripe));
            let plan = map.restore(&state, &BTreeSet::from([role])).ok()?;
            let [output] = &plan.outputs[..] else { return None };
            let factor = |(term, factor): &(Term, u8)| match term {
                Term::Old(role) => Some((*role, *factor)),
                Term::New(_) => None,
            };
            factors.push(output.terms.iter().map(factor).collect::<Option<_>>()?);
        }
        let mut by_node: BTreeMap<NodeNumber, Vec<Role>> = BTreeMap::new();
        for role in factors.iter().flat_map(BTreeMap::keys).collect::<BTreeSet<_>>() {
            by_node.entry(node_of(*role)?).or_default().push(*role);
        }
        let (bytes, segment) = (count * self.windows.bytes(), per_chunk * self.windows.bytes());
        let start = Window(windows.start);
        let step = |node: NodeNumber, roles: &[Role], interims: &[NodeNumber]| {
            let old = |role: &Role| NearTerm::Old { role: *role, at: self.at(*role, start) };
            let terms = roles.iter().map(old).chain(interims.iter().copied().map(NearTerm::Interim));
            let of_class = |class: &BTreeMap<Role, u8>| {
                let own = roles.iter().map(|role| class.get(role).copied().unwrap_or(0));
                own.chain(interims.iter().map(|_| 1)).collect()
            };
            let (terms, factors) = (terms.collect(), factors.iter().map(of_class).collect());
            StretchStep { place, node, target: role, bytes, segment, terms, factors }
        };
        let own = by_node.remove(&home).unwrap_or_default();
        let interims: Vec<NodeNumber> = by_node.keys().copied().collect();
        let most = by_node.values().map(Vec::len).max().unwrap_or(0).max(own.len() + interims.len());
        if !(1..=MAX_TERMS).contains(&most) {
            return None;
        }
        let sends = by_node.iter().map(|(node, roles)| (roles[0], step(*node, roles, &[]))).collect();
        Some((sends, step(home, &own, &interims)))
    }

    /// An action of a stretch is over.
    pub(super) fn stretch_returned(&mut self, id: OpId, action: ActionId, outcome: Outcome) {
        if let Some(stretch) = self.stretches.get_mut(&id) {
            stretch.waiting.remove(&action);
            stretch.refused |= outcome != Outcome::Done;
        }
    }

    /// Lets a stretch take its next step. Returns whether one did.
    pub(super) fn pump_stretches(&mut self) -> bool {
        if self.stretches.is_empty() || self.frozen() || self.recovery.is_some() {
            return false;
        }
        let draining = self.draining();
        let may_step = |stretch: &Stretch| {
            let begins = stretch.phase == Phase::Locking;
            stretch.waiting.is_empty() && !(begins && (stretch.locks > 0 || draining))
        };
        let next = self.stretches.iter().find(|(_, stretch)| may_step(stretch)).map(|(id, _)| *id);
        let Some(id) = next else { return false };
        self.step_stretch(id);
        true
    }

    fn step_stretch(&mut self, id: OpId) {
        let Some(stretch) = self.stretches.get_mut(&id) else { return };
        let Stretch { role, place, phase, refused, .. } = *stretch;
        match phase {
            _ if refused => self.end_stretch(id, false),
            Phase::Locking => {
                let windows = stretch.windows.clone();
                let rebuilding = matches!(self.members[role.index()].state, State::Rebuilding(_));
                let steps = self.stretch_steps(role, &windows, place).filter(|_| rebuilding);
                let Some((sends, make)) = steps else { return self.end_stretch(id, false) };
                self.go_on(id, Phase::Sending, Some(make));
                for (role, step) in sends {
                    self.issue_for_stretch(id, Command::Gather { op: id, role, step: Box::new(step) });
                }
            }
            Phase::Sending => {
                let Some(make) = stretch.make.take() else { return };
                self.go_on(id, Phase::Making, None);
                self.issue_for_stretch(id, Command::Gather { op: id, role, step: Box::new(make) });
            }
            Phase::Making => {
                let (start, count) = (stretch.windows.start, stretch.windows.end - stretch.windows.start);
                let (at, bytes) = (self.at(role, Window(start)), count * self.windows.bytes());
                self.go_on(id, Phase::Storing, None);
                self.issue_for_stretch(id, Command::StoreStretch { op: id, role, place, at, bytes });
            }
            Phase::Storing => self.end_stretch(id, true),
        }
    }

    fn go_on(&mut self, id: OpId, phase: Phase, make: Option<StretchStep>) {
        if let Some(stretch) = self.stretches.get_mut(&id) {
            (stretch.phase, stretch.make) = (phase, make);
        }
    }

    fn issue_for_stretch(&mut self, id: OpId, command: Command) {
        let action = self.issue(Owner::Stretch(id), command);
        if let Some(stretch) = self.stretches.get_mut(&id) {
            stretch.waiting.insert(action);
        }
    }

    /// A stretch is over. If it is not done, its windows are restored one by one.
    fn end_stretch(&mut self, id: OpId, done: bool) {
        let Some(stretch) = self.stretches.remove(&id) else { return };
        let Stretch { role, windows, place, .. } = stretch;
        let is_rebuilding = matches!(self.members[role.index()].state, State::Rebuilding(_));
        for window in windows.clone().map(Window) {
            if done {
                self.members[role.index()].under_way.remove(&window);
            } else if is_rebuilding {
                self.restore_window(role, window);
            }
            let next = self.locks.release(id, window);
            self.admit(next);
        }
        if let Some(near) = &mut self.near {
            near.free_stretches.push(place);
        }
        self.effects.push(Effect::Forget(id));
    }

    /// Members changed, or may have missed something. Nothing is known to be under way for members
    /// that are gone.
    pub(super) fn doubt_stretches(&mut self, gone: &[Role]) {
        let ends = self.keeps(Rule::StretchEnds);
        for stretch in self.stretches.values_mut() {
            stretch.refused |= ends;
        }
        let of_gone = self.stretches.iter().filter(|(_, stretch)| gone.contains(&stretch.role));
        for id in of_gone.map(|(id, _)| *id).collect::<Vec<_>>() {
            self.end_stretch(id, false);
        }
    }
}
