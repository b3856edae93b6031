//! Steps that are done, and their times: a line each as it happens, and a table at the end.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::{Duration, Instant};

/// The steps of one scenario on one kernel. Clones are the same.
#[derive(Clone)]
pub(crate) struct Steps(Rc<RefCell<State>>);

struct State {
    name: String,
    start: Instant,
    last: Instant,
    count: usize,
}

impl Steps {
    /// Begins now.
    pub(crate) fn begin(name: &str) -> Self {
        let now = Instant::now();
        Self(Rc::new(RefCell::new(State { name: name.to_owned(), start: now, last: now, count: 0 })))
    }

    /// The scenario and the kernel, fit for a file's name.
    pub(crate) fn name(&self) -> String {
        self.0.borrow().name.clone()
    }

    /// Says that a step is done.
    pub(crate) fn done(&self, what: &str) {
        let mut state = self.0.borrow_mut();
        let now = Instant::now();
        println!("{:22} {:>6.1} s  {what}", state.name, (now - state.last).as_secs_f64());
        state.last = now;
        state.count += 1;
    }

    /// Number of steps, and their time in all.
    pub(crate) fn total(&self) -> (usize, Duration) {
        let state = self.0.borrow();
        (state.count, state.start.elapsed())
    }
}
