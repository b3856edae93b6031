//! A part of the server that ended and should not have: whoever runs the server is told, once.

use std::sync::{Mutex, MutexGuard, PoisonError};
use tracing::error;

type Told = Box<dyn FnOnce(String) + Send>;

#[derive(Default)]
struct State {
    why: Option<String>,
    told: Option<Told>,
}

/// See the module.
#[derive(Default)]
pub(super) struct Failure(Mutex<State>);

impl Failure {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Something has ended. The first reason counts.
    pub(super) fn fail(&self, why: String) {
        let mut state = self.lock();
        let told = state.told.take();
        if told.is_none() {
            state.why.get_or_insert_with(|| why.clone());
        }
        drop(state);
        if let Some(told) = told {
            told(why.clone());
        }
        // After it is told: whoever logs may fail too.
        error!(why, "a core ended");
    }

    /// Has `told` called when something ends, or at once if it has already.
    pub(super) fn tell(&self, told: Told) {
        let mut state = self.lock();
        match state.why.take() {
            Some(why) => {
                drop(state);
                told(why);
            }
            None => state.told = Some(told),
        }
    }
}
