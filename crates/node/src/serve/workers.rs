//! Threads that wait for media, so that no core has to.

use super::budget::Held;
use super::clearing::Clearing;
use super::done::{Done, Ticket};
use super::fair::HostKey;
use super::handle::CoreHandle;
use super::offload::Answered;
use super::results::Sender;
use super::shared::Shared;
use super::turns::InTurn;
use crate::pace::Foreground;
use crate::watch::Writing;
use pumice_blockdev::{BlockDevice, IoError};
use pumice_buffer::AlignedBuffer;
use pumice_nvme::controller::Op;
use pumice_nvme::spec::{Sqe, Status};
use pumice_offload::wire::opcode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Bytes that blocks are verified in at a time.
const PIECE: u64 = 1 << 20;
/// Bytes that are verified before other commands have their turn.
const SLICE: u64 = 8 << 20;

/// A command for a medium.
pub(super) struct Job {
    pub(super) ticket: Ticket,
    pub(super) core: CoreHandle,
    /// Whose it is.
    pub(super) host: HostKey,
    /// The devices that it is for: one, or all for a flush of everything.
    pub(super) devices: Vec<Arc<dyn BlockDevice>>,
    /// The connection is gone: what it would change is left as it is.
    pub(super) gone: Arc<AtomicBool>,
    pub(super) op: Op,
    pub(super) offset: u64,
    pub(super) len: u64,
    pub(super) fua: bool,
    /// Data from the host; a buffer is whole pages, of which the first `len` bytes count.
    pub(super) data: Option<AlignedBuffer>,
    /// A command of the parity command set, with its data and the queue whose results it may use.
    pub(super) offload: Option<OffloadJob>,
    /// Bytes of memory that it takes, or will: what its connection holds for it, and the same in
    /// its host's account.
    pub(super) flown: u64,
    pub(super) held: Option<Held>,
    /// Bytes that were verified.
    pub(super) verified: u64,
    /// What is left to be made zeros.
    pub(super) clearing: Clearing,
    /// The drive that it is for, by index, and when it came in: how its pacer knows it.
    pub(super) foreground: Option<(usize, Foreground)>,
    /// When its turn began, on the server's clock, and the bytes that it is for: for the counters.
    pub(super) began: u64,
    pub(super) bytes: u64,
    /// What it changes on the medium: counted as under way until the job is gone.
    pub(super) writing: Vec<Writing>,
}

impl Job {
    /// It has ended. Its writes have too, before the completion can be seen.
    pub(super) fn ended(mut self, status: Status, read: Option<AlignedBuffer>) -> Done {
        let held = self.held.take();
        Done { held, ..self.outcome(status, read) }
    }

    /// What it ends with.
    pub(super) fn outcome(&self, status: Status, read: Option<AlignedBuffer>) -> Done {
        Done {
            ticket: self.ticket,
            status,
            result: 0,
            wrote: !self.writing.is_empty(),
            answer: None,
            read,
            len: self.len as usize,
            op: self.op,
            began: self.began,
            bytes: self.bytes,
            flown: self.flown,
            held: None,
            foreground: self.foreground,
        }
    }
}

/// A command of the parity command set.
pub(super) struct OffloadJob {
    pub(super) shared: Arc<Shared>,
    pub(super) sender: Sender,
    pub(super) command: Sqe,
    pub(super) data: Vec<u8>,
}

/// What came of a command.
pub(super) enum Carried {
    Done(Done),
    /// More of it is to be done.
    InPart(Box<Job>),
}

