//! Which way an operation goes that can be near: `docs/design/near-path.md`, *Which way is faster*.

use super::Volume;
use super::operation::{Kind, Op};
use crate::action::Effect;
use crate::choice::{Choice, Class, Preference, Standing, Way};
use crate::plan::{Method, RowPlan};
use crate::rows::BLOCK;
use crate::sequencer::OpId;
use std::sync::Arc;

impl Volume {
    /// Says what decides on the way of operations from now on, if there are nodes that make parity.
    /// At first they do whenever that moves fewer bytes over the host's link.
    pub const fn prefer(&mut self, preference: Preference) {
        if let Some(near) = &mut self.near {
            near.choice.preference = preference;
        }
    }

    /// Time passes: `now` is in nanoseconds from any beginning. Only measurements need it.
    pub fn pass_time(&mut self, now: u64) {
        if self.near.as_ref().is_some_and(|near| near.choice.preference == Preference::Faster) {
            self.choose(|choice| choice.at(now));
        }
    }

    /// How classes of operations stand, if their ways are measured.
    #[must_use]
    pub fn standings(&self) -> Option<[Standing; 3]> {
        self.near
            .as_ref()
            .filter(|near| near.choice.preference == Preference::Faster)
            .map(|near| near.choice.standings())
    }

    /// Whether an operation is to go the near way.
    pub(super) fn wants_near(&mut self, id: OpId, plans: &[(u32, Arc<RowPlan>)]) -> bool {
        let Some(op) = self.ops.get(&id).filter(|op| !op.barred) else { return false };
        let Some(near) = &self.near else { return false };
        let class = class_of(op, plans);
        let way = match (near.choice.preference, class) {
            // A read of what is there.
            (_, None) if !op.kind.writes() => Way::Far,
            (Preference::Near, _) => Way::Near,
            (Preference::Far, _) => Way::Far,
            (Preference::Faster, None) if op.kind.own() => Way::Near,
            (Preference::Faster, None) => Way::Far,
            (Preference::Faster, Some(class)) => self.begins(id, class),
        };
        way == Way::Near
    }

    /// An operation of a class begins, or is planned again.
    fn begins(&mut self, id: OpId, class: Class) -> Way {
        let (Some(near), Some(op)) = (&mut self.near, self.ops.get_mut(&id)) else { return Way::Far };
        op.begun.get_or_insert_with(|| near.choice.begin(class)).way()
    }

    /// An operation is over.
    pub(super) fn ended(&mut self, op: &Op, done: bool) {
        let Some(begun) = op.begun else { return };
        let kept = !op.barred && op.near.is_some() == (begun.way() == Way::Near);
        let bytes = op.touches.iter().map(|touch| touch.end - touch.start).sum();
        self.choose(|choice| choice.end(begun, (done && kept).then_some(bytes)));
    }

    /// Members or nodes are others than before.
    pub(super) fn choose_again(&mut self) {
        self.choose(Choice::restart);
    }

    /// Tells if a class goes another way now.
    fn choose(&mut self, step: impl FnOnce(&mut Choice)) {
        let Some(near) = &mut self.near else { return };
        let before = Class::ALL.map(|class| near.choice.way(class));
        step(&mut near.choice);
        let after = Class::ALL.map(|class| near.choice.way(class));
        if before != after {
            let other = |(standing, before): &(Standing, Way)| standing.way != *before;
            let others = near.choice.standings().into_iter().zip(before).filter(other);
            self.effects.extend(others.map(|(standing, _)| Effect::Chosen(standing)));
        }
    }
}

/// The class of a user's operation that can be near. What is left out may be near as well, but is
/// so rarely that it is not worth the time of making both plans.
fn class_of(op: &Op, plans: &[(u32, Arc<RowPlan>)]) -> Option<Class> {
    match op.kind {
        Kind::Read(_) => {
            let lost = |plan: &RowPlan| matches!(&plan.outputs[..], [output] if output.terms.len() > 1);
            plans.iter().all(|(_, plan)| lost(plan)).then_some(Class::LostReads)
        }
        Kind::Write(_) => {
            let first = op.touches.first()?;
            let alike = op.touches.iter().all(|touch| (touch.start, touch.end) == (first.start, first.end));
            let whole = first.start % BLOCK == 0 && first.end % BLOCK == 0;
            let stored = plans.iter().all(|(_, plan)| plan.outputs.iter().all(|output| output.stored));
            let full = plans.iter().all(|(_, plan)| plan.method == Method::Full);
            (alike && whole && stored).then_some(if full { Class::FullStripes } else { Class::PartialWrites })
        }
        Kind::Rebuild { .. } | Kind::Rewrite { .. } | Kind::Resync { .. } => None,
    }
}
