//! Asynchronous reads, writes and flushes: many in flight, without a thread for each.
//!
//! `docs/design/offload.md`, *Operations in flight*, has the rules.

use crate::{DriveId, MAX_STRETCH_BYTES, NodeError, QueueTraffic, Update};
use pumice_base::buffer::{AlignedBuffer, SharedBuffer};
use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

/// Most bytes that one operation moves.
pub const MAX_OPERATION: usize = 256 << 10;

/// The caller's identifier of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tag(pub u64);

/// An operation on a drive's medium. Offsets and lengths are in bytes, multiples of the drive's
/// logical block; 1 to [`MAX_OPERATION`] bytes, and at most the length of the buffer.
#[derive(Debug)]
pub enum Operation {
    /// Fills the first `len` bytes of the buffer.
    Read {
        /// The drive.
        drive: DriveId,
        /// First byte.
        offset: u64,
        /// Bytes.
        len: usize,
        /// Room for them.
        buffer: AlignedBuffer,
    },
    /// Writes bytes, without a copy if they begin on a border for direct I/O.
    Write {
        /// The drive.
        drive: DriveId,
        /// First byte.
        offset: u64,
        /// The bytes.
        data: SharedBuffer,
        /// They are on the medium before it ends successfully.
        durable: bool,
    },
    /// Makes durable the writes of operations that had ended before this one was submitted.
    Flush {
        /// The drive.
        drive: DriveId,
    },
    /// A step of a write of parity; only nodes with updates have it.
    Update {
        /// The step.
        update: Box<Update>,
        /// Data for its slot, if it fills the slot: as many bytes as the slot has, or more.
        data: Option<SharedBuffer>,
        /// The CRC-32C of the first two sums that went to peers, once it has ended successfully.
        sent: [u32; 2],
    },
    /// Fills the first `len` bytes of the buffer from local memory; only nodes with updates have
    /// it.
    Fetch {
        /// The drive.
        drive: DriveId,
        /// First byte in its local memory, by absolute address.
        from: u64,
        /// Bytes.
        len: usize,
        /// Room for them.
        buffer: AlignedBuffer,
    },
    /// Writes local memory to a drive's medium; only nodes with updates have it.
    Store {
        /// The drive.
        drive: DriveId,
        /// First byte in its local memory, by absolute address.
        from: u64,
        /// First byte on its medium.
        offset: u64,
        /// Bytes.
        len: usize,
        /// They are on the medium before it ends successfully.
        durable: bool,
    },
}

impl Operation {
    /// Its drive.
    #[must_use]
    pub const fn drive(&self) -> DriveId {
        match self {
            Self::Read { drive, .. }
            | Self::Write { drive, .. }
            | Self::Flush { drive }
            | Self::Fetch { drive, .. }
            | Self::Store { drive, .. } => *drive,
            Self::Update { update, .. } => update.drive,
        }
    }

    /// First byte and length on the medium; none for a flush, an update or a fetch.
    #[must_use]
    pub fn range(&self) -> (u64, usize) {
        match self {
            Self::Read { offset, len, .. } | Self::Store { offset, len, .. } => (*offset, *len),
            Self::Write { offset, data, .. } => (*offset, data.len()),
            Self::Flush { .. } | Self::Update { .. } | Self::Fetch { .. } => (0, 0),
        }
    }

    /// Checks its range against its drive: the size of the medium, and of a logical block.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidField`](crate::ErrorKind::InvalidField) names the field.
    pub fn check(&self, size: u64, block: u32) -> Result<(), NodeError> {
        let room = match self {
            Self::Read { buffer, .. } => buffer.len().min(MAX_OPERATION),
            Self::Write { .. } => MAX_OPERATION,
            Self::Store { .. } => MAX_STRETCH_BYTES as usize,
            Self::Flush { .. } => return Ok(()),
            Self::Fetch { len, buffer, .. } => {
                let room = buffer.len().min(MAX_OPERATION);
                return match (1..=room).contains(len) {
                    true => Ok(()),
                    false => Err(NodeError::invalid("len", format!("{len} bytes, not 1 to {room}"))),
                };
            }
            Self::Update { update, data, .. } => {
                let len = data.as_ref().map_or(0, |data| data.len());
                if update.fills && len < update.len as usize {
                    return Err(NodeError::invalid("data", format!("{len} bytes are too few")));
                }
                return update.validate();
            }
        };
        let (offset, len) = self.range();
        if len == 0 || len > room {
            return Err(NodeError::invalid("len", format!("{len} bytes, not 1 to {room}")));
        }
        if offset.checked_add(len as u64).is_none_or(|end| end > size) {
            let drive = self.drive();
            let what = format!("{offset}+{len} is outside the {size} bytes of {drive}");
            return Err(NodeError::invalid("offset", what));
        }
        if (offset | len as u64) & (u64::from(block) - 1) != 0 {
            let what = format!("{offset}+{len} does not consist of whole blocks of {block} bytes");
            return Err(NodeError::invalid("offset", what));
        }
        Ok(())
    }
}

/// An operation that has ended.
#[derive(Debug)]
pub struct Completion {
    /// Its tag.
    pub tag: Tag,
    /// The operation, with its buffer, whose contents are undefined after a failed read.
    pub operation: Operation,
    /// Its result.
    pub result: Result<(), NodeError>,
}

/// Called for each operation that has ended, by any thread. It must not wait, and must not close or
/// drop the queue.
pub type Ended = Arc<dyn Fn(Completion) + Send + Sync>;

/// A queue of operations on the drives of one node. Dropping it closes it.
pub trait OperationQueue: Send + Sync {
    /// Submits an operation. The queue's [`Ended`] is called for it, whatever its outcome.
    ///
    /// # Errors
    /// Returns the operation, without any effect, if the queue is full.
    fn submit(&self, tag: Tag, operation: Operation) -> Result<(), Operation>;

    /// Submits operations in their order until the queue is full; the others are left.
    fn submit_all(&self, waiting: &mut VecDeque<(Tag, Operation)>) {
        while let Some((tag, operation)) = waiting.pop_front() {
            if let Err(operation) = self.submit(tag, operation) {
                return waiting.push_front((tag, operation));
            }
        }
    }

    /// Operations that were accepted and have not ended.
    fn in_flight(&self) -> usize;

    /// The traffic of its connection; nothing for drives of this process.
    fn traffic(&self) -> QueueTraffic {
        QueueTraffic::default()
    }

    /// Accepts nothing more: operations that no drive has begun, and later ones, end as
    /// [`ErrorKind::Unreachable`](crate::ErrorKind::Unreachable). Returns at once.
    fn close(&self);
}

impl fmt::Debug for dyn OperationQueue + '_ {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OperationQueue").field("in_flight", &self.in_flight()).finish_non_exhaustive()
    }
}
