//! The steps of operations on the near way: `docs/design/near-path.md`, *Where parity is made*.

use super::Volume;
use super::operation::{Kind, Op, Phase};
use crate::action::Command;
use crate::choice::Choice;
use crate::log::Kind as RecordKind;
use crate::near::{
    Near, NearNodes, NearOp, NearPlan, NearStep, NearSum, NearTerm, NodeNumber, PlacedRecord, far_moved,
};
use crate::plan::RowPlan;
use crate::rows::{BLOCK, Touch};
use crate::sequencer::OpId;
use pumice_base::units::Role;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A step before it has its place: the member, what fills its slot, sums, record.
type Step = (Role, Option<Touch>, Vec<NearSum>, Option<PlacedRecord>);

impl Volume {
    /// Lets nodes make parity, where they can.
    pub fn use_near(&mut self, near: NearNodes) {
        let NearNodes { nodes, places, stretches, stretch_windows } = near;
        let (free, free_stretches) = ((0..places).rev().collect(), (0..stretches).rev().collect());
        let choice = Choice::new();
        self.near = Some(Near { nodes, places, free, free_stretches, stretch_windows, choice });
    }

    /// Writes that went the near way, and the far way, to their end.
    #[must_use]
    pub const fn ways(&self) -> (u64, u64) {
        self.ways
    }

    /// The near way of an operation, if it moves fewer bytes.
    pub(super) fn near_of(
        &self,
        op: &Op,
        plans: &[(u32, Arc<RowPlan>)],
        log: Option<RecordKind>,
    ) -> Option<NearOp> {
        let near = self.near.as_ref().filter(|_| !op.barred)?;
        let at = |role, row| self.at(role, op.window) + u64::from(row) * BLOCK;
        let plan = match op.kind {
            Kind::Read(_) => NearPlan::read(plans, &near.nodes, at),
            _ => NearPlan::new(plans, &op.touches, &near.nodes, at),
        }?;
        let fewer = plan.moved(&near.nodes) < far_moved(plans, log);
        fewer.then(|| NearOp { plan, place: None, records: BTreeMap::new(), made: false })
    }

    /// Returns whether it waits for a place.
    pub(super) fn needs_place(&self, op: &Op) -> bool {
        let without = op.near.as_ref().is_some_and(|near| near.place.is_none());
        without && self.near.as_ref().is_some_and(|near| near.free.is_empty())
    }

    /// Gives the place of an operation back. Nothing of it is under way.
    pub(super) fn leave_place(&mut self, near: Option<NearOp>) {
        if let (Some(near), Some(place)) = (&mut self.near, near.and_then(|near| near.place)) {
            assert!(place < near.places, "V29: a place of local memory is one that was leased: {place}");
            near.free.push(place);
            assert!(
                near.free.len() <= near.places as usize,
                "V29: a place of local memory is given back once"
            );
        }
    }

    /// Something on the near way went wrong before all new blocks were made. Nothing is in place.
    pub(super) fn turn_far(&mut self, id: OpId) {
        let Some(op) = self.ops.get_mut(&id) else { return };
        (op.refused, op.barred, op.phase) = (false, true, Phase::Intent);
        let near = op.near.take();
        self.ready.insert(id);
        self.goes_back(id);
        self.leave_place(near);
    }

    /// Logs an operation, and makes its new blocks if they are not made yet.
    pub(super) fn near_log(&mut self, id: OpId, records: BTreeMap<Role, PlacedRecord>) {
        let free = self.near.as_mut();
        let Some(near) = self.ops.get_mut(&id).and_then(|op| op.near.as_mut()) else { return };
        if near.made {
            // Logged again, from the places.
            let steps = records.into_iter().map(|(role, record)| (role, None, Vec::new(), Some(record)));
            let steps: Vec<_> = steps.collect();
            self.set_phase(id, Phase::Logging);
            return self.near_steps(id, steps);
        }
        if near.place.is_none() {
            near.place = free.and_then(|free| free.free.pop());
        }
        near.records = records;
        let mut steps = Vec::new();
        let plan = near.plan.clone();
        let mut records = near.records.clone();
        for touch in &plan.fills {
            let node = self.node_of(touch.role);
            let alone = plan.touched(node, self.near_nodes()) == 1;
            let sums = plan.sends.get(&node).filter(|_| alone).cloned().unwrap_or_default();
            steps.push((touch.role, Some(*touch), sums, records.remove(&touch.role)));
        }
        steps.extend(self.sends_of(&plan, 0..1));
        self.set_phase(id, Phase::Filling);
        self.near_steps(id, steps);
    }

