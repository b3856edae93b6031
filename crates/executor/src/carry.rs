//! From the volume's commands to operations on drives, and back.

mod task;

use crate::drive::MemberDrive;
use crate::ends::Ends;
use crate::message::Message;
use crate::pool::Pool;
use crate::ranges::{ragged, runs};
use crate::slab::Slab;
use pumice_base::buffer::{AlignedBuffer, SharedBuffer};
use pumice_base::units::Role;
use pumice_offload::{
    Completion, DataNode, ErrorKind, MAX_OPERATION, NodeError, Operation, OperationQueue, QueueTraffic, Tag,
    Update,
};
use pumice_volume::near::NodeNumber;
use pumice_volume::rows::Rows;
use pumice_volume::sequencer::OpId;
use pumice_volume::{ActionId, Outcome};
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;
use std::sync::mpsc::Sender;
pub(crate) use task::sent_between;
use task::{Begun, Done, Failed, Task};

/// An operation under way.
struct Flight {
    action: ActionId,
    role: Role,
    begun: Begun,
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
    /// Operations that are not handed over yet, or found the queue full.
    waiting: VecDeque<(Tag, Operation)>,
}

/// The outcome of an operation.
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

impl Moved {
    /// Counts the bytes of an operation that is issued.
    fn count(&mut self, operation: &Operation) {
        match operation {
            Operation::Read { len, .. } | Operation::Fetch { len, .. } => {
                self.read += *len as u64;
                self.memory += *len as u64;
            }
            Operation::Write { data, .. } => {
                self.written += data.len() as u64;
                self.memory += data.len() as u64;
            }
            Operation::Update { update, .. } => {
                let filled = u64::from(update.fills) * u64::from(update.len);
                self.written += filled;
                self.memory += filled;
                self.between += sent_between(update);
            }
            Operation::Flush { .. } | Operation::Store { .. } => {}
        }
    }
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

    /// Returns whether nothing is under way.
    pub(crate) const fn is_idle(&self) -> bool {
        self.under_way == 0
    }

