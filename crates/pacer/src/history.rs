//! The last idle intervals of a drive, in a ring of fixed size.

use crate::Nanos;

/// A stretch in which the drive had no foreground request.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Idle {
    /// Start, in nanoseconds.
    pub start: Nanos,
    /// Time of the foreground request that ended it.
    pub end: Nanos,
    /// The length that the auto-regressive predictor expected when it began, in nanoseconds.
    pub predicted: f32,
    /// Foreground requests that arrived from its end to the start of the next.
    pub arrivals: u32,
    /// The mood of the load when it began: a class of how many requests had come lately.
    pub mood: u8,
}

impl Idle {
    /// Its length in nanoseconds.
    #[must_use]
    pub fn length(&self) -> Nanos {
        self.end.saturating_sub(self.start)
    }
}

/// A window of recent idle intervals. Memory is taken once, when it is made.
#[derive(Debug, Clone)]
pub struct History {
    ring: Vec<Idle>,
    capacity: usize,
    next: usize,
    arrivals: u64,
}

impl History {
    /// An empty window of at most `capacity` intervals (at least 1).
    #[must_use]
    pub fn new(capacity: usize) -> Self {
        let capacity = capacity.max(1);
        Self { ring: Vec::with_capacity(capacity), capacity, next: 0, arrivals: 0 }
    }

    /// Adds an interval; the oldest leaves when the window is full.
    pub fn push(&mut self, idle: Idle) {
        self.arrivals += u64::from(idle.arrivals);
        if self.ring.len() < self.capacity {
            self.ring.push(idle);
        } else {
            self.arrivals -= u64::from(self.ring[self.next].arrivals);
            self.ring[self.next] = idle;
        }
        self.next = (self.next + 1) % self.capacity;
    }

    /// One more foreground request arrived after the last interval.
    pub fn arrived(&mut self) {
        let last = (self.next + self.capacity - 1) % self.capacity;
        if let Some(idle) = self.ring.get_mut(last) {
            idle.arrivals += 1;
            self.arrivals += 1;
        }
    }

    /// The intervals, in no particular order.
    #[must_use]
    pub fn intervals(&self) -> &[Idle] {
        &self.ring
    }

    /// Foreground requests in the window.
    #[must_use]
    pub fn arrivals(&self) -> u64 {
        self.arrivals
    }

    /// Squared coefficient of variation of the lengths: 1 for memoryless arrivals, where waiting
    /// teaches nothing; 0 with fewer than two.
    #[must_use]
    pub fn variability(&self) -> f64 {
        let n = self.ring.len() as f64;
        if n < 2.0 {
            return 0.0;
        }
        let mean = self.ring.iter().map(|i| i.length() as f64).sum::<f64>() / n;
        let var = self.ring.iter().map(|i| (i.length() as f64 - mean).powi(2)).sum::<f64>() / (n - 1.0);
        if mean > 0.0 { var / (mean * mean) } else { 0.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_leaves() {
        let mut history = History::new(2);
        for i in 1..=3 {
            history.push(Idle { start: 0, end: i, predicted: 0.0, arrivals: 1, mood: 0 });
            history.arrived();
        }
        assert_eq!(history.arrivals(), 4);
        let mut lengths: Vec<_> = history.intervals().iter().map(Idle::length).collect();
        lengths.sort_unstable();
        assert_eq!(lengths, [2, 3]);
    }

    #[test]
    fn equal_intervals_do_not_vary() {
        let mut history = History::new(8);
        (0..8).for_each(|_| history.push(Idle { start: 5, end: 10, predicted: 0.0, arrivals: 1, mood: 0 }));
        assert!(history.variability().abs() < 1e-12);
    }
}
