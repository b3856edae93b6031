//! Nodes that make parity: places in their local memory, paths between them, and steps as updates.
//!
//! ```text
//! this host's part of a drive's local memory
//! new blocks: place 0 │ place 1 │ … │ interims: place 0 of node 0, 1, … │ place 1 of node 0, 1, … │ …
//! ```

use crate::drive::MemberDrive;
use pumice_offload::{
    DataNode, DriveId, MemoryAddress, NodeError, PathId, PeerRange, SumTo, Update, UpdateRecord,
    UpdateSource, UpdateSum,
};
use pumice_units::Role;
use pumice_volume::log::Kind;
use pumice_volume::near::{NearNodes, NearStep, NearTerm, NodeNumber, PlacedRecord};
use pumice_volume::rows::BLOCK;
use pumice_volume::sequencer::OpId;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Places of a drive, at most: as many writes are near at a time.
const MOST_PLACES: u64 = 64;

/// A member on a node that makes parity.
#[derive(Debug, Clone, Copy)]
struct Home {
    drive: DriveId,
    /// Where this host's part of the drive's local memory begins.
    memory: u64,
}

/// The nodes of a volume's members, ready to make parity.
pub(crate) struct Nodes {
    homes: BTreeMap<Role, Home>,
    numbers: Vec<Option<NodeNumber>>,
    /// With their names; none for a plan.
    nodes: Vec<(Arc<dyn DataNode>, String)>,
    /// How many there are.
    count: u64,
    places: u64,
    /// Bytes of a window: of a slot.
    window: u64,
    /// Check sums of interims that were sent: by operation, target and node.
    sent: BTreeMap<OpId, BTreeMap<(Role, NodeNumber), u32>>,
}

impl Nodes {
    /// Leases local memory on all nodes, grants it to each other, and tells them the paths.
    ///
    /// # Errors
    /// Why parity is made by this host.
    pub(crate) fn prepare(drives: &BTreeMap<Role, MemberDrive>, window: u64) -> Result<Self, NodeError> {
        let mut nodes: Vec<(Arc<dyn DataNode>, String)> = Vec::new();
        for drive in drives.values() {
            if !nodes.iter().any(|(node, _)| Arc::ptr_eq(node, drive.node())) {
                let name = drive.node().describe()?.name;
                nodes.push((Arc::clone(drive.node()), name));
            }
        }
        if let Some((_, name)) = nodes.iter().find(|(node, _)| !node.has_updates()) {
            return Err(NodeError::invalid("node", format!("{name}: it makes no parity")));
        }
        let (homes, numbers, sent) = (BTreeMap::new(), Vec::new(), BTreeMap::new());
        let count = nodes.len() as u64;
        let mut prepared = Self { homes, numbers, nodes, count, places: MOST_PLACES, window, sent };
        for drive in drives.values() {
            prepared.places = prepared.places.min(memory_of(drive)? / prepared.place_bytes());
        }
        if prepared.places == 0 {
            let each = prepared.place_bytes();
            let what = format!("a drive has less than the {each} bytes of local memory that a write takes");
            return Err(NodeError::invalid("memory", what));
        }
        for (role, drive) in drives {
            prepared.take(*role, drive)?;
        }
        Ok(prepared)
    }

    /// Nodes that are not there, for the length of what would be sent to them.
    pub(crate) fn planned(numbers: Vec<Option<NodeNumber>>, window: u64) -> Self {
        let count = numbers.iter().flatten().max().map_or(0, |most| u64::from(*most) + 1);
        let (homes, nodes, sent) = (BTreeMap::new(), Vec::new(), BTreeMap::new());
        Self { homes, numbers, nodes, count, places: MOST_PLACES, window, sent }
    }

    /// Makes a new member's drive ready as well. Returns the number of its node; `None` if the host
    /// goes on to make what is stored on it.
    pub(crate) fn add(&mut self, role: Role, drive: &MemberDrive) -> Option<NodeNumber> {
        let enough = memory_of(drive).map(|bytes| bytes >= self.places * self.place_bytes());
        let taken = enough.and_then(|enough| if enough { self.take(role, drive) } else { Ok(None) });
        match taken {
            Ok(number) => number,
            Err(error) => {
                tracing::warn!(member = %role, device = drive.name(), %error, "its node makes no parity");
                None
            }
        }
    }

    /// Bytes of local memory that a place takes on each drive: new blocks, and an interim of each
    /// node.
    fn place_bytes(&self) -> u64 {
        self.window * (1 + self.count)
    }