    /// Returns whether an action has an operation that is under way, or waits for one before it.
    pub(crate) fn has_begun(&self, action: ActionId) -> bool {
        self.actions.get(action.place()).is_some_and(Option::is_some)
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

    fn issue(&mut self, action: ActionId, role: Role, task: Task) {
        self.begin(action).left += 1;
        // Without a place nothing would ever end the action.
        let (link, drive) = self.places.get(&role).expect("E2: an operation goes to a role with a drive");
        let (link, drive) = (*link, drive.id());
        let (begun, operation) = task.begin(drive, &mut self.pool);
        self.moved.count(&operation);
        let tag = Tag(self.flights.insert(Flight { action, role, begun }) as u64);
        self.links[link].waiting.push_back((tag, operation));
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
        self.issue(action, role, Task::Rows { op, rows, at });
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
            let offset = offset + from as u64;
            self.issue(action, role, Task::Write { offset, data, durable, others: Vec::new() });
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
        assert!(data.len() <= MAX_OPERATION, "E6: an operation has at most {MAX_OPERATION} bytes");
        let Some(first) = actions.pop() else { return };
        for action in &actions {
            self.begin(*action).left += 1;
        }
        self.issue(first, role, Task::Write { offset, data, durable: true, others: actions });
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
        self.issue(action, role, Task::Update { op, node, targets, update, data });
    }

    /// Brings rows that a member's node has made, from local memory.
    pub(crate) fn fetch(
        &mut self,
        action: ActionId,
        role: Role,
        from: u64,
        (op, of, rows): (OpId, Role, Range<u32>),
    ) {
        self.issue(action, role, Task::Fetch { op, of, rows, from });
    }

    /// Has a member's node write local memory to the medium.
    pub(crate) fn store(&mut self, action: ActionId, role: Role, from: u64, offset: u64, len: usize) {
        self.issue(action, role, Task::Store { from, offset, len });
    }

    /// The traffic of the links to all nodes.
    pub(crate) fn traffic(&self) -> QueueTraffic {
        let sum = |a: QueueTraffic, b: QueueTraffic| QueueTraffic {
            sent: a.sent + b.sent,
            received: a.received + b.received,
        };
        self.links.iter().map(|link| link.queue.traffic()).fold(QueueTraffic::default(), sum)
    }

    /// Makes durable what was written.
    pub(crate) fn flush(&mut self, action: ActionId, role: Role) {
        self.issue(action, role, Task::Flush);
    }

    /// Copies a block within a member.
    pub(crate) fn copy(&mut self, action: ActionId, role: Role, from: u64, to: u64) {
        self.issue(action, role, Task::Copy { from, to });
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
        self.issue(action, role, Task::Around { offset, len, skip, bytes });
    }

    /// Takes the operations that have ended, in their order.
    pub(crate) fn take_ended(&self, into: &mut Vec<Completion>) {
        self.ended.take(into);
    }

    /// An operation has ended. Adds what became of it.
    pub(crate) fn ended(&mut self, completion: Completion, came: &mut Vec<Came>) {
        let Completion { tag, operation, result } = completion;
        let flight = self.flights.remove(tag.0 as usize);
        let Flight { action, role, begun } = flight.expect("E1: an operation ends once");
        let together = match result {
            Ok(()) => self.done(action, role, begun.done(operation), came),
            Err(error) => self.failed(action, role, begun, &error),
        };
        self.settle(action, role, came);
        for action in together {
            self.settle(action, role, came);
        }
    }

    /// An operation has ended well. Returns the other actions that end with it.
    fn done(&mut self, action: ActionId, role: Role, done: Done, came: &mut Vec<Came>) -> Vec<ActionId> {
        match done {
            Done::Rows { op, rows, buffer } => came.push(Came::Rows { op, role, rows, buffer }),
            Done::Fetched { op, of, rows, buffer } => came.push(Came::Made { op, of, rows, buffer }),
            Done::Sent { op, node, targets, sums } => came.push(Came::Sent { op, node, targets, sums }),
            Done::Write(task) => self.issue(action, role, task),
            Done::Plain => {}
            Done::Written { data, others } => {
                self.pool.give_shared(data);
                return others;
            }
        }
        Vec::new()
    }

    /// An operation has failed. Returns the other actions that end with it.
    fn failed(&mut self, action: ActionId, role: Role, begun: Begun, error: &NodeError) -> Vec<ActionId> {
        let failed = begun.failed();
        // What nodes do not do together, this host does. The member is as good as before: a drive
        // or node that has failed is found then.
        match &failed {
            Failed::Made => tracing::debug!(member = %role, %error, "not done by the nodes"),
            _ => self.remember(role, error),
        }
        match failed {
            Failed::Rows { op, rows, at } if error.kind() == ErrorKind::Media => {
                self.unreadable(action, role, (op, rows, at));
                Vec::new()
            }
            Failed::Rows { .. } => self.fail(action, Vec::new()),
            Failed::Made => {
                self.begin(action).outcome = Outcome::Refused;
                Vec::new()
            }
            Failed::Other { others } => self.fail(action, others),
        }
    }

    fn fail(&mut self, action: ActionId, others: Vec<ActionId>) -> Vec<ActionId> {
        for action in [&[action], &others[..]].concat() {
            self.begin(action).outcome = Outcome::Failed;
        }
        others
    }

    /// The medium did not give a run of rows. Which of them it does not give is asked one by one.
    fn unreadable(&mut self, action: ActionId, role: Role, (op, rows, at): (OpId, Range<u32>, u64)) {
        if rows.len() == 1 {
            return self.begin(action).unreadable(Rows::default().with(rows.start));
        }
        for row in rows {
            self.read_run(action, op, role, at, row..row + 1);
        }
    }

    /// One operation of an action less.
    fn settle(&mut self, action: ActionId, role: Role, came: &mut Vec<Came>) {
        let kept = self.actions.get_mut(action.place()).expect("E4: an action ends once");
        let joined = kept.as_mut().expect("E4: an action ends once, after all its operations");
        assert!(joined.left > 0, "E4: an action ends once, after all its operations");
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
