//! Steps of commands that threads carry out.

use super::handle::CoreHandle;
use pumice_blockdev::{BlockDevice, DirectRequest};
use std::sync::Arc;

/// Work of a thread for a command that is carried in steps.
pub(super) struct StepWork {
    pub(super) device: Arc<dyn BlockDevice>,
    pub(super) user: usize,
    pub(super) work: Work,
    /// The core of the step.
    pub(super) core: CoreHandle,
}

/// Of what kind it is.
pub(super) enum Work {
    /// A request that the kernel did not take, or did not do.
    Carry(u64, DirectRequest),
    /// A step that waits for media.
    Aside(u64),
}

impl StepWork {
    pub(super) fn carry_out(self) {
        let Some(stepped) = self.device.stepped() else { return };
        match self.work {
            Work::Aside(step) => stepped.aside(self.user, step),
            Work::Carry(step, mut request) => {
                let result = request.carry_out();
                stepped.carried(self.user, step, request, result);
                // The core asks for the next step itself.
                self.core.wake();
            }
        }
    }
}
