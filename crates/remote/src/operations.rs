//! Operations in flight on a node's drives: `docs/design/offload.md`, *Operations in flight*.

use crate::PATIENCE;
use crate::answer::{unreachable, whole};
use crate::blocks::{Geometry, outcome};
use crate::initiator::{Exchange, InitiatorError, Outcome, Patience, Pipeline};
use crate::memory::memory_command;
use crate::pool::{Given, Pool};
use pumice_base::buffer::SharedBuffer;
use pumice_nvme::host::Payload;
use pumice_nvme::spec::Sqe;
use pumice_nvme::spec::opcode::io;
use pumice_offload::wire::{self, opcode};
use pumice_offload::{
    Completion, Ended, MemoryAddress, NodeError, Operation, OperationQueue, QueueTraffic, Tag,
};
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// State shared by the queue and its pipeline's thread.
struct Shared {
    name: String,
    ended: Ended,
    in_flight: AtomicUsize,
}

impl Shared {
    fn end(&self, tag: Tag, operation: Operation, result: Result<(), NodeError>) {
        self.in_flight.fetch_sub(1, Ordering::AcqRel);
        (self.ended)(Completion { tag, operation, result });
    }

    /// The result of an operation, from the outcome of its command.
    fn ended(&self, flight: Flight, came: Result<Outcome, Arc<InitiatorError>>) {
        let Flight { tag, mut operation, .. } = flight;
        let drive = operation.drive();
        let result = came.map_err(|error| unreachable(&error)).and_then(|done| {
            let what = match operation {
                Operation::Read { .. } => "read",
                Operation::Write { .. } => "write",
                Operation::Flush { .. } => "flush",
                Operation::Update { .. } => "update",
                Operation::Store { .. } => "store",
                Operation::Fetch { .. } => "fetch",
            };
            outcome(&self.name, drive, what, done.status)?;
            match &mut operation {
                Operation::Read { len, .. } | Operation::Fetch { len, .. } => {
                    whole(&self.name, &format!("{drive}: {what}"), &done, *len)
                }
                Operation::Update { sent, .. } => {
                    *sent = [done.result as u32, (done.result >> 32) as u32];
                    Ok(())
                }
                _ => Ok(()),
            }
        });
        self.end(tag, operation, result);
    }
}

/// Bytes that are sent with a command: the descriptor of an update, and the operation's data where
/// they are.
#[derive(Clone, Default)]
struct Data {
    descriptor: Arc<[u8]>,
    data: Option<SharedBuffer>,
}

impl Payload for Data {
    fn size(&self) -> usize {
        self.descriptor.len() + self.data.as_ref().map_or(0, |data| data.len())
    }

    fn parts(&self, range: Range<usize>) -> [&[u8]; 2] {
        let first = self.descriptor.len();
        let data = self.data.as_ref().map_or(&[][..], |data| data);
        let within = |at: usize| at.saturating_sub(first);
        [
            &self.descriptor[range.start.min(first)..range.end.min(first)],
            &data[within(range.start)..within(range.end)],
        ]
    }

    fn release(&mut self) {
        *self = Self::default();
    }
}

/// An operation as a command.
struct Flight {
    tag: Tag,
    operation: Operation,
    sqe: Sqe,
    data: Data,
}

impl Exchange for Flight {
    type Data = Data;

    fn sqe(&self) -> Sqe {
        self.sqe
    }

    fn send(&self) -> Data {
        self.data.clone()
    }

    fn receive(&mut self) -> &mut [u8] {
        match &mut self.operation {
            Operation::Read { buffer, len, .. } | Operation::Fetch { buffer, len, .. } => &mut buffer[..*len],
            _ => &mut [],
        }
    }
}

/// Sets two dwords to a number, the lower half first.
fn set_quad(sqe: &mut Sqe, dword: usize, number: u64) {
    sqe.set_dword(dword, number as u32);
    sqe.set_dword(dword + 1, (number >> 32) as u32);
}

/// A queue of one node: a connection of its own.
pub(crate) struct RemoteQueue {
    shared: Arc<Shared>,
    geometry: Vec<Geometry>,
    depth: usize,
    pool: Arc<Pool>,
    given: Given,
    /// Closed by this host: the association continues.
    closed: Arc<AtomicBool>,
    /// `None` only while the queue is dropped.
    pipeline: Option<Pipeline<Flight>>,
}

