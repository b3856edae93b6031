//! Reports, once, that a part of the server ended unexpectedly.

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
    pub(super) fn fail(&self, why: &str) {
        let mut state = self.lock();
        let told = state.told.take();
        if told.is_none() {
            state.why.get_or_insert_with(|| why.to_owned());
        }
        drop(state);
        if let Some(told) = told {
            told(why.to_owned());
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::mpsc;
    use tracing::span::{Attributes, Id, Record};
    use tracing::{Event, Metadata, Subscriber};

    /// A log that cannot take a line.
    struct Broken;

    impl Subscriber for Broken {
        fn enabled(&self, _: &Metadata<'_>) -> bool {
            true
        }
        fn new_span(&self, _: &Attributes<'_>) -> Id {
            Id::from_u64(1)
        }
        fn record(&self, _: &Id, _: &Record<'_>) {}
        fn record_follows_from(&self, _: &Id, _: &Id) {}
        fn event(&self, _: &Event<'_>) {
            panic!("the log is full");
        }
        fn enter(&self, _: &Id) {}
        fn exit(&self, _: &Id) {}
    }

    #[test]
    fn a_failure_is_told_though_it_cannot_be_logged() {
        let (failure, (tell, told)) = (Failure::default(), mpsc::channel());
        failure.tell(Box::new(move |why| tell.send(why).unwrap()));
        let failed = tracing::subscriber::with_default(Broken, || {
            catch_unwind(AssertUnwindSafe(|| failure.fail("core 0 panicked")))
        });
        assert!(failed.is_err(), "the log failed");
        assert_eq!(told.try_recv().unwrap(), "core 0 panicked");
    }
}
