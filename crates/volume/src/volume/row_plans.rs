//! The plans of an operation's rows.

use super::Volume;
use super::operation::{Kind, Op};
use crate::plan::{RowMap, RowPlan, RowState, Tie};
use crate::rows::{BLOCK, Touch};
use pumice_base::units::Role;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Plans by row.
type RowPlans = Vec<(u32, Arc<RowPlan>)>;

/// The data members that a request touches in a row, and whether each of their blocks is wholly
/// touched.
type Touched = Vec<(Role, bool)>;

/// Plans of requests for rows of which everything is there, by stripe modulo the layout's period.
/// They follow from the members that are touched, so most requests find theirs here.
#[derive(Debug, Default)]
pub(super) struct KnownPlans(BTreeMap<u64, Vec<Known>>);

/// `tie`: of a write; a read has none.
#[derive(Debug)]
struct Known {
    tie: Option<Tie>,
    touched: Touched,
    plan: Arc<RowPlan>,
}

/// Plans that are kept of a stripe, and stripes, at most.
const MOST: usize = 128;

impl KnownPlans {
    fn find(&self, stripe: u64, tie: Option<Tie>, touched: &Touched) -> Option<Arc<RowPlan>> {
        let fits = |known: &&Known| known.tie == tie && known.touched == *touched;
        self.0.get(&stripe)?.iter().find(fits).map(|known| Arc::clone(&known.plan))
    }

    fn keep(&mut self, stripe: u64, known: Known) {
        if self.0.len() >= MOST && !self.0.contains_key(&stripe) {
            self.0.clear();
        }
        let plans = self.0.entry(stripe).or_default();
        if plans.len() >= MOST {
            plans.clear();
        }
        plans.push(known);
    }
}

impl Volume {
    /// The blocks of one row that can be used.
    fn row_state(&self, op: &Op, row: u32) -> RowState {
        let block = op.window.0 * self.windows.rows + u64::from(row);
        let mut state = RowState::default();
        for (role, member) in (0..).map(Role).zip(&self.members) {
            if !member.has(op.window) {
                state.absent.insert(role);
            } else if member.bad.contains(&block)
                || op.unreadable.get(&role).is_some_and(|rows| rows.contains(row))
            {
                state.bad.insert(role);
            }
        }
        state
    }

    /// Plans of the reads or writes of an operation's rows, and blocks that nothing determines any
    /// more; `None` if it cannot be done.
    pub(super) fn row_plans(&self, op: &Op, tie: Tie) -> Option<(RowPlans, Vec<(Role, u32)>)> {
        if op.kind.own() {
            return self.own_plans(op);
        }
        let mut plans = RowPlans::new();
        // Rows are mostly alike: the last one that is read or written.
        let mut last: Option<(RowState, Touched)> = None;
        for row in 0..self.windows.rows as u32 {
            let in_row = |touch: &Touch| touch.in_row(row).map(|range| (touch.role, range == (0, BLOCK)));
            let touched: Touched = op.touches.iter().filter_map(in_row).collect();
            // Most rows of a small request's window.
            if touched.is_empty() {
                continue;
            }
            let state = self.row_state(op, row);
            let same = last.as_ref().is_some_and(|(before, roles)| *before == state && *roles == touched);
            let plan = match plans.last().filter(|_| same) {
                Some((_, plan)) => Arc::clone(plan),
                None => self.row_plan(op, &state, &touched, tie)?,
            };
            plans.push((row, plan));
            last = Some((state, touched));
        }
        Some((plans, Vec::new()))
    }

    /// Plans the read or write of a row for a request.
    fn row_plan(&self, op: &Op, state: &RowState, touched: &Touched, tie: Tie) -> Option<Arc<RowPlan>> {
        let tie = op.kind.writes().then_some(tie);
        let stripe = self.windows.stripe_of(op.window);
        let class = stripe.get() % self.layout.period().max(1);
        let whole = *state == RowState::default();
        let known = whole.then(|| self.known_plans.borrow().find(class, tie, touched)).flatten();
        if known.is_some() {
            return known;
        }
        let map = RowMap::new(&*self.layout, stripe);
        let plan = match tie {
            Some(tie) => map.write(state, touched, tie),
            None => map.read(state, &touched.iter().map(|(role, _)| *role).collect::<Vec<_>>()),
        };
        let plan = Arc::new(plan.ok()?);
        if whole {
            let known = Known { tie, touched: touched.clone(), plan: Arc::clone(&plan) };
            self.known_plans.borrow_mut().keep(class, known);
        }
        Some(plan)
    }

