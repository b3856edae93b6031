//! From the volume's commands to operations on drives, and back.

use crate::drive::MemberDrive;
use crate::ends::Ends;
use crate::message::Message;
use crate::pool::Pool;
use crate::ranges::{ragged, runs};
use crate::slab::Slab;
use pumice_buffer::{AlignedBuffer, SharedBuffer};
use pumice_offload::{
    Completion, DataNode, DriveId, ErrorKind, MAX_OPERATION, NodeError, Operation, OperationQueue,
    QueueTraffic, SumTo, Tag, Update,
};
use pumice_units::Role;
use pumice_volume::near::NodeNumber;
use pumice_volume::rows::{BLOCK, Rows};
use pumice_volume::sequencer::OpId;
use pumice_volume::{ActionId, Outcome};
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;
use std::sync::mpsc::Sender;

/// What an operation is for.
#[derive(Debug)]
enum Part {
    /// A run of rows of a read.
    Rows { op: OpId, role: Role, rows: Range<u32>, at: u64 },
    /// Nothing follows but its action's end.
    Plain,
    /// The same, and these actions end as well.
    Together(Vec<ActionId>),
    /// An update. Of one that makes new blocks the volume can do without: it is refused if it
    /// fails.
    Update { op: OpId, node: NodeNumber, targets: Vec<Role>, makes: bool },
    /// Blocks of a member that a node has made for a read.
    Fetch { op: OpId, of: Role, rows: Range<u32> },
    /// The read of a copy; the same bytes are then written.
    Copy { to: u64 },
    /// Blocks that a write lies in part in are read; then the write follows.
    Around { skip: usize, bytes: Vec<u8> },
}

struct Flight {
    action: ActionId,
    role: Role,
    part: Part,
}

/// An action of which operations are under way.
struct Joined {
    left: u32,
    outcome: Outcome,
}

/// A queue of one node.
struct Link {
    node: Arc<dyn DataNode>,
    queue: Box<dyn OperationQueue>,
    /// What is not handed over yet, or found the queue full.
    waiting: VecDeque<(Tag, Operation)>,
}

/// What became of an operation.
pub(crate) enum Came {
    /// Rows were read.
    Rows { op: OpId, role: Role, rows: Range<u32>, buffer: AlignedBuffer },
    /// Rows of a member that a node has made.
    Made { op: OpId, of: Role, rows: Range<u32>, buffer: AlignedBuffer },
    /// A node has sent interims for targets, with these check sums.
    Sent { op: OpId, node: NodeNumber, targets: Vec<Role>, sums: [u32; 2] },
    /// An action is over.
    Done(ActionId, Outcome),
}

/// Bytes that members moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Moved {
    pub(crate) read: u64,
    pub(crate) written: u64,
    /// Interims that nodes sent to each other.
    pub(crate) between: u64,
    /// Bytes that this host's buffers were read or written: `docs/design/accounting.md`.
    pub(crate) memory: u64,
}

/// The queues of all members' nodes, and what is under way on them.
pub(crate) struct Carrier {
    links: Vec<Link>,
    /// By role: the link, and the drive.
    places: BTreeMap<Role, (usize, MemberDrive)>,
    flights: Slab<Flight>,
    /// By their places.
    actions: Vec<Option<Joined>>,
    under_way: usize,
    /// Small writes of one member, one at a time: two of them may lie in one block of the drive.
    puts: BTreeMap<Role, VecDeque<(ActionId, u64, Vec<u8>)>>,
    depth: usize,
    ended: Arc<Ends>,
    pub(crate) pool: Pool,
    pub(crate) moved: Moved,
    /// The last errors of members, oldest first.
    pub(crate) errors: VecDeque<String>,
}

/// Bytes of interims that an update sends to other nodes.
pub(crate) fn sent_between(update: &Update) -> u64 {
    let away = update.sums.iter().filter(|sum| matches!(sum.to, SumTo::Peer { .. }));
    away.count() as u64 * u64::from(update.len)
}

/// Errors that are remembered.
pub(crate) const ERRORS: usize = 32;

impl Carrier {
    pub(crate) fn new(depth: usize, ended: Sender<Message>) -> Self {
        Self {
            links: Vec::new(),
            places: BTreeMap::new(),
            flights: Slab::default(),
            actions: Vec::new(),
            under_way: 0,
            puts: BTreeMap::new(),
            depth,
            ended: Arc::new(Ends::new(ended)),
            pool: Pool::default(),
            moved: Moved::default(),
            errors: VecDeque::new(),
        }
    }

