//! Nodes that make parity: places in their local memory, paths between them, and steps as updates.
//!
//! ```text
//! this host's part of a drive's local memory
//! new blocks: place 0 │ place 1 │ … │
//! interims of other nodes: place 0, node by node │ place 1 │ … │ the same of stretches
//! ```
//!
//! A stretch is made where the first of its interims is.

use crate::drive::MemberDrive;
use crate::random::random;
use pumice_base::units::Role;
use pumice_offload::{
    DataNode, DriveId, MemoryAddress, NodeError, PathId, PeerRange, SumTo, Update, UpdateRecord,
    UpdateSource, UpdateSum, Updates,
};
use pumice_volume::log::Kind;
use pumice_volume::near::{NearNodes, NearStep, NearTerm, NodeNumber, PlacedRecord, StretchStep};
use pumice_volume::rows::BLOCK;
use pumice_volume::sequencer::OpId;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Places of a drive, at most: as many writes are near at a time.
const MOST_PLACES: u64 = 32;
/// Stretches that are restored at a time: while the blocks of one are stored, those of another are
/// read, and those of a third are on their way.
const STRETCHES: u64 = 3;
/// Most bytes of a stretch. Users wait for as many of each member.
const STRETCH_BYTES: u64 = 2 << 20;
/// Bytes of a drive's local memory, where it is not known.
const PLANNED_MEMORY: u64 = 16 << 20;

/// A member on a node that makes parity.
#[derive(Debug, Clone, Copy)]
struct Home {
    drive: DriveId,
    /// The start of this host's part of the drive's local memory.
    memory: u64,
}

/// The nodes of a volume's members, ready to make parity.
pub(crate) struct Nodes {
    homes: BTreeMap<Role, Home>,
    numbers: Vec<Option<NodeNumber>>,
    /// With their names; none for a plan.
    nodes: Vec<(Arc<dyn DataNode>, String)>,
    /// The number of them.
    count: u64,
    places: u64,
    /// Windows of a stretch.
    stretch: u64,
    /// Bytes of a window: of a slot.
    window: u64,
    /// The secret that those sums depend on.
    secret: u64,
    /// Check sums of interims that were sent: by operation, target and node.
    sent: BTreeMap<OpId, BTreeMap<(Role, NodeNumber), u32>>,
}

/// The updates of a node.
fn updates_of<'n>(node: &'n dyn DataNode, name: &str) -> Result<&'n dyn Updates, NodeError> {
    let none = || NodeError::invalid("node", format!("{name}: it makes no parity, or is of another version"));
    node.updates().ok_or_else(none)
}

impl Nodes {
    /// Leases local memory on all nodes, half of it if they have so much left, grants it to each
    /// other, and tells them the paths.
    ///
    /// # Errors
    /// Why parity is made by this host.
    pub(crate) fn prepare(drives: &BTreeMap<Role, MemberDrive>, window: u64) -> Result<Self, NodeError> {
        let updates = || drives.values().filter_map(|drive| drive.node().updates());
        let widen = |wide| updates().for_each(|updates| updates.widen_memory(wide));
        widen(true);
        Self::lease(drives, window).or_else(|_| {
            widen(false);
            Self::lease(drives, window)
        })
    }

    fn lease(drives: &BTreeMap<Role, MemberDrive>, window: u64) -> Result<Self, NodeError> {
        let mut nodes: Vec<(Arc<dyn DataNode>, String)> = Vec::new();
        for drive in drives.values() {
            if !nodes.iter().any(|(node, _)| Arc::ptr_eq(node, drive.node())) {
                let name = drive.node().describe()?.name;
                nodes.push((Arc::clone(drive.node()), name));
            }
        }
        nodes.iter().try_for_each(|(node, name)| updates_of(&**node, name).map(drop))?;
        let (homes, numbers, sent) = (BTreeMap::new(), Vec::new(), BTreeMap::new());
        let count = nodes.len() as u64;
        let secret = random();
        let mut prepared = Self { homes, numbers, nodes, count, places: 0, stretch: 0, window, secret, sent };
        let mut memory = u64::MAX;
        for drive in drives.values() {
            memory = memory.min(memory_of(drive)?);
        }
        prepared.divide(memory);
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
        let secret = 0;
        let mut planned = Self { homes, numbers, nodes, count, places: 0, stretch: 0, window, secret, sent };
        planned.divide(PLANNED_MEMORY);
        planned
    }

    /// Divides the local memory of a drive: half of it are places for writes, if that is one at
    /// least, and the rest is for stretches.
    fn divide(&mut self, memory: u64) {
        let place = self.place_bytes();
        self.places = (memory / 2 / place).max(1).min(memory / place).min(MOST_PLACES);
        let each = memory.saturating_sub(self.places * place) / STRETCHES / self.others().max(1);
        self.stretch = each.min(STRETCH_BYTES) / self.window;
    }

    /// Nodes that send to a member.
    fn others(&self) -> u64 {
        self.count.saturating_sub(1)
    }

    /// Bytes of local memory that are used of each drive.
    fn used(&self) -> u64 {
        self.interims() + self.granted()
    }

    /// The start of interims, from the start of this host's part of the memory.
    fn interims(&self) -> u64 {
        self.places * self.window
    }

