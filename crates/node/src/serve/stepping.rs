//! Drives whose writes go in steps, as a core sees them.

use super::done::Ticket;
use super::fair::HostKey;
use super::handle::CoreHandle;
use super::step_work::{StepWork, Work};
use super::workers::Job;
use pumice_blockdev::{BlockDevice, DirectRequest, IoError, Step, Stepped, SteppedCommand};
use pumice_nvme::controller::Op;
use std::sync::Arc;

/// A drive whose writes go in steps, and its commands under way on a core.
pub(super) struct Stepping {
    device: Arc<dyn BlockDevice>,
    user: usize,
    core: CoreHandle,
    /// By the tokens of the steps; `None` if the token is free.
    jobs: Vec<Option<Job>>,
    free: Vec<usize>,
}

impl Stepping {
    /// `None` if the drive takes no more users.
    pub(super) fn join(device: Arc<dyn BlockDevice>, core: &CoreHandle) -> Option<Self> {
        let (core, woken) = (core.clone(), core.clone());
        let user = device.stepped()?.join(Arc::new(move || woken.wake()))?;
        Some(Self { device, user, core, jobs: Vec::new(), free: Vec::new() })
    }

    pub(super) fn is_of(&self, device: &Arc<dyn BlockDevice>) -> bool {
        Arc::ptr_eq(&self.device, device)
    }

    fn stepped(&self) -> &dyn Stepped {
        self.device.stepped().expect("its writes go in steps")
    }

    /// Begins a command, or returns it if it is for a thread.
    pub(super) fn begin(&mut self, mut job: Job) -> Option<Job> {
        let command = match (job.op, job.data.take()) {
            (Op::Write, Some(data)) => {
                let data = data.part(0..job.len as usize);
                SteppedCommand::Write { offset: job.offset, data, durable: job.fua }
            }
            (_, None) => SteppedCommand::Flush,
            (_, data) => {
                job.data = data;
                return Some(job);
            }
        };
        let token = self.free.pop().unwrap_or_else(|| {
            self.jobs.push(None);
            self.jobs.len() - 1
        });
        match self.stepped().begin(self.user, token as u64, command) {
            Ok(()) => {
                self.jobs[token] = Some(job);
                None
            }
            Err(command) => {
                self.free.push(token);
                if let SteppedCommand::Write { data, .. } = command {
                    job.data = Some(data);
                }
                Some(job)
            }
        }
    }

    /// The job of a command that has ended.
    pub(super) fn ended(&mut self, token: u64) -> Job {
        self.free.push(token as usize);
        self.jobs[token as usize].take().expect("a command ends once")
    }

    pub(super) fn steps(&self, steps: &mut Vec<Step>) {
        self.stepped().steps(self.user, steps);
    }

    pub(super) fn carried(&self, step: u64, request: DirectRequest, result: Result<(), IoError>) {
        self.stepped().carried(self.user, step, request, result);
    }

    /// A step for a pool whose threads wait for no command.
    pub(super) fn job(&self, work: Work) -> Job {
        let core = self.core.clone();
        let step = StepWork { device: Arc::clone(&self.device), user: self.user, work, core: core.clone() };
        // No connection has this number, and nothing is answered.
        let ticket = Ticket { connection: usize::MAX, slot: 0 };
        Job { step: Some(step), ..Job::new(ticket, core, HostKey::unknown(), Op::Vendor) }
    }

    pub(super) fn is_busy(&self) -> bool {
        self.stepped().is_busy(self.user)
    }

    pub(super) fn leave(&self) {
        self.stepped().leave(self.user);
    }
}
