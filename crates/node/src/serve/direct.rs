//! Commands that the kernel carries for a core, without a thread that waits for each.

use super::done::Done;
use super::faults::write_fault;
use super::workers::Job;
use pumice_blockdev::{DirectEnd, DirectMemory, DirectOperation, DirectQueue, DirectRequest};
use pumice_buffer::{AlignedBuffer, SharedBuffer};
use pumice_nvme::controller::Op;
use pumice_nvme::spec::Status;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;

/// Commands with the kernel at a time, of each core; those beyond wait for threads.
const DEPTH: u32 = 1024;

/// How the kernel ended a command.
pub(super) enum Completed {
    /// With an answer.
    Done(Done),
    /// It failed, or did a part: a thread does it again, and says why it cannot be done.
    Again(Box<Job>),
}

/// Reads, writes and flushes under way by direct I/O.
pub(super) struct Direct(DirectQueue<Job>);

impl Direct {
    /// `None` where the system has no io_uring, or refuses it: threads do everything then.
    pub(super) fn new() -> Option<Self> {
        DirectQueue::new(DEPTH).ok().map(Self)
    }

    /// Readable when commands are done.
    pub(super) fn fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }

    /// Takes a job, or returns it if it is for a thread.
    pub(super) fn submit(&mut self, mut job: Job) -> Option<Job> {
        if job.visible.is_some() {
            return Some(job);
        }
        let (operation, memory) = match (job.op, job.devices.as_slice()) {
            // A read with FUA is flushed for as well: a thread does both.
            (Op::Read, [device]) if !job.fua && device.direct_fd().is_some() => {
                (DirectOperation::Read, DirectMemory::Room(AlignedBuffer::new(job.len as usize)))
            }
            (Op::Write, [_]) => {
                let Some(data) = job.data.take() else { return Some(job) };
                (DirectOperation::Write { durable: job.fua }, DirectMemory::Bytes(data))
            }
            (Op::Flush, [_]) => (DirectOperation::Flush, DirectMemory::None),
            _ => return Some(job),
        };
        let device = Arc::clone(&job.devices[0]);
        let (offset, len) = (job.offset, job.len as usize);
        let request = DirectRequest { device, operation, offset, len, memory };
        self.0.submit(request, job).err().map(|(request, job)| restore(request, job))
    }

    /// Hands over what was taken.
    pub(super) fn enter(&mut self) {
        self.0.enter();
    }

    /// Whether something was taken that could not be handed over yet.
    pub(super) fn must_enter(&self) -> bool {
        self.0.must_enter()
    }

    /// A command that the kernel has ended.
    pub(super) fn completed(&mut self) -> Option<Completed> {
        let (request, job, ended) = self.0.completed()?;
        match ended {
            DirectEnd::Done => {}
            DirectEnd::Again => return Some(Completed::Again(Box::new(restore(request, job)))),
            DirectEnd::Failed(error) => return Some(Completed::Done(job.ended(write_fault(&error), None))),
        }
        let read = match request.memory {
            DirectMemory::Room(buffer) => Some(SharedBuffer::new(buffer, request.len)),
            DirectMemory::None | DirectMemory::Bytes(_) => None,
        };
        Some(Completed::Done(job.ended(Status::SUCCESS, read)))
    }
}

/// The job as it was.
fn restore(request: DirectRequest, mut job: Job) -> Job {
    if let DirectMemory::Bytes(data) = request.memory {
        job.data = Some(data);
    }
    job
}
