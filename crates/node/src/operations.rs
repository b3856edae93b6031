//! Operations in flight on drives of this machine: `docs/design/offload.md`, *Operations in
//! flight*.
//!
//! ```text
//! submit ─┬─ drives in memory: done at once, by whoever submits
//!         └▶ inbox ─▶ one thread ─┬─ direct I/O: the kernel carries it (io_uring)
//!                                 └─ anything else, and what the kernel failed: a few threads
//! ```

use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token, Waker};
use pumice_blockdev::{
    BlockDevice, DirectEnd, DirectMemory, DirectOperation, DirectQueue, DirectRequest, IoError,
};
use pumice_offload::{Completion, DriveId, Ended, ErrorKind, NodeError, Operation, OperationQueue, Tag};
use std::collections::VecDeque;
use std::io;
use std::os::fd::AsRawFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// Threads for what neither memory nor the kernel's ring carries.
const THREADS: usize = 4;
/// Time after which the kernel is asked again if it could not take a request.
const AGAIN: Duration = Duration::from_millis(1);

const WAKE: Token = Token(0);
const RING: Token = Token(1);

/// State that the threads of a queue share.
struct Shared {
    name: String,
    drives: Vec<Arc<dyn BlockDevice>>,
    depth: usize,
    ended: Ended,
    inbox: Mutex<VecDeque<Job>>,
    in_flight: AtomicUsize,
    closed: AtomicBool,
}

impl Shared {
    fn inbox(&self) -> MutexGuard<'_, VecDeque<Job>> {
        self.inbox.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    fn closed_error(&self) -> NodeError {
        NodeError::new(ErrorKind::Unreachable, format!("node '{}': the queue is closed", self.name))
    }

    /// Returns whether it ends without waiting.
    fn is_immediate(&self, operation: &Operation) -> bool {
        let index = (operation.drive().0 as usize).checked_sub(1);
        index.and_then(|index| self.drives.get(index)).is_some_and(|drive| drive.is_immediate())
    }

    /// The drive of an operation that makes sense.
    fn device(&self, operation: &Operation) -> Result<&Arc<dyn BlockDevice>, NodeError> {
        let drive = operation.drive();
        let device = (drive.0 as usize).checked_sub(1).and_then(|index| self.drives.get(index));
        let none = || NodeError::invalid("drive", format!("node '{}' has no {drive}", self.name));
        let device = device.ok_or_else(none)?;
        if matches!(operation, Operation::Update { .. } | Operation::Store { .. } | Operation::Fetch { .. }) {
            let what = "drives of this process do not support updates, because their memory is the host's";
            return Err(NodeError::invalid("operation", what));
        }
        operation.check(device.size_bytes(), device.logical_block())?;
        if device.read_only() && matches!(operation, Operation::Write { .. }) {
            let what = format!("{} is open read-only", device.name());
            return Err(NodeError::new(ErrorKind::ReadOnly, what));
        }
        Ok(device)
    }
}

/// An operation that was taken. If it is dropped before it has ended, it ends with an error.
struct Job {
    shared: Arc<Shared>,
    tag: Tag,
    operation: Option<Operation>,
}

impl Job {
    fn end(mut self, result: Result<(), NodeError>) {
        self.tell(result);
    }

    fn tell(&mut self, result: Result<(), NodeError>) {
        let Some(operation) = self.operation.take() else { return };
        self.shared.in_flight.fetch_sub(1, Ordering::AcqRel);
        (self.shared.ended)(Completion { tag: self.tag, operation, result });
    }

    /// Does it, and waits for the drive.
    fn carry_out(mut self) {
        let shared = Arc::clone(&self.shared);
        if shared.is_closed() {
            return self.end(Err(shared.closed_error()));
        }
        let Some(operation) = &mut self.operation else { return };
        let result = shared.device(operation).and_then(|device| {
            let done = match operation {
                Operation::Read { offset, len, buffer, .. } => device.read_at(*offset, &mut buffer[..*len]),
                Operation::Write { offset, data, durable, .. } => {
                    let written = device.write_shared(*offset, data);
                    written.and_then(|()| if *durable { device.flush() } else { Ok(()) })
                }
                Operation::Flush { .. } => device.flush(),
                // Refused before.
                Operation::Update { .. } | Operation::Store { .. } | Operation::Fetch { .. } => Ok(()),
            };
            done.map_err(io_error)
        });
        self.end(result);
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        if self.operation.is_some() {
            let what = format!("node '{}': an operation was given up", self.shared.name);
            self.tell(Err(NodeError::new(ErrorKind::Drive, what)));
        }
    }
}