    /// Gives a role its drive.
    pub(crate) fn attach(&mut self, role: Role, drive: MemberDrive) -> Result<(), NodeError> {
        let known = self.links.iter().position(|link| Arc::ptr_eq(&link.node, drive.node()));
        let index = match known {
            Some(index) => index,
            None => {
                let ended = Arc::clone(&self.ended);
                let told = move |completion| ended.put(completion);
                let queue = drive.node().operations(self.depth, Arc::new(told))?;
                let node = Arc::clone(drive.node());
                self.links.push(Link { node, queue, waiting: VecDeque::new() });
                self.links.len() - 1
            }
        };
        self.places.insert(role, (index, drive));
        Ok(())
    }

    /// The drive of a role.
    pub(crate) fn drive(&self, role: Role) -> Option<&MemberDrive> {
        self.places.get(&role).map(|(_, drive)| drive)
    }

    /// Whether nothing is under way.
    pub(crate) const fn is_idle(&self) -> bool {
        self.under_way == 0
    }

    fn id(&self, role: Role) -> DriveId {
        self.drive(role).map_or(DriveId(0), MemberDrive::id)
    }

    fn begin(&mut self, action: ActionId) -> &mut Joined {
        let place = action.place();
        if self.actions.len() <= place {
            self.actions.resize_with(place + 1, || None);
        }
        let kept = &mut self.actions[place];
        self.under_way += usize::from(kept.is_none());
        kept.get_or_insert(Joined { left: 0, outcome: Outcome::Done })
    }

    fn issue(&mut self, action: ActionId, role: Role, part: Part, operation: Operation) {
        self.begin(action).left += 1;
        match &operation {
            Operation::Read { len, .. } | Operation::Fetch { len, .. } => {
                self.moved.read += *len as u64;
                self.moved.memory += *len as u64;
            }
            Operation::Write { data, .. } => {
                self.moved.written += data.len() as u64;
                self.moved.memory += data.len() as u64;
            }
            Operation::Update { update, .. } => {
                let filled = u64::from(update.fills) * u64::from(update.len);
                self.moved.written += filled;
                self.moved.memory += filled;
                self.moved.between += sent_between(update);
            }
            Operation::Flush { .. } | Operation::Store { .. } => {}
        }
        // Without a place nothing would ever end the action.
        let (index, _) = self.places.get(&role).expect("operations go to roles that are attached");
        let tag = Tag(self.flights.insert(Flight { action, role, part }) as u64);
        self.links[*index].waiting.push_back((tag, operation));
    }

    /// Hands over what was issued, as far as the queues have room: what belongs together goes
    /// together.
    pub(crate) fn hand_over(&mut self) {
        for link in self.links.iter_mut().filter(|link| !link.waiting.is_empty()) {
            link.queue.submit_all(&mut link.waiting);
        }
    }

    /// Reads rows of a window that begins at `at`.
    pub(crate) fn read(&mut self, action: ActionId, op: OpId, role: Role, at: u64, rows: Rows) {
        for run in runs(rows) {
            self.read_run(action, op, role, at, run);
        }
    }

    fn read_run(&mut self, action: ActionId, op: OpId, role: Role, at: u64, rows: Range<u32>) {
        let len = rows.len() * BLOCK as usize;
        let offset = at + u64::from(rows.start) * BLOCK;
        let operation = Operation::Read { drive: self.id(role), offset, len, buffer: self.pool.take(len) };
        self.issue(action, role, Part::Rows { op, role, rows, at }, operation);
    }

    /// Writes bytes in place.
    pub(crate) fn write(
        &mut self,
        action: ActionId,
        role: Role,
        offset: u64,
        bytes: &SharedBuffer,
        durable: bool,
    ) {
        for from in (0..bytes.len()).step_by(MAX_OPERATION) {
            let data = bytes.part(from..bytes.len().min(from + MAX_OPERATION));
            let (drive, offset) = (self.id(role), offset + from as u64);
            self.issue(action, role, Part::Plain, Operation::Write { drive, offset, data, durable });
        }
    }

    /// Writes what belongs to several actions, and lies together on a member, durably.
    pub(crate) fn write_together(
        &mut self,
        mut actions: Vec<ActionId>,
        role: Role,
        offset: u64,
        data: SharedBuffer,
    ) {
        let Some(first) = actions.pop() else { return };
        for action in &actions {
            self.begin(*action).left += 1;
        }
        let part = if actions.is_empty() { Part::Plain } else { Part::Together(actions) };
        let drive = self.id(role);
        self.issue(first, role, part, Operation::Write { drive, offset, data, durable: true });
    }