    /// Bytes that other nodes may write from there on, or where a stretch is made without them.
    fn granted(&self) -> u64 {
        (self.places * self.others() + STRETCHES * self.stretch * self.others().max(1)) * self.window
    }

    /// Makes a new member's drive ready as well. Returns the number of its node; `None` if the host
    /// goes on to make what is stored on it.
    pub(crate) fn add(&mut self, role: Role, drive: &MemberDrive) -> Option<NodeNumber> {
        let enough = memory_of(drive).map(|bytes| bytes >= self.used());
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
        self.window * (1 + self.others())
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
            let len = self.granted();
            let to = MemoryAddress { drive: drive.id(), offset: memory + self.interims() };
            let grant = drive.node().grant(to, len)?;
            let range = PeerRange { peer: self.nodes[number].1.clone(), to, len, grant };
            for other in others {
                let (node, name) = &self.nodes[other];
                updates_of(&**node, name)?.set_path(PathId(role.get()), &range)?;
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

    /// The nodes and places, for the volume.
    pub(crate) fn for_volume(&self) -> NearNodes {
        // At most MOST_PLACES.
        NearNodes {
            nodes: self.numbers.clone(),
            places: self.places as u32,
            stretches: STRETCHES as u32,
            stretch_windows: self.stretch,
        }
    }

    fn home(&self, role: Role) -> Home {
        self.homes.get(&role).copied().unwrap_or(Home { drive: DriveId(0), memory: 0 })
    }

    /// The place of the new blocks of a member, in its drive's local memory.
    pub(crate) fn slot(&self, role: Role, place: u32) -> u64 {
        self.home(role).memory + u64::from(place) * self.window
    }

    /// The place where a stretch of a member is made, in its drive's local memory.
    pub(crate) fn stretch_slot(&self, role: Role, place: u32) -> u64 {
        self.home(role).memory + self.interims() + self.stretch_interim(place, 0)
    }

    /// The number of a node among those that send to a member.
    fn sender(&self, target: Role, node: NodeNumber) -> u64 {
        let home = self.numbers.get(target.index()).copied().flatten();
        u64::from(node) - u64::from(home.is_some_and(|home| home < node))
    }

    /// The place of the interim of a sender for a stretch, from the start of the granted range.
    fn stretch_interim(&self, place: u32, sender: u64) -> u64 {
        let before = u64::from(place) * self.others().max(1) + sender;
        (self.places * self.others() + before * self.stretch) * self.window
    }

    /// The place of the interim of a node, from the start of the granted range.
    fn interim(&self, place: u32, target: Role, node: NodeNumber) -> u64 {
        (u64::from(place) * self.others() + self.sender(target, node)) * self.window
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
                let offset = home.memory + self.interims() + self.interim(step.place, *target, *node);
                let sum = Some(self.told(op, *target, *node));
                UpdateSource::Memory { address: MemoryAddress { drive: home.drive, offset }, sum }
            }
        };
        let sums = step.sums.iter().map(|sum| {
            let to = if sum.target == role {
                SumTo::Slot
            } else {
                let offset = self.interim(step.place, sum.target, step.node);
                SumTo::Peer { path: PathId(sum.target.get()), offset }
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
            segment: None,
            fills: step.fill.is_some(),
            secret: self.secret,
            sources: terms.iter().map(source).collect(),
            sums: sums.collect(),
            record: step.record.as_ref().map(record),
        }
    }

    /// A step of a stretch as the node's update.
    pub(crate) fn stretch(&self, op: OpId, role: Role, step: &StretchStep) -> Update {
        let home = self.home(step.target);
        let source = |term: &NearTerm| match term {
            NearTerm::Old { role, at } => UpdateSource::Media { drive: self.home(*role).drive, offset: *at },
            NearTerm::Interim(node) => {
                let sender = self.sender(step.target, *node);
                let offset = home.memory + self.interims() + self.stretch_interim(step.place, sender);
                let sum = Some(self.told(op, step.target, *node));
                UpdateSource::Memory { address: MemoryAddress { drive: home.drive, offset }, sum }
            }
            NearTerm::New(role) => {
                let offset = self.stretch_slot(*role, step.place);
                UpdateSource::Memory { address: MemoryAddress { drive: home.drive, offset }, sum: None }
            }
        };
        let to = if step.target == role {
            SumTo::Slot
        } else {
            let offset = self.stretch_interim(step.place, self.sender(step.target, step.node));
            SumTo::Peer { path: PathId(step.target.get()), offset }
        };
        Update {
            drive: self.home(role).drive,
            slot: self.stretch_slot(role, step.place),
            // A stretch has STRETCH_BYTES at most.
            len: step.bytes as u32,
            segment: Some(step.segment as u32),
            fills: false,
            secret: self.secret,
            sources: step.terms.iter().map(source).collect(),
            sums: vec![UpdateSum { to, factors: step.factors.concat() }],
            record: None,
        }
    }

    /// The check sum of an interim. One that was not told has none: the node finds that it differs,
    /// because no user of the volume can make an interim whose sum under the secret is 0.
    fn told(&self, op: OpId, target: Role, node: NodeNumber) -> u32 {
        self.sent.get(&op).and_then(|sent| sent.get(&(target, node))).copied().unwrap_or_default()
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
