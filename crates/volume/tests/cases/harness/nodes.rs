//! Nodes that make parity: their local memory, and what goes wrong between them.

use super::disk::Random;
use super::{BLOCK, Command, Fault, Outcome, World};
use pumice_base::units::Role;
use pumice_parity::gf;
use pumice_volume::RequestId;
use pumice_volume::near::{NearNodes, NearStep, NearSum, NearTerm, NodeNumber, StretchStep};
use pumice_volume::sequencer::OpId;
use std::collections::BTreeMap;

/// Nodes over which members are dealt out.
const NODES: u16 = 3;
/// Few places, so that operations wait for them.
const PLACES: u32 = 3;
/// Places for stretches, and windows of one.
const STRETCHES: u32 = 2;
const STRETCH_WINDOWS: u64 = 4;

/// The contents of a place of a drive's local memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Slot {
    New(Role),
    Interim(Role, NodeNumber),
}

type Place = (u32, Slot, u32);

/// The start of the places for stretches.
const FOR_STRETCHES: u32 = 1000;

/// The local memories of all nodes.
#[derive(Default)]
pub(crate) struct Nodes {
    memory: BTreeMap<Place, Vec<u8>>,
    /// The check sums of interims that were told to the host.
    told: BTreeMap<(OpId, Role, NodeNumber, u32), u32>,
    /// Interims on connections that were lost: they may come yet.
    astray: Vec<(Place, Vec<u8>)>,
    pub(crate) late: u64,
    pub(crate) refused: u64,
    /// Stretches that were stored.
    pub(crate) stretches: u64,
}

impl Nodes {
    pub(crate) fn of(members: usize) -> NearNodes {
        NearNodes {
            nodes: (0..members as u16).map(|role| Some(role % NODES)).collect(),
            places: PLACES,
            stretches: STRETCHES,
            stretch_windows: STRETCH_WINDOWS,
        }
    }

    /// Local memory does not survive.
    pub(crate) fn crash(&mut self) {
        let Self { late, refused, stretches, .. } = *self;
        *self = Self { late, refused, stretches, ..Self::default() };
    }

    /// The node of a member.
    pub(super) fn node_of(role: Role) -> NodeNumber {
        role.get() % NODES
    }

    /// New blocks of a member.
    pub(crate) fn made(&self, place: u32, role: Role, row: u32) -> &[u8] {
        &self.memory[&(place, Slot::New(role), row)]
    }

    /// A block of a stretch of a member.
    pub(crate) fn stretched(&mut self, place: u32, role: Role, block: u32) -> &[u8] {
        self.stretches += u64::from(block == 0);
        &self.memory[&(FOR_STRETCHES + place, Slot::New(role), block)]
    }

    /// Something that was on its way arrives.
    fn arrive(&mut self, random: &mut Random) {
        if self.astray.is_empty() || !random.chance(20) {
            return;
        }
        let i = random.next(self.astray.len() as u64) as usize;
        let (place, bytes) = self.astray.swap_remove(i);
        self.late += u64::from(self.memory.insert(place, bytes).is_some());
    }

    /// The operation is over.
    pub(crate) fn forget(&mut self, op: OpId) {
        self.told.retain(|(told, ..), _| *told != op);
    }
}

impl World {
    /// Returns whether two members are on one node.
    pub(crate) fn same_node(&self, role: usize, other: usize) -> bool {
        role % usize::from(NODES) == other % usize::from(NODES)
    }

    /// Carries out a step of the near way.
    pub(super) fn update(
        &mut self,
        op: OpId,
        role: Role,
        request: Option<RequestId>,
        step: &NearStep,
        cut: bool,
    ) -> Outcome {
        let Some(mut nodes) = self.nodes.take() else { panic!("there are no nodes") };
        nodes.arrive(&mut self.random);
        let outcome = self.update_with(&mut nodes, op, role, request, step, cut);
        nodes.refused += u64::from(outcome == Outcome::Refused);
        self.nodes = Some(nodes);
        outcome
    }

    fn update_with(
        &mut self,
        nodes: &mut Nodes,
        op: OpId,
        role: Role,
        request: Option<RequestId>,
        step: &NearStep,
        cut: bool,
    ) -> Outcome {
        let disk = role.index();
        let down = |disk: &super::Disk| !disk.up || disk.lost;
        if step.record.is_some() {
            if !self.disks[disk].guard.begin(self.token) {
                return Outcome::Fenced;
            }
            self.disks[disk].guard.end();
        }
        // A step that only logs is for its member alone: if it fails, so does the member.
        let fails = (step.fill.is_some() || !step.sums.is_empty()) && self.random.chance(2);
        let fails = fails || step.record.is_some() && self.refuses.take_if(|of| *of == role).is_some();
        let gone = request.is_some_and(|request| !self.model.knows(request));
        if down(&self.disks[disk]) || gone || fails {
            return Outcome::Refused;
        }
        let others = self.outstanding.iter().any(|action| match &action.command {
            Command::Update { op: other, step: of, .. } => of.place == step.place && *other != op,
            Command::Store { op: other, place, .. } | Command::Fetch { op: other, place, .. } => {
                *place == step.place && *other != op
            }
            _ => false,
        });
        assert!(!others, "two operations in one place");
        if let (Some(touch), Some(request)) = (&step.fill, request) {
            for row in step.rows.iter() {
                let (start, end) = touch.in_row(row).unwrap();
                assert_eq!((start, end), (0, BLOCK), "whole blocks");
                let from = touch.from + u64::from(row) * BLOCK - touch.start;
                let bytes = self.model.bytes(request, from, BLOCK);
                nodes.memory.insert((step.place, Slot::New(role), row), bytes);
            }
        }
        for sum in &step.sums {
            if let Some(outcome) = self.sum(nodes, op, role, step, sum) {
                return outcome;
            }
        }
        if cut && self.random.chance(50) {
            return Outcome::Refused;
        }
        if let Some(placed) = &step.record {
            let blocks: Vec<&[u8]> = match placed.record.blocks() {
                0 => Vec::new(),
                _ => step.rows.iter().map(|row| nodes.made(step.place, role, row)).collect(),
            };
            assert_eq!(placed.record.role, role);
            let bytes = placed.record.encode(placed.nonce, placed.position, &blocks);
            match cut || self.fault == Fault::LazyLog {
                true => self.disks[disk].write(placed.at, &bytes),
                false => self.disks[disk].put(placed.at, &bytes),
            }
        }
        Outcome::Done
    }