impl RemoteQueue {
    pub(crate) fn open(
        pool: &Arc<Pool>,
        name: &str,
        geometry: &[Geometry],
        depth: usize,
        ended: Ended,
    ) -> Result<Self, NodeError> {
        let depth = depth.max(1);
        let (queue, given) = pool.give(u16::try_from(depth).unwrap_or(u16::MAX))?;
        let shared = Arc::new(Shared { name: name.to_owned(), ended, in_flight: AtomicUsize::new(0) });
        let asked = Arc::clone(pool);
        let (node, silence) = (name.to_owned(), queue.deadline());
        let patience = Patience {
            silence,
            // Users of the volume wait: long before they are told that the node is lost, the log
            // says for what.
            quiet: Box::new(move |silent| {
                let seconds = silent.as_secs();
                tracing::warn!(node, seconds, "the node does not answer: requests wait for it");
            }),
            command: PATIENCE,
            alive: Box::new(move || asked.is_alive(silence)),
        };
        let (told, there) = (Arc::clone(&shared), Arc::downgrade(pool));
        let closed = Arc::new(AtomicBool::new(false));
        let by_us = Arc::clone(&closed);
        let told = move |flight: Flight, came: Result<Outcome, Arc<InitiatorError>>| {
            if let (Err(error), false, Some(pool)) = (&came, by_us.load(Ordering::Acquire), there.upgrade()) {
                // One lost queue is the end of the association.
                pool.lose_given(given, error);
            }
            told.ended(flight, came);
        };
        let pipeline =
            Pipeline::start(queue, patience, Box::new(told)).map_err(|error| unreachable(&error))?;
        let pool = Arc::clone(pool);
        Ok(Self { shared, geometry: geometry.to_vec(), depth, pool, given, closed, pipeline: Some(pipeline) })
    }

    /// An operation as a command, with its data.
    fn command(&self, operation: &Operation) -> Result<(Sqe, Data), NodeError> {
        let drive = operation.drive();
        let geometry = (drive.0 as usize).checked_sub(1).and_then(|index| self.geometry.get(index));
        let none = || NodeError::invalid("drive", format!("node {} has no {drive}", self.shared.name));
        let geometry = geometry.ok_or_else(none)?;
        operation.check(geometry.bytes(), geometry.block())?;
        let (offset, len) = operation.range();
        let mut sent = Data::default();
        let sqe = match operation {
            Operation::Read { .. } => geometry.command(io::READ, drive, offset, len),
            Operation::Write { data, durable, .. } => {
                sent.data = Some(data.clone());
                let mut sqe = geometry.command(io::WRITE, drive, offset, len);
                if *durable {
                    sqe.set_control(Sqe::FUA);
                }
                sqe
            }
            Operation::Flush { .. } => Sqe::new(io::FLUSH, drive.0),
            Operation::Fetch { from, len, .. } => {
                memory_command(opcode::MEMORY_READ, MemoryAddress { drive, offset: *from }, 0, *len)
            }
            Operation::Store { from, durable, .. } => {
                let mut sqe = Sqe::new(opcode::STORE, drive.0);
                set_quad(&mut sqe, 2, *from);
                set_quad(&mut sqe, 10, offset);
                sqe.set_dword(12, len as u32);
                sqe.set_dword(13, u32::from(*durable) * wire::STORE_DURABLE);
                sqe
            }
            Operation::Update { update, data, .. } => {
                let (words, descriptor) = wire::encode_update(update)
                    .map_err(|error| NodeError::invalid(error.field, error.to_string()))?;
                let fill = data.as_ref().filter(|_| update.fills);
                sent = Data {
                    descriptor: descriptor.into(),
                    data: fill.map(|data| data.part(0..update.len as usize)),
                };
                let mut sqe = Sqe::new(opcode::UPDATE, drive.0);
                set_quad(&mut sqe, 2, words.slot);
                set_quad(&mut sqe, 10, words.record_at);
                sqe.set_dword(12, sent.size() as u32);
                sqe.set_dword(13, words.len);
                sqe
            }
        };
        Ok((sqe, sent))
    }
}

impl OperationQueue for RemoteQueue {
    fn submit(&self, tag: Tag, operation: Operation) -> Result<(), Operation> {
        let mut one = VecDeque::from([(tag, operation)]);
        self.submit_all(&mut one);
        one.pop_front().map_or(Ok(()), |(_, operation)| Err(operation))
    }

    fn submit_all(&self, waiting: &mut VecDeque<(Tag, Operation)>) {
        let depth = self.depth;
        let more = |count: usize| (count < depth).then_some(count + 1);
        let mut flights = Vec::with_capacity(waiting.len());
        while !waiting.is_empty()
            && self.shared.in_flight.fetch_update(Ordering::AcqRel, Ordering::Acquire, more).is_ok()
        {
            let Some((tag, operation)) = waiting.pop_front() else { break };
            match self.command(&operation) {
                Err(error) => self.shared.end(tag, operation, Err(error)),
                Ok((sqe, data)) => flights.push(Flight { tag, operation, sqe, data }),
            }
        }
        let pipeline = self.pipeline.as_ref().expect("there until the drop");
        if let Err((flights, error)) = pipeline.submit_all(flights) {
            for Flight { tag, operation, .. } in flights {
                self.shared.end(tag, operation, Err(unreachable(&error)));
            }
        }
    }

    fn in_flight(&self) -> usize {
        self.shared.in_flight.load(Ordering::Acquire)
    }

    fn traffic(&self) -> QueueTraffic {
        let (sent, received) = self.pipeline.as_ref().map_or((0, 0), Pipeline::moved);
        QueueTraffic { sent, received }
    }

    fn close(&self) {
        self.closed.store(true, Ordering::Release);
        if let Some(pipeline) = &self.pipeline {
            pipeline.close();
        }
    }
}

impl Drop for RemoteQueue {
    fn drop(&mut self) {
        self.close();
        // Waits for its thread: the connection is over then.
        self.pipeline = None;
        self.pool.take_back(self.given);
    }
}
