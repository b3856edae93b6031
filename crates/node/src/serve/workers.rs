//! Threads that wait for media, so that no core has to.

use super::budget::Held;
use super::clearing::Clearing;
use super::done::{Done, Ticket};
use super::fair::HostKey;
use super::faults::{Fault, flush_fault, read_fault, write_fault};
use super::handle::CoreHandle;
use super::offload::Answered;
use super::results::Sender;
use super::shared::Shared;
use super::step_work::StepWork;
use super::turns::InTurn;
use super::visible::Visible;
use crate::engine::Permit;
use crate::pace::Foreground;
use crate::watch::Writing;
use pumice_base::buffer::{AlignedBuffer, SharedBuffer};
use pumice_blockdev::{Asker, BlockDevice, Faulty, IoError, Lossy, Operation, Reader, TagFault, read_judged};
use pumice_nvme::controller::Op;
use pumice_nvme::spec::{Sqe, Status};
use pumice_offload::wire::opcode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Bytes that are verified before other commands have their turn.
const PIECE: u64 = 1 << 20;

/// A command for a medium.
pub(super) struct Job {
    pub(super) ticket: Ticket,
    pub(super) core: CoreHandle,
    /// Its host.
    pub(super) host: HostKey,
    /// The devices that it is for: one, or all for a flush of everything.
    pub(super) devices: Vec<Arc<dyn BlockDevice>>,
    /// The connection is gone: what it would change is left as it is.
    pub(super) gone: Arc<AtomicBool>,
    pub(super) op: Op,
    /// Its visible part, if it came over a visible face.
    pub(super) visible: Option<Visible>,
    /// True if reads of its host skip the check of tags.
    pub(super) unchecked: bool,
    pub(super) offset: u64,
    pub(super) len: u64,
    pub(super) fua: bool,
    /// Data from the host: [`transfer_bytes`](Self::transfer_bytes) of them.
    pub(super) data: Option<SharedBuffer>,
    /// A command of the parity command set, with its data and the queue whose results it may use.
    pub(super) offload: Option<OffloadJob>,
    /// A step of a command that is carried elsewhere: nobody waits for an answer to this.
    pub(super) step: Option<StepWork>,
    /// Bytes of memory that it takes, or will: what its connection holds for it, and the same in
    /// its host's account.
    pub(super) flown: u64,
    pub(super) held: Option<Held>,
    /// Bytes that were verified.
    pub(super) verified: u64,
    /// Bytes that one call may make zeros: a power of two.
    pub(super) at_once: u64,
    /// Ranges that are left to be zeroed.
    pub(super) clearing: Clearing,
    /// Number of times that its device had lost writes when its first slice began.
    pub(super) losses: Option<u64>,
    /// The drive that it is for, by index, and when it came in: how its pacer knows it.
    pub(super) foreground: Option<(usize, Foreground)>,
    /// Time at which its turn began, on the server's clock, and its bytes: for the counters.
    pub(super) began: u64,
    pub(super) bytes: u64,
    /// Writes to the medium: counted as under way until the job is gone.
    pub(super) writing: Vec<Writing>,
}

impl Job {
    /// A job that is for nothing yet.
    pub(super) fn new(ticket: Ticket, core: CoreHandle, host: HostKey, op: Op) -> Self {
        Self {
            ticket,
            core,
            host,
            devices: Vec::new(),
            gone: Arc::default(),
            op,
            visible: None,
            unchecked: false,
            offset: 0,
            len: 0,
            fua: false,
            data: None,
            offload: None,
            step: None,
            flown: 0,
            held: None,
            verified: 0,
            at_once: 0,
            clearing: Clearing::default(),
            losses: None,
            foreground: None,
            began: 0,
            bytes: 0,
            writing: Vec::new(),
        }
    }

    /// Returns whether it can take long: it is carried out call by call, in the
    /// [lane](super::lanes) of its drive.
    pub(super) fn is_long(&self) -> bool {
        self.op == Op::Verify || self.clears()
    }

    /// Its asker.
    fn asker(&self) -> Asker {
        Asker { host: self.host.name(), gone: Arc::clone(&self.gone) }
    }

    /// Returns whether it changes the medium.
    fn changes(&self) -> bool {
        self.clears() || matches!(self.op, Op::Write | Op::WriteUncorrectable)
    }

    /// Returns whether it is carried out together with others like it.
    pub(super) fn sends(&self) -> bool {
        self.offload.as_ref().is_some_and(|offload| offload.sends)
    }

    /// Returns whether it makes blocks zeros.
    pub(super) fn clears(&self) -> bool {
        matches!(self.op, Op::WriteZeroes | Op::Deallocate)
    }

    /// Bytes that the host transfers.
    fn transfer_bytes(&self) -> usize {
        self.visible.as_ref().map_or(self.len, Visible::transfer_bytes) as usize
    }