    /// Leases local memory for a member, and tells the other nodes the path to it. `None` if its
    /// node is not known.
    fn take(&mut self, role: Role, drive: &MemberDrive) -> Result<Option<NodeNumber>, NodeError> {
        let known = self.nodes.iter().position(|(node, _)| Arc::ptr_eq(node, drive.node()));
        let Some(number) = known else { return Ok(None) };
        let start = MemoryAddress { drive: drive.id(), offset: 0 };
        let memory = drive.node().absolute(start)?.offset;
        let others = (0..self.nodes.len()).filter(|other| *other != number);
        let others: Vec<usize> = others.collect();
        if !others.is_empty() {
            let len = self.places * self.count * self.window;
            let to = MemoryAddress { drive: drive.id(), offset: memory + self.places * self.window };
            let grant = drive.node().grant(to, len)?;
            let range = PeerRange { peer: self.nodes[number].1.clone(), to, len, grant };
            for other in others {
                self.nodes[other].0.set_path(PathId(role.get()), &range)?;
            }
        }
        self.homes.insert(role, Home { drive: drive.id(), memory });
        // There are fewer nodes than members.
        let number = number as NodeNumber;
        let members = self.numbers.len().max(role.index() + 1);
        self.numbers.resize(members, None);
        self.numbers[role.index()] = Some(number);
        Ok(Some(number))
    }

    /// What the volume has to know.
    pub(crate) fn for_volume(&self) -> NearNodes {
        // At most MOST_PLACES.
        NearNodes { nodes: self.numbers.clone(), places: self.places as u32 }
    }

    fn home(&self, role: Role) -> Home {
        self.homes.get(&role).copied().unwrap_or(Home { drive: DriveId(0), memory: 0 })
    }

    /// Where the new blocks of a member are, in its drive's local memory.
    pub(crate) fn slot(&self, role: Role, place: u32) -> u64 {
        self.home(role).memory + u64::from(place) * self.window
    }

    /// Where the interim of a node is, from the start of the granted range.
    fn interim(&self, place: u32, node: NodeNumber) -> u64 {
        (u64::from(place) * self.count + u64::from(node)) * self.window
    }

    /// A step as the node's update.
    pub(crate) fn update(&self, op: OpId, role: Role, step: &NearStep) -> Update {
        let mut terms: Vec<(NearTerm, Role)> = Vec::new();
        for sum in &step.sums {
            for (term, _) in &sum.terms {
                if !terms.iter().any(|(known, _)| known == term) {
                    terms.push((*term, sum.target));
                }
            }
        }
        let source = |(term, target): &(NearTerm, Role)| match term {
            NearTerm::Old { role, at } => UpdateSource::Media { drive: self.home(*role).drive, offset: *at },
            NearTerm::New(role) => {
                let address =
                    MemoryAddress { drive: self.home(*role).drive, offset: self.slot(*role, step.place) };
                UpdateSource::Memory { address, sum: None }
            }
            NearTerm::Interim(node) => {
                let home = self.home(*target);
                let start = home.memory + self.places * self.window;
                let offset = start + self.interim(step.place, *node);
                let told = self.sent.get(&op).and_then(|sent| sent.get(&(*target, *node)));
                // One that was not told has no check sum: the node finds that it differs.
                let sum = Some(told.copied().unwrap_or_default());
                UpdateSource::Memory { address: MemoryAddress { drive: home.drive, offset }, sum }
            }
        };
        let sums = step.sums.iter().map(|sum| {
            let to = if sum.target == role {
                SumTo::Slot
            } else {
                SumTo::Peer { path: PathId(sum.target.get()), offset: self.interim(step.place, step.node) }
            };
            let factor = |(term, _): &(NearTerm, Role)| {
                sum.terms.iter().find(|(other, _)| other == term).map_or(0, |(_, factor)| *factor)
            };
            UpdateSum { to, factors: terms.iter().map(factor).collect() }
        });
        Update {
            drive: self.home(role).drive,
            slot: self.slot(role, step.place),
            // A window has 16 rows at most.
            len: step.rows.count() * BLOCK as u32,
            fills: step.fill.is_some(),
            sources: terms.iter().map(source).collect(),
            sums: sums.collect(),
            record: step.record.as_ref().map(record),
        }
    }

    /// Notes the check sums of what a step has sent.
    pub(crate) fn sent(&mut self, op: OpId, node: NodeNumber, targets: &[Role], sums: [u32; 2]) {
        let known = self.sent.entry(op).or_default();
        known.extend(targets.iter().map(|target| (*target, node)).zip(sums));
    }

    /// The operation is over.
    pub(crate) fn forget(&mut self, op: OpId) {
        self.sent.remove(&op);
    }
}

/// Bytes of a drive's local memory that this host can lease.
fn memory_of(drive: &MemberDrive) -> Result<u64, NodeError> {
    let described = drive.node().describe()?.drives;
    Ok(described.iter().find(|other| other.id == drive.id()).map_or(0, |other| other.memory_bytes))
}

fn record(placed: &PlacedRecord) -> UpdateRecord {
    let PlacedRecord { at, position, nonce, record } = placed;
    UpdateRecord {
        at: *at,
        position: *position,
        nonce: *nonce,
        generation: record.generation,
        sequence: record.sequence,
        committed: record.committed,
        released: record.released,
        window: record.window.0,
        role: record.role.get(),
        // A window has 16 rows at most.
        rows: record.rows.0 as u16,
        members: record.members.iter().map(|role| role.get()).collect(),
        blocks: record.kind == Kind::Blocks,
    }
}
