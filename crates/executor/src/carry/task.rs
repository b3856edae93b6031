//! Tasks: what one operation on a drive is for. A task makes its operation, and takes back what the
//! operation left, so that the two always fit.

use crate::pool::Pool;
use pumice_base::buffer::{AlignedBuffer, SharedBuffer};
use pumice_base::units::Role;
use pumice_offload::{DriveId, Operation, SumTo, Update};
use pumice_volume::ActionId;
use pumice_volume::near::NodeNumber;
use pumice_volume::rows::BLOCK;
use pumice_volume::sequencer::OpId;
use std::ops::Range;

/// An operation that is wanted, and what it is for.
#[derive(Debug)]
pub(super) enum Task {
    /// A run of rows of a window that begins at `at`.
    Rows {
        op: OpId,
        rows: Range<u32>,
        at: u64,
    },
    /// A write. These other actions end with it.
    Write {
        offset: u64,
        data: SharedBuffer,
        durable: bool,
        others: Vec<ActionId>,
    },
    Flush,
    /// Local memory goes to the medium.
    Store {
        from: u64,
        offset: u64,
        len: usize,
    },
    /// An update of a node, with the data for its slot.
    Update {
        op: OpId,
        node: NodeNumber,
        targets: Vec<Role>,
        update: Update,
        data: Option<SharedBuffer>,
    },
    /// Blocks of a member that a node has made for a read.
    Fetch {
        op: OpId,
        of: Role,
        rows: Range<u32>,
        from: u64,
    },
    /// A block is read; the same bytes are then written.
    Copy {
        from: u64,
        to: u64,
    },
    /// A block that a write lies in part in is read; then the write follows.
    Around {
        offset: u64,
        len: usize,
        skip: usize,
        bytes: Vec<u8>,
    },
}

/// A task whose operation is under way: what is kept of it until the operation ends.
#[derive(Debug)]
pub(super) struct Begun(Kept);

#[derive(Debug)]
enum Kept {
    Rows { op: OpId, rows: Range<u32>, at: u64 },
    Write { others: Vec<ActionId> },
    Plain,
    Update { op: OpId, node: NodeNumber, targets: Vec<Role>, makes: bool },
    Fetch { op: OpId, of: Role, rows: Range<u32> },
    Copy { to: u64 },
    Around { skip: usize, bytes: Vec<u8> },
}

/// A task that has ended well, with what its operation left.
#[derive(Debug)]
pub(super) enum Done {
    Rows {
        op: OpId,
        rows: Range<u32>,
        buffer: AlignedBuffer,
    },
    Written {
        data: SharedBuffer,
        others: Vec<ActionId>,
    },
    Plain,
    Sent {
        op: OpId,
        node: NodeNumber,
        targets: Vec<Role>,
        sums: [u32; 2],
    },
    Fetched {
        op: OpId,
        of: Role,
        rows: Range<u32>,
        buffer: AlignedBuffer,
    },
    /// The write of a copy, or of what lies around a write, follows.
    Write(Task),
}

/// The purpose of a task that has failed.
#[derive(Debug)]
pub(super) enum Failed {
    /// A run of rows was read of a window that begins at `at`.
    Rows { op: OpId, rows: Range<u32>, at: u64 },
    /// This host can do it in another way: the nodes made blocks.
    Made,
    /// These other actions end with it.
    Other { others: Vec<ActionId> },
}

fn bytes_of(rows: &Range<u32>) -> usize {
    rows.len() * BLOCK as usize
}

impl Task {
    /// The operation of the task on a drive, and what is kept until it ends.
    pub(super) fn begin(self, drive: DriveId, pool: &mut Pool) -> (Begun, Operation) {
        let (kept, operation) = match self {
            Self::Rows { op, rows, at } => {
                let (offset, len) = (at + u64::from(rows.start) * BLOCK, bytes_of(&rows));
                let operation = Operation::Read { drive, offset, len, buffer: pool.take(len) };
                (Kept::Rows { op, rows, at }, operation)
            }
            Self::Write { offset, data, durable, others } => {
                (Kept::Write { others }, Operation::Write { drive, offset, data, durable })
            }
            Self::Flush => (Kept::Plain, Operation::Flush { drive }),
            Self::Store { from, offset, len } => {
                (Kept::Plain, Operation::Store { drive, from, offset, len, durable: false })
            }
            Self::Update { op, node, targets, update, data } => {
                let makes = update.fills || !update.sums.is_empty();
                let operation = Operation::Update { update: Box::new(update), data, sent: [0; 2] };
                (Kept::Update { op, node, targets, makes }, operation)
            }
            Self::Fetch { op, of, rows, from } => {
                let len = bytes_of(&rows);
                let operation = Operation::Fetch { drive, from, len, buffer: pool.take(len) };
                (Kept::Fetch { op, of, rows }, operation)
            }
            Self::Copy { from, to } => {
                let len = BLOCK as usize;
                let operation = Operation::Read { drive, offset: from, len, buffer: pool.take(len) };
                (Kept::Copy { to }, operation)
            }
            Self::Around { offset, len, skip, bytes } => {
                let operation = Operation::Read { drive, offset, len, buffer: AlignedBuffer::new(len) };
                (Kept::Around { skip, bytes }, operation)
            }
        };
        (Begun(kept), operation)
    }
}

impl Begun {
    /// The operation has ended well.
    ///
    /// # Panics
    /// If it is not the one that [`Task::begin`] made: a queue gives back what it was given.
    pub(super) fn done(self, operation: Operation) -> Done {
        match (self.0, operation) {
            (Kept::Rows { op, rows, .. }, Operation::Read { buffer, .. }) => Done::Rows { op, rows, buffer },
            (Kept::Write { others }, Operation::Write { data, .. }) => Done::Written { data, others },
            (Kept::Plain, Operation::Flush { .. } | Operation::Store { .. }) => Done::Plain,
            (Kept::Update { op, node, targets, .. }, Operation::Update { sent: sums, .. }) => {
                Done::Sent { op, node, targets, sums }
            }
            (Kept::Fetch { op, of, rows }, Operation::Fetch { buffer, .. }) => {
                Done::Fetched { op, of, rows, buffer }
            }
            (Kept::Copy { to }, Operation::Read { len, buffer, .. }) => {
                let data = SharedBuffer::new(buffer, len);
                Done::Write(Task::Write { offset: to, data, durable: false, others: Vec::new() })
            }
            (Kept::Around { skip, bytes }, Operation::Read { offset, len, mut buffer, .. }) => {
                buffer[skip..skip + bytes.len()].copy_from_slice(&bytes);
                let data = SharedBuffer::new(buffer, len);
                Done::Write(Task::Write { offset, data, durable: true, others: Vec::new() })
            }
            _ => panic!("E3: an operation comes back as it was submitted"),
        }
    }

    /// The operation has failed.
    pub(super) fn failed(self) -> Failed {
        match self.0 {
            Kept::Rows { op, rows, at } => Failed::Rows { op, rows, at },
            Kept::Update { makes: true, .. } | Kept::Fetch { .. } => Failed::Made,
            Kept::Write { others } => Failed::Other { others },
            Kept::Plain | Kept::Update { .. } | Kept::Copy { .. } | Kept::Around { .. } => {
                Failed::Other { others: Vec::new() }
            }
        }
    }
}

/// Bytes of interims that an update sends to other nodes.
pub(crate) fn sent_between(update: &Update) -> u64 {
    let away = update.sums.iter().filter(|sum| matches!(sum.to, SumTo::Peer { .. }));
    away.count() as u64 * u64::from(update.len)
}
