//! Threads that wait for media, so that no core has to.

use super::done::{Done, Ticket};
use super::handle::CoreHandle;
use super::offload::{Answered, Sender};
use super::shared::Shared;
use crate::pace::Foreground;
use crate::watch::Writing;
use pumice_blockdev::{AlignedBuffer, BlockDevice, IoError};
use pumice_nvme::spec::{Sqe, Status};
use pumice_nvme::target::Op;
use std::collections::VecDeque;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;

/// Bytes that zeros are written and blocks verified in at a time.
const PIECE: u64 = 1 << 20;

/// A command for a medium.
pub(super) struct Job {
    pub(super) ticket: Ticket,
    pub(super) core: CoreHandle,
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
    /// Byte ranges of a deallocation.
    pub(super) ranges: Vec<(u64, u64)>,
    /// The drive that it is for, by index, and when it came in: how its pacer knows it.
    pub(super) foreground: Option<(usize, Foreground)>,
    /// What it changes on the medium: counted as under way until the job is gone.
    pub(super) writing: Vec<Writing>,
}

impl Job {
    /// It has ended. Its writes have too, before the completion can be seen.
    pub(super) fn ended(self, status: Status, read: Option<AlignedBuffer>) -> Done {
        self.outcome(status, read)
    }

    /// What it ends with.
    fn outcome(&self, status: Status, read: Option<AlignedBuffer>) -> Done {
        Done {
            ticket: self.ticket,
            status,
            result: 0,
            wrote: !self.writing.is_empty(),
            answer: None,
            read,
            len: self.len as usize,
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

#[derive(Default)]
struct Queue {
    jobs: VecDeque<Job>,
    stopping: bool,
}

/// A pool of threads.
pub(super) struct Workers {
    queue: Arc<(Mutex<Queue>, Condvar)>,
    threads: Vec<JoinHandle<()>>,
}

impl Workers {
    pub(super) fn start(count: usize) -> io::Result<Self> {
        let queue: Arc<(Mutex<Queue>, Condvar)> = Arc::default();
        let mut threads = Vec::with_capacity(count);
        for i in 0..count {
            let queue = Arc::clone(&queue);
            let thread =
                std::thread::Builder::new().name(format!("medium{i}")).spawn(move || work(&queue))?;
            threads.push(thread);
        }
        Ok(Self { queue, threads })
    }

    pub(super) fn submit(&self, job: Job) {
        let (queue, ready) = &*self.queue;
        queue.lock().unwrap_or_else(PoisonError::into_inner).jobs.push_back(job);
        ready.notify_one();
    }

    /// Ends the threads after the jobs that are waiting.
    pub(super) fn stop(&mut self) {
        let (queue, ready) = &*self.queue;
        queue.lock().unwrap_or_else(PoisonError::into_inner).stopping = true;
        ready.notify_all();
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        self.stop();
    }
}

fn work(shared: &(Mutex<Queue>, Condvar)) {
    let (queue, ready) = shared;
    loop {
        let mut state = queue.lock().unwrap_or_else(PoisonError::into_inner);
        let job = loop {
            if let Some(job) = state.jobs.pop_front() {
                break job;
            }
            if state.stopping {
                return;
            }
            state = ready.wait(state).unwrap_or_else(PoisonError::into_inner);
        };
        drop(state);
        let core = job.core.clone();
        // All that the job holds goes with it, and locks that were held are taken over as they are: nothing is left that others could trip over.
        let panicked = job.outcome(Status::INTERNAL, None);
        let carried = catch_unwind(AssertUnwindSafe(|| carry_out(job)));
        core.done(carried.unwrap_or_else(|_| {
            eprintln!("pumice: what carried out a command panicked: the host is told Internal Error");
            panicked
        }));
    }
}

/// Carries out a command.
fn carry_out(job: Job) -> Done {
    // Relaxed: it is only ever raised.
    let wanted = || !job.gone.load(Ordering::Relaxed);
    if let Some(OffloadJob { shared, sender, command, data }) = &job.offload {
        let answered =
            shared.offload().execute(*sender, command, data, shared.subsystem(), shared.now(), &wanted);
        let Answered { status, result, data: answer } = answered;
        return Done { result, answer, ..job.ended(status, None) };
    }
    if job.op != Op::Flush && !wanted() {
        // The host has no answer and will write anew: a write must not come after that. And others wait for what nobody wants to read.
        return job.ended(Status::ABORTED, None);
    }
    let mut read = None;
    match execute(&job, &mut read, &wanted) {
        Ok(()) => job.ended(Status::SUCCESS, read),
        Err(status) => job.ended(status, None),
    }
}

fn execute(job: &Job, read: &mut Option<AlignedBuffer>, wanted: &dyn Fn() -> bool) -> Result<(), Status> {
    let fault = |error: IoError| write_fault(&error);
    let lost = |error: IoError| read_fault(&error);
    if job.op == Op::Flush {
        // Of all drives, or none where all are read-only.
        return job.devices.iter().try_for_each(|device| device.flush()).map_err(fault);
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
        Op::WriteZeroes => zero(&**device, job.offset, job.len, wanted)?,
        Op::Deallocate => {
            for (offset, len) in &job.ranges {
                zero(&**device, *offset, *len, wanted)?;
            }
        }
        Op::Verify => {
            let mut buffer = AlignedBuffer::new(job.len.min(PIECE) as usize);
            for at in (0..job.len).step_by(PIECE as usize) {
                if !wanted() {
                    return Err(Status::ABORTED);
                }
                let len = (job.len - at).min(PIECE) as usize;
                device.read_at(job.offset + at, &mut buffer[..len]).map_err(lost)?;
            }
        }
        Op::Flush | Op::Vendor => return Err(Status::INVALID_OPCODE.dnr()),
    }
    if job.fua {
        device.flush().map_err(fault)?;
    }
    Ok(())
}

/// The status of a read that failed: sectors that the medium refuses are told from a drive that fails as a
/// whole, for a host may rebuild the first and must not take the second for damage.
pub(super) fn read_fault(error: &IoError) -> Status {
    if error.is_media_error() { Status::READ_ERROR } else { Status::INTERNAL }
}

/// The status of a write that failed.
pub(super) fn write_fault(error: &IoError) -> Status {
    if error.is_full() { Status::CAPACITY.dnr() } else { Status::WRITE_FAULT }
}

/// Writes zeros: what deallocated blocks read as, too. That can take long, and the host may not come back before it ends: so it ends where nobody waits for it any more.
fn zero(device: &dyn BlockDevice, offset: u64, len: u64, wanted: &dyn Fn() -> bool) -> Result<(), Status> {
    let zeros = AlignedBuffer::new(len.min(PIECE) as usize);
    for at in (0..len).step_by(PIECE as usize) {
        if !wanted() {
            return Err(Status::ABORTED);
        }
        let piece = (len - at).min(PIECE) as usize;
        device.write_at(offset + at, &zeros[..piece]).map_err(|error| write_fault(&error))?;
    }
    Ok(())
}