    /// The same of the volume's own operations.
    fn own_plans(&self, op: &Op) -> Option<(RowPlans, Vec<(Role, u32)>)> {
        let map = RowMap::new(&*self.layout, self.windows.stripe_of(op.window));
        let (mut plans, mut spoiled) = (RowPlans::new(), Vec::new());
        for row in 0..self.windows.rows as u32 {
            let state = self.row_state(op, row);
            let targets = match op.kind {
                // Of requests: above.
                Kind::Read(_) | Kind::Write(_) => continue,
                Kind::Rebuild { rows, .. } | Kind::Resync { rows } if !rows.contains(row) => continue,
                Kind::Rewrite { role, .. } if !op.misses(role).contains(row) => continue,
                Kind::Rebuild { role, .. } | Kind::Rewrite { role, .. } => BTreeSet::from([role]),
                // What parity is not there cannot be made, and what is there follows from data.
                Kind::Resync { .. } => {
                    map.parity().iter().copied().filter(|role| !state.absent.contains(role)).collect()
                }
            };
            let known = |role: &Role| !state.absent.contains(role) && !state.bad.contains(role);
            if matches!(op.kind, Kind::Resync { .. }) && !map.data().iter().all(known) {
                spoiled.extend(targets.into_iter().map(|role| (role, row)));
                continue;
            }
            match (map.restore(&state, &targets), op.kind) {
                (Ok(plan), _) => plans.push((row, Arc::new(plan))),
                (Err(_), Kind::Rebuild { role, .. }) => spoiled.push((role, row)),
                // It may be read again one day.
                (Err(_), Kind::Rewrite { .. }) => {}
                (Err(_), _) => return None,
            }
        }
        Some((plans, spoiled))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Method;
    use pumice_base::units::StripeIndex;
    use pumice_raid::geometry::Geometry;
    use pumice_raid::layout::{Layout, Level};

    /// Plans that are kept under the stripe modulo the period fit all those stripes.
    #[test]
    fn plans_repeat_with_the_period_of_the_layout() {
        for (level, layout, disks) in [
            (Level::Raid4, None, 4),
            (Level::Raid5, Some(Layout::LeftSymmetric), 5),
            (Level::Raid5, Some(Layout::RightAsymmetric), 4),
            (Level::Raid6, Some(Layout::LeftSymmetric), 6),
            (Level::Raid6, Some(Layout::DdfNContinue), 5),
        ] {
            let geometry = Geometry::new(level, layout, disks, 4096, 4096 * 64).unwrap();
            let period = crate::rows::RowLayout::period(&geometry);
            for stripe in 0..64 {
                let map = |stripe| RowMap::new(&geometry, StripeIndex(stripe));
                let (one, other) = (map(stripe), map(stripe % period));
                assert_eq!(one.data(), other.data());
                let state = RowState::default();
                for count in 1..=one.data().len() {
                    let touched: Touched = one.data()[..count].iter().map(|role| (*role, true)).collect();
                    for tie in [Tie::Reconstruct, Tie::ReadModifyWrite] {
                        let plan = |map: &RowMap| map.write(&state, &touched, tie);
                        assert_eq!(plan(&one), plan(&other), "{level:?} {layout:?} stripe {stripe}");
                    }
                }
            }
        }
    }

    #[test]
    fn plans_that_are_kept_are_bounded() {
        let mut known = KnownPlans::default();
        let plan = Arc::new(RowPlan { method: Method::None, reads: BTreeSet::new(), outputs: Vec::new() });
        for i in 0..3 * MOST as u64 {
            let touched = vec![(Role(i as u16), true)];
            known.keep(0, Known { tie: None, touched: touched.clone(), plan: Arc::clone(&plan) });
            assert!(known.find(0, None, &touched).is_some() && known.find(1, None, &touched).is_none());
            known.keep(i, Known { tie: None, touched, plan: Arc::clone(&plan) });
            assert!(known.0.len() <= MOST && known.0.values().all(|plans| plans.len() <= MOST));
        }
    }
}