    /// Interims of the nodes of which so many members are touched. The command goes to a member
    /// that has a term: others of the node may be missing.
    fn sends_of(&self, plan: &NearPlan, touched: std::ops::Range<usize>) -> Vec<Step> {
        let nodes = self.near_nodes();
        let sends = plan.sends.iter().filter(|(node, _)| touched.contains(&plan.touched(**node, nodes)));
        sends.filter_map(|(_, sums)| Some((sender(sums)?, None, sums.clone(), None))).collect()
    }

    /// All new data are in their places.
    pub(super) fn near_send(&mut self, id: OpId) {
        let Some(plan) = self.ops[&id].near.as_ref().map(|near| near.plan.clone()) else { return };
        let steps = self.sends_of(&plan, 2..usize::MAX);
        self.set_phase(id, Phase::Sending);
        self.near_steps(id, steps);
    }

    /// All interims are in their places.
    pub(super) fn near_make(&mut self, id: OpId) {
        let Some(near) = self.ops.get_mut(&id).and_then(|op| op.near.as_mut()) else { return };
        let (makes, mut records) = (near.plan.makes.clone(), std::mem::take(&mut near.records));
        let step = |make: NearSum| (make.target, None, vec![make.clone()], records.remove(&make.target));
        let steps = makes.into_iter().map(step).collect();
        self.set_phase(id, Phase::Logging);
        self.near_steps(id, steps);
    }

    /// The blocks that are to be read are made.
    pub(super) fn fetch(&mut self, id: OpId) {
        let Some(near) = self.ops[&id].near.as_ref() else { return };
        let (Some(fetched), Some(place), rows) = (near.plan.fetched, near.place, near.plan.rows) else {
            return;
        };
        self.set_phase(id, Phase::Applying);
        self.ready.insert(id);
        self.issue_for(id, Command::Fetch { op: id, role: fetched.at, of: fetched.of, place, rows });
    }

    fn near_steps(&mut self, id: OpId, steps: Vec<Step>) {
        let op = &self.ops[&id];
        let Some(near) = &op.near else { return };
        let request = match op.kind {
            Kind::Read(request) | Kind::Write(request) => Some(request),
            Kind::Rebuild { .. } | Kind::Rewrite { .. } | Kind::Resync { .. } => None,
        };
        let (place, rows) = (near.place.unwrap_or(0), near.plan.rows);
        for (role, fill, sums, record) in steps {
            let node = self.node_of(role);
            let step = Box::new(NearStep { place, node, rows, fill, sums, record });
            self.issue_for(id, Command::Update { op: id, role, request, step });
        }
        self.ready.insert(id);
    }

    /// Returns whether the new blocks of the operation are in the places of their drives; then it
    /// is not planned again.
    pub(super) fn is_made(&self, id: OpId) -> bool {
        self.ops.get(&id).and_then(|op| op.near.as_ref()).is_some_and(|near| near.made)
    }

    /// The place of an operation whose new blocks are made.
    pub(super) fn made_place(&mut self, id: OpId) -> Option<u32> {
        let near = self.ops.get_mut(&id)?.near.as_mut()?;
        near.made = true;
        near.place
    }

    pub(super) fn near_nodes(&self) -> &[Option<NodeNumber>] {
        self.near.as_ref().map_or(&[], |near| &near.nodes)
    }

    fn node_of(&self, role: Role) -> NodeNumber {
        self.near_nodes().get(role.index()).copied().flatten().unwrap_or(0)
    }

    fn set_phase(&mut self, id: OpId, phase: Phase) {
        if let Some(op) = self.ops.get_mut(&id) {
            op.phase = phase;
        }
    }
}

/// The member whose drive is asked for sums of a node.
fn sender(sums: &[NearSum]) -> Option<Role> {
    sums.iter().flat_map(|sum| &sum.terms).find_map(|(term, _)| match term {
        NearTerm::Old { role, .. } | NearTerm::New(role) => Some(*role),
        NearTerm::Interim(_) => None,
    })
}