/// The node's error for a drive's error.
pub(crate) fn io_error(error: IoError) -> NodeError {
    let kind = if error.is_media_error() { ErrorKind::Media } else { ErrorKind::Drive };
    NodeError::new(kind, error.to_string()).with_source(error)
}

/// A queue over drives of this machine.
pub(crate) struct LocalQueue {
    shared: Arc<Shared>,
    waker: Waker,
    thread: Option<JoinHandle<()>>,
}

impl LocalQueue {
    pub(crate) fn open(
        name: &str,
        drives: Vec<Arc<dyn BlockDevice>>,
        depth: usize,
        ended: Ended,
    ) -> io::Result<Self> {
        let depth = depth.max(1);
        let poll = Poll::new()?;
        let waker = Waker::new(poll.registry(), WAKE)?;
        let any_direct = drives.iter().any(|drive| drive.direct().is_some());
        // Without io_uring the threads do everything.
        let ring = any_direct.then(|| DirectQueue::new(depth.min(4096) as u32).ok()).flatten();
        if let Some(ring) = &ring {
            poll.registry().register(&mut SourceFd(&ring.as_raw_fd()), RING, Interest::READABLE)?;
        }
        let shared = Arc::new(Shared {
            name: name.to_owned(),
            drives,
            depth,
            ended,
            inbox: Mutex::default(),
            in_flight: AtomicUsize::new(0),
            closed: AtomicBool::new(false),
        });
        let threads = Threads::start()?;
        let carrier = Carrier { shared: Arc::clone(&shared), poll, ring, with_kernel: 0, threads };
        let thread =
            std::thread::Builder::new().name("operations".to_owned()).spawn(move || carrier.run())?;
        Ok(Self { shared, waker, thread: Some(thread) })
    }
}

impl OperationQueue for LocalQueue {
    fn submit(&self, tag: Tag, operation: Operation) -> Result<(), Operation> {
        let depth = self.shared.depth;
        let more = |count: usize| (count < depth).then_some(count + 1);
        if self.shared.in_flight.fetch_update(Ordering::AcqRel, Ordering::Acquire, more).is_err() {
            return Err(operation);
        }
        let job = Job { shared: Arc::clone(&self.shared), tag, operation: Some(operation) };
        if job.operation.as_ref().is_some_and(|operation| self.shared.is_immediate(operation)) {
            job.carry_out();
            return Ok(());
        }
        let mut inbox = self.shared.inbox();
        if self.shared.is_closed() {
            drop(inbox);
            let error = self.shared.closed_error();
            job.end(Err(error));
            return Ok(());
        }
        let first = inbox.is_empty();
        inbox.push_back(job);
        drop(inbox);
        if first {
            // If that fails, the descriptor is gone, and with it the thread.
            let _ = self.waker.wake();
        }
        Ok(())
    }

    fn in_flight(&self) -> usize {
        self.shared.in_flight.load(Ordering::Acquire)
    }

    fn close(&self) {
        let inbox = self.shared.inbox();
        self.shared.closed.store(true, Ordering::Release);
        drop(inbox);
        // Its thread has gone if it cannot be woken.
        let _ = self.waker.wake();
    }
}

impl Drop for LocalQueue {
    fn drop(&mut self) {
        self.close();
        if let Some(thread) = self.thread.take() {
            // Its panic has been printed: so below.
            let _ = thread.join();
        }
        self.shared.inbox().clear();
    }
}

/// The thread of a queue.
struct Carrier {
    shared: Arc<Shared>,
    poll: Poll,
    ring: Option<DirectQueue<Flight>>,
    with_kernel: usize,
    threads: Threads,
}

/// A request that the kernel has; the buffer is in its request.
struct Flight {
    job: Job,
    drive: DriveId,
}

