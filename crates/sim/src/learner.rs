//! The foreground alone: idle intervals, with a predictor's expectation of each.

use crate::predictor::Predictor;
use pumice_pacer::{History, Idle, Nanos};

/// Learns idle intervals from arrivals and completions without background work.
#[derive(Debug, Clone)]
pub struct Learner {
    history: History,
    predictor: Option<Predictor>,
    free: Nanos,
    idle: Nanos,
    requests: u64,
}

impl Learner {
    /// Remembers the last `capacity` intervals, from time `from` on; with what was expected of each
    /// if it is `predicting`, which is most of the work.
    #[must_use]
    pub fn new(capacity: usize, from: Nanos, predicting: bool) -> Self {
        Self {
            history: History::new(capacity),
            predictor: predicting.then(Predictor::default),
            free: from,
            idle: 0,
            requests: 0,
        }
    }

    /// A request arrived, and was done; the idle interval that it ended, if it ended one.
    pub fn request(&mut self, at: Nanos, done: Nanos) -> Option<Idle> {
        let mut ended = None;
        self.requests += 1;
        if at > self.free {
            let predicted = self.predictor.as_ref().map_or(0.0, Predictor::expected) as f32;
            let idle = Idle { start: self.free, end: at, predicted, arrivals: 1, mood: 0 };
            self.idle += idle.length();
            self.history.push(idle);
            if let Some(predictor) = &mut self.predictor {
                predictor.observe(idle.length());
            }
            ended = Some(idle);
        } else {
            self.history.arrived();
        }
        self.free = self.free.max(done);
        ended
    }

    /// The intervals.
    #[must_use]
    pub fn history(&self) -> &History {
        &self.history
    }

    /// Time at which the last request was done.
    #[must_use]
    pub fn end(&self) -> Nanos {
        self.free
    }

    /// Idle time in nanoseconds, all of it.
    #[must_use]
    pub fn idle(&self) -> Nanos {
        self.idle
    }

    /// Requests seen.
    #[must_use]
    pub fn requests(&self) -> u64 {
        self.requests
    }
}