    /// Reads from its drive.
    fn read(&self, device: &dyn BlockDevice, offset: u64, into: &mut [u8]) -> Result<(), IoError> {
        read(device, self.unchecked, offset, into)
    }

    /// Reads what its host asks for.
    fn read_shared(&self, device: &dyn BlockDevice, len: usize) -> Result<SharedBuffer, IoError> {
        if !self.unchecked {
            return device.read_shared(self.offset, len);
        }
        let mut buffer = AlignedBuffer::new(len);
        self.read(device, self.offset, &mut buffer[..len])?;
        Ok(SharedBuffer::new(buffer, len))
    }

    /// It has ended. Its writes have too, before the completion can be seen.
    pub(super) fn ended(mut self, status: Status, read: Option<SharedBuffer>) -> Done {
        let held = self.held.take();
        Done { held, ..self.outcome(status, read) }
    }

    /// Its outcome.
    pub(super) fn outcome(&self, status: Status, read: Option<SharedBuffer>) -> Done {
        Done {
            ticket: self.ticket,
            status,
            lba: None,
            result: 0,
            wrote: !self.writing.is_empty(),
            answer: None,
            len: if read.is_some() { self.transfer_bytes() } else { self.len as usize },
            read,
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
    /// It sends sums to peers, and may do so together with others of its host.
    pub(super) sends: bool,
}

/// The outcome of a command.
pub(super) enum Carried {
    Done(Done),
    /// More of it is to be done.
    InPart(Box<Job>),
    /// It was a step, and has no answer.
    Step,
}

/// Carries out commands that [send sums](OffloadJob::sends): their messages to one peer go
/// together. The answers are in the order of the commands.
pub(super) fn carry_out_together(jobs: Vec<Job>) -> Vec<Done> {
    let Some(shared) =
        jobs.iter().find_map(|job| job.offload.as_ref()).map(|offload| Arc::clone(&offload.shared))
    else {
        return Vec::new();
    };
    let is_gone = |job: &Job| job.gone.load(Ordering::Relaxed) || shared.is_stopping();
    // Asked once: it may change meanwhile.
    let wanted: Vec<bool> = jobs.iter().map(|job| !is_gone(job)).collect();
    let permits: Vec<_> = jobs.iter().map(|job| || !is_gone(job)).collect();
    let all = jobs.iter().zip(&permits).zip(&wanted).filter_map(|((job, permit), wanted)| {
        let OffloadJob { sender, command, data, .. } = job.offload.as_ref().filter(|_| *wanted)?;
        Some((*sender, command, &data[..], permit as &dyn Permit))
    });
    let all: Vec<_> = all.collect();
    let mut answers = shared.offload().send_together(&all, (shared.subsystem(), shared.now())).into_iter();
    drop(all);
    drop(permits);
    let ended = |(job, wanted): (Job, bool)| match wanted.then(|| answers.next()).flatten() {
        Some(Answered { status, result, data }) => Done { result, answer: data, ..job.ended(status, None) },
        None => job.ended(Status::ABORTED, None),
    };
    jobs.into_iter().zip(wanted).map(ended).collect()
}

/// Carries out a command, or a slice of it.
pub(super) fn carry_out(mut job: Job) -> Carried {
    if let Some(step) = job.step.take() {
        step.carry_out();
        return Carried::Step;
    }
    let gone = Arc::clone(&job.gone);
    // Relaxed: it is only ever raised.
    let wanted = move || !gone.load(Ordering::Relaxed);
    if let Some(OffloadJob { shared, sender, command, data, .. }) = &job.offload {
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
    Carried::Done(match execute(&mut job, &mut read) {
        Ok(true) => job.ended(Status::SUCCESS, read),
        Ok(false) => return Carried::InPart(Box::new(job)),
        Err(Fault { status, lba }) => Done { lba, ..job.ended(status, None) },
    })
}

/// Carries out a command of blocks, or a slice of it; false where there is more of it to do.
fn execute(job: &mut Job, read: &mut Option<SharedBuffer>) -> Result<bool, Fault> {
    let fault = |error: IoError| Fault::from(write_fault(&error));
    if job.op == Op::Flush {
        // Of all drives, or none where all are read-only.
        let flush = |device: &Arc<dyn BlockDevice>| match device.lossy() {
            Some(lossy) => lossy.flush_of(&job.asker()),
            None => device.flush(),
        };
        return job.devices.iter().try_for_each(flush).map(|()| true).map_err(|e| flush_fault(&e).into());
    }
    let device = Arc::clone(job.devices.first().ok_or(Status::INTERNAL)?);
    let is_first = job.losses.is_none();
    if let (true, true, Some(lossy)) = (is_first, job.changes(), device.lossy()) {
        lossy.writes(&job.asker());
        job.losses = Some(lossy.losses());
    }
    let whole = match execute_visible(job, &*device, read)? {
        Some(whole) => whole,
        None => execute_plain(job, &*device, read)?,
    };
    if whole && job.fua {
        device.lossy().map_or_else(|| device.flush(), Lossy::settle).map_err(fault)?;
    }
    let in_parts = job.fua || !is_first;
    if let (true, true, Some(lossy)) = (whole, in_parts, device.lossy())
        && job.losses.is_some_and(|before| before != lossy.losses())
    {
        // What it wrote first was answered to it, and nobody does it again. A Flush is told too.
        return Err(Status::WRITE_FAULT.into());
    }
    Ok(whole)
}

/// The same of one that did not come over a visible face, without what FUA asks for.
fn execute_plain(
    job: &mut Job,
    device: &dyn BlockDevice,
    read: &mut Option<SharedBuffer>,
) -> Result<bool, Fault> {
    let fault = |error: IoError| Fault::from(write_fault(&error));
    let lost = |error: IoError| Fault::from(read_fault(&error));
    let len = job.len as usize;
    match job.op {
        Op::Read => {
            *read = Some(job.read_shared(device, len).map_err(lost)?);
        }
        Op::Write => {
            let data = job.data.as_ref().ok_or(Status::INTERNAL)?;
            device.write_shared(job.offset, &data.part(0..len)).map_err(fault)?;
        }
        Op::WriteUncorrectable => device.mark(job.offset, job.len).map_err(fault)?,
        Op::Compare => {
            let data = job.data.as_ref().ok_or(Status::INTERNAL)?;
            let mut stored = AlignedBuffer::new(len);
            job.read(device, job.offset, &mut stored[..len]).map_err(lost)?;
            if stored[..len] != data[..len] {
                return Err(Status::COMPARE_FAILURE.dnr().into());
            }
        }
        Op::WriteZeroes | Op::Deallocate => {
            if !job.clearing.step(device, job.at_once).map_err(fault)? {
                return Ok(false);
            }
        }
        Op::Verify => {
            let len = (job.len - job.verified).min(PIECE) as usize;
            let mut buffer = AlignedBuffer::new(len);
            verify(device, job.unchecked, job.offset + job.verified, &mut buffer[..len]).map_err(lost)?;
            job.verified += len as u64;
            if job.verified < job.len {
                return Ok(false);
            }
        }
        Op::Flush | Op::Vendor => return Err(Status::INVALID_OPCODE.dnr().into()),
    }
    Ok(true)
}

/// Reads what a host wants to be verified. No block of it is served, so none counts as refused.
fn verify(device: &dyn BlockDevice, unchecked: bool, offset: u64, into: &mut [u8]) -> Result<(), IoError> {
    let Some(tagged) = device.tagged().filter(|_| !unchecked) else {
        return read(device, unchecked, offset, into);
    };
    let judgement = tagged.read_checked(offset, into, &mut Reader::default())?;
    let differs = |faulty: &&Faulty| matches!(faulty.fault, TagFault::Differs(_));
    match judgement.faulty.iter().find(differs).filter(|_| !tagged.counts().stale) {
        None => Ok(()),
        Some(first) => {
            let (at, len) = (offset + first.at as u64, tagged.format().block_bytes as usize);
            Err(IoError::protection(device.name(), Operation::Read, at, len))
        }
    }
}

/// Reads for a host; `unchecked` without a check of tags.
pub(super) fn read(
    device: &dyn BlockDevice,
    unchecked: bool,
    offset: u64,
    into: &mut [u8],
) -> Result<(), IoError> {
    if unchecked { read_judged(device, offset, into).map(drop) } else { device.read_at(offset, into) }
}

/// Carries out a command over a visible face, or a slice of it, and returns whether that was the
/// last slice. `None` if it is not such a command.
fn execute_visible(
    job: &mut Job,
    device: &dyn BlockDevice,
    read: &mut Option<SharedBuffer>,
) -> Result<Option<bool>, Fault> {
    let len = job.transfer_bytes();
    let Some(visible) = &mut job.visible else { return Ok(None) };
    let whole = match job.op {
        Op::Read => {
            *read = Some(visible.read(device)?);
            true
        }
        Op::Write => {
            // Frees the host's bytes as soon as they are split into data and tuples.
            let sent = job.data.take().ok_or(Status::INTERNAL)?;
            visible.write(device, &sent[..len])?;
            true
        }
        Op::Compare => {
            visible.compare(device, &job.data.as_ref().ok_or(Status::INTERNAL)?[..len])?;
            true
        }
        Op::Verify => visible.verify(device)?,
        Op::WriteZeroes => visible.zero(device)?,
        Op::Flush | Op::WriteUncorrectable | Op::Deallocate | Op::Vendor => return Ok(None),
    };
    Ok(Some(whole))
}

#[cfg(test)]
pub(super) mod tests;
