//! Commands that the kernel carries for a core, without a thread that waits for each.

use super::done::Done;
use super::faults::write_fault;
use super::handle::CoreHandle;
use super::step_work::Work;
use super::stepping::Stepping;
use super::workers::Job;
use pumice_base::buffer::{AlignedBuffer, SharedBuffer};
use pumice_blockdev::{DirectEnd, DirectMemory, DirectOperation, DirectQueue, DirectRequest, Step};
use pumice_nvme::controller::Op;
use pumice_nvme::spec::Status;
use std::collections::VecDeque;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Requests with the kernel at a time, of each core; commands beyond wait for threads.
const DEPTH: u32 = 1024;
/// Time that a core that ends looks away while threads carry steps for it.
const PAUSE: Duration = Duration::from_millis(1);

/// A command that the kernel has ended.
pub(super) enum Completed {
    /// With an answer.
    Done(Done),
    /// It failed, or did a part: a thread does it again, and says why it cannot be done.
    Again(Box<Job>),
}

/// A request that the kernel carries.
enum Token {
    /// A command.
    Job(Box<Job>),
    /// A step of a command, of the drive with this place in the list.
    Step { drive: usize, step: u64 },
}

/// Reads, writes and flushes under way by direct I/O.
pub(super) struct Direct {
    queue: DirectQueue<Token>,
    core: CoreHandle,
    /// Drives whose writes go in steps.
    stepping: Vec<Stepping>,
    /// Requests for which the queue had no room.
    backlog: VecDeque<(usize, u64, DirectRequest)>,
    /// Steps that wait for media.
    work: VecDeque<Job>,
    /// Commands whose steps are done.
    ended: VecDeque<Done>,
    steps: Vec<Step>,
}

impl Direct {
    /// `None` where the system has no io_uring, or refuses it: threads do everything then.
    pub(super) fn new(core: CoreHandle) -> Option<Self> {
        let queue = DirectQueue::new(DEPTH).ok()?;
        let (backlog, work, ended) = (VecDeque::new(), VecDeque::new(), VecDeque::new());
        Some(Self { queue, core, stepping: Vec::new(), backlog, work, ended, steps: Vec::new() })
    }

    /// Readable when commands are done.
    pub(super) fn fd(&self) -> RawFd {
        self.queue.as_raw_fd()
    }

    /// Takes a job, or returns it if it is for a thread.
    pub(super) fn submit(&mut self, mut job: Job) -> Option<Job> {
        if job.visible.is_some() {
            return Some(job);
        }
        let (operation, memory) = match (job.op, job.devices.as_slice()) {
            (Op::Write | Op::Flush, [device]) if device.stepped().is_some() => return self.begin(job),
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
        let taken = self.queue.submit(request, Token::Job(Box::new(job)));
        taken.err().and_then(|(request, token)| match token {
            Token::Job(job) => Some(restore(request, *job)),
            Token::Step { .. } => None,
        })
    }

    /// Begins a command whose steps are carried here.
    fn begin(&mut self, job: Job) -> Option<Job> {
        let place = self.stepping.iter().position(|drive| drive.is_of(&job.devices[0]));
        let place = place.or_else(|| {
            self.stepping.push(Stepping::join(Arc::clone(&job.devices[0]), &self.core)?);
            Some(self.stepping.len() - 1)
        });
        match place {
            Some(place) => self.stepping[place].begin(job),
            None => Some(job),
        }
    }

    /// Takes the steps that have become due.
    fn step(&mut self) {
        while !self.queue.is_full()
            && let Some((drive, step, request)) = self.backlog.pop_front()
        {
            self.carry(drive, step, request);
        }
        let mut steps = std::mem::take(&mut self.steps);
        for drive in 0..self.stepping.len() {
            self.stepping[drive].steps(&mut steps);
            for step in steps.drain(..) {
                match step {
                    Step::Carry(step, request) if self.queue.is_full() => {
                        self.backlog.push_back((drive, step, request));
                    }
                    Step::Carry(step, request) => self.carry(drive, step, request),
                    Step::Aside(step) => self.work.push_back(self.stepping[drive].job(Work::Aside(step))),
                    Step::Done { token, result } => {
                        let job = self.stepping[drive].ended(token);
                        let status = result.map_or_else(|error| write_fault(&error), |()| Status::SUCCESS);
                        self.ended.push_back(job.ended(status, None));
                    }
                }
            }
        }
        self.steps = steps;
    }

    fn carry(&mut self, drive: usize, step: u64, request: DirectRequest) {
        if let Err((request, _)) = self.queue.submit(request, Token::Step { drive, step }) {
            self.work.push_back(self.stepping[drive].job(Work::Carry(step, request)));
        }
    }

    /// Hands over what was taken, to the kernel, and steps that wait for media to `threads`.
    pub(super) fn enter(&mut self, threads: impl FnMut(Job)) {
        self.step();
        self.work.drain(..).for_each(threads);
        self.queue.enter();
    }

    /// Returns whether there is something to do before the next wait.
    pub(super) fn must_enter(&self) -> bool {
        self.queue.must_enter() || !self.ended.is_empty() || !self.work.is_empty()
    }

    /// A command that has ended.
    pub(super) fn completed(&mut self) -> Option<Completed> {
        loop {
            if let Some(done) = self.ended.pop_front() {
                return Some(Completed::Done(done));
            }
            let Some((request, token, ended)) = self.queue.completed() else {
                self.step();
                if self.ended.is_empty() {
                    return None;
                }
                continue;
            };
            let job = match token {
                Token::Job(job) => job,
                Token::Step { drive, step } => {
                    let drive = &self.stepping[drive];
                    match ended {
                        DirectEnd::Done => drive.carried(step, request, Ok(())),
                        DirectEnd::Failed(error) => drive.carried(step, request, Err(error)),
                        // A thread says what is wrong.
                        DirectEnd::Again => self.work.push_back(drive.job(Work::Carry(step, request))),
                    }
                    continue;
                }
            };
            match ended {
                DirectEnd::Done => {}
                DirectEnd::Again => return Some(Completed::Again(Box::new(restore(request, *job)))),
                DirectEnd::Failed(error) => {
                    return Some(Completed::Done(job.ended(write_fault(&error), None)));
                }
            }
            let read = match request.memory {
                DirectMemory::Room(buffer) => Some(SharedBuffer::new(buffer, request.len)),
                DirectMemory::None | DirectMemory::Bytes(_) => None,
            };
            return Some(Completed::Done(job.ended(Status::SUCCESS, read)));
        }
    }

    /// Ends every command in steps: others may wait for its blocks. Nobody waits for the answers. A
    /// drive that does not come back within `patience` is given up.
    pub(super) fn finish(&mut self, threads: impl Fn(Job), patience: Duration) {
        let until = Instant::now() + patience;
        while self.stepping.iter().any(Stepping::is_busy) && Instant::now() < until {
            self.enter(&threads);
            while self.completed().is_some() {}
            if self.stepping.iter().any(Stepping::is_busy) {
                std::thread::sleep(PAUSE);
            }
        }
        self.stepping.iter().for_each(Stepping::leave);
    }
}

/// The job as it was.
fn restore(request: DirectRequest, mut job: Job) -> Job {
    if let DirectMemory::Bytes(data) = request.memory {
        job.data = Some(data);
    }
    job
}