/// Carries out a command, or a slice of it.
pub(super) fn carry_out(mut job: Job) -> Carried {
    let gone = Arc::clone(&job.gone);
    // Relaxed: it is only ever raised.
    let wanted = move || !gone.load(Ordering::Relaxed);
    if let Some(OffloadJob { shared, sender, command, data }) = &job.offload {
        // One that can take long is not waited for when the node stops.
        let wanted = || wanted() && !shared.is_stopping();
        if !wanted() {
            // Its association may have ended, and what it had is given back.
            return Carried::Done(job.ended(Status::ABORTED, None));
        }
        let (now, offload) = (shared.now(), shared.offload());
        let answered = if command.opcode() == opcode::PARITY_EXECUTE {
            let turn =
                InTurn::begin(shared.turns(), shared.paced_turns(), (job.host, sender.cntlid), &wanted);
            offload.execute(*sender, command, data, shared.subsystem(), now, &turn)
        } else {
            offload.execute(*sender, command, data, shared.subsystem(), now, &wanted)
        };
        let Answered { status, result, data: answer } = answered;
        return Carried::Done(Done { result, answer, ..job.ended(status, None) });
    }
    if job.op != Op::Flush && !wanted() {
        // The host has no answer and will write anew: a write must not come after that. And others
        // wait for what nobody wants to read.
        return Carried::Done(job.ended(Status::ABORTED, None));
    }
    let mut read = None;
    Carried::Done(match execute(&mut job, &mut read, &wanted) {
        Ok(true) => job.ended(Status::SUCCESS, read),
        Ok(false) => return Carried::InPart(Box::new(job)),
        Err(status) => job.ended(status, None),
    })
}

/// Carries out a command of blocks, or a slice of it; false where there is more of it to do.
fn execute(
    job: &mut Job,
    read: &mut Option<AlignedBuffer>,
    wanted: &dyn Fn() -> bool,
) -> Result<bool, Status> {
    let fault = |error: IoError| write_fault(&error);
    let lost = |error: IoError| read_fault(&error);
    if job.op == Op::Flush {
        // Of all drives, or none where all are read-only.
        return job.devices.iter().try_for_each(|device| device.flush()).map(|()| true).map_err(fault);
    }
    let device = job.devices.first().ok_or(Status::INTERNAL)?;
    let len = job.len as usize;
    match job.op {
        Op::Read => {
            let buffer = read.insert(AlignedBuffer::new(len));
            device.read_at(job.offset, &mut buffer[..len]).map_err(lost)?;
        }
        Op::Write => {
            let data = job.data.as_ref().ok_or(Status::INTERNAL)?;
            device.write_at(job.offset, &data[..len]).map_err(fault)?;
        }
        Op::WriteUncorrectable => device.mark(job.offset, job.len).map_err(fault)?,
        Op::Compare => {
            let data = job.data.as_ref().ok_or(Status::INTERNAL)?;
            let mut stored = AlignedBuffer::new(len);
            device.read_at(job.offset, &mut stored[..len]).map_err(lost)?;
            if stored[..len] != data[..len] {
                return Err(Status::COMPARE_FAILURE.dnr());
            }
        }
        Op::WriteZeroes | Op::Deallocate => {
            if !job.clearing.step(&**device).map_err(fault)? {
                return Ok(false);
            }
        }
        Op::Verify => {
            let slice = job.verified..job.len.min(job.verified + SLICE);
            let mut buffer = AlignedBuffer::new(job.len.min(PIECE) as usize);
            for at in slice.clone().step_by(PIECE as usize) {
                if !wanted() {
                    return Err(Status::ABORTED);
                }
                let len = (slice.end - at).min(PIECE) as usize;
                device.read_at(job.offset + at, &mut buffer[..len]).map_err(lost)?;
            }
            job.verified = slice.end;
            if job.verified < job.len {
                return Ok(false);
            }
        }
        Op::Flush | Op::Vendor => return Err(Status::INVALID_OPCODE.dnr()),
    }
    if job.fua {
        device.flush().map_err(fault)?;
    }
    Ok(true)
}

/// The status of a read that failed: sectors that the medium refuses are told from a drive that
/// fails as a whole, for a host may rebuild the first and must not take the second for damage. A
/// block that does not fit its tag does not fit it at the second try either: the host is told not
/// to try.
pub(super) fn read_fault(error: &IoError) -> Status {
    if error.is_protection_error() {
        Status::READ_ERROR.dnr()
    } else if error.is_media_error() {
        Status::READ_ERROR
    } else {
        Status::INTERNAL
    }
}

/// The status of a write that failed.
pub(super) fn write_fault(error: &IoError) -> Status {
    if error.is_full() { Status::CAPACITY.dnr() } else { Status::WRITE_FAULT }
}

#[cfg(test)]
pub(super) mod tests;
