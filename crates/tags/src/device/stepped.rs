//! Writes in steps.

use super::TaggedDevice;
use pumice_blockdev::{BlockDevice, DirectRequest, IoError, Step, Stepped, SteppedCommand};
use std::sync::Arc;

impl Stepped for TaggedDevice {
    fn join(&self, wake: Arc<dyn Fn() + Send + Sync>) -> Option<usize> {
        self.carrier.join(wake)
    }

    fn begin(&self, user: usize, token: u64, command: SteppedCommand) -> Result<(), SteppedCommand> {
        self.carrier.begin_stepped(user, token, command, |blocks, data| self.change(blocks.start, data))
    }

    fn steps(&self, user: usize, steps: &mut Vec<Step>) {
        self.carrier.steps(user, steps);
    }

    fn carried(&self, user: usize, step: u64, request: DirectRequest, result: Result<(), IoError>) {
        self.carrier.carried(user, step, request, result);
    }

    fn aside(&self, user: usize, step: u64) {
        self.carrier.aside(user, step);
    }

    fn is_busy(&self, user: usize) -> bool {
        self.carrier.is_busy(user)
    }

    fn leave(&self, user: usize) {
        self.carrier.leave(user);
    }
}

impl Drop for TaggedDevice {
    fn drop(&mut self) {
        // Best effort: what is not home is in the log.
        let why = match self.carrier.dismiss() {
            true => self.close().err().map(|error| error.to_string()),
            // As after a crash.
            false => Some("commands were under way".to_owned()),
        };
        if let Some(why) = why {
            tracing::warn!(drive = %self.name(), why, "the tags were not closed: the next start recovers them");
        }
    }
}