    /// Has a member's node carry out an update, with the data for its slot.
    pub(crate) fn update(
        &mut self,
        action: ActionId,
        role: Role,
        (op, node, targets): (OpId, NodeNumber, Vec<Role>),
        update: Update,
        data: Option<SharedBuffer>,
    ) {
        let makes = update.fills || !update.sums.is_empty();
        let operation = Operation::Update { update: Box::new(update), data, sent: [0; 2] };
        self.issue(action, role, Part::Update { op, node, targets, makes }, operation);
    }

    /// Brings rows that a member's node has made, from local memory.
    pub(crate) fn fetch(
        &mut self,
        action: ActionId,
        role: Role,
        from: u64,
        (op, of, rows): (OpId, Role, Range<u32>),
    ) {
        let len = rows.len() * BLOCK as usize;
        let buffer = self.pool.take(len);
        let operation = Operation::Fetch { drive: self.id(role), from, len, buffer };
        self.issue(action, role, Part::Fetch { op, of, rows }, operation);
    }

    /// Has a member's node write local memory to the medium.
    pub(crate) fn store(&mut self, action: ActionId, role: Role, from: u64, offset: u64, len: usize) {
        let operation = Operation::Store { drive: self.id(role), from, offset, len, durable: false };
        self.issue(action, role, Part::Plain, operation);
    }

    /// What went over the links to all nodes.
    pub(crate) fn traffic(&self) -> QueueTraffic {
        let sum = |a: QueueTraffic, b: QueueTraffic| QueueTraffic {
            sent: a.sent + b.sent,
            received: a.received + b.received,
        };
        self.links.iter().map(|link| link.queue.traffic()).fold(QueueTraffic::default(), sum)
    }

    /// Makes durable what was written.
    pub(crate) fn flush(&mut self, action: ActionId, role: Role) {
        let operation = Operation::Flush { drive: self.id(role) };
        self.issue(action, role, Part::Plain, operation);
    }

    /// Copies a block within a member.
    pub(crate) fn copy(&mut self, action: ActionId, role: Role, from: u64, to: u64) {
        let len = BLOCK as usize;
        let buffer = self.pool.take(len);
        let operation = Operation::Read { drive: self.id(role), offset: from, len, buffer };
        self.issue(action, role, Part::Copy { to }, operation);
    }

    /// Writes bytes of any length and place durably.
    pub(crate) fn put(&mut self, action: ActionId, role: Role, at: u64, bytes: Vec<u8>) {
        self.begin(action);
        let queue = self.puts.entry(role).or_default();
        queue.push_back((action, at, bytes));
        if queue.len() == 1 {
            self.next_put(role);
        }
    }

    fn next_put(&mut self, role: Role) {
        let Some((action, at, bytes)) = self.puts.get_mut(&role).and_then(VecDeque::front_mut) else {
            return;
        };
        let (action, at, bytes) = (*action, *at, std::mem::take(bytes));
        let block = u64::from(self.drive(role).map_or(512, MemberDrive::block));
        let [head, middle, tail] = ragged(at..at + bytes.len() as u64, block);
        let part = |range: &Range<u64>| &bytes[(range.start - at) as usize..(range.end - at) as usize];
        for range in [&head, &tail].into_iter().filter(|range| !range.is_empty()) {
            self.put_around(action, role, range.start, block, part(range).to_vec());
        }
        if !middle.is_empty() {
            self.moved.memory += 2 * (middle.end - middle.start);
            let bytes = part(&middle);
            let mut buffer = self.pool.take(bytes.len());
            buffer[..bytes.len()].copy_from_slice(bytes);
            self.write(action, role, middle.start, &SharedBuffer::new(buffer, bytes.len()), true);
        }
    }

    /// Writes part of a block of the drive durably.
    fn put_around(&mut self, action: ActionId, role: Role, at: u64, block: u64, bytes: Vec<u8>) {
        let (offset, len) = (at / block * block, block as usize);
        let skip = (at - offset) as usize;
        let operation =
            Operation::Read { drive: self.id(role), offset, len, buffer: AlignedBuffer::new(len) };
        self.issue(action, role, Part::Around { skip, bytes }, operation);
    }

    /// Takes the operations that have ended, in their order.
    pub(crate) fn take_ended(&self, into: &mut Vec<Completion>) {
        self.ended.take(into);
    }

