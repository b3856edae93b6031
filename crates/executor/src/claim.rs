//! Stripes that are claimed: `docs/design/volume-operations.md`, *Scrub of a volume in service*.

use crate::state::ControlError;
use pumice_base::units::Role;
use std::collections::BTreeSet;
use std::fmt;
use std::sync::mpsc::{Receiver, Sender};

/// Stripes on which the volume does not write until this is dropped.
pub struct Claim {
    members: BTreeSet<Role>,
    give_back: Option<Box<dyn FnOnce() + Send>>,
}

impl fmt::Debug for Claim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Claim").field("members", &self.members).finish_non_exhaustive()
    }
}

impl Claim {
    pub(crate) fn new(members: Vec<Role>, give_back: impl FnOnce() + Send + 'static) -> Self {
        Self { members: members.into_iter().collect(), give_back: Some(Box::new(give_back)) }
    }

    /// Members that have all of the stripes: what lies there is whole.
    #[must_use]
    pub const fn members(&self) -> &BTreeSet<Role> {
        &self.members
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        if let Some(give_back) = self.give_back.take() {
            give_back();
        }
    }
}

/// The answer to a claimer: `None` is for its own use, to be woken.
pub(crate) type Granted = Option<Result<Claim, ControlError>>;

/// A claim that is asked for. Dropping it gives up.
#[derive(Debug)]
pub struct ClaimAsked {
    answer: Receiver<Granted>,
    wake: Sender<Granted>,
}

impl ClaimAsked {
    pub(crate) const fn new(answer: Receiver<Granted>, wake: Sender<Granted>) -> Self {
        Self { answer, wake }
    }

    /// Ends the wait when it is called, from any thread.
    pub fn give_up(&self) -> impl Fn() + Send + 'static {
        let wake = self.wake.clone();
        move || {
            // Who waited may be gone.
            let _ = wake.send(None);
        }
    }

    /// Waits for the claim. `None` if it was given up.
    ///
    /// # Errors
    /// If the volume has stopped, is held for too long, or has no such stripes.
    pub fn wait(self) -> Result<Option<Claim>, ControlError> {
        let Self { answer, wake } = self;
        drop(wake);
        answer.recv().unwrap_or(Some(Err(ControlError::Stopped))).transpose()
    }
}