    /// Carries out a step of a stretch.
    pub(super) fn gather(&mut self, op: OpId, role: Role, step: &StretchStep) -> Outcome {
        let Some(mut nodes) = self.nodes.take() else { panic!("there are no nodes") };
        nodes.arrive(&mut self.random);
        let done = self.gather_with(&mut nodes, op, role, step);
        nodes.refused += u64::from(done.is_none());
        self.nodes = Some(nodes);
        if done.is_some() { Outcome::Done } else { Outcome::Refused }
    }

    /// The same; `None` if it is refused.
    fn gather_with(&mut self, nodes: &mut Nodes, op: OpId, role: Role, step: &StretchStep) -> Option<()> {
        let there = |disk: &super::Disk| disk.up && !disk.lost;
        if !there(&self.disks[role.index()]) || self.random.chance(2) {
            return None;
        }
        assert_eq!(role.get() % NODES, step.node);
        let others = self.outstanding.iter().any(|action| match &action.command {
            Command::Gather { op: other, step: of, .. } => of.place == step.place && *other != op,
            Command::StoreStretch { op: other, place, .. } => *place == step.place && *other != op,
            _ => false,
        });
        assert!(!others, "two stretches in one place");
        let (place, per_segment) = (FOR_STRETCHES + step.place, step.segment / BLOCK);
        let lost = self.random.chance(3).then(|| self.random.next(step.bytes / BLOCK));
        for block in 0..step.bytes / BLOCK {
            let factors = &step.factors[(block / per_segment) as usize % step.factors.len()];
            let mut sum = vec![0; BLOCK as usize];
            for (term, factor) in step.terms.iter().zip(factors) {
                let source = match term {
                    NearTerm::Old { role: of, at } => {
                        assert_eq!(of.get() % NODES, step.node, "a block of another node");
                        let (disk, at) = (&self.disks[of.index()], at + block * BLOCK);
                        if !there(disk) || disk.unreadable.contains(&at) {
                            return None;
                        }
                        disk.read(at, BLOCK as usize)
                    }
                    NearTerm::Interim(from) => {
                        let bytes = &nodes.memory[&(place, Slot::Interim(step.target, *from), block as u32)];
                        if nodes.told[&(op, step.target, *from, block as u32)] != crc32c::crc32c(bytes) {
                            return None;
                        }
                        bytes
                    }
                    NearTerm::New(_) => panic!("nothing is new in a stretch"),
                };
                gf::add_scaled(&mut sum, source, *factor);
            }
            let slot =
                if step.target == role { Slot::New(role) } else { Slot::Interim(step.target, step.node) };
            if step.target != role {
                nodes.told.insert((op, step.target, step.node, block as u32), crc32c::crc32c(&sum));
                if lost == Some(block) {
                    // The connection is lost, and what was on it comes later.
                    nodes.astray.push(((place, slot, block as u32), sum));
                    return None;
                }
            }
            nodes.memory.insert((place, slot, block as u32), sum);
        }
        Some(())
    }

    /// Makes one sum. What goes wrong is returned.
    fn sum(
        &mut self,
        nodes: &mut Nodes,
        op: OpId,
        role: Role,
        step: &NearStep,
        sum: &NearSum,
    ) -> Option<Outcome> {
        let first = step.rows.iter().next().unwrap();
        for row in step.rows.iter() {
            let mut block = vec![0; BLOCK as usize];
            for (term, factor) in &sum.terms {
                let source = match term {
                    NearTerm::Old { role: of, at } => {
                        assert_eq!(of.get() % NODES, step.node, "a block of another node");
                        let disk = &self.disks[of.index()];
                        let at = at + u64::from(row - first) * BLOCK;
                        if !disk.up || disk.lost || disk.unreadable.contains(&at) {
                            return Some(Outcome::Refused);
                        }
                        disk.read(at, BLOCK as usize)
                    }
                    NearTerm::New(of) => {
                        assert_eq!(of.get() % NODES, step.node, "a block of another node");
                        nodes.made(step.place, *of, row)
                    }
                    NearTerm::Interim(from) => {
                        let bytes = &nodes.memory[&(step.place, Slot::Interim(sum.target, *from), row)];
                        if nodes.told[&(op, sum.target, *from, row)] != crc32c::crc32c(bytes) {
                            return Some(Outcome::Refused);
                        }
                        bytes
                    }
                };
                gf::add_scaled(&mut block, source, *factor);
            }
            if sum.target == role {
                nodes.memory.insert((step.place, Slot::New(role), row), block);
                continue;
            }
            let place = (step.place, Slot::Interim(sum.target, step.node), row);
            nodes.told.insert((op, sum.target, step.node, row), crc32c::crc32c(&block));
            if self.random.chance(2) {
                // The connection is lost, and what was on it comes later.
                nodes.astray.push((place, block));
                return Some(Outcome::Refused);
            }
            nodes.memory.insert(place, block);
        }
        None
    }
}