    /// An operation has ended. Adds what became of it.
    pub(crate) fn ended(&mut self, completion: Completion, came: &mut Vec<Came>) {
        let Completion { tag, operation, result } = completion;
        let Some(Flight { action, role, part }) = self.flights.remove(tag.0 as usize) else { return };
        let failed = result.is_err();
        let mut together = Vec::new();
        match (result, part) {
            (Ok(()), Part::Rows { op, role, rows, .. }) => {
                if let Operation::Read { buffer, .. } = operation {
                    came.push(Came::Rows { op, role, rows, buffer });
                }
            }
            (Ok(()), part @ (Part::Plain | Part::Together(_))) => {
                if let Operation::Write { data, .. } = operation {
                    self.pool.give_shared(data);
                }
                if let Part::Together(others) = part {
                    together = others;
                }
            }
            (Ok(()), Part::Fetch { op, of, rows }) => {
                if let Operation::Fetch { buffer, .. } = operation {
                    came.push(Came::Made { op, of, rows, buffer });
                }
            }
            (Ok(()), Part::Update { op, node, targets, .. }) => {
                if let Operation::Update { sent: sums, .. } = operation {
                    came.push(Came::Sent { op, node, targets, sums });
                }
            }
            (Ok(()), Part::Copy { to }) => {
                if let Operation::Read { drive, len, buffer, .. } = operation {
                    let data = SharedBuffer::new(buffer, len);
                    let write = Operation::Write { drive, offset: to, data, durable: false };
                    self.issue(action, role, Part::Plain, write);
                }
            }
            (Ok(()), Part::Around { skip, bytes }) => {
                if let Operation::Read { drive, offset, len, mut buffer } = operation {
                    buffer[skip..skip + bytes.len()].copy_from_slice(&bytes);
                    let data = SharedBuffer::new(buffer, len);
                    let write = Operation::Write { drive, offset, data, durable: true };
                    self.issue(action, role, Part::Plain, write);
                }
            }
            (Err(error), part) => {
                // What nodes do not do together, this host does. The member is as good as before: a
                // drive or node that has failed is found then.
                if matches!(part, Part::Update { makes: true, .. } | Part::Fetch { .. }) {
                    tracing::debug!(member = %role, %error, "not done by the nodes");
                } else {
                    self.remember(role, &error);
                }
                match part {
                    // Which rows is asked one by one.
                    Part::Rows { op, role, rows, at } if error.kind() == ErrorKind::Media => {
                        if rows.len() > 1 {
                            for row in rows {
                                self.read_run(action, op, role, at, row..row + 1);
                            }
                        } else {
                            self.begin(action).unreadable(Rows::default().with(rows.start));
                        }
                    }
                    Part::Update { makes: true, .. } | Part::Fetch { .. } => {
                        self.begin(action).outcome = Outcome::Refused;
                    }
                    Part::Together(others) => {
                        self.begin(action).outcome = Outcome::Failed;
                        together = others;
                    }
                    _ => self.begin(action).outcome = Outcome::Failed,
                }
            }
        }
        self.settle(action, role, came);
        for action in together {
            if failed {
                self.begin(action).outcome = Outcome::Failed;
            }
            self.settle(action, role, came);
        }
    }

    /// One operation of an action less.
    fn settle(&mut self, action: ActionId, role: Role, came: &mut Vec<Came>) {
        let Some(kept) = self.actions.get_mut(action.place()) else { return };
        let Some(joined) = kept else { return };
        joined.left -= 1;
        if joined.left > 0 {
            return;
        }
        let outcome = joined.outcome;
        *kept = None;
        self.under_way -= 1;
        came.push(Came::Done(action, outcome));
        if let Some(queue) = self.puts.get_mut(&role)
            && queue.front().is_some_and(|(put, _, _)| *put == action)
        {
            queue.pop_front();
            self.next_put(role);
        }
    }

    fn remember(&mut self, role: Role, error: &NodeError) {
        let name = self.drive(role).map_or("", MemberDrive::name).to_owned();
        tracing::warn!(member = %role, device = %name, %error, "an operation failed");
        if self.errors.len() == ERRORS {
            self.errors.pop_front();
        }
        self.errors.push_back(format!("{name}: {error}"));
    }
}

impl Joined {
    fn unreadable(&mut self, rows: Rows) {
        self.outcome = match self.outcome {
            Outcome::Done => Outcome::Unreadable(rows),
            Outcome::Unreadable(more) => Outcome::Unreadable(Rows(rows.0 | more.0)),
            other => other,
        };
    }
}

#[cfg(test)]
mod tests;