impl Carrier {
    fn run(mut self) {
        let mut events = Events::with_capacity(8);
        loop {
            let jobs = std::mem::take(&mut *self.shared.inbox());
            let closed = self.shared.is_closed();
            let idle = jobs.is_empty();
            for job in jobs {
                if closed { job.end(Err(self.shared.closed_error())) } else { self.begin(job) }
            }
            self.reap();
            if closed && self.with_kernel == 0 {
                // Nobody wakes this thread for what came before it was closed.
                if idle {
                    return;
                }
                continue;
            }
            let waits = self.ring.as_ref().is_some_and(DirectQueue::must_enter).then_some(AGAIN);
            if self.poll.poll(&mut events, waits).is_err_and(|e| e.kind() != io::ErrorKind::Interrupted) {
                // Operations must end all the same.
                std::thread::sleep(AGAIN);
            }
        }
    }

    fn begin(&mut self, mut job: Job) {
        let Some(operation) = &job.operation else { return };
        let device = match self.shared.device(operation) {
            Ok(device) => Arc::clone(device),
            Err(error) => return job.end(Err(error)),
        };
        let Some(ring) = self.ring.as_mut().filter(|_| device.direct_fd().is_some()) else {
            return self.threads.take(job);
        };
        let drive = operation.drive();
        let Some(operation) = job.operation.take() else { return };
        let (kind, offset, len, memory) = match operation {
            Operation::Read { offset, len, buffer, .. } => {
                (DirectOperation::Read, offset, len, DirectMemory::Room(buffer))
            }
            Operation::Write { offset, data, durable, .. } => {
                (DirectOperation::Write { durable }, offset, data.len(), DirectMemory::Bytes(data))
            }
            Operation::Flush { .. } => (DirectOperation::Flush, 0, 0, DirectMemory::None),
            Operation::Update { .. } | Operation::Store { .. } | Operation::Fetch { .. } => {
                job.operation = Some(operation);
                return self.threads.take(job);
            }
        };
        let request = DirectRequest { device, operation: kind, offset, len, memory };
        match ring.submit(request, Flight { job, drive }) {
            Ok(()) => self.with_kernel += 1,
            Err((request, flight)) => self.threads.take(restore(request, flight)),
        }
    }

    /// Hands over what the kernel is to do, and takes what it has done.
    fn reap(&mut self) {
        let Some(ring) = &mut self.ring else { return };
        ring.enter();
        while let Some((request, flight, ended)) = ring.completed() {
            self.with_kernel -= 1;
            let job = restore(request, flight);
            match ended {
                DirectEnd::Done => job.end(Ok(())),
                // A thread does it again, and says why it cannot be done.
                DirectEnd::Again => self.threads.take(job),
                DirectEnd::Failed(error) => job.end(Err(io_error(error))),
            }
        }
    }
}

/// The job as it was.
fn restore(request: DirectRequest, flight: Flight) -> Job {
    let DirectRequest { operation, offset, len, memory, .. } = request;
    let Flight { mut job, drive } = flight;
    job.operation = match (operation, memory) {
        (DirectOperation::Read, DirectMemory::Room(buffer)) => {
            Some(Operation::Read { drive, offset, len, buffer })
        }
        (DirectOperation::Write { durable }, DirectMemory::Bytes(data)) => {
            Some(Operation::Write { drive, offset, data, durable })
        }
        _ => Some(Operation::Flush { drive }),
    };
    job
}

/// A few threads that wait for drives.
struct Threads {
    jobs: Option<Sender<Job>>,
    threads: Vec<JoinHandle<()>>,
}

impl Threads {
    fn start() -> io::Result<Self> {
        let (jobs, queue) = channel();
        let queue = Arc::new(Mutex::new(queue));
        let mut all = Self { jobs: Some(jobs), threads: Vec::new() };
        for _ in 0..THREADS {
            let queue = Arc::clone(&queue);
            let thread =
                std::thread::Builder::new().name("operation".to_owned()).spawn(move || work(&queue))?;
            all.threads.push(thread);
        }
        Ok(all)
    }

    fn take(&self, job: Job) {
        if let Some(jobs) = &self.jobs {
            // A job that nobody takes any more ends as it is dropped.
            let _ = jobs.send(job);
        }
    }
}

fn work(queue: &Mutex<Receiver<Job>>) {
    loop {
        let job = queue.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(job) = job else { return };
        // A job that panics ends as it is dropped.
        let _ = catch_unwind(AssertUnwindSafe(|| job.carry_out()));
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        self.jobs = None;
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}
