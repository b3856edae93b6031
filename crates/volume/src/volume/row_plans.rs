//! The plans of an operation's rows.

use super::Volume;
use super::operation::{Kind, Op};
use crate::plan::{Lost, RowMap, RowPlan, RowState, Tie};
use crate::rows::BLOCK;
use pumice_units::Role;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Plans by row.
type RowPlans = Vec<(u32, Arc<RowPlan>)>;

impl Volume {
    /// What can be used of one row.
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

    /// How the rows of an operation are read or written, and blocks that nothing determines any
    /// more; `None` if it cannot be done.
    pub(super) fn row_plans(&self, op: &Op, tie: Tie) -> Option<(RowPlans, Vec<(Role, u32)>)> {
        let map = RowMap::new(&*self.layout, self.windows.stripe_of(op.window));
        let (mut plans, mut spoiled) = (RowPlans::new(), Vec::new());
        // Rows are mostly alike: the last one that a request reads or writes.
        let mut last: Option<(RowState, Vec<(Role, bool)>)> = None;
        for row in 0..self.windows.rows as u32 {
            let touched: Vec<(Role, bool)> = op
                .touches
                .iter()
                .filter_map(|touch| touch.in_row(row).map(|range| (touch.role, range == (0, BLOCK))))
                .collect();
            // Most rows of a small request's window.
            if touched.is_empty() && !op.kind.own() {
                continue;
            }
            let state = self.row_state(op, row);
            let plan: Result<RowPlan, Lost> = match op.kind {
                Kind::Read(_) | Kind::Write(_)
                    if last.as_ref().is_some_and(|(before, roles)| *before == state && *roles == touched) =>
                {
                    let same = plans.last().map(|(_, plan)| Arc::clone(plan));
                    plans.extend(same.map(|plan| (row, plan)));
                    continue;
                }
                Kind::Read(_) => map.read(&state, &touched.iter().map(|(role, _)| *role).collect::<Vec<_>>()),
                Kind::Write(_) => map.write(&state, &touched, tie),
                Kind::Rebuild { rows, .. } | Kind::Resync { rows } if !rows.contains(row) => continue,
                Kind::Rewrite { role, .. } if !op.misses(role).contains(row) => continue,
                Kind::Rebuild { role, .. } | Kind::Rewrite { role, .. } => {
                    map.restore(&state, &BTreeSet::from([role]))
                }
                Kind::Resync { .. } => {
                    let targets: BTreeSet<Role> =
                        map.parity().iter().copied().filter(|role| !state.absent.contains(role)).collect();
                    let known = map
                        .data()
                        .iter()
                        .all(|role| !state.absent.contains(role) && !state.bad.contains(role));
                    match known {
                        // What parity is not there cannot be made, and what is there follows from
                        // data.
                        true => map.restore(&state, &targets),
                        false => {
                            spoiled.extend(targets.iter().map(|role| (*role, row)));
                            continue;
                        }
                    }
                }
            };
            last = matches!(op.kind, Kind::Read(_) | Kind::Write(_)).then_some((state, touched));
            match (plan, op.kind) {
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
